//! Arithmetic in values: `iodepth=(2*4)`, as fio built with it takes them.

/// Parentheses within each other at most.
const DEEPEST: u32 = 32;

/// Returns the value of an expression in parentheses, whose numbers `number` reads; none if it is
/// no expression.
pub(super) fn value(text: &str, number: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let mut rest = text;
    let found = factor(&mut rest, &number, 0)?;
    (rest.trim().is_empty() && found.is_finite()).then_some(found)
}

/// Takes one of these characters.
fn take(rest: &mut &str, wanted: &[char]) -> Option<char> {
    let text = rest.trim_start();
    let found = text.chars().next().filter(|found| wanted.contains(found))?;
    *rest = &text[found.len_utf8()..];
    Some(found)
}

fn sum(rest: &mut &str, number: &impl Fn(&str) -> Option<f64>, depth: u32) -> Option<f64> {
    let mut found = product(rest, number, depth)?;
    while let Some(sign) = take(rest, &['+', '-']) {
        let next = product(rest, number, depth)?;
        found = if sign == '+' { found + next } else { found - next };
    }
    Some(found)
}

fn product(rest: &mut &str, number: &impl Fn(&str) -> Option<f64>, depth: u32) -> Option<f64> {
    let mut found = factor(rest, number, depth)?;
    while let Some(sign) = take(rest, &['*', '/', '%']) {
        let next = factor(rest, number, depth)?;
        found = match sign {
            '*' => found * next,
            '/' => found / next,
            _ => found % next,
        };
    }
    Some(found)
}

fn factor(rest: &mut &str, number: &impl Fn(&str) -> Option<f64>, depth: u32) -> Option<f64> {
    if depth > DEEPEST {
        return None;
    }
    if take(rest, &['-']).is_some() {
        return factor(rest, number, depth + 1).map(|found| -found);
    }
    if take(rest, &['(']).is_some() {
        let found = sum(rest, number, depth + 1)?;
        return take(rest, &[')']).map(|_| found);
    }
    let text = rest.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(text.len());
    *rest = &text[end..];
    number(&text[..end])
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn expressions_have_their_value_or_none() {
        let found = |text: &str| value(text, |number| number.parse().ok());
        assert_eq!(found("(2*4)"), Some(8.0));
        assert_eq!(found("(1 + 2 * 3)"), Some(7.0));
        assert_eq!(found("((1+2)*3 - 10/4)"), Some(6.5));
        assert_eq!(found("(-3 + 11 % 4)"), Some(0.0));
        for wrong in ["(2*4", "(2*)", "()", "(1/0)", "(2) 3", "(2 ** 3)", "(a)"] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
        assert_eq!(found(&"(".repeat(100_000)), None);
        assert_eq!(found(&format!("({}1)", "-".repeat(100_000))), None);
    }
}

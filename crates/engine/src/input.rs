//! Reading descriptions that people write: TOML, with errors that name the file, the line and what
//! was expected.

use std::ops::Range;

use serde::de::DeserializeOwned;

use crate::toml_path::{name_of, value_at};

/// A description as it was written, with the name to use in errors.
#[derive(Clone, Debug)]
pub struct Input {
    /// File name, or another name for where the text comes from.
    pub name: String,
    /// Text of the file, as TOML.
    pub text: String,
}

/// An error in a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}{}: {message}", .line.map(|n| format!(":{n}")).unwrap_or_default())]
pub struct InputError {
    /// Name of the file.
    pub name: String,
    /// The line, from 1, where one can be named.
    pub line: Option<usize>,
    /// Message of one line: the value found and the values allowed.
    pub message: String,
}

impl Input {
    /// A description from memory.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Input {
        Input { name: name.into(), text: text.into() }
    }

    /// Parses the text. Unknown keys are refused if `T` refuses them.
    ///
    /// # Errors
    /// What is wrong, where, and for a misspelt key the nearest that exists.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, InputError> {
        crate::node::read(&self.text).map_err(|misfit| {
            let message = with_suggestion(&misfit.message);
            match misfit.span {
                Some(span) => self.error_at(&span, message),
                None => InputError { name: self.name.clone(), line: None, message },
            }
        })
    }

    /// An error at a span of bytes of the text.
    #[must_use]
    pub fn error_at(&self, span: &Range<usize>, message: impl Into<String>) -> InputError {
        // For a span that begins outside the text or within a letter the last line is named; a
        // slice would panic.
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        InputError { name: self.name.clone(), line: Some(line), message: message.into() }
    }
}

impl Input {
    /// An error at the value of a key (`package.r_mohm`, or `machines.2.workers` of the third table
    /// of an array), naming it; at the nearest part of its path that is there.
    #[must_use]
    pub fn error_at_key(&self, path: &str, message: &str) -> InputError {
        let message = format!("{path}: {message}");
        let document = toml_edit::Document::parse(self.text.as_str()).ok();
        let mut span = None;
        let mut item = document.as_ref().map(|d| d.as_item());
        for key in path.split('.') {
            item = item.and_then(|i| match key.parse::<usize>() {
                Ok(place) => i.get(place).or_else(|| i.get(key)),
                Err(_) => i.get(key),
            });
            // The last part that is there keeps its place: a missing key is shown at its table.
            span = item.and_then(toml_edit::Item::span).or(span);
        }
        match span {
            Some(span) => self.error_at(&span, message),
            None => InputError { name: self.name.clone(), line: None, message },
        }
    }
}

/// The text with the value at `path` (`gating.wake_up_ns`) replaced; lines stay where they were.
///
/// # Errors
/// If there is no such key yet (with the nearest that exists), or `value` is not TOML.
pub fn set_value(input: &Input, path: &str, value: &str) -> Result<Input, InputError> {
    Template::parse(input.clone())?.with([(path, value)])
}

/// A description that was parsed once, to be written again and again with other values: a study
/// asks for thousands.
#[derive(Clone, Debug)]
pub struct Template {
    input: Input,
    /// The text with the place of each value.
    document: toml_edit::Document<String>,
}

impl Template {
    /// Parses a description.
    ///
    /// # Errors
    /// If it is no TOML, with its line.
    pub fn parse(input: Input) -> Result<Template, InputError> {
        // The editing parser panics on some texts that are no TOML (fuzzing found one); this one
        // says what is wrong with them, and where.
        input.parse::<toml::Table>()?;
        let document = toml_edit::Document::parse(input.text.clone());
        let document = document.map_err(|e| InputError {
            name: input.name.clone(),
            line: None,
            message: one_line(e.message()),
        })?;
        Ok(Template { input, document })
    }

    /// The description as it was written.
    #[must_use]
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// Returns whether the description has a value at `path`.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        path.split('.').try_fold(self.document.as_item(), |item, key| item.get(key)).is_some()
    }

    /// The description with the values at these paths replaced; lines stay where they were.
    ///
    /// # Errors
    /// If there is no such key yet, with the nearest that exists.
    pub fn with<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Input, InputError> {
        let mut name = self.input.name.clone();
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        let mut values = values.into_iter();
        for (path, value) in values.by_ref() {
            let fail = |message| InputError { name: name.clone(), line: None, message };
            let span = value_at(self.document.as_table(), path).map_err(fail)?.span();
            let span = span.expect("a document that was only parsed has all places");
            name += &format!(" with {path}={value}");
            let mut new = parsed_value(value);
            new.decor_mut().clear();
            let is_apart = |(other, _): &(Range<usize>, String)| {
                other.end <= span.start || span.end <= other.start
            };
            let is_alone = changes.iter().all(is_apart);
            changes.push((span, new.to_string()));
            if !is_alone {
                // A value within another one that is replaced, or one that is replaced twice: they
                // are set one after the other.
                let (_, new) = changes.pop().expect("it was pushed");
                let before = Template::parse(Input { name, text: self.replaced(changes) })?;
                let set = before.with([(path, new.as_str())])?;
                return Template::parse(Input { name: before.input.name, ..set })?.with(values);
            }
        }
        Ok(Input { name, text: self.replaced(changes) })
    }

    /// Returns the text with these places, which do not overlap, replaced.
    fn replaced(&self, mut changes: Vec<(Range<usize>, String)>) -> String {
        changes.sort_by_key(|(span, _)| span.start);
        let (mut text, mut at) = (String::with_capacity(self.input.text.len() + 64), 0);
        for (span, new) in changes {
            text += &self.input.text[at..span.start];
            text += &new;
            at = span.end;
        }
        text + &self.input.text[at..]
    }
}

/// Change to a value of a description.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Another value, as TOML.
    To(String),
    /// A number, times this; each one of a list.
    Times(f64),
    /// The value at another path.
    As(String),
}

impl Template {
    /// The description with values changed, and how many there were to change: a `*` in a path
    /// stands for any part of a key, or for each element of a list. A table of a list also goes by
    /// its `name`.
    ///
    /// # Errors
    /// If what is to be multiplied is no number, or what is to be copied is not there.
    pub fn changed(&self, changes: &[(&str, Change)]) -> Result<(Input, usize), InputError> {
        let mut document = self.document.clone().into_mut();
        let mut count = 0;
        for (path, change) in changes {
            let fail = |message: String| InputError {
                name: self.input.name.clone(),
                line: None,
                message: format!("{path}: {message}"),
            };
            let new = match change {
                Change::To(text) => Some(parsed_value(text)),
                Change::Times(_) => None,
                Change::As(from) => {
                    // The value comes from the description as it was written, whatever earlier
                    // changes did.
                    Some(value_at(self.document.as_table(), from).map_err(fail)?.clone())
                }
            };
            let keys: Vec<&str> = path.split('.').collect();
            let mut wrong = false;
            visit(document.as_item_mut(), &keys, &mut |value| {
                count += 1;
                let decor = value.decor().clone();
                match (&new, change) {
                    (Some(new), _) => *value = new.clone(),
                    (None, Change::Times(by)) => wrong |= !multiply(value, *by),
                    (None, _) => {}
                }
                *value.decor_mut() = decor;
            });
            if wrong {
                return Err(fail("not a number, so it cannot be multiplied".into()));
            }
        }
        Ok((Input { name: self.input.name.clone(), text: document.to_string() }, count))
    }
}

/// Calls with each value at a path.
fn visit(item: &mut toml_edit::Item, keys: &[&str], act: &mut dyn FnMut(&mut toml_edit::Value)) {
    let Some((key, rest)) = keys.split_first() else {
        if let Some(value) = item.as_value_mut() {
            act(value);
        }
        return;
    };
    if let Some(tables) = item.as_array_of_tables_mut() {
        let each = tables.iter_mut().enumerate();
        for (_, table) in each.filter(|(n, table)| is_meant(key, *n, *table)) {
            visit_table(table, rest, act);
        }
    } else if let Some(table) = item.as_table_like_mut() {
        for (_, inner) in table.iter_mut().filter(|(name, _)| matches(key, name.get())) {
            visit(inner, rest, act);
        }
    } else if let Some(list) = item.as_array_mut() {
        let meant = |n, value: &toml_edit::Value| match value.as_inline_table() {
            Some(table) => is_meant(key, n, table),
            None => matches(key, &n.to_string()),
        };
        for (_, value) in list.iter_mut().enumerate().filter(|(n, value)| meant(*n, value)) {
            visit_value(value, rest, act);
        }
    }
}

/// Returns whether a pattern means this table of a list, by its place or its name.
fn is_meant(pattern: &str, place: usize, table: &dyn toml_edit::TableLike) -> bool {
    matches(pattern, &place.to_string())
        || name_of(table).is_some_and(|name| matches(pattern, &name))
}

fn visit_table(
    table: &mut dyn toml_edit::TableLike,
    keys: &[&str],
    act: &mut dyn FnMut(&mut toml_edit::Value),
) {
    let Some((key, rest)) = keys.split_first() else { return };
    for (_, inner) in table.iter_mut().filter(|(name, _)| matches(key, name.get())) {
        visit(inner, rest, act);
    }
}

/// Visits the values within a list or an inline table, as `visit` does for tables.
fn visit_value(
    value: &mut toml_edit::Value,
    keys: &[&str],
    act: &mut dyn FnMut(&mut toml_edit::Value),
) {
    match (value, keys) {
        (value, []) => act(value),
        (toml_edit::Value::InlineTable(table), keys) => visit_table(table, keys, act),
        _ => {}
    }
}

/// Returns whether a name matches a pattern, in which one `*` stands for any letters.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            // Without the length, `ab*ba` would match `aba`, in which head and tail overlap.
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    }
}

/// Multiplies a number, or each one of a list; false if there is none. A whole number stays whole
/// where the product is.
fn multiply(value: &mut toml_edit::Value, by: f64) -> bool {
    match value {
        toml_edit::Value::Integer(n) => {
            let product = *n.value() as f64 * by;
            // Below 2^53 (9.007e15) each whole number is exact in an f64.
            let whole = product.fract() == 0.0 && product.abs() < 9e15;
            *value = if whole { (product as i64).into() } else { product.into() };
            true
        }
        toml_edit::Value::Float(n) => {
            *value = (*n.value() * by).into();
            true
        }
        toml_edit::Value::Array(list) => {
            let each: Vec<bool> = list.iter_mut().map(|value| multiply(value, by)).collect();
            !each.is_empty() && each.into_iter().all(|done| done)
        }
        _ => false,
    }
}

/// Parses a value. Text that is not a number, a list or a quoted string is a string without quotes.
fn parsed_value(value: &str) -> toml_edit::Value {
    let is_value = toml::from_str::<toml::Table>(&format!("value = {value}"));
    let parsed: Option<toml_edit::Value> =
        // A line break in the text could add further keys; with one key alone, all of it is the
        // value.
        is_value.ok().filter(|table| table.len() == 1).and_then(|_| value.parse().ok());
    parsed.unwrap_or_else(|| value.into())
}

/// The name most like `wanted`, unless none is like it at all: few letters wrong or exchanged, or
/// cut short.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (wanted.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter_map(|name| {
            let distance = strsim::damerau_levenshtein(wanted, name);
            let cut_short = wanted.len() >= 2 && name.starts_with(wanted);
            (distance <= allowed || cut_short).then_some((distance, name))
        })
        .min()
        .map(|(_, name)| name)
}

/// Adds the nearest name to serde's "unknown field" and "unknown variant".
fn with_suggestion(message: &str) -> String {
    let message = one_line(message).replace(
        "invalid socket address syntax",
        "found no IP address with a port, expected one as 127.0.0.1:8080",
    );
    if !message.starts_with("unknown ") {
        return message;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(wanted) = quoted.next() else { return message };
    match nearest(wanted, quoted) {
        Some(name) => format!("{message}; did you mean `{name}`?"),
        None => message,
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Cache {
        size: String,
        ways: u32,
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_line_and_neighbour() {
        let input = Input::new("m.toml", "# comment\nsize = \"32KB\"\nwasy = 8\n");
        let error = input.parse::<Cache>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "m.toml:3: unknown field `wasy`, expected `size` or `ways`; did you mean `ways`?"
        );
    }

    #[test]
    fn values_are_changed_by_pattern() {
        let text = "a = 2 # two\n[[b]]\nx = 1.5\ny = [1, 2]\n[[b]]\nx = 3\n[c]\nd = [{ e = 4 }]\n";
        let template = Template::parse(Input::new("m.toml", text)).unwrap();
        let changed = |path, change| template.changed(&[(path, change)]).unwrap();
        let (input, count) = changed("b.*.x", Change::Times(3.0));
        assert_eq!((count, input.text), (2, text.replace("1.5", "4.5").replace("x = 3", "x = 9")));
        let (input, count) = changed("b.1.x", Change::As("a".into()));
        assert_eq!((count, input.text), (1, text.replace("x = 3", "x = 2")));
        let (input, count) = changed("c.d.*.e", Change::To("\"f\"".into()));
        assert_eq!((count, input.text), (1, text.replace("e = 4", "e = \"f\"")));
        let (input, count) = changed("b.*.y", Change::Times(0.5));
        assert_eq!((count, input.text), (1, text.replace("[1, 2]", "[0.5, 1]")));
        let (input, count) = changed("a*", Change::To("7".into()));
        assert_eq!((count, input.text), (1, text.replace("a = 2", "a = 7")));
        assert_eq!(changed("nothing.there", Change::Times(2.0)).1, 0);
        let error = template.changed(&[("c.d", Change::Times(2.0))]).unwrap_err();
        assert_eq!(error.to_string(), "m.toml: c.d: not a number, so it cannot be multiplied");
        assert!(template.changed(&[("a", Change::As("z".into()))]).is_err());
    }

    /// Found by fuzzing: the editing parser panics on these.
    #[test]
    fn what_is_no_toml_cannot_be_set() {
        let odd = "==#\n.=.#\0";
        assert!(set_value(&Input::new("m.toml", odd), "a", "1").is_err());
        let sound = set_value(&Input::new("m.toml", "a = 1\n"), "a", odd).unwrap();
        assert!(sound.parse::<toml::Table>().is_ok());
    }

    #[test]
    fn a_wrong_type_is_one_line() {
        let error = Input::new("m.toml", "size = 3\nways = 8\n").parse::<Cache>().unwrap_err();
        assert_eq!(error.line, Some(1));
        assert!(!error.to_string().contains('\n'), "{error}");
    }

    #[test]
    fn an_error_at_a_key_has_its_line() {
        let input = Input::new("m.toml", "[l1]\nsize = \"32KB\"\nways = 8\n");
        let line = |path| input.error_at_key(path, "wrong").to_string();
        assert_eq!(line("l1.ways"), "m.toml:3: l1.ways: wrong");
        assert_eq!(line("l1.sets"), "m.toml:1: l1.sets: wrong");
        assert_eq!(line("l2.ways"), "m.toml: l2.ways: wrong");
    }

    #[test]
    fn values_of_inline_tables_are_replaced_too() {
        let input = Input::new("a.toml", "[work]\nsize = { law = \"fixed\", value = 3.0 }\n");
        let set = set_value(&input, "work.size.value", "4.5").unwrap();
        assert_eq!(set.text, "[work]\nsize = { law = \"fixed\", value = 4.5 }\n");
        let wrong = set_value(&input, "work.size.valu", "4.5").unwrap_err().to_string();
        assert!(wrong.contains("did you mean `value`"), "{wrong}");
    }

    #[test]
    fn tables_of_a_list_go_by_their_name_or_place() {
        let text = "[[s]]\nname = \"c1e\" # one\nexit = 2.0\n[[s]]\nname = \"c6\"\nexit = 290.0\n\
                    loses = { l2 = true }\n[w]\n\
                    e = [{ name = \"a\", x = 1 }, { name = \"b\", x = 2 }]\n\
                    p = [{ x = 1 }, { x = 2 }]\nq = [1, 2]\n";
        let input = Input::new("m.toml", text);
        let set = |path, value| set_value(&input, path, value).map(|input| input.text);
        assert_eq!(set("s.c6.exit", "170").unwrap(), text.replace("290.0", "170"));
        assert_eq!(set("s.0.exit", "3").unwrap(), text.replace("exit = 2.0", "exit = 3"));
        assert_eq!(set("s.c6.loses.l2", "false").unwrap(), text.replace("true", "false"));
        assert_eq!(set("w.e.b.x", "7").unwrap(), text.replace("x = 2 }]\np", "x = 7 }]\np"));
        assert_eq!(set("w.p.1.x", "7").unwrap(), text.replace("x = 2 }]\nq", "x = 7 }]\nq"));
        assert_eq!(set("w.q", "[3]").unwrap(), text.replace("[1, 2]", "[3]"));
        let error = |path| set(path, "1").unwrap_err().to_string();
        assert_eq!(error("s.c7.exit"), "m.toml: no `c7` in s; did you mean `c6`?");
        assert_eq!(error("s.deep.exit"), "m.toml: no `deep` in s; it has c1e, c6");
        assert_eq!(error("s.2.exit"), "m.toml: no `2` in s; it has c1e, c6");
        assert_eq!(error("w.p.2.x"), "m.toml: no place `2` in w.p; it has 0 to 1");
        assert_eq!(error("s.c6.exi"), "m.toml: unknown key `exi` in s.c6; did you mean `exit`?");
        let whole = "`s.c6` is a table; name one of its keys: name, exit, loses";
        assert_eq!(error("s.c6"), format!("m.toml: {whole}"));
        assert_eq!(error("w.q.0.x"), "m.toml: `w.q` is a value and has no `0`");
        assert!(error("w").starts_with("m.toml: `w` is a table; name one of its keys: "));
        let template = Template::parse(input.clone()).unwrap();
        let (changed, count) = template.changed(&[("s.c*.exit", Change::Times(2.0))]).unwrap();
        assert_eq!((count, changed.text.contains("580")), (2, true));
        assert_eq!(template.changed(&[("w.e.b.x", Change::Times(2.0))]).unwrap().1, 1);
    }

    #[test]
    fn values_are_replaced_in_place() {
        let input = Input::new("m.toml", "[l1]\nsize = \"32KB\" # kept\nways = 8\n");
        let changed = set_value(&input, "l1.ways", "4").unwrap();
        assert_eq!(changed.text, "[l1]\nsize = \"32KB\" # kept\nways = 4\n");
        let changed = set_value(&input, "l1.size", "64KB").unwrap();
        assert!(changed.text.contains("size = \"64KB\" # kept"), "{}", changed.text);
        let error = set_value(&input, "l1.way", "4").unwrap_err();
        assert_eq!(error.to_string(), "m.toml: unknown key `way` in l1; did you mean `ways`?");
        assert!(set_value(&input, "l2.ways", "4").is_err());
    }

    #[test]
    fn values_within_each_other_are_set_one_after_the_other() {
        let text = "a = 1 # one\nt = { x = 1, y = [1, 2] } # two\nb = 2\n";
        let template = Template::parse(Input::new("m", text)).unwrap();
        let set = |values: &[(&str, &str)]| template.with(values.iter().copied());
        for (values, expected) in [
            (
                &[("b", "3"), ("a", "4")][..],
                "a = 4 # one\nt = { x = 1, y = [1, 2] } # two\nb = 3\n",
            ),
            (
                &[("a", "4"), ("a", "5"), ("b", "6")],
                "a = 5 # one\nt = { x = 1, y = [1, 2] } # two\nb = 6\n",
            ),
            (
                &[("t", "{ x = 5 }"), ("t.x", "7"), ("a", "2")],
                "a = 2 # one\nt = { x = 7 } # two\nb = 2\n",
            ),
            (&[("t.x", "7"), ("t.y", "[]")], "a = 1 # one\nt = { x = 7, y = [] } # two\nb = 2\n"),
            (&[("t.x", "7"), ("t", "{ z = 1 }")], "a = 1 # one\nt = { z = 1 } # two\nb = 2\n"),
        ] {
            let found = set(values).unwrap();
            assert_eq!(found.text, expected);
            let said: Vec<String> =
                values.iter().map(|(path, v)| format!(" with {path}={v}")).collect();
            assert_eq!(found.name, format!("m{}", said.concat()));
        }
        let error = set(&[("t", "{ z = 5 }"), ("t.x", "7")]).unwrap_err().to_string();
        assert!(error.contains("unknown key `t.x`") || error.contains("`x`"), "{error}");
    }

    #[test]
    fn far_names_are_not_suggested() {
        assert_eq!(nearest("tpa", ["tap", "oracle"]), Some("tap"));
        assert_eq!(nearest("memc", ["memcached", "redis"]), Some("memcached"));
        assert_eq!(nearest("xyzzy", ["tap", "oracle"]), None);
    }
}

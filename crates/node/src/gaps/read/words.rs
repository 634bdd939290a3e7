//! Numbers and times in lines of recordings.

use super::EXIT;

/// The time that stands before an event's name, in nanoseconds: `12.345678: power:`.
pub(super) fn stamp(before: &[u8]) -> Option<u64> {
    let before =
        before.strip_suffix(b"power:").or(before.strip_suffix(b"sched:")).unwrap_or(before);
    let mut before = before.trim_ascii_end();
    // With the field `period` its number stands between time and event.
    if before.last().is_some_and(u8::is_ascii_digit) {
        let end = before.iter().rposition(|byte| !byte.is_ascii_digit())? + 1;
        before = before[..end].trim_ascii_end();
    }
    let before = before.strip_suffix(b":")?;
    let from = before.iter().rposition(|b| !b.is_ascii_digit() && *b != b'.')? + 1;
    // The end of `1e308.5` or `1,234.5` is no time.
    if from > 0 && !before[from - 1].is_ascii_whitespace() {
        return None;
    }
    let stamp = &before[from..];
    let point = stamp.iter().position(|&byte| byte == b'.')?;
    let (seconds, fraction) = (number(&stamp[..point])?, &stamp[point + 1..]);
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(number(fraction)? * scale)
}

/// The number in the last brackets: `[003]`.
pub(super) fn cpu_of(before: &[u8]) -> Option<u32> {
    let end = memchr::memrchr(b']', before)?;
    let begin = memchr::memrchr(b'[', &before[..end])?;
    u32::try_from(number(&before[begin + 1..end])?).ok()
}

/// A cell of a table without blanks and quotes around it.
pub(super) fn bare(cell: &[u8]) -> &[u8] {
    let cell = cell.trim_ascii();
    let inside = cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\""));
    inside.unwrap_or(cell)
}

/// The number of a CPU, perhaps behind `cpu`, as the kernel names it.
pub(super) fn number_of_cpu(cell: &[u8]) -> Option<u64> {
    number(cell.strip_prefix(b"cpu").or(cell.strip_prefix(b"CPU")).unwrap_or(cell))
}

/// State and CPU where they stand as recorders write them: ` state=1 cpu_id=3`.
pub(super) fn state_and_cpu(fields: &[u8]) -> Option<(u64, u64)> {
    let (state, rest) = leading(fields.trim_ascii_start().strip_prefix(b"state=")?)?;
    let (cpu, _) = leading(rest.strip_prefix(b" cpu_id=")?)?;
    Some((state, cpu))
}

/// The number at the beginning, and what follows. Some recorders print numbers of 32 bits with a
/// sign: -1 for the exit of an idle state.
fn leading(text: &[u8]) -> Option<(u64, &[u8])> {
    let is_exit = |rest: &&[u8]| !rest.first().is_some_and(u8::is_ascii_digit);
    if let Some(rest) = text.strip_prefix(b"-1").filter(is_exit) {
        return Some((EXIT, rest));
    }
    let (found, rest) = digits(text);
    Some((number(found)?, rest))
}

/// Splits digits at the beginning off.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

/// The number behind a name.
pub(super) fn field(fields: &[u8], name: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(fields, name)? + name.len();
    leading(&fields[at..]).map(|(number, _)| number)
}

pub(super) fn number(digits: &[u8]) -> Option<u64> {
    // No step can overflow with up to 19 digits.
    let is_short = digits.len() < 20;
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if is_short {
            return Some(value * 10 + u64::from(digit));
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A time in units of so many nanoseconds, in whole ones.
pub(super) fn nanoseconds(cell: &[u8], scale: u64) -> Option<u64> {
    if scale == 1 {
        return number(cell);
    }
    if let Some(ns) = whole_nanoseconds(cell, scale) {
        return Some(ns);
    }
    // A comma here separates no columns, so that it begins a fraction.
    let value: f64 = std::str::from_utf8(cell).ok()?.replacen(',', ".", 1).parse().ok()?;
    let ns = (value * scale as f64).round();
    (0.0..=u64::MAX as f64).contains(&ns).then_some(ns as u64)
}

/// A decimal time that is a whole number of nanoseconds and below 2^51 of them: up to there the
/// nearest floating-point number, scaled and rounded, is the same.
fn whole_nanoseconds(cell: &[u8], scale: u64) -> Option<u64> {
    let (whole, rest) = digits(cell);
    let fraction = match rest.split_first() {
        None => 0,
        Some((b'.', fraction)) if fraction.len() <= 9 => {
            let unit = 10_u64.pow(fraction.len() as u32);
            if !scale.is_multiple_of(unit) {
                return None;
            }
            number(fraction)? * (scale / unit)
        }
        Some(_) => return None,
    };
    let ns = number(whole)?.checked_mul(scale)?.checked_add(fraction)?;
    (ns < 1 << 51).then_some(ns)
}

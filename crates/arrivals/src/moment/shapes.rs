//! Dates in the shapes that most logs have, read without an allocation.
//!
//! All other dates are read by jiff, which accepts these too. Its parsers describe each failure on
//! the heap, which costs ten times as much as a date that fits.

use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::{since_1970, When};

/// Shapes of dates. Letters are those of strftime, `e` is a day of one digit or two; all else
/// stands for itself. Behind the seconds may be a fraction, and an offset behind all.
const SHAPES: [&[u8]; 9] = [
    b"d/b/Y:H:M:S",
    b"Y-m-dTH:M:S",
    b"Y-m-d H:M:S",
    b"Y/m/d H:M:S",
    b"d.m.Y H:M:S",
    // BIND.
    b"d-b-Y H:M:S",
    // asctime(3), RFC 9110, and syslog with a year between.
    b"a b e H:M:S Y",
    b"a, d b Y H:M:S",
    b"b d Y H:M:S",
];
/// Place of the first shape that begins with a name.
const NAMES: usize = 6;
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
const WEEKDAYS: &[u8; 21] = b"MonTueWedThuFriSatSun";

/// Outcome of reading a text.
pub(super) enum Found {
    Date(When),
    /// The text begins with a date, and has something else behind it: no parser accepts it.
    Nothing,
    /// The text has another shape.
    Other,
}

/// Reads a date of common log format.
pub(super) fn common(text: &[u8]) -> Found {
    found(&SHAPES[..1], text, b".")
}

/// Reads a date of any shape.
pub(super) fn date(text: &[u8]) -> Found {
    let (numbers, names) = SHAPES.split_at(NAMES);
    match text.first() {
        // Some write the fraction behind a comma.
        Some(b'0'..=b'9') => found(numbers, text, b".,"),
        Some(b'A'..=b'Z') => found(names, text, b"."),
        _ => Found::Other,
    }
}

fn found(shapes: &[&[u8]], text: &[u8], points: &[u8]) -> Found {
    let mut all = shapes.iter().map(|shape| (shape, Parts::read(shape, text, points)));
    let Some((shape, Some((parts, rest)))) = all.find(|it| it.1.is_some()) else {
        return Found::Other;
    };
    match parts.when(shape, rest) {
        Some(when) => Found::Date(when),
        None if may_be_offset(rest) => Found::Other,
        None => Found::Nothing,
    }
}

/// Returns whether a text begins with the name of a month, or of a weekday.
pub(super) fn has_name(text: &str, of_weekday: bool) -> bool {
    let names = if of_weekday { &WEEKDAYS[..] } else { &MONTHS[..] };
    let front = text.as_bytes().get(..3).unwrap_or_default();
    names.chunks_exact(3).any(|name| name.eq_ignore_ascii_case(front))
}

/// Returns whether an offset, perhaps with the name of a zone in brackets, is all of a text.
fn may_be_offset(text: &[u8]) -> bool {
    let Some((b'Z' | b'z' | b'+' | b'-' | b'[', rest)) = text.trim_ascii_start().split_first()
    else {
        return text.is_empty();
    };
    let is_part = |byte: &u8| byte.is_ascii_digit() || b":.,".contains(byte);
    let behind = rest.iter().find(|byte| !is_part(byte));
    behind.is_none_or(|byte| *byte == b'[') || text.contains(&b'[')
}

/// Parts of a date.
#[derive(Default)]
struct Parts {
    year: u32,
    month: u32,
    day: u32,
    /// Days since Monday, if the weekday is written.
    weekday: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    /// Nanoseconds, if a fraction is written.
    fraction: Option<u32>,
}

impl Parts {
    /// Reads the beginning of a text in this shape, with one of `points` before the fraction, and
    /// returns what follows it.
    fn read<'a>(shape: &[u8], text: &'a [u8], points: &[u8]) -> Option<(Parts, &'a [u8])> {
        let (mut parts, mut rest) = (Parts::default(), text);
        for part in shape {
            match part {
                b'Y' => parts.year = digits(&mut rest, 4)?,
                b'm' => parts.month = digits(&mut rest, 2)?,
                b'd' => parts.day = digits(&mut rest, 2)?,
                b'e' => {
                    rest = rest.strip_prefix(b" ").unwrap_or(rest);
                    let width = if rest.get(1)?.is_ascii_digit() { 2 } else { 1 };
                    parts.day = digits(&mut rest, width)?;
                }
                b'b' => parts.month = 1 + name(&mut rest, MONTHS)?,
                b'a' => parts.weekday = Some(name(&mut rest, WEEKDAYS)?),
                b'H' => parts.hour = digits(&mut rest, 2)?,
                b'M' => parts.minute = digits(&mut rest, 2)?,
                b'S' => {
                    parts.second = digits(&mut rest, 2)?;
                    if rest.first().is_some_and(|byte| points.contains(byte)) {
                        parts.fraction = Some(nanoseconds(&mut rest)?);
                    }
                }
                mark => rest = rest.strip_prefix(&[*mark])?,
            }
        }
        Some((parts, rest))
    }

    /// The date with this offset.
    fn when(self, shape: &[u8], offset: &[u8]) -> Option<When> {
        let is_iso = shape.starts_with(b"Y-");
        let offset_s = match offset {
            [] => 0,
            b"Z" if is_iso => 0,
            [b' ', offset @ ..] if shape != SHAPES[1] => offset_s(offset, false)?,
            offset => offset_s(offset, is_iso)?,
        };
        let date = DateTime::new(
            self.year as i16,
            self.month as i8,
            self.day as i8,
            self.hour as i8,
            self.minute as i8,
            self.second as i8,
            self.fraction.unwrap_or(0) as i32,
        )
        .ok()?;
        let weekday = u32::from(date.weekday().to_monday_zero_offset().unsigned_abs());
        if self.weekday.is_some_and(|written| written != weekday) {
            return None;
        }
        let moment = Offset::from_seconds(offset_s).ok()?.to_timestamp(date).ok()?;
        Some(When::Date { s: since_1970(moment), is_exact: self.fraction.is_some() })
    }
}

/// Takes a number of so many digits off the front.
fn digits(rest: &mut &[u8], width: usize) -> Option<u32> {
    let (number, behind) = rest.split_at_checked(width)?;
    *rest = behind;
    number.iter().try_fold(0, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(10 * value + u32::from(digit))
    })
}

/// Takes a name of three letters off the front, and returns its place among all.
fn name(rest: &mut &[u8], all: &[u8]) -> Option<u32> {
    let (name, behind) = rest.split_at_checked(3)?;
    *rest = behind;
    all.chunks_exact(3).position(|it| it == name).map(|place| place as u32)
}

/// Takes a mark and a fraction of at most nine digits off the front.
fn nanoseconds(rest: &mut &[u8]) -> Option<u32> {
    let count = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    *rest = &rest[1..];
    let unit = 10_u32.pow(9_usize.checked_sub(count)? as u32);
    digits(rest, count).filter(|_| count > 0).map(|number| number * unit)
}

/// Seconds of an offset such as `+0100`, or `+01:00` where a colon may be.
fn offset_s(text: &[u8], may_have_colon: bool) -> Option<i32> {
    let (sign, mut rest) = text.split_first()?;
    let hours = digits(&mut rest, 2).filter(|hours| *hours < 24)?;
    rest = rest.strip_prefix(b":").filter(|_| may_have_colon).unwrap_or(rest);
    let minutes = digits(&mut rest, 2).filter(|minutes| *minutes < 60 && rest.is_empty())?;
    let s = (3600 * hours + 60 * minutes) as i32;
    match sign {
        b'+' => Some(s),
        b'-' => Some(-s),
        _ => None,
    }
}

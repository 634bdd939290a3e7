//! Times as they are written in logs.

mod shapes;

use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::Timestamp;

use self::shapes::Found;

/// Numbers of either sign, in any unit.
const FURTHEST: f64 = 1e20;
/// Seconds since 1970 are up to here (the year 5138); more are milliseconds, microseconds or
/// nanoseconds.
const FURTHEST_S: f64 = 1e11;

/// A time as it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum When {
    /// A number, in a unit that is not written.
    Number(f64),
    /// Seconds since 1970, or since midnight, and whether fractions of one were written.
    Date {
        /// Seconds.
        s: f64,
        /// Has digits behind the second.
        is_exact: bool,
    },
    /// A date between slashes, whose day may come before its month.
    Slashed {
        /// Seconds since 1970; of a date that fits both orders, with the month first.
        s: f64,
        /// Has digits behind the second.
        is_exact: bool,
        /// Order of day and month.
        order: Order,
    },
}

/// Order of day and month in a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    DayFirst,
    MonthFirst,
    /// Both are 12 at most.
    Either,
}

/// Units of the seconds that a number is.
pub(super) fn epoch_unit_s(number: f64) -> f64 {
    match number.abs() {
        n if n <= FURTHEST_S => 1.0,
        n if n <= 1e3 * FURTHEST_S => 1e-3,
        n if n <= 1e6 * FURTHEST_S => 1e-6,
        _ => 1e-9,
    }
}

impl When {
    /// Reads a number, a date and time (UTC unless it names an offset), or a time of day.
    pub(super) fn parse(text: &str) -> Option<When> {
        let text = text.trim();
        if let Ok(number) = text.parse::<f64>() {
            if let Some(when) = compact(text) {
                return Some(when);
            }
            return (number.abs() <= FURTHEST).then_some(When::Number(number));
        }
        match shapes::date(without_zone(text).as_bytes()) {
            Found::Date(when) => Some(when),
            Found::Nothing => None,
            Found::Other => When::of_other_shape(text),
        }
    }

    fn of_other_shape(text: &str) -> Option<When> {
        if !text.as_bytes().first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-') {
            return dated(text);
        }
        // Some write the fraction behind a comma.
        let comma = text.contains(',').then(|| text.replace(',', "."));
        let text = comma.as_deref().unwrap_or(text);
        if let Some(number) = comma.as_deref().and_then(|text| text.parse::<f64>().ok()) {
            return (number.abs() <= FURTHEST).then_some(When::Number(number));
        }
        let text = without_zone(text);
        let is_exact = text.contains('.');
        // Text that begins with neither a year nor an hour is not tried, since each failure of jiff
        // allocates: `2025-`, `20250303`, `-002025-`; `10:`, `10+`, `1000`, `100000`.
        let leading = text.bytes().take_while(u8::is_ascii_digit).count();
        let (has_year, has_hour) = match (leading, text.as_bytes().get(leading)) {
            (0, _) => (text.len() > 7, false),
            (2, behind) => (false, behind.is_none_or(|it| b":+-[".contains(it))),
            (4, behind) => (behind == Some(&b'-'), true),
            (6, _) => (false, true),
            (8, _) => (true, true),
            _ => (false, false),
        };
        let s = if let Some(moment) = parsed::<Timestamp>(text, has_year) {
            since_1970(moment)
        } else if let Some(moment) = parsed::<DateTime>(text, has_year) {
            since_1970(TimeZone::UTC.to_timestamp(moment).ok()?)
        } else if text.as_bytes().get(2) == Some(&b'/') || text.as_bytes().get(1) == Some(&b'/') {
            return common(text.as_bytes()).or_else(|| slashed(text)).or_else(|| dated(text));
        } else if let Some(time) = parsed(text, has_hour) {
            of_day(time)
        } else {
            return dated(text);
        };
        Some(When::Date { s, is_exact })
    }

    /// Returns whether it is a negative number: a mark of a time that is not known, or one before
    /// the beginning of a recording, which would widen the span of all others.
    pub(super) fn is_before_zero(self) -> bool {
        matches!(self, When::Number(number) if number < 0.0)
    }

    /// Seconds; a number that is no date in seconds is one in the next smaller unit that fits.
    pub(super) fn seconds(self) -> f64 {
        match self {
            When::Number(number) => number * epoch_unit_s(number),
            When::Date { s, .. } | When::Slashed { s, .. } => s,
        }
    }
}

/// Reads a time in any spelling, in seconds; none of a date whose day and month may be swapped.
/// With a clock of 12 hours the month comes first, since most who write one put it there.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let when = When::parse(text)?;
    let is_known = !matches!(when, When::Slashed { order: Order::Either, .. });
    (is_known || half_of_day(text).1.is_some()).then(|| when.seconds())
}

/// Reads `20250303100000.250`. Without a fraction it may be a number of nanoseconds.
fn compact(text: &str) -> Option<When> {
    let (whole, fraction) = text.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 14 || fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let s = of_compact(whole.parse().ok()?)?;
    Some(When::Date { s: s + format!("0.{fraction}").parse::<f64>().ok()?, is_exact: true })
}

/// Seconds since 1970 of a date whose digits are a number, 20250303100000.
pub(super) fn of_compact(number: u64) -> Option<f64> {
    let part = |unit: u64, of: u64| (number / unit % of) as i8;
    let year = i16::try_from(number / 10_000_000_000).ok()?;
    let (month, day) = (part(100_000_000, 100), part(1_000_000, 100));
    let (hour, minute, second) = (part(10_000, 100), part(100, 100), part(1, 100));
    // As for numbers that are seconds since 1970.
    let date = (1985..2129)
        .contains(&year)
        .then(|| DateTime::new(year, month, day, hour, minute, second, 0));
    Some(since_1970(TimeZone::UTC.to_timestamp(date?.ok()?).ok()?))
}

/// Returns a text without the `AM` or `PM` behind it, and the hours before that half of the day.
fn half_of_day(text: &str) -> (&str, Option<i8>) {
    let text = text.trim_end();
    let Some((before, mark)) = text.len().checked_sub(2).and_then(|at| text.split_at_checked(at))
    else {
        return (text, None);
    };
    match mark.to_ascii_uppercase().as_str() {
        "AM" => (before, Some(0)),
        "PM" => (before, Some(12)),
        _ => (text, None),
    }
}

/// Reads `13/03/2025 10:00:00` or `13/03/2025 10:00 PM`, with either the day or the month first; a
/// year of two digits is one of this century.
fn slashed(text: &str) -> Option<When> {
    let (text, half) = half_of_day(text);
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut parts = date.split('/');
    let mut part = || parts.next()?.parse::<i16>().ok();
    let (first, second, year) = (part()?, part()?, part()?);
    let year = if year < 100 { 2000 + year } else { year };
    let order = match (first, second) {
        (13.., _) => Order::DayFirst,
        (_, 13..) => Order::MonthFirst,
        _ => Order::Either,
    };
    let (month, day) = if order == Order::DayFirst { (second, first) } else { (first, second) };
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let mut time = time.trim();
    let padded = time.find(':').filter(|hour| *hour == 1).map(|_| format!("0{time}"));
    time = padded.as_deref().unwrap_or(time);
    let mut time: Time = parts.next().is_none().then(|| time.parse().ok()).flatten()?;
    if let Some(before) = half {
        // Noon and midnight are 12 on this clock.
        let hour = (1..=12).contains(&time.hour()).then(|| time.hour() % 12 + before)?;
        time = time.with().hour(hour).build().ok()?;
    }
    let s = since_1970(TimeZone::UTC.to_timestamp(date.to_datetime(time)).ok()?);
    Some(When::Slashed { s, is_exact: is_fraction(text), order })
}

/// Returns the date with day and month the other way round, if that is one.
pub(super) fn other_order(s: f64) -> Option<f64> {
    let date = TimeZone::UTC.to_datetime(Timestamp::from_second(s.floor() as i64).ok()?);
    let (month, day) = (date.month(), date.day());
    let other = date.with().month(day).day(month).build().ok()?;
    Some(since_1970(TimeZone::UTC.to_timestamp(other).ok()?) + (s - s.floor()))
}

/// Reads a text that may be of a type.
fn parsed<T: FromStr>(text: &str, may_be: bool) -> Option<T> {
    may_be.then(|| text.parse().ok()).flatten()
}

/// Removes the name of a zone that databases and Go write behind an offset, or alone.
fn without_zone(text: &str) -> &str {
    [" UTC", " GMT"].iter().find_map(|zone| text.strip_suffix(zone)).unwrap_or(text)
}

fn of_day(time: Time) -> f64 {
    let whole = 3600 * i32::from(time.hour()) + 60 * i32::from(time.minute());
    f64::from(whole + i32::from(time.second())) + f64::from(time.subsec_nanosecond()) * 1e-9
}

fn since_1970(moment: Timestamp) -> f64 {
    moment.as_second() as f64 + f64::from(moment.subsec_nanosecond()) * 1e-9
}

/// Dates that begin with a name or have other marks between their parts; UTC, unless an offset
/// stands behind.
const DATED: [&str; 10] = [
    // asctime(3): Apache's error log, uWSGI, `ab -g`.
    "%a %b %d %H:%M:%S%.f %Y",
    // RFC 9110.
    "%a, %d %b %Y %H:%M:%S%.f",
    "%b %d, %Y @ %H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
    "%d.%m.%Y %H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    // BIND.
    "%d-%b-%Y %H:%M:%S%.f",
    // Spreadsheets, without seconds.
    "%d.%m.%Y %H:%M",
    "%Y/%m/%d %H:%M",
    // syslog, with a year between.
    "%b %d %Y %H:%M:%S%.f",
];

fn dated(text: &str) -> Option<When> {
    if text.len() > 64 || !text.contains(':') {
        return None;
    }
    let bare = without_zone(text);
    let is_exact = is_fraction(bare);
    let has_offset = bare.rfind(['+', '-']) > bare.find(':');
    let s = DATED.iter().filter(|pattern| may_fit(pattern, bare)).find_map(|pattern| {
        let with_offset = has_offset.then(|| strtime::parse(format!("{pattern} %z"), bare));
        if let Some(Ok(parsed)) = with_offset {
            return parsed.to_timestamp().ok().map(since_1970);
        }
        let parsed = strtime::parse(pattern, bare).ok()?.to_datetime().ok()?;
        TimeZone::UTC.to_timestamp(parsed).ok().map(since_1970)
    })?;
    Some(When::Date { s, is_exact })
}

/// Returns whether a text has the marks of a pattern, and begins with a name if that does.
fn may_fit(pattern: &str, text: &str) -> bool {
    let marks = [b'/', b',', b'@', b'-'];
    let has = |mark: &u8| !pattern.as_bytes().contains(mark) || text.as_bytes().contains(mark);
    let begins_alike = match &pattern[..2] {
        "%a" => shapes::has_name(text, true),
        "%b" => shapes::has_name(text, false),
        _ => !text.starts_with(|first: char| first.is_ascii_alphabetic()),
    };
    begins_alike && marks.iter().all(has)
}

/// Returns true if digits stand behind the seconds.
fn is_fraction(text: &str) -> bool {
    let after = text.rsplit_once(':').map_or("", |(_, seconds)| seconds);
    after.split(' ').next().is_some_and(|seconds| seconds.contains('.'))
}

/// `10/Oct/2000:13:55:36 -0700`, perhaps with a fraction behind the second, perhaps without a zone
/// (UTC then); Python's servers have a blank before the hour.
pub(super) fn common(text: &[u8]) -> Option<When> {
    match shapes::common(text) {
        Found::Date(when) => Some(when),
        Found::Nothing => None,
        Found::Other => common_of_other_shape(text),
    }
}

fn common_of_other_shape(text: &[u8]) -> Option<When> {
    if !text.contains(&b'/') || !text.contains(&b':') {
        return None;
    }
    let s = match strtime::parse("%d/%b/%Y:%H:%M:%S%.f %z", text) {
        Ok(parsed) => since_1970(parsed.to_timestamp().ok()?),
        Err(_) => {
            let parsed = strtime::parse("%d/%b/%Y:%H:%M:%S%.f", text)
                .or_else(|_| strtime::parse("%d/%b/%Y %H:%M:%S%.f", text))
                .ok()?;
            since_1970(TimeZone::UTC.to_timestamp(parsed.to_datetime().ok()?).ok()?)
        }
    };
    Some(When::Date { s, is_exact: text.contains(&b'.') })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        assert_eq!(seconds(" 12.5 "), Some(12.5));
        assert_eq!(seconds("1998-04-30 21:30:00"), Some(893_971_800.0));
        assert_eq!(seconds("1998-04-30T23:30:00.25+02:00"), Some(893_971_800.25));
        assert_eq!(seconds("1998-04-30T21:30:00Z"), Some(893_971_800.0));
        assert_eq!(seconds("1998-04-30 21:30:00,25"), Some(893_971_800.25));
        assert_eq!(seconds("01:02"), Some(3720.0));
        for wrong in ["", "nan", "inf", "1e300", "1998-13-01 00:00:00", "25:00", "x"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        let date = |s, is_exact| Some(When::Date { s, is_exact });
        assert_eq!(common(b"10/Oct/2000:13:55:36 -0700"), date(971_211_336.0, false));
        assert_eq!(common(b"10/Oct/2000:13:55:36.5 -0700"), date(971_211_336.5, true));
        assert_eq!(common(b"10/Oct/2000:20:55:36"), date(971_211_336.0, false));
        assert_eq!(common(b"31/Feb/2000:13:55:36 -0700"), None);
    }

    #[test]
    fn dates_of_other_programs_are_read() {
        let s = 1_740_996_000.0;
        for text in [
            "Mon Mar  3 10:00:00 2025",
            "Mon Mar 03 10:00:00.0 2025",
            "Mon, 03 Mar 2025 10:00:00 GMT",
            "Mar 3, 2025 @ 10:00:00.000",
            "2025/03/03 10:00:00",
            "2025/03/03 11:00:00 +0100",
            "03.03.2025 10:00:00",
            "2025-03-03 10:00:00 UTC",
            "2025-03-03 10:00:00.0 +0000 UTC",
            "2025-03-03 12:00:00 +0200",
            "2025-03-03T10:00:00+0000",
            "3/3/2025 10:00:00 AM",
            "03.03.2025 10:00",
            "2025/03/03 10:00",
            "3/3/2025 10:00 AM",
            "3/3/2025 10:00:00.0am",
            "Mar 3 2025 10:00:00",
            "03/Mar/2025 10:00:00",
            "03-Mar-2025 10:00:00.000",
        ] {
            assert_eq!(seconds(text), Some(s), "{text}");
        }
        assert_eq!(seconds("0,25"), Some(0.25));
        assert_eq!(seconds("12.4 GB:1"), None);
        // Months and days of these may be in either order.
        assert_eq!(seconds("04/03/2025 10:00"), None);
        assert_eq!(seconds("13/03/2025 10:00"), Some(s + 10.0 * 86_400.0));
        assert_eq!(seconds("03/13/25 10:00:00"), Some(s + 10.0 * 86_400.0));
        assert_eq!(seconds("13/03/2025 1:00 PM"), Some(s + 10.0 * 86_400.0 + 3.0 * 3600.0));
        assert_eq!(seconds("04/03/2025 12:00:00 AM"), seconds("2025-04-03 00:00:00"));
        assert_eq!(seconds("04/03/2025 12:00:00 PM"), seconds("2025-04-03 12:00:00"));
        for wrong in ["13/03/2025 13:00 PM", "13/03/2025 0:00 AM", "13/13/2025 1:00 AM", "PM"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(other_order(s + 86_400.0), seconds("2025-04-03 10:00"));
        assert_eq!(other_order(s + 10.0 * 86_400.0), None);
        assert_eq!(seconds("20250303100000.25"), Some(s + 0.25));
        assert!(matches!(When::parse("20250303100061.25"), Some(When::Number(_))));
        assert_eq!(of_compact(20_250_303_100_000), Some(s));
    }

    /// A date as jiff alone reads it, with every pattern tried on every text.
    fn by_jiff(text: &str) -> Option<f64> {
        let begins_with_digit = text.starts_with(|first: char| first.is_ascii_digit());
        let text = if begins_with_digit { text.replace(',', ".") } else { text.to_owned() };
        let text = without_zone(&text);
        let utc = |date| TimeZone::UTC.to_timestamp(date).ok();
        let civil = |text: &str| text.parse::<DateTime>().ok().and_then(utc);
        let iso = begins_with_digit.then(|| text.parse().ok().or_else(|| civil(text))).flatten();
        let in_common = ["%d/%b/%Y:%H:%M:%S%.f", "%d/%b/%Y %H:%M:%S%.f"];
        let dated = || {
            in_common.iter().chain(&DATED).find_map(|pattern| {
                let with_offset = strtime::parse(format!("{pattern} %z"), text);
                let with_offset = with_offset.and_then(|it| it.to_timestamp()).ok();
                // Servers in Python write no offset.
                let with_offset = with_offset.filter(|_| *pattern != in_common[1]);
                let alone = || strtime::parse(pattern, text).ok()?.to_datetime().ok();
                with_offset.or_else(|| alone().and_then(utc))
            })
        };
        let time = || text.parse().ok().filter(|_| begins_with_digit).map(of_day);
        iso.map(since_1970).or_else(time).or_else(|| dated().map(since_1970))
    }

    #[test]
    fn dates_of_every_shape_are_those_that_jiff_reads() {
        let fronts = [
            "2025-03-03T",
            "2025-03-03 ",
            "20250303T",
            "2025-02-29T",
            "03/Mar/2025:",
            "3/Mar/2025:",
            "31/Feb/2025:",
            "03/mar/2025 ",
            "2025/03/03 ",
            "03.03.2025 ",
            "03-Mar-2025 ",
            "Mon, 03 Mar 2025 ",
            "Tue, 03 Mar 2025 ",
            "Mar 03 2025 ",
            "Mar 3 1965 ",
            "Mar 3, 2025 @ ",
            "",
        ];
        let times = ["10:00:00", "10:00:60", "10:00:61", "24:00:00", "10:00", "1000", "10"];
        let fractions = ["", ".", ".5", ",25", ".123456789", ".1234567890"];
        let ends = [
            "",
            "Z",
            "z",
            " Z",
            "+01:00",
            "+0100",
            "-0000",
            " +0100",
            " -01:30",
            "+01",
            " +2500",
            " UTC",
            " GMT",
            "+0100 UTC",
            "[UTC]",
            "+00:00[UTC]",
            " x",
            " +0100 x",
            " 7",
            "+0160",
        ];
        let mut read = 0;
        let mut check = |text: &str| {
            let found = When::parse(text).filter(|it| matches!(it, When::Date { .. }));
            let expected = by_jiff(text).filter(|_| text.parse::<f64>().is_err());
            assert_eq!(found.map(When::seconds), expected, "`{text}`");
            read += u32::from(found.is_some());
        };
        for (time, fraction) in times.iter().flat_map(|time| fractions.map(|it| (time, it))) {
            for end in ends {
                for front in fronts {
                    check(&format!("{front}{time}{fraction}{end}"));
                }
                for date in ["Mon Mar  3", "Mon Mar 03", "Mon Mar 3", "Tue Mar  3"] {
                    check(&format!("{date} {time}{fraction} 2025{end}"));
                }
            }
        }
        assert!(read > 1_000, "{read} dates");
    }

    #[test]
    fn dates_in_smaller_units_are_told_by_their_size() {
        let s = 1_740_996_000.25;
        for unit in [1.0, 1e3, 1e6, 1e9] {
            let found = When::Number(s * unit).seconds();
            assert!((found - s).abs() < 1e-5, "{unit}: {found}");
        }
    }
}

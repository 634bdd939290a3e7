//! Times as they are written in logs.

use jiff::civil::{DateTime, Time};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::Timestamp;

/// Seconds of either sign, a few thousand years from 1970 at most.
const FURTHEST_S: f64 = 1e11;

/// Seconds of a number of seconds, a date and time (UTC unless it names an offset), or a time of
/// day.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return (number.abs() <= FURTHEST_S).then_some(number);
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(since_1970(moment));
    }
    if let Ok(moment) = text.parse::<DateTime>() {
        return Some(since_1970(TimeZone::UTC.to_timestamp(moment).ok()?));
    }
    let time: Time = text.parse().ok()?;
    let whole = 3600 * i32::from(time.hour()) + 60 * i32::from(time.minute());
    Some(f64::from(whole + i32::from(time.second())) + f64::from(time.subsec_nanosecond()) * 1e-9)
}

fn since_1970(moment: Timestamp) -> f64 {
    moment.as_second() as f64 + f64::from(moment.subsec_nanosecond()) * 1e-9
}

/// Seconds since 1970 of `10/Oct/2000:13:55:36 -0700`.
pub(crate) fn common(text: &[u8]) -> Option<i64> {
    let parsed = strtime::parse("%d/%b/%Y:%H:%M:%S %z", text).ok()?;
    Some(parsed.to_timestamp().ok()?.as_second())
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
        assert_eq!(seconds("01:02"), Some(3720.0));
        for wrong in ["", "nan", "inf", "1e300", "1998-13-01 00:00:00", "25:00", "x"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(common(b"10/Oct/2000:13:55:36 -0700"), Some(971_211_336));
        assert_eq!(common(b"31/Feb/2000:13:55:36 -0700"), None);
        assert_eq!(common(b"10/Oct/2000:13:55:36"), None);
    }
}

//! One line of the log. Whatever a client has sent, it is one line, its fields stay where they are,
//! and it commands no terminal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Format, Texts};

/// Contents of a line.
pub(super) struct Line<'a> {
    pub client: &'a str,
    pub texts: &'a Texts,
    pub date: SystemTime,
    pub status: u16,
    pub bytes: u64,
    pub machine: Option<&'a str>,
    pub outcome: &'static str,
    /// Times until a worker had it, of the machine, and until the client had all.
    pub times: [Duration; 3],
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Line<'_> {
    pub fn write(&self, format: Format, out: &mut Vec<u8>) {
        match format {
            Format::Combined => self.combined(out),
            Format::Json => self.json(out),
        }
        out.push(b'\n');
    }

    fn combined(&self, out: &mut Vec<u8>) {
        let Date { year, month, day, second, ms } = Date::of(self.date);
        out.extend_from_slice(self.client.as_bytes());
        out.extend_from_slice(b" - - [");
        digits(out, day, 2);
        put(out, &["/", MONTHS[month as usize - 1], "/"]);
        digits(out, year, 4);
        out.push(b':');
        clock(out, second, ms);
        out.extend_from_slice(b" +0000] ");
        quoted(out, Some(&self.texts.request));
        out.push(b' ');
        digits(out, u64::from(self.status), 3);
        out.push(b' ');
        digits(out, self.bytes, 1);
        for text in [&self.texts.referer, &self.texts.agent] {
            out.push(b' ');
            quoted(out, text.as_deref());
        }
        put(out, &[" ", self.machine.unwrap_or("-"), " ", self.outcome]);
        for time in self.times {
            out.push(b' ');
            seconds(out, time);
        }
    }

    fn json(&self, out: &mut Vec<u8>) {
        let Date { year, month, day, second, ms } = Date::of(self.date);
        out.extend_from_slice(b"{\"time\":\"");
        digits(out, year, 4);
        out.push(b'-');
        digits(out, month, 2);
        out.push(b'-');
        digits(out, day, 2);
        out.push(b'T');
        clock(out, second, ms);
        put(out, &["Z\",\"client\":\"", self.client, "\",\"request\":"]);
        string(out, Some(&self.texts.request));
        out.extend_from_slice(b",\"status\":");
        digits(out, u64::from(self.status), 1);
        out.extend_from_slice(b",\"bytes\":");
        digits(out, self.bytes, 1);
        out.extend_from_slice(b",\"referer\":");
        string(out, self.texts.referer.as_deref());
        out.extend_from_slice(b",\"user_agent\":");
        string(out, self.texts.agent.as_deref());
        out.extend_from_slice(b",\"machine\":");
        string(out, self.machine.map(str::as_bytes));
        put(out, &[",\"outcome\":\"", self.outcome, "\""]);
        for (name, time) in ["waited_s", "machine_s", "total_s"].iter().zip(self.times) {
            put(out, &[",\"", name, "\":"]);
            seconds(out, time);
        }
        out.push(b'}');
    }
}

fn put(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

/// A number with at least so many digits.
fn digits(out: &mut Vec<u8>, mut number: u64, least: usize) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    while number > 0 || text.len() - at < least {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&text[at..]);
}

fn clock(out: &mut Vec<u8>, second: u64, ms: u64) {
    for (place, number) in [second / 3600, second / 60 % 60, second % 60].into_iter().enumerate() {
        if place > 0 {
            out.push(b':');
        }
        digits(out, number, 2);
    }
    out.push(b'.');
    digits(out, ms, 3);
}

/// Seconds with six decimals.
fn seconds(out: &mut Vec<u8>, time: Duration) {
    digits(out, time.as_secs(), 1);
    out.push(b'.');
    digits(out, u64::from(time.subsec_micros()), 6);
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends the bytes up to one that is escaped; returns the rest.
fn plain<'a>(out: &mut Vec<u8>, text: &'a [u8]) -> &'a [u8] {
    let is_plain = |b: &u8| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\');
    let end = text.iter().position(|b| !is_plain(b)).unwrap_or(text.len());
    out.extend_from_slice(&text[..end]);
    &text[end..]
}

/// A text in quotes: quotes, backslashes and all bytes but printable ASCII as `\xHH`, as nginx
/// writes them.
fn quoted(out: &mut Vec<u8>, text: Option<&[u8]>) {
    out.push(b'"');
    let mut rest = plain(out, text.unwrap_or(b"-"));
    while let Some((byte, after)) = rest.split_first() {
        let hex = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
        out.extend_from_slice(b"\\x");
        out.extend_from_slice(&hex);
        rest = plain(out, after);
    }
    out.push(b'"');
}

/// A string of JSON in ASCII, or null: other characters as `\uHHHH`, what is no UTF-8 as U+FFFD.
fn string(out: &mut Vec<u8>, text: Option<&[u8]>) {
    let Some(text) = text else { return out.extend_from_slice(b"null") };
    out.push(b'"');
    let mut rest = plain(out, text);
    while let Some(chunk) = rest[..rest.len().min(4)].utf8_chunks().next() {
        let taken = match chunk.valid().chars().next() {
            Some(c @ ('"' | '\\')) => {
                out.extend_from_slice(&[b'\\', c as u8]);
                1
            }
            Some(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| escape(out, unit));
                c.len_utf8()
            }
            None => {
                escape(out, 0xfffd);
                chunk.invalid().len()
            }
        };
        rest = plain(out, &rest[taken..]);
    }
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(HEX[usize::from(unit >> shift & 15)]);
    }
}

/// A date in UTC.
struct Date {
    year: u64,
    month: u64,
    day: u64,
    second: u64,
    ms: u64,
}

impl Date {
    /// Converts to the Gregorian calendar, whose years begin in March here (Hinnant 2013,
    /// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
    fn of(time: SystemTime) -> Date {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400 + 719_468, since.as_secs() % 86_400);
        let (era, of_era) = (days / 146_097, days % 146_097);
        let years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * years + years / 4 - years / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = era * 400 + years + u64::from(month <= 2);
        Date { year, month, day, second, ms: u64::from(since.subsec_millis()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(texts: &Texts, format: Format) -> String {
        let mut out = Vec::new();
        Line {
            client: "127.0.0.1",
            texts,
            date: UNIX_EPOCH + Duration::from_millis(951_827_696_007),
            status: 200,
            bytes: 1234,
            machine: Some("small"),
            outcome: "answered",
            times: [Duration::from_micros(5), Duration::from_micros(1_000_042), Duration::ZERO],
        }
        .write(format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (second, expected) in [
            (0, (1970, 1, 1)),
            (951_782_399, (2000, 2, 28)),
            (951_782_400, (2000, 2, 29)),
            (951_868_800, (2000, 3, 1)),
            (4_107_542_400, (2100, 3, 1)),
            (1_798_761_599, (2026, 12, 31)),
        ] {
            let date = Date::of(UNIX_EPOCH + Duration::from_secs(second));
            assert_eq!((date.year, date.month, date.day), expected, "{second}");
        }
    }

    #[test]
    fn a_line_of_each_form() {
        let texts = Texts {
            request: b"GET /a?b HTTP/1.1".to_vec(),
            referer: None,
            agent: Some(b"curl".to_vec()),
        };
        assert_eq!(
            line(&texts, Format::Combined),
            "127.0.0.1 - - [29/Feb/2000:12:34:56.007 +0000] \"GET /a?b HTTP/1.1\" 200 1234 \"-\" \
             \"curl\" small answered 0.000005 1.000042 0.000000\n"
        );
        assert_eq!(
            line(&texts, Format::Json),
            "{\"time\":\"2000-02-29T12:34:56.007Z\",\"client\":\"127.0.0.1\",\
             \"request\":\"GET /a?b HTTP/1.1\",\"status\":200,\"bytes\":1234,\"referer\":null,\
             \"user_agent\":\"curl\",\"machine\":\"small\",\"outcome\":\"answered\",\
             \"waited_s\":0.000005,\"machine_s\":1.000042,\"total_s\":0.000000}\n"
        );
    }

    #[test]
    fn any_text_is_a_field_of_one_line() {
        let bytes: Vec<u8> = (0..=255).collect();
        let texts = Texts {
            request: b"GET /\" 200 0 \"-\"\\ \x1b[2J\r\n\xff".to_vec(),
            referer: Some(bytes.clone()),
            agent: Some("\u{202e}\u{1f600}\u{85}\u{e9}".as_bytes().to_vec()),
        };
        for format in [Format::Combined, Format::Json] {
            let line = line(&texts, format);
            let plain = line.trim_end_matches('\n');
            assert_eq!(line.len(), plain.len() + 1);
            assert!(plain.bytes().all(|b| (b' '..=b'~').contains(&b)), "{line}");
        }
        let combined = line(&texts, Format::Combined);
        assert_eq!(combined.matches('"').count(), 6, "{combined}");
        let escaped = "\"GET /\\x22 200 0 \\x22-\\x22\\x5C \\x1B[2J\\x0D\\x0A\\xFF\"";
        assert!(combined.contains(escaped), "{combined}");
        let json = line(&texts, Format::Json);
        let escaped = "\"GET /\\\" 200 0 \\\"-\\\"\\\\ \\u001B[2J\\u000D\\u000A\\uFFFD\"";
        assert!(json.contains(escaped), "{json}");
        assert!(json.contains("\"\\u202E\\uD83D\\uDE00\\u0085\\u00E9\""), "{json}");
    }
}

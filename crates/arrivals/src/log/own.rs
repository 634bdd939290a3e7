//! Lines in formats that operators choose themselves, and of programs that are no web servers.

use super::super::moment::{common, When};
use super::json::Line;
use super::row::{Row, Seen};
use super::words::{bracketed, is_status, text, whole, words};

/// Marks between fields of formats of one's own.
const MARKS: [u8; 5] = *b"\"|\t,;";

/// Reads a line that has a request (`GET / HTTP/1.1`), a status and a time anywhere: servers let
/// operators write fields in any order. The bytes are the number next behind request and status.
pub(super) fn request_line(line: &[u8]) -> Option<Row> {
    let Some(protocol) = line.windows(6).position(|it| it == b" HTTP/") else {
        return stream_line(line);
    };
    // The request begins at a mark, or is the two words before its protocol.
    let before = &line[..protocol];
    let mark = before.iter().rposition(|byte| MARKS.contains(byte)).unwrap_or(0);
    let before = &line[..mark];
    let end = line[protocol + 1..].iter().position(|b| MARKS.contains(b) || *b == b' ')?;
    let is_mark = |byte: &u8| MARKS.contains(byte) || *byte == b' ';
    let mut after = line[protocol + 1 + end..].split(is_mark).filter(|word| !word.is_empty());
    let (first, second) = (after.next()?, after.next().unwrap_or_default());
    let number = |word: &[u8]| if word == b"-" { Some(0) } else { whole(word) };
    let bytes = match number(second) {
        Some(bytes) if is_status(first) => Some(bytes),
        _ if words(before).any(is_status) => number(first),
        // Formats of proxies may name times of the answer in place of a status.
        _ if is_status(first) || first.ends_with(b"_time") => None,
        _ => return None,
    };
    let front = bracketed(before).map(|(when, _)| when).or_else(|| dated(before));
    let rest = &line[protocol + 1 + end..];
    let when = match front {
        Some(When::Number(_) | When::Date { is_exact: true, .. }) => front,
        _ => msec(rest).or(front),
    }?;
    Some(Row::at(when, bytes.map(|bytes| bytes as f64)))
}

/// Finds nginx' `$msec` behind a request: seconds since 1970 with three digits behind the point.
fn msec(rest: &[u8]) -> Option<When> {
    let is_mark = |byte: &u8| MARKS.contains(byte) || *byte == b' ';
    let read = |word: &[u8]| {
        let point = word.iter().position(|byte| *byte == b'.')?;
        let s: f64 = text(word)?.parse().ok().filter(|s| (1e9..1e10).contains(s))?;
        (point == 10 && word.len() == 14).then_some(When::Date { s, is_exact: true })
    };
    rest.split(is_mark).find_map(read)
}

/// Reads a line of nginx' streams, as its manual has them: `client [time] TCP 200 sent received
/// seconds`.
fn stream_line(line: &[u8]) -> Option<Row> {
    let (when, rest) = bracketed(line)?;
    let mut rest = words(rest);
    let is_stream = matches!(rest.next()?, b"TCP" | b"UDP") && is_status(rest.next()?);
    let sent = whole(rest.next().filter(|_| is_stream)?)?;
    Some(Row { has_duration: true, ..Row::at(when, Some(sent as f64)) })
}

/// Finds the first date in fields of a line, or the first number that is one.
fn dated(fields: &[u8]) -> Option<When> {
    let is_date = |when: &When| match when {
        When::Number(number) => *number >= 1e9,
        When::Date { s, .. } | When::Slashed { s, .. } => *s > 1e8,
    };
    let read = |field: &[u8]| {
        let field = field.trim_ascii();
        let fits = field.len() >= 10 && field[0].is_ascii_digit();
        let when = common(field).or_else(|| When::parse(text(field)?));
        when.filter(is_date).filter(|_| fits)
    };
    if let Some(when) = fields.split(|byte| MARKS.contains(byte)).find_map(read) {
        return Some(when);
    }
    let all: Vec<&[u8]> = words(fields).collect();
    let pairs = all.windows(2).find_map(|pair| read(&pair.join(&b' ')));
    pairs.or_else(|| all.iter().copied().find_map(read))
}

/// Splits `key=value` pairs between blanks, values perhaps in quotes.
fn pairs(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || loop {
        rest = rest.trim_start();
        let end = rest.find([' ', '='])?;
        let (word, after) = rest.split_at(end);
        let Some(value) = after.strip_prefix('=') else {
            rest = after;
            continue;
        };
        let quoted = value.strip_prefix('"').and_then(|inside| inside.split_once('"'));
        let (value, behind) = quoted.unwrap_or_else(|| {
            let end = value.find(' ').unwrap_or(value.len());
            value.split_at(end)
        });
        rest = behind;
        return Some((word, value));
    })
}

/// Reads LTSV (`time:...<tab>status:200`) and logfmt (`time=... status=200`); a time may stand in
/// front without a key, as in lines of Heroku's router.
pub(super) fn keys(line: &[u8]) -> Option<Seen> {
    let line = text(line)?;
    let mut found = Line::default();
    let mut take = |key: &str, value: &str| {
        // LTSV's recommended names; `size` is in the list of JSON's.
        let key = if key == "reqtime" { "request_time" } else { key };
        let value = value.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(value);
        found.take_text(key, value);
    };
    let labelled = |field: &str| field.split_once(':').is_some_and(|(key, _)| is_key(key));
    let count = if line.contains('\t') && line.split('\t').all(labelled) {
        let fields = line.split('\t').filter_map(|field| field.split_once(':'));
        fields.map(|(key, value)| take(key, value)).count()
    } else {
        pairs(line).filter(|(key, _)| is_key(key)).map(|(key, value)| take(key, value)).count()
    };
    let front = || {
        let first = line.split(' ').next().filter(|word| word.len() >= 18);
        first.and_then(When::parse).filter(|it| matches!(it, When::Date { .. }))
    };
    (count >= 3).then(|| found.row(front)).flatten()
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.$@".contains(&b))
}

/// Reads a line of `redis-cli MONITOR`: a time, the database and client, and a command.
pub(super) fn redis(line: &[u8]) -> Option<Seen> {
    if line == b"OK" {
        return Some(Seen::Comment);
    }
    let (time, rest) = text(line)?.split_once(" [")?;
    let (client, command) = rest.split_once("] ")?;
    let is_client = client.split_once(' ').is_some_and(|(db, _)| db.parse::<u32>().is_ok());
    let s: f64 = time.parse().ok().filter(|s| (1e8..1e11).contains(s))?;
    let when = When::Date { s, is_exact: true };
    (is_client && command.starts_with('"')).then(|| Seen::Request(Row::at(when, None)))
}

/// Reads a line of PostgreSQL's log: `log_min_duration_statement` and `log_duration` write one at
/// the end of each statement. Other messages and lines of a long statement are no requests.
pub(super) fn postgres(line: &[u8]) -> Option<Seen> {
    // As text, or as CSV.
    let parts = ["LOG:  duration: ", ",LOG,00000,\"duration: "];
    let found = text(line).and_then(|line| parts.iter().find_map(|part| line.split_once(part)));
    let Some((front, said)) = found else {
        // Messages have a date, a level and two blanks; further lines of a statement no date.
        let is_message = line.windows(3).any(|it| it == b":  ");
        let is_dated = line.first().is_some_and(u8::is_ascii_digit);
        return (!is_dated || is_message).then_some(Seen::Other);
    };
    let mut front = front.split([' ', '[', ',']);
    let date = format!("{} {}", front.next()?, front.next()?);
    statement(When::parse(&date)?, said)
}

/// A statement of PostgreSQL that ended at this time, of which the log says: `50.000 ms  statement:
/// SELECT 1`.
pub(super) fn statement(end: When, said: &str) -> Option<Seen> {
    let (took_ms, what) = said.split_once(" ms").unwrap_or((said, ""));
    // Each step of a prepared statement has a line of its own.
    if ["  parse ", "  bind "].iter().any(|step| what.starts_with(step)) {
        return Some(Seen::Other);
    }
    let took_ms: f64 = took_ms.trim().parse().ok().filter(|it| (0.0..1e12).contains(it))?;
    let When::Date { s, is_exact } = end else { return None };
    let when = When::Date { s: s - 1e-3 * took_ms, is_exact };
    Some(Seen::Request(Row { has_duration: true, ..Row::at(when, None) }))
}

/// Reads a line of BIND's query log.
pub(super) fn bind(line: &[u8]) -> Option<Row> {
    let line = text(line)?;
    let (front, _) = line.split_once(": query: ")?;
    let mut words = front.split_ascii_whitespace();
    let date = format!("{} {}", words.next()?, words.next()?);
    let when = When::parse(&date).filter(|_| front.contains("client "));
    when.filter(|it| matches!(it, When::Date { .. })).map(|when| Row::at(when, None))
}

/// Reads a line of Gin, a framework of Go.
pub(super) fn gin(line: &[u8]) -> Option<Row> {
    let (date, rest) = text(line)?.strip_prefix("[GIN] ")?.split_once(" | ")?;
    let when = When::parse(&date.replacen(" - ", " ", 1))?;
    let is_request = is_status(rest.split(' ').next()?.as_bytes());
    is_request.then(|| Row { has_duration: true, ..Row::at(when, None) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(row: Option<Row>) -> Option<(f64, Option<f64>)> {
        row.map(|row| (row.when.seconds() - 1_740_996_000.0, row.size))
    }

    #[test]
    fn requests_are_found_wherever_time_and_status_stand() {
        for line in [
            r#"1740996000.250 h "GET /a HTTP/1.1" 200 512 0.004"#,
            r#"2025-03-03T10:00:00.250+00:00 h 200 0.004 "GET /a HTTP/1.1" 512 "x""#,
            r#"h|-|03/Mar/2025:10:00:00.250 +0000|GET /a HTTP/1.1|200|512|-"#,
            r#"h - - "03/Mar/2025:10:00:00.25 +0000" "GET /a HTTP/1.1" 200 512 "-""#,
            r#"h - - 1740996000250 "GET /a HTTP/1.1" 200 512"#,
            r#"h - - [03/Mar/2025:10:00:00.25 +0000] 4000 "GET /a HTTP/1.1" 200 512"#,
            r#"2025-03-03 10:00:00.25 h "GET /a HTTP/2.0" 200 512"#,
            r#"h "GET /a HTTP/1.1" 200 512 0.004 1740996000.250"#,
            r#"h - - [03/Mar/2025:10:00:01 +0000] x "GET /a HTTP/1.1" 200 512 1740996000.250"#,
            "h [03/Mar/2025:10:00:00.25 +0000] TCP 200 512 733 0.004",
        ] {
            assert_eq!(s(request_line(line.as_bytes())), Some((0.25, Some(512.0))), "{line}");
        }
        for line in [
            r#"2025/03/03 10:00:00 [error] 31#31: *5 open() failed, request: "GET / HTTP/1.1", x"#,
            r#"h - - "GET / HTTP/1.1" 200 512"#,
            r#"h - - "GET / HTTP/1.1" 200 1740996000 0.004"#,
            "h [03/Mar/2025:10:00:00 +0000] SCTP 200 512 733",
            r#"GET / HTTP/1.1 200"#,
            "[Mon Mar 03 10:00:01 2025] [core:error] Invalid URI in request \"GET / HTTP/1.1\"",
        ] {
            assert_eq!(s(request_line(line.as_bytes())), None, "{line}");
        }
    }

    #[test]
    fn pairs_of_keys_are_requests_if_they_say_so() {
        let found = |line: &str| match keys(line.as_bytes()) {
            Some(Seen::Request(row)) => s(Some(row)),
            Some(_) => Some((-1.0, None)),
            None => None,
        };
        let all = Some((0.25, Some(512.0)));
        assert_eq!(found("time=2025-03-03T10:00:00.25Z uri=\"/a b=c\" status=200 size=512"), all);
        assert_eq!(found("time:[03/Mar/2025:10:00:00.25 +0000]\tstatus:200\tsize:512"), all);
        let heroku = "2025-03-03T10:00:00.25+00:00 heroku[router]: at=info method=GET bytes=512";
        assert_eq!(found(heroku), all);
        let other = "time=2025-03-03T10:00:00Z level=info msg=\"listens now\" port=80";
        assert_eq!(found(other), Some((-1.0, None)));
        assert_eq!(found("a=1 b=2 c=3"), None);
    }

    #[test]
    fn lines_of_databases_and_name_servers_are_requests() {
        let at = |seen: Option<Seen>| match seen {
            Some(Seen::Request(row)) => s(Some(row)).map(|it| (it.0 * 1e3).round()),
            _ => None,
        };
        let redis_line = b"1740996000.250000 [0 127.0.0.1:60866] \"set\" \"x\" \"a [1] b\"";
        assert_eq!(at(redis(redis_line)), Some(250.0));
        let line =
            b"2025-03-03 10:00:00.300 UTC [12] app@db LOG:  duration: 50.000 ms  statement: S";
        assert_eq!(at(postgres(line)), Some(250.0));
        let parse = b"2025-03-03 10:00:00.300 UTC [12] LOG:  duration: 0.05 ms  parse <unnamed>: S";
        assert!(matches!(postgres(parse), Some(Seen::Other)));
        assert!(matches!(postgres(b"FROM t"), Some(Seen::Other)));
        assert!(postgres(b"2025-03-03 10:00:00.300 UTC [12] LOG: cut").is_none());
        let line =
            b"03-Mar-2025 10:00:00.250 queries: info: client @0x7f 192.0.2.7#53 (e): query: e";
        assert_eq!(at(bind(line).map(Seen::Request)), Some(250.0));
        let line = b"[GIN] 2025/03/03 - 10:00:01 | 200 |    4.000ms |  192.0.2.7 | GET      \"/a\"";
        assert_eq!(at(gin(line).map(Seen::Request)), Some(1000.0));
    }
}

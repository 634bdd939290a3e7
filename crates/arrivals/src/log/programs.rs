//! Lines of databases, frameworks and name servers that are no access logs.

use super::super::moment::When;
use super::row::{Row, Seen};
use super::words::text;

/// Commands of MySQL that clients wait for; others are about connections and statements.
const QUERIES: [&str; 2] = ["Query", "Execute"];

/// Reads a line of MySQL's general log, 5.7 or newer: a date, a tab, a connection, a command.
/// Further lines of a statement have no date.
pub(super) fn mysql(line: &[u8]) -> Option<Seen> {
    let line = text(line)?;
    let Some((date, rest)) = line.split_once('\t').filter(|(date, _)| is_iso(date)) else {
        return Some(Seen::Other);
    };
    let (connection, command) = rest.trim_start().split_once(' ')?;
    connection.parse::<u64>().ok()?;
    let command = command.split('\t').next()?.trim();
    match QUERIES.contains(&command) {
        true => Some(Seen::Request(Row::at(When::parse(date)?, None))),
        false => Some(Seen::Other),
    }
}

fn is_iso(date: &str) -> bool {
    date.len() >= 20 && date.as_bytes()[10] == b'T' && date.as_bytes()[0].is_ascii_digit()
}

/// Reads the line with which Rails begins a request; its logger may put an exact time in front.
pub(super) fn rails(line: &[u8]) -> Option<Seen> {
    let line = text(line)?;
    let Some((front, said)) = line.split_once("Started ") else { return Some(Seen::Other) };
    let Some((request, date)) = said.rsplit_once(" at ").filter(|it| it.0.contains("\" for "))
    else {
        return Some(Seen::Other);
    };
    let is_request = request.split_once(" \"/").is_some_and(|(method, _)| is_upper(method));
    // `I, [2025-03-03T10:00:00.250000 #77]  INFO -- : ` of Ruby's logger.
    let exact = front.split_once(", [").and_then(|(_, rest)| rest.split_once(" #"));
    let exact = exact.and_then(|(date, _)| When::parse(date));
    let when = exact.or_else(|| When::parse(date))?;
    is_request.then(|| Seen::Request(Row::at(when, None)))
}

fn is_upper(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Reads a line of dnsmasq with `log-queries`, as syslog writes it.
pub(super) fn dnsmasq(line: &[u8]) -> Option<Seen> {
    let (front, said) = text(line)?.split_once(" dnsmasq[")?;
    let is_query = said.split_once(" query[").is_some_and(|(_, rest)| rest.contains(" from "));
    if !is_query {
        return Some(Seen::Other);
    }
    Some(Seen::Request(Row::at(syslog(front)?, None)))
}

/// Reads a line of unbound with `log-queries`: client, name, type and class. Answers have more.
pub(super) fn unbound(line: &[u8]) -> Option<Seen> {
    let (front, said) = text(line)?.split_once(" unbound[")?;
    let Some((_, said)) = said.split_once("] info: ") else { return Some(Seen::Other) };
    let words: Vec<&str> = said.trim_start_matches("query: ").split_ascii_whitespace().collect();
    let is_query = matches!(words[..], [_client, name, _kind, "IN" | "CH" | "HS" | "ANY"]
        if name.ends_with('.'));
    if !is_query {
        return Some(Seen::Other);
    }
    let number = front.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let when = match number.and_then(|it| it.parse::<u64>().ok()) {
        Some(s) => When::Date { s: s as f64, is_exact: false },
        None => syslog(front)?,
    };
    Some(Seen::Request(Row::at(when, None)))
}

/// Reads the time of syslog: a date with an offset, or `Mar  3 10:00:00`, which has no year. A leap
/// year stands for it, so that each day is one; a log over the turn of a year is refused as too
/// long.
fn syslog(front: &str) -> Option<When> {
    let mut words = front.split_ascii_whitespace();
    let first = words.next()?;
    if first.starts_with(|first: char| first.is_ascii_digit()) {
        return When::parse(first).filter(|when| matches!(when, When::Date { .. }));
    }
    When::parse(&format!("{first} {:0>2} 1972 {}", words.next()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds since 10 o'clock of the third of March, and 0.5 of lines that are no requests.
    fn ms(seen: Option<Seen>) -> Option<f64> {
        const DAY_S: f64 = 86_400.0;
        match seen? {
            Seen::Request(Row { when: When::Date { s, .. }, .. }) => {
                Some(((s % DAY_S) * 1e3).round() - 36e6)
            }
            _ => Some(0.5),
        }
    }

    #[test]
    fn queries_of_mysql_are_requests() {
        let line =
            |command: &str| format!("2025-03-03T10:00:00.250000Z\t    8 {command}\tSELECT 1");
        assert_eq!(ms(mysql(line("Query").as_bytes())), Some(250.0));
        assert_eq!(ms(mysql(line("Execute").as_bytes())), Some(250.0));
        for other in ["Connect", "Quit", "Prepare", "Init DB"] {
            assert_eq!(ms(mysql(line(other).as_bytes())), Some(0.5), "{other}");
        }
        assert_eq!(ms(mysql(b"FROM t\tWHERE x")), Some(0.5));
        assert!(mysql(b"2025-03-03T10:00:00.250000Z\t    x Query\tSELECT 1").is_none());
    }

    #[test]
    fn begins_of_requests_to_rails_are_requests() {
        let said = "Started GET \"/a at b\" for 192.0.2.7 at 2025-03-03 10:00:01 +0000";
        assert_eq!(ms(rails(said.as_bytes())), Some(1000.0));
        let logged = format!("I, [2025-03-03T10:00:00.250000 #77]  INFO -- : [4f-1] {said}");
        assert_eq!(ms(rails(logged.as_bytes())), Some(250.0));
        for other in ["Completed 200 OK in 12ms (Views: 10.0ms)", "Started up at 10", ""] {
            assert_eq!(ms(rails(other.as_bytes())), Some(0.5), "{other}");
        }
    }

    #[test]
    fn queries_of_name_servers_are_requests() {
        let line = |said: &str| format!("Mar  3 10:00:02 gw dnsmasq[77]: {said}");
        let query = "query[AAAA] e.org from 192.0.2.7";
        assert_eq!(ms(dnsmasq(line(query).as_bytes())), Some(2000.0));
        let extra = format!("12 192.0.2.7/4711 {query}");
        assert_eq!(ms(dnsmasq(line(&extra).as_bytes())), Some(2000.0));
        assert_eq!(ms(dnsmasq(line("cached e.org is 192.0.2.9").as_bytes())), Some(0.5));
        let late = b"2025-03-03T10:00:00.250+00:00 gw dnsmasq[77]: query[A] e from 192.0.2.7";
        assert_eq!(ms(dnsmasq(late)), Some(250.0));
        let leap = b"Feb 29 10:00:02 gw dnsmasq[77]: query[A] e.org from 192.0.2.7";
        assert_eq!(ms(dnsmasq(leap)), Some(2000.0));

        let line = |front: &str, said: &str| format!("{front} unbound[77:0] info: {said}");
        for front in ["[1740996002]", "Mar 03 10:00:02"] {
            let at = |said: &str| ms(unbound(line(front, said).as_bytes()));
            assert_eq!(at("192.0.2.7 e.org. A IN"), Some(2000.0), "{front}");
            assert_eq!(at("query: 192.0.2.7 e.org. A IN"), Some(2000.0), "{front}");
            assert_eq!(at("192.0.2.7 e.org. A IN NOERROR 0.012 0 55"), Some(0.5), "{front}");
            assert_eq!(at("start of service (unbound 1.19.0)."), Some(0.5), "{front}");
        }
    }
}

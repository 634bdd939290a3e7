//! Lines of servers and proxies, each with its own form.

use super::super::moment::{common, When};
use super::row::{Row, Seen};
use super::words::{bracketed, is_status, real, text, whole, words};
use super::{own, programs};

/// A form of log that is told by a line's look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Common or combined log format and its kin: `... [time] ... "request" status bytes ...`.
    Common,
    /// HAProxy's, of HTTP or TCP.
    Haproxy,
    /// Envoy's default, and Istio's.
    Envoy,
    /// AWS: a classic load balancer.
    Elb,
    /// AWS: an application load balancer.
    Alb,
    /// Squid's native one.
    Squid,
    /// A line of JSON for each request.
    Json,
    /// W3C extended: IIS, CloudFront.
    W3c,
    /// AWS: a bucket of S3.
    S3,
    /// AWS: a network load balancer's TLS.
    Nlb,
    /// The default lines of uWSGI.
    Uwsgi,
    /// The format of IIS alone.
    Iis,
    /// Keys and values: LTSV, and logfmt.
    Keys,
    /// Commands as MONITOR of Redis prints them.
    Redis,
    /// The log of PostgreSQL, with durations.
    Postgres,
    /// The query log of BIND.
    Bind,
    /// Lines of servers made with Gin.
    Gin,
    /// The general log of MySQL.
    Mysql,
    /// The log of Rails.
    Rails,
    /// The query log of dnsmasq (`log-queries`).
    Dnsmasq,
    /// The query log of unbound (`log-queries`).
    Unbound,
    /// A request, a status and a time in an order of its own. It is tried last: it knows lines of
    /// other forms, and less of them.
    Request,
}

impl Form {
    /// All of them; of forms that know equally many lines the first is taken.
    pub const ALL: [Form; 22] = [
        Form::Haproxy,
        Form::Envoy,
        Form::Common,
        Form::Alb,
        Form::Elb,
        Form::Squid,
        Form::Json,
        Form::W3c,
        Form::S3,
        Form::Nlb,
        Form::Uwsgi,
        Form::Iis,
        Form::Keys,
        Form::Redis,
        Form::Postgres,
        Form::Bind,
        Form::Gin,
        Form::Mysql,
        Form::Rails,
        Form::Dnsmasq,
        Form::Unbound,
        Form::Request,
    ];

    /// Name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Form::Common => "common log format",
            Form::Haproxy => "log of HAProxy",
            Form::Envoy => "log of envoy",
            Form::Elb => "log of an AWS classic load balancer",
            Form::Alb => "log of an AWS application load balancer",
            Form::Squid => "log of squid",
            Form::Json => "log in lines of JSON",
            Form::W3c => "W3C extended log",
            Form::S3 => "log of an AWS bucket",
            Form::Nlb => "log of an AWS network load balancer",
            Form::Uwsgi => "log of uWSGI",
            Form::Iis => "log of IIS",
            Form::Keys => "log of keys and values",
            Form::Redis => "MONITOR of Redis",
            Form::Postgres => "log of PostgreSQL",
            Form::Bind => "query log of BIND",
            Form::Gin => "log of Gin",
            Form::Mysql => "general log of MySQL",
            Form::Rails => "log of Rails",
            Form::Dnsmasq => "query log of dnsmasq",
            Form::Unbound => "query log of unbound",
            Form::Request => "log in a format of its own",
        }
    }

    /// A line that it expects.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Form::Common => {
                "`host ident user [10/Oct/2000:13:55:36 -0700] \"request\" status bytes`"
            }
            Form::Haproxy => {
                "`client [10/Oct/2000:13:55:36.123] frontend backend/server timers status bytes`"
            }
            Form::Envoy => "`[2000-10-10T13:55:36.123Z] \"request\" status flags received sent`",
            Form::Elb => "`time balancer client backend 3 times 2 statuses received sent`",
            Form::Alb => "`type time balancer client target 3 times 2 statuses received sent`",
            Form::Squid => "`971211336.123 milliseconds client result/status bytes method URL`",
            Form::Json => "an object with a time (`ts`, `time`, `timestamp` ...)",
            Form::S3 => "`owner bucket [10/Oct/2000:13:55:36 +0000] client ... \"request\" status`",
            Form::Nlb => {
                "`tls 2.0 time balancer listener client target 2 times received sent alert`"
            }
            Form::Uwsgi => "`[pid: 1|...] client () {...} [Mon Oct 9 13:55:36 2000] GET / => ...`",
            Form::Iis => "`client, user, 10/09/00, 13:55:36, service, server, ...`",
            Form::Keys => "`time=2000-10-10T13:55:36Z method=GET status=200 bytes=512`",
            Form::Redis => "`971211336.123456 [0 127.0.0.1:6000] \"get\" \"key\"`",
            Form::Postgres => {
                "`2000-10-10 13:55:36.123 UTC [12] LOG:  duration: 1.234 ms  statement: ...`"
            }
            Form::Bind => "`10-Oct-2000 13:55:36.123 ... client 192.0.2.1#53 (...): query: ...`",
            Form::Gin => "`[GIN] 2000/10/10 - 13:55:36 | 200 | 1ms | client | GET \"/\"`",
            Form::Mysql => "`2000-10-10T13:55:36.123456Z<tab>8 Query<tab>SELECT ...`",
            Form::Rails => "`Started GET \"/\" for 192.0.2.1 at 2000-10-10 13:55:36 +0000`",
            Form::Dnsmasq => "`Oct 10 13:55:36 dnsmasq[12]: query[A] NAME from 192.0.2.1`",
            Form::Unbound => "`[971186136] unbound[12:0] info: 192.0.2.1 NAME. A IN`",
            Form::Request => "a time, a request with its protocol, a status",
            Form::W3c => "the fields that `#Fields:` names, with a date and a time",
        }
    }
}

/// Reads lines of one form.
pub(super) struct Reader {
    pub(super) form: Form,
    fields: Fields,
}

impl Reader {
    pub(super) fn new(form: Form) -> Reader {
        Reader { form, fields: Fields::default() }
    }

    /// Reads a line; none if it is bad.
    pub(super) fn line(&mut self, line: &[u8]) -> Option<Seen> {
        if self.form == Form::W3c {
            return self.fields.line(line);
        }
        if line.starts_with(b"#") {
            return Some(Seen::Comment);
        }
        let row = match self.form {
            Form::Json => return super::json::row(line, wrapped),
            Form::Keys => return own::keys(line),
            Form::Redis => return own::redis(line),
            Form::Postgres => return own::postgres(line),
            Form::Mysql => return programs::mysql(line),
            Form::Rails => return programs::rails(line),
            Form::Dnsmasq => return programs::dnsmasq(line),
            Form::Unbound => return programs::unbound(line),
            Form::Common => common_line(line),
            Form::Haproxy => haproxy(line),
            Form::Envoy => envoy(line),
            Form::Elb => balancer(line, 0),
            Form::Alb => balancer(line, 1),
            Form::S3 => bucket(line),
            Form::Nlb => network_balancer(line),
            Form::Uwsgi => uwsgi(line),
            Form::Iis => iis(line),
            Form::Bind => own::bind(line),
            Form::Gin => own::gin(line),
            Form::Request => own::request_line(line),
            _ => squid(line),
        };
        row.map(Seen::Request)
    }
}

/// A line that a container engine or a collector has wrapped.
fn wrapped(line: &[u8]) -> Option<Seen> {
    let text = [haproxy, envoy, common_line, squid].iter().find_map(|form| form(line));
    let json = || super::json::row(line, |_| None).filter(|it| matches!(it, Seen::Request(_)));
    text.map(Seen::Request).or_else(json)
}

/// Returns the rest behind a quoted text that begins here.
fn after_quote(line: &[u8]) -> Option<&[u8]> {
    let inside = line.strip_prefix(b"\"")?;
    let mut escaped = false;
    let end = inside.iter().position(|&b| {
        let ends = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        ends
    })?;
    Some(&inside[end + 1..])
}

fn common_line(line: &[u8]) -> Option<Row> {
    let (when, rest) = bracketed(line)?;
    let rest = after_quote(rest)?;
    let mut rest_words = words(rest);
    if !is_status(rest_words.next()?) {
        return None;
    }
    let bytes = match rest_words.next()? {
        // Three bare words more are envoy's flags and what follows them.
        b"-" if line.starts_with(b"[") => {
            let bare = rest_words.clone().take_while(|word| !word.starts_with(b"\""));
            (bare.count() < 3).then_some(0)?
        }
        b"-" => 0,
        count => whole(count)?,
    };
    // nginx' $request_time, or Apache's %D, stands last.
    let last = rest_words.last().unwrap_or_default();
    let has_duration = !last.is_empty() && last.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    Some(Row { has_duration, ..Row::at(when, Some(bytes as f64)) })
}

/// HAProxy 2.8, configuration manual, 8.2.2 and 8.2.3.
fn haproxy(line: &[u8]) -> Option<Row> {
    let (when, rest) = bracketed(line)?;
    let mut rest = words(rest);
    let (_frontend, server, timers) = (rest.next()?, rest.next()?, rest.next()?);
    let numbers = timers.split(|&b| b == b'/').collect::<Vec<_>>();
    let is_timer = |word: &&[u8]| {
        let digits = word.strip_prefix(b"-").or(word.strip_prefix(b"+")).unwrap_or(word);
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    };
    if !server.contains(&b'/') || !numbers.iter().all(is_timer) {
        return None;
    }
    match numbers.len() {
        5 => is_status(rest.next()?).then_some(())?,
        3 => {}
        _ => return None,
    }
    let bytes = rest.next()?;
    let bytes = whole(bytes.strip_prefix(b"+").unwrap_or(bytes))?;
    Some(Row { has_duration: true, ..Row::at(when, Some(bytes as f64)) })
}

/// Envoy's default format, and Istio's with words between flags and bytes.
fn envoy(line: &[u8]) -> Option<Row> {
    let (when, rest) = bracketed(line).filter(|_| line.starts_with(b"["))?;
    let mut rest_words = words(after_quote(rest)?);
    let status = rest_words.next()?;
    if !is_status(status) && status != b"0" {
        return None;
    }
    // Flags: `-`, `UF`, `via_upstream`; of common log format bytes would stand here.
    let mut word = rest_words.next()?;
    if whole(word).is_some() {
        return None;
    }
    while whole(word).is_none() {
        word = rest_words.next()?;
    }
    let sent = whole(rest_words.next()?)?;
    // Behind them stand the duration and, if an upstream answered, its time. A number that is
    // missing among the four is one that was skipped above as a word, because it is damaged.
    let (_took, upstream) = (whole(rest_words.next()?)?, rest_words.next().unwrap_or(b"-"));
    if upstream != b"-" && whole(upstream).is_none() {
        return None;
    }
    Some(Row { has_duration: true, ..Row::at(when, Some(sent as f64)) })
}

/// AWS, access logs of load balancers: the time is that of the answer.
fn balancer(line: &[u8], type_words: usize) -> Option<Row> {
    let before_request = &line[..line.iter().position(|&b| b == b'"').unwrap_or(line.len())];
    let all: Vec<&[u8]> = words(before_request).collect();
    if all.len() < 11 + type_words {
        return None;
    }
    let fields = &all[type_words..];
    let types: [&[u8]; 6] = [b"http", b"https", b"h2", b"ws", b"wss", b"grpcs"];
    if type_words == 1 && !types.contains(&all[0]) {
        return None;
    }
    let When::Date { s, is_exact } = When::parse(text(fields[0])?)? else { return None };
    let mut begin_s = s;
    // Newer lines say when a request came.
    let created = words(line).rev().take(12).find_map(created_s);
    for field in &fields[4..7] {
        let took_s = real(field)?;
        // -1 is none. Classic ones write when a request came.
        begin_s -= if type_words == 1 { took_s.clamp(0.0, 1e6) } else { 0.0 };
    }
    let status = |word: &[u8]| is_status(word) || word == b"-" || word == b"0";
    if !status(fields[7]) || !status(fields[8]) {
        return None;
    }
    let (_received, sent) = (whole(fields[9])?, whole(fields[10])?);
    let created = created.filter(|_| type_words == 1 && all.len() < words(line).count());
    let when = When::Date { s: created.unwrap_or(begin_s), is_exact };
    Some(Row { has_duration: true, ..Row::at(when, Some(sent as f64)) })
}

/// Seconds of a word such as `2018-07-02T22:22:48.364000Z`.
fn created_s(word: &[u8]) -> Option<f64> {
    let is_date = word.len() > 18 && word[10] == b'T' && word.ends_with(b"Z");
    match When::parse(text(word).filter(|_| is_date)?)? {
        When::Date { s, .. } => Some(s),
        When::Number(_) | When::Slashed { .. } => None,
    }
}

/// Squid's native format: the time is that of the end, as seconds or as a date with its zone.
fn squid(line: &[u8]) -> Option<Row> {
    let mut rest = words(line);
    let first = rest.next()?;
    let (end_s, is_exact) = match real(first) {
        Some(end_s) => (end_s, true),
        None if first.contains(&b'/') => {
            let zone = rest.next()?;
            match common(&[first, zone].join(&b' '))? {
                When::Date { s, is_exact } => (s, is_exact),
                When::Number(_) | When::Slashed { .. } => return None,
            }
        }
        None => return None,
    };
    let took_ms = real(rest.next()?)?;
    let (_client, result, bytes) = (rest.next()?, rest.next()?, whole(rest.next()?)?);
    let fits = end_s > 1e8 && end_s < 1e11 && (0.0..1e12).contains(&took_ms);
    if !fits || !result.contains(&b'/') {
        return None;
    }
    // A whole second stays one: requests of a second are spread over it.
    let begin_s = end_s - 1e-3 * took_ms;
    let s = if is_exact { begin_s } else { (begin_s + 0.5).floor() };
    Some(Row { has_duration: true, ..Row::at(When::Date { s, is_exact }, Some(bytes as f64)) })
}

/// AWS, server access logs of S3: between the time and the request stand who asked and for what;
/// behind it status, error and bytes.
fn bucket(line: &[u8]) -> Option<Row> {
    let (when, rest) = bracketed(line).filter(|_| !line.starts_with(b"["))?;
    let quote = rest.iter().position(|&b| b == b'"')?;
    let operation = words(&rest[..quote]).nth(3)?;
    if !operation.contains(&b'.') {
        return None;
    }
    let mut after = words(after_quote(&rest[quote..])?);
    let status = after.next()?;
    if !is_status(status) && status != b"-" {
        return None;
    }
    let (_error, bytes) = (after.next()?, after.next()?);
    let bytes = if bytes == b"-" { 0 } else { whole(bytes)? };
    Some(Row { has_duration: true, ..Row::at(when, Some(bytes as f64)) })
}

/// AWS, access logs of network load balancers: a line for each TLS connection, at its end.
fn network_balancer(line: &[u8]) -> Option<Row> {
    let fields: Vec<&[u8]> = words(line).collect();
    if fields.len() < 12 || fields[0] != b"tls" {
        return None;
    }
    let When::Date { s, is_exact } = When::parse(text(fields[2])?)? else { return None };
    let took_ms = real(fields[7])?.clamp(0.0, 1e12);
    let sent = whole(fields[10])?;
    let when = When::Date { s: s - 1e-3 * took_ms, is_exact: is_exact || took_ms > 0.0 };
    Some(Row { has_duration: true, ..Row::at(when, Some(sent as f64)) })
}

/// uWSGI's default lines, at the end of a request.
fn uwsgi(line: &[u8]) -> Option<Row> {
    let from = line.windows(5).position(|it| it == b"[pid:")?;
    let (when, rest) = bracketed(&line[from..])?;
    let rest = text(rest)?;
    let (_, made) = rest.split_once("=> generated ")?;
    let bytes: u64 = made.split(' ').next()?.parse().ok()?;
    Some(Row { has_duration: true, ..Row::at(when, Some(bytes as f64)) })
}

/// The log file format of IIS: 15 fields between commas, the date as month, day and year.
fn iis(line: &[u8]) -> Option<Row> {
    let fields: Vec<&str> = text(line)?.split(',').map(str::trim).collect();
    if fields.len() < 15 || !fields[10].parse::<u16>().is_ok_and(|it| (100..600).contains(&it)) {
        return None;
    }
    let mut date = fields[2].splitn(3, '/');
    let mut part = || date.next()?.parse::<u16>().ok();
    let (month, day, year) = (part()?, part()?, part()?);
    let year = if year < 100 { 2000 + year } else { year };
    let when = When::parse(&format!("{year:04}-{month:02}-{day:02} {:0>8}", fields[3]))?;
    let sent: u64 = fields[9].parse().ok()?;
    Some(Row { has_duration: true, ..Row::at(when, Some(sent as f64)) })
}

/// Places of fields in a W3C log.
#[derive(Default)]
struct Fields {
    date: Option<usize>,
    time: Option<usize>,
    bytes: Option<usize>,
    took: Option<usize>,
    /// Number of fields.
    all: usize,
}

impl Fields {
    fn line(&mut self, line: &[u8]) -> Option<Seen> {
        if let Some(names) = line.strip_prefix(b"#Fields:") {
            let names: Vec<Vec<u8>> = words(names).map(<[u8]>::to_ascii_lowercase).collect();
            let place = |name: &str| names.iter().position(|it| it == name.as_bytes());
            *self = Fields {
                date: place("date"),
                time: place("time"),
                bytes: place("sc-bytes").or(place("x-edge-response-bytes")).or(place("bytes")),
                took: place("time-taken"),
                all: names.len(),
            };
            return self.time.map(|_| Seen::Comment);
        }
        if line.starts_with(b"#") {
            return Some(Seen::Comment);
        }
        let fields: Vec<&[u8]> = words(line).collect();
        // An empty field is written as `-`: of a line that has fewer the others are not in place.
        if fields.len() < self.all {
            return None;
        }
        let field = |at: Option<usize>| fields.get(at?).copied();
        let time = text(field(self.time)?)?;
        let when = match field(self.date) {
            Some(date) => When::parse(&format!("{} {time}", text(date)?))?,
            None => When::parse(time)?,
        };
        let bytes = match field(self.bytes) {
            _ if self.bytes.is_none() => None,
            Some(b"-") | None => Some(0.0),
            Some(word) => Some(whole(word)? as f64),
        };
        let row = Row { has_duration: self.took.is_some(), ..Row::at(when, bytes) };
        Some(Seen::Request(row))
    }
}

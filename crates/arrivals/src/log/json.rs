//! Lines of JSON, as servers, load balancers and collectors of logs write them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::moment::{common, When};
use super::row::{Row, Seen, Unit};
use super::words::text;

/// Keys of times, the best first: when a request began, then when its line was written.
const TIMES: [&str; 28] = [
    "StartUTC",
    "StartLocal",
    "EdgeStartTimestamp",
    "started_at",
    "startedDateTime",
    "requestReceivedTimestamp",
    "requestTimeEpoch",
    "reqTimeSec",
    "start_time",
    "startTime",
    "ts",
    "@timestamp",
    "timestamp",
    "timeStamp",
    "msec",
    "time",
    "time_iso8601",
    "time_local",
    "datetime",
    "date",
    "requestTime",
    "at_s",
    "submit_time",
    "arrival",
    "arrival_time",
    "data.time",
    "t.$date",
    "__REALTIME_TIMESTAMP",
];
/// Keys of bytes, those of objects in objects with a point between.
const BYTES: [&str; 25] = [
    "bytes_sent",
    "body_bytes_sent",
    "size",
    "bytes",
    "DownstreamContentSize",
    "OriginContentSize",
    "EdgeResponseBytes",
    "responseSize",
    "response_size",
    "resp_bytes",
    "bytesSent",
    "httpRequest.responseSize",
    "http.response.bytes",
    "http.response.body.bytes",
    "response.size",
    "response.bytes",
    "response.content.size",
    "response.body.bytes",
    "properties.sentBytes",
    "res.size",
    "responseLength",
    "response_body_size",
    "attr.reslen",
    "api.tx",
    // HAProxy's word for what it sent; Caddy's for what it received, beside `size`.
    "bytes_read",
];
const DURATIONS: [&str; 11] = [
    "duration",
    "Duration",
    "request_time",
    "latency",
    "response_time",
    "responseTime",
    "responseLatency",
    "total_s",
    "httpRequest.latency",
    "latencies.request",
    "event.duration",
];
const SERVICES: [(&str, Unit); 3] = [
    ("service_s", Unit::Seconds),
    ("service_ms", Unit::Milliseconds),
    ("service_us", Unit::Microseconds),
];
/// Keys of a program's message: perhaps another log's line.
const MESSAGES: [&str; 6] = ["log", "message", "msg", "MESSAGE", "textPayload", "line"];
/// Keys that only requests have.
const REQUESTS: [&str; 16] = [
    "status",
    "method",
    "request",
    "req",
    "httpRequest",
    "verb",
    "DownstreamStatus",
    "EdgeResponseStatus",
    "RequestMethod",
    "response",
    "http",
    "response_code",
    "statusCode",
    "httpMethod",
    "reqMethod",
    "attr.durationMillis",
];
/// Keys of what a line is about, and its values for requests: others are events beside them. k6
/// writes a dozen points for each request, Suricata flows and counters.
const KINDS: [(&str, &[&str]); 2] =
    [("metric", &["http_reqs"]), ("event_type", &["http", "http2", "dns", "tls", "smtp"])];
/// All keys that are looked at: most keys of a line are not, and one look-up of a hash takes less
/// than comparing each with all lists.
static KNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lists: [&[&str]; 5] = [&TIMES, &BYTES, &DURATIONS, &MESSAGES, &REQUESTS];
    let named = SERVICES.iter().map(|it| it.0).chain(KINDS.iter().map(|it| it.0));
    lists.concat().into_iter().chain(named).chain(["collection_id", "type"]).collect()
});
/// Objects in objects are looked at so deep.
// Elastic's schema has `http.response.body.bytes`; deeper ones are contents of requests.
const DEEPEST: usize = 4;

/// A value that is no list and no object.
enum Scalar<'a> {
    Number(f64),
    Text(&'a str),
}

impl Scalar<'_> {
    fn number(&self) -> Option<f64> {
        match self {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) => match text.trim() {
                // nginx writes these where nothing was sent.
                "-" | "" => Some(0.0),
                text => text.parse().ok(),
            },
        }
    }

    fn when(&self) -> Option<When> {
        match self {
            Scalar::Number(number) => Some(When::Number(*number)),
            Scalar::Text(text) => When::parse(text).or_else(|| common(text.as_bytes())),
        }
        .filter(|when| !when.is_before_zero())
    }
}

/// The values of a line that are looked at.
#[derive(Default)]
pub(super) struct Line {
    time: Option<(usize, When)>,
    bytes: Option<(usize, f64)>,
    service_s: Option<f64>,
    has_duration: bool,
    is_request: bool,
    message: Option<String>,
    /// An event of another kind.
    is_other: bool,
    /// Keys that only events of Google's cluster have, and whether it is a submission.
    collection: (bool, Option<bool>),
}

impl Line {
    /// Takes a value of other forms of keys and values.
    pub(super) fn take_text(&mut self, key: &str, value: &str) {
        self.take(key, &Scalar::Text(value));
    }

    /// The line as a request, if its keys are those of one; at this time if it has none.
    pub(super) fn row(&self, front: Option<When>) -> Option<Seen> {
        let when = self.time.map(|(_, when)| when).or(front)?;
        if !self.is_request {
            return Some(Seen::Other);
        }
        let bytes = self.bytes.map(|(_, bytes)| bytes);
        let row = Row { has_duration: self.has_duration, ..Row::at(when, bytes) };
        bytes.is_none_or(|bytes| (0.0..=1e15).contains(&bytes)).then_some(Seen::Request(row))
    }

    fn take(&mut self, key: &str, scalar: &Scalar) {
        if !KNOWN.contains(key) {
            return;
        }
        let place = |keys: &[&str]| keys.iter().position(|it| *it == key);
        let better = |now: Option<usize>, place: usize| now.is_none_or(|now| place < now);
        if let Some(place) = place(&TIMES).filter(|at| better(self.time.map(|it| it.0), *at)) {
            self.time = scalar.when().map(|when| (place, when)).or(self.time);
        }
        if let Some(place) = place(&BYTES).filter(|at| better(self.bytes.map(|it| it.0), *at)) {
            self.bytes = scalar.number().map(|bytes| (place, bytes)).or(self.bytes);
        }
        if let Some((_, unit)) = SERVICES.iter().find(|(name, _)| *name == key) {
            self.service_s = scalar.number().map(|time| time * unit.seconds());
        }
        if let (Scalar::Text(text), true) = (scalar, MESSAGES.contains(&key)) {
            self.message.get_or_insert_with(|| (*text).to_owned());
        }
        if let (Some((_, requests)), Scalar::Text(text)) =
            (KINDS.iter().find(|(kind, _)| *kind == key), scalar)
        {
            self.is_other |= !requests.contains(text);
            self.is_request |= requests.contains(text);
        }
        match key {
            "collection_id" => self.collection.0 = true,
            // k6 declares a metric before its first point.
            "type" if matches!(scalar, Scalar::Text("Metric")) => self.is_other = true,
            "type" => self.collection.1 = scalar.number().map(|kind| kind == 0.0),
            _ => {}
        }
        self.has_duration |= DURATIONS.contains(&key);
        self.is_request |= REQUESTS.contains(&key);
    }
}

/// Reads an object whose keys begin with `path`.
struct Keys<'a> {
    line: &'a mut Line,
    path: &'a mut String,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Keys { line, path, depth } = self;
        let length = path.len();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            // elasticdump wraps each document; its keys are those of the document alone.
            if depth == 0 && key == "_source" {
                map.next_value_seed(Keys { line, path, depth })?;
                continue;
            }
            if depth == 0 {
                line.is_request |= REQUESTS.contains(&&*key);
            }
            // Not walked: nothing bounds how deep others nest.
            if depth == DEEPEST {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if length > 0 {
                path.push('.');
            }
            path.push_str(&key);
            map.next_value_seed(Keys { line, path, depth: depth + 1 })?;
            path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.line.take(self.path, &Scalar::Text(text));
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.line.take(self.path, &Scalar::Number(number));
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.line.take(self.path, &Scalar::Number(number as f64));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.line.take(self.path, &Scalar::Number(number as f64));
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Splits a line of a console, as Caddy writes it: a date, a level, a logger, a message and an
/// object, between tabs.
fn console(line: &[u8]) -> Option<(Option<When>, &[u8])> {
    let (front, rest) = line.split_at(line.iter().position(|byte| *byte == b'{')?);
    let mut fields = front.split(|byte| *byte == b'\t');
    let when = When::parse(text(fields.next()?)?).filter(|_| fields.count() >= 3)?;
    Some((Some(when), rest))
}

/// A line of a log. Container engines and collectors wrap the lines of others: those are read by
/// `wrapped`. What other loggers write beside requests has a message and nothing of a request.
pub(super) fn row(line: &[u8], wrapped: impl Fn(&[u8]) -> Option<Seen>) -> Option<Seen> {
    let (front, line) = match line.starts_with(b"{") {
        true => (None, line),
        false => console(line)?,
    };
    // The objects are walked without being kept: most of their keys are not looked at.
    let (mut found, mut path) = (Line::default(), String::new());
    let mut json = serde_json::Deserializer::from_slice(line);
    Keys { line: &mut found, path: &mut path, depth: 0 }.deserialize(&mut json).ok()?;
    // What follows an object would be another request, and be lost.
    json.end().ok()?;
    if found.is_other {
        return Some(Seen::Other);
    }
    let when = found.time.map(|(_, when)| when).or(front)?;
    // Google's cluster of 2019: only submissions are requests, in microseconds; at 0 stands what
    // was there before.
    if let ((true, Some(is_submitted)), When::Number(us)) = (found.collection, when) {
        let when = When::Date { s: us * 1e-6, is_exact: true };
        let is_request = is_submitted && us > 0.0 && us < 9e18;
        return Some(if is_request { Seen::Request(Row::at(when, None)) } else { Seen::Other });
    }
    if let Some(service_s) = found.service_s {
        let fits = (0.0..=1e15).contains(&service_s);
        return fits.then_some(Seen::Served(Row::at(when, Some(service_s))));
    }
    // A time and a message alone may be anything that a program says: such a line is no request.
    let is_request = found.is_request || found.bytes.is_some() || found.has_duration;
    if let (Some(message), false) = (&found.message, is_request) {
        // `log_destination = jsonlog` of PostgreSQL.
        if let Some(said) = message.strip_prefix("duration: ") {
            return super::own::statement(when, said);
        }
        return Some(wrapped(message.trim().as_bytes()).unwrap_or(Seen::Other));
    }
    // All other lines with a time are requests.
    found.is_request = true;
    found.row(front)
}

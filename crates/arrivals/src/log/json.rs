//! Lines of JSON, as servers, load balancers and collectors of logs write them.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;

use super::super::moment::{common, When};
use super::row::{Row, Seen, Unit};
use super::words::text;

/// Keys of times, the best first: when a request began, then when its line was written.
const TIMES: [&str; 29] = [
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
    // Python's loggers.
    "asctime",
];
/// Keys of bytes, those of objects in objects with a point between.
const BYTES: [&str; 26] = [
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
    "properties.responseBytes",
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
/// Meaning of a key. Lists are searched for it once, since most keys of a line have none.
#[derive(Default)]
struct Meaning {
    /// Places among [`TIMES`] and [`BYTES`].
    time: Option<usize>,
    bytes: Option<usize>,
    service: Option<Unit>,
    is_duration: bool,
    is_message: bool,
    is_request: bool,
    /// Values for requests, of a key of [`KINDS`].
    kinds: Option<&'static [&'static str]>,
    is_collection: bool,
    is_type: bool,
    /// A date, beside a time of day.
    is_day: bool,
}

static MEANINGS: LazyLock<HashMap<&str, Meaning>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Meaning> = HashMap::new();
    for (place, key) in TIMES.into_iter().enumerate() {
        all.entry(key).or_default().time = Some(place);
    }
    for (place, key) in BYTES.into_iter().enumerate() {
        all.entry(key).or_default().bytes = Some(place);
    }
    for (key, unit) in SERVICES {
        all.entry(key).or_default().service = Some(unit);
    }
    for (key, kinds) in KINDS {
        all.entry(key).or_default().kinds = Some(kinds);
    }
    DURATIONS.into_iter().for_each(|key| all.entry(key).or_default().is_duration = true);
    MESSAGES.into_iter().for_each(|key| all.entry(key).or_default().is_message = true);
    REQUESTS.into_iter().for_each(|key| all.entry(key).or_default().is_request = true);
    all.entry("date").or_default().is_day = true;
    all.entry("collection_id").or_default().is_collection = true;
    all.entry("type").or_default().is_type = true;
    // Objects that have such keys are walked; elasticdump wraps each document.
    let keys: Vec<&str> = all.keys().copied().chain(["_source.x"]).collect();
    for key in keys {
        key.match_indices('.').for_each(|(end, _)| _ = all.entry(&key[..end]).or_default());
    }
    all
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
    /// Seconds since 1970 of a date without a time.
    day_s: Option<f64>,
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
        if let Some(meaning) = MEANINGS.get(key) {
            self.take(meaning, &Scalar::Text(value));
        }
    }

    /// Returns its time, with the date that it may have apart.
    fn when(&self) -> Option<When> {
        match (self.time?.1, self.day_s) {
            (When::Date { s, is_exact }, Some(day_s)) if s < 86_400.0 => {
                Some(When::Date { s: s + day_s, is_exact })
            }
            (when, _) => Some(when),
        }
    }

    /// The line as a request, if its keys are those of one; at this time if it has none.
    pub(super) fn row(&self, front: impl FnOnce() -> Option<When>) -> Option<Seen> {
        let when = self.when().or_else(front)?;
        if !self.is_request {
            return Some(Seen::Other);
        }
        let bytes = self.bytes.map(|(_, bytes)| bytes);
        let row = Row { has_duration: self.has_duration, ..Row::at(when, bytes) };
        bytes.is_none_or(|bytes| (0.0..=1e15).contains(&bytes)).then_some(Seen::Request(row))
    }

    fn take(&mut self, meaning: &Meaning, scalar: &Scalar) {
        let better = |now: Option<usize>, place: usize| now.is_none_or(|now| place < now);
        if let Some(place) = meaning.time.filter(|at| better(self.time.map(|it| it.0), *at)) {
            self.time = scalar.when().map(|when| (place, when)).or(self.time);
        }
        if let (true, Scalar::Text(text)) = (meaning.is_day, scalar) {
            let day = When::parse(text).filter(|_| !text.contains(':'));
            self.day_s = day.map(When::seconds);
        }
        if let Some(place) = meaning.bytes.filter(|at| better(self.bytes.map(|it| it.0), *at)) {
            self.bytes = scalar.number().map(|bytes| (place, bytes)).or(self.bytes);
        }
        if let Some(unit) = meaning.service {
            self.service_s = scalar.number().map(|time| time * unit.seconds());
        }
        if let (Scalar::Text(text), true) = (scalar, meaning.is_message) {
            self.message.get_or_insert_with(|| (*text).to_owned());
        }
        if let (Some(requests), Scalar::Text(text)) = (meaning.kinds, scalar) {
            self.is_other |= !requests.contains(text);
            self.is_request |= requests.contains(text);
        }
        self.collection.0 |= meaning.is_collection;
        if meaning.is_type {
            match scalar {
                // k6 declares a metric before its first point.
                Scalar::Text("Metric") => self.is_other = true,
                _ => self.collection.1 = scalar.number().map(|kind| kind == 0.0),
            }
        }
        self.has_duration |= meaning.is_duration;
        self.is_request |= meaning.is_request;
    }
}

/// Reads the value of a key, perhaps an object whose keys begin with `path`.
struct Value<'a> {
    line: &'a mut Line,
    path: &'a mut String,
    depth: usize,
    /// None of a whole line.
    meaning: Option<&'static Meaning>,
}

impl Value<'_> {
    fn take(self, scalar: &Scalar) {
        if let Some(meaning) = self.meaning {
            self.line.take(meaning, scalar);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Adds a key to a path.
struct Key<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<(), E> {
        self.0.push_str(key);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Value { line, path, depth, .. } = self;
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        let begin = path.len();
        while map.next_key_seed(Key(path))?.is_some() {
            let meaning = MEANINGS.get(&**path);
            // elasticdump wraps each document; its keys are those of the document alone.
            if depth == 0 && path == "_source" {
                path.clear();
                map.next_value_seed(Value { line, path, depth, meaning: None })?;
                continue;
            }
            if depth == 0 {
                line.is_request |= meaning.is_some_and(|it| it.is_request);
            }
            if meaning.is_none() || depth == DEEPEST {
                // Neither kept nor walked: nothing bounds how deep such values nest.
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Value { line, path, depth: depth + 1, meaning })?;
            }
            path.truncate(begin);
        }
        path.truncate(length);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.take(&Scalar::Text(text));
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.take(&Scalar::Number(number));
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.take(&Scalar::Number(number as f64));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.take(&Scalar::Number(number as f64));
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
/// object, between tabs; or of a file of fluentd: a date, a tag and an object.
fn console(line: &[u8]) -> Option<(Option<When>, &[u8])> {
    let (front, rest) = line.split_at(line.iter().position(|byte| *byte == b'{')?);
    let mut fields = front.split(|byte| *byte == b'\t');
    let when = When::parse(text(fields.next()?)?).filter(|_| fields.count() >= 2)?;
    Some((Some(when), rest))
}

/// Walks the objects of a line without keeping them.
fn walked<'de>(mut json: serde_json::Deserializer<impl Read<'de>>) -> Option<Line> {
    let (mut line, mut path) = (Line::default(), String::new());
    let whole = Value { line: &mut line, path: &mut path, depth: 0, meaning: None };
    whole.deserialize(&mut json).ok()?;
    // What follows an object would be another request, and be lost.
    json.end().ok()?;
    Some(line)
}

/// A line of a log. Container engines and collectors wrap the lines of others: those are read by
/// `wrapped`. What other loggers write beside requests has a message and nothing of a request.
pub(super) fn row(line: &[u8], wrapped: impl Fn(&[u8]) -> Option<Seen>) -> Option<Seen> {
    // A list may have an element in each line, and its brackets in lines of their own.
    if line == b"[" || line == b"]" {
        return Some(Seen::Comment);
    }
    let line = line.strip_suffix(b",").unwrap_or(line);
    let (front, line) = match line.starts_with(b"{") {
        true => (None, line),
        false => console(line)?,
    };
    // The whole line is checked to be UTF-8 at once, if it is, instead of each string.
    let mut found = match text(line) {
        Some(line) => walked(serde_json::Deserializer::from_str(line)).or_else(|| {
            // nginx escapes by `\x22` unless it is told that it writes JSON.
            let unescaped = line.contains("\\x").then(|| line.replace("\\x", "\\u00"))?;
            walked(serde_json::Deserializer::from_str(&unescaped))
        }),
        None => walked(serde_json::Deserializer::from_slice(line)),
    }?;
    if found.is_other {
        return Some(Seen::Other);
    }
    let when = found.when().or(front)?;
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
    found.row(|| front)
}

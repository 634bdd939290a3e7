//! Lines of JSON, as nginx, Caddy, traefik and envoy write them where they are told to.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::Deserialize;

use super::super::moment::{common, When};
use super::{Row, Seen, Unit};

/// Keys of times, the best first: when a request began, then when its line was written.
const TIMES: [&str; 15] = [
    "StartUTC",
    "StartLocal",
    "start_time",
    "startTime",
    "ts",
    "@timestamp",
    "timestamp",
    "msec",
    "time",
    "time_iso8601",
    "time_local",
    "datetime",
    "date",
    "requestTime",
    "at_s",
];
const BYTES: [&str; 10] = [
    "bytes_sent",
    "body_bytes_sent",
    "size",
    "bytes",
    "DownstreamContentSize",
    "OriginContentSize",
    "responseSize",
    "response_size",
    "resp_bytes",
    "bytesSent",
];
const DURATIONS: [&str; 7] = [
    "duration",
    "Duration",
    "request_time",
    "latency",
    "response_time",
    "responseLatency",
    "total_s",
];
const SERVICES: [(&str, Unit); 3] = [
    ("service_s", Unit::Seconds),
    ("service_ms", Unit::Milliseconds),
    ("service_us", Unit::Microseconds),
];

/// A value that is no list and no object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(f64),
    Text(String),
    Other(IgnoredAny),
}

impl Scalar {
    fn number(&self) -> Option<f64> {
        match self {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) => match text.trim() {
                "-" | "" => Some(0.0),
                text => text.parse().ok(),
            },
            Scalar::Other(_) => None,
        }
    }

    fn when(&self) -> Option<When> {
        match self {
            Scalar::Number(number) => Some(When::Number(*number)),
            Scalar::Text(text) => When::parse(text).or_else(|| common(text.as_bytes())),
            Scalar::Other(_) => None,
        }
    }
}

/// The values of a line that are looked at.
#[derive(Default)]
struct Line {
    time: Option<(usize, When)>,
    bytes: Option<(usize, f64)>,
    service_s: Option<f64>,
    has_duration: bool,
    has_keys: bool,
}

impl Line {
    fn take(&mut self, key: &str, scalar: &Scalar) {
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
        self.has_duration |= DURATIONS.contains(&key);
    }
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Line, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Line;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
                let mut line = Line::default();
                while let Some(key) = map.next_key::<String>()? {
                    line.has_keys = true;
                    line.take(&key, &map.next_value()?);
                }
                Ok(line)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// A line of a log; lines of other loggers have no time and no bytes.
pub(super) fn row(line: &[u8]) -> Option<Seen> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let (_, when) = line.time?;
    if let Some(service_s) = line.service_s {
        let fits = (0.0..=1e15).contains(&service_s);
        return fits.then_some(Seen::Served(Row::at(when, service_s)));
    }
    let (_, bytes) = line.bytes.unwrap_or((0, 0.0));
    let row = Row { has_duration: line.has_duration, ..Row::at(when, bytes) };
    (line.has_keys && (0.0..=1e15).contains(&bytes)).then_some(Seen::Request(row))
}

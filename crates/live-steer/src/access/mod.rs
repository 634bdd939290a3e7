//! The access log: a line for each request, in combined log format or JSON.
//!
//! Connections format lines and append them to a bounded buffer; one thread writes them. No request
//! waits for a disk: lines that find the buffer full are dropped, and counted.

mod line;
mod sink;

pub use sink::{Access, Told};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

/// Description of an access log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessLog {
    /// File of the log, relative to the description; `-` is standard output.
    pub file: PathBuf,
    /// Form of its lines.
    #[serde(default)]
    pub format: Format,
}

/// Form of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Combined log format, then machine, outcome and three times in seconds.
    #[default]
    Combined,
    /// An object of JSON.
    Json,
}

/// Bytes of a client that are kept of one text; a longer one ends in `...`.
const LONGEST: usize = 4096;

/// Texts of a client. They may hold any byte.
#[derive(Debug, Default)]
struct Texts {
    request: Vec<u8>,
    referer: Option<Vec<u8>>,
    agent: Option<Vec<u8>>,
}

/// A request on its way, which becomes a line of the log when it is dropped. Without a log nothing
/// is kept.
#[derive(Debug, Default)]
pub struct Entry(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    access: Arc<Access>,
    client: String,
    texts: Texts,
    came: Instant,
    date: SystemTime,
    machine: Option<String>,
    /// Time at which a worker had the request.
    begun: Option<Instant>,
    /// Time at which the machine had said all, or had failed.
    done: Option<Instant>,
    status: u16,
    bytes: u64,
    outcome: &'static str,
}

impl Entry {
    /// Begins an entry of a request of HTTP/1 from its head, which may be broken or cut off.
    pub fn of_head(access: Option<&Arc<Access>>, client: &str, head: &[u8]) -> Entry {
        Entry::begin(access, client, || texts_of(head))
    }

    /// Begins an entry of a request of HTTP/2.
    pub fn of_parts(
        access: Option<&Arc<Access>>,
        client: &str,
        parts: &http::request::Parts,
    ) -> Entry {
        Entry::begin(access, client, || {
            let field = |name| parts.headers.get(name).map(|value| short(value.as_bytes()));
            let target = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            let line = [parts.method.as_str(), " ", target, " HTTP/2.0"].concat();
            Texts {
                request: short(line.as_bytes()),
                referer: field(http::header::REFERER),
                agent: field(http::header::USER_AGENT),
            }
        })
    }

    /// Begins an entry of a connection whose bytes are passed on as they are.
    pub fn of_connection(access: Option<&Arc<Access>>, client: &str) -> Entry {
        Entry::begin(access, client, || Texts { request: b"TCP".to_vec(), ..Texts::default() })
    }

    fn begin(access: Option<&Arc<Access>>, client: &str, texts: impl FnOnce() -> Texts) -> Entry {
        Entry(access.map(|access| {
            Box::new(Open {
                access: access.clone(),
                client: client.to_owned(),
                texts: texts(),
                came: Instant::now(),
                date: SystemTime::now(),
                machine: None,
                begun: None,
                done: None,
                status: 0,
                bytes: 0,
                outcome: "aborted",
            })
        }))
    }

    /// Records that a worker of a machine has the request.
    #[inline]
    pub fn served_by(&mut self, machine: &str) {
        if let Some(open) = &mut self.0 {
            open.machine = Some(machine.to_owned());
            open.begun.get_or_insert_with(Instant::now);
        }
    }

    /// Records that the machine has said all.
    #[inline]
    pub fn machine_done(&mut self) {
        if let Some(open) = &mut self.0 {
            open.done.get_or_insert_with(Instant::now);
        }
    }

    /// Records the status that the client gets.
    #[inline]
    pub fn status(&mut self, status: u16) {
        if let Some(open) = &mut self.0 {
            open.status = status;
        }
    }

    /// Records the outcome, and the bytes of the body that the client got.
    #[inline]
    pub fn end(&mut self, outcome: &'static str, bytes: u64) {
        if let Some(open) = &mut self.0 {
            (open.outcome, open.bytes) = (outcome, bytes);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let now = Instant::now();
        let done = self.done.unwrap_or(now);
        let waited = self.begun.unwrap_or(now).saturating_duration_since(self.came);
        let machine =
            self.begun.map_or(Duration::ZERO, |begun| done.saturating_duration_since(begun));
        let line = line::Line {
            client: &self.client,
            texts: &self.texts,
            date: self.date,
            status: self.status,
            bytes: self.bytes,
            machine: self.machine.as_deref(),
            outcome: self.outcome,
            times: [waited, machine, now.saturating_duration_since(self.came)],
        };
        self.access.push(|format, out| line.write(format, out));
    }
}

/// The first of its bytes, with a mark if there are more.
fn short(text: &[u8]) -> Vec<u8> {
    if text.len() <= LONGEST {
        return text.to_vec();
    }
    [&text[..LONGEST], b"..."].concat()
}

/// The request line and two fields of a head, whatever it holds.
fn texts_of(head: &[u8]) -> Texts {
    let mut lines = head.split(|&b| b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
    // Empty lines before a request are none of it (RFC 9112, section 2.2).
    let request = lines.by_ref().find(|line| !line.is_empty()).unwrap_or_default();
    let mut texts = Texts { request: short(request), ..Texts::default() };
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some(colon) = line.get(..16).unwrap_or(line).iter().position(|&b| b == b':') else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"referer") {
            texts.referer.get_or_insert_with(|| short(value));
        } else if name.eq_ignore_ascii_case(b"user-agent") {
            texts.agent.get_or_insert_with(|| short(value));
        }
    }
    texts
}

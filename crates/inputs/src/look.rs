//! Names a file that a reader does not take, and the command that does.

use std::fmt;

/// A format of another family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Name of the format, with its article.
    pub what: &'static str,
    /// Command that takes it.
    pub how: &'static str,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is {}: {}", self.what, self.how)
    }
}

const FRAMES: Other = Other {
    what: "a packet capture",
    how: "`halfwink live generate --replay FILE` sends its frames",
};
/// The command that plays block I/Os.
pub const BLOCKS: &str = "`halfwink live block --advise --load FILE` plays it";
const TRACE: Other =
    Other { what: "a trace of instructions", how: "`halfwink trace info FILE` shows it" };

/// Tells a format by the first bytes of a file, or its first line.
#[must_use]
pub fn look(head: &[u8]) -> Option<Other> {
    let is = |magic: &[u8]| head.starts_with(magic);
    let has = |word: &str| {
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        line.windows(word.len()).any(|window| window == word.as_bytes())
    };
    let blocks = |what| Some(Other { what, how: BLOCKS });
    let captures: [&[u8]; 5] = [
        b"\xd4\xc3\xb2\xa1",
        b"\xa1\xb2\xc3\xd4",
        b"\x4d\x3c\xb2\xa1",
        b"\xa1\xb2\x3c\x4d",
        b"\x0a\x0d\x0d\x0a",
    ];
    if captures.iter().any(|magic| is(magic)) {
        Some(FRAMES)
    } else if is(b"\x89HWT\r\n") {
        Some(TRACE)
    } else if is(b"PAR1") {
        Some(Other { what: "a table in Parquet", how: "write it as CSV first" })
    } else if is(b"SQLite format 3") {
        Some(Other { what: "a database of SQLite", how: "write the table as CSV first" })
    } else if is(b"\x7fELF") {
        Some(Other { what: "a program", how: "`halfwink capture -- PROGRAM` records what it does" })
    } else if is(b"<?xml") || is(b"<!DOCTYPE") || is(b"<html") {
        Some(Other { what: "XML or HTML", how: "write it as CSV first" })
    } else if is(b"fio version ") {
        blocks("an I/O log of fio")
    } else if is(b"[global]") || (is(b"[") && has("ioengine")) {
        blocks("a job file of fio")
    } else if has("block_rq_") || has("SECTOR") && has("BYTES") {
        blocks("a trace of the block layer")
    } else if let Some(other) = look_at_json(head) {
        Some(other)
    } else if is(b"RUN\t") {
        Some(Other {
            what: "a log of Gatling",
            how: "`grep ^REQUEST FILE > requests.tsv`, and log:time-column=4:requests.tsv",
        })
    } else if has(" HTTP/1.") && !has("[") {
        Some(Other {
            what: "a log of requests without times",
            how: "let the server write them (%t, $time_iso8601)",
        })
    } else if is(b"Nodes ") {
        Some(Other {
            what: "a connection matrix of htsim",
            how: "`halfwink circuits advise FILE.cm` plays it",
        })
    } else {
        None
    }
}

/// Tells a document of JSON by keys of its head.
fn look_at_json(head: &[u8]) -> Option<Other> {
    let within = |word: &str| head.windows(word.len()).any(|window| window == word.as_bytes());
    let is_json = head.trim_ascii_start().starts_with(b"{");
    if head.starts_with(b"[") && head[1..].trim_ascii_start().starts_with(b"{") {
        Some(Other {
            what: "a list of JSON",
            how: "`jq -c '.[]' FILE` writes a line for each of its objects",
        })
    } else if is_json && within("\"entries\"") && within("\"log\"") {
        Some(Other {
            what: "an archive of HTTP (HAR)",
            how: "`jq -c '.log.entries[]' FILE` writes a line for each request",
        })
    } else if is_json && within("\"fio version\"") {
        Some(Other {
            what: "a result of fio",
            how: "`halfwink live block --advise --load JOB.fio` plays the job file behind it",
        })
    } else if is_json && within("\"resultType\"") {
        Some(Other { what: "an answer of Prometheus", how: "`--load counts:FILE` plays its rates" })
    } else if within("\"traceEvents\"") {
        Some(Other {
            what: "a trace of Chrome or Kineto",
            how: "convert it by Chakra's tools first",
        })
    } else {
        None
    }
}

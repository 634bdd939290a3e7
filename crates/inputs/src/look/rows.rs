//! Formats that a reader of halfwink takes, for readers of the other families; and containers.

use super::Family::{Blocks, Counts, Flows, Frames, Idle, Requests, Services};
use super::{Row, READ};

const PLAYS_BLOCKS: &str = "`halfwink live block --advise --load FILE` plays it";
const AS_CSV: &str = "write it as CSV first";

/// Rows are tried in this order; the first that knows a file names it.
pub(super) const ROWS: &[Row] = &[
    Row {
        what: "a packet capture",
        is: |head| {
            let magics: [&[u8]; 5] = [
                b"\xd4\xc3\xb2\xa1",
                b"\xa1\xb2\xc3\xd4",
                b"\x4d\x3c\xb2\xa1",
                b"\xa1\xb2\x3c\x4d",
                b"\x0a\x0d\x0d\x0a",
            ];
            magics.iter().any(|magic| head.is(magic))
        },
        how: "`halfwink live generate --replay FILE` sends its frames",
        steps: &[(Frames, READ)],
    },
    Row {
        what: "a trace of instructions",
        is: |head| head.is(b"\x89HWT\r\n"),
        how: "`halfwink trace info FILE` shows it",
        steps: &[(Services, "`halfwink profile FILE -m golden-cove` makes a profile of it")],
    },
    Row {
        what: "a profile of a service",
        // Machines have a section `[core]`; a profile names the core that it was made on.
        is: |head| head.within("service_us") && head.lines().any(|line| line.starts_with("core =")),
        how: "`halfwink compare FILE -m golden-cove-56` plays it on a server",
        steps: &[(Services, READ)],
    },
    Row {
        what: "a study",
        // Either word alone may stand in other descriptions.
        is: |head| {
            let has = |key: &str| head.lines().any(|line| line.starts_with(key));
            has("workloads =") && has("techniques =")
        },
        how: "`halfwink run FILE` plays it",
        steps: &[],
    },
    Row { what: "a table in Parquet", is: |head| head.is(b"PAR1"), how: AS_CSV, steps: &[] },
    Row {
        what: "a database of SQLite",
        is: |head| head.is(b"SQLite format 3"),
        how: "write the table as CSV first",
        steps: &[],
    },
    Row {
        what: "a recording of perf",
        is: |head| head.is(b"PERFILE2"),
        how: "`perf script -i FILE > events.txt` writes its text",
        steps: &[],
    },
    Row {
        what: "a recording of trace-cmd",
        is: |head| head.is(b"\x17\x08\x44tracing"),
        how: "`trace-cmd report FILE > events.txt` writes its text",
        steps: &[],
    },
    Row {
        what: "a program",
        is: |head| head.is(b"\x7fELF"),
        how: "`halfwink record -- FILE` records what it does",
        steps: &[],
    },
    Row {
        what: "a topology of hwloc",
        is: |head| head.within("<topology") && head.within("<object"),
        how: "`halfwink calibrate host` makes a machine of the server itself",
        steps: &[],
    },
    Row {
        what: "a list of lscpu",
        // It has neither latencies nor watts, so that no machine follows from it.
        is: |head| {
            head.within("\"lscpu\"") || (head.within("Architecture:") && head.within("\nCPU(s):"))
        },
        how: "`halfwink calibrate host` makes a machine of the server itself",
        steps: &[],
    },
    Row {
        what: "a report of powertop",
        is: |head| head.within("<html") && head.within("PowerTOP"),
        how: "`powertop --csv=FILE.csv` writes what is read here",
        steps: &[],
    },
    Row {
        what: "a page of the web",
        is: |head| head.is(b"<!DOCTYPE html") || head.is(b"<!doctype html") || head.is(b"<html"),
        how: "fetch the file itself, as by a link to its raw form",
        steps: &[],
    },
    Row {
        what: "a pointer of Git LFS",
        is: |head| head.is(b"version https://git-lfs"),
        how: "`git lfs pull` in its repository fetches the file",
        steps: &[],
    },
    Row {
        what: "XML",
        is: |head| head.is(b"<?xml") || head.is(b"<!DOCTYPE"),
        how: AS_CSV,
        steps: &[],
    },
    Row {
        what: "an I/O log of fio",
        is: |head| head.is(b"fio version "),
        how: PLAYS_BLOCKS,
        steps: &[(Blocks, READ)],
    },
    Row {
        what: "a job file of fio",
        is: |head| head.is(b"[global]") || (head.is(b"[") && head.has("ioengine")),
        how: PLAYS_BLOCKS,
        steps: &[(Blocks, READ)],
    },
    Row {
        what: "a trace of the block layer",
        is: |head| head.has("block_rq_") || (head.has("SECTOR") && head.has("BYTES")),
        how: PLAYS_BLOCKS,
        steps: &[(Blocks, READ)],
    },
    Row {
        what: "a list of JSON",
        is: |head| head.is_list(),
        how: "`jq -c '.[]' FILE > lines.json` writes a line for each of its objects",
        steps: &[],
    },
    Row {
        what: "an archive of HTTP (HAR)",
        is: |head| head.is_object() && head.within("\"entries\"") && head.within("\"log\""),
        how: "`jq -c '.log.entries[]' FILE > lines.json` writes a line for each request",
        steps: &[],
    },
    Row {
        what: "a result of fio",
        is: |head| head.is_object() && head.within("\"fio version\""),
        how: "`halfwink live block --advise --load JOB.fio` plays the job file behind it",
        steps: &[],
    },
    Row {
        what: "an answer of Prometheus",
        is: |head| head.is_object() && head.within("\"resultType\""),
        how: "`--load counts:FILE` plays its rates",
        steps: &[(Counts, READ)],
    },
    Row {
        what: "a trace of Chrome or Kineto",
        is: |head| head.within("\"traceEvents\""),
        how: "convert it by Chakra's tools first",
        steps: &[],
    },
    Row {
        what: "a log of Gatling",
        is: |head| head.is(b"RUN\t"),
        how: "`grep ^REQUEST FILE > requests.tsv`, and log:time-column=4:requests.tsv",
        steps: &[],
    },
    Row {
        what: "an error log of nginx or Apache",
        // It names the few requests that failed, so that its rate would be far too low.
        is: |head| {
            let line = head.first();
            (line.contains(" [error] ")
                || line.contains("[core:error]")
                || line.contains("[error] [pid "))
                && line.contains("client")
        },
        how: "`--load log:` plays the access log beside it",
        steps: &[],
    },
    Row {
        what: "a log of requests without times",
        // Most formats of times stand in brackets; the row behind this one has them.
        is: |head| head.has(" HTTP/1.") && !head.has("["),
        how: "let the server write them (%t, $time_iso8601)",
        steps: &[],
    },
    Row {
        what: "a log of requests",
        is: |head| head.has(" HTTP/1.") && head.has("["),
        how: "`halfwink hybrid --load log:FILE` plays it",
        steps: &[
            (Requests, READ),
            (Counts, READ),
            (Services, "`halfwink compare nginx --load log:FILE` plays its arrivals"),
        ],
    },
    Row {
        what: "a connection matrix of htsim",
        is: |head| head.is(b"Nodes "),
        how: "`halfwink circuits advise FILE.cm` plays it",
        steps: &[(Flows, READ)],
    },
    Row {
        what: "text of `power:cpu_idle`",
        is: |head| head.lines().take(20).any(|line| line.contains("cpu_idle: state=")),
        how: "`halfwink idle FILE` reads it",
        steps: &[(Idle, READ)],
    },
    Row {
        what: "entries of drmemtrace as text",
        is: |head| head.within("<--record#->") || head.within("\nFormat: <data address>"),
        how: "`halfwink trace import --format drmemtrace TRACE` reads the trace behind it",
        steps: &[],
    },
];

//! Beside DRAMsim3: bandwidth and mean latency on the same requests.

use crate::common;

use common::driver::{play, Mode};
use common::{reference_spec, requests};

/// A row of `referee/dramsim3.csv`.
struct Row {
    name: String,
    device: String,
    map: String,
    hash: String,
    pattern: String,
    rate: String,
    gb_s: f64,
    read_mean_ns: f64,
    knee: bool,
}

fn rows() -> Vec<Row> {
    let text = include_str!("referee/dramsim3.csv");
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let cell = |head: &str| cells[heads.iter().position(|h| *h == head).unwrap()];
            let number = |head: &str| cell(head).parse::<f64>().unwrap();
            Row {
                name: cells[..5].join(" "),
                device: cell("device").to_owned(),
                map: cell("map").to_owned(),
                hash: cell("hash").to_owned(),
                pattern: cell("pattern").to_owned(),
                rate: cell("rate").to_owned(),
                gb_s: number("gb_s"),
                read_mean_ns: number("read_mean_ns"),
                knee: cell("knee") == "yes",
            }
        })
        .collect()
}

/// Relative errors of bandwidth and mean latency.
fn errors(row: &Row) -> (f64, f64) {
    let spec = reference_spec(&row.device, &row.map, &row.hash);
    let burst = spec.device.timing.burst as f64;
    let n = if row.pattern == "chase" { 10_000 } else { 30_000 };
    let (mode, gap) = match row.rate.as_str() {
        "sat" => (Mode::Closed(32), None),
        "one" => (Mode::Closed(1), None),
        rate => (Mode::Open, Some(burst / rate.parse::<f64>().unwrap())),
    };
    let played = play(&spec, &requests(&row.pattern, n, gap), mode, false);
    let ns = spec.device.clock_ps as f64 * 1e-3;
    let gb_s = (played.reads + played.writes) as f64 * 64.0 / (played.clocks as f64 * ns);
    let mean = played.mean_clocks() * ns;
    (gb_s / row.gb_s - 1.0, mean / row.read_mean_ns - 1.0)
}

/// Points that are further off than bandwidth by 5 % or mean latency by 10 %, by how much (per
/// cent), and why.
const MISSED: [(&str, f64, f64); 4] = [
    // DRAMsim3 looks at banks in turn, we at the oldest request first.
    ("ddr3-1333 rochrababgco low rand sat", 5.1, 4.9),
    // The same bandwidth, with fewer reads outstanding: a full write queue keeps requests outside
    // at other times, and latency counts from the entry.
    ("ddr4-3200 rochrabacobg fold seqwb sat", 0.2, 23.2),
    // Line and victim meet in one bank (no hash): who waits for whom depends on the turn of banks.
    ("ddr5-4800 rochrababgco none seqwb sat", 7.2, 6.7),
    ("ddr5-4800 rochrabacobg none seqwb 0.6", 0.1, 10.8),
];

#[test]
fn bandwidth_and_latency_are_those_of_dramsim3() {
    let rows: Vec<Row> = rows().into_iter().filter(|row| !row.knee).collect();
    assert_eq!(rows.len(), 170);
    let mut wrong = Vec::new();
    let mut sum = 0.0;
    for row in &rows {
        let (bandwidth, latency) = errors(row);
        sum += latency.abs();
        let known = MISSED.iter().find(|missed| missed.0 == row.name);
        let (most_bandwidth, most_latency) = known.map_or((5.0, 10.0), |m| (m.1, m.2));
        let [bandwidth, latency] = [bandwidth, latency].map(|error| error * 100.0);
        let is_close = bandwidth.abs() <= most_bandwidth && latency.abs() <= most_latency;
        let is_needless = known.is_some() && bandwidth.abs() <= 5.0 && latency.abs() <= 10.0;
        if !is_close || is_needless {
            wrong.push(format!("{}: bandwidth {bandwidth:.2}, latency {latency:.2} %", row.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert!(sum / (rows.len() as f64) < 0.02, "mean error of latency: {sum}");
}

/// The last lines of `reference.py --requests PATTERN 6.5`.
const LAST: [(&str, u64, bool, u64); 2] =
    [("seq", 0x752f, false, 194_749), ("rand50", 0x3d_8e64, false, 195_044)];

#[test]
fn the_requests_are_those_of_the_reference() {
    for (pattern, line, write, clock) in LAST {
        let last = *requests(pattern, 30_000, Some(6.5)).last().unwrap();
        assert_eq!((last.line, last.write, last.clock), (line, write, clock), "{pattern}");
    }
}

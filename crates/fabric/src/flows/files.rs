//! Traffic from files: one flow a line, and coflows of clusters.

use std::net::IpAddr;

use halfwink_units::Time;

use super::layout::Layout;
use super::traffic::{Flow, Traffic, ALONE};
use super::Racks;

/// Latest begin, in nanoseconds (11 days), and largest flow, in bytes.
const LATEST_NS: f64 = 1e15;
const LARGEST: f64 = 1e15;

/// An error in a file, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {message}")]
pub struct FileError {
    /// The line, from 1.
    pub line: usize,
    /// Message with the value found and the values allowed.
    pub message: String,
}

/// A line's words as numbers in a range.
struct Words<'a> {
    line: usize,
    words: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn wrong(&self, message: String) -> FileError {
        FileError { line: self.line, message }
    }

    fn text(&mut self, what: &str) -> Result<&'a str, FileError> {
        self.words.next().ok_or_else(|| self.wrong(format!("{what} is missing")))
    }

    fn number(&mut self, what: &str, least: f64, most: f64) -> Result<f64, FileError> {
        let word = self.text(what)?;
        self.parse(word, what, least, most)
    }

    fn whole(&mut self, what: &str, least: u32, most: u32) -> Result<u32, FileError> {
        let word = self.text(what)?;
        self.parse_whole(word, what, least, most)
    }

    fn parse_whole(&self, word: &str, what: &str, least: u32, most: u32) -> Result<u32, FileError> {
        let number = self.parse(word, what, f64::from(least), f64::from(most))?;
        if number.fract() == 0.0 {
            return Ok(number as u32);
        }
        Err(self.wrong(format!("{what}: found {number}, expected a whole number")))
    }

    fn parse(&self, word: &str, what: &str, least: f64, most: f64) -> Result<f64, FileError> {
        match word.parse::<f64>() {
            // Rust reads `nan` and `inf` as numbers; no range contains them.
            Ok(value) if (least..=most).contains(&value) => Ok(value),
            _ => {
                let message = format!("{what}: found `{word:.60}`, expected {least} to {most}");
                Err(self.wrong(message))
            }
        }
    }

    fn end(&mut self) -> Result<(), FileError> {
        let Some(word) = self.words.next() else { return Ok(()) };
        Err(self.wrong(format!("found `{word:.60}`, expected the end of the line")))
    }
}

fn lines(text: &str) -> impl Iterator<Item = Words<'_>> {
    text.lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(text, line)| Words { line, words: text.split_whitespace() })
}

/// Reads a list of flows, servers from 0, in any order ([`Layout`]).
///
/// # Errors
/// With the line that is wrong.
pub fn read_flows(text: &str, racks: &Racks) -> Result<Traffic, FileError> {
    let (most, mut traffic) = (racks.all_servers() - 1, Traffic::default());
    let layout = Layout::of(text);
    if let Some(line) = layout.unknown_header(text) {
        let message = "found a header, expected the columns src, dst, bytes and start_ns (or \
                       start_us, start_ms, start_s)";
        return Err(FileError { line, message: message.to_owned() });
    }
    // ns-3's lists for HPCC begin at 2 s, by when its switches are up; nothing happens before.
    let begins =
        || layout.rows(text).filter_map(|(_, row)| row.get(layout.begin)?.parse::<f64>().ok());
    let warm_up = match layout.announced(text) {
        Some(_) => begins().fold(f64::INFINITY, f64::min),
        None => 0.0,
    };
    for (line, row) in layout.rows(text) {
        let words = Words { line, words: "".split_whitespace() };
        let word = |at: usize, what: &str| {
            row.get(at).copied().ok_or_else(|| words.wrong(format!("{what} is missing")))
        };
        let end = |at: usize, what: &str| {
            // Captures have addresses: saying how to number them helps more than the range of
            // numbers.
            if let Some(address) = row.get(at).filter(|word| word.parse::<IpAddr>().is_ok()) {
                let step = layout.numbered();
                let message = format!(
                    "{what}: found the address {address}, expected numbers of \
                                       servers: `{step} FILE > flows.txt` numbers them"
                );
                return Err(words.wrong(message));
            }
            let number = words.parse(word(at, what)?, what, 0.0, f64::from(most))?;
            match number.fract() == 0.0 {
                true => Ok(number as u32),
                false => {
                    Err(words.wrong(format!("{what}: found {number}, expected a whole number")))
                }
            }
        };
        let (from, to) = (end(layout.from, "source")?, end(layout.to, "destination")?);
        let bytes = words.parse(word(layout.bytes, "bytes")?, "bytes", 1.0, LARGEST)?;
        let latest = LATEST_NS / layout.unit_ns;
        // Where semicolons or tabs separate columns, a comma begins a fraction.
        let points = usize::from(layout.delimiter.is_some());
        let begin = word(layout.begin, "begin")?.replacen(',', ".", points);
        let begin = words.parse(&begin, "begin", 0.0, latest)?;
        if let Some(word) = row.get(layout.words) {
            return Err(words.wrong(format!("found `{word:.60}`, expected the end of the line")));
        }
        if from == to {
            return Err(words.wrong(format!("server {from} sends to itself")));
        }
        let after = Time::from_ns((begin - warm_up) * layout.unit_ns);
        traffic.add(Flow { from, to, bytes, after, group: ALONE }, &[]);
    }
    let found = traffic.flows().len();
    if let Some(announced) = layout.announced(text).filter(|it| *it != found) {
        let line = text.lines().count().max(1);
        let message = format!("found {found} flows, expected {announced}, as the first line says");
        return Err(FileError { line, message });
    }
    finish(traffic)
}

/// Reads coflows between racks (the format of coflow-benchmark): a line with racks and coflows,
/// then for each `number begin_ms mappers rack ... reducers rack:megabytes ...`. What a reducer
/// gets comes from all mappers alike. Each coflow has a server of each of its racks, in turn.
///
/// # Errors
/// With the line that is wrong.
pub fn read_coflows(text: &str, racks: &Racks) -> Result<Traffic, FileError> {
    let (mut lines, mut traffic) = (lines(text), Traffic::default());
    let none = || FileError { line: 1, message: "found nothing, expected coflows".to_owned() };
    let mut head = lines.next().ok_or_else(none)?;
    let places = head.whole("racks", 1, u32::from(racks.count))?;
    let coflows = head.whole("coflows", 1, 10_000_000)?;
    head.end()?;
    for _ in 0..coflows {
        let message = format!("found {} coflows, expected {coflows}", traffic.groups());
        let wrong = || FileError { line: text.lines().count().max(1), message };
        read_coflow(&mut lines.next().ok_or_else(wrong)?, racks, places, &mut traffic)?;
    }
    if let Some(words) = lines.next() {
        return Err(words.wrong(format!("found a line behind {coflows} coflows, expected no more")));
    }
    finish(traffic)
}

/// Size that a file asks of a fabric, by its first lines: racks, or servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Racks, with any number of servers.
    Racks(u32),
    /// Servers, in any racks.
    Servers(u32),
}

/// Returns the size that a file of flows, of coflows or a connection matrix needs; none if its
/// head is none of these.
#[must_use]
pub fn needs(text: &str) -> Option<Needs> {
    if let Some(nodes) = super::htsim::nodes(text) {
        return Some(Needs::Servers(nodes));
    }
    let layout = Layout::of(text);
    let mut first = lines(text).next()?.words;
    let (word, second) = (first.next()?, first.next());
    // Exactly two numbers in the first line are coflows' head; a list of flows has four words or
    // more.
    if let (Some(second), None) = (second, first.next()) {
        second.parse::<u32>().ok()?;
        return word.parse().ok().map(Needs::Racks);
    }
    let end = |row: &[&str], at: usize| row.get(at).and_then(|word| word.parse::<u32>().ok());
    let last = |(_, row): (usize, Vec<&str>)| {
        [layout.from, layout.to].into_iter().filter_map(|at| end(&row, at)).max()
    };
    let last = layout.rows(text).filter_map(last).max();
    last.and_then(|last| last.checked_add(1)).map(Needs::Servers)
}

fn read_coflow(
    words: &mut Words,
    racks: &Racks,
    places: u32,
    traffic: &mut Traffic,
) -> Result<(), FileError> {
    words.text("number")?;
    let after = Time::from_ns(1e6 * words.number("begin", 0.0, LATEST_NS * 1e-6)?);
    let group = traffic.group();
    let in_rack = u32::from(racks.servers);
    let server = |rack: u32| rack * in_rack + group % in_rack;
    let mappers = words.whole("mappers", 1, 1_000_000)?;
    let mut senders = Vec::new();
    for _ in 0..mappers {
        senders.push(server(words.whole("rack of a mapper", 0, places - 1)?));
    }
    for _ in 0..words.whole("reducers", 1, 1_000_000)? {
        let word = words.text("a reducer")?;
        let (rack, mb) = word.split_once(':').ok_or_else(|| {
            words.wrong(format!("a reducer: found `{word:.60}`, expected rack:megabytes"))
        })?;
        let rack = words.parse_whole(rack, "rack of a reducer", 0, places - 1)?;
        let mb = words.parse(mb, "megabytes", 0.0, LARGEST * 1e-6)?;
        let (to, bytes) = (server(rack), 1e6 * mb / f64::from(mappers));
        for &from in senders.iter().filter(|&&from| from != to) {
            // A share below a byte is no flow.
            if bytes >= 1.0 {
                traffic.add(Flow { from, to, bytes, after, group }, &[]);
            }
        }
    }
    words.end()
}

pub(super) fn finish(mut traffic: Traffic) -> Result<Traffic, FileError> {
    if traffic.flows().is_empty() {
        return Err(FileError { line: 1, message: "found no flows".to_owned() });
    }
    traffic.close();
    Ok(traffic)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::flows::RackFaults;
    use crate::flows::RackPower;

    pub(in crate::flows) fn racks() -> Racks {
        let power = RackPower {
            circuit_port_w: 0.0,
            packet_w_per_gbps: 0.0,
            transceiver_w: 0.0,
            server_w: 0.0,
        };
        Racks {
            count: 4,
            servers: 2,
            server_gbps: 10.0,
            planes: 1,
            packet_gbps: 0.0,
            packet_below_bytes: 0.0,
            goodput: 1.0,
            hop_us: 0.0,
            frame_bytes: 0.0,
            packet_hops: 1,
            faults: RackFaults::default(),
            rank: None,
            power,
        }
    }

    #[test]
    fn flows_in_any_order() {
        let read = read_flows("# a comment\n\n0 7 1500 2000\n3 1 1e6 10.5\n", &racks()).unwrap();
        assert_eq!(read.flows().len(), 2);
        assert_eq!(read.flows()[1].after, Time::from_ns(10.5));
        assert_eq!(read.bytes(), 1_001_500.0);
    }

    #[test]
    fn wrong_flows_are_named_with_their_line() {
        let hpcc = read_flows("2\n0 1 3 100 200000 2.0\n1 2 3 100 200000 2.1\n", &racks()).unwrap();
        let begins: Vec<_> = hpcc.flows().iter().map(|flow| flow.after.as_ns().round()).collect();
        assert_eq!(begins, [0.0, 1e8]);
        let error = |text| read_flows(text, &racks()).unwrap_err().to_string();
        assert_eq!(error("0 1 5 0\n0 8 5 0"), "2: destination: found `8`, expected 0 to 7");
        assert_eq!(error("0 1 5"), "1: begin is missing");
        assert_eq!(error("0 1 5 0 9"), "1: found `9`, expected the end of the line");
        assert_eq!(error("2 2 5 0"), "1: server 2 sends to itself");
        assert!(error("0 1 9223372036854775808 0").starts_with("1: bytes: found"));
        assert!(error("0 1 nan 0").starts_with("1: bytes: found `nan`"));
        assert_eq!(error(""), "1: found no flows");
        assert_eq!(error("1.5 0 1 1"), "1: source: found 1.5, expected a whole number");
    }

    #[test]
    fn lists_between_commas_have_comments_and_decimal_commas() {
        let plain = read_flows("0,7,1500,2000 # the first\n3,1,1e6,10.5\n", &racks()).unwrap();
        assert_eq!((plain.flows().len(), plain.bytes()), (2, 1_001_500.0));
        let quoted = "\"src\",\"dst\",\"size\",\"start_s\"\n\"0\",\"1\",\"5\",\"0.5\"\n";
        assert_eq!(read_flows(quoted, &racks()).unwrap().bytes(), 5.0);
        let table = "src;dst;bytes;start_us # mine\n0;1;1000;0\n2;3;3000;1,5\n";
        let table = read_flows(table, &racks()).unwrap();
        assert_eq!(table.flows()[1].after, Time::from_ns(1500.0));
        // Between blanks it may as well separate thousands.
        let error = read_flows("0 7 1500 2,000\n", &racks()).unwrap_err().to_string();
        assert!(error.starts_with("1: begin: found `2,000`"), "{error}");
    }

    #[test]
    fn lists_with_fewer_or_more_flows_than_announced_are_refused() {
        let flows = "0 1 3 100 1000 2.0\n2 3 3 100 3000 2.1\n";
        assert!(read_flows(&format!("2\n{flows}"), &racks()).is_ok());
        for announced in [1, 3] {
            let text = format!("{announced}\n{flows}");
            let error = read_flows(&text, &racks()).unwrap_err().to_string();
            let expected =
                format!("3: found 2 flows, expected {announced}, as the first line says");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn coflows_are_flows_from_each_mapper_to_each_reducer() {
        let text = "4 2\n1 0 1 3 1 2:1.0\n2 1000 2 0 1 2 2:4 3:8\n";
        let read = read_coflows(text, &racks()).unwrap();
        assert_eq!(read.groups(), 2);
        assert_eq!(read.flows().len(), 1 + 4);
        // The second coflow has the second server of each rack.
        let last = read.flows()[4];
        assert_eq!((last.from, last.to, last.bytes, last.group), (3, 7, 4e6, 1));
        let error = |text| read_coflows(text, &racks()).unwrap_err().to_string();
        assert_eq!(error("5 1\n"), "1: racks: found `5`, expected 1 to 4");
        assert_eq!(error("4 2\n1 0 1 3 1 2:1.0\n"), "2: found 1 coflows, expected 2");
        let more = "4 1\n1 0 1 3 1 2:1.0\n2 0 1 3 1 2:1.0\n";
        assert_eq!(error(more), "3: found a line behind 1 coflows, expected no more");
        let half = "4 1\n1 0 1 3 1 1.5:2\n";
        assert_eq!(error(half), "2: rack of a reducer: found 1.5, expected a whole number");
        assert_eq!(error("4 1\n1 0 1 3 1 2\n"), "2: a reducer: found `2`, expected rack:megabytes");
    }
}

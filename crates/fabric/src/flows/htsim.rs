//! Connection matrices of htsim (`.cm`; csg-htsim, `connection_matrix.cpp`).
//!
//! ```text
//! Nodes 4
//! Connections 2
//! Triggers 1
//! 0->3 id 1 start 0 size 100000 send_done_trigger 1
//! 1->3 id 2 trigger 1 size 100000
//! trigger id 1 oneshot
//! ```
//!
//! Begins are picoseconds. A flow with a trigger begins when the flows that fire it have ended: all
//! of them for a `barrier`, one for `oneshot`.

use std::collections::HashMap;

use halfwink_units::Time;

use super::files::FileError;
use super::traffic::{Flow, Traffic, ALONE};
use super::Racks;

/// Latest begin, in picoseconds (11 days), and largest flow, in bytes.
const LATEST_PS: f64 = 1e18;
const LARGEST: f64 = 1e15;

/// A connection as it is written.
struct Connection {
    line: usize,
    flow: Flow,
    /// Trigger that begins it, instead of a time.
    trigger: Option<u32>,
    /// Triggers that it fires when it ends.
    fires: Vec<u32>,
}

/// Nodes that a matrix has, by its head; none if it is no matrix.
#[must_use]
pub fn nodes(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'))?;
    line.strip_prefix("Nodes ")?.trim().parse().ok()
}

/// Reads a connection matrix.
///
/// # Errors
/// With the line that is wrong.
pub fn read_matrix(text: &str, racks: &Racks) -> Result<Traffic, FileError> {
    let most = racks.all_servers();
    let nodes = nodes(text).unwrap_or(0);
    if nodes > most {
        let message = format!("Nodes: found {nodes}, expected 1 to {most} servers");
        return Err(FileError { line: 1, message });
    }
    let (mut connections, mut triggers, mut promised) = (Vec::new(), HashMap::new(), None);
    for (line, number) in text.lines().zip(1..) {
        let wrong = |message| FileError { line: number, message };
        let mut words = line.split_whitespace();
        let Some(first) = words.next().filter(|word| !word.starts_with('#')) else { continue };
        if let Some((from, to)) = first.split_once("->") {
            let ends = [from, to].map(|word| word.parse::<u32>().ok().filter(|it| *it < nodes));
            let [Some(from), Some(to)] = ends else {
                let most = nodes.saturating_sub(1);
                return Err(wrong(format!("found `{first:.60}`, expected nodes of 0 to {most}")));
            };
            if from == to {
                return Err(wrong(format!("node {from} sends to itself")));
            }
            connections.push(connection(words, number, from, to)?);
        } else if first == "trigger" {
            let (id, kind) = trigger(words).map_err(wrong)?;
            triggers.insert(id, kind);
        } else if first == "Connections" {
            let count = words.next().and_then(|word| word.parse::<usize>().ok());
            promised = count.map(|count| (number, count));
        } else if !["Nodes", "Triggers"].contains(&first) {
            let message = match first {
                "failure" | "Failures" => {
                    "failures of links are not played; leave them out: grep -vi \
                                           ^failure FILE"
                        .to_owned()
                }
                _ => format!("found `{first:.60}`, expected source->destination or a trigger"),
            };
            return Err(wrong(message));
        }
    }
    // Fewer are a file that was cut.
    if let Some((line, count)) = promised.filter(|(_, count)| *count > connections.len()) {
        let found = connections.len();
        let message = format!("Connections: expected {count}, found {found}: the file is cut");
        return Err(FileError { line, message });
    }
    joined(connections, &triggers)
}

fn connection<'a>(
    mut words: impl Iterator<Item = &'a str>,
    line: usize,
    from: u32,
    to: u32,
) -> Result<Connection, FileError> {
    let wrong = |message| FileError { line, message };
    let flow = Flow { from, to, bytes: 0.0, after: Time::ZERO, group: ALONE };
    let mut found = Connection { line, flow, trigger: None, fires: Vec::new() };
    let mut start = None;
    while let Some(key) = words.next() {
        if key == "addon" {
            return Err(wrong("addon: expected a flow that begins once".to_owned()));
        }
        let word = words.next().ok_or_else(|| wrong(format!("{key} is missing its value")))?;
        let number = |least: f64, most: f64| {
            let found = word.parse::<f64>().ok().filter(|it| (least..=most).contains(it));
            found.ok_or_else(|| {
                wrong(format!("{key}: found `{word:.60}`, expected {least} to {most}"))
            })
        };
        let id = || number(1.0, f64::from(u32::MAX)).map(|id| id as u32);
        match key {
            "start" => start = Some(number(0.0, LATEST_PS)?),
            "size" => found.flow.bytes = number(1.0, LARGEST)?,
            "trigger" => found.trigger = Some(id()?),
            "send_done_trigger" | "recv_done_trigger" => found.fires.push(id()?),
            // Ignored: an id names a flow in htsim's logs, and fair sharing has no priorities.
            "id" | "prio" => {}
            _ => {
                return Err(wrong(format!(
                    "found `{key:.60}`, expected start, size, id or trigger"
                )))
            }
        }
    }
    match (start, found.trigger) {
        (Some(ps), None) => found.flow.after = Time(ps as u64),
        (None, Some(_)) => {}
        _ => return Err(wrong("expected a start or a trigger, one of them".to_owned())),
    }
    // In htsim a connection without a size sends for ever, which no run could wait for.
    if found.flow.bytes < 1.0 {
        return Err(wrong("size is missing".to_owned()));
    }
    Ok(found)
}

/// Returns the number of a trigger, and whether it waits for all that fire it.
fn trigger<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<(u32, bool), String> {
    let (mut id, mut waits) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "id" => id = words.next().and_then(|word| word.parse().ok()),
            "count" => drop(words.next()),
            "oneshot" => waits = Some(false),
            "barrier" => waits = Some(true),
            "multishot" => return Err("multishot: expected oneshot or barrier".to_owned()),
            _ => return Err(format!("found `{word:.60}`, expected id, oneshot or barrier")),
        }
    }
    Option::zip(id, waits).ok_or_else(|| "expected an id, and oneshot or barrier".to_owned())
}

/// Flows in an order in which each stands behind those that it waits for.
fn joined(
    connections: Vec<Connection>,
    triggers: &HashMap<u32, bool>,
) -> Result<Traffic, FileError> {
    let mut fired_by: HashMap<u32, Vec<usize>> = HashMap::new();
    for (n, connection) in connections.iter().enumerate() {
        for id in &connection.fires {
            fired_by.entry(*id).or_default().push(n);
        }
    }
    let (mut traffic, mut numbers) = (Traffic::default(), vec![None; connections.len()]);
    let mut left: Vec<usize> = (0..connections.len()).collect();
    while !left.is_empty() {
        let before = left.len();
        let mut waiting = Vec::new();
        for n in left {
            let connection = &connections[n];
            let wrong = |message| FileError { line: connection.line, message };
            let mut after: Vec<u32> = Vec::new();
            if let Some(id) = connection.trigger {
                let waits_for_all = triggers.get(&id);
                let (Some(all), Some(firing)) = (waits_for_all, fired_by.get(&id)) else {
                    return Err(wrong(format!("trigger {id}, which nothing fires")));
                };
                // One is as good as another for `oneshot`: the first that is written.
                let firing = if *all { &firing[..] } else { &firing[..1] };
                let known: Option<Vec<u32>> = firing.iter().map(|n| numbers[*n]).collect();
                match known {
                    Some(known) => after = known,
                    None => {
                        waiting.push(n);
                        continue;
                    }
                }
            }
            after.sort_unstable();
            after.dedup();
            numbers[n] = Some(traffic.add(connection.flow, &after));
        }
        // A round in which nothing was placed will not differ in the next one.
        if waiting.len() == before {
            let line = connections[waiting[0]].line;
            let message = "waits for a trigger that waits for it".to_owned();
            return Err(FileError { line, message });
        }
        left = waiting;
    }
    super::files::finish(traffic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::files::tests::racks;

    #[test]
    fn connections_begin_at_picoseconds_or_when_others_end() {
        let text = "# made up\nNodes 4\nConnections 3\nTriggers 1\n\
            1->3 id 2 trigger 1 size 200\n0->3 id 1 start 1000000 size 100 send_done_trigger 1\n\
            2->3 id 3 start 0 size 300 recv_done_trigger 1\ntrigger id 1 barrier\n";
        let read = read_matrix(text, &racks()).unwrap();
        assert_eq!((read.flows().len(), read.bytes()), (3, 600.0));
        assert_eq!(read.flows()[0].after, Time::ns(1000));
        // The one that waits is behind both that fire its trigger.
        assert_eq!((read.flows()[2].from, read.waits_for()[2]), (1, 2));
        let once = read_matrix(&text.replace("barrier", "oneshot"), &racks()).unwrap();
        assert_eq!(once.waits_for(), [0, 0, 1]);
        assert_eq!(nodes(text), Some(4));
    }

    #[test]
    fn wrong_connections_are_named_with_their_line() {
        let error = |lines: &str| {
            read_matrix(&format!("Nodes 4\nConnections 1\n{lines}\n"), &racks())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error("0->4 start 0 size 1"), "3: found `0->4`, expected nodes of 0 to 3");
        assert_eq!(error("1->1 start 0 size 1"), "3: node 1 sends to itself");
        assert_eq!(error("0->1 size 1"), "3: expected a start or a trigger, one of them");
        assert_eq!(error("0->1 start 0"), "3: size is missing");
        assert_eq!(
            error("0->1 start x size 1"),
            "3: start: found `x`, expected 0 to 1000000000000000000"
        );
        assert_eq!(error("0->1 trigger 7 size 1"), "3: trigger 7, which nothing fires");
        assert_eq!(
            error("failure 1"),
            "3: failures of links are not played; leave them out: grep -vi ^failure FILE"
        );
        let circle = "0->1 trigger 1 size 1 send_done_trigger 1\ntrigger id 1 oneshot";
        assert_eq!(error(circle), "3: waits for a trigger that waits for it");
        assert_eq!(error(""), "2: Connections: expected 1, found 0: the file is cut");
        let many = read_matrix("Nodes 9\n", &racks()).unwrap_err().to_string();
        assert_eq!(many, "1: Nodes: found 9, expected 1 to 8 servers");
    }
}

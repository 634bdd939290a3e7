//! The redirect table as masks of CPUs, over which the kernel's stack spreads what it receives
//! (receive packet steering; `Documentation/networking/scaling.rst`): for interfaces on which no
//! XDP program can be.
//!
//! A mask has no entries, so a flow may go to another CPU than its entry's, and the kernel does not
//! wait for the old CPU when a mask changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use halfwink_policy::scaling::ENTRIES;

use super::busy::Clocks;
use super::softnet::{line, Line, Softnet};
use super::table::{port, Counts, Sums, Table};
use crate::claim::Claim;
use crate::config::{Config, Forward};
use crate::interface::Interface;
use crate::report::PortReport;
use crate::sync::locked;

/// Masks of all receive queues of the ports.
pub(super) struct Rps {
    cpus: Vec<u32>,
    state: Mutex<State>,
    /// Packets that found a backlog full before the start.
    dropped_before: u64,
}

struct State {
    ports: Vec<Port>,
    entries: [u32; ENTRIES],
    /// The mask that was written last.
    mask: String,
    softnet: Softnet,
    lines: Vec<Line>,
}

struct Port {
    name: String,
    /// Files of masks, with their text before the start.
    masks: Vec<(PathBuf, String)>,
    /// Packets received and sent before the start.
    before: [u64; 2],
    up: bool,
    gone: u64,
    _claim: Claim,
}

impl Rps {
    /// Finds the masks of all ports, and turns steering off: each packet stays on the CPU that
    /// receives it.
    ///
    /// # Errors
    /// The reason why the kernel does not allow it, in one line.
    pub(super) fn open(config: &Config, cpus: &[u32]) -> Result<Rps, String> {
        let ports = config.port.iter().map(|port| Port::find(&port.interface));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let (mut softnet, mask) = (Softnet::open(), mask(&BTreeSet::new()));
        let lines = lines(&mut softnet, cpus);
        let dropped_before = lines.iter().map(|line| line.dropped).sum();
        for (path, _) in ports.iter().flat_map(|port| &port.masks) {
            std::fs::write(path, &mask).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        let entries = [cpus[0]; ENTRIES];
        let state = Mutex::new(State { ports, entries, mask, softnet, lines });
        Ok(Rps { cpus: cpus.to_vec(), state, dropped_before })
    }

    /// Returns the clocks of the CPUs that forward.
    pub(super) fn clocks(&self) -> Clocks {
        Clocks::of_softirqs(&self.cpus)
    }
}

/// Counts of these CPUs now.
fn lines(softnet: &mut Softnet, cpus: &[u32]) -> Vec<Line> {
    let text = softnet.read();
    cpus.iter().map(|&cpu| line(text, cpu)).collect()
}

impl Drop for Rps {
    fn drop(&mut self) {
        self.end();
    }
}

impl Port {
    fn find(name: &str) -> Result<Port, String> {
        let claim = Claim::new(name)?;
        let found = Interface::find(name).map_err(|e| format!("interface {name} by RPS: {e}"))?;
        super::ports::forwards(name)?;
        let masks = masks(name)?;
        let before = statistics(name);
        Ok(Port { name: name.to_owned(), masks, before, up: found.up, gone: 0, _claim: claim })
    }
}

/// Files of the masks of an interface, with their text.
fn masks(name: &str) -> Result<Vec<(PathBuf, String)>, String> {
    let folder = format!("/sys/class/net/{name}/queues");
    let wrong = |path: &Path, e| format!("interface {name} by RPS: {}: {e}", path.display());
    let queues = std::fs::read_dir(&folder).map_err(|e| wrong(Path::new(&folder), e))?;
    let paths = queues.flatten().map(|queue| queue.path().join("rps_cpus"));
    let paths = paths.filter(|path| path.exists());
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).map_err(|e| wrong(&path, e))?;
        Ok((path, text))
    };
    paths.map(read).collect()
}

/// Packets that an interface has received and sent.
fn statistics(name: &str) -> [u64; 2] {
    ["rx_packets", "tx_packets"].map(|what| {
        let path = format!("/sys/class/net/{name}/statistics/{what}");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    })
}

/// A mask as the kernel writes it: words of 32 bits, the highest first.
fn mask(cpus: &BTreeSet<u32>) -> String {
    let words = cpus.last().map_or(1, |most| most / 32 + 1);
    let word = |n: u32| cpus.iter().filter(|&cpu| cpu / 32 == n).map(|cpu| 1 << (cpu % 32)).sum();
    let words: Vec<u32> = (0..words).rev().map(word).collect();
    words.iter().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

impl Table for Rps {
    fn forward(&self) -> Forward {
        Forward::Rps
    }

    fn redirect(&self, entry: u8, cpu: u32, _in_order: bool) {
        locked(&self.state).entries[usize::from(entry) % ENTRIES] = cpu;
    }

    fn settle(&self) {
        let mut state = locked(&self.state);
        let mut used: BTreeSet<u32> = state.entries.iter().copied().collect();
        // The first CPU alone: packets stay where they are received, which costs least.
        if used.iter().eq([&self.cpus[0]]) {
            used.clear();
        }
        let mask = mask(&used);
        if mask == state.mask {
            return;
        }
        for (path, _) in state.ports.iter().flat_map(|port| &port.masks) {
            // An interface that is gone has none; it is looked after.
            let _ = std::fs::write(path, &mask);
        }
        state.mask = mask;
    }

    fn refresh(&self) {
        let mut state = locked(&self.state);
        state.lines = lines(&mut state.softnet, &self.cpus);
    }

    fn counts(&self, cpu: u32) -> Counts {
        let place = self.cpus.iter().position(|&other| other == cpu);
        let found = place.and_then(|place| locked(&self.state).lines.get(place).copied());
        let Line { processed, backlog, .. } = found.unwrap_or_default();
        Counts { served: processed, handed: processed + backlog, unserved: backlog }
    }

    fn sums(&self, _waiting: u64) -> Sums {
        let dropped: u64 = locked(&self.state).lines.iter().map(|line| line.dropped).sum();
        let passed = self.ports().iter().map(|port| port.received).sum();
        let overflowed = dropped.saturating_sub(self.dropped_before);
        Sums { overflowed, passed, ..Sums::default() }
    }

    fn look_after(&self) {
        let mut state = locked(&self.state);
        let State { ports, mask, .. } = &mut *state;
        for port in ports {
            let up = Interface::find(&port.name).is_ok_and(|found| found.up);
            port.gone += u64::from(port.up && !up);
            if up && !port.up {
                // Another interface may have the name now, and has masks of its own.
                port.masks = masks(&port.name).unwrap_or_default();
                for (path, _) in &port.masks {
                    let _ = std::fs::write(path, &*mask);
                }
            }
            port.up = up;
        }
    }

    fn ports(&self) -> Vec<PortReport> {
        let report = |p: &Port| {
            let [received, sent] = statistics(&p.name);
            let [r, s] = p.before;
            port(&p.name, "rps", [received.saturating_sub(r), sent.saturating_sub(s), p.gone], p.up)
        };
        locked(&self.state).ports.iter().map(report).collect()
    }

    fn end(&self) {
        for (path, before) in locked(&self.state).ports.iter().flat_map(|port| &port.masks) {
            let _ = std::fs::write(path, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_of_32_bits_the_highest_first() {
        let mask = |cpus: &[u32]| mask(&cpus.iter().copied().collect());
        assert_eq!(mask(&[]), "00000000");
        assert_eq!(mask(&[0, 3]), "00000009");
        assert_eq!(mask(&[31, 33]), "00000002,80000000");
        assert_eq!(mask(&[64]), "00000001,00000000,00000000");
    }
}

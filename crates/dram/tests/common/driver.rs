//! Plays a request file into one channel, as `benches/dram/drive.cc` plays it into DRAMsim3.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use halfwink_dram::{AddressMap, Channel, Command, Counts, Payer, Request, Sink, Spec};

use super::Line;

/// How requests enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At their clock, if the controller takes them; in order.
    Open,
    /// As soon as fewer reads than this are outstanding.
    Closed(usize),
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Played {
    pub reads: u64,
    pub writes: u64,
    /// Until the last data was there.
    pub clocks: u64,
    /// Latencies of reads in clocks, without the hand-over.
    pub latencies: Vec<u64>,
    /// Bound minus arrival, of each read.
    pub bounds: Vec<u64>,
    pub commands: Vec<Command>,
    pub counts: Counts,
}

impl Played {
    pub fn mean_clocks(&self) -> f64 {
        self.latencies.iter().sum::<u64>() as f64 / self.latencies.len() as f64
    }
}

/// DRAMsim3 takes a request over in one clock and moves it in another.
const HAND_OVER: u64 = 2;

#[derive(Default)]
struct Ears {
    /// Arrival of each read, by its number; then its latency.
    entered: Vec<u64>,
    bounds: Vec<u64>,
    latencies: Vec<u64>,
    finished: BinaryHeap<Reverse<u64>>,
    last: u64,
    commands: Option<Vec<Command>>,
}

impl Sink for Ears {
    fn accepted(&mut self, id: u64, at: u64, bound: u64, _: u64) {
        let id = id as usize;
        assert!(at >= self.entered[id]);
        self.bounds[id] = bound;
    }

    fn done(&mut self, id: u64, at: u64) {
        let id = id as usize;
        assert!(self.bounds[id] <= at, "read {id}: bound {}, data at {at}", self.bounds[id]);
        self.latencies[id] = at - self.entered[id];
        self.bounds[id] -= self.entered[id];
        self.finished.push(Reverse(at + HAND_OVER));
        self.last = self.last.max(at + HAND_OVER);
    }

    fn command(&mut self, command: Command) {
        if let Some(commands) = &mut self.commands {
            commands.push(command);
        }
    }
}

pub fn play(spec: &Spec, lines: &[Line], mode: Mode, log: bool) -> Played {
    let map = AddressMap::new(spec).unwrap();
    let mut channel = Channel::new(spec);
    let mut ears = Ears { commands: log.then(Vec::new), ..Ears::default() };
    let (mut clock, mut outstanding, mut next) = (0, 0, 0);
    let mut writes = 0;
    while let Some(&line) = lines.get(next) {
        channel.run(clock, &mut ears);
        while ears.finished.peek().is_some_and(|at| at.0 <= clock) {
            ears.finished.pop();
            outstanding -= 1;
        }
        let may = match mode {
            Mode::Open => line.clock <= clock,
            Mode::Closed(most) => line.write || outstanding < most,
        };
        if may && channel.has_room(line.write) {
            let place = map.place(line.line);
            let (bank, row) = (place.bank, place.row);
            let id = ears.entered.len() as u64;
            let (write, payer) = (line.write, Payer::User);
            channel.push(clock, Request { id, line: line.line, bank, row, write, payer });
            next += 1;
            if write {
                writes += 1;
            } else {
                ears.entered.push(if mode == Mode::Open { line.clock } else { clock });
                ears.bounds.push(0);
                ears.latencies.push(0);
                outstanding += 1;
            }
        }
        clock = match (mode, lines.get(next)) {
            (Mode::Open, Some(line)) => line.clock.max(clock + 1),
            _ => clock + 1,
        };
    }
    // Nothing else comes. Refreshes are part of what was waited for, and no more.
    channel.run(u64::MAX - 1, &mut ears);
    Played {
        reads: ears.latencies.len() as u64,
        writes,
        clocks: ears.last,
        latencies: ears.latencies,
        bounds: ears.bounds,
        commands: ears.commands.unwrap_or_default(),
        counts: channel.counts(),
    }
}

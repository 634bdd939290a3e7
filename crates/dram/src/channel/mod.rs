//! One channel: from requests to commands.

mod bank;
mod schedule;

use std::collections::VecDeque;

use crate::spec::Spec;
use crate::timing::Timing;
use bank::{Bank, Queued, CLOSED, NEVER};
use schedule::{Candidate, Group, Rank};

/// A line is wanted, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Told again when something is known of it.
    pub id: u64,
    /// Which line; requests of one line meet.
    pub line: u64,
    /// Index of the bank in the channel ([`crate::Place`]).
    pub bank: usize,
    /// Row within the bank.
    pub row: u64,
    /// Marks a write, whose completion no core waits for.
    pub write: bool,
    /// Source that the energy is charged to.
    pub payer: Payer,
}

/// Source of a request, to which its energy is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payer {
    /// Code of a user program.
    #[default]
    User,
    /// Code of the kernel.
    Kernel,
    /// A core or a cache that is about to lose what it holds.
    Sleep,
    /// Preheating, which loads lines before they are needed.
    Preheat,
    /// A device that reads or writes memory by itself.
    Device,
    /// The prefetchers of a core.
    Prefetch,
}

impl Payer {
    /// Payers that are not code.
    pub const OTHERS: [Payer; 4] = [Payer::Sleep, Payer::Preheat, Payer::Device, Payer::Prefetch];
}

/// Commands that one payer's requests took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Number of rows opened.
    pub activates: u64,
    /// Number of lines read.
    pub reads: u64,
    /// Number of lines written.
    pub writes: u64,
}

/// A command on the command bus. It serves checks and charts, as [`Counts`] do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// Time of the command, in clocks.
    pub at: u64,
    /// Kind of the command.
    pub kind: Kind,
    /// Rank that the command addresses.
    pub rank: usize,
    /// Bank of the channel; the first bank of the rank for a refresh.
    pub bank: usize,
    /// Row that it opens, reads or writes.
    pub row: u64,
}

/// Kinds of DRAM commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Closes the open row.
    Precharge,
    /// Closes a row so that its rank can refresh. Is not put on the bus: these and refreshes are
    /// less than a thousandth of its clocks.
    PrechargeForRefresh,
    /// Closes a row by a request of the column command before it (closed page): needs no bus.
    AutoPrecharge,
    /// Refreshes all banks of a rank.
    Refresh,
    /// Opens a row of a bank.
    Activate,
    /// Reads a line of the open row.
    Read,
    /// Writes a line of the open row.
    Write,
}

/// Receives request completions. Times are in memory-clock cycles.
pub trait Sink {
    /// A read was accepted at `at`; its data is there at `bound` at the earliest, and at `counted`
    /// if its bank serves requests one by one as they come, and the channel is free.
    fn accepted(&mut self, id: u64, at: u64, bound: u64, counted: u64);
    /// The data of a read is there at `at`.
    fn done(&mut self, id: u64, at: u64);
    /// A command was given. Commands come nearly in the order of time: those of a refresh are told
    /// when it is decided.
    fn command(&mut self, command: Command) {
        let _ = command;
    }
}

/// Counters of a channel. Pairs are by the privilege of the payer (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of lines read.
    pub reads: [u64; 2],
    /// Lines written; [`Counts::queued_writes`] are not.
    pub writes: [u64; 2],
    /// Rows opened, for the request that wanted it.
    pub activates: [u64; 2],
    /// Counters of [`Payer::OTHERS`], in that order.
    pub others: [Commands; 4],
    /// Number of refreshes of ranks.
    pub refreshes: u64,
    /// Reads that the write queue answered.
    pub forwarded: u64,
    /// Writes of a line that waited to be written already.
    pub merged: u64,
    /// Requests that found their queue full, and waited outside.
    pub held: u64,
    /// Writes that still wait.
    pub queued_writes: u64,
    /// Sum over reads of the clocks from arrival to data.
    pub read_clocks: u64,
    /// Sum over ranks of the clocks with a row open, as far as it was closed again, or until
    /// [`Channel::finish`].
    pub open_clocks: u64,
}

impl Counts {
    /// Column commands that found their row open.
    #[must_use]
    pub fn row_hits(&self) -> u64 {
        let sum = |pair: [u64; 2]| pair[0] + pair[1];
        let others = |of: fn(&Commands) -> u64| self.others.iter().map(of).sum::<u64>();
        (sum(self.reads) + sum(self.writes) + others(|c| c.reads + c.writes))
            // A row that was opened and closed again before its request (by a refresh) is opened
            // twice for one column command, so activates may exceed columns.
            .saturating_sub(sum(self.activates) + others(|c| c.activates))
    }

    /// Lines read and written, for whomever.
    #[must_use]
    pub fn lines(&self) -> [u64; 2] {
        let others = |of: fn(&Commands) -> u64| self.others.iter().map(of).sum::<u64>();
        let code = |pair: [u64; 2]| pair[0] + pair[1];
        [code(self.reads) + others(|c| c.reads), code(self.writes) + others(|c| c.writes)]
    }

    /// One access to memory that opens a row each time.
    #[must_use]
    pub fn of_uniform(payer: Payer, write: bool) -> Counts {
        let mut counts = Counts::default();
        *counts.of(payer, if write { Kind::Write } else { Kind::Read }) += 1;
        *counts.of(payer, Kind::Activate) += 1;
        counts
    }

    /// The counter of code, or what another payer's commands are counted in.
    fn of(&mut self, payer: Payer, kind: Kind) -> &mut u64 {
        let code = match payer {
            Payer::User => Some(0),
            Payer::Kernel => Some(1),
            Payer::Sleep | Payer::Preheat | Payer::Device | Payer::Prefetch => None,
        };
        match (code, kind) {
            (Some(mode), Kind::Read) => &mut self.reads[mode],
            (Some(mode), Kind::Write) => &mut self.writes[mode],
            (Some(mode), _) => &mut self.activates[mode],
            (None, Kind::Read) => &mut self.others[payer as usize - 2].reads,
            (None, Kind::Write) => &mut self.others[payer as usize - 2].writes,
            (None, _) => &mut self.others[payer as usize - 2].activates,
        }
    }

    /// Adds those of another channel.
    pub fn add(&mut self, other: &Counts) {
        for mode in 0..2 {
            self.reads[mode] += other.reads[mode];
            self.writes[mode] += other.writes[mode];
            self.activates[mode] += other.activates[mode];
        }
        for (sum, other) in self.others.iter_mut().zip(other.others) {
            sum.activates += other.activates;
            sum.reads += other.reads;
            sum.writes += other.writes;
        }
        self.refreshes += other.refreshes;
        self.forwarded += other.forwarded;
        self.merged += other.merged;
        self.held += other.held;
        self.queued_writes += other.queued_writes;
        self.read_clocks += other.read_clocks;
        self.open_clocks += other.open_clocks;
    }
}

/// A channel with its controller.
#[derive(Clone, Debug)]
pub struct Channel {
    timing: Timing,
    rules: crate::spec::Rules,
    banks: Vec<Bank>,
    groups: Vec<Group>,
    ranks: Vec<Rank>,
    /// Requests that have not arrived for all that is known, by time and order of coming.
    arrivals: VecDeque<(u64, Request)>,
    reads: VecDeque<Queued>,
    writes: VecDeque<Queued>,
    /// Number of waiting writes by the hash class of their line: an empty class ends most look-ups.
    written: [u32; 64],
    /// Writes that still go to the banks before reads.
    drain: usize,
    /// The next request goes to a bank from this clock on: one a clock.
    move_from: u64,
    /// The command bus is free from here on.
    bus: u64,
    /// Column commands so far.
    columns: u32,
    /// Banks with requests, and those whose offers are old.
    waiting: u64,
    changed: u64,
    /// The next command, if nothing comes before it; recomputed when something changed.
    next: Option<Candidate>,
    /// The best command when it was last looked for, if none was given since.
    before: Option<Candidate>,
    /// No request that waits for its turn in a bank came when fewer column commands were given.
    nobody_late: u32,
    /// The rank that refreshes first, and when.
    refresh: (u64, usize),
    /// Earliest clock at which something happens.
    wake: u64,
    counts: Counts,
}

impl Channel {
    /// A channel of `spec` without requests, its ranks' refreshes spread evenly.
    #[must_use]
    pub fn new(spec: &Spec) -> Channel {
        let (device, timing) = (&spec.device, spec.device.timing);
        let per_rank = device.groups * device.banks;
        let bank = |n: usize| Bank::new((n / device.banks) as u8, (n / per_rank) as u8);
        let first_refresh = |rank: usize| match timing.t_refi {
            0 => NEVER,
            interval => interval * (rank as u64 + 1) / spec.ranks as u64,
        };
        let mut channel = Channel {
            timing,
            rules: spec.rules,
            banks: (0..spec.banks()).map(bank).collect(),
            groups: vec![Group::default(); spec.ranks * device.groups],
            ranks: (0..spec.ranks).map(|rank| Rank::new(first_refresh(rank))).collect(),
            arrivals: VecDeque::new(),
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            written: [0; 64],
            drain: 0,
            move_from: 0,
            bus: 0,
            columns: 0,
            waiting: 0,
            changed: 0,
            next: None,
            before: None,
            nobody_late: 0,
            refresh: (NEVER, 0),
            wake: NEVER,
            counts: Counts::default(),
        };
        channel.find_refresh();
        channel
    }

    /// Returns the counters up to now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let queued = |b: &Bank| b.waiting().iter().filter(|request| request.write).count();
        let in_banks: usize = self.banks.iter().map(queued).sum();
        let arriving = self.arrivals.iter().filter(|(_, request)| request.write).count();
        let queued_writes = (self.writes.len() + in_banks + arriving) as u64;
        Counts { queued_writes, ..self.counts }
    }

    /// True if a request would be looked at now, and not wait outside the queues.
    #[must_use]
    pub fn has_room(&self, write: bool) -> bool {
        let queue = if write { &self.writes } else { &self.reads };
        queue.len() < self.rules.queue
    }

    /// Returns the clock before which nothing happens unless a request arrives.
    #[must_use]
    pub fn wake(&self) -> u64 {
        self.wake
    }

    /// Brings a request that arrives at clock `at`. Of equal times, the first that was brought
    /// arrives first. What [`Channel::run`] was told of cannot come any more.
    #[inline]
    pub fn push(&mut self, at: u64, request: Request) {
        self.wake = self.wake.min(at);
        // Cores run ahead of each other, so that requests may be brought out of order; nearly all
        // come at the end.
        if self.arrivals.back().is_none_or(|(last, _)| *last <= at) {
            return self.arrivals.push_back((at, request));
        }
        let place = self.arrivals.partition_point(|(other, _)| *other <= at);
        self.arrivals.insert(place, (at, request));
    }

    /// Decides all that happens before clock `known`, up to when all requests were brought.
    #[inline]
    pub fn run(&mut self, known: u64, sink: &mut impl Sink) {
        if self.wake < known {
            self.run_events(known, sink);
        }
    }

    fn run_events(&mut self, known: u64, sink: &mut impl Sink) {
        loop {
            let next = self.next_command();
            let arrival = self.arrivals.front().map_or(NEVER, |(at, _)| *at);
            let first = next.at.min(arrival);
            self.wake = first;
            // A refresh goes first, but waits until something has to wait for it: what it does to
            // the banks is the same later.
            if first < known && self.refresh.0 <= first {
                self.refresh(self.refresh.1, sink);
            } else if first >= known {
                return;
            } else if arrival <= next.at {
                if let Some((at, request)) = self.arrivals.pop_front() {
                    self.accept(at, &request, sink);
                }
            } else {
                self.commit(next, sink);
            }
        }
    }

    /// Ends the run, and counts the refreshes that were due until `end` although no request waited
    /// for them.
    pub fn finish(&mut self, end: u64) {
        struct Deaf;
        impl Sink for Deaf {
            fn accepted(&mut self, _: u64, _: u64, _: u64, _: u64) {}
            fn done(&mut self, _: u64, _: u64) {}
        }
        // The loop of events ends with the last request; refreshes after it take energy as well.
        while self.refresh.0 < end {
            self.refresh(self.refresh.1, &mut Deaf);
        }
        let still_open = self.ranks.iter().map(|rank| rank.open_until(end));
        self.counts.open_clocks += still_open.sum::<u64>();
    }

    /// A request is there.
    fn accept(&mut self, at: u64, request: &Request, sink: &mut impl Sink) {
        let waits = self.is_written(request.line, request.bank);
        if request.write {
            if waits {
                self.counts.merged += 1;
                return;
            }
            self.written[class_of(request.line)] += 1;
        } else if waits {
            self.counts.forwarded += 1;
            self.counts.read_clocks += self.rules.forward;
            let done = at + self.rules.forward;
            sink.accepted(request.id, at, done, done);
            sink.done(request.id, done);
            return;
        }
        let counted = self.banks[request.bank].count(at, request.row, &self.timing);
        if !request.write {
            sink.accepted(request.id, at, self.bound(at, request), counted);
        }
        let queued = Queued {
            line: request.line,
            row: request.row,
            id: request.id,
            arrived: at,
            since: 0,
            columns: 0,
            bank: request.bank as u8,
            write: request.write,
            payer: request.payer,
        };
        let bank = &mut self.banks[request.bank];
        if !request.write && self.drain == 0 && self.reads.is_empty() && bank.has_room() {
            return self.give(queued, at);
        }
        self.counts.held += u64::from(!self.has_room(request.write));
        let queue = if request.write { &mut self.writes } else { &mut self.reads };
        queue.push_back(queued);
        self.take_over(at);
    }

    /// True if a write of this line waits.
    #[inline]
    fn is_written(&self, line: u64, bank: usize) -> bool {
        self.written[class_of(line)] > 0
            && (self.writes.iter().any(|w| w.line == line)
                || self.banks[bank].waiting().iter().any(|w| w.line == line && w.write))
    }

    /// Requests go to the banks' queues, one a clock, until none can.
    fn take_over(&mut self, now: u64) {
        loop {
            let seen = self.writes.len().min(self.rules.queue);
            if self.drain == 0 {
                // The usual case: nothing waits in front of the banks that has to go.
                let busy = self.waiting != 0 || self.writes.is_empty();
                if self.reads.is_empty() && busy && self.writes.len() < self.rules.drain_at {
                    return;
                }
                let idle = self.reads.is_empty() && self.waiting == 0;
                if seen >= self.rules.drain_at || idle && seen > self.rules.idle_drain {
                    self.drain = seen - self.rules.drain_to.min(seen);
                }
            }
            let writes = if self.drain > 0 { self.movable(&self.writes) } else { Movable::None };
            let (write, n) = match writes {
                Movable::Some(n) => (true, n),
                // Writes are due, and only what they must not overtake may go before them.
                Movable::None if self.drain > 0 => return,
                Movable::None | Movable::BehindRead => match self.movable(&self.reads) {
                    Movable::Some(n) => (false, n),
                    Movable::None | Movable::BehindRead => return,
                },
            };
            let queue = if write { &mut self.writes } else { &mut self.reads };
            let Some(request) = queue.remove(n) else { return };
            self.drain -= usize::from(write);
            self.give(request, now);
        }
    }

    /// Gives a request to its bank.
    #[inline]
    fn give(&mut self, mut request: Queued, now: u64) {
        // One request moves to the banks in each clock, so that `since` is unique in a channel and
        // serves as the age in all comparisons.
        (request.since, request.columns) = (now.max(self.move_from), self.columns);
        self.move_from = request.since + 1;
        self.banks[usize::from(request.bank)].push(request);
        self.change(usize::from(request.bank));
    }

    /// The first request of a queue that can go to its bank.
    fn movable(&self, queue: &VecDeque<Queued>) -> Movable {
        let mut found = Movable::None;
        for (n, request) in queue.iter().take(self.rules.queue).enumerate() {
            let bank = &self.banks[usize::from(request.bank)];
            if !bank.has_room() {
                continue;
            }
            let is_read = |r: &Queued| r.line == request.line && !r.write;
            if request.write
                && (bank.waiting().iter().any(is_read) || self.reads.iter().any(is_read))
            {
                found = Movable::BehindRead;
                continue;
            }
            return Movable::Some(n);
        }
        found
    }

    /// The offers of a bank are old.
    #[inline]
    fn change(&mut self, bank: usize) {
        debug_assert!(bank < 64, "a channel's banks are the bits of a word");
        self.waiting |= 1 << bank;
        self.changed |= 1 << bank;
        self.next = None;
    }

    /// The data of a read that arrives at `now` cannot be there before this. Stays true whatever
    /// comes: earliest times only grow, what still has to be activated is not activated before
    /// `now`, and reads of one row are served in the order of their age.
    fn bound(&self, now: u64, request: &Request) -> u64 {
        let timing = &self.timing;
        let bank = &self.banks[request.bank];
        let (rank, group) =
            (&self.ranks[usize::from(bank.rank)], &self.groups[usize::from(bank.group)]);
        let ahead = |r: &&Queued| r.row == request.row && !r.write;
        let in_bank = bank.waiting().iter().filter(ahead).count();
        let in_front =
            self.reads.iter().filter(|r| usize::from(r.bank) == request.bank).filter(ahead).count();
        // Reads of one row follow each other on the data bus at the pace of their group.
        let step = timing.burst.max(timing.t_ccd_l);
        let column = if bank.row == request.row {
            now.max(bank.column).max(group.read).max(rank.read)
        } else {
            let closed = if bank.row == CLOSED {
                now.max(bank.activate)
            } else {
                now.max(bank.precharge) + timing.t_rp
            };
            let activate = closed.max(bank.activate).max(group.activate).max(rank.activate);
            activate.max(rank.fifth_activate(timing.t_faw)) + timing.t_rcd
        };
        column + (in_bank + in_front) as u64 * step + timing.t_cl + timing.burst
    }
}

/// Result of the search for a request that can move from a queue to its bank.
enum Movable {
    Some(usize),
    None,
    /// Only writes are left that must not overtake a read of their line.
    BehindRead,
}

#[inline]
fn class_of(line: u64) -> usize {
    // Fibonacci hashing (Knuth, vol. 3, 6.4): the highest bits depend on all of the line's.
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

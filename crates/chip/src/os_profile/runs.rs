//! Lengths of kernel invocations, and of the user code between them.

use std::collections::BTreeMap;

use halfwink_trace::Event;

/// Cause of a kernel entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// A system call, by number.
    Syscall(u32),
    /// An interrupt, by vector.
    Interrupt(u8),
    /// An exception, by vector.
    Exception(u8),
    /// No event says: the trace begins in the kernel, ends in user code, or records no events.
    Unknown,
}

impl Entry {
    fn of(event: &Event) -> Option<Entry> {
        match *event {
            Event::Syscall { number, .. } => Some(Entry::Syscall(number)),
            Event::Interrupt { vector } => Some(Entry::Interrupt(vector)),
            Event::Exception { vector } => Some(Entry::Exception(vector)),
            _ => None,
        }
    }
}

/// Number of occurrences of each length, in instructions: exact, since a trace holds far fewer runs
/// than instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    counts: BTreeMap<u64, u64>,
}

impl Lengths {
    /// Counts one run of this length.
    pub fn record(&mut self, instructions: u64) {
        *self.counts.entry(instructions).or_default() += 1;
    }

    /// Adds all runs of `other`.
    pub fn add(&mut self, other: &Lengths) {
        for (length, count) in other.iter() {
            *self.counts.entry(length).or_default() += count;
        }
    }

    /// Lengths and how often each occurred, shortest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().map(|(&length, &count)| (length, count))
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Instructions of all runs.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.iter().map(|(length, count)| length * count).sum()
    }

    /// The runs longer than so many instructions: how many, and their instructions.
    #[must_use]
    pub fn longer_than(&self, instructions: u64) -> (u64, u64) {
        let longer = self.counts.range(instructions.saturating_add(1)..);
        longer.fold((0, 0), |(runs, sum), (length, count)| (runs + count, sum + length * count))
    }

    /// The shortest length that at least this share of the runs does not exceed; none of no runs.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.runs() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.iter()
            .find(|&(_, count)| {
                seen += count;
                seen >= wanted
            })
            .map(|(length, _)| length)
    }
}

/// Profile of one cause of kernel entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryProfile {
    /// Instructions of each kernel invocation.
    pub kernel: Lengths,
    /// User instructions since the kernel was left, before each entry.
    pub user: Lengths,
    /// Interrupts and exceptions taken inside, which lengthen an invocation.
    pub nested: u64,
    /// Halts inside: the kernel had nothing to run.
    pub halts: u64,
}

/// Follows one CPU of the recorded machine from run to run.
#[derive(Debug, Default)]
pub(super) struct Follower {
    /// Privilege of the last instruction.
    kernel: Option<bool>,
    length: u64,
    /// Cause of the present or next kernel entry.
    entry: Option<Entry>,
    nested: u64,
    halts: u64,
}

/// Table of profiles by cause.
pub(super) type Entries = BTreeMap<Entry, EntryProfile>;

impl Follower {
    pub(super) fn event(&mut self, event: &Event) {
        if self.kernel == Some(true) {
            self.nested += u64::from(Entry::of(event).is_some());
            self.halts += u64::from(matches!(event, Event::Idle { .. }));
        } else if self.entry.is_none() {
            self.entry = Entry::of(event);
        }
    }

    /// Counts retired instructions of a privilege. Returns the length of the kernel invocation that
    /// this ends, if it does. An instruction that does not retire, such as a faulting one, ends
    /// nothing (Nellans 2014, Sec 4.2: runs are of retired instructions).
    #[inline]
    pub(super) fn retire(&mut self, kernel: bool, n: u64, entries: &mut Entries) -> Option<u64> {
        if n == 0 {
            return None;
        }
        let ended = if self.kernel == Some(kernel) { None } else { self.turn(kernel, entries) };
        self.length += n;
        if !kernel {
            // An event that led nowhere is not the cause of a later entry.
            self.entry = None;
        }
        ended
    }

    fn turn(&mut self, kernel: bool, entries: &mut Entries) -> Option<u64> {
        let ended = self.close(entries);
        self.kernel = Some(kernel);
        ended
    }

    /// Ends the current run, also at the end of the trace.
    pub(super) fn close(&mut self, entries: &mut Entries) -> Option<u64> {
        let was_kernel = self.kernel.take()?;
        let length = std::mem::take(&mut self.length);
        let profile = entries.entry(self.entry.unwrap_or(Entry::Unknown)).or_default();
        if !was_kernel {
            profile.user.record(length);
            return None;
        }
        profile.kernel.record(length);
        profile.nested += std::mem::take(&mut self.nested);
        profile.halts += std::mem::take(&mut self.halts);
        self.entry = None;
        Some(length)
    }
}

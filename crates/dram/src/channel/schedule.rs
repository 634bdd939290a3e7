//! Which command comes next, and what it forbids from then on.

use super::bank::{Offer, CLOSED, NEVER};
use super::{class_of, Channel, Command, Kind, Sink};

/// Earliest next commands of a bank group, by what its banks did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    pub(super) read: u64,
    pub(super) write: u64,
    pub(super) activate: u64,
}

/// Earliest next commands of a rank, by what all ranks did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    pub(super) read: u64,
    pub(super) write: u64,
    pub(super) activate: u64,
    /// Clocks of the last four activates, plus one; the oldest is at `turn`.
    activates: [u64; 4],
    turn: usize,
    next_refresh: u64,
    /// Banks with a row open, since when there is one, and when the last was closed.
    open_banks: u32,
    opened: u64,
    closed: u64,
}

impl Rank {
    pub(super) fn new(next_refresh: u64) -> Rank {
        Rank {
            read: 0,
            write: 0,
            activate: 0,
            activates: [0; 4],
            turn: 0,
            next_refresh,
            open_banks: 0,
            opened: 0,
            closed: 0,
        }
    }

    /// The fifth activate from the oldest of the last four on.
    #[inline]
    pub(super) fn fifth_activate(&self, t_faw: u64) -> u64 {
        match self.activates[self.turn] {
            0 => 0,
            oldest => oldest - 1 + t_faw,
        }
    }

    fn activated(&mut self, at: u64) {
        // Plus one, since 0 stands for no activate yet. The ring of four holds what tFAW is about:
        // the fifth activate waits for the oldest of them.
        self.activates[self.turn] = at + 1;
        self.turn = (self.turn + 1) % 4;
        if self.open_banks == 0 {
            // A row that closes by itself may still be open: that time was counted.
            self.opened = at.max(self.closed);
        }
        self.open_banks += 1;
    }

    /// A bank closes its row at `at`: the clocks for which the rank had one open, if it was the
    /// last.
    fn closes(&mut self, at: u64) -> u64 {
        debug_assert!(self.open_banks > 0, "a rank closes a row although none is open");
        self.open_banks -= 1;
        // Auto-precharges are recorded when they are decided, so that closes may come out of
        // order.
        self.closed = self.closed.max(at);
        match self.open_banks {
            0 => self.closed.saturating_sub(self.opened),
            _ => 0,
        }
    }

    /// The clocks before `end` since a row was opened that is still open.
    pub(super) fn open_until(&self, end: u64) -> u64 {
        match self.open_banks {
            0 => 0,
            _ => end.saturating_sub(self.opened),
        }
    }
}

/// A command that could be given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) at: u64,
    /// Column commands before activates before precharges, then by age.
    order: u64,
    bank: u8,
    slot: u8,
    kind: Kind,
}

impl Candidate {
    const NONE: Candidate =
        Candidate { at: NEVER, order: NEVER, bank: 0, slot: 0, kind: Kind::Precharge };
}

/// Above all clocks of a run.
const CLASS: u32 = 62;

impl Channel {
    /// The next command, if nothing arrives before it.
    #[inline]
    pub(super) fn next_command(&mut self) -> Candidate {
        match self.next {
            Some(next) => next,
            None => self.find_next(),
        }
    }

    fn find_next(&mut self) -> Candidate {
        let mut changed = self.changed;
        while changed != 0 {
            let n = changed.trailing_zeros() as usize;
            // Clears the lowest bit: the loop visits only the banks that are set.
            changed &= changed - 1;
            self.banks[n].offer(self.rules.hit_cap);
        }
        // One bank alone, as behind a core that follows pointers, or none: nobody is passed by.
        if self.waiting & self.waiting.wrapping_sub(1) == 0 {
            let mut best = Candidate::NONE;
            self.consider_banks(&mut best, self.waiting);
            self.changed = 0;
            (self.next, self.before) = (Some(best), Some(best));
            return best;
        }
        let mut best = match self.before {
            // Requests came since, and nothing else: what was best is still the best of the others.
            Some(before) if self.changed & (1 << before.bank) == 0 => {
                let mut best = before;
                self.consider_banks(&mut best, self.changed & self.waiting);
                best
            }
            _ => {
                let mut best = Candidate::NONE;
                self.consider_banks(&mut best, self.waiting);
                best
            }
        };
        self.changed = 0;
        self.before = Some(best);
        // First-ready scheduling starves a request whose row is never open while others hit.
        // Beyond `patience` the urgent bank alone may give column commands; the others may prepare
        // rows, which takes nothing from it.
        if let Some(urgent) = self.urgent() {
            self.before = None;
            best = Candidate::NONE;
            let mut waiting = self.waiting;
            while waiting != 0 {
                let n = waiting.trailing_zeros() as usize;
                waiting &= waiting - 1;
                self.consider_row(&mut best, n);
            }
            self.consider_columns(&mut best, urgent);
        }
        self.next = Some(best);
        best
    }

    /// Returns the bank whose oldest request was passed by more than `patience` column commands.
    /// Commands are counted, not clocks: a refresh delays a whole rank without any request being
    /// favoured.
    fn urgent(&mut self) -> Option<usize> {
        // Nobody can be late before so many commands were given.
        if self.columns.wrapping_sub(self.nobody_late) <= self.rules.patience {
            return None;
        }
        let mut most = (0, 0);
        let mut waiting = self.waiting;
        while waiting != 0 {
            let n = waiting.trailing_zeros() as usize;
            waiting &= waiting - 1;
            debug_assert!(!self.banks[n].waiting().is_empty(), "a waiting bank has a request");
            let passed = self.columns.wrapping_sub(self.banks[n].waiting()[0].columns);
            if passed > most.0 {
                most = (passed, n);
            }
        }
        // The oldest has been passed by `most.0`: until `patience` further commands no other can
        // be late, so that the search is skipped.
        self.nobody_late = self.columns.wrapping_sub(most.0);
        (most.0 > self.rules.patience).then_some(most.1)
    }

    /// All offers of these banks.
    #[inline]
    fn consider_banks(&self, best: &mut Candidate, mut banks: u64) {
        while banks != 0 {
            let n = banks.trailing_zeros() as usize;
            banks &= banks - 1;
            self.consider_columns(best, n);
            self.consider_row(best, n);
        }
    }

    /// A bank's column commands.
    #[inline]
    fn consider_columns(&self, best: &mut Candidate, n: usize) {
        let bank = &self.banks[n];
        if bank.row == CLOSED {
            return;
        }
        let (group, rank) =
            (&self.groups[usize::from(bank.group)], &self.ranks[usize::from(bank.rank)]);
        if bank.read.at != NEVER {
            let limit = self.bus.max(group.read).max(rank.read);
            consider(best, &bank.read, limit, n, 0, Kind::Read);
        }
        if bank.write.at != NEVER {
            let limit = self.bus.max(group.write).max(rank.write);
            consider(best, &bank.write, limit, n, 0, Kind::Write);
        }
    }

    /// A bank's activate or precharge.
    #[inline]
    fn consider_row(&self, best: &mut Candidate, n: usize) {
        let bank = &self.banks[n];
        if bank.other.at == NEVER {
            return;
        }
        if bank.row != CLOSED {
            // A precharge is bound by its own bank and the command bus alone.
            return consider(best, &bank.other, self.bus, n, 2, Kind::Precharge);
        }
        let (group, rank) =
            (&self.groups[usize::from(bank.group)], &self.ranks[usize::from(bank.rank)]);
        let limit = self.bus.max(group.activate).max(rank.activate);
        let limit = limit.max(rank.fifth_activate(self.timing.t_faw));
        consider(best, &bank.other, limit, n, 1, Kind::Activate);
    }

    /// Gives a command: nothing can come before it any more.
    pub(super) fn commit(&mut self, next: Candidate, sink: &mut impl Sink) {
        let n = usize::from(next.bank);
        // One command a clock. The best of before is no longer comparable, since limits of its
        // group and rank may have moved.
        debug_assert!(next.at >= self.bus, "two commands are on the bus in one clock");
        self.bus = next.at + 1;
        self.before = None;
        self.change(n);
        let timing = &self.timing;
        let bank = &mut self.banks[n];
        let (rank, row) = (usize::from(bank.rank), bank.row);
        let command = Command { at: next.at, kind: next.kind, rank, bank: n, row };
        match next.kind {
            Kind::Activate => {
                let oldest = bank.waiting()[0];
                bank.row = oldest.row;
                bank.hits = 0;
                bank.column = next.at + timing.t_rcd;
                bank.precharge = next.at + timing.t_ras;
                bank.activate = next.at + timing.t_ras + timing.t_rp;
                let group = &mut self.groups[usize::from(bank.group)];
                group.activate = next.at + timing.t_rrd_l;
                let rank = &mut self.ranks[rank];
                rank.activate = next.at + timing.t_rrd_s;
                rank.activated(next.at);
                *self.counts.of(oldest.payer, Kind::Activate) += 1;
                sink.command(Command { row: oldest.row, ..command });
            }
            Kind::Precharge => {
                bank.row = CLOSED;
                // The larger of tRC after the activate and tRP after the precharge.
                bank.activate = bank.activate.max(next.at + timing.t_rp);
                self.counts.open_clocks += self.ranks[rank].closes(next.at);
                sink.command(command);
            }
            _ => {
                sink.command(command);
                self.column_command(next, sink);
            }
        }
    }

    fn column_command(&mut self, next: Candidate, sink: &mut impl Sink) {
        let (timing, at) = (&self.timing, next.at);
        let bank = &mut self.banks[usize::from(next.bank)];
        let request = bank.remove(next.slot);
        bank.hits += 1;
        self.columns = self.columns.wrapping_add(1);
        let data_end = at + timing.burst + if request.write { timing.t_cwl } else { timing.t_cl };
        if request.write {
            bank.precharge = bank.precharge.max(data_end + timing.t_wr);
            debug_assert!(self.written[class_of(request.line)] > 0, "a write left that never came");
            self.written[class_of(request.line)] -= 1;
            *self.counts.of(request.payer, Kind::Write) += 1;
        } else {
            bank.precharge = bank.precharge.max(at + timing.t_rtp);
            *self.counts.of(request.payer, Kind::Read) += 1;
            self.counts.read_clocks += data_end - request.arrived;
            sink.done(request.id, data_end);
        }
        let (group, rank) = (usize::from(bank.group), usize::from(bank.rank));
        if bank.waiting().is_empty() {
            self.waiting &= !(1 << next.bank);
        }
        self.close_page(next.bank, sink);
        self.forbid(at, request.write, group, rank);
        self.take_over(at);
    }

    /// Closes a row without waiting requests, if the page policy is closed.
    fn close_page(&mut self, n: u8, sink: &mut impl Sink) {
        let bank = &mut self.banks[usize::from(n)];
        let row = bank.row;
        let wanted = bank.waiting().iter().any(|request| request.row == row);
        if self.rules.page == crate::spec::Page::Open || wanted {
            return;
        }
        bank.row = CLOSED;
        bank.activate = bank.activate.max(bank.precharge + self.timing.t_rp);
        let (at, rank) = (bank.precharge, usize::from(bank.rank));
        let kind = Kind::AutoPrecharge;
        self.counts.open_clocks += self.ranks[rank].closes(at);
        sink.command(Command { at, kind, rank, bank: usize::from(n), row });
    }

    /// Delays later commands by the constraints that follow from a column command.
    fn forbid(&mut self, at: u64, write: bool, group: usize, rank: usize) {
        let t = &self.timing;
        let (same_group, same_rank) = (t.burst.max(t.t_ccd_l), t.burst.max(t.t_ccd_s));
        let later = |slot: &mut u64, clocks: u64| *slot = (*slot).max(at + clocks);
        if write {
            later(&mut self.groups[group].write, same_group);
            later(&mut self.groups[group].read, t.t_cwl + t.burst + t.t_wtr_l);
        } else {
            later(&mut self.groups[group].read, same_group);
        }
        // The bus turns round between a read and a write: the second one's data may begin `t_rtrs`
        // after the end of the first one's. Latencies differ, hence the subtraction.
        let to_write = (t.t_cl + t.burst + t.t_rtrs).saturating_sub(t.t_cwl);
        let to_read = (t.t_cwl + t.burst + t.t_rtrs).saturating_sub(t.t_cl);
        for (n, other) in self.ranks.iter_mut().enumerate() {
            match (write, n == rank) {
                (false, true) => later(&mut other.read, same_rank),
                (false, false) => later(&mut other.read, t.burst + t.t_rtrs),
                (true, true) => {
                    later(&mut other.write, same_rank);
                    later(&mut other.read, t.t_cwl + t.burst + t.t_wtr_s);
                }
                (true, false) => {
                    later(&mut other.write, t.burst);
                    later(&mut other.read, to_read);
                }
            }
            if !write {
                later(&mut other.write, to_write);
            }
        }
    }

    /// A rank closes its rows and refreshes. This only moves the earliest times of its banks: a
    /// blocked interval, not an event of its own.
    pub(super) fn refresh(&mut self, rank: usize, sink: &mut impl Sink) {
        let timing = self.timing;
        let due = self.ranks[rank].next_refresh;
        let per_rank = self.banks.len() / self.ranks.len();
        let first = rank * per_rank;
        let mut at = due;
        for (n, bank) in self.banks[first..first + per_rank].iter_mut().enumerate() {
            if bank.row != CLOSED {
                let closes = due.max(bank.precharge);
                bank.activate = bank.activate.max(closes + timing.t_rp);
                self.counts.open_clocks += self.ranks[rank].closes(closes);
                let (kind, row) = (Kind::PrechargeForRefresh, bank.row);
                sink.command(Command { at: closes, kind, rank, bank: first + n, row });
                bank.row = CLOSED;
            }
            at = at.max(bank.activate);
        }
        for bank in &mut self.banks[first..first + per_rank] {
            // All-bank refresh: the rank is blocked until tRFC after its last bank was closed.
            bank.activate = at + timing.t_rfc;
        }
        // A shift by 64 overflows: one rank of 64 banks has all bits.
        let all = if per_rank == 64 { u64::MAX } else { ((1 << per_rank) - 1) << first };
        self.changed |= self.waiting & all;
        (self.next, self.before) = (None, None);
        self.counts.refreshes += 1;
        sink.command(Command { at, kind: Kind::Refresh, rank, bank: first, row: 0 });
        self.ranks[rank].next_refresh = due + timing.t_refi;
        self.find_refresh();
    }

    pub(super) fn find_refresh(&mut self) {
        let due = self.ranks.iter().enumerate().map(|(n, rank)| (rank.next_refresh, n));
        self.refresh = due.min().unwrap_or((NEVER, 0));
    }
}

/// Takes an offer if it comes before the best so far.
#[inline]
fn consider(best: &mut Candidate, offer: &Offer, limit: u64, bank: usize, class: u64, kind: Kind) {
    // Classes stand above all ages, so that one comparison decides; a lower bank wins among equals
    // because it is considered first.
    let (at, order) = (offer.at.max(limit), class << CLASS | offer.since);
    if at < best.at || at == best.at && order < best.order {
        *best = Candidate { at, order, bank: bank as u8, slot: offer.slot, kind };
    }
}

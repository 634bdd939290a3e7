//! The redirect table of receive-side scaling: which queue the packets of a hash go to.

use super::queue::Actions;
use super::Action;

/// Entries: the seven low bits of the hash (Niccolini 2012, Sec 4.4.2).
pub const ENTRIES: usize = 128;
/// Most queues that a table is shared among.
const MOST: usize = 64;

/// The table, spread evenly over the queues in use. A change moves as few entries as can be
/// (assumption; the thesis asks only for balance).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectTable {
    entries: [u8; ENTRIES],
    owned: [u8; MOST],
}

impl RedirectTable {
    /// Entries dealt out in turn to the first `queues` queues.
    ///
    /// # Panics
    /// If there are none or more than 64.
    #[must_use]
    pub fn even(queues: u8) -> RedirectTable {
        assert!((1..=MOST).contains(&usize::from(queues)), "1 to 64 queues");
        let mut table = RedirectTable { entries: [0; ENTRIES], owned: [0; MOST] };
        for (n, entry) in table.entries.iter_mut().enumerate() {
            *entry = (n % usize::from(queues)) as u8;
            table.owned[usize::from(*entry)] += 1;
        }
        table
    }

    /// The queue of a hash.
    #[must_use]
    pub fn queue(&self, hash: u32) -> u8 {
        self.entries[hash as usize % ENTRIES]
    }

    /// Entries that name a queue.
    #[must_use]
    pub fn share(&self, queue: u8) -> u8 {
        self.owned[usize::from(queue)]
    }

    /// Points an entry at another queue.
    pub fn set(&mut self, entry: u8, queue: u8) {
        let slot = &mut self.entries[usize::from(entry)];
        self.owned[usize::from(*slot)] -= 1;
        self.owned[usize::from(queue)] += 1;
        *slot = queue;
    }

    /// Queue `new` joins queues `0..new`: it takes entries from those that have most.
    pub(super) fn join(&mut self, new: u8, in_order: bool, out: &mut Actions) {
        let fair = ENTRIES / (usize::from(new) + 1);
        while usize::from(self.share(new)) < fair {
            let from = (0..new).max_by_key(|&q| (self.share(q), q)).expect("queue 0 stays");
            self.move_one(from, new, in_order, out);
        }
    }

    /// The last queue leaves: its entries go to those of `0..last` that have least.
    pub(super) fn leave(&mut self, last: u8, in_order: bool, out: &mut Actions) {
        while self.share(last) > 0 {
            let to = (0..last).min_by_key(|&q| (self.share(q), q)).expect("queue 0 stays");
            self.move_one(last, to, in_order, out);
        }
    }

    /// Entry i goes to queue i mod `queues`.
    pub(super) fn spread(&mut self, queues: u8, out: &mut Actions) {
        for n in 0..ENTRIES {
            let (entry, to) = (n as u8, (n % usize::from(queues)) as u8);
            if self.entries[n] != to {
                self.set(entry, to);
                out.push(Action::Move { entry, to, in_order: false });
            }
        }
    }

    fn move_one(&mut self, from: u8, to: u8, in_order: bool, out: &mut Actions) {
        let entry = self.entries.iter().rposition(|&q| q == from).expect("it owns one") as u8;
        self.set(entry, to);
        out.push(Action::Move { entry, to, in_order });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balanced(table: &RedirectTable, queues: u8) -> bool {
        let shares = || (0..queues).map(|q| table.share(q));
        let sum: usize = shares().map(usize::from).sum();
        sum == ENTRIES && shares().max().unwrap() - shares().min().unwrap() <= 1
    }

    #[test]
    fn it_stays_balanced_up_and_down_with_as_few_moves_as_can_be() {
        let mut table = RedirectTable::even(1);
        for new in 1..64 {
            let mut out = Actions::new();
            table.join(new, false, &mut out);
            assert!(balanced(&table, new + 1), "{new}");
            let moves = core::iter::from_fn(|| out.pop()).count();
            assert_eq!(moves, ENTRIES / (usize::from(new) + 1));
        }
        for last in (1..64).rev() {
            let owned = table.share(last);
            let mut out = Actions::new();
            table.leave(last, false, &mut out);
            assert!(balanced(&table, last), "{last}");
            assert_eq!(core::iter::from_fn(|| out.pop()).count(), usize::from(owned));
        }
    }

    #[test]
    fn entries_divide_among_queues_up_to_one() {
        // 128 / 9 = 14.2: two queues have 15, which is 1.055 times the mean.
        let table = RedirectTable::even(9);
        assert_eq!((table.share(0), table.share(1), table.share(2)), (15, 15, 14));
        assert_eq!(table.queue(128 + 10), 1);
    }
}

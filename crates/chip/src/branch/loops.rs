//! Loops that go round the same number of times (Seznec, JILP 9, 2007, Sec 2.4).

use super::hash;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u16,
    /// Outcomes of one kind in a row, the last time and up to now.
    length: u16,
    now: u16,
    /// The kind that goes on.
    stays: bool,
    /// Times that the length was the same.
    sure: u8,
    age: u8,
}

/// Rounds of the shortest loop: what is shorter is none, or goes the other way (Seznec 2007).
const SHORTEST: u16 = 3;

/// Number of equal lengths after which a loop is predicted (Seznec 2007: three bits, all set).
const SURE: u8 = 7;

#[derive(Clone, Debug)]
pub(super) struct Loops(Vec<Entry>);

impl Loops {
    pub(super) fn new(entries: usize) -> Loops {
        Loops(vec![Entry::default(); entries])
    }

    /// Predicts a branch that it is sure of; learns from the outcome, and allocates an entry for a
    /// branch that the other predictors got `wrong`.
    #[inline]
    pub(super) fn learn(&mut self, pc: u64, taken: bool, wrong: bool) -> Option<bool> {
        let mixed = hash(pc);
        let index = mixed as usize % self.0.len();
        let entry = &mut self.0[index];
        let tag = (mixed >> 10) as u16;
        if entry.tag != tag || entry.age == 0 {
            if wrong {
                entry.age = entry.age.saturating_sub(1);
                if entry.age == 0 {
                    // It is wrong about the exception most often: the other outcome goes on.
                    *entry = Entry { tag, stays: !taken, age: SURE, ..Entry::default() };
                }
            }
            return None;
        }
        let ends = entry.now == entry.length;
        let says = (entry.sure >= SURE).then_some(entry.stays != ends);
        if taken == entry.stays {
            entry.now = entry.now.saturating_add(1);
            if entry.now > entry.length {
                // Longer than it was: all begins anew.
                entry.sure = 0;
            }
        } else {
            if entry.now < SHORTEST {
                entry.age = 0;
                return says;
            }
            entry.sure = if entry.now == entry.length { (entry.sure + 1).min(SURE) } else { 0 };
            (entry.length, entry.now) = (entry.now, 0);
        }
        match says {
            Some(says) if says != taken => entry.age = 0,
            Some(_) if wrong => entry.age = entry.age.saturating_add(1),
            _ => {}
        }
        says
    }
}

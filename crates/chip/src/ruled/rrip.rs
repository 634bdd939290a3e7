//! Re-reference interval prediction: which line of a set will be used again last (Jaleel,
//! Theobald, Steely, Emer, "High Performance Cache Replacement Using Re-Reference Interval
//! Prediction (RRIP)", ISCA 2010), and signatures that predict it for a fill (Wu, Jaleel,
//! Hasenplaugh, Martonosi, Steely, Emer, "SHiP: Signature-based Hit Predictor", MICRO 2011).
//!
//! A line has a value of two bits: 0 will be used soon, 3 last. A hit makes it 0; the first way
//! with a 3 leaves, after all have been raised until there is one.

use halfwink_policy::segregation::Replacement;

use super::Reference;

/// Value of a line that will be used last: two bits (Jaleel 2010, Sec 4.1).
const DISTANT: u8 = 3;
/// Value of a fill (Sec 4.1).
const LONG: u8 = DISTANT - 1;
/// Every so many fills of the bimodal kind come in at [`LONG`] (Sec 4.2).
const BIMODAL: u32 = 32;
/// Sets that always follow one of the two kinds, of each (Sec 4.3).
const LEADERS: usize = 32;
/// Largest value of the counter that chooses: ten bits (Sec 4.3).
const CHOICE_MOST: u16 = (1 << 10) - 1;
/// Signatures, and the largest value of their counters: three bits (Wu 2011, Sec 4).
const SIGNATURES: usize = 1 << 14;
const SIGNATURE_MOST: u8 = 7;

/// Values of all lines, and what decides those of fills.
#[derive(Clone, Debug)]
pub(super) struct Rrip {
    values: Box<[u8]>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Static,
    Dynamic(Duel),
    Signatures(Box<Ship>),
}

/// Which of two kinds of fills misses less.
#[derive(Clone, Debug)]
struct Duel {
    ways: usize,
    /// One set of so many leads for the static kind, another for the bimodal.
    every: usize,
    /// Misses of leaders, static less bimodal, from the middle.
    choice: u16,
    fills: u32,
}

#[derive(Clone, Debug)]
struct Ship {
    /// Counter of each signature: 0 if its fills are not used again.
    counters: Box<[u8]>,
    /// Signature of each line's fill; `used` tells whether it was used since.
    signatures: Box<[u16]>,
    used: Box<[bool]>,
}

impl Rrip {
    /// Returns none for [`Replacement::Lru`].
    pub(super) fn new(replacement: Replacement, sets: usize, ways: usize) -> Option<Box<Rrip>> {
        let lines = sets * ways;
        let kind = match replacement {
            Replacement::Lru => return None,
            Replacement::Srrip => Kind::Static,
            // assumption: fills begin as the static kind's.
            Replacement::Drrip => Kind::Dynamic(Duel {
                ways,
                every: (sets / LEADERS).max(2),
                choice: CHOICE_MOST / 2,
                fills: 0,
            }),
            Replacement::Ship => Kind::Signatures(Box::new(Ship {
                // assumption: all are taken to be used again, a little.
                counters: vec![1; SIGNATURES].into(),
                signatures: vec![0; lines].into(),
                used: vec![false; lines].into(),
            })),
        };
        Some(Box::new(Rrip { values: vec![DISTANT; lines].into(), kind }))
    }

    /// A line is used; a write-back is no use. assumption, as ChampSim (2ff2501): it leaves the
    /// value of a line as it is, and with dynamic RRIP makes it that of a fill.
    pub(super) fn hit(&mut self, place: usize, write: bool) {
        if write {
            if let Kind::Dynamic(_) = self.kind {
                self.values[place] = LONG;
            }
            return;
        }
        self.values[place] = 0;
        if let Kind::Signatures(ship) = &mut self.kind {
            ship.hit(place);
        }
    }

    /// The first of these ways of a full set that will be used last.
    pub(super) fn victim(&mut self, ways: std::ops::Range<usize>) -> usize {
        let first = ways.start;
        let values = &mut self.values[ways];
        let most = *values.iter().max().expect("a side has a way");
        let place = values.iter().position(|&value| value == most).expect("it is the largest");
        values.iter_mut().for_each(|value| *value += DISTANT - most);
        first + place
    }

    /// A line comes in, and displaces another if there was one.
    pub(super) fn fill(&mut self, place: usize, by: Reference, write: bool, displaces: bool) {
        let value = match &mut self.kind {
            Kind::Static => LONG,
            Kind::Dynamic(_) if write => LONG,
            Kind::Dynamic(duel) => duel.fill(place),
            Kind::Signatures(ship) => ship.fill(place, by, write, displaces),
        };
        self.values[place] = value;
    }
}

impl Duel {
    fn fill(&mut self, place: usize) -> u8 {
        let is_bimodal = match place / self.ways % self.every {
            0 => {
                self.choice = (self.choice + 1).min(CHOICE_MOST);
                false
            }
            1 => {
                self.choice = self.choice.saturating_sub(1);
                true
            }
            _ => self.choice > CHOICE_MOST / 2,
        };
        if !is_bimodal {
            return LONG;
        }
        self.fills = (self.fills + 1) % BIMODAL;
        if self.fills == 0 {
            LONG
        } else {
            DISTANT
        }
    }
}

/// Signature of an instruction, by which fills are told apart: its address folded, since those of
/// x86-64 lie at any byte (assumption). That of a signature is itself.
pub(crate) fn signature(pc: u64) -> u16 {
    ((pc ^ pc >> 14 ^ pc >> 28) as usize % SIGNATURES) as u16
}

impl Ship {
    fn hit(&mut self, place: usize) {
        self.used[place] = true;
        let counter = &mut self.counters[usize::from(self.signatures[place])];
        *counter = (*counter + 1).min(SIGNATURE_MOST);
    }

    fn fill(&mut self, place: usize, by: Reference, write: bool, displaces: bool) -> u8 {
        if displaces && !self.used[place] {
            let counter = &mut self.counters[usize::from(self.signatures[place])];
            *counter = counter.saturating_sub(1);
        }
        // A write-back has no instruction: all of them are one signature, and none is believed.
        let signature = if write { 0 } else { signature(by.pc) };
        (self.signatures[place], self.used[place]) = (signature, false);
        if !write && self.counters[usize::from(signature)] == 0 {
            DISTANT
        } else {
            LONG
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(pc: u64) -> Reference {
        Reference { line: 0, kernel: false, code: false, pc }
    }

    /// Follows ChampSim's replacement/srrip (2ff2501) by hand.
    #[test]
    fn the_first_of_those_that_will_be_used_last_leaves() {
        let mut rrip = Rrip::new(Replacement::Srrip, 1, 4).unwrap();
        (0..4).for_each(|place| rrip.fill(place, by(0), false, false));
        rrip.hit(0, false);
        assert_eq!(*rrip.values, [0, 2, 2, 2]);
        // All are raised by one.
        assert_eq!(rrip.victim(0..4), 1);
        assert_eq!(*rrip.values, [1, 3, 3, 3]);
        rrip.fill(1, by(0), false, true);
        assert_eq!((rrip.victim(0..4), rrip.victim(0..2)), (2, 1));
        assert_eq!(*rrip.values, [2, 3, 3, 3], "only the ways that were asked for");
        // A write-back is no use.
        rrip.hit(3, true);
        assert_eq!(rrip.values[3], 3);
    }

    #[test]
    fn a_duel_follows_who_misses_less() {
        let mut rrip = Rrip::new(Replacement::Drrip, 64, 1).unwrap();
        let fill = |rrip: &mut Rrip, set| {
            rrip.fill(set, by(0), false, true);
            rrip.values[set]
        };
        // Of two sets one leads for each; with three there would be one that follows.
        assert_eq!((fill(&mut rrip, 0), fill(&mut rrip, 1)), (LONG, DISTANT));
        let mut rrip = Rrip::new(Replacement::Drrip, 128, 1).unwrap();
        assert_eq!(fill(&mut rrip, 2), LONG);
        assert_eq!(fill(&mut rrip, 0), LONG);
        // The static leader missed: the bimodal kind, of which every 32nd is long.
        let followed: Vec<u8> = (0..64).map(|_| fill(&mut rrip, 2)).collect();
        assert_eq!(followed.iter().filter(|&&value| value == LONG).count(), 2);
        assert_eq!(followed[31], LONG);
        fill(&mut rrip, 5);
        assert_eq!(fill(&mut rrip, 2), LONG, "and back");
        // Write-backs say nothing.
        rrip.fill(0, by(0), true, true);
        assert_eq!(fill(&mut rrip, 2), LONG);
    }

    #[test]
    fn a_signature_whose_fills_are_not_used_is_distant() {
        let mut rrip = Rrip::new(Replacement::Ship, 1, 2).unwrap();
        let fill = |rrip: &mut Rrip, pc| {
            rrip.fill(0, by(pc), false, true);
            rrip.values[0]
        };
        rrip.fill(0, by(7), false, false);
        assert_eq!(fill(&mut rrip, 7), DISTANT, "the first was not used");
        rrip.hit(0, false);
        assert_eq!(fill(&mut rrip, 7), LONG, "the second was");
        assert_eq!(fill(&mut rrip, 8), LONG, "another instruction");
        // Its last fill was not used either; a write-back's value is a fill's all the same.
        rrip.fill(0, by(7), true, true);
        assert_eq!(rrip.values[0], LONG);
    }
}

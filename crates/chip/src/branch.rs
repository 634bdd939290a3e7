//! Branch prediction: direction, indirect targets, return addresses.
//!
//! Prediction and learning are one call, when the front end meets the branch: a trace has no wrong
//! path, so nothing has to be undone, and histories hold outcomes as if each were known at once. A
//! real front end learns the outcome some cycles later. Predictors are a core's and not a thread's:
//! the kernel trains and disturbs what user code finds, as on real machines.

use halfwink_trace::Branch;

use crate::machine::{BranchSpec, PredictorKind};

/// What the predictor did, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchCounts {
    /// Conditional and indirect branches and returns.
    pub predicted: [u64; 2],
    /// Of these, wrong.
    pub mispredicted: [u64; 2],
}

/// All predictors of a core.
#[derive(Clone, Debug)]
pub(crate) struct Predictor {
    direction: Direction,
    indirect: Vec<(u64, u64)>,
    returns: Vec<u64>,
    depth: usize,
    pub(crate) counts: BranchCounts,
}

#[derive(Clone, Debug)]
enum Direction {
    Perfect,
    Bimodal(Vec<u8>),
    Tournament(Box<Tournament>),
}

impl Predictor {
    pub(crate) fn new(spec: BranchSpec) -> Predictor {
        let direction = match spec.predictor {
            PredictorKind::Perfect => Direction::Perfect,
            PredictorKind::Bimodal => Direction::Bimodal(vec![1; BIMODAL_ENTRIES]),
            PredictorKind::Tournament => Direction::Tournament(Box::default()),
        };
        Predictor {
            direction,
            indirect: vec![(u64::MAX, 0); spec.indirect_entries],
            returns: Vec::with_capacity(spec.return_entries),
            depth: spec.return_entries,
            counts: BranchCounts::default(),
        }
    }

    /// Forgets all that it has learnt.
    pub(crate) fn forget(&mut self, spec: BranchSpec) {
        *self = Predictor { counts: self.counts, ..Predictor::new(spec) };
    }

    /// The branch at `pc` goes to `target`; `fall_through` is the address behind it. Learns, and
    /// tells whether the prediction was right.
    #[inline]
    pub(crate) fn is_right(
        &mut self,
        branch: Branch,
        pc: u64,
        fall_through: u64,
        target: u64,
        kernel: bool,
    ) -> bool {
        let right = match branch {
            Branch::Conditional => self.direction.is_right(pc, target != fall_through),
            Branch::IndirectJump => self.indirect_is_right(pc, target),
            // Its target is in the instruction, as that of a direct jump: nothing to predict, since
            // no target buffer is modelled that could miss.
            Branch::Call => {
                self.push(fall_through);
                return true;
            }
            Branch::IndirectCall => {
                self.push(fall_through);
                self.indirect_is_right(pc, target)
            }
            Branch::Return => self.returns.pop() == Some(target),
            _ => return true,
        };
        let right = right || matches!(self.direction, Direction::Perfect);
        self.counts.predicted[usize::from(kernel)] += 1;
        self.counts.mispredicted[usize::from(kernel)] += u64::from(!right);
        right
    }

    fn push(&mut self, address: u64) {
        // A full stack forgets its oldest address, as the circular buffers of real front ends do:
        // deep recursion mispredicts on the way out and nothing else.
        if self.returns.len() == self.depth {
            self.returns.remove(0);
        }
        self.returns.push(address);
    }

    fn indirect_is_right(&mut self, pc: u64, target: u64) -> bool {
        debug_assert!(self.indirect.len().is_power_of_two(), "the mask below needs it");
        let index = hash(pc) as usize & (self.indirect.len() - 1);
        let entry = &mut self.indirect[index];
        // Tagged with the whole address: a branch never takes another's target for its own.
        let right = *entry == (pc, target);
        *entry = (pc, target);
        right
    }
}

/// x86 branches lie at any byte: mix the address so that tables fill evenly. The factor is 2^64 by
/// the golden ratio (Knuth, TAOCP 3, Sec 6.4); a product's upper bits depend on all of the address,
/// and 24 of them are more than any table here has entries for.
#[inline]
fn hash(pc: u64) -> u64 {
    (pc ^ pc >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// Assumption: machines/*.toml say so where they name this predictor (the 21064, which they are
/// like, had one bit for each instruction of its cache).
const BIMODAL_ENTRIES: usize = 2048;

impl Direction {
    #[inline]
    fn is_right(&mut self, pc: u64, taken: bool) -> bool {
        match self {
            Direction::Perfect => true,
            Direction::Bimodal(counters) => {
                let counter = &mut counters[hash(pc) as usize % BIMODAL_ENTRIES];
                let right = (*counter >= 2) == taken;
                train(counter, taken, 3);
                right
            }
            Direction::Tournament(tables) => tables.is_right(pc, taken),
        }
    }
}

/// Moves a saturating counter towards the outcome.
#[inline]
fn train(counter: &mut u8, up: bool, max: u8) {
    if up {
        *counter = (*counter + 1).min(max);
    } else {
        *counter = counter.saturating_sub(1);
    }
}

/// The predictor of the Alpha 21264 (hardware reference manual): 1024 local histories of 10 bits
/// with 3-bit counters, 4096 2-bit counters by 12 bits of global history, 4096 2-bit choosers.
///
/// Local history knows a branch's own pattern (a loop of seven), global history what branches
/// before it decided. The chooser goes by the path too, not by the address: which of them knows
/// better depends on how the program came here.
#[derive(Clone, Debug)]
struct Tournament {
    histories: [u16; 1024],
    local: [u8; 1024],
    global: [u8; 4096],
    chooser: [u8; 4096],
    path: u16,
}

impl Default for Tournament {
    fn default() -> Self {
        // Every counter just below its middle: one branch that is taken turns it.
        Tournament {
            histories: [0; 1024],
            local: [3; 1024],
            global: [1; 4096],
            chooser: [1; 4096],
            path: 0,
        }
    }
}

impl Tournament {
    #[inline]
    fn is_right(&mut self, pc: u64, taken: bool) -> bool {
        let history = &mut self.histories[hash(pc) as usize & 1023];
        let local = &mut self.local[usize::from(*history)];
        let path = usize::from(self.path);
        let global = &mut self.global[path];
        let (local_says, global_says) = (*local >= 4, *global >= 2);
        let prefers_global = self.chooser[path] >= 2;
        let right = taken == if prefers_global { global_says } else { local_says };
        // Where both agree, nothing is learnt about which to prefer. Both counters learn all the
        // same: the one that was not asked must be worth asking when the chooser turns.
        if local_says != global_says {
            train(&mut self.chooser[path], global_says == taken, 3);
        }
        train(local, taken, 7);
        train(global, taken, 3);
        *history = (*history << 1 | u16::from(taken)) & 1023;
        self.path = (self.path << 1 | u16::from(taken)) & 4095;
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor(kind: PredictorKind) -> Predictor {
        Predictor::new(BranchSpec { predictor: kind, indirect_entries: 16, return_entries: 2 })
    }

    fn wrong(predictor: &mut Predictor, outcomes: impl Iterator<Item = bool>) -> usize {
        outcomes
            .filter(|&taken| {
                let target = if taken { 0x2000 } else { 0x1002 };
                !predictor.is_right(Branch::Conditional, 0x1000, 0x1002, target, false)
            })
            .count()
    }

    #[test]
    fn a_loop_of_seven_is_learnt_by_local_history_only() {
        let pattern = || (0..7_000).map(|n| n % 7 != 6);
        assert!(wrong(&mut predictor(PredictorKind::Tournament), pattern()) < 60);
        assert_eq!(wrong(&mut predictor(PredictorKind::Bimodal), pattern()), 1001);
        assert_eq!(wrong(&mut predictor(PredictorKind::Perfect), pattern()), 0);
    }

    #[test]
    fn returns_are_predicted_as_deep_as_the_stack() {
        let mut predictor = predictor(PredictorKind::Tournament);
        for n in 0..3 {
            predictor.is_right(Branch::Call, n, 100 + n, 7, false);
        }
        assert!(predictor.is_right(Branch::Return, 0, 0, 102, false));
        assert!(predictor.is_right(Branch::Return, 0, 0, 101, false));
        assert!(!predictor.is_right(Branch::Return, 0, 0, 100, false), "it was pushed out");
    }

    #[test]
    fn an_indirect_jump_repeats_its_last_target() {
        let mut predictor = predictor(PredictorKind::Bimodal);
        let mut jump = |to| predictor.is_right(Branch::IndirectJump, 0x10, 0x12, to, true);
        assert_eq!([jump(5), jump(5), jump(6), jump(6)], [false, true, false, true]);
        assert_eq!(predictor.counts.mispredicted, [0, 2]);
    }
}

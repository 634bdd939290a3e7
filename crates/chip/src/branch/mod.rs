//! Branch prediction: direction, indirect targets, return addresses, and whether the front end
//! knows that there is a branch at all.
//!
//! Prediction and learning are one call, when the front end meets the branch: a trace has no wrong
//! path, so nothing has to be undone, and histories hold outcomes as if each were known at once. A
//! real front end learns the outcome some cycles later. Predictors are a core's and not a thread's:
//! the kernel trains and disturbs what user code finds, as on real machines.

mod history;
mod loops;
mod perceptron;
mod tables;
mod tage;
mod targets;
#[cfg(test)]
mod tests;

use halfwink_trace::Branch;

use self::perceptron::Perceptron;
use self::tage::Tage;
use self::targets::{Indirect, TargetBuffer};
use crate::machine::{BranchSpec, PredictorKind};

pub(crate) use history::{MAX_HISTORY, MAX_TABLES};

/// Counters of the predictor, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchCounts {
    /// Conditional and indirect branches and returns.
    pub predicted: [u64; 2],
    /// Number of mispredictions among these.
    pub mispredicted: [u64; 2],
    /// Taken branches that were predicted right and that the branch target buffer did not hold.
    pub redirected: [u64; 2],
}

/// Result of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    /// Fetch follows the branch's path.
    Right,
    /// The branch was unknown to fetch, which is redirected when it is decoded.
    Redirected,
    /// Fetch follows the wrong path until the branch is resolved.
    Wrong,
}

/// All predictors of a core.
#[derive(Clone, Debug)]
pub(crate) struct Predictor {
    direction: Direction,
    indirect: Indirect,
    buffer: Option<TargetBuffer>,
    returns: Vec<u64>,
    depth: usize,
    pub(crate) counts: BranchCounts,
}

#[derive(Clone, Debug)]
enum Direction {
    Perfect,
    Bimodal(Vec<u8>),
    Tournament(Box<Tournament>),
    Tage(Box<Tage>),
    Perceptron(Box<Perceptron>),
}

impl Predictor {
    pub(crate) fn new(spec: BranchSpec) -> Predictor {
        let direction = match spec.predictor {
            PredictorKind::Perfect => Direction::Perfect,
            PredictorKind::Bimodal => Direction::Bimodal(vec![1; BIMODAL_ENTRIES]),
            PredictorKind::Tournament => Direction::Tournament(Box::default()),
            PredictorKind::Tage(spec) => Direction::Tage(Box::new(Tage::new(&spec))),
            PredictorKind::Perceptron(spec) => {
                Direction::Perceptron(Box::new(Perceptron::new(&spec)))
            }
        };
        Predictor {
            direction,
            indirect: Indirect::new(spec.indirect_entries, spec.indirect.as_ref()),
            buffer: spec.btb.as_ref().map(TargetBuffer::new),
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
    /// tells what the front end made of it.
    #[inline]
    pub(crate) fn guess(
        &mut self,
        branch: Branch,
        pc: u64,
        fall_through: u64,
        target: u64,
        kernel: bool,
    ) -> Guess {
        let taken = target != fall_through;
        let mode = usize::from(kernel);
        if !self.goes_right(branch, pc, fall_through, target, mode) {
            return Guess::Wrong;
        }
        let Some(buffer) = self.buffer.as_mut().filter(|_| taken) else { return Guess::Right };
        if buffer.has(pc) || matches!(self.direction, Direction::Perfect) {
            return Guess::Right;
        }
        self.counts.redirected[mode] += 1;
        Guess::Redirected
    }

    /// Returns whether direction and target are predicted correctly.
    #[inline]
    fn goes_right(
        &mut self,
        branch: Branch,
        pc: u64,
        fall_through: u64,
        target: u64,
        mode: usize,
    ) -> bool {
        let right = match branch {
            Branch::Conditional => {
                let taken = target != fall_through;
                self.indirect.push(taken);
                self.direction.is_right(pc, taken)
            }
            Branch::IndirectJump => self.indirect_is_right(pc, target),
            // Its target is in the instruction, as that of a direct jump: nothing to predict.
            Branch::Call => {
                self.push(fall_through);
                self.direction.push(target, 1);
                return true;
            }
            Branch::IndirectCall => {
                self.push(fall_through);
                self.indirect_is_right(pc, target)
            }
            Branch::Return => {
                self.direction.push(target, 1);
                self.returns.pop() == Some(target)
            }
            _ => {
                self.direction.push(target, 1);
                return true;
            }
        };
        let right = right || matches!(self.direction, Direction::Perfect);
        self.counts.predicted[mode] += 1;
        self.counts.mispredicted[mode] += u64::from(!right);
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
        let right = self.indirect.is_right(pc, target);
        // Where it went says more than one bit can: what comes depends on it.
        let bits = hash(target);
        for n in 0..INDIRECT_BITS {
            self.indirect.push(bits >> n & 1 != 0);
        }
        self.direction.push(target, INDIRECT_BITS);
        right
    }
}

/// Bits of an indirect branch's target that go into histories. Assumption (ITTAGE of JWAC-2 has
/// ten, of which path and target share some).
const INDIRECT_BITS: u32 = 3;

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
            Direction::Tage(tage) => tage.is_right(pc, taken),
            Direction::Perceptron(perceptron) => perceptron.is_right(pc, taken),
        }
    }

    /// A branch that is no conditional one went to `target`: so many bits of it into the history of
    /// those predictors that go by the path.
    #[inline]
    fn push(&mut self, target: u64, bits: u32) {
        if let Direction::Perfect | Direction::Bimodal(_) | Direction::Tournament(_) = self {
            return;
        }
        let mixed = hash(target);
        for n in 0..bits {
            let bit = mixed >> n & 1 != 0;
            match self {
                Direction::Tage(tage) => tage.push(bit),
                Direction::Perceptron(perceptron) => perceptron.push(bit),
                _ => {}
            }
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

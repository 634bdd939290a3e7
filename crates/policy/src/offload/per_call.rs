//! A list of system calls that may move, written into the kernel: Mogul's "enough work" checks and
//! Nellans's static instrumentation.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::{Action, Cause, Event, KernelEntry, Offload, Pending, Place, STATIC_CHECK_CYCLES};
use crate::{Policy, Snapshot};

/// Bytes from which on a transfer is enough work: 4 KB, "arbitrary" (Mogul 2007, Sec 5.2).
pub const ENOUGH_WORK_BYTES: u64 = 4096;

/// Condition under which a call is enough work to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Moves for any arguments.
    Always,
    /// Moves if this argument has at least this value: bytes of a transfer, entries of a set.
    AtLeast {
        /// Which argument, 0 to 5; none beyond is ever enough.
        argument: u8,
        /// Smallest value that moves.
        least: u64,
    },
    /// Moves if it asks for at least this number of bytes, which is in memory; an unknown number is
    /// not enough.
    BytesInMemory {
        /// Smallest number of bytes that moves.
        least: u64,
    },
}

/// One call of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRule {
    /// Number of the system call.
    pub number: u32,
    /// Condition under which it moves.
    pub work: Work,
}

/// Profile of one call, for [`PerCall::instrumented`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallProfile {
    /// Number of the system call.
    pub number: u32,
    /// Number of times it was called.
    pub calls: u64,
    /// Cycles of all of them.
    pub cycles: u64,
}

/// The policy of one core: calls in the list pay a check, all others pay nothing and stay.
#[derive(Clone, Debug)]
pub struct PerCall {
    /// Rules, sorted by number.
    rules: Vec<CallRule>,
    check_cycles: u32,
    /// Place where interrupts run, without a check.
    interrupts: Place,
    pending: Pending,
}

impl PerCall {
    /// A policy with these rules; of several for one call the first counts.
    #[must_use]
    pub fn new(mut rules: Vec<CallRule>, check_cycles: u32, interrupts: Place) -> PerCall {
        rules.sort_by_key(|rule| rule.number);
        rules.dedup_by_key(|rule| rule.number);
        PerCall { rules, check_cycles, interrupts, pending: None }
    }

    /// The calls that Mogul patched, by their numbers on x86-64 Linux, with transfers of `least`
    /// bytes or more as enough work (Mogul 2007, Sec 5.2). Interrupts are bound to the OS core (Sec
    /// 5.1, Fig 1).
    ///
    /// assumption: `sendfile` is judged as `write` is; `open` and `stat` always move, as do the
    /// calls that have taken their place (`openat`, `newfstatat`); `select` and `poll` move if they
    /// wait for anything at all, for `select` a highest descriptor above zero; the check costs what
    /// Nellans counted for `getpid`.
    #[must_use]
    pub fn enough_work(least: u64) -> PerCall {
        const READ_WRITE: [u32; 2] = [0, 1];
        const READV_WRITEV: [u32; 2] = [19, 20];
        const OPEN_STAT: [u32; 4] = [2, 4, 257, 262];
        const POLL: u32 = 7;
        const SELECT: u32 = 23;
        const SENDFILE: u32 = 40;
        let all = |numbers: &[u32], work: Work| -> Vec<CallRule> {
            numbers.iter().map(|&number| CallRule { number, work }).collect()
        };
        let rules = [
            all(&READ_WRITE, Work::AtLeast { argument: 2, least }),
            all(&READV_WRITEV, Work::BytesInMemory { least }),
            all(&[SENDFILE], Work::AtLeast { argument: 3, least }),
            all(&[POLL], Work::AtLeast { argument: 1, least: 1 }),
            all(&[SELECT], Work::AtLeast { argument: 0, least: 1 }),
            all(&OPEN_STAT, Work::Always),
        ];
        PerCall::new(rules.concat(), STATIC_CHECK_CYCLES, Place::Beside)
    }

    /// Static instrumentation: the calls whose mean cost in a profile is `multiple` times
    /// `round_trip_cycles` or more always move (assumption: 2 times; Nellans 2014, Sec 4.6.1 names
    /// the method, not the rule).
    #[must_use]
    pub fn instrumented(profile: &[CallProfile], round_trip_cycles: u64, multiple: u64) -> PerCall {
        let least = u128::from(round_trip_cycles) * u128::from(multiple);
        let long = |call: &&CallProfile| {
            call.calls > 0 && u128::from(call.cycles) >= u128::from(call.calls) * least
        };
        let rule = |call: &CallProfile| CallRule { number: call.number, work: Work::Always };
        let rules = profile.iter().filter(long).map(rule).collect();
        PerCall::new(rules, STATIC_CHECK_CYCLES, Place::Here)
    }

    /// System-call numbers in the list, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.rules.iter().map(|rule| rule.number)
    }

    fn decide(&self, entry: &KernelEntry) -> Action {
        let number = match entry.cause {
            Cause::SystemCall { number } => number,
            Cause::Interrupt { .. } => {
                return Action { place: self.interrupts, decision_cycles: 0 };
            }
            Cause::Exception { .. } => return Action { place: Place::Here, decision_cycles: 0 },
        };
        let Ok(index) = self.rules.binary_search_by_key(&number, |rule| rule.number) else {
            return Action { place: Place::Here, decision_cycles: 0 };
        };
        let enough = match self.rules[index].work {
            Work::Always => true,
            Work::AtLeast { argument, least } => {
                entry.args.get(usize::from(argument)).is_some_and(|&value| value >= least)
            }
            Work::BytesInMemory { least } => {
                entry.bytes_in_memory.is_some_and(|bytes| bytes >= least)
            }
        };
        let place = if enough { Place::OsCore } else { Place::Here };
        Action { place, decision_cycles: self.check_cycles }
    }
}

impl Policy for PerCall {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        if let Event::Enter(entry) = event {
            self.pending = Some(self.decide(entry));
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("calls", self.rules.len() as i64)]
    }
}

impl Offload for PerCall {}

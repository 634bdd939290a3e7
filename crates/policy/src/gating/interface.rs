//! Events and actions of a core, between a world and the policy that gates it.

use alloc::boxed::Box;

use halfwink_units::{LineAddr, Time};

use crate::{Host, Log, Policy};

/// A policy that gates one core.
pub trait Gating: Policy<Event = Event, Action = Action> + Send {
    /// Returns the estimate of memory that it needs, if it needs [`Event::Token`] and, while the
    /// core runs, [`Event::Response`]; otherwise a world may omit them.
    fn hears(&self) -> Option<Estimate> {
        None
    }

    /// Returns the longest idle time of an execution unit that a controller of that unit need not
    /// hear of. A world that gates units omits [`Event::IdleBegin`] and [`Event::IdleEnd`] of
    /// shorter ones.
    fn shortest_idle(&self) -> Time {
        Time::ZERO
    }
}

/// Estimate of memory that comes as the last token of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// Time of the data, known once the controller has given the command that reads it.
    Scheduled,
    /// Time by a counter of its bank, known once the controller has accepted the request: as if the
    /// bank served what came before it one by one, and the channel were free (Strong 2013,
    /// Sec 2.3.4). A controller that reorders may have the data sooner.
    Counted,
}

impl<G: Gating + ?Sized> Gating for Box<G> {
    fn hears(&self) -> Option<Estimate> {
        (**self).hears()
    }

    fn shortest_idle(&self) -> Time {
        (**self).shortest_idle()
    }
}

impl<G: Gating, L: Log<Event, Action> + Send> Gating for Host<G, L> {
    fn hears(&self) -> Option<Estimate> {
        self.policy().hears()
    }

    fn shortest_idle(&self) -> Time {
        self.policy().shortest_idle()
    }
}

/// A boxed gating policy.
pub type GatingPolicy = Box<dyn Gating>;

/// Events from a core to its gating policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// The pipeline cannot move before memory answers.
    StallBegin,
    /// The pipeline moves again; the stall began at `began`.
    StallEnd {
        /// Start of the stall that ends.
        #[cfg_attr(feature = "serde", serde(rename = "began_ps"))]
        began: Time,
    },
    /// A cache or memory controller says how far an outstanding access is.
    Token(Token),
    /// An outstanding access was answered.
    Response {
        /// The line that came, as the token before it named it.
        line: LineAddr,
    },
    /// The operating system halted the core.
    IdleBegin,
    /// An interrupt ends the halt that began at `began`.
    IdleEnd {
        /// Start of the halt that ends.
        #[cfg_attr(feature = "serde", serde(rename = "began_ps"))]
        began: Time,
    },
    /// The core is restored and runs, or waits with its clock on.
    Awake,
    /// The wake-up controller grants a faster wake-up, once.
    Granted {
        /// Time from closing the first header switch until the supply is stable.
        #[cfg_attr(feature = "serde", serde(rename = "wake_up_ps"))]
        wake_up: Time,
    },
}

/// Information on an outstanding access (Strong 2013, Sec 2.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Token {
    /// The line that is wanted.
    pub line: LineAddr,
    /// Time at which the controller made the token.
    #[cfg_attr(feature = "serde", serde(rename = "created_ps"))]
    pub created: Time,
    /// Bound on the response that it promises.
    pub bound: Bound,
}

/// Bound on the response that a token promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Bound {
    /// Missed in this cache; no response before this long after creation, even if the next level
    /// hits.
    NotBefore(Time),
    /// Missed in the last cache; the memory controller will tell more.
    Unknown,
    /// The memory controller knows when the bank is done: this long after creation, or later.
    Eta(Time),
}

/// Actions that a gating policy requests of its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// Stop the clock, save state, open the header switches.
    Gate,
    /// Enter an idle state of the operating system's table, by its place there. Only a halted core
    /// can; it leaves polling and a stopped clock by itself, and any other by [`Action::Wake`].
    Rest {
        /// Place in the table, from the shallowest.
        state: u8,
    },
    /// Close the header switches, restore, run.
    Wake,
    /// Account the span as if the core had been gated at `gate` and woken at `wake`. Only a policy
    /// that knows the future can ask for this; it changes the energy and nothing else.
    Hindsight {
        /// Time at which gating would have begun.
        #[cfg_attr(feature = "serde", serde(rename = "gate_ps"))]
        gate: Time,
        /// Time at which waking would have begun.
        #[cfg_attr(feature = "serde", serde(rename = "wake_ps"))]
        wake: Time,
    },
}

/// Costs of one round trip to the gated state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Time from the decision until the supply is off.
    pub entry: Time,
    /// Time off that pays for waking up: wake-up energy / leakage saved (Strong 2013, Sec 2.3.3).
    pub break_even: Time,
    /// Time from closing the first header switch until the supply is stable.
    pub wake_up: Time,
    /// Time from there until the pipeline is refilled.
    pub restore: Time,
    /// Times at which waking may begin.
    pub slots: Slots,
}

/// Recurring times at which a core may begin to wake, so that neighbours' inrush currents do not
/// add up, without communication between cores (Strong 2013, Sec 2.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Time from one of the core's slots to its next; zero if it may begin at any time.
    pub period: Time,
    /// Time of its first slot.
    pub offset: Time,
}

impl Slots {
    /// Any time will do.
    pub const ANY: Slots = Slots { period: Time::ZERO, offset: Time::ZERO };

    /// The one of this index among `slots` that follow one another by `stagger`.
    #[must_use]
    pub fn nth(index: usize, slots: usize, stagger: Time) -> Slots {
        Slots { period: stagger * slots as u64, offset: stagger * index as u64 }
    }

    /// The last slot at or before `at`; before the first one, time zero.
    #[must_use]
    pub fn last(&self, at: Time) -> Time {
        if self.period == Time::ZERO {
            return at;
        }
        if at < self.offset {
            return Time::ZERO;
        }
        at - Time((at - self.offset).0 % self.period.0)
    }

    /// The first slot at or after `at`.
    #[must_use]
    pub fn next(&self, at: Time) -> Time {
        if self.period == Time::ZERO {
            return at;
        }
        if at <= self.offset {
            return self.offset;
        }
        let past = (at - self.offset).0 % self.period.0;
        if past == 0 {
            at
        } else {
            at + Time(self.period.0 - past)
        }
    }
}

impl Costs {
    /// Returns the time from the order to wake until the core runs.
    #[must_use]
    pub fn lead(&self) -> Time {
        self.wake_up + self.restore
    }

    /// Returns the time at which a core must begin to wake to run at `at`: the last slot that is
    /// early enough.
    #[must_use]
    pub fn wake_start(&self, at: Time) -> Time {
        self.slots.last(at.saturating_sub(self.lead()))
    }

    /// The break-even rule: waiting from `now` until `until` is worth gating (Strong 2013, Sec
    /// 2.3.3; entry and restore counted as overheads, Sec 2.5).
    #[must_use]
    pub fn pays(&self, now: Time, until: Time) -> bool {
        self.wake_start(until) > now + self.entry + self.break_even
    }
}

/// A slot for the one action that a gating policy can have pending.
pub(super) type Pending = Option<Action>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_l3_hit_never_pays_and_a_memory_access_does() {
        // Strong 2013, Table 2.3: EV6 break-even 17.17, wake-up 10.2, restore 3.03 ns.
        let ev6 = Costs {
            entry: Time::ZERO,
            break_even: Time(17_170),
            wake_up: Time(10_200),
            restore: Time(3_030),
            slots: Slots::ANY,
        };
        let now = Time::ns(7);
        assert!(!ev6.pays(now, now + Time::ns(13)));
        assert!(!ev6.pays(now, now + Time(30_400)));
        assert!(ev6.pays(now, now + Time(30_401)));
        assert!(ev6.pays(now, now + Time::ns(50)));
        // Four slots of 1 ns, its own at 2, 6, 10 ...: up to 4 ns of the wait are lost.
        let slotted = Costs { slots: Slots::nth(2, 4, Time::ns(1)), ..ev6 };
        assert_eq!(slotted.wake_start(Time(30_230)), Time::ns(14));
        assert!(!slotted.pays(now, Time(37_400)));
        assert!(slotted.pays(now, Time(39_230)));
    }

    #[test]
    fn a_slot_is_never_late() {
        let slots = Slots::nth(3, 5, Time(900));
        assert_eq!(slots, Slots { period: Time(4_500), offset: Time(2_700) });
        for at in (3_000..20_000).map(Time) {
            let (last, next) = (slots.last(at), slots.next(at));
            assert!(last <= at && at - last < slots.period);
            assert!(next >= at && next - at < slots.period);
            assert_eq!((last == at, slots.next(last), slots.last(next)), (next == at, last, next));
        }
    }
}

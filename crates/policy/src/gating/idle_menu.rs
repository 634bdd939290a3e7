//! Chooses how deep a halted core sleeps as Linux' menu governor does, by how long it will be idle.
//!
//! ```text
//!  halted ─▶ predict ─ stay is worth it ─▶ gated ───────────────────▶ interrupt: wake
//!              ▲ └──── too short ────────▶ clock stopped ─ interrupt ─▶ run
//!              └──────────── tick ──────────────┘
//! ```
//!
//! The ladder has the two depths that a core has here: its clock stopped, which costs nothing to
//! leave, and gated, which is worth it after a residency of entry, break-even, wake-up and restore.
//! The governor is the very one of the router's `napi-menu`, [`crate::scaling::Menu`], after
//! `drivers/cpuidle/governors/menu.c` of Linux 6.x: the mean of the last eight idle times if they
//! are alike, without outliers above, else the next timer times a factor learnt for its order of
//! magnitude. It is told of halts in place of empty queues.
//!
//! Deviations:
//! * Its constants are made for idle states of microseconds; a core is gated in nanoseconds. So its
//!   clock is scaled: idle times are alike if they spread by no more than
//!   [`IdleMenuParameters::alike`], where Linux has 20 us, and all else keeps its ratio to that.
//! * The tick is a timer beside the core, not an interrupt: it costs nothing. It rings only while
//!   the clock is stopped; a gated core is as deep as can be, and is not woken to predict again.
//! * No timers but the tick are known here, as for `napi-menu`.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Costs, Event, Gating, Pending};
use crate::scaling::{self, Depth, IdleParameters, IdleState, IdleStates, Menu, Rest};
use crate::{Policy, Snapshot};

/// The spread of idle times, in picoseconds, below which menu takes them for alike.
const ALIKE_PS: u64 = 20_000_000;
/// A tick of 4 ms in such spreads.
const TICK: u64 = 200;
/// Menu decides for a router; here that has one core.
const CORE: u8 = 0;

/// Parameters of the governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleMenuParameters {
    /// Between ticks, at which a core whose clock is stopped is predicted again.
    pub tick: Time,
    /// Longest wake-up that is allowed; a core that takes longer is never gated.
    pub latency_limit: Time,
    /// Standard deviation up to which idle times are alike.
    pub alike: Time,
}

impl IdleMenuParameters {
    /// Linux with 250 ticks a second, scaled to a core with these costs: idle times are alike if
    /// they spread by no more than what a stay must be worth. Any wake-up is allowed.
    #[must_use]
    pub fn linux(costs: &Costs) -> IdleMenuParameters {
        let alike = residency(costs);
        IdleMenuParameters { tick: alike * TICK, latency_limit: Time::NEVER, alike }
    }
}

/// Shortest idle time that is worth gating.
fn residency(costs: &Costs) -> Time {
    costs.entry + costs.break_even + costs.lead()
}

/// Gates halted cores whose idle time is predicted to be worth it.
#[derive(Clone, Debug)]
pub struct IdleMenu {
    menu: Menu,
    alike: Time,
    lead: Time,
    gated: bool,
    timer: Option<Time>,
    pending: Pending,
}

impl IdleMenu {
    /// A governor for one core with these costs that has learnt nothing yet.
    #[must_use]
    pub fn new(costs: Costs, parameters: IdleMenuParameters) -> IdleMenu {
        // Below a nanosecond the scaled clock would end within days.
        let alike = parameters.alike.max(Time::ns(1));
        let scaled = |span| to_menu(span, alike);
        let stopped =
            IdleState { depth: Depth::C1, exit: Time::ZERO, residency: Time::ZERO, polls: false };
        let deepest = if costs.lead() <= parameters.latency_limit {
            let (exit, residency) = (scaled(costs.lead()), scaled(residency(&costs)));
            IdleState { depth: Depth::C6, exit, residency, polls: false }
        } else {
            stopped
        };
        let menu = Menu::new(IdleParameters {
            cores: CORE + 1,
            states: IdleStates::new(&[stopped, stopped, deepest]),
            tick: scaled(parameters.tick).max(Time(1)),
            timer: IdleParameters::NO_TIMER,
            wake: Time::ZERO,
        });
        IdleMenu { menu, alike, lead: costs.lead(), gated: false, timer: None, pending: None }
    }

    fn tell(&mut self, at: Time, event: &scaling::Event) {
        self.menu.on_event(to_menu(at, self.alike), event);
    }

    /// Predicts, and rests accordingly.
    fn choose(&mut self, now: Time) {
        self.tell(now, &scaling::Event::Empty { core: CORE });
        let Some(scaling::Action::Rest { rest, .. }) = self.menu.poll_action() else { return };
        match rest {
            Rest::Halt(Depth::C6) | Rest::HaltFor { depth: Depth::C6, .. } => {
                self.gated = true;
                self.pending = Some(Action::Gate);
            }
            Rest::HaltFor { span, .. } => {
                self.timer = Some(now.saturating_add(from_menu(span, self.alike)));
            }
            _ => {}
        }
    }

    /// The rest that was chosen is over at `at`: menu's cores say so by a poll.
    fn over(&mut self, at: Time, interrupted: bool) {
        self.timer = None;
        let taken = interrupted.into();
        self.tell(at, &scaling::Event::Poll { core: CORE, taken, waiting: 0 });
    }
}

/// On the governor's clock, on which `alike` is what it is in Linux.
fn to_menu(time: Time, alike: Time) -> Time {
    let scaled = u128::from(time.0) * u128::from(ALIKE_PS) / u128::from(alike.0);
    Time(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// Back from it. Rounded up: a tick that rang too early would ring again at once.
fn from_menu(span: Time, alike: Time) -> Time {
    let real = (u128::from(span.0) * u128::from(alike.0)).div_ceil(u128::from(ALIKE_PS));
    Time(u64::try_from(real).unwrap_or(u64::MAX))
}

impl Policy for IdleMenu {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::IdleBegin => self.choose(now),
            Event::IdleEnd { .. } if core::mem::take(&mut self.gated) => {
                // Linux' idle times end when the core has left its idle state.
                self.over(now.saturating_add(self.lead), true);
                self.pending = Some(Action::Wake);
            }
            Event::IdleEnd { .. } => self.over(now, true),
            _ => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.timer.is_some_and(|at| at <= now) {
            self.over(now, false);
            self.choose(now);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("gated", self.gated.into()), ("tick_ps", self.timer.map_or(-1, |time| time.0 as i64))]
    }
}

impl Gating for IdleMenu {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scaled_clock_by_hand_and_back_never_early() {
        let alike = Time::ns(31);
        // 31 ns are 20 us there, so 62 ns are 40 us.
        assert_eq!(to_menu(Time::ns(62), alike), Time::ns(40_000));
        assert_eq!(from_menu(Time::ns(40_000), alike), Time::ns(62));
        for span in (1..2_000).map(|n| Time(n * 7_919)) {
            let back = from_menu(span, alike);
            assert!(back > Time::ZERO && to_menu(back, alike) >= span, "{span}");
        }
    }
}

//! DPDK's example of a router that saves power, in its legacy mode: `l3fwd-power --legacy`.
//!
//! ```text
//!  packets:  wait > 96 ─▶ fastest P-state      > 64: trend + 100   > 32: trend + 1
//!                                              trend > 10 000 ─▶ next faster P-state
//!  none:     10 polls ─▶ 1 us pauses, to poll 300 ─▶ interrupt, 10 ms at most
//!  100 ms:   a quarter of it paused, or bursts not full on average ─▶ next slower P-state
//! ```
//!
//! Follows `main_legacy_loop`, `power_freq_scaleup_heuristic`, `power_idle_heuristic` and
//! `power_timer_cb` of DPDK's `examples/l3fwd-power/main.c`. Each core asks for a P-state of its
//! own.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::polls::EmptyPolls;
use super::queue::Actions;
use super::{Action, Depth, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// `MAX_PKT_BURST`, of which the thresholds are multiples.
const BURST: u32 = 32;
/// Value of `FREQ_UP_THRESHOLD`.
const TREND: u32 = 10_000;
/// Value of `MIN_ZERO_POLL_COUNT`.
const EMPTY_POLLS: u32 = 10;
/// Value of `SUSPEND_THRESHOLD`.
const SUSPEND: u32 = 300;
/// Value of `MINIMUM_SLEEP_TIME`.
const PAUSE: Time = Time::ns(1_000);
/// Timeout of `rte_epoll_wait`.
const TIMEOUT: Time = Time::ns(10_000_000);

/// Parameters of l3fwd-power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L3fwdPowerParameters {
    /// Cores that forward, each with a queue of its own.
    pub cores: u8,
    /// Number of P-states.
    pub steps: u8,
    /// Packets of a full burst.
    pub burst: u32,
    /// After so much time a core may go slower. Published: 100 ms.
    pub period: Time,
    /// Idle state of a core that waits for an interrupt; the operating system chooses it.
    pub depth: Depth,
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    polls: EmptyPolls,
    trend: u32,
    step: u8,
    /// Begin and counters of the period.
    since: Time,
    paused: Time,
    taken: u64,
    passes: u64,
}

/// Policy of DPDK's l3fwd-power.
#[derive(Clone, Debug)]
pub struct L3fwdPower {
    parameters: L3fwdPowerParameters,
    cores: Vec<Core>,
    actions: Actions,
}

impl L3fwdPower {
    /// Starts at the fastest P-state, and says so.
    #[must_use]
    pub fn new(parameters: L3fwdPowerParameters) -> L3fwdPower {
        let step = parameters.steps - 1;
        let mut actions = Actions::new();
        for core in 0..parameters.cores {
            actions.push(Action::Wish { core, step });
        }
        let core = Core { step, ..Core::default() };
        L3fwdPower { parameters, cores: vec![core; usize::from(parameters.cores)], actions }
    }

    fn wish(&mut self, core: u8, step: u8) {
        let slot = &mut self.cores[usize::from(core)];
        if slot.step != step {
            slot.step = step;
            self.actions.push(Action::Wish { core, step });
        }
    }

    fn faster(&mut self, core: u8, waiting: u32) {
        let fastest = self.parameters.steps - 1;
        let slot = &mut self.cores[usize::from(core)];
        slot.trend += match waiting {
            _ if waiting > 3 * BURST => {
                slot.trend = 0;
                return self.wish(core, fastest);
            }
            _ if waiting > 2 * BURST => 100,
            _ if waiting > BURST => 1,
            _ => 0,
        };
        if slot.trend > TREND {
            slot.trend = 0;
            let step = (slot.step + 1).min(fastest);
            self.wish(core, step);
        }
    }

    /// Once in a period: slower if there was little to do.
    fn slower(&mut self, core: u8, now: Time) {
        let p = self.parameters;
        let slot = &mut self.cores[usize::from(core)];
        if now < slot.since + p.period {
            return;
        }
        let calm = slot.paused * 4 >= p.period;
        let down = calm || slot.taken / slot.passes.max(1) < u64::from(p.burst);
        (slot.since, slot.paused, slot.taken, slot.passes) = (now, Time::ZERO, 0, 0);
        if down && slot.step > 0 {
            let step = slot.step - 1;
            self.wish(core, step);
        }
    }

    fn rest(&mut self, core: u8) -> Rest {
        let slot = &mut self.cores[usize::from(core)];
        match slot.polls.empty() {
            n if n <= EMPTY_POLLS => {
                slot.passes += u64::from(EMPTY_POLLS - n);
                slot.polls.until(EMPTY_POLLS + 1)
            }
            n if n < SUSPEND => {
                slot.paused += PAUSE;
                Rest::Pause { span: PAUSE }
            }
            _ => Rest::HaltFor { span: TIMEOUT, depth: self.parameters.depth },
        }
    }
}

impl Policy for L3fwdPower {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Poll { core, taken, waiting } => {
                let slot = &mut self.cores[usize::from(core)];
                slot.passes += 1;
                slot.taken += u64::from(taken);
                if taken > 0 {
                    slot.polls.found();
                    self.faster(core, waiting);
                }
                self.slower(core, now);
            }
            Event::Empty { core } => {
                let rest = self.rest(core);
                self.actions.push(Action::Rest { core, rest });
            }
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop()
    }

    fn snapshot(&self) -> Snapshot {
        let fastest = self.cores.iter().map(|core| core.step).max().unwrap_or(0);
        vec![("step", i64::from(fastest))]
    }
}

impl Scaling for L3fwdPower {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }
}

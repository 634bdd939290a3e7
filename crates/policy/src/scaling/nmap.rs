//! NMAP: frequency from the kernel's changes between interrupts and polling.
//!
//! ```text
//!  packets taken by polling since the last interrupt > threshold ─▶ network mode: fastest P-state
//!  each 10 ms, in network mode: few by polling for each by interrupt ─▶ utilisation mode
//!              in utilisation mode: P-state in proportion to utilisation, fastest above 80 %
//! ```
//!
//! After Kang et al., "NMAP: Power Management Based on Network Packet Processing Mode Transition
//! for Latency-Critical Workloads" (MICRO 2021). Its abstract was at hand, not its text: the
//! modes and their signals are NMAP's; thresholds (which it finds by profiling each service), the
//! ratio and the periods are assumptions, as is that utilisation is followed like Linux' ondemand
//! governor (`drivers/cpufreq/cpufreq_ondemand.c`). Cores nap as under NAPI.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::queue::Actions;
use super::{Action, Depth, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// Above so many per cent ondemand goes to the fastest P-state.
const UP_PERCENT: u64 = 80;

/// Parameters of NMAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NmapParameters {
    /// Cores that forward, each with a queue of its own.
    pub cores: u8,
    /// Number of P-states.
    pub steps: u8,
    /// Packets by polling after an interrupt, above which the network is busy.
    pub network: u64,
    /// Packets by polling for each hundred by interrupt, below which it is not.
    pub percent: u64,
    /// Between looks at utilisation.
    pub period: Time,
    /// Deepest state of naps.
    pub depth: Depth,
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    step: u8,
    network: bool,
    /// Whether it has rested: the next packets then came with an interrupt.
    rested: bool,
    /// Number of packets taken by polling since then.
    run: u64,
    /// Counters of the period.
    polled: u64,
    interrupted: u64,
    busy: Time,
    since: Option<Time>,
}

/// Policy of NMAP.
#[derive(Clone, Debug)]
pub struct Nmap {
    parameters: NmapParameters,
    cores: Vec<Core>,
    look: Time,
    actions: Actions,
}

impl Nmap {
    /// Starts in utilisation mode at the slowest P-state, and says so.
    #[must_use]
    pub fn new(parameters: NmapParameters) -> Nmap {
        let mut actions = Actions::new();
        for core in 0..parameters.cores {
            actions.push(Action::Wish { core, step: 0 });
        }
        let cores = vec![Core::default(); usize::from(parameters.cores)];
        Nmap { parameters, cores, look: parameters.period, actions }
    }

    fn wish(&mut self, core: u8, step: u8) {
        let slot = &mut self.cores[usize::from(core)];
        if slot.step != step {
            slot.step = step;
            self.actions.push(Action::Wish { core, step });
        }
    }

    fn polled(&mut self, now: Time, core: u8, taken: u32) {
        let p = self.parameters;
        let slot = &mut self.cores[usize::from(core)];
        slot.since.get_or_insert(now);
        if core::mem::take(&mut slot.rested) {
            slot.run = 0;
            slot.interrupted += u64::from(taken);
            return;
        }
        slot.run += u64::from(taken);
        slot.polled += u64::from(taken);
        if slot.run > p.network && !slot.network {
            slot.network = true;
            self.wish(core, p.steps - 1);
        }
    }

    fn look_at(&mut self, now: Time, core: u8) {
        let p = self.parameters;
        let slot = &mut self.cores[usize::from(core)];
        let since = slot.since.map_or(now, |since| since);
        let busy = slot.busy + Time(now.0 - since.0);
        slot.since = slot.since.map(|_| now);
        if slot.polled * 100 < slot.interrupted * p.percent || slot.polled + slot.interrupted == 0 {
            slot.network = false;
        }
        let network = slot.network;
        (slot.busy, slot.polled, slot.interrupted) = (Time::ZERO, 0, 0);
        if network {
            return;
        }
        let percent = 100 * busy.0 / p.period.0;
        let fastest = u64::from(p.steps) - 1;
        // The nearest P-state to that share of the range.
        let step = if percent > UP_PERCENT { fastest } else { (fastest * percent + 50) / 100 };
        self.wish(core, step as u8);
    }
}

impl Policy for Nmap {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Poll { core, taken, .. } if taken > 0 => self.polled(now, core, taken),
            Event::Poll { .. } => {}
            Event::Empty { core } => {
                let slot = &mut self.cores[usize::from(core)];
                slot.rested = true;
                if let Some(since) = slot.since.take() {
                    slot.busy += Time(now.0 - since.0);
                }
                let rest = Rest::Nap(self.parameters.depth);
                self.actions.push(Action::Rest { core, rest });
            }
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.look = now + self.parameters.period;
        for core in 0..self.parameters.cores {
            self.look_at(now, core);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        Some(self.look)
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop()
    }

    fn snapshot(&self) -> Snapshot {
        let fastest = self.cores.iter().map(|core| core.step).max().unwrap_or(0);
        let network = self.cores.iter().filter(|core| core.network).count();
        vec![("step", i64::from(fastest)), ("network", network as i64)]
    }
}

impl Scaling for Nmap {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }
}

//! TAP or MAPG-Counter, whichever does better on this workload (Strong 2013, ch. 5, future work).
//!
//! Time is cut into windows. In the first window of a round TAP gates, in the second
//! MAPG-Counter, in the others whichever gained more: both listen all the time, so that the one at
//! rest keeps its table and its learnt delay.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Costs, Estimate, Event, Gating, MapgCounter, Tap};
use crate::{Policy, Snapshot};

/// Constants of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchingParameters {
    /// Length of a window.
    pub window: Time,
    /// Windows in a round, the two trials included (at least 3).
    pub round: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Tap,
    Mapg,
}

/// The controller of one core.
#[derive(Clone, Debug)]
pub struct Switching {
    costs: Costs,
    parameters: SwitchingParameters,
    tap: Tap,
    mapg: MapgCounter,
    choice: Choice,
    /// Number of the present window since time zero.
    window: u64,
    /// Leakage time saved, less what it cost, in the trial of each.
    gains: [i64; 2],
    gain: i64,
    now: Time,
    gated_at: Time,
    /// The response that found the core asleep or waking.
    found: Option<Time>,
    powered: bool,
}

impl Switching {
    /// A controller that begins with TAP.
    #[must_use]
    pub fn new(costs: Costs, parameters: SwitchingParameters, tap: Tap, mapg: MapgCounter) -> Self {
        let mut mapg = mapg;
        mapg.enable(false);
        Switching {
            costs,
            parameters,
            tap,
            mapg,
            choice: Choice::Tap,
            window: 0,
            gains: [0; 2],
            gain: 0,
            now: Time::ZERO,
            gated_at: Time::ZERO,
            found: None,
            powered: true,
        }
    }

    /// Chooses the controller for a new window, while neither has gated the core.
    fn choose(&mut self, now: Time) {
        let window = now.0 / self.parameters.window.0.max(1);
        if window == self.window {
            return;
        }
        match self.window % self.parameters.round.max(3) {
            0 => self.gains[0] = self.gain,
            1 => self.gains[1] = self.gain,
            _ => {}
        }
        self.gain = 0;
        self.window = window;
        self.choice = match window % self.parameters.round.max(3) {
            0 => Choice::Tap,
            1 => Choice::Mapg,
            _ if self.gains[0] >= self.gains[1] => Choice::Tap,
            _ => Choice::Mapg,
        };
        self.tap.enable(self.choice == Choice::Tap);
        self.mapg.enable(self.choice == Choice::Mapg);
    }

    fn watch(&mut self, now: Time, event: &Event) {
        match event {
            Event::Response { .. } if !self.powered => self.found = self.found.or(Some(now)),
            Event::Awake => self.powered = true,
            Event::StallEnd { .. } => {
                // A core that is late runs for longer: twice its leakage, about.
                if let Some(found) = self.found.take() {
                    self.gain -= 2 * (now - found).0 as i64;
                }
            }
            _ => {}
        }
    }
}

impl Policy for Switching {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        self.now = now;
        if *event == Event::StallBegin {
            self.choose(now);
            self.found = None;
        }
        self.watch(now, event);
        let halt = matches!(event, Event::IdleBegin | Event::IdleEnd { .. });
        self.tap.on_event(now, event);
        // Of a halt one of them takes care.
        if !halt {
            self.mapg.on_event(now, event);
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.now = now;
        if self.tap.next_timer().is_some_and(|at| at <= now) {
            self.tap.on_timer(now);
        }
        if self.mapg.next_timer().is_some_and(|at| at <= now) {
            self.mapg.on_timer(now);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        match (self.tap.next_timer(), self.mapg.next_timer()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.tap.poll_action().or_else(|| self.mapg.poll_action());
        match action {
            Some(Action::Gate) => {
                self.gated_at = self.now;
                self.powered = false;
            }
            Some(Action::Wake) => {
                let spent = self.costs.entry + self.costs.break_even;
                self.gain += (self.now - self.gated_at).0 as i64 - spent.0 as i64;
            }
            _ => {}
        }
        action
    }

    fn snapshot(&self) -> Snapshot {
        vec![
            ("tap", i64::from(self.choice == Choice::Tap)),
            ("gain_tap_ps", self.gains[0]),
            ("gain_mapg_ps", self.gains[1]),
        ]
    }
}

impl Gating for Switching {
    fn hears(&self) -> Option<Estimate> {
        Some(Estimate::Scheduled)
    }
}

//! PowerSave: climbs a ladder of operating points, one rung for each streak of long or short queues
//! (Niccolini 2012, Sec 4.4, List. 4.1).
//!
//! ```text
//!  1 core ─▶ 2 ─▶ … ─▶ all cores, slowest ─▶ next P-state ─▶ … ─▶ all cores, fastest
//!         ◀──   few packets wait, often    │   many packets wait, often  ──▶
//! ```
//!
//! Core 0 looks at its queue before it takes a batch; it is never parked.

use alloc::vec;

use halfwink_units::Time;

use super::queue::Actions;
use super::{Action, Depth, Event, RedirectTable, Rest, Scaling};
use crate::{Policy, Snapshot};

/// Parameters of PowerSave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerSaveParameters {
    /// Cores that may forward.
    pub cores: u8,
    /// Number of P-states.
    pub steps: u8,
    /// Packets: more is too much. Published: 32.
    pub q_high: u32,
    /// Packets: fewer is too little. Published: 4.
    pub q_low: u32,
    /// Consecutive looks above `q_high` that are passed over.
    pub c_up: u32,
    /// Consecutive looks below `q_low` that are passed over.
    pub c_down: u32,
    /// Whether packets of a moved entry wait for those before them.
    pub in_order: bool,
    /// Silence after which it goes one rung down, if set; the published router keeps its rung.
    pub silence: Option<Time>,
}

impl PowerSaveParameters {
    /// The published thresholds (Niccolini 2012, Sec 4.4.1). assumption: `c_up` 5 and `c_down` 50,
    /// which are not printed.
    #[must_use]
    pub const fn published(cores: u8, steps: u8) -> PowerSaveParameters {
        PowerSaveParameters {
            cores,
            steps,
            q_high: 32,
            q_low: 4,
            c_up: 5,
            c_down: 50,
            in_order: false,
            silence: None,
        }
    }
}

/// An operating point of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// Number of cores that forward.
    pub cores: u8,
    /// Number of their P-state.
    pub step: u8,
}

impl Rung {
    /// The `n`-th operating point of a router with so many cores and P-states: cores first, at the
    /// slowest; then faster.
    #[must_use]
    pub fn nth(n: usize, cores: u8, steps: u8) -> Option<Rung> {
        let all = usize::from(cores);
        match n {
            _ if n < all => Some(Rung { cores: n as u8 + 1, step: 0 }),
            _ if n < all + usize::from(steps) - 1 => {
                Some(Rung { cores, step: (n + 1 - all) as u8 })
            }
            _ => None,
        }
    }
}

/// Controller that climbs a ladder of operating points.
#[derive(Clone, Debug)]
pub struct PowerSave {
    parameters: PowerSaveParameters,
    rung: Rung,
    table: RedirectTable,
    high_streak: u32,
    low_streak: u32,
    heard: Time,
    actions: Actions,
}

impl PowerSave {
    /// Starts on the lowest rung, all entries at queue 0, and says so.
    #[must_use]
    pub fn new(parameters: PowerSaveParameters) -> PowerSave {
        let mut actions = Actions::new();
        actions.push(Action::SetStep { step: 0 });
        for core in 1..parameters.cores {
            actions.push(Action::Park { core });
        }
        for entry in 0..super::ENTRIES as u8 {
            // Nothing has arrived yet, so nothing can overtake.
            actions.push(Action::Move { entry, to: 0, in_order: false });
        }
        PowerSave {
            parameters,
            rung: Rung { cores: 1, step: 0 },
            table: RedirectTable::even(1),
            high_streak: 0,
            low_streak: 0,
            heard: Time::ZERO,
            actions,
        }
    }

    /// Returns the present rung.
    #[must_use]
    pub fn rung(&self) -> Rung {
        self.rung
    }

    fn look(&mut self, waiting: u32) {
        let p = self.parameters;
        if waiting > p.q_high {
            self.low_streak = 0;
            self.high_streak += 1;
            if self.high_streak > p.c_up {
                self.high_streak = 0;
                self.step_up();
            }
        } else if waiting < p.q_low {
            self.high_streak = 0;
            self.low_streak += 1;
            if self.low_streak > p.c_down {
                self.low_streak = 0;
                self.step_down();
            }
        } else {
            self.high_streak = 0;
            self.low_streak = 0;
        }
    }

    fn step_up(&mut self) {
        let p = self.parameters;
        if self.rung.cores < p.cores {
            let core = self.rung.cores;
            self.rung.cores += 1;
            self.actions.push(Action::Wake { core });
            self.table.join(core, p.in_order, &mut self.actions);
        } else if self.rung.step + 1 < p.steps {
            self.rung.step += 1;
            self.actions.push(Action::SetStep { step: self.rung.step });
        }
    }

    fn step_down(&mut self) {
        if self.rung.step > 0 {
            self.rung.step -= 1;
            self.actions.push(Action::SetStep { step: self.rung.step });
        } else if self.rung.cores > 1 {
            self.rung.cores -= 1;
            let core = self.rung.cores;
            self.table.leave(core, self.parameters.in_order, &mut self.actions);
            self.actions.push(Action::Park { core });
        }
    }
}

impl Policy for PowerSave {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Poll { core: 0, waiting, .. } => {
                self.heard = now;
                self.look(waiting);
            }
            Event::Empty { core } => {
                let depth = if core < self.rung.cores { Depth::C1 } else { Depth::C6 };
                self.actions.push(Action::Rest { core, rest: Rest::Halt(depth) });
            }
            Event::Poll { .. } => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.heard = now;
        self.high_streak = 0;
        self.step_down();
    }

    fn next_timer(&self) -> Option<Time> {
        let lowest = self.rung == Rung { cores: 1, step: 0 };
        let silence = self.parameters.silence.filter(|_| !lowest)?;
        Some(self.heard + silence)
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop()
    }

    fn snapshot(&self) -> Snapshot {
        vec![
            ("cores", i64::from(self.rung.cores)),
            ("step", i64::from(self.rung.step)),
            ("high-streak", i64::from(self.high_streak)),
            ("low-streak", i64::from(self.low_streak)),
        ]
    }
}

impl Scaling for PowerSave {
    fn hears_polls(&self, core: u8) -> bool {
        core == 0
    }
}

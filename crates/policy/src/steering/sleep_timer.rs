//! One machine that sleeps when it has had nothing to do for a while, and wakes when a request
//! comes: a server with delayed-off, and PowerNap.
//!
//! ```text
//!   last request done ── linger ──▶ asleep ── request ──▶ waking ──▶ on
//!                         └ request: stays on │
//!                                             └ longer still ──▶ deeper levels, one by one
//! ```
//!
//! * Fixed linger: DELAYEDOFF, Gandhi, Gupta, Harchol-Balter, Kozuch, "Optimality analysis of
//!   energy-performance trade-off for server farm management" (Performance Evaluation 67, 2010).
//! * Linger zero: PowerNap, Meisner, Gold, Wenisch, "PowerNap: Eliminating Server Idle Power"
//!   (ASPLOS 2009), and INSTANTOFF of the former.
//! * [`SleepTimerParameters::set_up_over_idle`]: AutoScale, Gandhi, Harchol-Balter, Raghunathan,
//!   Kozuch (ACM TOCS 30(4), 2012): idle for as long as costs what a set-up costs.
//! * [`SleepTimerParameters::break_even`]: the 2-competitive timer of ski rental (Karlin, Manasse,
//!   McGeoch, Owicki, Algorithmica 11, 1994): it never spends over twice what one would that knows
//!   the next arrival.
//! * [`SleepTimerParameters::ladder`]: the same for several levels of sleep (Irani, Shukla, Gupta,
//!   "Online strategies for dynamic power management in systems with multiple power-saving
//!   states", ACM TECS 2(3), 2003: the lower envelope): at each moment it is in the level that was
//!   cheapest if the next request came now.
//!
//! The papers are quoted from memory of their rules. Deviations: the other machine of the pair
//! takes requests while this one is lost; a request that comes while the machine goes down waits
//! until it is down and awake again.

use halfwink_units::Time;

use super::machines::{Linger, Machines};
use super::{Action, Event, Side, Steering, LEVELS};
use crate::{Policy, Snapshot};

/// Which machine, and how patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepTimerParameters {
    /// The machine that serves. The other one sleeps for ever.
    pub side: Side,
    /// Time for which it stays on without requests.
    pub linger: Time,
    /// Time without requests after which it goes on to each deeper level of sleep; `NEVER` for
    /// levels that it has not.
    pub deeper: [Time; LEVELS - 1],
}

/// Costs of one level of sleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelCost {
    /// Power asleep there, in watts.
    pub sleep_w: f64,
    /// Energy of going down to it and of waking, beyond sleeping there for as long, in joules.
    pub transition_j: f64,
}

impl SleepTimerParameters {
    /// PowerNap: the big machine, which never waits.
    #[must_use]
    pub fn power_nap() -> SleepTimerParameters {
        SleepTimerParameters::fixed(Time::ZERO)
    }

    /// The big machine stays on for so long.
    #[must_use]
    pub fn fixed(linger: Time) -> SleepTimerParameters {
        SleepTimerParameters { side: Side::Big, linger, deeper: [Time::NEVER; LEVELS - 1] }
    }

    /// AutoScale's `t_wait`: set-up time x power in set-up / idle power.
    #[must_use]
    pub fn set_up_over_idle(set_up: Time, set_up_w: f64, idle_w: f64) -> SleepTimerParameters {
        SleepTimerParameters::fixed(Time::from_ns(set_up.as_ns() * set_up_w / idle_w))
    }

    /// Returns the 2-competitive timer: as long as idling costs, beyond sleeping, what going to
    /// sleep and waking cost beyond it. It never sleeps if that saves nothing.
    #[must_use]
    pub fn break_even(idle_w: f64, level: LevelCost) -> SleepTimerParameters {
        SleepTimerParameters::ladder(idle_w, &[level])
    }

    /// Returns the 2-competitive timer of several levels, each deeper than the one before: it goes
    /// down where the lines of their energies over the time without requests cross. A level that
    /// is never the cheapest is passed on the way to the next.
    #[must_use]
    pub fn ladder(idle_w: f64, levels: &[LevelCost]) -> SleepTimerParameters {
        let mut times = [Time::NEVER; LEVELS];
        let (mut place, mut above) = (0, LevelCost { sleep_w: idle_w, transition_j: 0.0 });
        while let Some((next, at)) = first_crossing(above, levels, place) {
            times[place..=next].fill(Time::from_ns(at * 1e9));
            (place, above) = (next + 1, levels[next]);
        }
        let [linger, deeper @ ..] = times;
        SleepTimerParameters { deeper, ..SleepTimerParameters::fixed(linger) }
    }
}

/// Returns the level from `place` on whose line is the first to cross that of the level above, and
/// when, in seconds.
fn first_crossing(above: LevelCost, levels: &[LevelCost], place: usize) -> Option<(usize, f64)> {
    let mut first: Option<(usize, f64)> = None;
    for (n, level) in levels.iter().enumerate().skip(place).take(LEVELS - place) {
        let saved_w = above.sleep_w - level.sleep_w;
        if saved_w > 0.0 {
            let at = ((level.transition_j - above.transition_j) / saved_w).max(0.0);
            // If several cross at once, the deepest of them is the cheapest from then on.
            if first.is_none_or(|(_, earliest)| at <= earliest) {
                first = Some((n, at));
            }
        }
    }
    first
}

/// Policy of a sleep timer.
#[derive(Clone, Debug)]
pub struct SleepTimer {
    parameters: SleepTimerParameters,
    machines: Machines,
    linger: Linger,
    /// Time since which it has had nothing, as far as its next level is concerned.
    since: Option<Time>,
    /// Deeper levels that it was sent to.
    depth: usize,
    deepens_at: Option<Time>,
}

impl SleepTimer {
    /// Both machines sleep at first, this one after its linger.
    #[must_use]
    pub fn new(parameters: SleepTimerParameters) -> SleepTimer {
        let SleepTimerParameters { side, linger, .. } = parameters;
        let mut policy = SleepTimer {
            parameters,
            machines: Machines::NEW,
            linger: Linger::new(side, linger),
            since: None,
            depth: 0,
            deepens_at: None,
        };
        policy.settle(Time::ZERO);
        policy
    }

    #[inline]
    fn settle(&mut self, now: Time) {
        let side = self.parameters.side;
        self.machines.rest(side.other());
        if self.machines.is_on(side) {
            (self.depth, self.deepens_at) = (0, None);
        }
        if self.machines.of(side).load == 0 {
            self.since.get_or_insert(now);
        }
        self.linger.settle(now, &mut self.machines);
    }

    /// The machine sleeps: it may be time, sooner or later, for its next level.
    fn asleep(&mut self, now: Time) {
        let next = self.parameters.deeper.get(self.depth).copied().unwrap_or(Time::NEVER);
        if next != Time::NEVER {
            let since = self.since.unwrap_or(now);
            self.deepens_at = Some(since.saturating_add(next).max(now));
        }
    }
}

impl Policy for SleepTimer {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        self.machines.note(event);
        let side = self.parameters.side;
        match event {
            Event::Arrive => {
                if self.machines.send(side) == side {
                    self.linger.busy();
                    (self.since, self.depth, self.deepens_at) = (None, 0, None);
                }
            }
            Event::Asleep { side: slept } if *slept == side => self.asleep(now),
            Event::Asleep { .. } => {}
            _ => self.settle(now),
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.linger.timer(now, &mut self.machines);
        if self.deepens_at.is_some_and(|at| at <= now) {
            self.deepens_at = None;
            self.depth += 1;
            self.machines.deepen(self.parameters.side);
        }
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        [self.linger.next(), self.deepens_at].into_iter().flatten().min()
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        self.machines.snapshot()
    }
}

impl Steering for SleepTimer {}

//! NAPI whose idle state Linux' timer events oriented (TEO) governor chooses.
//!
//! Follows `drivers/cpuidle/governors/teo.c` of Linux 6.1 to 6.3 without its look at the run
//! queue's utilisation: rests fall into bins, one for each state. One that ends in the bin of the
//! next timer is a hit there, else an intercept where it ended. If more than half of what counts,
//! or of the last nine, ended before the state that the timer allows, the deepest state is taken
//! that over half of those reached.

use halfwink_units::Time;

use super::apart::Apart;
use super::cpuidle::{Governed, Governor, IdleParameters, Rested, MOST_STATES};

const PULSE: u32 = 1_024;
const DECAY_SHIFT: u32 = 3;
const RECENT: usize = 9;

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    intercepts: u32,
    hits: u32,
    recent: u32,
}

/// NAPI with this governor.
pub type Teo = Apart<Governed<TeoCore>>;

/// State of the governor for one core.
#[derive(Clone, Copy, Debug)]
pub struct TeoCore {
    bins: [Bin; MOST_STATES],
    total: u32,
    /// Bins of the last intercepts.
    recent: [Option<usize>; RECENT],
    at: usize,
}

impl Governor for TeoCore {
    fn new() -> TeoCore {
        let bin = Bin { intercepts: 0, hits: 0, recent: 0 };
        TeoCore { bins: [bin; MOST_STATES], total: 0, recent: [None; RECENT], at: 0 }
    }

    /// Implements `teo_update`.
    fn learn(&mut self, rested: Rested, p: &IdleParameters) {
        let exit = p.states[rested.state].exit_ns();
        let measured = match rested.ns {
            // The tick ended it; it might have lasted until the timer.
            ns if rested.by_tick || ns >= p.timer_ns() => u64::MAX,
            ns if ns >= exit => ns - exit / 2,
            ns => ns / 2,
        };
        self.total = 0;
        let (mut timer, mut lasted) = (0, 0);
        for (n, bin) in self.bins.iter_mut().enumerate().take(p.states.len()) {
            bin.hits -= bin.hits >> DECAY_SHIFT;
            bin.intercepts -= bin.intercepts >> DECAY_SHIFT;
            self.total += bin.hits + bin.intercepts;
            let residency = p.states[n].residency_ns();
            if residency <= p.timer_ns() {
                timer = n;
                lasted = if residency <= measured { n } else { lasted };
            }
        }
        if let Some(old) = self.recent[self.at] {
            self.bins[old].recent -= 1;
        }
        self.recent[self.at] = (timer != lasted).then_some(lasted);
        if timer == lasted {
            self.bins[timer].hits += PULSE;
        } else {
            self.bins[lasted].intercepts += PULSE;
            self.bins[lasted].recent += 1;
        }
        self.at = (self.at + 1) % RECENT;
        self.total += PULSE;
    }

    /// `teo_select`: the state, and whether the tick goes on.
    fn choose(&mut self, now: Time, p: &IdleParameters) -> (usize, bool) {
        let worth = |&n: &usize| p.states[n].residency_ns() <= p.timer_ns();
        let allowed = (0..p.states.len()).filter(worth).max();
        let mut state = allowed.unwrap_or(0);
        let mut span = if state == 0 { p.states[0].residency_ns() } else { p.timer_ns() };
        let shallower = &self.bins[..state];
        let intercepts: u32 = shallower.iter().map(|bin| bin.intercepts).sum();
        let hits: u32 = shallower.iter().map(|bin| bin.hits).sum();
        let recent: u32 = shallower.iter().map(|bin| bin.recent).sum();
        let often = 2 * intercepts > self.total - hits;
        let lately = recent as usize > RECENT / 2;
        if state > 0 && (often || lately) {
            let (mut intercept_sum, mut recent_sum) = (0, 0);
            for n in (0..state).rev() {
                intercept_sum += self.bins[n].intercepts;
                recent_sum += self.bins[n].recent;
                let enough = (!lately || 2 * recent_sum > recent)
                    && (!often || 2 * intercept_sum > intercepts);
                if enough {
                    span = (p.states[n].residency_ns() + p.states[n + 1].residency_ns()) / 2;
                    state = n;
                    break;
                }
            }
        }
        let tick = span < p.tick_ns();
        let until = p.until_tick_ns(now);
        if tick && state > 0 && p.states[state].residency_ns() > until {
            state = p.shallower(state, until);
        }
        (state, tick)
    }
}

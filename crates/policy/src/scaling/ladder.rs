//! Linux' ladder governor: one rung at a time.
//!
//! Follows `drivers/cpuidle/governors/ladder.c`: after four rests in a row that outlasted the exit
//! latency of their state the next deeper state is taken, after one that did not the next shallower
//! one. It knows no timers and never stops the tick.

use halfwink_units::Time;

use super::cpuidle::{Governor, IdleParameters, Rested};

/// Value of `PROMOTION_COUNT` in Linux.
const PROMOTIONS: u32 = 4;

/// State of the governor for one core.
#[derive(Clone, Copy, Debug)]
pub struct LadderCore {
    /// The rung of the last rest.
    state: usize,
    promotions: u32,
}

impl LadderCore {
    /// The lowest rung: polling is none.
    fn first(p: &IdleParameters) -> usize {
        usize::from(p.states[0].polls && p.states.len() > 1)
    }
}

impl Governor for LadderCore {
    fn new() -> LadderCore {
        LadderCore { state: 0, promotions: 0 }
    }

    /// `ladder_select_state`, which looks at the last rest when it begins the next.
    fn learn(&mut self, rested: Rested, p: &IdleParameters) {
        let exit = p.states[rested.state].exit_ns();
        let lasted = rested.ns.saturating_sub(exit);
        self.state = rested.state;
        if self.state + 1 < p.states.len() && lasted > exit {
            self.promotions += 1;
            if self.promotions >= PROMOTIONS {
                self.state += 1;
                self.promotions = 0;
            }
        } else if self.state > LadderCore::first(p) && lasted < exit {
            self.state -= 1;
            self.promotions = 0;
        }
    }

    fn choose(&mut self, _now: Time, p: &IdleParameters) -> (usize, bool) {
        self.state = self.state.max(LadderCore::first(p));
        (self.state, true)
    }
}

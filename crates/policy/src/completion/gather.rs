//! A way to rest: sleeps a little while more I/Os are on their way, so that one wake-up, one read
//! and one call that sends serve many of them.
//!
//! ```text
//!  found nothing ──▶ gathering? ──yes──▶ sleep a while, deaf ──▶ took 2 or more: go on, longer
//!                        │ no                                └─▶ took 1 or none: stop, try again
//!                        ▼                                       after 64, 128, ... rounds
//!                      halt until something comes
//! ```
//!
//! Who waits for each answer before he asks again (depth 1) is never gathered from for long: while
//! the thread sleeps he can ask only once, and that is how it is noticed.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use crate::scaling::{Action, Depth, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// Lengths of a sleep. assumption: the shortest is what a timer of the kernel can do; the longest
/// is a fifth of what 32 I/Os take at 100,000 each second.
const SHORTEST: Time = Time::ns(15_000);
const LONGEST: Time = Time::ns(60_000);
/// Number of I/Os at a time above which it sleeps for a shorter time.
const ENOUGH: u32 = 16;
/// Rounds without gathering before it is tried again.
const FIRST_TRY: u32 = 64;
const LAST_TRY: u32 = 4096;

/// State of a core.
#[derive(Clone, Copy, Debug)]
struct Core {
    span: Time,
    gathers: bool,
    /// Whether it slept since I/Os were last taken.
    slept: bool,
    /// Rounds until the next try, and after the next failure.
    until_try: u32,
    next_try: u32,
}

/// The way to rest, for all cores.
#[derive(Clone, Debug)]
pub struct Gather {
    cores: Vec<Core>,
    pending: Option<Action>,
}

impl Gather {
    /// Creates the policy for this number of cores.
    #[must_use]
    pub fn new(cores: u8) -> Gather {
        let fresh = Core {
            span: SHORTEST,
            gathers: false,
            slept: false,
            until_try: FIRST_TRY,
            next_try: FIRST_TRY,
        };
        Gather { cores: vec![fresh; usize::from(cores)], pending: None }
    }
}

impl Core {
    fn took(&mut self, taken: u32) {
        if taken == 0 {
            return;
        }
        if !core::mem::take(&mut self.slept) {
            self.until_try = self.until_try.saturating_sub(1);
            return;
        }
        if taken == 1 {
            self.fail();
            return;
        }
        self.gathers = true;
        self.next_try = FIRST_TRY;
        self.span = if taken > ENOUGH {
            Time(self.span.0 * 3 / 4).max(SHORTEST)
        } else {
            Time(self.span.0 * 5 / 4).min(LONGEST)
        };
    }

    fn fail(&mut self) {
        self.gathers = false;
        self.span = SHORTEST;
        self.until_try = self.next_try;
        self.next_try = (self.next_try * 2).min(LAST_TRY);
    }

    fn rest(&mut self) -> Rest {
        if self.slept {
            // Nobody came meanwhile: he does not ask for more until he is answered.
            self.slept = false;
            self.fail();
            return Rest::Halt(Depth::C1);
        }
        if self.gathers || self.until_try == 0 {
            self.slept = true;
            return Rest::Sleep { span: self.span, depth: Depth::C1 };
        }
        Rest::Halt(Depth::C1)
    }
}

impl Policy for Gather {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match *event {
            Event::Poll { core, taken, .. } => {
                if let Some(known) = self.cores.get_mut(usize::from(core)) {
                    known.took(taken);
                }
            }
            Event::Empty { core } => {
                let known = self.cores.get_mut(usize::from(core));
                let rest = known.map_or(Rest::Halt(Depth::C1), Core::rest);
                self.pending = Some(Action::Rest { core, rest });
            }
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let gathering = self.cores.iter().filter(|core| core.gathers).count();
        vec![("gathering", gathering as i64)]
    }
}

impl Scaling for Gather {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn rest(gather: &mut Gather) -> Rest {
        gather.on_event(Time::ZERO, &Event::Empty { core: 0 });
        match gather.poll_action() {
            Some(Action::Rest { core: 0, rest }) => rest,
            other => panic!("{other:?}"),
        }
    }

    fn round(gather: &mut Gather, taken: u32) -> Rest {
        gather.on_event(Time::ZERO, &Event::Poll { core: 0, taken, waiting: taken });
        rest(gather)
    }

    #[test]
    fn gathering_rarely_delays_closed_issuer() {
        let mut gather = Gather::new(1);
        let rounds: Vec<Rest> = (0..10_000).map(|_| round(&mut gather, 1)).collect();
        let slept = rounds.iter().filter(|rest| matches!(rest, Rest::Sleep { .. })).count();
        assert!((1..=9).contains(&slept), "{slept}");
    }

    #[test]
    fn many_are_gathered_as_long_as_they_come() {
        let mut gather = Gather::new(1);
        while !matches!(round(&mut gather, 1), Rest::Sleep { .. }) {}
        let Rest::Sleep { span, .. } = round(&mut gather, 4) else { panic!("it goes on") };
        assert!(span > SHORTEST);
        for _ in 0..20 {
            assert!(matches!(round(&mut gather, 8), Rest::Sleep { .. }));
        }
        assert!(matches!(round(&mut gather, 8), Rest::Sleep { span: LONGEST, .. }));
        for _ in 0..20 {
            assert!(matches!(round(&mut gather, 40), Rest::Sleep { .. }));
        }
        assert!(matches!(round(&mut gather, 40), Rest::Sleep { span: SHORTEST, .. }));
        // They have ended: it sleeps once in vain, and then until something comes.
        assert!(matches!(rest(&mut gather), Rest::Halt(_)));
        assert!(matches!(rest(&mut gather), Rest::Halt(_)));
        assert!(matches!(round(&mut gather, 1), Rest::Halt(_)));
    }
}

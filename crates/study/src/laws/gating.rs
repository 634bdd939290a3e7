//! Laws of gating: a core that waits for memory or is halted, and is always as fast as it says.

use halfwink_policy::gating::{Action, Bound, Costs, Event, GatingPolicy, Slots, Token};
use halfwink_policy::scaling::{Depth, IdleState, IdleStates};
use halfwink_techniques::GatingContext;
use halfwink_units::{LineAddr, Time};

use super::{Broken, Dice, Law};

/// A core with four idle states, two of which are left by waking.
pub(super) struct Core {
    costs: Costs,
}

pub(super) const CORE: Core = Core {
    costs: Costs {
        entry: Time(909),
        break_even: Time(17_170),
        wake_up: Time(10_200),
        restore: Time(3_030),
        slots: Slots::ANY,
    },
};

const STATES: u8 = 4;
const DEEP: u8 = 2;
/// Most lines that are waited for.
const LINES: u64 = 8;
/// Longest time that a token names.
const SPAN: Time = Time::ns(20_000);
/// A core is woken this long after its wait ended: what tokens named is over, and forgotten.
const PATIENCE: Time = Time::ns(100_000);

impl Core {
    pub(super) fn context(&self) -> GatingContext {
        let state = |exit, residency| IdleState {
            depth: if exit > 1 { Depth::C6 } else { Depth::C1 },
            exit: Time::ns(exit),
            residency: Time::ns(residency),
            polls: residency == 0,
        };
        let states = [state(0, 0), state(1, 1), state(2, 4), state(290, 800)];
        GatingContext {
            costs: self.costs,
            token_entries: 4,
            memory: [Time::ns(22), Time::ns(45)],
            idle_states: Some(IdleStates::new(&states)),
            power_down: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Waiting {
    No,
    Stalled(Time),
    Halted(Time),
}

pub(super) struct Scene {
    waiting: Waiting,
    /// Time at which what it waits for was there.
    ended: Option<Time>,
    is_gated: bool,
    awake: Option<Time>,
    is_faulty: bool,
}

impl Scene {
    pub(super) fn new(is_faulty: bool) -> Scene {
        Scene { waiting: Waiting::No, ended: None, is_gated: false, awake: None, is_faulty }
    }

    fn token(&self, now: Time, dice: &mut Dice) -> Event {
        let span = dice.time(SPAN);
        let bound = match dice.below(3) {
            0 => Bound::NotBefore(span),
            1 => Bound::Unknown,
            _ => Bound::Eta(span),
        };
        // A late token was made long ago.
        let age = if self.is_faulty { dice.time(SPAN) } else { Time::ZERO };
        let created = now.saturating_sub(age);
        Event::Token(Token { line: LineAddr(dice.below(LINES)), created, bound })
    }

    /// Ends a wait: the data or the work has come.
    fn end(&mut self, now: Time, dice: &mut Dice) -> Vec<Event> {
        let response = Event::Response { line: LineAddr(dice.below(LINES)) };
        match self.waiting {
            Waiting::No => vec![],
            Waiting::Halted(began) => {
                self.ended = Some(now);
                vec![Event::IdleEnd { began }]
            }
            // A gated core hears of the data, not of the end of its stall.
            Waiting::Stalled(_) if self.is_gated => {
                self.ended = Some(now);
                vec![response]
            }
            Waiting::Stalled(began) => {
                self.ended = Some(now);
                vec![Event::StallEnd { began }, response]
            }
        }
    }
}

impl super::Scene for Scene {
    type Policy = GatingPolicy;

    fn due(&self) -> Time {
        self.awake.unwrap_or(Time::NEVER)
    }

    fn overdue(&self, now: Time) -> Result<(), Broken> {
        match self.ended {
            Some(ended) if self.is_gated && self.awake.is_none() && now > ended + PATIENCE => {
                let found = format!("left a core gated whose wait was over at {ended}");
                Err((Law::Answers, found))
            }
            _ => Ok(()),
        }
    }

    fn events(&mut self, now: Time, dice: &mut Dice) -> Vec<Event> {
        if self.awake.is_some_and(|at| at <= now) {
            (self.awake, self.is_gated) = (None, false);
            return match (self.waiting, self.ended) {
                (Waiting::Stalled(began), Some(_)) => vec![Event::Awake, Event::StallEnd { began }],
                _ => vec![Event::Awake],
            };
        }
        if self.ended.is_some() {
            return vec![];
        }
        match self.waiting {
            Waiting::No if dice.comes(0.5) => {
                self.waiting = Waiting::Stalled(now);
                let mut events = vec![Event::StallBegin];
                events.extend((0..dice.below(4)).map(|_| self.token(now, dice)));
                if self.is_faulty && dice.comes(0.3) {
                    events.truncate(1);
                }
                events
            }
            Waiting::No => {
                self.waiting = Waiting::Halted(now);
                vec![Event::IdleBegin]
            }
            Waiting::Stalled(_) if dice.comes(0.3) => vec![self.token(now, dice)],
            _ => self.end(now, dice),
        }
    }

    fn follow(
        &mut self,
        now: Time,
        event: Option<&Event>,
        actions: &[Action],
        _dice: &mut Dice,
    ) -> Result<(), Broken> {
        let broken = |found: String| Err((Law::Possible, found));
        let can_sleep = self.waiting != Waiting::No && self.ended.is_none() && !self.is_gated;
        for &action in actions {
            match action {
                Action::Gate if !can_sleep => {
                    return broken("gated a core that does not wait, or sleeps".to_owned());
                }
                Action::Gate => self.is_gated = true,
                Action::Rest { state } => {
                    if !can_sleep || !matches!(self.waiting, Waiting::Halted(_)) {
                        return broken("had a core rest that is not halted, or sleeps".to_owned());
                    }
                    if state >= STATES {
                        return broken(format!("entered the state {state}, expected one below 4"));
                    }
                    self.is_gated = state >= DEEP;
                }
                Action::Wake if self.waiting == Waiting::No && !self.is_gated => {
                    return broken("woke a core that runs".to_owned());
                }
                Action::Wake => {
                    if self.is_gated && self.awake.is_none() {
                        self.awake = Some(now + CORE.costs.entry + CORE.costs.lead());
                    }
                }
                Action::Hindsight { gate, wake } => {
                    let (Waiting::Stalled(began) | Waiting::Halted(began)) = self.waiting else {
                        return broken("accounted a wait that was none".to_owned());
                    };
                    let fits = began <= gate && gate + CORE.costs.entry <= wake;
                    if !fits || wake + CORE.costs.lead() > now {
                        return broken(format!("accounted {gate} to {wake}, outside of the wait"));
                    }
                }
            }
        }
        // The core runs again once its wait is over and it is awake.
        let was_told =
            matches!(event, Some(Event::StallEnd { .. } | Event::IdleEnd { .. } | Event::Awake));
        let in_halt = matches!(self.waiting, Waiting::Halted(_));
        let is_end = matches!(event, Some(Event::StallEnd { .. })) || in_halt;
        if was_told && is_end && self.ended.is_some() && !self.is_gated {
            (self.waiting, self.ended) = (Waiting::No, None);
        }
        Ok(())
    }
}

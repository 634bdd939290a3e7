//! Laws of gating: a core that waits for memory or is halted, and is always as fast as it says.

use halfwink_policy::gating::{Action, Bound, Event, GatingPolicy, ReferenceCore, Token, Waiting};
use halfwink_techniques::{Choice, Gating, GatingContext, Make};
use halfwink_units::{LineAddr, Time};

use super::{no_laws, Broken, Dice, Law, Machines};
use crate::error::StudyError;

/// Most lines that are waited for.
const LINES: u64 = 8;
/// Longest time that a token names.
const SPAN: Time = Time::ns(20_000);
/// A core is woken this long after its wait ended: what tokens named is over, and forgotten.
const PATIENCE: Time = Time::ns(100_000);

/// Returns what the core hands over to its policy.
fn context() -> GatingContext {
    GatingContext {
        costs: ReferenceCore::COSTS,
        token_entries: 4,
        memory: [Time::ns(22), Time::ns(45)],
        idle_states: Some(ReferenceCore::idle_states()),
        power_down: false,
        tick: GatingContext::TICK,
        timer: GatingContext::TIMER,
    }
}

pub(super) struct Scene {
    core: ReferenceCore,
    /// Time at which what it waits for was there.
    ended: Option<Time>,
    is_faulty: bool,
}

impl Scene {
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
        match self.core.waiting {
            Waiting::No => vec![],
            Waiting::Halted(began) => {
                self.ended = Some(now);
                vec![Event::IdleEnd { began }]
            }
            // A gated core hears of the data, not of the end of its stall.
            Waiting::Stalled(_) if self.core.is_gated => {
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

    fn set(
        choice: &Choice,
        _machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Scene, GatingPolicy), StudyError> {
        let Make::Gating(Gating { offload: None, segregation: None, build, .. }) =
            choice.technique().make
        else {
            return Err(no_laws(choice));
        };
        let scene = Scene { core: ReferenceCore::new(), ended: None, is_faulty };
        Ok((scene, build(choice, &context())))
    }

    fn due(&self) -> Time {
        self.core.awake_at.unwrap_or(Time::NEVER)
    }

    fn overdue(&self, now: Time) -> Result<(), Broken> {
        match self.ended {
            Some(ended)
                if self.core.is_gated && self.core.awake_at.is_none() && now > ended + PATIENCE =>
            {
                let found = format!("left a core gated whose wait was over at {ended}");
                Err((Law::Answers, found))
            }
            _ => Ok(()),
        }
    }

    fn events(&mut self, now: Time, dice: &mut Dice) -> Vec<Event> {
        if self.core.awake_at.is_some_and(|at| at <= now) {
            (self.core.awake_at, self.core.is_gated) = (None, false);
            return match (self.core.waiting, self.ended) {
                (Waiting::Stalled(began), Some(_)) => vec![Event::Awake, Event::StallEnd { began }],
                _ => vec![Event::Awake],
            };
        }
        if self.ended.is_some() {
            return vec![];
        }
        match self.core.waiting {
            Waiting::No if dice.comes(0.5) => {
                self.core.waiting = Waiting::Stalled(now);
                let mut events = vec![Event::StallBegin];
                events.extend((0..dice.below(4)).map(|_| self.token(now, dice)));
                if self.is_faulty && dice.comes(0.3) {
                    events.truncate(1);
                }
                events
            }
            Waiting::No => {
                self.core.waiting = Waiting::Halted(now);
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
        for &action in actions {
            let runs = self.core.waiting == Waiting::No;
            let followed = match action {
                // Its wait is over, though it has not heard of it.
                Action::Gate | Action::Rest { .. } if self.ended.is_some() => {
                    Err("gated a core that does not wait".to_owned())
                }
                Action::Wake if runs && !self.core.is_gated => {
                    Err("woke a core that runs".to_owned())
                }
                _ => self.core.take(now, action),
            };
            followed.map_err(|found| (Law::Possible, found))?;
        }
        // The core runs again once its wait is over and it is awake.
        let was_told =
            matches!(event, Some(Event::StallEnd { .. } | Event::IdleEnd { .. } | Event::Awake));
        let in_halt = matches!(self.core.waiting, Waiting::Halted(_));
        let is_end = matches!(event, Some(Event::StallEnd { .. })) || in_halt;
        if was_told && is_end && self.ended.is_some() && !self.core.is_gated {
            (self.core.waiting, self.ended) = (Waiting::No, None);
        }
        Ok(())
    }
}

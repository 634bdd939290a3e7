//! Laws of segregation: a cache of sixteen ways whose counters are looked at when its policy asks.

use halfwink_policy::segregation::{Action, Event, Sample, SegregationPolicy, Span, Utility};
use halfwink_techniques::{Choice, Gating, Make};
use halfwink_units::Time;

use super::{no_laws, Broken, Dice, Law, Machines};
use crate::error::StudyError;

/// Ways of the cache.
const WAYS: u8 = 16;

pub(super) struct Scene {
    has_monitors: bool,
    has_begun: bool,
    /// The sample that the policy asked for.
    after: Option<Span>,
    is_faulty: bool,
}

impl Scene {
    /// Counters of a span, which may end late. Under faults nothing may have run in it.
    fn sample(&self, span: Span, dice: &mut Dice) -> Sample {
        let late = |count: u64, dice: &mut Dice| count.saturating_add(dice.below(1000));
        let (total, cycles) = match span {
            _ if self.is_faulty && dice.comes(0.2) => (0, 1),
            Span::Instructions(count) => (late(count, dice), dice.below(1 << 30)),
            Span::Cycles(count) => (dice.below(1 << 30), late(count, dice)),
        };
        let kernel = dice.below(total.saturating_add(1).max(1));
        let instructions = [total - kernel, kernel];
        let accesses = instructions.map(|most| dice.below(most.saturating_add(1).max(1)));
        let misses = accesses.map(|most| dice.below(most.saturating_add(1).max(1)));
        let utility = self.has_monitors.then(|| {
            let mut utility = Utility::default();
            for hits in &mut utility.hits {
                hits[..usize::from(WAYS)].fill_with(|| dice.below(1 << 20));
            }
            Box::new(utility)
        });
        Sample { instructions, accesses, misses, cycles, utility }
    }
}

impl super::Scene for Scene {
    type Policy = SegregationPolicy;

    fn set(
        choice: &Choice,
        _machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Scene, SegregationPolicy), StudyError> {
        let Make::Gating(Gating { segregation: Some(ruling), .. }) = choice.technique().make else {
            return Err(no_laws(choice));
        };
        let has_monitors = ruling.monitors;
        let scene = Scene { has_monitors, has_begun: false, after: None, is_faulty };
        Ok((scene, (ruling.build)(choice, WAYS)))
    }

    fn covers(&self, other: &Scene) -> bool {
        self.has_monitors || !other.has_monitors
    }

    fn due(&self) -> Time {
        Time::NEVER
    }

    fn events(&mut self, _now: Time, dice: &mut Dice) -> Vec<Event> {
        if !self.has_begun {
            self.has_begun = true;
            return vec![Event::Begin { ways: WAYS }];
        }
        let sample = self.after.take().map(|span| self.sample(span, dice));
        sample.map(Event::Sample).into_iter().collect()
    }

    fn follow(
        &mut self,
        _now: Time,
        _event: Option<&Event>,
        actions: &[Action],
        _dice: &mut Dice,
    ) -> Result<(), Broken> {
        for action in actions {
            action.check(WAYS).map_err(|found| (Law::Possible, found))?;
            if let Action::SampleAfter(span) = action {
                self.after = Some(*span);
            }
        }
        Ok(())
    }
}

//! Family `scaling`: how many cores of a router forward, how fast, and how they wait.

use std::collections::VecDeque;

use halfwink_policy::record::Record;
use halfwink_policy::scaling::{Action, Event, Scaling, ScalingPolicy};
use halfwink_techniques::router::Model;
use halfwink_techniques::{Choice, Make};
use halfwink_units::Time;

use super::{module_of, Playable};
use crate::about::Family;
use crate::played::{Played, Told};

pub(crate) const FAMILY: Playable = Playable {
    family: Family {
        name: "scaling",
        events: <Event as Record>::KINDS,
        actions: <Action as Record>::KINDS,
        questions: &["empty"],
    },
    needs: "a forwarder that plays modules, as halfwink live router does",
    worlds: |_| &["router"],
    make: |_| Make::Scaling(build),
};

/// A policy of a router.
struct Router {
    cores: u8,
    steps: u8,
    hears_polls: bool,
}

impl Told for Router {
    type Event = Event;
    type Action = Action;

    fn check(&self, action: &Action) -> Result<(), String> {
        action.check(self.cores, self.steps)
    }

    // The router would ask the core again at the same time, for ever.
    fn answers(&self, event: &Event, requested: &VecDeque<Action>) -> Result<(), String> {
        let &Event::Empty { core: asked } = event else { return Ok(()) };
        let is_answer = |action| matches!(action, &Action::Rest { core, .. } if core == asked);
        match requested.iter().any(is_answer) {
            true => Ok(()),
            false => Err(format!("let the core {asked} wait, expected one `rest` of it")),
        }
    }
}

impl Scaling for Played<Router> {
    fn hears_polls(&self, _core: u8) -> bool {
        self.told().hears_polls
    }
}

fn build(choice: &Choice, router: &Model) -> ScalingPolicy {
    let (spec, cores, steps) = (router.spec(), router.spec().cores.count, router.steps());
    let (sleep, us) = (&spec.sleep, |us: f64| Time::from_ns(us * 1e3).0);
    let start = [
        cores.into(),
        steps.into(),
        spec.poll.batch.into(),
        spec.nic.ring.into(),
        us(spec.poll.empty_poll_us),
        us(spec.wake.delivery_us + spec.wake.handler_us),
        us(sleep.c1_exit_us),
        us(sleep.c3_exit_us),
        us(sleep.c6_exit_us),
        us(sleep.c1_residency_us),
        us(sleep.c3_residency_us),
        us(sleep.c6_residency_us),
    ];
    let module = module_of(choice);
    let told = Router { cores, steps, hears_polls: module.about.wants(&["poll"]) };
    Box::new(Played::new(module, choice, &start, told))
}

//! Published techniques beside a policy: the share of its decisions that each of them would take.
//!
//! ```text
//!        ┌── actions ──▶ scene ── events ──┬──▶ the policy
//!        └─────────────────────────────────│──────┘
//!                                          └──▶ a published technique ── actions: the same?
//! ```
//!
//! The checked policy alone drives the scene. A technique hears the events of that script, whatever
//! it requests itself, and its own timers ring between them. Once it has decided otherwise, it
//! hears of a world that it did not make: its share of equal decisions is then a likeness, and only
//! a technique that decides the same throughout is reproduced.

use halfwink_policy::Policy;
use halfwink_techniques::{techniques, Choice, Gating, Make, Technique};
use halfwink_units::Time;
use serde::Serialize;

use super::{Machines, Scene, RINGS};

/// Seeds under which techniques are compared.
pub(super) const SEEDS: u64 = 100;

/// A published technique, and how often it decides as the checked policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Likeness {
    /// Name of the technique, which has its default parameters.
    pub technique: &'static str,
    /// The publication that it comes from; `-` if there is none.
    pub source: &'static str,
    /// Seeds under which both were compared.
    pub seeds: u64,
    /// Seeds under which both requested the same actions at the same times.
    pub equal_seeds: u64,
    /// Decisions: events and timers at which at least one of both acted. With none, neither acts.
    pub decisions: u64,
    /// Decisions at which both requested the same actions.
    pub equal_decisions: u64,
}

/// Actions between two events and at one time, without those decisions that request nothing.
type Decision<A> = ((usize, Time), Vec<A>);

/// The events that a policy heard, and what it requested.
pub(super) struct Script<P: Policy> {
    pub(super) events: Vec<(Time, P::Event)>,
    pub(super) decisions: Decisions<P::Action>,
    /// Time up to which its timers rang.
    pub(super) end: Time,
}

impl<P: Policy> Script<P> {
    pub(super) fn new() -> Script<P> {
        Script { events: Vec::new(), decisions: Decisions(Vec::new()), end: Time::ZERO }
    }
}

pub(super) struct Decisions<A>(Vec<Decision<A>>);

impl<A: Copy + PartialEq> Decisions<A> {
    /// Notes the actions at `now` after so many events.
    pub(super) fn note(&mut self, events: usize, now: Time, actions: &[A]) {
        if actions.is_empty() {
            return;
        }
        // One decision whether an event or a timer of the same moment brought it: a world sees no
        // difference.
        match self.0.last_mut() {
            Some((at, noted)) if *at == (events, now) => noted.extend(actions),
            _ => self.0.push(((events, now), actions.to_vec())),
        }
    }

    /// Returns how many decisions both have together, and how many of them are equal.
    fn beside(&self, other: &Decisions<A>) -> (u64, u64) {
        let (mut mine, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let (mut all, mut equal) = (0, 0);
        while let Some(next) = [mine.peek(), others.peek()].into_iter().flatten().map(|d| d.0).min()
        {
            let [mine, others] =
                [&mut mine, &mut others].map(|of| of.next_if(|decision| decision.0 == next));
            all += 1;
            equal += u64::from(mine == others);
        }
        (all, equal)
    }
}

/// Plays the events of a script to a policy. Returns none if its timer rings without end.
fn decide<S: Scene>(
    scene: &S,
    policy: &mut S::Policy,
    script: &Script<S::Policy>,
) -> Option<Decisions<<S::Policy as Policy>::Action>> {
    let mut decisions = Decisions(Vec::new());
    let mut take = |policy: &mut S::Policy, heard: usize, now: Time| {
        let actions: Vec<_> = std::iter::from_fn(|| policy.poll_action()).collect();
        decisions.note(heard, now, &actions);
    };
    take(policy, 0, Time::ZERO);
    let mut now = Time::ZERO;
    let events = script.events.iter().map(|(at, event)| (*at, Some(event)));
    for (heard, (at, event)) in events.chain([(script.end, None)]).enumerate() {
        let mut rings = 0;
        while let Some(due) = policy.next_timer().filter(|&due| due < at) {
            now = due.max(now);
            rings += 1;
            if rings > RINGS[1] {
                return None;
            }
            policy.on_timer(now);
            take(policy, heard, now);
        }
        now = at;
        if let Some(event) = event.filter(|event| scene.tells(event)) {
            policy.on_event(now, event);
            take(policy, heard + 1, now);
        }
    }
    Some(decisions)
}

/// Returns whether both decide in the same machine: it is no decision of theirs what is changed
/// there.
fn have_one_machine(one: &Technique, other: &Technique) -> bool {
    let change = |technique: &Technique| match technique.make {
        Make::Gating(Gating { change, plan, segregation, .. }) => {
            Some((change, plan, segregation.map(|rule| rule.replacement)))
        }
        _ => None,
    };
    let shares_world = one.worlds.iter().any(|world| other.worlds.contains(world));
    one.family == other.family && shares_world && change(one) == change(other)
}

/// A technique beside the policy.
struct Beside {
    choice: Choice,
    /// True as long as it can be made in the scene of the policy.
    is_played: bool,
    differing_seeds: u64,
    /// The last seed under which it decided otherwise.
    differed: Option<u64>,
    decisions: u64,
    equal: u64,
}

/// The published techniques of a policy's family, and how they compare with it.
pub(super) struct Published {
    techniques: Vec<Beside>,
    seeds: u64,
    last: Option<u64>,
}

impl Published {
    /// Finds the techniques that decide in the same machine as this one.
    pub(super) fn of(choice: &Choice) -> Published {
        let own = choice.technique();
        let alike = techniques().filter(|listed| have_one_machine(own, listed));
        let named = alike.filter_map(|listed| Choice::parse(listed.worlds[0], listed.name).ok());
        let techniques = named.map(|choice| Beside {
            choice,
            is_played: true,
            differing_seeds: 0,
            differed: None,
            decisions: 0,
            equal: 0,
        });
        Published { techniques: techniques.collect(), seeds: 0, last: None }
    }

    /// Plays a script to each technique that can be made in this scene, and compares the decisions.
    pub(super) fn play<S: Scene>(
        &mut self,
        scene: &S,
        machines: &Machines,
        (seed, is_faulty): (u64, bool),
        script: &Script<S::Policy>,
    ) {
        self.seeds += u64::from(self.last.replace(seed) != Some(seed));
        for technique in self.techniques.iter_mut().filter(|technique| technique.is_played) {
            let set = S::set(&technique.choice, machines, is_faulty).ok();
            let Some((own, mut policy)) = set.filter(|(own, _)| scene.covers(own)) else {
                technique.is_played = false;
                continue;
            };
            let found = decide(&own, &mut policy, script);
            let (all, equal) = match &found {
                Some(found) => script.decisions.beside(found),
                None => (script.decisions.0.len() as u64 + 1, 0),
            };
            technique.decisions += all;
            technique.equal += equal;
            if equal < all && technique.differed.replace(seed) != Some(seed) {
                technique.differing_seeds += 1;
            }
        }
    }

    /// Returns the techniques that were played, the most alike first.
    pub(super) fn likenesses(self) -> Vec<Likeness> {
        let seeds = self.seeds;
        let played = self.techniques.into_iter().filter(|t| t.is_played && seeds > 0);
        let mut found: Vec<Likeness> = played
            .map(|beside| Likeness {
                technique: beside.choice.technique().name,
                source: beside.choice.technique().source,
                seeds,
                equal_seeds: seeds - beside.differing_seeds,
                decisions: beside.decisions,
                equal_decisions: beside.equal,
            })
            .collect();
        // Cross products, as shares of whole numbers have no order of their own. Nothing decided
        // and nothing missed is a whole, if all seeds were equal.
        found.sort_by(|a, b| {
            let whole = (b.equal_seeds == seeds).cmp(&(a.equal_seeds == seeds));
            let share = (b.equal_decisions * a.decisions).cmp(&(a.equal_decisions * b.decisions));
            whole.then(share).then(a.technique.cmp(b.technique))
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions(noted: &[(usize, u64, &[u8])]) -> Decisions<u8> {
        let mut decisions = Decisions(Vec::new());
        for &(events, now, actions) in noted {
            decisions.note(events, Time(now), actions);
        }
        decisions
    }

    #[test]
    fn decisions_count_where_one_of_both_acts() {
        let mine = decisions(&[(0, 0, &[]), (1, 5, &[1]), (2, 6, &[]), (3, 9, &[2, 3])]);
        for (others, expected) in [
            (decisions(&[(1, 5, &[1]), (3, 9, &[2, 3])]), (2, 2)),
            // An event and a timer of one moment.
            (decisions(&[(1, 5, &[1]), (3, 9, &[2]), (3, 9, &[3])]), (2, 2)),
            // Another order, another time, one event later, one action more.
            (decisions(&[(1, 5, &[1]), (3, 9, &[3, 2])]), (2, 1)),
            (decisions(&[(1, 5, &[1]), (3, 8, &[2, 3])]), (3, 1)),
            (decisions(&[(2, 5, &[1]), (3, 9, &[2, 3])]), (3, 1)),
            (decisions(&[(1, 5, &[1]), (2, 6, &[7]), (3, 9, &[2, 3])]), (3, 2)),
            (decisions(&[]), (2, 0)),
        ] {
            assert_eq!(mine.beside(&others), expected);
            assert_eq!(others.beside(&mine), expected);
        }
        assert_eq!(decisions(&[]).beside(&decisions(&[(1, 1, &[])])), (0, 0));
    }
}

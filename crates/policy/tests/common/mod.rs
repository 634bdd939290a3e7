//! Machines in small, for tests of steering policies.

use halfwink_policy::steering::{Action, Event, Side, SteeringPolicy};
use halfwink_policy::{drive, Decision, Policy};
use halfwink_units::Time;
use proptest::prelude::*;

/// Tells events, a millisecond apart; what it asks for, by milliseconds.
pub fn decisions(policy: SteeringPolicy, events: &[Event]) -> String {
    let told: Vec<(u64, Event)> =
        events.iter().enumerate().map(|(n, &event)| (1_000 * (n as u64 + 1), event)).collect();
    decisions_at(policy, &told, 100_000)
}

/// Tells events at microseconds; what it asks for until then, by milliseconds.
pub fn decisions_at(mut policy: SteeringPolicy, events: &[(u64, Event)], until_us: u64) -> String {
    let mut text = String::new();
    while let Some(action) = policy.poll_action() {
        text += &format!("  0 {action:?}\n");
    }
    let told: Vec<(Time, Event)> =
        events.iter().map(|&(us, event)| (Time::ns(1_000 * us), event)).collect();
    let line = |d: Decision<Action>| format!("{:>3} {:?}\n", d.at.as_ns() / 1e6, d.action);
    text + &drive(&mut policy, &told, Time::ns(1_000 * until_us))
        .into_iter()
        .map(line)
        .collect::<String>()
}

/// What happens next in the world.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A request comes.
    Arrive,
    /// A machine that is on finishes what came to it first, or last.
    Finish {
        /// The machine.
        side: Side,
        /// Which.
        last: bool,
    },
    /// A machine that goes down or wakes is there.
    Land(Side),
    /// A machine is lost; its requests stay where they are, or are given up.
    Lose {
        /// The machine.
        side: Side,
        /// Whether they are given up.
        gives_up: bool,
    },
    /// A lost machine is back.
    Return(Side),
    /// Time passes, in microseconds.
    Pass(u32),
}

/// Steps of a pair; machines are lost now and then if so asked.
pub fn steps(losses: bool) -> impl Strategy<Value = Vec<Step>> {
    steps_of(&Side::BOTH, losses)
}

/// Steps of a set of machines; they are lost now and then if so asked.
pub fn steps_of(sides: &[Side], losses: bool) -> impl Strategy<Value = Vec<Step>> {
    let sides = sides.to_vec();
    let side = || proptest::sample::select(sides.clone());
    let weight = u32::from(losses);
    let step = prop_oneof![
        8 => Just(Step::Arrive),
        8 => (side(), any::<bool>()).prop_map(|(side, last)| Step::Finish { side, last }),
        5 => side().prop_map(Step::Land),
        5 => (0u32..3_000).prop_map(Step::Pass),
        weight => (side(), any::<bool>())
            .prop_map(|(side, gives_up)| Step::Lose { side, gives_up }),
        2 * weight => side().prop_map(Step::Return),
    ];
    proptest::collection::vec(step, 1..200)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// Wakes after that, if told to.
    GoingDown {
        wakes: bool,
    },
    Asleep,
    Waking,
}

struct World {
    policy: SteeringPolicy,
    now: Time,
    power: Vec<Power>,
    lost: Vec<bool>,
    /// When the requests of each machine came.
    requests: Vec<Vec<Time>>,
}

impl World {
    /// Tells an event and takes all answers: an arrival gets one machine, others none.
    fn tell(&mut self, event: Event) -> Result<(), TestCaseError> {
        self.policy.on_event(self.now, &event);
        let sent = self.take()?;
        prop_assert_eq!(sent, u32::from(event == Event::Arrive), "one answer to an arrival");
        Ok(())
    }

    fn take(&mut self) -> Result<u32, TestCaseError> {
        let mut sent = 0;
        while let Some(action) = self.policy.poll_action() {
            match action {
                Action::Send { side } => {
                    sent += 1;
                    let all_lost = self.lost.iter().all(|&lost| lost);
                    prop_assert!(!self.lost[side.index()] || all_lost, "{side:?} is lost");
                    self.requests[side.index()].push(self.now);
                }
                Action::Wake { side } => {
                    let power = &mut self.power[side.index()];
                    *power = match *power {
                        Power::GoingDown { wakes: false } => Power::GoingDown { wakes: true },
                        Power::Asleep => Power::Waking,
                        up => {
                            prop_assert!(self.lost[side.index()], "{side:?} is up: {up:?}");
                            up
                        }
                    };
                }
                Action::Sleep { side } => {
                    let power = self.power[side.index()];
                    let deepens = power == Power::Asleep && self.requests[side.index()].is_empty();
                    prop_assert!(power == Power::On || deepens, "sleep of {side:?}: {power:?}");
                    prop_assert!(!self.lost[side.index()], "sleep of {side:?}, which is lost");
                    self.power[side.index()] = Power::GoingDown { wakes: false };
                }
            }
        }
        Ok(sent)
    }

    /// Time passes, and timers go off when they are due.
    fn pass(&mut self, span: Time) -> Result<(), TestCaseError> {
        let until = self.now + span;
        while let Some(at) = self.policy.next_timer().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.policy.on_timer(self.now);
            prop_assert!(self.policy.next_timer().is_none_or(|next| next > self.now), "a timer");
            prop_assert_eq!(self.take()?, 0, "no request came");
        }
        self.now = until;
        Ok(())
    }

    fn finish(&mut self, side: Side, last: bool) -> Result<(), TestCaseError> {
        let requests = &mut self.requests[side.index()];
        let serves = self.power[side.index()] == Power::On && !self.lost[side.index()];
        if requests.is_empty() || !serves {
            return Ok(());
        }
        let came = if last { requests.pop().expect("one") } else { requests.remove(0) };
        self.tell(Event::Finish { side, latency: self.now - came })
    }

    fn land(&mut self, side: Side) -> Result<(), TestCaseError> {
        if self.lost[side.index()] {
            return Ok(());
        }
        let power = &mut self.power[side.index()];
        match *power {
            Power::GoingDown { wakes: true } => *power = Power::Waking,
            Power::GoingDown { wakes: false } => {
                *power = Power::Asleep;
                self.tell(Event::Asleep { side })?;
            }
            Power::Waking => {
                *power = Power::On;
                self.tell(Event::Awake { side })?;
            }
            Power::On | Power::Asleep => {}
        }
        Ok(())
    }

    fn lose(&mut self, side: Side, gives_up: bool) -> Result<(), TestCaseError> {
        if std::mem::replace(&mut self.lost[side.index()], true) {
            return Ok(());
        }
        self.tell(Event::Lost { side })?;
        if gives_up {
            for came in std::mem::take(&mut self.requests[side.index()]) {
                self.tell(Event::Finish { side, latency: self.now - came })?;
            }
        }
        Ok(())
    }

    fn restore(&mut self, side: Side) -> Result<(), TestCaseError> {
        if std::mem::replace(&mut self.lost[side.index()], false) {
            self.power[side.index()] = Power::On;
            self.tell(Event::Back { side })?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Arrive => self.tell(Event::Arrive),
            Step::Finish { side, last } => self.finish(side, last),
            Step::Land(side) => self.land(side),
            Step::Lose { side, gives_up } => self.lose(side, gives_up),
            Step::Return(side) => self.restore(side),
            Step::Pass(us) => self.pass(Time::ns(1_000 * u64::from(us))),
        }
    }
}

/// Plays steps; then all is found and lands, and every request is done in the end.
pub fn play(policy: SteeringPolicy, steps: &[Step]) -> Result<(), TestCaseError> {
    play_of(policy, &Side::BOTH, steps)
}

/// Plays the same events against a policy of a set of machines.
pub fn play_of(
    policy: SteeringPolicy,
    sides: &[Side],
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut world = World {
        policy,
        now: Time::ZERO,
        power: vec![Power::On; sides.len()],
        lost: vec![false; sides.len()],
        requests: vec![Vec::new(); sides.len()],
    };
    world.take()?;
    for &step in steps {
        world.step(step)?;
    }
    for &side in sides {
        world.restore(side)?;
    }
    // Far more than requests: each round finishes one of each machine, or lands, or waits.
    for _ in 0..4 * steps.len() + 100 {
        for &side in sides {
            world.land(side)?;
            world.finish(side, false)?;
        }
        world.pass(Time::ns(1_000_000))?;
    }
    prop_assert!(world.requests.iter().all(Vec::is_empty), "left: {:?}", world.requests);
    Ok(())
}

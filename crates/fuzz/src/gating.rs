//! Gating policies under any order of events that a world could produce: they ask only for what is
//! possible, wake every core that they gate, and decide the same when told the same again.

use arbitrary::Arbitrary;
use halfwink_policy::gating::{
    Action, AdaptiveIdle, AlwaysOn, Bound, Costs, CpuIdle, CpuIdleParameters, DeepRest, Event,
    Expectation, Fupg, FupgParameters, GatingPolicy, IdleGate, MapgCounter, MapgParameters, Oracle,
    ReferenceCore, Switching, SwitchingParameters, Tap, Token, Waiting, WakeFor,
};
use halfwink_policy::scaling::{LadderCore, MenuCore, TeoCore};
use halfwink_policy::Policy;
use halfwink_units::{LineAddr, Time};

#[derive(Arbitrary, Clone, Debug)]
enum Operation {
    Pass(u16),
    Stall,
    Answer(u8),
    Token { line: u8, kind: u8, span: u16 },
    Halt,
    Interrupt,
}

/// A core, what it was asked for, and when.
struct World {
    core: ReferenceCore,
    /// The policy may sleep through an answer until all that is outstanding has come.
    sleeps_on: bool,
    now: Time,
    log: Vec<(Time, Action)>,
}

const COSTS: Costs = ReferenceCore::COSTS;

fn idle_states() -> CpuIdleParameters {
    CpuIdleParameters {
        states: ReferenceCore::idle_states(),
        tick: Time::ns(4_000),
        latency_limit: Time::NEVER,
    }
}

/// No token promises more than 65,535 ns, and nothing is waited for longer than 20 us beyond.
const LONGEST: Time = Time::ns(65_535 + 20_000);

impl World {
    fn take(&mut self, policy: &mut GatingPolicy) {
        while let Some(action) = policy.poll_action() {
            self.log.push((self.now, action));
            self.core.take(self.now, action).expect("an action that the core can do");
        }
    }

    fn tell(&mut self, policy: &mut GatingPolicy, event: Event) {
        policy.on_event(self.now, &event);
        self.take(policy);
    }

    fn pass(&mut self, policy: &mut GatingPolicy, until: Time) {
        loop {
            let timer = policy.next_timer().unwrap_or(Time::NEVER);
            let awake = self.core.awake_at.unwrap_or(Time::NEVER);
            let next = timer.min(awake);
            if next > until {
                self.now = self.now.max(until);
                return;
            }
            self.now = self.now.max(next);
            if awake <= timer {
                self.core.awake_at = None;
                self.core.is_gated = false;
                self.tell(policy, Event::Awake);
            } else {
                policy.on_timer(self.now);
                self.take(policy);
            }
        }
    }

    /// Ends the wait; a gated core must wake for it.
    fn end(&mut self, policy: &mut GatingPolicy, line: Option<LineAddr>) {
        let waiting = self.core.waiting;
        match waiting {
            Waiting::Halted(began) => self.tell(policy, Event::IdleEnd { began }),
            _ => {
                if let (true, Some(line)) = (self.core.is_gated, line) {
                    self.tell(policy, Event::Response { line });
                }
            }
        }
        if self.sleeps_on && self.core.is_gated && self.core.awake_at.is_none() {
            // Not for ever, though no other answer comes: until all has come that it was told of.
            let alarm = policy.next_timer().expect("it wakes by itself");
            assert!(alarm <= self.now + LONGEST, "it sleeps on until {alarm}");
            self.pass(policy, alarm);
        }
        if self.core.is_gated {
            let woken = self.core.awake_at.expect("a gated core is woken for what it waits for");
            self.pass(policy, woken);
            assert!(!self.core.is_gated, "gated again at once");
        }
        if let Waiting::Stalled(began) = waiting {
            self.tell(policy, Event::StallEnd { began });
            if let Some(line) = line {
                self.core.waiting = Waiting::No;
                self.tell(policy, Event::Response { line });
            }
        }
        self.core.waiting = Waiting::No;
    }
}

fn play(
    mut policy: GatingPolicy,
    sleeps_on: bool,
    operations: &[Operation],
) -> Vec<(Time, Action)> {
    let mut world = World {
        sleeps_on,
        now: Time(1),
        core: ReferenceCore::new(),
        log: Vec::new(),
    };
    for operation in operations.iter().take(400) {
        let policy = &mut policy;
        match *operation {
            Operation::Pass(ns) => {
                let until = world.now + Time::ns(u64::from(ns));
                world.pass(policy, until);
            }
            Operation::Stall if world.core.waiting == Waiting::No => {
                world.core.waiting = Waiting::Stalled(world.now);
                world.tell(policy, Event::StallBegin);
            }
            Operation::Answer(line) if matches!(world.core.waiting, Waiting::Stalled(_)) => {
                world.end(policy, Some(LineAddr(u64::from(line % 8))));
            }
            Operation::Token { line, kind, span } => {
                let span = Time::ns(u64::from(span));
                let bound = match kind % 3 {
                    0 => Bound::NotBefore(span),
                    1 => Bound::Unknown,
                    _ => Bound::Eta(span),
                };
                let line = LineAddr(u64::from(line % 8));
                let token = Token { line, created: world.now, bound };
                world.tell(policy, Event::Token(token));
            }
            Operation::Halt if world.core.waiting == Waiting::No => {
                world.core.waiting = Waiting::Halted(world.now);
                world.tell(policy, Event::IdleBegin);
            }
            Operation::Interrupt if matches!(world.core.waiting, Waiting::Halted(_)) => {
                world.end(policy, None);
            }
            _ => {}
        }
    }
    world.log
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some(operations) = crate::any::<Vec<Operation>>(bytes) else { return };
    let mapg = MapgParameters {
        t_llc: Time::ns(22),
        t_mem: Time::ns(45),
        expectation: Expectation::Memory,
    };
    let fupg = FupgParameters { idle: Time::ns(5), window: Time::ns(1_000), budget: Time::ns(20) };
    let switching = SwitchingParameters { window: Time::ns(500), round: 4 };
    let build: [&dyn Fn() -> GatingPolicy; 12] = [
        &|| Box::new(AlwaysOn),
        &|| Box::new(IdleGate::new()),
        &|| Box::new(AdaptiveIdle::new(COSTS)),
        &|| Box::new(MapgCounter::new(COSTS, mapg)),
        &|| Box::new(Tap::new(COSTS, 4)),
        &|| Box::new(Oracle::new(COSTS)),
        &|| Box::new(DeepRest::new(3)),
        &|| Box::new(CpuIdle::<MenuCore>::new(idle_states())),
        &|| Box::new(CpuIdle::<TeoCore>::new(idle_states())),
        &|| Box::new(CpuIdle::<LadderCore>::new(idle_states())),
        &|| Box::new(Fupg::new(fupg)),
        &|| {
            let (tap, mapg) = (Tap::new(COSTS, 4), MapgCounter::new(COSTS, mapg));
            Box::new(Switching::new(COSTS, switching, tap, mapg))
        },
    ];
    for make in build {
        assert_eq!(play(make(), false, &operations), play(make(), false, &operations));
    }
    let last = || Box::new(Tap::new(COSTS, 4).waking_for(WakeFor::LastResponse));
    assert_eq!(play(last(), true, &operations), play(last(), true, &operations));
}

//! Gating policies under any order of events that a world could produce: they ask only for what is
//! possible, wake every core that they gate, and decide the same when told the same again.

use arbitrary::Arbitrary;
use halfwink_policy::gating::{
    Action, AdaptiveIdle, AlwaysOn, Bound, Costs, CpuIdle, CpuIdleParameters, DeepRest, Event,
    Expectation, Fupg, FupgParameters, GatingPolicy, IdleGate, MapgCounter, MapgParameters, Oracle,
    Slots, Switching, SwitchingParameters, Tap, Token, WakeFor,
};
use halfwink_policy::scaling::{Depth, IdleState, IdleStates, LadderCore, MenuCore, TeoCore};
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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Waiting {
    No,
    Stalled(Time),
    Halted(Time),
}

/// A core that is always as fast as it says.
struct World {
    /// The policy may sleep through an answer until all that is outstanding has come.
    sleeps_on: bool,
    now: Time,
    waiting: Waiting,
    gated: bool,
    waking: Option<Time>,
    log: Vec<(Time, Action)>,
}

const COSTS: Costs = Costs {
    entry: Time(909),
    break_even: Time(17_170),
    wake_up: Time(10_200),
    restore: Time(3_030),
    slots: Slots::ANY,
};

/// Idle states of the table, and the first that is left by waking.
const STATES: usize = 4;
const DEEP: usize = 2;

fn idle_states() -> CpuIdleParameters {
    let state = |exit, residency| IdleState {
        depth: if exit > 1 { Depth::C6 } else { Depth::C1 },
        exit: Time::ns(exit),
        residency: Time::ns(residency),
        polls: residency == 0,
    };
    let states = [state(0, 0), state(1, 1), state(2, 4), state(290, 800)];
    CpuIdleParameters {
        states: IdleStates::new(&states),
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
            match action {
                Action::Gate => {
                    assert!(self.waiting != Waiting::No && !self.gated, "gates a busy core");
                    self.gated = true;
                }
                Action::Rest { state } => {
                    let halted = matches!(self.waiting, Waiting::Halted(_));
                    assert!(halted && !self.gated, "rests while it is not halted");
                    assert!(usize::from(state) < STATES, "no such state");
                    self.gated = usize::from(state) >= DEEP;
                }
                Action::Wake => {
                    if self.gated && self.waking.is_none() {
                        self.waking = Some(self.now + COSTS.entry + COSTS.lead());
                    }
                }
                Action::Hindsight { gate, wake } => {
                    let (Waiting::Stalled(began) | Waiting::Halted(began)) = self.waiting else {
                        panic!("hindsight without a wait");
                    };
                    assert!(began <= gate && gate + COSTS.entry <= wake);
                    assert!(wake + COSTS.lead() <= self.now);
                }
            }
        }
    }

    fn tell(&mut self, policy: &mut GatingPolicy, event: Event) {
        policy.on_event(self.now, &event);
        self.take(policy);
    }

    fn pass(&mut self, policy: &mut GatingPolicy, until: Time) {
        loop {
            let timer = policy.next_timer().unwrap_or(Time::NEVER);
            let awake = self.waking.unwrap_or(Time::NEVER);
            let next = timer.min(awake);
            if next > until {
                self.now = self.now.max(until);
                return;
            }
            self.now = self.now.max(next);
            if awake <= timer {
                self.waking = None;
                self.gated = false;
                self.tell(policy, Event::Awake);
            } else {
                policy.on_timer(self.now);
                self.take(policy);
            }
        }
    }

    /// Ends the wait; a gated core must wake for it.
    fn end(&mut self, policy: &mut GatingPolicy, line: Option<LineAddr>) {
        let waiting = self.waiting;
        match waiting {
            Waiting::Halted(began) => self.tell(policy, Event::IdleEnd { began }),
            _ => {
                if let (true, Some(line)) = (self.gated, line) {
                    self.tell(policy, Event::Response { line });
                }
            }
        }
        if self.sleeps_on && self.gated && self.waking.is_none() {
            // Not for ever, though no other answer comes: until all has come that it was told of.
            let alarm = policy.next_timer().expect("it wakes by itself");
            assert!(alarm <= self.now + LONGEST, "it sleeps on until {alarm}");
            self.pass(policy, alarm);
        }
        if self.gated {
            let woken = self.waking.expect("a gated core is woken for what it waits for");
            self.pass(policy, woken);
            assert!(!self.gated, "gated again at once");
        }
        if let Waiting::Stalled(began) = waiting {
            self.tell(policy, Event::StallEnd { began });
            if let Some(line) = line {
                self.waiting = Waiting::No;
                self.tell(policy, Event::Response { line });
            }
        }
        self.waiting = Waiting::No;
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
        waiting: Waiting::No,
        gated: false,
        waking: None,
        log: Vec::new(),
    };
    for operation in operations.iter().take(400) {
        let policy = &mut policy;
        match *operation {
            Operation::Pass(ns) => {
                let until = world.now + Time::ns(u64::from(ns));
                world.pass(policy, until);
            }
            Operation::Stall if world.waiting == Waiting::No => {
                world.waiting = Waiting::Stalled(world.now);
                world.tell(policy, Event::StallBegin);
            }
            Operation::Answer(line) if matches!(world.waiting, Waiting::Stalled(_)) => {
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
            Operation::Halt if world.waiting == Waiting::No => {
                world.waiting = Waiting::Halted(world.now);
                world.tell(policy, Event::IdleBegin);
            }
            Operation::Interrupt if matches!(world.waiting, Waiting::Halted(_)) => {
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
        &|| Box::new(Fupg::new(COSTS, fupg)),
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

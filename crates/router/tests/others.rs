//! Policies of others, and what cores can be asked to do beside halting: closed forms, books,
//! conservation.

use crate::common;

use common::{at, model, napi, polling, random, run};
use halfwink_policy::scaling::{
    Action, Depth, Event, Grout, GroutParameters, GroutRss, GroutRssParameters, IdleParameters,
    IdleState, IdleStates, L3fwdPause, L3fwdPower, L3fwdPowerParameters, Menu, Metronome,
    MetronomeParameters, Napi, Nmap, NmapParameters, Rest, Scaling, ScalingPolicy, Suricata, Teo,
};
use halfwink_policy::{Policy, Snapshot};
use halfwink_router::{Options, Profile, Traffic};
use halfwink_units::Time;

/// Always rests like this, but says so only when it is asked.
struct Resting {
    rest: Rest,
    apart: bool,
    pending: Option<Action>,
}

fn resting(rest: Rest, apart: bool) -> ScalingPolicy {
    Box::new(Resting { rest, apart, pending: None })
}

impl Policy for Resting {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        if let Event::Empty { core } = *event {
            self.pending = Some(Action::Rest { core, rest: self.rest });
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        Vec::new()
    }
}

impl Scaling for Resting {
    fn is_apart(&self) -> bool {
        self.apart
    }
}

fn grout(longest_us: u32) -> GroutParameters {
    GroutParameters { cores: 12, longest_us, depth: Depth::C1 }
}

fn idle() -> IdleParameters {
    let state = |depth, exit, residency| IdleState {
        depth,
        exit: Time::ns(exit),
        residency: Time::ns(residency),
        polls: false,
    };
    IdleParameters {
        cores: 12,
        states: IdleStates::new(&[
            state(Depth::C1, 900, 1_800),
            state(Depth::C3, 60_000, 240_000),
            state(Depth::C6, 87_000, 348_000),
        ]),
        tick: Time::ns(4_000_000),
        timer: IdleParameters::NO_TIMER,
        wake: Time::ns(4_100),
    }
}

fn others() -> [(&'static str, ScalingPolicy); 9] {
    let ms = |ms: u64| Time::ns(1_000_000 * ms);
    let l3fwd =
        L3fwdPowerParameters { cores: 12, steps: 14, burst: 8, period: ms(1), depth: Depth::C1 };
    let nmap = NmapParameters {
        cores: 12,
        steps: 14,
        network: 64,
        percent: 100,
        period: ms(1),
        depth: Depth::C1,
    };
    let rss = GroutRssParameters { workers: grout(73), burst: 8, period: ms(2), park_after: ms(1) };
    let metronome =
        MetronomeParameters { cores: 12, threads: 3, vacation: Time::ns(10_000), depth: Depth::C1 };
    [
        ("l3fwd-power", Box::new(L3fwdPower::new(l3fwd))),
        ("l3fwd-power-pause", Box::new(L3fwdPause::new(12))),
        ("metronome", Box::new(Metronome::new(metronome))),
        ("grout", Box::new(Grout::new(grout(73)))),
        ("grout-rss", Box::new(GroutRss::new(rss))),
        ("suricata", Box::new(Suricata::new(12, Depth::C1))),
        ("nmap-dvfs", Box::new(Nmap::new(nmap))),
        ("napi-menu", Box::new(Menu::new(idle()))),
        ("napi-teo", Box::new(Teo::new(idle()))),
    ]
}

#[test]
fn packets_and_joules_are_conserved_and_each_saves_something() {
    let model = model();
    let loads = [0.02, 0.3, 0.7, 0.3, 0.02];
    let profile = Profile::smooth(loads.to_vec(), Time::ns(2_000_000));
    let traffic = Traffic { profile, ..random(&model, 28.0, 1) };
    let options = Options::all_cores(&model, 5);
    let most = run(&model, &traffic, polling(), options).power_w();
    for (name, policy) in others() {
        let run = run(&model, &traffic, policy, options);
        assert!(run.power_w() < most + 0.05, "{name}: {} W", run.power_w());
        assert!(run.lost < run.received / 100, "{name}: {} lost", run.lost);
        let mean = run.latency.mean_us().unwrap();
        assert!((7.0..120.0).contains(&mean), "{name}: {mean} us");
    }
}

#[test]
fn a_core_that_never_sleeps_is_one_that_polls() {
    let model = model();
    let traffic = random(&model, 6.0, 5);
    let expected = run(&model, &traffic, polling(), at(&model, 12, 13));
    for polls in [1, 7, 1_000_000] {
        for apart in [false, true] {
            let never = resting(Rest::Again { polls }, apart);
            let run = run(&model, &traffic, never, at(&model, 12, 13));
            assert_eq!(run.energy_j().to_bits(), expected.energy_j().to_bits(), "{polls}");
            assert_eq!(run.latency.mean_us(), expected.latency.mean_us());
        }
    }
}

#[test]
fn cores_played_apart_give_the_same_bits_as_all_in_the_order_of_time() {
    let model = model();
    let traffic = random(&model, 9.0, 5);
    let rests = [
        Rest::Nap(Depth::C1),
        Rest::Nap(Depth::C6),
        Rest::Pause { span: Time::ns(1_000) },
        Rest::HaltFor { span: Time::ns(20_000), depth: Depth::C3 },
        Rest::Sleep { span: Time::ns(5_000), depth: Depth::C1 },
    ];
    for rest in rests {
        let go = |policy| {
            let options = Options { overall_order: true, ..at(&model, 12, 13) };
            let run = run(&model, &traffic, policy, options);
            let latency = (run.latency.mean_us(), run.latency.max_us(), run.reordered_overall);
            (run.energy_j().to_bits(), run.passes, run.interrupts, run.lost, latency)
        };
        assert_eq!(go(resting(rest, false)), go(resting(rest, true)), "{rest:?}");
        if rest == Rest::Nap(Depth::C1) {
            assert_eq!(go(resting(rest, false)), go(napi()));
            assert_eq!(go(Box::new(Napi::new(Depth::C1))), go(napi()));
        }
    }
}

/// Hides that its cores have nothing to do with each other.
struct InOrder(ScalingPolicy);

impl Policy for InOrder {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        self.0.on_event(now, event);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.0.poll_action()
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }
}

impl Scaling for InOrder {
    fn hears_polls(&self, core: u8) -> bool {
        self.0.hears_polls(core)
    }
}

#[test]
fn policies_that_say_so_are_apart() {
    let model = model();
    let loads = [0.02, 0.5, 0.02];
    let profile = Profile::smooth(loads.to_vec(), Time::ns(2_000_000));
    let traffic = Traffic { profile, ..random(&model, 28.0, 1) };
    let go = |policy| {
        let run = run(&model, &traffic, policy, at(&model, 12, 13));
        let latency = (run.latency.mean_us(), run.latency.max_us());
        (run.energy_j().to_bits(), run.passes, run.interrupts, run.lost, latency)
    };
    let mut count = 0;
    for ((name, one), (_, other)) in others().into_iter().zip(others()) {
        if one.is_apart() {
            count += 1;
            assert_eq!(go(one), go(Box::new(InOrder(other))), "{name}");
        }
    }
    assert_eq!(count, 6);
}

#[test]
fn a_fixed_sleep_costs_half_of_its_cycle_and_its_timer() {
    let model = model();
    let spec = model.spec();
    let span = 50.0;
    // Deaf for all of the cycle: asleep, on its way out, in the kernel.
    let cycle = span + spec.sleep.c1_exit_us + spec.wake.timer_us;
    let sleep = Rest::Sleep { span: Time::ns(50_000), depth: Depth::C1 };
    let run = run(&model, &random(&model, 0.05, 400), resting(sleep, true), at(&model, 12, 13));
    let mean = run.latency.mean_us().unwrap();
    assert!((mean / (7.0 + cycle / 2.0) - 1.0).abs() < 0.01, "{mean} us");
    let duty = spec.wake.timer_us / cycle;
    let core = duty * model.busy_w(13) + (1.0 - duty) * spec.power.c1_w;
    let expected = model.total_w(12.0 * core, model.activity(0.05, 64));
    assert!((run.power_w() / expected - 1.0).abs() < 0.002, "{} {expected}", run.power_w());
}

#[test]
fn pause_delays_packets_and_stays_in_c0() {
    let model = model();
    let pause = Rest::Pause { span: Time::ns(20_000) };
    let run = run(&model, &random(&model, 0.05, 200), resting(pause, true), at(&model, 12, 13));
    let mean = run.latency.mean_us().unwrap();
    assert!((mean / 17.0 - 1.0).abs() < 0.02, "{mean} us");
    assert!((run.residency("c0") - 1.0).abs() < 1e-9);
}

#[test]
fn a_bounded_halt_rings_when_nothing_comes() {
    let model = model();
    let halt = Rest::HaltFor { span: Time::ns(100_000), depth: Depth::C1 };
    let run = run(&model, &random(&model, 1e-9, 100), resting(halt, true), at(&model, 12, 13));
    let wake = 0.9 + 1.17 + 2.93;
    let expected = 12.0 * 100e3 / (100.0 + wake);
    assert!((run.interrupts as f64 / expected - 1.0).abs() < 0.01, "{}", run.interrupts);
}

/// Core 0 wishes for one P-state, the others for another; core 0 for the slowest after a while.
struct Wishes(Vec<Action>, Time);

impl Policy for Wishes {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        if let Event::Empty { core } = *event {
            self.0.push(Action::Rest { core, rest: Rest::Halt(Depth::C1) });
        }
    }

    fn on_timer(&mut self, _now: Time) {
        self.1 = Time::NEVER;
        self.0.push(Action::Wish { core: 0, step: 0 });
    }

    fn next_timer(&self) -> Option<Time> {
        Some(self.1).filter(|&at| at < Time::NEVER)
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.0.pop()
    }

    fn snapshot(&self) -> Snapshot {
        Vec::new()
    }
}

impl Scaling for Wishes {}

#[test]
fn the_rail_follows_the_most_demanding_core() {
    let model = model();
    let wish = |core| Action::Wish { core, step: if core == 0 { 9 } else { 4 } };
    let policy = Wishes((0..12).map(wish).collect(), Time::ns(2_500_000));
    let run = run(&model, &random(&model, 3.0, 5), Box::new(policy), at(&model, 12, 13));
    let ghz: Vec<f64> = run.slots.iter().map(|slot| slot.ghz).collect();
    assert_eq!(ghz, [9, 9, 4, 4, 4].map(|step| model.ghz(step)));
}

#[test]
fn metronome_visits_a_queue_once_in_a_vacation() {
    let model = model();
    let [_, _, (_, metronome), ..] = others();
    let run = run(&model, &random(&model, 1e-9, 100), metronome, at(&model, 12, 13));
    // Three threads in 30 us and what waking takes: one every 11 us, less those that meet.
    let apart_us = 12.0 * 100e3 / run.passes as f64;
    assert!((10.9..13.5).contains(&apart_us), "{apart_us}");
}

#[test]
fn grout_rss_feeds_more_queues_when_one_is_full_and_fewer_when_all_are_calm() {
    let model = model();
    let loads = [0.02, 0.02, 0.9, 0.9, 0.001, 0.001, 0.001, 0.001];
    let profile = Profile::smooth(loads.to_vec(), Time::ns(10_000_000));
    let traffic = Traffic { profile, ..random(&model, 28.0, 1) };
    let [_, _, _, _, (_, rss), ..] = others();
    let run = run(&model, &traffic, rss, Options::all_cores(&model, 1));
    let cores: Vec<f64> = run.slots.iter().map(|slot| slot.cores).collect();
    assert!(cores[0] < 1.5 && cores[3] > 10.0 && cores[7] < 4.0, "{cores:?}");
}

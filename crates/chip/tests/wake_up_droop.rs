//! The central wake-up controller against the power-delivery network: whatever cores do, and
//! whenever they wake in the modes that they were granted, no rail droops beyond its limit.

use halfwink_policy::wake_up::{Action, Central, Event, Mode, Neighbourhood};
use halfwink_policy::Policy;
use halfwink_power::pdn::{transient, Case, Cores, Network, NetworkSpec};
use halfwink_units::Time;
use proptest::prelude::*;

const STEP_NS: f64 = 0.05;
const SPAN_NS: f64 = 120.0;
const CORES: usize = 6;

/// Droop of each rail over time, per unit of the limit, when one core wakes in one mode.
struct Plant {
    modes: Vec<Mode>,
    /// By waking core, mode, rail, sample.
    traces: Vec<Vec<Vec<Vec<f64>>>>,
}

impl Plant {
    /// Two rows of three EV6 cores.
    fn new() -> Plant {
        let text = include_str!("../../../machines/pdn/ev6.toml");
        let spec: NetworkSpec = toml::from_str(text).unwrap();
        let network = Network::new(spec).unwrap().with_grid(2, 3).unwrap();
        let limit_v = network.spec().limits.active_droop * network.spec().core.supply_v;
        // A direct neighbour on an inner place bears this; weights are relative to it.
        let latencies = [40.0, 30.0, 24.0, 20.0, 17.0, 14.0, 11.0, 9.0];
        let modes = latencies.map(|ns: f64| Mode {
            latency: Time::from_ns(ns),
            noise: ((7.0 / ns).powi(2) * 1e6).ceil() as u64,
        });
        let trace = |core: usize, wake_ns: f64| {
            let active = Cores::of((0..CORES).filter(|&c| c != core));
            let case = Case { active, starts: vec![(core, 0.0)], wake_ns };
            let played = transient(&network, &case, STEP_NS, SPAN_NS);
            let relative = |rail: Vec<f64>| rail.into_iter().map(|v| v / limit_v).collect();
            played.droop_v.into_iter().map(relative).collect()
        };
        let traces =
            (0..CORES).map(|core| latencies.iter().map(|&ns| trace(core, ns)).collect()).collect();
        Plant { modes: modes.to_vec(), traces }
    }

    /// Weights under which no mode disturbs more than the controller believes.
    fn neighbourhood(&self) -> Neighbourhood {
        let weight = |rail: usize, core: usize| {
            if rail == core {
                return 0;
            }
            let each = self.modes.iter().zip(&self.traces[core]).map(|(mode, rails)| {
                let peak = rails[rail].iter().copied().fold(0.0, f64::max);
                (peak * 1e12 / mode.noise as f64).ceil() as u64
            });
            each.max().unwrap()
        };
        let weights = (0..CORES).flat_map(|a| (0..CORES).map(move |c| (a, c)));
        Neighbourhood {
            cores: CORES,
            weights: weights.map(|(a, c)| weight(a, c)).collect(),
            places: vec![0; CORES],
        }
    }
}

/// One thing that a core does.
#[derive(Clone, Debug)]
struct Step {
    core: usize,
    /// Since the step before, in samples.
    after: usize,
    /// Asks to be told a mode, or wakes as it is.
    asks: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    (0..CORES, 0usize..200, prop::bool::weighted(0.7)).prop_map(|(core, after, asks)| Step {
        core,
        after,
        asks,
    })
}

/// Plays a schedule; the greatest droop of a core that does not wake itself, relative to the limit.
fn greatest_droop(plant: &Plant, steps: &[Step]) -> (f64, usize) {
    let mut central = Central::new(plant.neighbourhood(), plant.modes.clone()).unwrap();
    let samples = (SPAN_NS / STEP_NS) as usize;
    let end = steps.iter().map(|s| s.after).sum::<usize>() + 2 * samples;
    let mut droops = vec![vec![0.0; end + samples]; CORES];
    let mut busy_until = [0; CORES];
    let mut own: Vec<Vec<(usize, usize)>> = vec![Vec::new(); CORES];
    let (mut now, mut fast) = (0, 0);
    let mut awake: Vec<(usize, usize)> = Vec::new();
    for step in steps {
        now += step.after;
        // Those that have become active give their grants back.
        awake.sort_unstable();
        while awake.first().is_some_and(|&(at, _)| at <= now) {
            let (_, core) = awake.remove(0);
            central.on_event(Time::ZERO, &Event::Awake(core));
        }
        if busy_until[step.core] > now {
            continue;
        }
        let mut mode = 0;
        if step.asks {
            central.on_event(Time::ZERO, &Event::Gated(step.core));
            let Some(Action::Grant { wake_up, .. }) = central.poll_action() else {
                panic!("a request is answered");
            };
            mode = plant.modes.iter().position(|m| m.latency == wake_up).unwrap();
            fast += usize::from(mode > 0);
        }
        let charged = now + (plant.modes[mode].latency.as_ns() / STEP_NS).ceil() as usize;
        for (rail, droop) in droops.iter_mut().enumerate() {
            for (n, v) in plant.traces[step.core][mode][rail].iter().enumerate() {
                if let Some(slot) = droop.get_mut(now + n) {
                    *slot += v;
                }
            }
        }
        own[step.core].push((now, charged + samples));
        // The network has settled before the core may be gated again.
        busy_until[step.core] = charged + samples / 2;
        awake.push((charged + samples / 2, step.core));
    }
    let mut greatest = 0.0f64;
    for (rail, droop) in droops.iter().enumerate() {
        for (n, &v) in droop.iter().enumerate() {
            if !own[rail].iter().any(|&(from, to)| (from..to).contains(&n)) {
                greatest = greatest.max(v);
            }
        }
    }
    (greatest, fast)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_schedule_droops_beyond_the_limit(steps in prop::collection::vec(any_step(), 1..60)) {
        use std::sync::OnceLock;
        static PLANT: OnceLock<Plant> = OnceLock::new();
        let plant = PLANT.get_or_init(Plant::new);
        let (droop, _) = greatest_droop(plant, &steps);
        prop_assert!(droop <= 1.0, "{droop} of the limit");
    }
}

/// The bound is not empty: alone a core is granted a fast mode, and comes near the limit.
#[test]
fn a_lone_core_wakes_fast_and_near_the_limit() {
    let plant = Plant::new();
    let steps = [Step { core: 0, after: 1, asks: true }];
    let (droop, fast) = greatest_droop(&plant, &steps);
    assert_eq!(fast, 1);
    assert!((0.25..=1.0).contains(&droop), "{droop}");
}

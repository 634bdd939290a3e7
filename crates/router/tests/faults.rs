//! Interrupts that are lost, cores that wake late or do not answer, against closed forms. What
//! holds whatever goes wrong, each run looks at itself: every packet is forwarded, lost or waits,
//! order is kept where it is promised, nothing rests with packets for ever.

use crate::common;

use std::collections::VecDeque;

use common::{at, model, napi, polling, random};
use halfwink_policy::scaling::{
    Action, Depth, Event, L3fwdPower, L3fwdPowerParameters, Rest, Scaling, ScalingPolicy,
};
use halfwink_policy::{Policy, Snapshot};
use halfwink_router::{simulate, Broken, Run, RunError, Traffic};
use halfwink_techniques::router::{Faults, Model};
use halfwink_units::Time;

fn with(faults: Faults) -> Model {
    let mut spec = model().spec().clone();
    spec.faults = faults;
    Model::new(spec).unwrap()
}

fn try_play(
    faults: Faults,
    mpps: f64,
    ms: u64,
    policy: ScalingPolicy,
    cores: u8,
) -> Result<Run, RunError> {
    let model = with(faults);
    let app = model.app("ipv4").unwrap();
    simulate(&model, app, &random(&model, mpps, ms), policy, at(&model, cores, 13))
}

fn play(faults: Faults, mpps: f64, ms: u64, policy: ScalingPolicy, cores: u8) -> Run {
    try_play(faults, mpps, ms, policy, cores).unwrap()
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found}, expected {expected}");
}

#[test]
fn a_lost_interrupt_costs_half_a_watchdog_in_the_mean() {
    // Few enough packets that next to each one interrupts, and none finds another one waiting.
    let faults = Faults { interrupt_lost: 0.02, watchdog_ms: 0.2, ..Faults::default() };
    let (sound, run) =
        (play(Faults::default(), 0.02, 2_000, napi(), 12), play(faults, 0.02, 2_000, napi(), 12));
    near(run.faults.interrupts_lost as f64 / run.received as f64, 0.02, 0.1);
    let more_us = run.latency.mean_us().unwrap() - sound.latency.mean_us().unwrap();
    // Those that come to the same core until then wait with it, for half as long as it in the mean.
    let each = 100.0 * (1.0 + 0.02 / 12.0 * 100.0 / 2.0);
    near(more_us, 0.02 * each, 0.1);
    assert_eq!((run.lost, run.faults.late, run.faults.silent), (0, 0, 0));
}

#[test]
fn a_late_wake_up_takes_so_much_longer() {
    let faults = Faults { wake_late: 0.5, late_us: 20.0, ..Faults::default() };
    let (sound, run) =
        (play(Faults::default(), 0.01, 2_000, napi(), 12), play(faults, 0.01, 2_000, napi(), 12));
    near(run.faults.late as f64 / run.interrupts as f64, 0.5, 0.02);
    near(run.latency.mean_us().unwrap() - sound.latency.mean_us().unwrap(), 10.0, 0.05);
}

#[test]
fn packets_of_a_silent_core_wait_for_the_rest_of_its_silence() {
    let faults = Faults { silent_every_s: 0.004, silent_ms: 1.0, ..Faults::default() };
    // A ring of 1024 holds what comes in five times the mean silence.
    let run = play(faults, 0.2, 5_000, polling(), 1);
    let sound = play(Faults::default(), 0.2, 100, polling(), 1);
    // A fifth of the packets finds it silent, and waits 1 ms in the mean.
    let more_us = run.latency.mean_us().unwrap() - sound.latency.mean_us().unwrap();
    near(more_us, 0.2 * 1000.0, 0.08);
    near(run.faults.silent as f64, 5.0 / 0.005, 0.08);
    assert_eq!(run.reordered, 0);
}

#[test]
fn a_ring_that_is_full_while_its_core_is_silent_loses_packets() {
    let faults = Faults { silent_every_s: 0.05, silent_ms: 10.0, ..Faults::default() };
    let run = play(faults, 1.0, 2_000, polling(), 1);
    assert!(run.lost > run.received / 20, "{} of {}", run.lost, run.received);
    assert_eq!(run.received, run.forwarded + run.lost + run.queued);
}

#[test]
fn polling_core_waits_less_for_lost_interrupts() {
    let faults = Faults { interrupt_lost: 0.01, ..Faults::default() };
    let mean = |policy| play(faults, 0.05, 2_500, policy, 12).latency.mean_us().unwrap();
    // It looks every 10 ms; the driver's watchdog every 2 s.
    let timed = L3fwdPower::new(L3fwdPowerParameters {
        cores: 12,
        steps: 14,
        burst: 8,
        period: Time::ns(100_000_000),
        depth: Depth::C1,
    });
    let (deaf, looks) = (mean(napi()), mean(Box::new(timed)));
    assert!(looks < deaf, "{looks} {deaf}");
}

#[test]
fn faults_that_do_not_come_change_nothing() {
    let faults = Faults { silent_every_s: 1e9, ..Faults::default() };
    let bits = |faults| {
        let run = play(faults, 2.0, 50, napi(), 12);
        (run.energy_j().to_bits(), run.latency.mean_us().unwrap().to_bits(), run.passes)
    };
    assert_eq!(bits(faults), bits(Faults::default()));
    let seeds = |seed| {
        let model = with(Faults { wake_late: 0.1, late_us: 5.0, ..Faults::default() });
        let options = halfwink_router::Options { seed, ..at(&model, 12, 13) };
        let traffic = random(&model, 2.0, 20);
        let run = simulate(&model, model.app("ipv4").unwrap(), &traffic, napi(), options).unwrap();
        (run.energy_j().to_bits(), run.faults)
    };
    assert_eq!(seeds(3), seeds(3));
    assert_ne!(seeds(3).1, seeds(4).1);
}

/// Moves an entry to and fro, and says that order is kept.
struct Shuffle {
    actions: VecDeque<Action>,
    polls: u32,
    in_order: bool,
}

impl Policy for Shuffle {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _: Time, event: &Event) {
        match *event {
            Event::Poll { .. } => {
                self.polls += 1;
                if self.polls.is_multiple_of(2) {
                    let (entry, to) = ((self.polls % 128) as u8, (self.polls / 128 % 2) as u8);
                    self.actions.push_back(Action::Move { entry, to, in_order: self.in_order });
                }
            }
            Event::Empty { core } => {
                self.actions.push_back(Action::Rest { core, rest: Rest::Halt(Depth::C1) });
            }
        }
    }

    fn on_timer(&mut self, _: Time) {}

    fn next_timer(&self) -> Option<Time> {
        None
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new()
    }
}

impl Scaling for Shuffle {
    fn hears_polls(&self, _: u8) -> bool {
        true
    }
}

#[test]
fn moves_in_order_keep_it_whatever_is_silent() {
    let faults = Faults { silent_every_s: 0.002, silent_ms: 0.05, ..Faults::default() };
    let shuffle = |in_order| {
        let policy = Shuffle { actions: VecDeque::new(), polls: 0, in_order };
        let model = with(faults);
        // As many flows as entries, so that packets of a flow follow each other closely.
        let traffic = Traffic { flow_count: 128, ..random(&model, 2.0, 50) };
        let app = model.app("ipv4").unwrap();
        simulate(&model, app, &traffic, Box::new(policy), at(&model, 2, 13)).unwrap()
    };
    let (kept, not) = (shuffle(true), shuffle(false));
    assert_eq!(kept.reordered, 0);
    assert!(not.reordered > 0 && kept.faults.silent > 20, "{} {:?}", not.reordered, kept.faults);
}

#[test]
fn what_holds_is_said_with_its_seed() {
    let broken = RunError::Broken { seed: 7, broken: Broken::Stranded(3, 9) };
    let said = "seed 7: core 3 rests for ever with 9 packets in its queue";
    assert_eq!(broken.to_string(), said);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |faults: Faults| {
        let mut spec = model().spec().clone();
        spec.faults = faults;
        Model::new(spec).unwrap_err().to_string()
    };
    let none = Faults::default();
    assert_eq!(
        refused(Faults { interrupt_lost: 1.5, ..none }),
        "faults.interrupt_lost: 1.5, expected 0 to 1"
    );
    assert!(refused(Faults { watchdog_ms: 0.0, ..none }).starts_with("faults.watchdog_ms: 0,"));
    assert!(refused(Faults { wake_late: f64::NAN, ..none }).contains("faults.wake_late"));
    assert!(refused(Faults { silent_ms: 0.0, ..none }).starts_with("faults.silent_ms: 0,"));
}

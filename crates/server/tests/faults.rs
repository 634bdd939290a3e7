//! Machines that are lost, late or gone, against closed forms. What holds whatever goes wrong, each
//! run looks at itself: every request is answered once, none is sent to a lost machine while the
//! other one is there, nothing sleeps with work for ever.

use crate::common;

use std::collections::VecDeque;

use halfwink_engine::Law;
use halfwink_policy::steering::{
    Action, Always, AlwaysOn, Event, Side, SleepTimer, SleepTimerParameters, Steering,
    SteeringPolicy,
};
use halfwink_policy::{Policy, Snapshot};
use halfwink_server::{
    simulate, simulate_fleet, Arrivals, Dispatch, Misled, Options, Run, RunError,
};
use halfwink_techniques::server::{Faults, Model, Service, Times, Workload};
use halfwink_units::Time;

/// Machines of one worker that wake in 4 ms, and go down in 2.
fn model(faults: Faults) -> Model {
    let mut spec = common::niccolini();
    for machine in [&mut spec.small, &mut spec.big] {
        (machine.workers, machine.down_ms, machine.wake_ms) = (1, 2.0, 4.0);
    }
    spec.faults = faults;
    Model::new(spec).unwrap()
}

/// 1 ms on both, exponential.
fn service(model: &Model) -> Service {
    let times = Times::Linear { alpha_ms: 0.0, beta_ms: vec![1.0] };
    let size = Law::Exponential { mean: 1.0 };
    model.check(&Workload { size, gamma: 1.0, small: times.clone(), big: times }).unwrap()
}

fn try_play(
    faults: Faults,
    rate: f64,
    policy: SteeringPolicy,
    requests: u64,
) -> Result<Run, RunError> {
    let model = model(faults);
    let arrivals = Arrivals::Poisson { rate };
    simulate(&model, &service(&model), &arrivals, policy, Options::requests(requests, 5))
}

fn play(faults: Faults, rate: f64, policy: SteeringPolicy, requests: u64) -> Run {
    try_play(faults, rate, policy, requests).unwrap()
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found}, expected {expected}");
}

#[test]
fn machines_are_lost_for_the_share_of_time_that_a_renewal_process_says() {
    let faults = Faults { crash_every_s: 3.0, repair_s: 1.0, ..Faults::default() };
    let run = play(faults, 100.0, Box::new(AlwaysOn::new(1)), 2_000_000);
    let seconds = run.duration.as_s();
    for (machine, losses) in run.machines.iter().zip(&run.tally.losses) {
        near(machine.state_s[4] / seconds, 0.25, 0.03);
        near(*losses as f64 / seconds, 0.25, 0.03);
    }
    // Arrivals see time averages: refused are those who find both lost.
    near(run.tally.refused as f64 / run.tally.arrived as f64, 0.25 * 0.25, 0.05);
    assert!(run.tally.resteered.iter().all(|&n| n > 0), "{:?}", run.tally.resteered);
    let answered = run.finished() + run.tally.refused;
    assert!(run.tally.arrived.abs_diff(answered) < 10, "{answered} of {}", run.tally.arrived);
}

#[test]
fn a_share_of_wake_ups_is_lost_and_the_other_machine_serves_meanwhile() {
    let faults =
        Faults { wake_lost: 0.1, wake_timeout_ms: 50.0, repair_s: 0.2, ..Faults::default() };
    let policy = SleepTimer::new(SleepTimerParameters::fixed(Time::ZERO));
    let run = play(faults, 20.0, Box::new(policy), 400_000);
    let [small, big] = &run.machines[..] else { panic!("a pair") };
    let tried = (big.wakes + run.tally.losses[1]) as f64;
    near(run.tally.losses[1] as f64 / tried, 0.1, 0.03);
    // Each loss: 50 ms in vain, then 200 ms.
    near(big.state_s[4] / run.tally.losses[1] as f64, 0.2, 0.03);
    near(big.state_s[3], 4e-3 * big.wakes as f64 + 50e-3 * run.tally.losses[1] as f64, 0.01);
    // The big machine's turn at a request that it did not wake for was the first one's, at least.
    assert!(run.tally.resteered[1] >= run.tally.losses[1]);
    assert!(small.served_s > 0.0 && run.tally.longest_wait[0] > Time::ns(50_000_000));
    // Both may be lost: the small one sleeps and has to be woken, too.
    assert!(run.tally.refused < run.tally.arrived / 20);
}

#[test]
fn a_late_wake_up_within_patience_is_a_longer_one() {
    let late = Faults { wake_late: 1.0, late_ms: 1.0, ..Faults::default() };
    let nap = || Box::new(SleepTimer::new(SleepTimerParameters::fixed(Time::ZERO)));
    let (late, sound) =
        (play(late, 20.0, nap(), 400_000), play(Faults::default(), 20.0, nap(), 400_000));
    assert_eq!(late.tally.losses, [0, 0]);
    let per_wake = |run: &Run| run.machines[1].state_s[3] / run.machines[1].wakes as f64;
    near(per_wake(&sound), 4e-3, 1e-3);
    near(per_wake(&late), 5e-3, 0.01);
}

#[test]
fn a_machine_that_is_gone_for_good_leaves_all_to_the_other_one() {
    let faults = Faults { crash_every_s: 1.0, gone: 1.0, repair_s: 1.0, ..Faults::default() };
    let run = play(faults, 100.0, Box::new(Always::new(Side::Big)), 100_000);
    assert_eq!(run.tally.losses[1], u64::from(run.machines[1].state_s[0] > 0.0));
    // Both, soon: then all are refused, at once.
    assert!(run.tally.refused > 99 * run.tally.arrived / 100, "{}", run.tally.refused);
    near(run.machines[0].state_s[4] + run.machines[0].state_s[2], run.duration.as_s(), 0.01);
}

#[test]
fn faults_that_do_not_come_change_nothing() {
    let nap = || Box::new(SleepTimer::new(SleepTimerParameters::fixed(Time::ZERO)));
    // The first crash comes later than the last request.
    let faults = Faults { crash_every_s: 1e9, repair_s: 1.0, ..Faults::default() };
    let (with, without) =
        (play(faults, 50.0, nap(), 20_000), play(Faults::default(), 50.0, nap(), 20_000));
    assert_eq!(with.energy_j().to_bits(), without.energy_j().to_bits());
    assert_eq!(with.tally.latency.mean(), without.tally.latency.mean());
}

#[test]
fn fleet_servers_fail_apart_and_repeat_exactly() {
    let model = model(Faults { crash_every_s: 2.0, repair_s: 0.5, ..Faults::default() });
    let arrivals = Arrivals::Poisson { rate: 800.0 };
    let policy = |_| -> SteeringPolicy { Box::new(AlwaysOn::new(1)) };
    let play = || {
        let fleet = (8, Dispatch::Random);
        let options = Options::requests(1_000_000, 5);
        simulate_fleet(&model, &service(&model), &arrivals, &policy, fleet, options).unwrap()
    };
    let run = play();
    near(run.machines[1].state_s[4] / run.duration.as_s() / 8.0, 0.2, 0.05);
    assert_eq!(run.energy_j, play().energy_j);
}

/// Sends all to one machine, whatever happens to that; wakes none.
struct Stubborn(VecDeque<Action>);

impl Policy for Stubborn {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _: Time, event: &Event) {
        if *event == Event::Arrive {
            self.0.push_back(Action::Send { side: Side::Big });
        }
    }

    fn on_timer(&mut self, _: Time) {}

    fn next_timer(&self) -> Option<Time> {
        None
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.0.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new()
    }
}

impl Steering for Stubborn {}

#[test]
fn policy_that_ignores_losses_is_reported() {
    let faults = Faults { crash_every_s: 0.5, repair_s: 1.0, ..Faults::default() };
    let found = try_play(faults, 100.0, Box::new(Stubborn(VecDeque::new())), 10_000);
    assert!(matches!(found, Err(RunError::Misled(Misled::ToLost(_, Side::Big)))), "{found:?}");
    // One that puts its machine to sleep at the start, and never wakes it.
    let asleep = VecDeque::from([Action::Sleep { side: Side::Big }]);
    let faults = Faults { crash_every_s: 1e9, ..faults };
    let found = try_play(faults, 100.0, Box::new(Stubborn(asleep)), 10_000);
    assert!(
        matches!(found, Err(RunError::Misled(Misled::Stranded(_, Side::Big, 10_000)))),
        "{found:?}"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |faults: Faults| {
        let mut spec = common::niccolini();
        spec.faults = faults;
        Model::new(spec).unwrap_err().to_string()
    };
    let none = Faults::default();
    assert_eq!(
        refused(Faults { wake_lost: 1.5, ..none }),
        "faults.wake_lost: 1.5, expected 0 to 1"
    );
    assert_eq!(
        refused(Faults { wake_timeout_ms: 1.0, ..none }),
        "faults.wake_timeout_ms: 1, expected 5 to 10000000"
    );
    assert!(refused(Faults { repair_s: 0.0, ..none }).starts_with("faults.repair_s: 0,"));
    assert!(refused(Faults { crash_every_s: f64::NAN, ..none }).contains("faults.crash_every_s"));
}

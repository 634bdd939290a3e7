//! Snapshots of what each scaling policy decides in short scenarios. A changed decision shows up
//! here as a changed line.

use halfwink_policy::scaling::{
    Action, Depth, Event, Napi, Polling, PowerSave, PowerSaveParameters, Rung, ScalingPolicy,
};
use halfwink_policy::{drive, replay, Decision, Host, Input, Lines, Policy};
use halfwink_units::Time;

/// Core 0 looks at its queue, a microsecond apart.
fn looks(waiting: &[u32]) -> Vec<(Time, Event)> {
    let look = |(n, &waiting): (usize, &u32)| {
        (Time::ns(1_000 * (n as u64 + 1)), Event::Poll { core: 0, taken: waiting.min(8), waiting })
    };
    waiting.iter().enumerate().map(look).collect()
}

fn decisions(mut policy: ScalingPolicy, events: &[(Time, Event)]) -> String {
    while policy.poll_action().is_some() {}
    let line = |d: Decision<Action>| format!("{:>6.1} {:?}\n", d.at.as_ns() / 1e3, d.action);
    drive(&mut policy, events, Time::ns(1_000_000)).into_iter().map(line).collect()
}

fn quick(cores: u8, steps: u8) -> PowerSaveParameters {
    PowerSaveParameters { c_up: 1, c_down: 2, ..PowerSaveParameters::published(cores, steps) }
}

/// Moves are many: only how many, and where to.
fn moves(text: &str) -> String {
    let mut out = String::new();
    let mut count = 0;
    for line in text.lines() {
        if line.contains("Move") {
            count += 1;
            continue;
        }
        if count > 0 {
            out += &format!("       {count} entries moved\n");
            count = 0;
        }
        out += line;
        out.push('\n');
    }
    if count > 0 {
        out += &format!("       {count} entries moved\n");
    }
    out
}

#[test]
fn power_save_climbs_cores_first_and_clears_streaks_between_the_thresholds() {
    let policy = PowerSave::new(quick(2, 3));
    let up = [33, 33, 33, 20, 33, 33, 33, 33, 40, 40];
    let down = [3, 3, 3, 3, 3, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3];
    let text = decisions(Box::new(policy), &looks(&[&up[..], &down[..]].concat()));
    insta::assert_snapshot!(moves(&text), @r"
     2.0 Wake { core: 1 }
         64 entries moved
     6.0 SetStep { step: 1 }
     8.0 SetStep { step: 2 }
    13.0 SetStep { step: 1 }
    19.0 SetStep { step: 0 }
         64 entries moved
    22.0 Park { core: 1 }
    ");
}

#[test]
fn power_save_starts_on_the_lowest_rung() {
    let mut policy = PowerSave::new(PowerSaveParameters::published(3, 14));
    let mut text = String::new();
    while let Some(action) = policy.poll_action() {
        text += &format!("   0.0 {action:?}\n");
    }
    insta::assert_snapshot!(moves(&text), @r"
    0.0 SetStep { step: 0 }
    0.0 Park { core: 1 }
    0.0 Park { core: 2 }
        128 entries moved
    ");
}

#[test]
fn power_save_walks_down_in_silence_only_if_told_to() {
    let parameters = PowerSaveParameters { silence: Some(Time::ns(100_000)), ..quick(3, 1) };
    let events = looks(&[33, 33, 33, 33]);
    let text = decisions(Box::new(PowerSave::new(parameters)), &events);
    insta::assert_snapshot!(moves(&text), @r"
      2.0 Wake { core: 1 }
          64 entries moved
      4.0 Wake { core: 2 }
          84 entries moved
    104.0 Park { core: 2 }
          64 entries moved
    204.0 Park { core: 1 }
    ");
    let text = decisions(Box::new(PowerSave::new(quick(3, 1))), &events);
    assert!(!text.contains("Park"), "{text}");
}

#[test]
fn empty_poll_makes_each_policy_rest_as_published() {
    let empty = [(Time::ns(1_000), Event::Empty { core: 1 })];
    let all: [ScalingPolicy; 4] = [
        Box::new(Polling::new()),
        Box::new(Napi::new(Depth::C1)),
        Box::new(Napi::new(Depth::C6)),
        Box::new(PowerSave::new(quick(2, 2))),
    ];
    let text: String = all.into_iter().map(|policy| decisions(policy, &empty)).collect();
    insta::assert_snapshot!(text, @r"
    1.0 Rest { core: 1, rest: Spin }
    1.0 Rest { core: 1, rest: Nap(C1) }
    1.0 Rest { core: 1, rest: Nap(C6) }
    1.0 Rest { core: 1, rest: Halt(C6) }
    ");
}

#[test]
fn a_replayed_log_gives_the_same_actions() {
    let parameters = quick(12, 14);
    let noise = |n: u32| n.wrapping_mul(2_654_435_761) >> 26;
    let waiting: Vec<u32> = (0..4_000).map(noise).collect();
    let mut logged = Host::logged(PowerSave::new(parameters), Lines::unbounded());
    let decisions = drive(&mut logged, &looks(&waiting), Time::NEVER);
    let log: Vec<_> = (1..).zip(logged.log_mut().take()).collect();
    assert_eq!(log[0].1.input, Input::Start);
    let summary = replay(PowerSave::new(parameters), log).unwrap();
    assert_eq!((summary.lines, summary.events, summary.timers), (4_001, 4_000, 0));
    assert_eq!(summary.actions, decisions.len() as u64);
    assert!(decisions.len() > 200, "{}", decisions.len());
}

#[test]
fn the_ladder_has_25_rungs() {
    let ladder: Vec<Rung> = (0..).map_while(|n| Rung::nth(n, 12, 14)).collect();
    assert_eq!(ladder.len(), 25);
    assert_eq!(ladder[11], Rung { cores: 12, step: 0 });
    assert_eq!(ladder[24], Rung { cores: 12, step: 13 });
}

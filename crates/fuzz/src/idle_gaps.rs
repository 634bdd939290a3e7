//! Arbitrary text as a recording of idle times: gaps follow one another on each CPU, and each is
//! judged once by a governor that is played in them, or was over before its CPU slept.

use halfwink_node::gaps::{best, play, read, together};
use halfwink_techniques::node::machine::{Machine, Spec};
use halfwink_techniques::node::{NodePart, Plan};
use halfwink_techniques::{Choice, Make};
use halfwink_units::Time;

const SERVER: &str = include_str!("../../../machines/node/golden-cove-56.toml");

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let recording = match read(bytes) {
        Ok(recording) => recording,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return;
        }
    };
    for cpu in &recording.cpus {
        assert!(cpu.gaps.iter().all(|gap| gap.begin < gap.end && gap.end <= recording.length));
        assert!(cpu.gaps.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{cpu:?}");
    }
    let all = together(&recording.cpus, Time::ZERO);
    assert!(all.time <= recording.length && all.longest <= all.time && all.asleep == all.time);
    let spec: Spec = toml::from_str(SERVER).expect("a shipped server");
    let machine = Machine::new(spec).expect("a shipped server");
    assert_eq!(best(&machine, &recording).count, [recording.gaps(), 0, 0]);
    for technique in ["menu", "teo", "haltpoll", "c6a"] {
        let choice = Choice::parse("node", technique).expect("a technique");
        let Make::Node(NodePart { idle: Some(make), .. }) = choice.technique().make else {
            panic!("{technique} is no idle policy");
        };
        let idler = |_| make(&choice, &machine);
        let plan = Plan::default();
        let found = play(&machine, &recording, &[0, 1], &plan, &idler).expect("a policy");
        assert_eq!(found.count.iter().sum::<u64>() + found.swallowed, recording.gaps());
        assert!(found.latency.count() == recording.gaps(), "{technique}");
    }
}

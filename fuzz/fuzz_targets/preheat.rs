//! Preheaters under any order of what can happen to a machine: they ask only for what is possible,
//! end what they begin, and decide the same when told the same again.
#![no_main]

#[path = "../../crates/policy/tests/common/preheat_world.rs"]
mod world;

use arbitrary::Arbitrary;
use halfwink_policy::preheat::{
    Begin, Late, NextLine, NoPreheat, Ports, PreheatPolicy, Preheater, PreheaterParameters,
    Replayer, ReplayerParameters, Sets, ShamRequest, Stash, Stride, StrideParameters, Trigger,
    WakeOnly,
};
use halfwink_units::Time;
use libfuzzer_sys::fuzz_target;
use world::{play, Step};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Happens {
    Announce { service: u8, lead: u16 },
    Arrive(u8),
    Idle,
    Lose,
    Dump(u8),
    Build(u8),
    Finish,
    Close(u8),
    Miss { line: u64, site: u8 },
    Receive(u16),
    Pass(u16),
}

/// Few ports, so that they meet.
fn port(byte: u8) -> u16 {
    1 + u16::from(byte % 5)
}

fn step(happens: Happens) -> Step {
    match happens {
        Happens::Announce { service, lead } => Step::Announce { service: port(service), lead },
        Happens::Arrive(byte) => Step::Arrive(port(byte)),
        Happens::Idle => Step::Idle,
        Happens::Lose => Step::Lose,
        Happens::Dump(lines) => Step::Dump(u32::from(lines)),
        Happens::Build(lines) => Step::Build(u32::from(lines)),
        Happens::Finish => Step::Finish,
        Happens::Close(byte) => Step::Close(port(byte)),
        Happens::Miss { line, site } => Step::Miss { line, site: u64::from(site % 8) },
        Happens::Receive(lines) => Step::Receive(lines),
        Happens::Pass(us) => Step::Pass(us),
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Knobs {
    training: u8,
    services: u8,
    late: u8,
    sets: u8,
    is: [bool; 5],
    refresh_us: Option<u16>,
    refresh_requests: Option<u8>,
}

impl Knobs {
    fn late(self) -> Late {
        [Late::Wait, Late::Skip, Late::Concurrent][usize::from(self.late % 3)]
    }

    fn parameters(self) -> PreheaterParameters {
        let just = Begin::JustInTime { wake: Time::ns(35_000), margin: Time::ns(5_000) };
        PreheaterParameters {
            training: u32::from(self.training % 4),
            filter: self.is[0],
            sets: [Sets::Apart, Sets::Intersection, Sets::Union][usize::from(self.sets % 3)],
            late: self.late(),
            ports: if self.is[1] { Ports::Learned } else { Ports::Announced },
            isolated: self.is[2],
            only_cold: self.is[3],
            begin: if self.is[4] { just } else { Begin::AtOnce },
            refresh: self.refresh_us.map(|us| Time::ns(1_000 * u64::from(us))),
            refresh_requests: self.refresh_requests.map(u32::from),
            services: usize::from(self.services % 8),
            ..PreheaterParameters::published()
        }
    }

    fn replayer(self) -> ReplayerParameters {
        let trigger = if self.is[0] { Trigger::Arrived } else { Trigger::Announced };
        ReplayerParameters {
            trigger,
            late: self.late(),
            again: u32::from(self.training % 4),
            services: usize::from(self.services % 8),
            ..ReplayerParameters::jukebox()
        }
    }
}

fuzz_target!(|input: (Knobs, Vec<Happens>)| {
    let (knobs, happens) = input;
    let steps: Vec<Step> = happens.into_iter().take(400).map(step).collect();
    let lead = knobs.refresh_us.map(|us| Time::ns(1_000 * u64::from(us)));
    let (degree, distance) = (u16::from(knobs.training), u16::from(knobs.sets));
    let stride = StrideParameters { entries: u16::from(knobs.services), degree, distance };
    let build: [&dyn Fn() -> PreheatPolicy; 8] = [
        &|| Box::new(Preheater::new(knobs.parameters())),
        &|| Box::new(NoPreheat),
        &|| Box::new(WakeOnly::new(lead)),
        &|| Box::new(ShamRequest::new(lead, knobs.late())),
        &|| Box::new(NextLine::new(degree, distance)),
        &|| Box::new(Stride::new(stride)),
        &|| Box::new(Stash::new(degree)),
        &|| Box::new(Replayer::new(knobs.replayer())),
    ];
    for build in build {
        assert_eq!(play(build(), steps.clone()), play(build(), steps.clone()));
    }
});

//! Preheaters under any order of what can happen to a machine: they ask only for what is possible,
//! end what they begin, and decide the same when told the same again.

#[path = "../../policy/tests/common/preheat_world.rs"]
mod world;

use arbitrary::Arbitrary;
use halfwink_policy::preheat::{
    Begin, Late, NextLine, NoPreheat, Ports, PreheatPolicy, Preheater, PreheaterParameters,
    Replayer, ReplayerParameters, Sets, ShamRequest, Stash, Stride, StrideParameters, Trigger,
    WakeOnly,
};
use halfwink_units::Time;
use world::{play, Step};

/// A byte is a step: a sequence that leads somewhere is short, and easily changed.
fn step(byte: u8) -> Step {
    let (what, which) = (byte % 16, u16::from(byte / 16));
    // Few ports, so that they meet.
    let port = 1 + which % 4;
    match what {
        0..=2 => {
            Step::Announce { service: port, lead: [0, 40, 200, 20_000][usize::from(which / 4)] }
        }
        3..=4 => Step::Arrive(port),
        5..=6 => Step::Idle,
        7 => Step::Lose,
        8 => Step::Dump(if which == 0 { 0 } else { 100 }),
        9 => Step::Build(if which == 0 { 0 } else { 90 }),
        10 => Step::Finish,
        11 => Step::Close(port),
        12 => Step::Miss { line: u64::from(which * which), site: u64::from(which % 3) },
        13 => Step::Receive(which),
        14 => Step::Pass(10 * which),
        _ => Step::Pass(2_000 * which),
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Knobs {
    /// Which policy; the preheater has most to decide.
    policy: u8,
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

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some(input) = crate::any::<(Knobs, &[u8])>(bytes) else { return };
    let (knobs, bytes) = input;
    let steps = || bytes.iter().take(400).copied().map(step);
    let lead = knobs.refresh_us.map(|us| Time::ns(1_000 * u64::from(us)));
    let (degree, distance) = (u16::from(knobs.training), u16::from(knobs.sets));
    let stride = StrideParameters { entries: u16::from(knobs.services), degree, distance };
    let build = || -> PreheatPolicy {
        match knobs.policy {
            0..=1 => Box::new(NoPreheat),
            2..=5 => Box::new(WakeOnly::new(lead)),
            6..=20 => Box::new(ShamRequest::new(lead, knobs.late())),
            21..=25 => Box::new(NextLine::new(degree, distance)),
            26..=35 => Box::new(Stride::new(stride)),
            36..=40 => Box::new(Stash::new(degree)),
            41..=80 => Box::new(Replayer::new(knobs.replayer())),
            _ => Box::new(Preheater::new(knobs.parameters())),
        }
    };
    assert_eq!(play(build(), steps()), play(build(), steps()));
}

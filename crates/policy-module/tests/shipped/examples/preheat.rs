//! The shipped preheat policies as a module, with their usual parameters.

use halfwink_policy::preheat::{
    Late, NextLine, NoPreheat, PreheatPolicy, Preheater, PreheaterParameters, Recorded, Replayer,
    ReplayerParameters, ShamRequest, Stash, Stride, StrideParameters, WakeOnly,
};
use halfwink_policy::record::Fields;

shipped::exports!("preheat", 8, PreheatPolicy, policy_of);

fn policy_of(number: u32, _start: &Fields) -> PreheatPolicy {
    match number {
        0 => Box::new(NoPreheat),
        1 => Box::new(WakeOnly::new(None)),
        2 => Box::new(Preheater::new(PreheaterParameters {
            only_cold: true,
            ..PreheaterParameters::published()
        })),
        3 => Box::new(ShamRequest::new(None, Late::Wait)),
        4 => Box::new(NextLine::new(1, 1)),
        5 => Box::new(Stride::new(StrideParameters { entries: 256, degree: 1, distance: 1 })),
        6 => Box::new(Replayer::new(ReplayerParameters {
            what: Recorded::Misses,
            ..ReplayerParameters::jukebox()
        })),
        7 => Box::new(Replayer::new(ReplayerParameters::reap())),
        _ => Box::new(Stash::new(64)),
    }
}

//! What one thread can measure by itself.

use halfwink_policy::offload::{Delegation, DelegationKind, DelegationParameters, Event};
use halfwink_policy::Host;
use halfwink_units::Time;

use super::{Bench, Rounds};
use crate::chooser;
use crate::log::Log;
use halfwink_live::sys;

/// Decisions in one repetition: so many AStates, as a server with a few files and buffers has.
const DECISIONS: u64 = 64;

pub(super) fn counter(bench: &Bench) -> Result<Rounds, String> {
    Ok(bench.repeat(|| ()))
}

pub(super) fn system_call(bench: &Bench) -> Result<Rounds, String> {
    Ok(bench.repeat(|| {
        std::hint::black_box(sys::getppid());
    }))
}

/// Tells a policy of calls; with their ends, so that it learns, or without.
fn policy(bench: &Bench, ends: bool) -> Rounds {
    let kind = DelegationKind::Predicted;
    let parameters = DelegationParameters { kind, n_ns: None, least_bytes: 4096 };
    // As in a thread of a program whose log nobody wants.
    let mut host = Host::logged(Delegation::new(&parameters), None::<Log>);
    let args: Vec<[u64; 6]> =
        (0..DECISIONS).map(|n| [3 + n % 8, 0x7f00_0000_1000 + n * 4096, n, 0, 0, 0]).collect();
    let mut now = Time::ZERO;
    let mut once = |ends: bool| {
        for args in &args {
            now = now.saturating_add(Time::ns(1_000));
            let entry = chooser::enter((args[0] % 4) as u32, *args, None);
            std::hint::black_box(host.decide(now, std::hint::black_box(&entry)));
            if ends {
                host.decide(now, &Event::Exit { instructions: 500 + args[2] });
            }
        }
    };
    // It knows them all.
    (0..4).for_each(|_| once(true));
    bench.repeat(|| once(ends)).divided(DECISIONS)
}

pub(super) fn decision(bench: &Bench) -> Result<Rounds, String> {
    Ok(policy(bench, false))
}

pub(super) fn learning(bench: &Bench) -> Result<Rounds, String> {
    Ok(policy(bench, true))
}

//! What the policy of a thread is told of its calls: the very objects that decide in the simulator.

use halfwink_policy::offload::{Cause, Event, KernelEntry, Registers};

/// Substitute for PSTATE: user privilege, interrupts on. It never changes here, since every call
/// comes from user code (Nellans 2014, Sec 4.6.2 hashes it to tell such states apart).
const PSEUDO_PSTATE: u64 = 0x203;

/// Returns the event of a call that begins.
#[inline(always)]
#[must_use]
pub fn enter(number: u32, args: [u64; 6], bytes_in_memory: Option<u64>) -> Event {
    Event::Enter(KernelEntry {
        cause: Cause::SystemCall { number },
        args,
        bytes_in_memory,
        registers: Registers::x86_64(PSEUDO_PSTATE, u64::from(number), args[0], args[1]),
    })
}

#[cfg(test)]
mod tests {
    use halfwink_policy::offload::{Delegation, DelegationKind, DelegationParameters, Place};
    use halfwink_policy::Host;
    use halfwink_units::Time;

    use super::*;

    fn places(kind: DelegationKind, n_ns: Option<u64>, lengths: &[u64]) -> Vec<Place> {
        let parameters = DelegationParameters { kind, n_ns, least_bytes: 4096 };
        let mut host = Host::new(Delegation::new(&parameters));
        let mut decide = |(i, &ns): (usize, &u64)| {
            let now = Time::ns(i as u64 * 10_000);
            let action = host.decide(now, &enter(0, [3, 0x1000, ns, 0, 0, 0], None));
            host.decide(now, &Event::Exit { instructions: ns });
            action.map_or(Place::Here, |action| action.place)
        };
        lengths.iter().enumerate().map(&mut decide).collect()
    }

    #[test]
    fn chooser_places_calls_by_its_kind() {
        use DelegationKind::{Always, EnoughWork, Never, Predicted};
        use Place::{Here, OsCore};
        assert_eq!(places(Never, None, &[9_000, 9_000]), [Here, Here]);
        assert_eq!(places(Always, None, &[1, 1]), [OsCore, OsCore]);
        assert_eq!(places(EnoughWork, None, &[4095, 4096]), [Here, OsCore]);
        // The first of a kind is expected to be nothing; then the table knows.
        let predicted = places(Predicted, Some(1_000), &[5_000, 5_000, 500, 500, 500]);
        assert_eq!(predicted, [Here, OsCore, OsCore, Here, Here]);
    }
}

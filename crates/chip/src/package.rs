//! When a whole package sleeps: while no core has anything to do.

use halfwink_units::Time;

use crate::core::Core;
use crate::machine::Machine;

/// Spans without work, of one core: in order, and apart from each other.
pub(crate) type Halts = Vec<(Time, Time)>;

/// Returns the time for which the package of a machine with these first cores slept before `now`.
///
/// A core is halted from the operating system's halt to the interrupt that ends it, whatever its
/// own sleep costs it beside that, before it begins, and once its work is done. Cores without work
/// do not count.
pub(crate) fn asleep(machine: &Machine, cores: &[Core], now: Time) -> Time {
    let sleeping = machine.package.as_ref().filter(|package| package.sleeps);
    let Some(sleep) = sleeping.and_then(|package| package.sleep) else { return Time::ZERO };
    let halts: Vec<Halts> = cores.iter().map(|core| core.halts(now)).collect();
    let common = halts
        .iter()
        .skip(1)
        .fold(halts.first().cloned().unwrap_or_default(), |a, b| intersection(&a, b));
    let long = common.into_iter().map(|(from, to)| (to - from).saturating_sub(sleep.enter()));
    long.fold(Time::ZERO, |sum, span| sum + span)
}

/// Returns the intersection of two lists of intervals.
fn intersection(a: &[(Time, Time)], b: &[(Time, Time)]) -> Halts {
    let (mut both, mut i, mut j) = (Halts::new(), 0, 0);
    while i < a.len() && j < b.len() {
        let (from, to) = (a[i].0.max(b[j].0), a[i].1.min(b[j].1));
        if from < to {
            both.push((from, to));
        }
        if a[i].1 <= b[j].1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans(lengths: &[(u64, u64)]) -> Halts {
        let mut at = 0;
        let next = |&(gap, span): &(u64, u64)| {
            let from = at + gap;
            at = from + span;
            (Time(from), Time(at))
        };
        lengths.iter().map(next).collect()
    }

    #[test]
    fn spans_that_touch_overlap_and_hold_each_other() {
        let of = |pairs: &[(u64, u64)]| -> Halts {
            pairs.iter().map(|&(from, to)| (Time(from), Time(to))).collect()
        };
        let (a, b) = (of(&[(0, 10), (20, 30), (40, 90)]), of(&[(10, 20), (25, 60), (70, 80)]));
        assert_eq!(intersection(&a, &b), of(&[(25, 30), (40, 60), (70, 80)]));
        assert_eq!(intersection(&a, &[]), of(&[]));
    }

    proptest! {
        #[test]
        fn it_is_what_a_picosecond_by_picosecond_count_says(
            a in prop::collection::vec((1u64..5, 1u64..9), 0..12),
            b in prop::collection::vec((1u64..5, 1u64..9), 0..12),
        ) {
            let (a, b) = (spans(&a), spans(&b));
            let inside = |spans: &Halts, t| spans.iter().any(|s| s.0 <= Time(t) && Time(t) < s.1);
            let counted = (0..200).filter(|&t| inside(&a, t) && inside(&b, t)).count() as u64;
            let both = intersection(&a, &b);
            let total: u64 = both.iter().map(|(from, to)| (*to - *from).0).sum();
            prop_assert_eq!(total, counted);
            prop_assert!(both.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }
}

//! Time in which all CPUs are idle.

use halfwink_units::Time;

use super::Cpu;

/// Spans in which all CPUs are idle at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// Number of such spans.
    pub spans: u64,
    /// Time of all spans together.
    pub time: Time,
    /// Length of the longest span.
    pub longest: Time,
    /// Time of spans after they have lasted as long as it takes to fall asleep.
    pub asleep: Time,
    /// Spans that are longer than that.
    pub sleeps: u64,
}

/// A time from the first to the second.
pub(super) type Span = (Time, Time);

/// The spans in which all CPUs are in a gap; `enter` is the time that falling asleep takes.
#[must_use]
pub fn together(cpus: &[Cpu], enter: Time) -> Together {
    let parts = cpus.iter().map(|cpu| &cpu.gaps[..]).collect();
    of_parts(parts, |gap| (gap.begin, gap.end), enter)
}

/// Counts spans in which all parts are in a span of their own. Those of a part are in order and do
/// not overlap.
pub(super) fn of_parts<T>(
    mut parts: Vec<&[T]>,
    span: impl Fn(&T) -> Span,
    enter: Time,
) -> Together {
    // An intersection only shrinks, so that the shortest list comes first.
    parts.sort_by_key(|part| part.len());
    let Some((first, others)) = parts.split_first() else { return Together::default() };
    let mut common: Vec<Span> = first.iter().map(&span).filter(|(from, to)| from < to).collect();
    for part in others {
        common = both(&common, part, &span);
    }
    let mut found = Together::default();
    for (from, to) in common {
        let length = to - from;
        found.spans += 1;
        found.time += length;
        found.longest = found.longest.max(length);
        if length > enter {
            found.asleep += length - enter;
            found.sleeps += 1;
        }
    }
    found
}

/// Spans in which both are in one of theirs; those that touch do not join.
fn both<T>(one: &[Span], other: &[T], span: impl Fn(&T) -> Span) -> Vec<Span> {
    let mut common = vec![(Time::ZERO, Time::ZERO); one.len() + other.len()];
    let (mut n, mut m, mut count) = (0, 0, 0);
    while n < one.len() && m < other.len() {
        let ((a, b), (c, d)) = (one[n], span(&other[m]));
        let (from, to) = (a.max(c), b.min(d));
        // Without jumps: which of the two ends first is as good as random.
        common[count] = (from, to);
        count += usize::from(from < to);
        n += usize::from(b <= d);
        m += usize::from(d <= b);
    }
    common.truncate(count);
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaps::Gap;

    fn cpu(number: u32, gaps: &[(u64, u64)]) -> Cpu {
        let gap = |&(begin, end)| Gap { begin: Time(begin), end: Time(end), state: None };
        Cpu { number, gaps: gaps.iter().map(gap).collect() }
    }

    #[test]
    fn spans_of_two_cpus_by_hand() {
        // Both are idle in 2..5, 7..8 and 10..14; those that touch at 12 are two.
        let a = cpu(0, &[(0, 5), (7, 12), (12, 20)]);
        let b = cpu(1, &[(2, 6), (6, 8), (10, 14)]);
        let found = together(&[a, b], Time(1));
        let spans = [3, 1, 2, 2].map(Time);
        let time = Time(spans.iter().map(|span| span.0).sum());
        assert_eq!(
            found,
            Together { spans: 4, time, longest: Time(3), asleep: Time(2 + 1 + 1), sleeps: 3 }
        );
    }

    #[test]
    fn spans_of_one_cpu_are_its_gaps() {
        let found = together(&[cpu(3, &[(1, 4), (6, 7)])], Time::ZERO);
        assert_eq!((found.spans, found.time, found.sleeps), (2, Time(4), 2));
    }

    /// Spans in which all are idle, by counting who is at each moment.
    fn by_moments(cpus: &[Cpu], enter: Time) -> Together {
        let mut found = Together::default();
        let mut since = None;
        for now in 0..=1_000 {
            let at = |gap: &&Gap| (gap.begin.0..gap.end.0).contains(&now);
            let begins: Vec<_> =
                cpus.iter().map(|cpu| cpu.gaps.iter().find(at).map(|gap| gap.begin)).collect();
            let all = begins.iter().copied().collect::<Option<Vec<_>>>();
            let latest = all.and_then(|begins| begins.into_iter().max());
            if let Some(from) = since.filter(|_| latest != since) {
                let length = Time(now) - from;
                found.spans += 1;
                found.time += length;
                found.longest = found.longest.max(length);
                found.sleeps += u64::from(length > enter);
                found.asleep += length.saturating_sub(enter);
            }
            since = latest;
        }
        found
    }

    #[test]
    fn spans_of_many_cpus_are_those_of_each_moment() {
        let mut number = 1_u64;
        let mut below = |limit: u64| {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (number >> 33) % limit
        };
        for count in [1, 2, 3, 5, 8] {
            let one = |n: u32| {
                let mut now = 0;
                let mut gaps = Vec::new();
                while now < 900 {
                    // Some gaps touch.
                    let begin = now + below(4);
                    now = begin + 1 + below(40);
                    gaps.push((begin, now));
                }
                cpu(n, &gaps)
            };
            let cpus: Vec<Cpu> = (0..count).map(one).collect();
            let found = together(&cpus, Time(3));
            assert_eq!(found, by_moments(&cpus, Time(3)), "{count}");
            assert!(found.spans > 10, "{count}");
        }
    }

    #[test]
    fn cpu_without_gaps_is_never_idle() {
        assert_eq!(together(&[cpu(0, &[(1, 4)]), cpu(1, &[])], Time::ZERO), Together::default());
    }
}

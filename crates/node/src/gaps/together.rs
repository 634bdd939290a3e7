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

/// The spans in which all CPUs are in a gap; `enter` is the time that falling asleep takes.
#[must_use]
pub fn together(cpus: &[Cpu], enter: Time) -> Together {
    let spans = cpus.iter().flat_map(|cpu| cpu.gaps.iter().map(|gap| (gap.begin, gap.end)));
    of_spans(spans, cpus.len(), enter)
}

/// Counts spans in which all of `parts` parts are in a span of their own.
pub(super) fn of_spans(
    spans: impl Iterator<Item = (Time, Time)>,
    parts: usize,
    enter: Time,
) -> Together {
    // An end sorts before a beginning at the same time, so that spans that touch do not join.
    let mut edges: Vec<u64> = Vec::new();
    for (begin, end) in spans.filter(|(begin, end)| begin < end) {
        edges.extend([begin.0 << 1 | 1, end.0 << 1]);
    }
    // The edges of each part stand in order: a sort that keeps runs has only to merge them.
    edges.sort();
    let (mut idle, mut since) = (0, Time::ZERO);
    let mut found = Together::default();
    for edge in edges {
        let at = Time(edge >> 1);
        if edge & 1 == 1 {
            idle += 1;
            since = at;
            continue;
        }
        if idle == parts {
            let length = at - since;
            found.spans += 1;
            found.time += length;
            found.longest = found.longest.max(length);
            if length > enter {
                found.asleep += length - enter;
                found.sleeps += 1;
            }
        }
        idle -= 1;
    }
    found
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

    #[test]
    fn cpu_without_gaps_is_never_idle() {
        assert_eq!(together(&[cpu(0, &[(1, 4)]), cpu(1, &[])], Time::ZERO), Together::default());
    }
}

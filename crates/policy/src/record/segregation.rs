//! Records of segregation: whose lines a cache keeps where.

use super::{of_place, Fields, Record, Words};
use crate::segregation::{Action, Event, LookUp, Route, Rule, Sample, Span, Split, MAX_WAYS};

const SAMPLE: usize = 7;
/// Number of the kind that holds one line of a sample's monitors. It is no event of its own.
const UTILITY: usize = 2;
/// Stands for a split by banks, among numbers of ways.
const BANKS: u64 = 255;

impl Record for Event {
    const KINDS: &'static [&'static str] = &["begin", "sample", "utility"];

    fn put(&self, fields: &mut Fields) -> (usize, usize) {
        match self {
            Event::Begin { ways } => {
                fields[0] = (*ways).into();
                (0, 1)
            }
            Event::Sample(sample) => {
                let Sample { instructions, accesses, misses, cycles, utility: _ } = sample;
                fields[..6].copy_from_slice(&[*instructions, *accesses, *misses].concat());
                fields[6] = *cycles;
                (1, SAMPLE)
            }
        }
    }

    /// Hits by rank of recency, user's and kernel's; ranks without hits are left out.
    fn before(&self, n: usize, fields: &mut Fields) -> Option<(usize, usize)> {
        let Event::Sample(Sample { utility: Some(utility), .. }) = self else { return None };
        let [user, kernel] = &utility.hits;
        let rank = (0..MAX_WAYS).filter(|&rank| user[rank] | kernel[rank] != 0).nth(n)?;
        fields[..3].copy_from_slice(&[rank as u64, user[rank], kernel[rank]]);
        Some((UTILITY, 3))
    }

    fn take(kind: usize, fields: &Fields) -> Option<Event> {
        let of = |first: usize| [fields[first], fields[first + 1]];
        Some(match kind {
            0 => Event::Begin { ways: fields[0].try_into().ok()? },
            1 => Event::Sample(Sample {
                instructions: of(0),
                accesses: of(2),
                misses: of(4),
                cycles: fields[6],
                utility: None,
            }),
            _ => return None,
        })
    }
}

const ROUTES: [Route; 3] = [Route::Both, Route::Data, Route::Instructions];
const LOOK_UPS: [LookUp; 2] = [LookUp::Parallel, LookUp::Serial];
const SPANS: [fn(u64) -> Span; 2] = [Span::Instructions, Span::Cycles];

/// A value whose low byte is one number, and the rest of it another.
fn halves(word: u64) -> [u64; 2] {
    [word & 255, word >> 8]
}

impl Words for Rule {
    const COUNT: usize = 3;

    fn write(self, words: &mut [u64]) {
        let Rule { route, split, insertion: [user, kernel], look_up } = self;
        words[0] = route as u64 | (look_up as u64) << 8;
        words[1] = match split {
            Split::None => 0,
            Split::Ways(kernel) => kernel.into(),
            Split::Banks => BANKS,
        };
        words[2] = u64::from(user) | u64::from(kernel) << 8;
    }

    fn read(words: &[u64]) -> Option<Rule> {
        let ([route, look_up], [user, kernel]) = (halves(words[0]), halves(words[2]));
        let split = match words[1] {
            0 => Split::None,
            BANKS => Split::Banks,
            kernel => Split::Ways(kernel.try_into().ok()?),
        };
        Some(Rule {
            route: of_place(&ROUTES, &[route])?,
            split,
            insertion: [user.try_into().ok()?, kernel.try_into().ok()?],
            look_up: of_place(&LOOK_UPS, &[look_up])?,
        })
    }
}

impl Record for Action {
    const KINDS: &'static [&'static str] = &["set", "sample-after"];

    fn put(&self, fields: &mut Fields) -> (usize, usize) {
        match *self {
            Action::Set(rule) => {
                rule.write(fields);
                (0, Rule::COUNT)
            }
            Action::SampleAfter(span) => {
                let (unit, count) = match span {
                    Span::Instructions(count) => (0, count),
                    Span::Cycles(count) => (1, count),
                };
                fields[..2].copy_from_slice(&[count, unit]);
                (1, 2)
            }
        }
    }

    fn take(kind: usize, fields: &Fields) -> Option<Action> {
        Some(match kind {
            0 => Action::Set(Rule::read(fields)?),
            1 => Action::SampleAfter(of_place(&SPANS, &fields[1..])?(fields[0])),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FIELDS;
    use crate::segregation::Utility;
    use alloc::boxed::Box;

    #[test]
    fn events_and_actions_come_back_from_their_records() {
        let sample = Sample {
            instructions: [1, 2],
            accesses: [3, 4],
            misses: [5, 6],
            cycles: 7,
            utility: None,
        };
        for event in [Event::Begin { ways: 16 }, Event::Sample(sample)] {
            let mut fields = [0; FIELDS];
            let (kind, _) = event.put(&mut fields);
            assert_eq!(Event::take(kind, &fields), Some(event));
        }
        let mut actions = alloc::vec![
            Action::SampleAfter(Span::Cycles(5)),
            Action::SampleAfter(Span::Instructions(u64::MAX)),
        ];
        for route in ROUTES {
            for look_up in LOOK_UPS {
                for split in [Split::None, Split::Ways(1), Split::Ways(31), Split::Banks] {
                    let rule = Rule { route, split, insertion: [3, 15], look_up };
                    actions.push(Action::Set(rule));
                }
            }
        }
        for action in actions {
            let mut fields = [0; FIELDS];
            let (kind, _) = action.put(&mut fields);
            assert_eq!(Action::take(kind, &fields), Some(action));
        }
    }

    #[test]
    fn words_that_are_no_rule_and_no_span_are_refused() {
        for (kind, words) in [
            (0, [3, 0, 0]),
            (0, [2 << 8, 0, 0]),
            (0, [0, 256, 0]),
            (0, [0, 0, 256 << 8]),
            (1, [5, 2, 0]),
            (2, [0, 0, 0]),
        ] {
            let mut fields = [0; FIELDS];
            fields[..3].copy_from_slice(&words);
            assert_eq!(Action::take(kind, &fields), None, "{kind} {words:?}");
        }
    }

    #[test]
    fn counts_of_monitors_come_before_their_sample_by_rank() {
        let mut utility = Utility::default();
        utility.hits[0][0] = 9;
        utility.hits[1][3] = 4;
        let sample = Sample { utility: Some(Box::new(utility)), ..Sample::default() };
        let event = Event::Sample(sample);
        let records: alloc::vec::Vec<_> = (0..3)
            .map(|n| {
                let mut fields = [0; FIELDS];
                event.before(n, &mut fields).map(|(kind, count)| (kind, count, fields))
            })
            .collect();
        let of = |rank, user, kernel| {
            let mut fields = [0; FIELDS];
            fields[..3].copy_from_slice(&[rank, user, kernel]);
            Some((UTILITY, 3, fields))
        };
        assert_eq!(records, [of(0, 9, 0), of(3, 0, 4), None]);
        assert_eq!(Event::Begin { ways: 8 }.before(0, &mut [0; FIELDS]), None);
    }
}

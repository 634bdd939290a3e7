//! Records of offload: which kernel entries of a core move to another one.

use super::{Fields, Record};
use crate::offload::{Action, Cause, Counts, Event, KernelEntry, Place, Registers, Sample, Traits};

/// Stands for a number of bytes that is not known.
const UNKNOWN: u64 = u64::MAX;
/// Fields of an entry, of which the last is the registers as the predictor hashes them.
const ENTRY: usize = 10;
const SAMPLE: usize = 9;

fn put_entry(entry: &KernelEntry, fields: &mut Fields) -> usize {
    let (cause, number) = match entry.cause {
        Cause::SystemCall { number } => (0, number),
        Cause::Interrupt { vector } => (1, vector.into()),
        Cause::Exception { vector } => (2, vector.into()),
    };
    fields[..2].copy_from_slice(&[cause, number.into()]);
    fields[2..8].copy_from_slice(&entry.args);
    fields[8] = entry.bytes_in_memory.unwrap_or(UNKNOWN);
    fields[9] = entry.registers.astate();
    ENTRY
}

fn take_entry(fields: &Fields) -> Option<KernelEntry> {
    let cause = match fields[0] {
        0 => Cause::SystemCall { number: fields[1].try_into().ok()? },
        1 => Cause::Interrupt { vector: fields[1].try_into().ok()? },
        2 => Cause::Exception { vector: fields[1].try_into().ok()? },
        _ => return None,
    };
    let mut args = [0; 6];
    args.copy_from_slice(&fields[2..8]);
    Some(KernelEntry {
        cause,
        args,
        bytes_in_memory: Some(fields[8]).filter(|&bytes| bytes != UNKNOWN),
        // The exclusive-or of one register and zeros is that register.
        registers: Registers { pstate: fields[9], ..Registers::default() },
    })
}

fn put_sample(sample: &Sample, fields: &mut Fields) -> usize {
    let Sample { instructions, l2, user } = sample;
    let counts = l2.map(|of| [of.accesses, of.hits]).concat();
    fields[..2].copy_from_slice(instructions);
    fields[2..6].copy_from_slice(&counts);
    fields[6..9].copy_from_slice(&[user.fp, user.mispredicted, user.l1d_misses]);
    SAMPLE
}

fn take_sample(fields: &Fields) -> Sample {
    let of = |first: usize| Counts { accesses: fields[first], hits: fields[first + 1] };
    Sample {
        instructions: [fields[0], fields[1]],
        l2: [of(2), of(4)],
        user: Traits { fp: fields[6], mispredicted: fields[7], l1d_misses: fields[8] },
    }
}

impl Record for Event {
    const KINDS: &'static [&'static str] = &["enter", "exit", "sample"];

    fn put(&self, fields: &mut Fields) -> (usize, usize) {
        match self {
            Event::Enter(entry) => (0, put_entry(entry, fields)),
            Event::Exit { instructions } => {
                fields[0] = *instructions;
                (1, 1)
            }
            Event::Sample(sample) => (2, put_sample(sample, fields)),
        }
    }

    fn take(kind: usize, fields: &Fields) -> Option<Event> {
        Some(match kind {
            0 => Event::Enter(take_entry(fields)?),
            1 => Event::Exit { instructions: fields[0] },
            2 => Event::Sample(take_sample(fields)),
            _ => return None,
        })
    }
}

const PLACES: [Place; 3] = [Place::Here, Place::OsCore, Place::Beside];

/// An action is its place, with the cycles that it takes to decide.
impl Record for Action {
    const KINDS: &'static [&'static str] = &["here", "os-core", "beside"];

    fn put(&self, fields: &mut Fields) -> (usize, usize) {
        fields[0] = self.decision_cycles.into();
        (self.place as usize, 1)
    }

    fn take(kind: usize, fields: &Fields) -> Option<Action> {
        let place = *PLACES.get(kind)?;
        Some(Action { place, decision_cycles: fields[0].try_into().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_actions_come_back_from_their_records() {
        let entry = KernelEntry {
            cause: Cause::SystemCall { number: 7 },
            args: [1, 2, 3, 4, 5, 6],
            bytes_in_memory: Some(4096),
            registers: Registers { pstate: 0xff, ..Registers::default() },
        };
        let l2 = [Counts { accesses: 3, hits: 2 }, Counts { accesses: 5, hits: 4 }];
        let user = Traits { fp: 6, mispredicted: 7, l1d_misses: 8 };
        for event in [
            Event::Enter(entry),
            Event::Enter(KernelEntry {
                cause: Cause::Exception { vector: 14 },
                bytes_in_memory: None,
                ..entry
            }),
            Event::Exit { instructions: 9 },
            Event::Sample(Sample { instructions: [1, 2], l2, user }),
        ] {
            let mut fields = [0; super::super::FIELDS];
            let (kind, _) = event.put(&mut fields);
            assert_eq!(Event::take(kind, &fields), Some(event));
        }
        for place in PLACES {
            let mut fields = [0; super::super::FIELDS];
            let action = Action { place, decision_cycles: 16 };
            let (kind, _) = action.put(&mut fields);
            assert_eq!(Action::take(kind, &fields), Some(action));
        }
    }
}

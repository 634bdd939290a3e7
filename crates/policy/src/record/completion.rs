//! Records of completion: which CPU completes a block I/O, and how one without work rests.

use halfwink_units::Time;

use super::{record, Fields, Record, Words};
use crate::completion::{Action, Done, Event};
use crate::scaling::Rest;

impl Words for Done {
    const COUNT: usize = 5;

    fn write(self, words: &mut [u64]) {
        let Done { io, issuer, heard, waiting, took } = self;
        let values = [io.into(), issuer.into(), heard.into(), waiting.into(), took.0];
        words[..5].copy_from_slice(&values);
    }

    fn read(words: &[u64]) -> Option<Done> {
        Some(Done {
            io: words[0].try_into().ok()?,
            issuer: words[1].try_into().ok()?,
            heard: words[2].try_into().ok()?,
            waiting: words[3].try_into().ok()?,
            took: Time(words[4]),
        })
    }
}

/// An event with the fields of its variants, since that of an I/O is a type of its own.
enum Told {
    Done { done: Done },
    Used { cpu: u16, busy: u32, of: u32 },
    Poll { cpu: u16, taken: u32, waiting: u32 },
    Empty { cpu: u16 },
}

record! { Told {
    "done" Done { done: Done }
    "used" Used { cpu: u16, busy: u32, of: u32 }
    "poll" Poll { cpu: u16, taken: u32, waiting: u32 }
    "empty" Empty { cpu: u16 }
} }

impl Record for Event {
    const KINDS: &'static [&'static str] = Told::KINDS;

    #[inline]
    fn put(&self, fields: &mut Fields) -> (usize, usize) {
        let told = match *self {
            Event::Done(done) => Told::Done { done },
            Event::Used { cpu, busy, of } => Told::Used { cpu, busy, of },
            Event::Poll { cpu, taken, waiting } => Told::Poll { cpu, taken, waiting },
            Event::Empty { cpu } => Told::Empty { cpu },
        };
        told.put(fields)
    }

    fn take(kind: usize, fields: &Fields) -> Option<Event> {
        Some(match Told::take(kind, fields)? {
            Told::Done { done } => Event::Done(done),
            Told::Used { cpu, busy, of } => Event::Used { cpu, busy, of },
            Told::Poll { cpu, taken, waiting } => Event::Poll { cpu, taken, waiting },
            Told::Empty { cpu } => Event::Empty { cpu },
        })
    }
}

record! { Action {
    "here" Here { io: u32 }
    "give" Give { io: u32, cpu: u16 }
    "rest" Rest { cpu: u16, rest: Rest }
} }

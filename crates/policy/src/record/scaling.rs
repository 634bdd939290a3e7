//! Records of scaling: how many cores of a router forward, how fast, and how they wait.

use halfwink_units::Time;

use super::{record, Fields, Record, Words};
use crate::scaling::{Action, Depth, Event, Rest};

const DEPTHS: [Depth; 3] = [Depth::C1, Depth::C3, Depth::C6];

/// Kinds of rest before those with a depth.
const SPIN: u64 = 0;
const AGAIN: u64 = 1;
const PAUSE: u64 = 2;
/// First of the three kinds (C1, C3, C6) of each rest with a depth.
const HALT: u64 = 3;
const HALT_FOR: u64 = 6;
const NAP: u64 = 9;
const SLEEP: u64 = 12;

/// Two words: the kind, with the depth of the idle state, and the polls or the time.
impl Words for Rest {
    const COUNT: usize = 2;

    #[inline]
    fn write(self, words: &mut [u64]) {
        let (kind, depth, number) = match self {
            Rest::Spin => (SPIN, Depth::C1, 0),
            Rest::Again { polls } => (AGAIN, Depth::C1, polls.into()),
            Rest::Pause { span } => (PAUSE, Depth::C1, span.0),
            Rest::Halt(depth) => (HALT, depth, 0),
            Rest::HaltFor { span, depth } => (HALT_FOR, depth, span.0),
            Rest::Nap(depth) => (NAP, depth, 0),
            Rest::Sleep { span, depth } => (SLEEP, depth, span.0),
        };
        words[..2].copy_from_slice(&[kind + depth as u64, number]);
    }

    #[inline]
    fn read(words: &[u64]) -> Option<Rest> {
        let (kind, span) = (words[0], Time(words[1]));
        if kind < HALT {
            return match (kind, u32::try_from(words[1])) {
                (SPIN, _) => Some(Rest::Spin),
                (AGAIN, Ok(polls)) if polls > 0 => Some(Rest::Again { polls }),
                (PAUSE, _) => Some(Rest::Pause { span }),
                _ => None,
            };
        }
        let depth = DEPTHS[((kind - HALT) % 3) as usize];
        Some(match kind - depth as u64 {
            HALT => Rest::Halt(depth),
            HALT_FOR => Rest::HaltFor { span, depth },
            NAP => Rest::Nap(depth),
            SLEEP => Rest::Sleep { span, depth },
            _ => return None,
        })
    }
}

record! { Event {
    "poll" Poll { core: u8, taken: u32, waiting: u32 }
    "empty" Empty { core: u8 }
} }

record! { Action {
    "wake" Wake { core: u8 }
    "park" Park { core: u8 }
    "set-step" SetStep { step: u8 }
    "wish" Wish { core: u8, step: u8 }
    "move" Move { entry: u8, to: u8, in_order: bool }
    "rest" Rest { core: u8, rest: Rest }
} }

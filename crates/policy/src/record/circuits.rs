//! Records of circuits: which circuits a switch sets up next, and for how long.

use halfwink_units::Time;

use super::{record, Fields, Record, Words};
use crate::circuits::{Action, Event};

record! { Event {
    "demand" Demand { from: u16, to: u16, bytes: u64 }
    "next" Next { plane: u8, slot: u32 }
    "lost" Lost { host: u16 }
    "back" Back { host: u16 }
} }

record! { Action {
    "join" Join { plane: u8, from: u16, to: u16 }
    "day" Day { plane: u8, length: Time }
} }

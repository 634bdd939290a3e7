//! Records of preheat: what is loaded into cold caches before a request comes.

use halfwink_units::{LineAddr, Time};

use super::{of_place, record, Fields, Record, Words};
use crate::preheat::{Action, Event, Order, Recorded, SetId};

impl Words for SetId {
    fn write(self, words: &mut [u64]) {
        self.0.write(words);
    }

    fn read(words: &[u64]) -> Option<SetId> {
        u32::read(words).map(SetId)
    }
}

impl Words for Order {
    fn write(self, words: &mut [u64]) {
        words[0] = self as u64;
    }

    fn read(words: &[u64]) -> Option<Order> {
        of_place(&[Order::Address, Order::FirstUse, Order::Tags], words)
    }
}

impl Words for Recorded {
    fn write(self, words: &mut [u64]) {
        words[0] = self as u64;
    }

    fn read(words: &[u64]) -> Option<Recorded> {
        of_place(&[Recorded::CodeMisses, Recorded::Misses, Recorded::Pages], words)
    }
}

record! { Event {
    "announced" Announced { service: u16, due: Time }
    "arrived" Arrived { port: u16 }
    "idle" Idle {}
    "lost" Lost {}
    "dumped" Dumped { service: u16, set: SetId, lines: u32 }
    "built" Built { service: u16, lines: u32 }
    "loaded" Loaded { service: u16 }
    "closed" Closed { port: u16 }
    "missed" Missed { line: LineAddr, site: u64, is_code: bool }
    "received" Received { first: LineAddr, lines: u16 }
} }

record! { Action {
    "wake" Wake {}
    "estimate" Estimate { service: u16 }
    "dump" Dump { service: u16 }
    "abandon" Abandon { service: u16 }
    "intersect" Intersect { service: u16, set: SetId }
    "unite" Unite { service: u16, set: SetId }
    "discard" Discard { set: SetId }
    "subtract" Subtract { service: u16 }
    "build" Build { service: u16 }
    "load" Load { service: u16, until: Option<Time>; cores: u8, order: Order }
    "stop" Stop { service: u16 }
    "hold" Hold { service: u16 }
    "forget" Forget { service: u16 }
    "sham" Sham { service: u16 }
    "record" Record { service: u16, what: Recorded }
    "fetch" Fetch { first: LineAddr, lines: u16 }
    "place" Place { first: LineAddr, lines: u16 }
} }

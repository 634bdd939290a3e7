//! How long the branches of ChampSim records are: the records do not say.
//!
//! The address behind an instruction is that of the next record, unless the instruction went
//! elsewhere. Behind a branch that is always taken nothing follows, so a call's length shows only
//! where its return lands, and a conditional branch's only where it is not taken. Both are learnt
//! here for each address, from records that are read ahead of those that are written.

use std::collections::{HashMap, VecDeque};

use super::Record;
use crate::record::Branch;

/// Length of the longest x86 instruction.
const LONGEST: u64 = 15;
/// Calls are 2 to 9 bytes, with a prefix and an index register; ChampSim takes returns up to 10
/// bytes behind a call for its own (`btb/basic_btb/return_stack.cc`).
const CALL: std::ops::RangeInclusive<u64> = 2..=10;
/// Calls that have not returned yet, at most: as deep as a program's stack may be taken to be.
/// Calls that never return stay among them, so the oldest is forgotten.
const OPEN_CALLS: usize = 4096;

/// Lengths of branches by their address.
#[derive(Default)]
pub(super) struct Lengths {
    known: HashMap<u64, u8>,
    open: VecDeque<u64>,
}

impl Lengths {
    /// Learns from a record and the address of the one behind it.
    pub(super) fn learn(&mut self, record: &Record, next: u64) {
        match record.branch() {
            Branch::Call | Branch::IndirectCall => {
                if self.open.len() == OPEN_CALLS {
                    self.open.pop_front();
                }
                self.open.push_back(record.ip);
            }
            Branch::Return => self.close(next),
            Branch::Conditional if !record.taken => {
                let distance = next.wrapping_sub(record.ip);
                if (1..=LONGEST).contains(&distance) {
                    self.known.insert(record.ip, distance as u8);
                }
            }
            _ => {}
        }
    }

    /// A return lands at `next`: the newest open call shortly before it is the one that returns.
    /// Younger ones stay open. A tail call leaves none, a long jump leaves some that never return,
    /// and after a switch to another program it is that one's calls that return.
    fn close(&mut self, next: u64) {
        let length = |&ip: &u64| next.wrapping_sub(ip);
        if let Some(at) = self.open.iter().rposition(|ip| CALL.contains(&length(ip))) {
            let ip = self.open.remove(at).expect("it was just found there");
            self.known.insert(ip, length(&ip) as u8);
        }
    }

    /// Length of `record`, behind which comes the one at `next`; and whether the code goes on
    /// there.
    pub(super) fn of(&self, record: &Record, next: Option<u64>) -> (u8, bool) {
        let distance = next.map_or(0, |next| next.wrapping_sub(record.ip));
        let follows = (1..=LONGEST).contains(&distance);
        let known = self.known.get(&record.ip).copied();
        match record.branch() {
            Branch::None if follows => (distance as u8, true),
            Branch::None => (GUESS, false),
            Branch::Conditional if !record.taken && follows => (distance as u8, true),
            Branch::Conditional => {
                let length = known.unwrap_or(SHORT_BRANCH);
                // Where its target is told from the address behind it, it must not be that address.
                let hides = record.taken && u64::from(length) == distance;
                (if hides { NEAR_BRANCH } else { length }, false)
            }
            Branch::Call => (known.unwrap_or(DIRECT_CALL), false),
            // Through memory, as from a table of a dynamic linker; else through a register.
            Branch::IndirectCall if record.loads != [0; 4] => (known.unwrap_or(MEMORY_CALL), false),
            Branch::IndirectCall => (known.unwrap_or(REGISTER_CALL), false),
            _ => (GUESS, false),
        }
    }
}

/// Assumption, where nothing tells: the commonest encodings of x86-64 (Intel SDM, volume 2).
const GUESS: u8 = 4;
/// Length of `74 cb`.
const SHORT_BRANCH: u8 = 2;
/// Length of `0f 84 cd`.
const NEAR_BRANCH: u8 = 6;
/// `e8 cd`, the only near call that is not indirect.
const DIRECT_CALL: u8 = 5;
/// Length of `ff 15 cd`.
const MEMORY_CALL: u8 = 6;
/// Length of `ff d0`.
const REGISTER_CALL: u8 = 2;

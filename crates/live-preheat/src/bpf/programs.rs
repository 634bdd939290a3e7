//! The programs that read lines of the kernel.

use std::mem::offset_of;
use std::os::fd::RawFd;

use super::code::{
    Code, Helper, Instruction, Label, AT_LEAST, BELOW, DOUBLE, EQUAL, FRAME, NOT_EQUAL, WORD,
};
use super::{Values, GROUP, GROUPS_A_RUN, LINES, TIMED_A_RUN};
use crate::kernel::Image;

/// Ranges besides text that a program looks at.
const RANGES: usize = 3;

/// What may be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    base: u64,
    text_lines: i32,
    /// First line and length.
    ranges: [(i32, i32); RANGES],
}

impl Bounds {
    pub(super) fn of(image: &Image) -> Bounds {
        let mut ranges = [(0, 0); RANGES];
        for (slot, range) in ranges.iter_mut().zip(&image.allowed) {
            *slot = (range.start as i32, (range.end - range.start) as i32);
        }
        Bounds { base: image.base, text_lines: image.text.end as i32, ranges }
    }
}

/// Places on the stack.
const COUNTER: i16 = -8;
const DISCARDED: i16 = -16;
const UNTIL: i16 = -24;
const ADDRESS: i16 = -32;
const BEFORE: i16 = -40;

/// Offsets of `Values`, which the programs reach from register 9.
const LINES_AT: i16 = offset_of!(Values, lines) as i16;
const TOOK_AT: i32 = offset_of!(Values, took_ns) as i32;
const BEGAN_AT: i16 = offset_of!(Values, began_ns) as i16;
const ENDED_AT: i16 = offset_of!(Values, ended_ns) as i16;
const GROUPS_AT: i16 = offset_of!(Values, groups) as i16;
const REFUSED_AT: i16 = offset_of!(Values, refused) as i16;

/// Reads groups from the first argument to the second, until the third (a time, or 0).
pub(super) fn load(map: RawFd, bounds: &Bounds) -> Vec<Instruction> {
    let mut code = Code::default();
    let (top, end) = begin(&mut code, map);
    turn(&mut code, GROUPS_A_RUN, top, end);
    // r8 = where the group stands.
    code.copy(8, 6);
    code.and(8, (LINES / GROUP - 1) as i32);
    code.shift(8, 5);
    code.add(8, 9);
    for k in 0..GROUP as i16 {
        code.load(WORD, 3, 8, LINES_AT + 4 * k);
        let next = code.label();
        address(&mut code, bounds, next);
        read(&mut code);
        code.here(next);
    }
    count(&mut code, GROUPS_AT);
    code.add_number(6, 1);
    // The clock costs as much as two lines: a look at it each eight groups.
    code.copy(1, 6);
    code.and(1, 7);
    code.jump_if(NOT_EQUAL, 1, 0, top);
    code.load(DOUBLE, 1, FRAME, UNTIL);
    code.jump_if(EQUAL, 1, 0, top);
    code.call(Helper::Now);
    code.load(DOUBLE, 1, FRAME, UNTIL);
    code.jump_if_than(BELOW, 0, 1, top);
    finish(code, end)
}

/// Times one read of each line from the first argument to the second.
pub(super) fn time(map: RawFd, bounds: &Bounds) -> Vec<Instruction> {
    let mut code = Code::default();
    let (top, end) = begin(&mut code, map);
    turn(&mut code, TIMED_A_RUN, top, end);
    code.copy(8, 6);
    code.and(8, (LINES - 1) as i32);
    code.shift(8, 2);
    code.add(8, 9);
    code.load(WORD, 3, 8, LINES_AT);
    let (refused, store) = (code.label(), code.label());
    address(&mut code, bounds, refused);
    code.store(DOUBLE, FRAME, ADDRESS, 3);
    code.call(Helper::Now);
    code.store(DOUBLE, FRAME, BEFORE, 0);
    code.load(DOUBLE, 3, FRAME, ADDRESS);
    read(&mut code);
    code.call(Helper::Now);
    code.load(DOUBLE, 1, FRAME, BEFORE);
    code.subtract(0, 1);
    code.jump(store);
    code.here(refused);
    code.set(0, -1);
    code.here(store);
    // The counter has been moved on already.
    code.load(DOUBLE, 1, FRAME, COUNTER);
    code.add_number(1, -1);
    code.shift(1, 2);
    code.copy(2, 9);
    code.add_number(2, TOOK_AT);
    code.add(2, 1);
    code.store(WORD, 2, 0, 0);
    code.add_number(6, 1);
    code.jump(top);
    finish(code, end)
}

/// r6, r7 = first and end; r9 = the map's memory; counter, deadline and begin are noted.
fn begin(code: &mut Code, map: RawFd) -> (Label, Label) {
    let (top, end) = (code.label(), code.label());
    code.load(DOUBLE, 6, 1, 0);
    code.load(DOUBLE, 7, 1, 8);
    code.load(DOUBLE, 1, 1, 16);
    code.store(DOUBLE, FRAME, UNTIL, 1);
    code.set(1, 0);
    code.store(DOUBLE, FRAME, COUNTER, 1);
    code.map_value(9, map);
    code.call(Helper::Now);
    code.store(DOUBLE, 9, BEGAN_AT, 0);
    (top, end)
}

/// The head of the loop. The verifier walks all turns, so their number stands in the program.
fn turn(code: &mut Code, most: usize, top: Label, end: Label) {
    code.here(top);
    code.jump_if_than(AT_LEAST, 6, 7, end);
    code.load(DOUBLE, 1, FRAME, COUNTER);
    code.jump_if(AT_LEAST, 1, most as i32, end);
    code.add_number(1, 1);
    code.store(DOUBLE, FRAME, COUNTER, 1);
}

/// r3 = address of line r3, or `refused`, counted.
fn address(code: &mut Code, bounds: &Bounds, refused: Label) {
    let allowed = code.label();
    code.jump_if(BELOW, 3, bounds.text_lines, allowed);
    for (first, lines) in bounds.ranges.into_iter().filter(|range| range.1 > 0) {
        code.copy(1, 3);
        // Below the range that is a huge number.
        code.add_number(1, -first);
        code.jump_if(BELOW, 1, lines, allowed);
    }
    count(code, REFUSED_AT);
    code.jump(refused);
    code.here(allowed);
    code.shift(3, 6);
    code.set_wide(1, bounds.base);
    code.add(3, 1);
}

/// Reads eight bytes at r3 into a place that nobody reads.
fn read(code: &mut Code) {
    code.copy(1, FRAME);
    code.add_number(1, i32::from(DISCARDED));
    code.set(2, 8);
    code.call(Helper::ReadKernel);
}

/// One more of a number of `Values`.
fn count(code: &mut Code, at: i16) {
    code.load(DOUBLE, 1, 9, at);
    code.add_number(1, 1);
    code.store(DOUBLE, 9, at, 1);
}

fn finish(mut code: Code, end: Label) -> Vec<Instruction> {
    code.here(end);
    code.call(Helper::Now);
    code.store(DOUBLE, 9, ENDED_AT, 0);
    code.exit();
    code.finish()
}

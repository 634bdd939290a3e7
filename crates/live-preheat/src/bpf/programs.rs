//! The programs that read lines of the kernel.

use std::mem::offset_of;
use std::os::fd::RawFd;

use halfwink_live::bpf::Instruction;

use super::btf::Cast;
use super::code::{Code, Helper, Label, AT_LEAST, BELOW, DOUBLE, EQUAL, FRAME, NOT_EQUAL, WORD};
use super::{Values, GROUP, GROUPS_A_RUN, LINES, TIMED_A_RUN};
use crate::kernel::Image;

/// Ranges that may be read: the image's text and its other ranges, each a first line and a length.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    base: u64,
    cast: Option<Cast>,
    pub(super) ranges: Vec<(i32, i32)>,
}

impl Bounds {
    pub(super) fn of(image: &Image) -> Bounds {
        let all = std::iter::once(&image.text).chain(&image.allowed);
        let ranges = all.map(|range| (range.start as i32, (range.end - range.start) as i32));
        Bounds { base: image.base, cast: Cast::of_kernel(), ranges: ranges.collect() }
    }
}

/// Places on the stack.
const START: i16 = -8;
const DISCARDED: i16 = -16;
const UNTIL: i16 = -24;
const ADDRESS: i16 = -32;
const BEFORE: i16 = -40;
const END: i16 = -48;

/// Offsets of `Values`, which the programs reach from register 9.
const LINES_AT: i16 = offset_of!(Values, lines) as i16;
const TOOK_AT: i32 = offset_of!(Values, took_ns) as i32;
const BEGAN_AT: i16 = offset_of!(Values, began_ns) as i16;
const ENDED_AT: i16 = offset_of!(Values, ended_ns) as i16;
const GROUPS_AT: i16 = offset_of!(Values, groups) as i16;
const REFUSED_AT: i16 = offset_of!(Values, refused) as i16;

/// Reads groups from the first argument on, as many as the second says, until the third (a time, or
/// 0). All lines are of one range.
///
/// There is no jump for a line: the verifier keeps the other side of every jump of all turns until
/// it has seen the end.
pub(super) fn load(map: RawFd, bounds: &Bounds, part: usize) -> Vec<Instruction> {
    let (first, lines) = bounds.ranges[part];
    let mut code = Code::default();
    let (top, end) = begin(&mut code, map);
    turn(&mut code, GROUPS_A_RUN, top, end);
    // r8 = where the group stands, r7 = how many lines of it are allowed, negative.
    code.load(DOUBLE, 8, FRAME, START);
    code.add(8, 6);
    code.and(8, (LINES / GROUP - 1) as i32);
    code.shift(8, 5);
    code.add(8, 9);
    code.set(7, 0);
    for k in 0..GROUP as i16 {
        code.load(WORD, 3, 8, LINES_AT + 4 * k);
        // Of 32 bits: below the range that is a huge number.
        code.subtract_word(3, first);
        code.copy(1, 3);
        code.add_number(1, -lines);
        code.shift_signed_right(1, 63);
        code.and_register(3, 1);
        code.add(7, 1);
        code.shift(3, 6);
        code.set_wide(1, bounds.base + ((first as u64) << 6));
        code.add(3, 1);
        read(&mut code, bounds.cast);
    }
    code.add_number(7, GROUP as i32);
    code.load(DOUBLE, 1, 9, REFUSED_AT);
    code.add(1, 7);
    code.store(DOUBLE, 9, REFUSED_AT, 1);
    code.load(DOUBLE, 1, 9, GROUPS_AT);
    code.add_number(1, 1);
    code.store(DOUBLE, 9, GROUPS_AT, 1);
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

/// Times one read of each line from the first argument on, as many as the second says.
pub(super) fn time(map: RawFd, bounds: &Bounds) -> Vec<Instruction> {
    let mut code = Code::default();
    let (top, end) = begin(&mut code, map);
    turn(&mut code, TIMED_A_RUN, top, end);
    code.load(DOUBLE, 8, FRAME, START);
    code.add(8, 6);
    code.and(8, (LINES - 1) as i32);
    code.shift(8, 2);
    code.add(8, 9);
    code.load(WORD, 3, 8, LINES_AT);
    address(&mut code, bounds);
    code.store(DOUBLE, FRAME, ADDRESS, 3);
    code.call(Helper::Now);
    code.store(DOUBLE, FRAME, BEFORE, 0);
    code.load(DOUBLE, 3, FRAME, ADDRESS);
    read(&mut code, bounds.cast);
    code.call(Helper::Now);
    code.load(DOUBLE, 1, FRAME, BEFORE);
    code.subtract(0, 1);
    code.copy(1, 6);
    code.shift(1, 2);
    code.copy(2, 9);
    code.add_number(2, TOOK_AT);
    code.add(2, 1);
    code.store(WORD, 2, 0, 0);
    code.add_number(6, 1);
    code.jump(top);
    finish(code, end)
}

/// r6 = 0, the number of the turn; r9 = the map's memory; start, end, deadline and begin are noted.
fn begin(code: &mut Code, map: RawFd) -> (Label, Label) {
    let (top, end) = (code.label(), code.label());
    code.load(DOUBLE, 6, 1, 0);
    code.store(DOUBLE, FRAME, START, 6);
    code.load(DOUBLE, 7, 1, 8);
    code.store(DOUBLE, FRAME, END, 7);
    code.load(DOUBLE, 1, 1, 16);
    code.store(DOUBLE, FRAME, UNTIL, 1);
    code.set(6, 0);
    code.map_value(9, map);
    code.call(Helper::Now);
    code.store(DOUBLE, 9, BEGAN_AT, 0);
    (top, end)
}

/// The head of the loop. The verifier walks all turns, so their number stands in the program and is
/// known in each.
fn turn(code: &mut Code, most: usize, top: Label, end: Label) {
    code.here(top);
    code.jump_if(AT_LEAST, 6, most as i32, end);
    code.load(DOUBLE, 1, FRAME, END);
    code.jump_if_than(AT_LEAST, 6, 1, end);
}

/// r3 = address of line r3, or of the first line, counted as refused.
fn address(code: &mut Code, bounds: &Bounds) {
    // r0 = all ones if it lies in one of the ranges: below its end and not below its beginning.
    code.set(0, 0);
    for (first, lines) in bounds.ranges.iter().copied() {
        for (register, number) in [(1, first + lines), (2, first)] {
            code.copy(register, 3);
            code.add_number(register, -number);
            code.shift_signed_right(register, 63);
        }
        code.xor(2, -1);
        code.and_register(1, 2);
        code.or_register(0, 1);
    }
    code.and_register(3, 0);
    code.load(DOUBLE, 1, 9, REFUSED_AT);
    code.add_number(1, 1);
    code.add(1, 0);
    code.store(DOUBLE, 9, REFUSED_AT, 1);
    code.shift(3, 6);
    code.set_wide(1, bounds.base);
    code.add(3, 1);
}

/// Reads eight bytes at r3 and discards them: by a load if the kernel can handle one that faults,
/// otherwise by a call.
fn read(code: &mut Code, cast: Option<Cast>) {
    if let Some(Cast { function, structure }) = cast {
        code.copy(1, 3);
        code.set(2, structure);
        code.call_function(function);
        code.load(DOUBLE, 0, 0, 0);
        return;
    }
    code.copy(1, FRAME);
    code.add_number(1, i32::from(DISCARDED));
    code.set(2, 8);
    code.call(Helper::ReadKernel);
}

fn finish(mut code: Code, end: Label) -> Vec<Instruction> {
    code.here(end);
    code.call(Helper::Now);
    code.store(DOUBLE, 9, ENDED_AT, 0);
    code.exit();
    code.finish()
}

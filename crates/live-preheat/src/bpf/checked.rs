//! The programs, run instruction by instruction on a machine of our own: whatever stands in the
//! map, nothing outside of the kernel's image is read. The kernel's own runs cannot show that: what
//! they read is thrown away.

use std::collections::HashMap;

use halfwink_live::bpf::Instruction;

use super::programs::{load, time, Bounds};
use super::{Values, GROUP};
use crate::kernel::Image;

const ARGUMENTS: u64 = 1 << 40;
const STACK: u64 = 2 << 40;
const MAP: u64 = 3 << 40;
const BASE: u64 = 0xffff_ffff_8100_0000;

/// Addresses that a program reads outside of its arguments, its stack and its map.
fn reads(code: &[Instruction], args: [u64; 3], lines: &[u32]) -> Vec<u64> {
    let (mut r, mut found, mut at) = ([0u64; 11], Vec::new(), 0);
    let mut memory: HashMap<u64, u64> = HashMap::new();
    memory.extend((0..).step_by(8).map(|at| ARGUMENTS + at).zip(args));
    let first = MAP + std::mem::offset_of!(Values, lines) as u64;
    memory.extend((first..).step_by(4).zip(lines.iter().map(|line| u64::from(*line))));
    (r[1], r[10]) = (ARGUMENTS, STACK);
    for _ in 0..100_000 {
        let op = &code[at];
        let (to, from) = (usize::from(op.registers & 15), usize::from(op.registers >> 4));
        let (wide, place) = (i64::from(op.immediate) as u64, i64::from(op.offset) as u64);
        at += 1;
        let mut taken = false;
        match op.code {
            0xbf => r[to] = r[from],
            0xb7 => r[to] = wide,
            0x18 if from == 2 => (r[to], at) = (MAP, at + 1),
            0x18 => {
                r[to] = u64::from(op.immediate as u32) | (code[at].immediate as u64) << 32;
                at += 1;
            }
            0x0f => r[to] = r[to].wrapping_add(r[from]),
            0x1f => r[to] = r[to].wrapping_sub(r[from]),
            0x07 => r[to] = r[to].wrapping_add(wide),
            0x14 => r[to] = u64::from((r[to] as u32).wrapping_sub(op.immediate as u32)),
            0x57 => r[to] &= wide,
            0x5f => r[to] &= r[from],
            0x4f => r[to] |= r[from],
            0xa7 => r[to] ^= wide,
            0xc7 => r[to] = (r[to] as i64 >> op.immediate) as u64,
            0x67 => r[to] <<= op.immediate,
            0x61 | 0x79 if r[from] >= BASE => found.push(r[from]),
            0x61 | 0x79 => {
                r[to] = memory.get(&r[from].wrapping_add(place)).copied().unwrap_or(0);
            }
            0x63 | 0x7b => memory.extend([(r[to].wrapping_add(place), r[from])]),
            0x05 => taken = true,
            0x15 => taken = r[to] == wide,
            0x35 => taken = r[to] >= wide,
            0x55 => taken = r[to] != wide,
            0x3d => taken = r[to] >= r[from],
            0xad => taken = r[to] < r[from],
            // A cast, the clock, a read by a call.
            0x85 if from == 2 => r[0] = r[1],
            0x85 if op.immediate == 5 => r[0] = 1,
            0x85 if op.immediate == 113 => found.push(r[3]),
            0x95 => return found,
            other => panic!("instruction {other:#x}"),
        }
        if taken {
            at = at.wrapping_add(place as usize);
        }
    }
    panic!("it does not end");
}

#[test]
fn nothing_outside_of_the_image_is_read_whatever_stands_in_the_map() {
    let (text, allowed) = (0..100, vec![200..300, 1000..1001]);
    let image = Image { build_id: String::new(), base: BASE, text, allowed };
    let bounds = Bounds::of(&image);
    let line_of = |address: &u64| (address - BASE) / 64;
    let edges = [0, 99, 100, 199, 200, 299, 300, 999, 1000, 1001];
    let far = [1 << 25, 1 << 26, i32::MAX as u32, 1 << 31, u32::MAX - 1, u32::MAX];
    let lines: Vec<u32> = edges.into_iter().chain(far).collect();
    assert_eq!(lines.len() % GROUP, 0);
    let count = lines.len() as u64;
    let parts = std::iter::once(&image.text).chain(&image.allowed);
    for (n, part) in parts.enumerate() {
        let found = reads(&load(7, &bounds, n), [0, count / GROUP as u64, 0], &lines);
        let expected: Vec<u64> = lines
            .iter()
            .map(|line| u64::from(*line))
            .map(|line| if part.contains(&line) { line } else { part.start })
            .collect();
        assert_eq!(found.iter().map(line_of).collect::<Vec<_>>(), expected, "part {n}");
    }
    let found = reads(&time(7, &bounds), [0, count, 0], &lines);
    let lines = lines.iter().map(|line| u64::from(*line));
    let expected: Vec<u64> = lines.map(|l| if image.allows(l) { l } else { 0 }).collect();
    assert_eq!(found.iter().map(line_of).collect::<Vec<_>>(), expected);
}

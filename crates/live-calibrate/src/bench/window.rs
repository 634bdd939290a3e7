//! Sizes of queues, by the gap between two misses (Wong, "Measuring Reorder Buffer Capacity",
//! 2013).
//!
//! Two loads that miss overlap as long as both are in the window. Fillers between them push the
//! second one out; which queue they fill depends on what they are.

use super::Host;
use crate::arena::{lines, Arena};
use crate::code::reg::{RAX, RBP, RBX, RCX, RDX, RSI};
use crate::code::{Code, Gpr, Sse};
use crate::fit::{jump, Measured};
use crate::sample::Bench;
use crate::Fault;

/// A filler by its number, behind a miss into a register.
type Filler = fn(&mut Code, usize, Gpr);

/// Registers that fillers may write.
const FREE: [Gpr; 8] = [8, 9, 10, 11, 12, 13, 14, 15];

const QUEUES: [(&str, &str, usize, Filler); 6] = [
    // Of everything so little that no other queue and neither register file is full first; no
    // no-operations, of which some cores pack two into an entry.
    ("window", "window.mixed", 640, |code, n, _| match n % 8 {
        0 | 3 | 6 => {
            code.add(FREE[n % 8], RCX);
        }
        1 | 4 | 7 => {
            code.sse(Sse::Integer, (1 + n % 14) as u8, 15);
        }
        2 => {
            code.load(FREE[n / 8 % 8], RDX, (n % 64 * 8) as i32);
        }
        _ => {
            code.store(RCX, RDX, (1024 + n % 8 * 8) as i32);
        }
    }),
    // Each takes a register: the smaller of window and register file.
    ("window.registers", "window.alu", 640, |code, n, _| {
        code.add(FREE[n % 8], RCX);
    }),
    // These wait for the miss before them, in the scheduler. Were those behind the second miss to
    // wait for the first, the second would overlap with the first of the next pair.
    ("integer_queue", "window.waiting", 320, |code, n, miss| {
        code.add(FREE[n % 8], miss);
    }),
    ("fp_queue", "window.fp_waiting", 320, |code, n, _| {
        code.sse(Sse::Multiply, (1 + n % 14) as u8, 0);
    }),
    ("load_queue", "window.load", 320, |code, n, _| {
        code.load(FREE[n % 8], RDX, (n % 64 * 8) as i32);
    }),
    ("store_queue", "window.store", 320, |code, n, _| {
        code.store(RCX, RDX, (n % 8 * 8) as i32);
    }),
];

pub(super) fn measure(bench: &mut Bench, host: &mut Host) -> Result<(), Fault> {
    // Memory, since a miss must last longer than the fillers take: two walks of their own.
    let bytes = bench.effort.most_bytes / 2;
    let arenas = [0, 1].map(|_| Arena::new(bytes, true).map_err(Fault::Memory));
    let [a, b] = arenas;
    let (a, b) = (a?, b?);
    a.link(&lines(bytes, 8));
    b.link(&lines(bytes, 9));
    // Heads of the walks: every run goes on where the one before it ended, on lines that are not
    // in any cache.
    let own = Arena::new(4096, false).map_err(Fault::Memory)?;
    own.write(0, a.address(0));
    own.write(8, b.address(0));
    for (name, curve, most, filler) in QUEUES {
        let step = if bench.effort.per_octave < 4 { most / 20 } else { most / 64 };
        let (mut points, mut spreads, mut runs) = (Vec::new(), Vec::new(), 0);
        for fillers in (0..most).step_by(step.max(1)) {
            let found = gap(bench, &own, fillers, filler)?;
            runs = found.runs;
            spreads.push(found.spread_pct);
            points.push((fillers as f64, found.value));
        }
        spreads.sort_by(f64::total_cmp);
        let spread_pct = spreads[spreads.len() / 2];
        match jump(&points) {
            Some(value) if spread_pct <= MOST_SPREAD_PCT => {
                host.put(name, "entries", Measured { value, spread_pct, runs });
            }
            Some(_) => host.notes.push(format!(
                "{name}: too noisy: the time of two misses repeats within {spread_pct:.0} % \
                 ({runs} runs), expected at most {MOST_SPREAD_PCT} %"
            )),
            None => host.notes.push(format!(
                "{name}: two misses overlap with {most} operations between them as they do \
                 without any: no bound was found"
            )),
        }
        host.curve(curve, ("operations between two misses", "ns for both"), points, Vec::new());
    }
    Ok(())
}

/// Half of what is to be told apart: two misses one after the other take twice as long as at once.
const MOST_SPREAD_PCT: f64 = 25.0;

/// Nanoseconds of two misses, with fillers behind each.
fn gap(bench: &Bench, own: &Arena, fillers: usize, filler: Filler) -> Result<Measured, Fault> {
    let mut code = Code::new();
    code.copy(RBP, RSI).load(RBX, RBP, 0).load(RAX, RBP, 8).copy(RDX, RSI);
    // add rdx, 64: beside the heads
    code.raw(&[0x48, 0x83, 0xc2, 64]).set(RCX, 1);
    code.top();
    for miss in [RBX, RAX] {
        code.load(miss, miss, 0);
        code.to_vector(0, miss);
        (0..fillers).for_each(|n| filler(&mut code, n, miss));
    }
    code.store(RBX, RBP, 0).store(RAX, RBP, 8);
    bench.lasts(code, own.base(), PAIRS, QUANTILE)
}

/// Pairs of misses of a sample.
const PAIRS: u64 = 64;
/// Quantile that counts. The minimum is safe here: the walks are far larger than every cache, so
/// that among so many misses no sample consists of hits.
const QUANTILE: f64 = 0.0;

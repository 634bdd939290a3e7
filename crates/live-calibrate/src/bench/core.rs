//! Widths, latencies, branches: what needs no memory but a few lines of the first cache.

use super::Host;
use crate::arena::{lines, Arena};
use crate::code::reg::{R8, RAX, RBP, RBX, RCX, RDI, RDX, RSI};
use crate::code::{Code, Gpr, Kernel, Sse};
use crate::fit::Measured;
use crate::sample::{Bench, Cycles};
use crate::Fault;

/// General registers that a kernel with one place may use freely.
const FREE: [Gpr; 11] = [0, 2, 3, 5, 8, 9, 10, 11, 12, 13, 14];
/// Operations of an iteration: so many that the loop's own two count for little, and few enough
/// for every store of decoded operations.
const UNROLL: usize = 240;

pub(super) fn measure(bench: &mut Bench, host: &mut Host) -> Result<(), Fault> {
    let arena = Arena::new(1 << 21, true).map_err(Fault::Memory)?;
    widths(bench, host, &arena)?;
    latencies(bench, host, &arena)?;
    dividers(bench, host, &arena)?;
    forwarding(bench, host, &arena)?;
    strings(bench, host, &arena)?;
    branches(bench, host, &arena)
}

/// Runs code whose places are in an arena that outlives it.
fn cycles(
    bench: &mut Bench,
    code: Code,
    operations: usize,
    arena: &Arena,
) -> Result<Cycles, Fault> {
    // SAFETY: kernels here touch the first page of the arena alone, or follow pointers inside it.
    unsafe { bench.cycles(code, operations, (arena.base(), arena.base())) }
}

/// Records a number, after checking that it repeats.
fn put(
    bench: &Bench,
    host: &mut Host,
    name: &'static str,
    unit: &'static str,
    found: Measured,
) -> Result<(), Fault> {
    bench.check(name, found)?;
    host.put(name, unit, found);
    Ok(())
}

/// An operation by its number in an iteration.
type Body = fn(&mut Code, usize);

/// Operations that do not wait for each other, by kind: how many start in a cycle.
const WIDTHS: [(&str, Body); 11] = [
    ("width.nop", |code, _| {
        code.nops(1);
    }),
    ("width.alu", |code, n| {
        code.add(FREE[n % 11], RCX);
    }),
    ("width.multiply", |code, n| {
        code.imul(FREE[n % 11], RCX);
    }),
    ("width.fp_add", |code, n| {
        code.sse(Sse::Add, (n % 14) as u8, 15);
    }),
    ("width.fp_multiply", |code, n| {
        code.sse(Sse::Multiply, (n % 14) as u8, 15);
    }),
    ("width.fp", |code, n| {
        let op = if n % 2 == 0 { Sse::Add } else { Sse::Multiply };
        code.sse(op, (n % 14) as u8, 15);
    }),
    ("width.vector", |code, n| {
        code.sse(Sse::Integer, (n % 14) as u8, 15);
    }),
    ("width.load", |code, n| {
        // Over all banks of the cache.
        code.load(FREE[n % 11], RSI, (n % 64 * 8) as i32);
    }),
    ("width.store", |code, n| {
        code.store(RCX, RSI, (n % 8 * 8) as i32);
    }),
    // Through two registers: cores that rename memory compare places by base and offset.
    ("width.load_store", |code, n| match n % 3 {
        0 => {
            code.store(RCX, RDX, (2048 + n % 64 * 8) as i32);
        }
        _ => {
            code.load([RAX, RBX, RBP, R8][n % 4], RSI, (n % 64 * 8) as i32);
        }
    }),
    // As programs mix them: half integer, a third memory, the rest floating point.
    ("width.mixed", |code, n| match n % 6 {
        0 | 2 | 4 => {
            code.add(FREE[n / 2 % 5], RCX);
        }
        1 | 3 => {
            code.load(FREE[5 + n % 6], RSI, (n % 64 * 8) as i32);
        }
        _ => {
            code.sse(Sse::Add, (n / 6 % 14) as u8, 15);
        }
    }),
];

fn widths(bench: &mut Bench, host: &mut Host, arena: &Arena) -> Result<(), Fault> {
    for (name, body) in WIDTHS {
        let mut code = Code::new();
        code.set(RCX, 1);
        zero_vectors(&mut code);
        code.top();
        (0..UNROLL).for_each(|n| body(&mut code, n));
        // The loop's end is a further operation that issues: dec and jnz, fused where cores fuse.
        let found = cycles(bench, code, UNROLL, arena)?.inverse(1.0);
        put(bench, host, name, "a cycle", found)?;
    }
    Ok(())
}

/// Denormal or invalid numbers would take another way through the units.
fn zero_vectors(code: &mut Code) {
    for v in 0..16 {
        code.set(RAX, 1f64.to_bits()).to_vector(v, RAX);
    }
}

/// Operations of which each waits for the one before.
fn latencies(bench: &mut Bench, host: &mut Host, arena: &Arena) -> Result<(), Fault> {
    let chains: [(&'static str, usize, Body); 9] = [
        ("latency.alu", UNROLL, |code, _| {
            code.add(RAX, RCX);
        }),
        // There and back: none, if moves are renamed.
        ("latency.move", UNROLL, |code, n| {
            code.copy([RBX, RBP][n % 2], [RBX, RBP][(n + 1) % 2]);
        }),
        ("latency.multiply", UNROLL, |code, _| {
            code.imul(RAX, RCX);
        }),
        // rcx is 1: the quotient is the dividend, of 32 bits, and nothing remains.
        ("latency.divide", 40, |code, _| {
            code.div(RCX);
        }),
        ("latency.vector", UNROLL, |code, _| {
            code.sse(Sse::Integer, 0, 1);
        }),
        ("latency.fp_add", UNROLL, |code, _| {
            code.sse(Sse::Add, 0, 1);
        }),
        ("latency.fp_multiply", UNROLL, |code, _| {
            code.sse(Sse::Multiply, 0, 1);
        }),
        // By 1 the quotient keeps all its digits: v0 is a third.
        ("latency.fp_divide", 40, |code, _| {
            code.sse(Sse::Divide, 2, 1);
        }),
        ("latency.atomic", 40, |code, _| {
            code.lock_add(RCX, RSI, 0);
        }),
    ];
    for (name, count, body) in chains {
        let mut code = Code::new();
        zero_vectors(&mut code);
        code.set(RAX, (1f64 / 3.0).to_bits()).to_vector(2, RAX);
        code.set(RAX, 0x89ab_cdef).set(RDX, 0).set(RCX, 1).top();
        (0..count).for_each(|n| body(&mut code, n));
        let found = cycles(bench, code, count, arena)?;
        // An atomic operation waits for what else is in the store queue: it is not alike each time.
        if name == "latency.atomic" {
            host.put(name, "cycles", found);
        } else {
            put(bench, host, name, "cycles", found)?;
        }
    }
    let mut code = Code::new();
    code.copy(RAX, RSI).top();
    arena.link(&lines(4096, 1));
    // The order begins with whatever line: the chain comes through the first one too.
    (0..UNROLL).for_each(|_| {
        code.load(RAX, RAX, 0);
    });
    let found = cycles(bench, code, UNROLL, arena)?;
    put(bench, host, "latency.load", "cycles", found)?;
    // The same walk with an index, which is 0.
    let mut code = Code::new();
    code.copy(RAX, RSI).set(RCX, 0).top();
    (0..UNROLL).for_each(|_| {
        code.raw(&[0x48, 0x8b, 0x04, 0xc8]); // mov rax, [rax + 8 * rcx]
    });
    let found = cycles(bench, code, UNROLL, arena)?;
    put(bench, host, "latency.load_indexed", "cycles", found)
}

/// Divisions that do not wait for each other: how long each keeps its unit.
fn dividers(bench: &mut Bench, host: &mut Host, arena: &Arena) -> Result<(), Fault> {
    let mut code = Code::new();
    code.set(RCX, 1).top();
    for _ in 0..40 {
        code.raw(&[0xb8]).raw(&0x89ab_cdef_u32.to_le_bytes()); // mov eax, a quotient of 32 bits
        code.raw(&[0x31, 0xd2]).div(RCX); // xor edx, edx
    }
    let found = cycles(bench, code, 40, arena)?;
    put(bench, host, "busy.divide", "cycles", found)?;
    let mut code = Code::new();
    for v in 0..15 {
        code.set(RAX, (1f64 / 3.0).to_bits()).to_vector(v, RAX);
    }
    code.set(RAX, 1f64.to_bits()).to_vector(15, RAX).top();
    (0..56).for_each(|n| {
        code.sse(Sse::Divide, n % 14, 15);
    });
    let found = cycles(bench, code, 56, arena)?;
    put(bench, host, "busy.fp_divide", "cycles", found)
}

/// A store, and a load of the same place that waits for it.
fn forwarding(bench: &mut Bench, host: &mut Host, arena: &Arena) -> Result<(), Fault> {
    for (name, other) in [("forward.same_register", false), ("forward.other_register", true)] {
        let mut code = Code::new();
        code.set(RAX, 1).set(RCX, 0).copy(RBX, RSI).top();
        for _ in 0..60 {
            // Cores that rename memory recognise a place by base and offset; through another
            // register, whose value is late, they have to look into the store queue.
            code.store(RAX, RSI, 0);
            if other {
                code.load(RAX, RBX, 0);
            } else {
                code.load(RAX, RSI, 0);
            }
        }
        let found = cycles(bench, code, 60, arena)?;
        host.put(name, "cycles", found);
    }
    Ok(())
}

/// Bytes that are filled by one instruction, from few to a page.
const FILLED: [u64; 13] = [1, 16, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 3072, 4096];

/// Repeated string instructions: what they take to begin, and what they move then.
fn strings(bench: &mut Bench, host: &mut Host, arena: &Arena) -> Result<(), Fault> {
    let mut points = Vec::new();
    let mut last = None;
    for bytes in FILLED {
        let mut code = Code::new();
        code.copy(R8, RSI).set(RAX, 0).top();
        code.copy(RBX, RDI).copy(RDI, R8).set(RCX, bytes);
        code.raw(&[0xf3, 0xaa]).copy(RDI, RBX); // rep stosb
        let found = cycles(bench, code, 1, arena)?;
        points.push((bytes as f64, found.value));
        last = Some(found);
    }
    if let (Some(found), Some(last)) = (string_costs(&points), last) {
        let named = [
            ("strings.bytes", "bytes a cycle", found.bytes),
            ("strings.start", "cycles", found.start),
            ("strings.short_bytes", "bytes", found.short_bytes),
            ("strings.short_start", "cycles", found.short_start),
        ];
        for (name, unit, value) in named {
            host.put(name, unit, Measured { value, ..last });
        }
    }
    let axes = ("bytes filled by one instruction", "cycles");
    host.curve("strings", axes, points, Vec::new());
    Ok(())
}

/// Costs of repeated string instructions, by a curve of times.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StringCosts {
    /// Bytes that are moved in a cycle, once it goes on.
    bytes: f64,
    /// Cycles that it takes to begin.
    start: f64,
    /// Largest number of bytes that take no longer than the fewest, and what those take.
    short_bytes: f64,
    short_start: f64,
}

/// Reads the costs off times by bytes; `None` where each byte takes about a cycle, so that there
/// is no other way than one by one.
fn string_costs(points: &[(f64, f64)]) -> Option<StringCosts> {
    let time = |bytes: f64| points.iter().find(|p| p.0 == bytes).map(|p| p.1);
    let (few, many) = (time(1024.0)?, time(4096.0)?);
    let bytes = 3072.0 / (many - few);
    if !bytes.is_finite() || bytes < 8.0 {
        return None;
    }
    let low = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let short = points.iter().take_while(|p| p.1 < 1.5 * low).last()?;
    let start = (few - 1024.0 / bytes).max(low);
    Some(StringCosts { bytes, start, short_bytes: short.0, short_start: low })
}

/// Branches of an iteration of the random kernel.
const TOSSES: usize = 16;

fn branches(bench: &mut Bench, host: &mut Host, arena: &Arena) -> Result<(), Fault> {
    // The same code, with bits that are random or all alike: the difference is mispredictions.
    arena.write(0, 0x1234_5678_9abc_def1);
    let random = cycles(bench, toss(1), TOSSES, arena)?;
    let alike = cycles(bench, toss(0), TOSSES, arena)?;
    // Half of fair tosses are guessed wrong, by whatever predictor.
    let found = Measured { value: 2.0 * (random.value - alike.value), ..random };
    put(bench, host, "branch.mispredicted", "cycles", found)?;
    let mut points = Vec::new();
    for depth in (4..=80).step_by(4) {
        let mut code = Code::new();
        code.top().nested_calls(depth);
        points.push((depth as f64, cycles(bench, code, depth, arena)?.value));
    }
    if let Some(depth) = return_entries(&points) {
        host.put("branch.return_entries", "entries", Measured { value: depth, ..random });
    }
    host.curve("returns", ("calls deep", "cycles for a call and its return"), points, Vec::new());
    Ok(())
}

/// Branches by the bits of a random number that `mask` lets through.
fn toss(mask: u64) -> Code {
    let mut code = Code::new();
    // The state goes on from run to run: predictors of today learn thousands of tosses.
    code.load(R8, RSI, 0).set(RCX, mask).set(RBX, 1).top();
    for _ in 0..TOSSES {
        // xorshift64 (Marsaglia 2003)
        for shift in [13, -7, 17] {
            code.copy(RAX, R8).shift(RAX, shift).xor(R8, RAX);
        }
        code.copy(RDX, R8).shift(RDX, -33);
        code.raw(&[0x48, 0x21, 0xca]); // and rdx, rcx
        code.skip_if_odd(RDX, 3).add(RBP, RBX);
    }
    code.store(R8, RSI, 0);
    code
}

/// Tosses after which a predictor knows nothing of what it learnt before: many times as many as any
/// has entries.
const FORGOTTEN_AFTER: u64 = 1 << 19;

/// Clears the branch predictor's history of programs that ran on this CPU before.
///
/// # Errors
///
/// If the kernel does not allow executable memory.
pub fn forget_branches() -> Result<(), Fault> {
    let arena = Arena::new(1 << 12, false).map_err(Fault::Memory)?;
    // Another sequence each time: the last one would be known.
    arena.write(0, halfwink_live::clock::ticks_fenced() | 1);
    let kernel = Kernel::map(&toss(1).finish()).map_err(Fault::Code)?;
    // SAFETY: the kernel touches the first word of the arena alone.
    unsafe { kernel.run(FORGOTTEN_AFTER / TOSSES as u64, arena.base(), std::ptr::null_mut()) };
    Ok(())
}

/// The deepest nest of calls whose returns cost no more than those of shallower ones.
fn return_entries(points: &[(f64, f64)]) -> Option<f64> {
    let low = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let first_high = points.iter().position(|p| p.1 > 1.5 * low)?;
    points.get(first_high.checked_sub(1)?).map(|p| p.0)
}

#[cfg(test)]
mod tests {
    use super::{string_costs, StringCosts};

    #[test]
    fn costs_of_strings_are_read_off_their_times() {
        // As a core of 2023 took them: 12 cycles up to 128 bytes, 32 beyond, 64 bytes a cycle.
        let of = |bytes: f64| if bytes <= 128.0 { 12.0 } else { 32.0 + bytes / 64.0 };
        let points: Vec<_> = super::FILLED.iter().map(|&n| (n as f64, of(n as f64))).collect();
        let expected =
            StringCosts { bytes: 64.0, start: 32.0, short_bytes: 128.0, short_start: 12.0 };
        assert_eq!(string_costs(&points), Some(expected));
        // One byte a cycle: there is no faster way.
        let slow: Vec<_> = super::FILLED.iter().map(|&n| (n as f64, 20.0 + n as f64)).collect();
        assert_eq!(string_costs(&slow), None);
    }
}

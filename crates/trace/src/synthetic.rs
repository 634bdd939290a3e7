//! Synthetic instruction streams whose behaviour is known beforehand: for tests, for benchmarks,
//! and for questions that no recorded program isolates.
//!
//! | name | what it does | bound by |
//! |---|---|---|
//! | `alu` | a loop of dependent and independent integer operations | the pipeline |
//! | `mixed` | loads, stores, arithmetic, and branches, some of them random | a bit of all |
//! | `chase` | follows pointers through a random cycle, a load in four | memory latency |
//! | `stream` | the STREAM kernels copy, scale, add, triad over large arrays | memory bandwidth |

use std::sync::Arc;

use halfwink_units::{PhysAddr, VirtAddr};

use crate::builder::{Builder, FLAGS};
use crate::error::TraceError;
use crate::event::Event;
use crate::program::{Program, TemplateId};
use crate::record::{InstrFlags, Kind, RegSet};
use crate::source::{Address, Item, Source};

/// Parameters of a generated loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Kind of the loop.
    pub kernel: Kernel,
    /// Bytes of memory it works on.
    pub footprint: u64,
    /// Instructions (the last iteration is completed).
    pub instructions: u64,
    /// Makes its random choices.
    pub seed: u64,
    /// Alternates bursts of work with halts of the core.
    pub duty: Option<Duty>,
}

/// Kinds of loops of [`Synthetic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Loop of integer operations.
    Alu,
    /// A bit of all.
    Mixed,
    /// Loop of dependent loads.
    Chase,
    /// Loop of the STREAM benchmark.
    Stream,
}

impl Kernel {
    /// All kernels with their names and default footprints.
    pub const ALL: [(&'static str, Kernel, u64); 4] = [
        ("alu", Kernel::Alu, 4 << 10),
        ("mixed", Kernel::Mixed, 1 << 20),
        ("chase", Kernel::Chase, 256 << 20),
        ("stream", Kernel::Stream, 96 << 20),
    ];
}

/// Cycle of work and rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duty {
    /// Instructions in a burst.
    pub burst: u64,
    /// Nanoseconds halted after each burst.
    pub idle_ns: u64,
}

impl Synthetic {
    /// A stream of these instructions.
    #[must_use]
    pub fn source(self) -> SyntheticSource {
        let mut program = Program::default();
        let body = Body::new(self, &mut program);
        SyntheticSource {
            program: Arc::new(program),
            body,
            spec: self,
            done: 0,
            burst_end: self.duty.map_or(u64::MAX, |duty| duty.burst),
            clock_ns: 0,
            addresses: Vec::new(),
        }
    }
}

/// Generates the trace of a [`Synthetic`].
#[derive(Debug)]
pub struct SyntheticSource {
    program: Arc<Program>,
    body: Body,
    spec: Synthetic,
    done: u64,
    burst_end: u64,
    clock_ns: u64,
    addresses: Vec<Address>,
}

impl Source for SyntheticSource {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        if self.done >= self.burst_end {
            if let Some(duty) = self.spec.duty {
                self.burst_end += duty.burst;
                let from_ns = self.clock_ns;
                self.clock_ns += duty.idle_ns;
                return Ok(Item::Event(Event::Idle { from_ns, to_ns: self.clock_ns }));
            }
        }
        if self.done >= self.spec.instructions && self.body.at_top() {
            return Ok(Item::End);
        }
        self.addresses.clear();
        let template = self.body.step(&mut self.addresses);
        let executed = u64::from(self.program.template(template).executed);
        self.done += executed;
        // As the recorded machine counts time: a nanosecond an instruction.
        self.clock_ns += executed;
        Ok(Item::Run(template))
    }

    fn addresses(&self) -> &[Address] {
        &self.addresses
    }
}

const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x1000_0000;

/// A loop in motion.
#[derive(Debug)]
enum Body {
    Alu,
    Mixed { random: u64, mask: u64, at: u64, part: u8 },
    Chase { at: u64, mask: u64 },
    Stream { array: u64, index: u64, kernel: u8 },
}

impl Body {
    fn new(spec: Synthetic, program: &mut Program) -> Body {
        // Loops wrap by masks: round the footprint up.
        let bytes = spec.footprint.max(64).next_power_of_two();
        match spec.kernel {
            Kernel::Alu => {
                alu_loop(program);
                Body::Alu
            }
            Kernel::Mixed => {
                mixed_loop(program);
                Body::Mixed { random: spec.seed | 1, mask: bytes - 1, at: 0, part: 0 }
            }
            Kernel::Chase => {
                chase_loop(program);
                Body::Chase { at: 0, mask: bytes / 64 - 1 }
            }
            Kernel::Stream => {
                stream_loops(program);
                let array = (spec.footprint / 3).max(64) & !63;
                Body::Stream { array, index: 0, kernel: 0 }
            }
        }
    }

    /// True between iterations, where the stream may end.
    fn at_top(&self) -> bool {
        !matches!(self, Body::Mixed { part: 1.., .. })
    }

    fn step(&mut self, out: &mut Vec<Address>) -> TemplateId {
        let mut touch = |offset: u64| {
            let address =
                Address { virt: VirtAddr(DATA + offset), phys: PhysAddr(DATA + scattered(offset)) };
            out.push(address);
        };
        match self {
            Body::Alu => TemplateId(0),
            Body::Mixed { random, mask, at, part } => {
                *random = xorshift(*random);
                match *part {
                    0 => {
                        touch(*at & *mask & !7);
                        touch((*random >> 20) & *mask & 0x3fff & !7);
                        *at += 8;
                        // One branch in eight goes either way.
                        *part = if *random & 7 == 0 && *random & 8 != 0 { 1 } else { 2 };
                        TemplateId(0)
                    }
                    1 => {
                        *part = 2;
                        TemplateId(1)
                    }
                    _ => {
                        touch((*random >> 24) & *mask & !7);
                        touch((*at & 0x7ff8) & *mask);
                        *part = 0;
                        TemplateId(2)
                    }
                }
            }
            Body::Chase { at, mask } => {
                touch(*at * 64);
                // A full cycle through all lines: multiplier 1 mod 4, odd increment (Hull-Dobell).
                *at = (at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)) & *mask;
                TemplateId(0)
            }
            Body::Stream { array, index, kernel } => {
                let (a, b, c) = (*index, *array + *index, 2 * *array + *index);
                match kernel {
                    0 => [a, c].into_iter().for_each(&mut touch), // c = a
                    1 => [c, b].into_iter().for_each(&mut touch), // b = s c
                    2 => [a, b, c].into_iter().for_each(&mut touch), // c = a + b
                    _ => [b, c, a].into_iter().for_each(&mut touch), // a = b + s c
                }
                let template = TemplateId(u32::from(*kernel));
                *index += 8;
                if *index >= *array {
                    *index = 0;
                    *kernel = (*kernel + 1) % 4;
                }
                template
            }
        }
    }
}

/// Returns the physical address of a byte. Pages lie in frames of no particular order, as on a
/// machine that has run for a while. Otherwise arrays as large as a power of two would collide in
/// the same banks of memory all along.
pub(crate) fn scattered(offset: u64) -> u64 {
    const PAGE_BITS: u32 = 12;
    const SPAN: u64 = (1 << 28) - 1;
    let page = offset >> PAGE_BITS;
    // Within each 2^28 pages a bijection: odd multipliers and shifts that can be undone.
    let mut frame = page & SPAN;
    for _ in 0..2 {
        frame = frame.wrapping_mul(0x9e3_779b1) & SPAN;
        frame ^= frame >> 14;
    }
    ((page & !SPAN | frame) << PAGE_BITS) | (offset & ((1 << PAGE_BITS) - 1))
}

fn xorshift(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

const X0: u32 = RegSet::VECTOR0;

/// Fifteen operations in four chains, and the branch.
fn alu_loop(program: &mut Program) {
    let mut b = Builder::new(program, CODE);
    for n in 0..14 {
        let register = [0, 2, 3, 6][n % 4];
        b.push(Kind::IntAlu, &[register], &[register, FLAGS]);
    }
    b.push(Kind::IntAlu, &[1], &[1, FLAGS]);
    b.branch();
}

fn mixed_loop(program: &mut Program) {
    // Part 0: a sequential load, a load from a hot table, a product; a branch.
    let mut b = Builder::new(program, CODE);
    b.memory(Kind::Move, false, 6, &[], &[0]);
    b.memory(Kind::Move, false, 7, &[], &[2]);
    b.push(Kind::IntMul, &[0, 2], &[3, FLAGS]);
    b.push(Kind::IntAlu, &[6], &[6, FLAGS]);
    b.push(Kind::IntAlu, &[3, 8], &[8, FLAGS]);
    b.push(Kind::IntAlu, &[0], &[FLAGS]);
    b.branch();
    // Part 1, skipped unless that branch falls through: two operations.
    let mut b = Builder::new(program, CODE + 28);
    b.push(Kind::IntAlu, &[9], &[9, FLAGS]);
    b.push(Kind::IntAlu, &[9, 8], &[9, FLAGS]);
    b.finish();
    // Part 2: a random load, floating point, a store; the loop branch.
    let mut b = Builder::new(program, CODE + 36);
    b.memory(Kind::Move, false, 10, &[], &[11]);
    b.push(Kind::FpAdd, &[X0, X0 + 1], &[X0]);
    b.push(Kind::FpMul, &[X0 + 2, X0 + 1], &[X0 + 3]);
    b.push(Kind::IntAlu, &[11, 10], &[10, FLAGS]);
    b.memory(Kind::Move, true, 12, &[8], &[]);
    b.push(Kind::IntAlu, &[12], &[12, FLAGS]);
    b.push(Kind::IntAlu, &[1], &[1, FLAGS]);
    b.branch();
}

/// `mov rax, [rax]; add rbx, rax; dec rcx; jnz`.
fn chase_loop(program: &mut Program) {
    let mut b = Builder::new(program, CODE);
    b.memory(Kind::Move, false, 0, &[], &[0]);
    b.push(Kind::IntAlu, &[3, 0], &[3, FLAGS]);
    b.push(Kind::IntAlu, &[1], &[1, FLAGS]);
    b.branch();
}

fn stream_loops(program: &mut Program) {
    let (rsi, rdi, rdx) = (6, 7, 2);
    for kernel in 0..4 {
        let mut b = Builder::new(program, CODE + 0x100 * kernel);
        b.memory(Kind::Move, false, rsi, &[], &[X0]);
        if kernel >= 2 {
            b.memory(Kind::Move, false, rdx, &[], &[X0 + 1]);
        }
        if kernel == 1 || kernel == 3 {
            b.push(Kind::FpMul, &[X0, X0 + 7], &[X0]);
        }
        if kernel >= 2 {
            b.push(Kind::FpAdd, &[X0, X0 + 1], &[X0]);
        }
        b.memory(Kind::Move, true, rdi, &[X0], &[]);
        b.push(Kind::IntAlu, &[1], &[1, FLAGS]).flags = InstrFlags::default();
        b.branch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn spec(kernel: Kernel, footprint: u64, instructions: u64) -> Synthetic {
        Synthetic { kernel, footprint, instructions, seed: 1, duty: None }
    }

    /// Data lines touched, and instructions.
    fn play(spec: Synthetic) -> (HashSet<u64>, u64, u64) {
        let mut source = spec.source();
        let (mut lines, mut instructions, mut idle_ns) = (HashSet::new(), 0, 0);
        loop {
            match source.next_item().unwrap() {
                Item::Run(id) => {
                    let template = *source.program().template(id);
                    instructions += u64::from(template.executed);
                    assert_eq!(source.addresses().len(), usize::from(template.sites));
                    lines.extend(source.addresses().iter().map(|a| a.phys.0 >> 6));
                }
                Item::Event(Event::Idle { from_ns, to_ns }) => idle_ns += to_ns - from_ns,
                Item::Event(_) => {}
                Item::End => return (lines, instructions, idle_ns),
            }
        }
    }

    #[test]
    fn a_chase_visits_every_line_before_it_repeats() {
        let (lines, instructions, _) = play(spec(Kernel::Chase, 1 << 20, 4 * (1 << 14)));
        assert_eq!((lines.len(), instructions), (1 << 14, 4 << 14));
    }

    #[test]
    fn all_kernels_end_where_they_should() {
        for (name, kernel, footprint) in Kernel::ALL {
            let (_, instructions, _) = play(spec(kernel, footprint, 10_000));
            assert!((10_000..10_020).contains(&instructions), "{name}: {instructions}");
        }
    }

    #[test]
    fn duty_alternates_work_and_rest() {
        let duty = Some(Duty { burst: 1000, idle_ns: 9000 });
        let (_, instructions, idle_ns) = play(Synthetic { duty, ..spec(Kernel::Alu, 64, 100_000) });
        assert_eq!(instructions, 100_000);
        assert!((90 * 9000..=100 * 9000).contains(&idle_ns), "{idle_ns}");
    }

    #[test]
    fn stream_touches_three_arrays() {
        let bytes = 3 << 14;
        let (lines, _, _) = play(spec(Kernel::Stream, bytes, 4 * 6 * (1 << 14) / 8));
        assert_eq!(lines.len() as u64, bytes / 64);
    }
}

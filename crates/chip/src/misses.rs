//! Counting cache misses without time: which accesses of a trace miss in a hierarchy of LRU caches.
//!
//! The rules are those of Valgrind's Cachegrind, so that its counts and these can be compared: an
//! access counts once and misses if any of its lines misses; what misses in a first-level cache
//! accesses the last-level cache; caches allocate on writes, are not inclusive, and start empty; a
//! load and a store of the same bytes by one instruction are one access. The simulated chip
//! differs: out-of-order cores reorder accesses, stores wait in a queue, evicted dirty lines are
//! written to the level below, and caches start as the trace's beginning left them.

use halfwink_trace::{Item, Program, RepeatFold, Source, Template, TraceError};

use crate::cache::Cache;
use crate::lines::{touches, Span, Touch};
use crate::machine::Geometry;

/// Caches of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissSetup {
    /// Shape of the first-level instruction cache.
    pub i1: Geometry,
    /// Shape of the first-level data cache.
    pub d1: Geometry,
    /// Last-level cache, for both.
    pub ll: Geometry,
    /// Only user instructions, as if the kernel left no trace in the caches.
    pub user_only: bool,
    /// Caches see virtual addresses (as Cachegrind does) rather than physical ones.
    pub virtual_addresses: bool,
}

/// Accesses and misses of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissCount {
    /// Accesses; one that touches two lines is one.
    pub accesses: u64,
    /// Accesses that missed in the first-level cache.
    pub l1_misses: u64,
    /// Accesses that missed in the last-level cache too.
    pub ll_misses: u64,
}

/// Accesses and misses of a trace, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissCounts {
    /// Instruction fetches; iterations of a repeated string instruction are one.
    pub fetches: [MissCount; 2],
    /// Loads, and instructions that load and store the same bytes.
    pub loads: [MissCount; 2],
    /// Stores to other bytes than their instruction loaded.
    pub stores: [MissCount; 2],
}

struct Counter {
    i1: Cache,
    d1: Cache,
    ll: Cache,
    counts: MissCounts,
    /// Line of the last fetch: fetching it again can neither miss nor change the order of recency.
    fetched: u64,
}

/// True if any line of the span was not there; all are there afterwards.
fn misses(cache: &mut Cache, span: Span) -> bool {
    let mut missed = false;
    for line in span.lines() {
        if cache.touch(line, 0).is_none() {
            cache.insert(line, 0);
            missed = true;
        }
    }
    missed
}

fn access(l1: &mut Cache, ll: &mut Cache, span: Span, count: &mut MissCount) {
    count.accesses += 1;
    if misses(l1, span) {
        count.l1_misses += 1;
        count.ll_misses += u64::from(misses(ll, span));
    }
}

/// Plays `source` to its end.
///
/// # Errors
/// If the trace is damaged.
pub fn count_misses(source: &mut dyn Source, setup: MissSetup) -> Result<MissCounts, TraceError> {
    let program = std::sync::Arc::clone(source.program());
    let mut fold = RepeatFold::default();
    let mut counter = Counter {
        i1: Cache::new(setup.i1),
        d1: Cache::new(setup.d1),
        ll: Cache::new(setup.ll),
        counts: MissCounts::default(),
        fetched: u64::MAX,
    };
    loop {
        match source.next_item()? {
            Item::Run(id) => {
                let repeat = fold.is_repeat(&program, id);
                let template = program.template(id);
                if !(setup.user_only && program.block(template.block).kernel) {
                    counter.play(&program, template, source, setup, repeat);
                }
            }
            Item::Event(_) => {}
            Item::End => return Ok(counter.counts),
        }
    }
}

impl Counter {
    fn play(
        &mut self,
        program: &Program,
        template: &Template,
        source: &dyn Source,
        setup: MissSetup,
        repeat: bool,
    ) {
        let block = program.block(template.block);
        let mode = usize::from(block.kernel);
        let mut read: Option<(u64, u8)> = None;
        touches(program, template, source.addresses(), |touch| match touch {
            Touch::Fetch(index, instr) => {
                // What is stored after this does not belong to the load of an earlier instruction.
                read = None;
                if repeat && index == 0 {
                    return;
                }
                let pc = if setup.virtual_addresses {
                    block.pc_of(instr)
                } else {
                    Program::instr_phys(block, instr).0
                };
                let span = Span::new(pc, instr.len);
                let fetch = &mut self.counts.fetches[mode];
                if span.first == self.fetched && span.last == self.fetched {
                    fetch.accesses += 1;
                } else {
                    access(&mut self.i1, &mut self.ll, span, fetch);
                    self.fetched = span.last;
                }
            }
            // What faulted is tried again, and counts then.
            Touch::Data(site, _) if site.instr >= template.executed => {}
            Touch::Data(site, address) => {
                let at = if setup.virtual_addresses { address.virt.0 } else { address.phys.0 };
                if site.write && read == Some((at, site.size)) {
                    return;
                }
                let count = if site.write {
                    &mut self.counts.stores[mode]
                } else {
                    read = Some((at, site.size));
                    &mut self.counts.loads[mode]
                };
                access(&mut self.d1, &mut self.ll, Span::new(at, site.size), count);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use halfwink_trace::{Address, Block, Instr, Script, Site};
    use halfwink_units::{PhysAddr, VirtAddr};

    use super::*;

    const TINY: Geometry = Geometry { sets: 1, ways: 2 };
    const SETUP: MissSetup =
        MissSetup { i1: TINY, d1: TINY, ll: TINY, user_only: false, virtual_addresses: true };

    fn at(line: u64) -> Address {
        Address { virt: VirtAddr(line << 6), phys: PhysAddr((line + 100) << 6) }
    }

    fn block(pc: u64, kernel: bool) -> Block {
        let (pc, phys) = (VirtAddr(pc), PhysAddr(pc));
        Block { pc, phys, phys_next_page: PhysAddr(0), kernel, first_instr: 0, instrs: 0 }
    }

    fn load(instr: u16) -> Site {
        Site { instr, size: 8, write: false, group: 0 }
    }

    /// One user instruction that loads from each of `lines`, then stores to the last.
    fn script(lines: &[u64], kernel: bool) -> Script {
        let mut program = Program::default();
        let id = program.push_block(block(0x1000, kernel), &[Instr::nop(0, 4)]);
        let one = program.push_template(id, 1, &[load(0)]);
        let store = Site { write: true, ..load(0) };
        let both = program.push_template(id, 1, &[load(0), store]);
        let mut script = Script::new(Arc::new(program));
        for &line in lines {
            script.run(one, vec![at(line)]);
        }
        script.run(both, vec![at(lines[0]), at(lines[0])]);
        script
    }

    #[test]
    fn misses_of_a_short_trace_are_those_counted_by_hand() {
        // Lines 1 2 1 3 2, then 1 (loaded and stored: one access); two ways, least recent leaves.
        // D1: 1 miss, 2 miss, 1 hit, 3 miss (2 leaves), 2 miss (1 leaves), 1 miss.
        let counts = count_misses(&mut script(&[1, 2, 1, 3, 2], false), SETUP).unwrap();
        assert_eq!(counts.fetches[0], MissCount { accesses: 6, l1_misses: 1, ll_misses: 1 });
        assert_eq!(counts.loads[0].accesses, 6);
        assert_eq!(counts.loads[0].l1_misses, 5);
        assert_eq!(counts.stores[0], MissCount::default());
        assert_eq!(counts.loads[1], MissCount::default());
    }

    #[test]
    fn an_access_across_two_lines_counts_once() {
        let mut program = Program::default();
        let id = program.push_block(block(0x103e, false), &[Instr::nop(0, 4)]);
        let one = program.push_template(id, 1, &[load(0)]);
        let across = Address { virt: VirtAddr(0x3c), phys: PhysAddr(0x3c) };
        let mut script = Script::new(Arc::new(program));
        script.run(one, vec![across]).run(one, vec![across]);
        let wide = Geometry { sets: 1, ways: 8 };
        let setup = MissSetup { ll: wide, ..SETUP };
        let counts = count_misses(&mut script, setup).unwrap();
        let once = MissCount { accesses: 2, l1_misses: 1, ll_misses: 1 };
        assert_eq!((counts.fetches[0], counts.loads[0]), (once, once));
    }

    #[test]
    fn the_kernel_can_be_left_out() {
        let setup = MissSetup { user_only: true, ..SETUP };
        let counts = count_misses(&mut script(&[1, 2], true), setup).unwrap();
        assert_eq!(counts, MissCounts::default());
        let counts = count_misses(&mut script(&[1, 2], true), SETUP).unwrap();
        assert_eq!(counts.loads[1].accesses, 3);
    }
}

//! Translation of addresses: walks by hand, misses in closed form, what loses them.

use halfwink_power::Lost;
use halfwink_trace::Event;
use halfwink_units::Asid;

use super::losing::losing;
use super::*;
use crate::{Geometry, MemoryKind, TlbCounts, TlbLevelSpec, TlbSpec};

fn array(sets: usize, ways: usize) -> Geometry {
    Geometry { sets, ways }
}

/// Fully associative buffers of so many entries.
fn tlb(first: usize, second: usize, walk_cache: usize) -> TlbSpec {
    let level = TlbLevelSpec { all: array(1, first), large: None };
    TlbSpec {
        instruction: level,
        data: level,
        second: array(1, second),
        second_latency: 7,
        walkers: 1,
        walk_cache,
        large: [false; 2],
        pcid: true,
    }
}

/// The same machine with so small buffers that nearly everything misses.
pub(super) fn translating(machine: Machine, walkers: usize, walk_cache: usize) -> Machine {
    let small = tlb(2, 4, walk_cache);
    Machine { tlb: Some(TlbSpec { walkers, ..small }), ..machine }
}

/// Memory that always takes 20 ns.
fn uniform(kind: &str) -> Machine {
    let mut machine = simple(kind);
    machine.memory.kind = MemoryKind::Uniform { latency: Time::ns(20), ranks: 1 };
    machine
}

fn with(machine: &Machine, tlb: TlbSpec) -> Machine {
    Machine { tlb: Some(tlb), ..machine.clone() }
}

/// Loads from each of these in turn, `rounds` times; all lines are in the second level or nearer.
fn loads(machine: &Machine, bytes: &[u64], rounds: usize) -> RunResult {
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(2, &[1])]);
    let (mut script, lines) = writer.script();
    for _ in 0..rounds {
        for &byte in bytes {
            script.run(block, vec![at(byte)]);
        }
    }
    run(machine, "always-on", vec![task(script, warm(&lines, bytes))])
}

#[test]
fn a_walk_takes_what_its_reads_take() {
    for kind in KINDS {
        let machine = uniform(kind);
        let plain = loads(&machine, &[DATA], 1);
        let walked = loads(&with(&machine, tlb(4, 8, 0)), &[DATA], 1);
        // The code's page: four entries from memory, 1 + 4 + 10 + 3 + 20 + 2 each, behind the 7
        // cycles of the second level. The data's lies in the same tables, which the second level
        // has by then: three entries of 5, and one from memory.
        assert_eq!(ns(&walked) - ns(&plain), 7 + 4 * 40 + 7 + 3 * 5 + 40, "{kind}");
        let counts = walked.cores[0].tlb;
        assert_eq!((counts.walks, counts.walk_reads, counts.walk_misses), ([2, 0], [8, 0], [5, 0]));
        // With walk caches the second walk reads its leaf alone.
        let cached = loads(&with(&machine, tlb(4, 8, 4)), &[DATA], 1);
        assert_eq!(ns(&walked) - ns(&cached), 3 * 5, "{kind}");
        assert_eq!(cached.cores[0].tlb.walk_reads, [5, 0]);
        let rows = walked.books.named_rows();
        let own =
            rows.filter(|(name, _, cause, _)| *name == "core0" && cause.reason == "tlb-stall");
        let time = own.fold(Time::ZERO, |sum, row| sum + row.3.time);
        // But for cycles in which something else still went on.
        assert!(time >= Time::ns(7 + 4 * 40 + 7 + 3 * 5 + 40 - 4), "{kind} {time:?}");
        assert_eq!(plain.cores[0].tlb, TlbCounts::default());
    }
}

#[test]
fn misses_of_a_walk_through_pages_are_those_of_its_length() {
    let page = |n: u64| DATA + n * 4096 + n % 64 * 64;
    let rounds = 5;
    for kind in KINDS {
        // Each load waits for the one before it, on either kind of core.
        let counts = |pages: u64| {
            let bytes: Vec<u64> = (0..pages).map(page).collect();
            loads(&with(&uniform(kind), tlb(8, 32, 4)), &bytes, rounds).cores[0].tlb
        };
        // One page of code beside the data's, which the first level keeps apart.
        let fits = counts(8);
        assert_eq!((fits.data_misses[0], fits.walks[0]), (8, 9), "{kind}");
        // In the second level: each access misses the first, and is walked once.
        let second = counts(16);
        assert_eq!((second.data_misses[0], second.walks[0]), (16 * 5, 17), "{kind}");
        // In neither: LRU in a loop of more than fits always misses.
        let none = counts(40);
        assert_eq!((none.data_misses[0], none.walks[0]), (40 * 5, 40 * 5 + 1), "{kind}");
        // The last level above the leaves is always in the walk caches, but for the first walk.
        assert_eq!(none.walk_reads[0], none.walks[0] + 3, "{kind}");
        assert_eq!(none.data_accesses[0], 40 * 5);
        assert_eq!((none.instruction_accesses[0], none.instruction_misses[0]), (1, 1));
    }
}

#[test]
fn large_pages_are_walked_once_for_512_small_ones() {
    let bytes: Vec<u64> = (0..40).map(|n| DATA + n * 4096).collect();
    let spec = TlbSpec { large: [true, false], ..tlb(8, 32, 4) };
    let counts = loads(&with(&uniform("in-order"), spec), &bytes, 3).cores[0].tlb;
    // Code and data lie in the first 2 MB: the second walk finds the page in the second level.
    assert_eq!((counts.data_misses[0], counts.walks[0], counts.walk_reads[0]), (1, 1, 3));
}

/// A store and a load that reach into the next page need both pages.
#[test]
fn an_access_to_two_pages_translates_both() {
    for kind in KINDS {
        for step in [load(1, 2), store(1, 2)] {
            let mut writer = Writer::new();
            let block = writer.block(&[step]);
            let (mut script, lines) = writer.script();
            script.run(block, vec![at(DATA + 4092)]);
            let machine = with(&uniform(kind), tlb(2, 2, 0));
            let warm = warm(&lines, &[DATA + 4092, DATA + 4096]);
            let counts = run(&machine, "always-on", vec![task(script, warm)]).cores[0].tlb;
            assert_eq!((counts.data_accesses[0], counts.data_misses[0]), (2, 2), "{kind}");
        }
    }
}

#[test]
fn a_switch_of_page_tables_keeps_what_is_told_apart() {
    let walks = |pcid: bool| {
        let mut writer = Writer::new();
        let user = writer.block(&[load(1, 2)]);
        // A kernel's address in the upper half, in low memory.
        let code = Block {
            pc: VirtAddr(0xffff_8000_0000_0000),
            phys: PhysAddr(0x8_0000),
            phys_next_page: PhysAddr(0x8_1000),
            kernel: true,
            first_instr: 0,
            instrs: 0,
        };
        let code = writer.program.push_block(code, &[Instr::nop(0, 4)]);
        let kernel = writer.program.push_template(code, 1, &[]);
        let (mut script, lines) = writer.script();
        for round in 0..4 {
            script.event(Event::AddressSpace(Asid(round % 2)));
            script.run(user, vec![at(DATA)]).run(kernel, vec![]);
        }
        let machine = with(&uniform("in-order"), TlbSpec { pcid, ..tlb(8, 32, 0) });
        let result = run(&machine, "always-on", vec![task(script, warm(&lines, &[DATA]))]);
        result.cores[0].tlb.walks
    };
    // Code and data of two spaces, and the kernel's page, which is in both; or of each switch.
    assert_eq!(walks(true), [4, 1]);
    assert_eq!(walks(false), [8, 1]);
}

#[test]
fn a_sleep_may_lose_translations() {
    for kind in KINDS {
        let walks = |loses: &[Lost]| {
            let mut writer = Writer::new();
            let block = writer.block(&[load(1, 2), alu(3, &[1])]);
            let (mut script, lines) = writer.script();
            for round in 0..2 {
                script.run(block, vec![at(DATA)]);
                let from_ns = 10_000 * round;
                script.event(Event::Idle { from_ns, to_ns: from_ns + 1_000 });
            }
            script.run(block, vec![at(DATA)]);
            let machine = losing(with(&uniform(kind), tlb(4, 8, 4)), loses, 0.0);
            let result = run(&machine, "idle-gate", vec![task(script, warm(&lines, &[DATA]))]);
            (result.cores[0].tlb.walks[0], result.cores[0].losses.losses)
        };
        assert_eq!(walks(&[]), (2, 0), "{kind}");
        assert_eq!(walks(&[Lost::Tlb]), (6, 2), "{kind}");
    }
}

/// Policies see the reads of a walk as what they are: accesses to memory.
#[test]
fn cores_sleep_through_walks() {
    let bytes: Vec<u64> = (0..200).map(|n| DATA + n * 8 * 4096).collect();
    for kind in KINDS {
        let machine = with(&simple(kind), tlb(2, 4, 0));
        let mut writer = Writer::new();
        let block = writer.block(&[load(1, 1), alu(1, &[1])]);
        let (mut script, lines) = writer.script();
        for &byte in &bytes {
            script.run(block, vec![at(byte)]);
        }
        let play = |technique| {
            let source = script.clone();
            run(&machine, technique, vec![task(source, warm(&lines, &bytes))])
        };
        let on = play("always-on");
        for technique in ["tap", "oracle"] {
            let slept = play(technique);
            assert_eq!(slept.duration, on.duration, "{kind} {technique}");
            assert!(slept.cores[0].wakes > 100, "{kind} {technique} {}", slept.cores[0].wakes);
        }
        assert!(play("mapg-counter").cores[0].wakes > 100, "{kind}");
    }
}

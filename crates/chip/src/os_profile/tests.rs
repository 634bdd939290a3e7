//! Closed cases first, then properties of random scripts.

use halfwink_trace::{Address, Block, Instr, InstrFlags, Script, Site, TemplateId, WarmLine};
use halfwink_units::{Asid, LineAddr, PhysAddr, VirtAddr};
use proptest::prelude::*;

use super::*;

const TWO_WAYS: Geometry = Geometry { sets: 1, ways: 2 };
const LARGE: Geometry = Geometry { sets: 64, ways: 8 };

fn caches(l1: Geometry, unified: &[Geometry]) -> ProfileCaches {
    ProfileCaches { l1i: l1, l1d: l1, unified: unified.to_vec() }
}

/// Blocks of three instructions and of one that loads, for user (0) and kernel (1), each in a line
/// of its own, and an instruction of each that faults on its load.
struct Blocks {
    program: Arc<Program>,
    three: [TemplateId; 2],
    load: [TemplateId; 2],
    fault: [TemplateId; 2],
}

fn blocks() -> Blocks {
    let mut program = Program::default();
    let site = Site { instr: 0, size: 8, write: false, group: 0 };
    let mut make = |kernel: bool| {
        let at = if kernel { 0x80_0000 } else { 0x1000 };
        let block = |at: u64| Block {
            pc: VirtAddr(at),
            phys: PhysAddr(at),
            phys_next_page: PhysAddr(0),
            kernel,
            first_instr: 0,
            instrs: 0,
        };
        let nops = [Instr::nop(0, 4), Instr::nop(4, 4), Instr::nop(8, 4)];
        let long = program.push_block(block(at), &nops);
        let short = program.push_block(block(at + 64), &nops[..1]);
        let three = program.push_template(long, 3, &[]);
        let load = program.push_template(short, 1, &[site]);
        (three, load, program.push_template(short, 0, &[site]))
    };
    let (user, kernel) = (make(false), make(true));
    Blocks {
        program: Arc::new(program),
        three: [user.0, kernel.0],
        load: [user.1, kernel.1],
        fault: [user.2, kernel.2],
    }
}

fn at(line: u64) -> Vec<Address> {
    vec![Address { virt: VirtAddr(line << 6), phys: PhysAddr(line << 6) }]
}

fn syscall(number: u32) -> Event {
    Event::Syscall { number, args: [0; 6] }
}

fn profile(script: &mut Script, caches: &ProfileCaches) -> OsProfile {
    os_profile(script, &WarmSet::default(), caches).unwrap()
}

fn pairs(lengths: &Lengths) -> Vec<(u64, u64)> {
    lengths.iter().collect()
}

#[test]
fn run_lengths_by_hand() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    // 3 user; read: 6 kernel with a timer inside; 4 user; page fault: 1 kernel; 3 user, cut.
    script.run(b.three[0], vec![]).event(syscall(0));
    script.run(b.three[1], vec![]).event(Event::Interrupt { vector: 0xec });
    script.event(Event::Idle { from_ns: 0, to_ns: 5 }).run(b.three[1], vec![]);
    script.run(b.three[0], vec![]).run(b.load[0], at(1)).run(b.fault[0], at(2));
    script.event(Event::Exception { vector: 14 }).run(b.load[1], at(3));
    script.run(b.three[0], vec![]);
    let found = profile(&mut script, &caches(LARGE, &[]));
    assert_eq!(found.instructions, [10, 7]);
    let read = &found.entries[&Entry::Syscall(0)];
    assert_eq!((pairs(&read.user), pairs(&read.kernel)), (vec![(3, 1)], vec![(6, 1)]));
    assert_eq!((read.nested, read.halts), (1, 1));
    let fault = &found.entries[&Entry::Exception(14)];
    assert_eq!((pairs(&fault.user), pairs(&fault.kernel)), (vec![(4, 1)], vec![(1, 1)]));
    let cut = &found.entries[&Entry::Unknown];
    assert_eq!((pairs(&cut.user), pairs(&cut.kernel)), (vec![(3, 1)], vec![]));
    assert_eq!(found.entries.len(), 3);
    let all = found.kernel_lengths();
    assert_eq!((all.runs(), all.instructions()), (2, 7));
    assert_eq!([0, 1, 5, 6].map(|n| all.longer_than(n)), [(2, 7), (1, 6), (1, 6), (0, 0)]);
    assert_eq!([0.0, 0.5, 0.51, 1.0].map(|q| all.quantile(q)), [1, 1, 6, 6].map(Some));
    assert_eq!(Lengths::default().quantile(0.5), None);
}

#[test]
fn page_tables_are_switched_when_they_change() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    // The first only says which are in use; the same again is no switch; each CPU has its own.
    for space in [7, 7, 8, 7] {
        script.event(Event::AddressSpace(Asid(space))).run(b.three[0], vec![]);
    }
    script.event(Event::Cpu(1)).event(Event::AddressSpace(Asid(9))).run(b.three[0], vec![]);
    assert_eq!(profile(&mut script, &caches(LARGE, &[])).address_space_switches, 2);
}

#[test]
fn what_retires_nothing_ends_nothing() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    // The kernel returns to an instruction that faults at once: one invocation.
    script.run(b.three[1], vec![]).run(b.fault[0], at(1)).event(Event::Exception { vector: 14 });
    script.run(b.three[1], vec![]);
    let found = profile(&mut script, &caches(LARGE, &[]));
    let cut = &found.entries[&Entry::Unknown];
    assert_eq!((pairs(&cut.kernel), cut.nested), (vec![(6, 1)], 1));
    assert_eq!(found.footprint, Footprint { user: 1, kernel: 1, shared: 0 });
}

#[test]
fn an_event_that_leads_nowhere_causes_nothing() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    script.run(b.three[0], vec![]).event(syscall(7)).run(b.three[0], vec![]);
    script.event(Event::Interrupt { vector: 32 }).run(b.three[1], vec![]);
    let found = profile(&mut script, &caches(LARGE, &[]));
    let entries: Vec<&Entry> = found.entries.keys().collect();
    assert_eq!(entries, [&Entry::Interrupt(32)]);
    assert_eq!(pairs(&found.user_lengths()), [(6, 1)]);
}

#[test]
fn iterations_of_a_repeated_instruction_are_one() {
    let mut program = Program::default();
    let mut instr = Instr::nop(0, 2);
    instr.flags = InstrFlags::REP;
    let block = Block {
        pc: VirtAddr(0x40),
        phys: PhysAddr(0x40),
        phys_next_page: PhysAddr(0),
        kernel: true,
        first_instr: 0,
        instrs: 0,
    };
    let id = program.push_block(block, &[instr]);
    let once = program.push_template(id, 1, &[]);
    let mut script = Script::new(Arc::new(program));
    script.run(once, vec![]).run(once, vec![]).run(once, vec![]);
    let found = profile(&mut script, &caches(LARGE, &[]));
    assert_eq!(found.instructions, [0, 1]);
    assert_eq!(pairs(&found.kernel_lengths()), [(1, 1)]);
    assert_eq!(found.levels[0].counts.accesses, [0, 1]);
}

#[test]
fn misses_and_evictions_by_hand() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    // Two ways. User 1, 2; kernel 2 (hit), 3 (user's 1 leaves), 4 (user's 2 leaves); user 3 (hit,
    // stays the kernel's), 1 (the kernel's 4 leaves), 2 (the kernel's 3 leaves).
    script.run(b.load[0], at(1)).run(b.load[0], at(2)).event(syscall(1));
    script.run(b.load[1], at(2)).run(b.load[1], at(3)).run(b.load[1], at(4));
    script.run(b.load[0], at(3)).run(b.load[0], at(1)).run(b.load[0], at(2));
    let found = profile(&mut script, &caches(TWO_WAYS, &[LARGE]));
    let l1d = found.levels[1];
    let counts = LevelCounts { accesses: [5, 3], misses: [4, 2], evictions: [[0, 2], [2, 0]] };
    assert_eq!(l1d.counts, counts);
    assert_eq!(l1d.by_length, [[2, 0], [0; 2], [0; 2], [0; 2], [0; 2]]);
    // One line of code each; a fetch is counted when the line changes.
    assert_eq!(found.levels[0].counts.misses, [1, 1]);
    assert_eq!(found.levels[0].counts.accesses, [2, 1]);
    // Behind both: 6 misses of data and 2 of code come; six lines are new.
    let l2 = found.levels[2].counts;
    assert_eq!((l2.accesses, l2.misses, l2.evictions), ([5, 3], [3, 3], [[0; 2]; 2]));
    // Code and data: user 1 and its code; kernel 4 and its code; both 2, 3.
    assert_eq!(found.footprint, Footprint { user: 2, kernel: 2, shared: 2 });
}

#[test]
fn evictions_wait_for_the_length_of_their_invocation() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    script.run(b.load[0], at(1)).run(b.load[0], at(2)).event(syscall(1));
    // Evicts at its start, and turns out 31 instructions long; its switch of CPU changes nothing.
    script.run(b.load[1], at(3)).event(Event::Cpu(1)).run(b.load[0], at(1)).event(Event::Cpu(0));
    for _ in 0..10 {
        script.run(b.three[1], vec![]);
    }
    let found = profile(&mut script, &caches(TWO_WAYS, &[]));
    assert_eq!(found.levels[1].by_length[..2], [[0, 0], [1, 0]]);
    assert_eq!(found.levels[1].counts.evictions, [[1, 0], [1, 0]]);
    assert_eq!(pairs(&found.kernel_lengths()), [(31, 1)]);
    assert_eq!(pairs(&found.user_lengths()), [(1, 1), (2, 1)]);
}

#[test]
fn warm_lines_hit_and_can_be_evicted() {
    let b = blocks();
    let line = |line| WarmLine { line: LineAddr(line), code: false, dirty: false, kernel: true };
    let warm = WarmSet { lines: vec![line(1), line(2)] };
    let mut script = Script::new(Arc::clone(&b.program));
    script.run(b.load[0], at(2)).run(b.load[0], at(3));
    let found = os_profile(&mut script, &warm, &caches(TWO_WAYS, &[])).unwrap();
    let counts = LevelCounts { accesses: [2, 0], misses: [1, 0], evictions: [[0, 1], [0; 2]] };
    assert_eq!(found.levels[1].counts, counts);
    assert_eq!(found.footprint.user, 3);
}

/// One step of a random script: what, by whom, on which line.
type Step = (u8, bool, u64);

fn play(steps: &[Step]) -> Script {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    for &(what, kernel, line) in steps {
        let mode = usize::from(kernel);
        match what {
            0 => script.run(b.three[mode], vec![]),
            1..=4 => script.run(b.load[mode], at(line)),
            5 => script.run(b.fault[mode], at(line)),
            6 => script.event(syscall(line as u32)),
            7 => script.event(Event::Interrupt { vector: line as u8 }),
            _ => script.event(Event::Cpu(line as u16 % 3)),
        };
    }
    script
}

proptest! {
    #[test]
    fn profile_counts_add_up_to_instructions(
        steps in prop::collection::vec((0u8..9, any::<bool>(), 0u64..40), 0..300),
    ) {
        let setup = caches(TWO_WAYS, &[Geometry { sets: 2, ways: 4 }, LARGE]);
        let found = profile(&mut play(&steps), &setup);
        let retired = |kernel| steps.iter().filter(|s| s.1 == kernel).map(|s| match s.0 {
            0 => 3,
            1..=4 => 1,
            _ => 0,
        }).sum::<u64>();
        prop_assert_eq!(found.instructions, [retired(false), retired(true)]);
        // Without caches the runs are the same.
        let OsProfile { instructions, entries, address_space_switches, .. } = found.clone();
        let none = OsProfile::default();
        let runs = OsProfile { instructions, entries, address_space_switches, ..none };
        prop_assert_eq!(run_profile(&mut play(&steps)).unwrap(), runs);
        prop_assert_eq!(found.user_lengths().instructions(), retired(false));
        prop_assert_eq!(found.kernel_lengths().instructions(), retired(true));
        let data = steps.iter().filter(|s| (1..=5).contains(&s.0)).count() as u64;
        prop_assert_eq!(found.levels[1].counts.accesses.iter().sum::<u64>(), data);
        for mode in 0..2 {
            // What misses in a level asks the next one.
            let misses: Vec<u64> = found.levels.iter().map(|l| l.counts.misses[mode]).collect();
            let asked: Vec<u64> = found.levels.iter().map(|l| l.counts.accesses[mode]).collect();
            prop_assert_eq!(misses[0] + misses[1], asked[2]);
            prop_assert_eq!(misses[2], asked[3]);
        }
        for level in &found.levels {
            for owner in 0..2 {
                let sorted: u64 = level.by_length.iter().map(|class| class[owner]).sum();
                prop_assert_eq!(sorted, level.counts.evictions[1][owner]);
            }
            for mode in 0..2 {
                let evicted: u64 = level.counts.evictions[mode].iter().sum();
                prop_assert!(evicted <= level.counts.misses[mode]);
            }
        }
        // The last level holds everything: it misses once for each line.
        let Footprint { user, kernel, shared } = found.footprint;
        let missed: u64 = found.levels[3].counts.misses.iter().sum();
        prop_assert_eq!(missed, user + kernel + shared);
    }
}

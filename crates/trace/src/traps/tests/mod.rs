//! Traps by hand; `random` has what holds whatever comes.

mod random;

use std::sync::Arc;

use halfwink_units::{Asid, PhysAddr, VirtAddr};

use super::*;
use crate::kernel_run::{KernelRun, KernelRuns};
use crate::program::{Block, Site};
use crate::record::{Branch, Instr, Kind};
use crate::script::Script;

/// Lengths that tell handlers apart.
const MODEL: TrapModel = TrapModel {
    windows: WindowModel { windows: 8, leaf_calls_save: true, clean_windows: false },
    tlb: TlbModel {
        page_bytes: 8192,
        instruction: TlbShape { entries: 4, ways: 4 },
        data: TlbShape { entries: 4, ways: 2 },
        kernel_page_bytes: 1 << 22,
        kernel_data: TlbShape { entries: 2, ways: 2 },
        kernel_image_bytes: 1 << 31,
        tsb_entries: 64,
    },
    handlers: HandlerLengths {
        user_spill: 101,
        user_fill: 102,
        clean_window: 103,
        kernel_spill: 104,
        kernel_fill: 105,
        entry_spill: 106,
        exit_fill: 107,
        instruction_tsb_hit: 108,
        instruction_tsb_miss: 109,
        data_tsb_hit: 110,
        data_tsb_miss: 111,
        kernel_data: 112,
    },
};

/// Of programs. All code lies in one, whose miss begins every script: the beginning cuts that run.
const PAGE: u64 = 8192;

#[derive(Clone)]
struct Blocks {
    program: Arc<Program>,
    /// Calls, returns, and five plain instructions, of user and kernel.
    call: [TemplateId; 2],
    ret: [TemplateId; 2],
    plain: [TemplateId; 2],
    iret: TemplateId,
    /// Four user instructions, of which the second and the fourth load.
    loads: TemplateId,
    /// One kernel instruction that loads.
    kernel_load: TemplateId,
    /// Instructions of which none retires: the first faults. Of user and kernel.
    faults: [TemplateId; 2],
    /// A user call in the middle of three instructions.
    middle: TemplateId,
}

fn blocks() -> Blocks {
    let mut program = Program::default();
    let mut next = 0;
    let mut block = |program: &mut Program, kernel: bool, code: &[Instr]| {
        next += 64;
        let base = if kernel { 0xffff_ffff_8100_0000 } else { 10 * PAGE };
        let block = Block {
            pc: VirtAddr(base + next),
            phys: PhysAddr(0x10_0000 + next),
            phys_next_page: PhysAddr(0),
            kernel,
            first_instr: 0,
            instrs: 0,
        };
        program.push_block(block, code)
    };
    let nop = |n: u16| Instr::nop(n, 1);
    let branch = |n: u16, branch| Instr { kind: Kind::Branch, branch, ..nop(n) };
    let load = |instr| Site { instr, size: 8, write: false, group: 0 };
    let mut both = |code: &[Instr]| {
        [false, true].map(|kernel| {
            let id = block(&mut program, kernel, code);
            program.push_template(id, code.len() as u16, &[])
        })
    };
    let call = both(&[nop(0), branch(1, Branch::Call)]);
    let ret = both(&[nop(0), branch(1, Branch::Return)]);
    let plain = both(&[nop(0), nop(1), nop(2), nop(3), nop(4)]);
    let [_, iret] = both(&[branch(0, Branch::Iret)]);
    let [middle, _] = both(&[nop(0), branch(1, Branch::IndirectCall), nop(2)]);
    let four = block(&mut program, false, &[nop(0), nop(1), nop(2), nop(3)]);
    let loads = program.push_template(four, 4, &[load(1), load(3)]);
    let one = block(&mut program, true, &[nop(0)]);
    let faults = [four, one].map(|block| program.push_template(block, 0, &[load(0)]));
    let kernel_load = program.push_template(one, 1, &[load(0)]);
    let program = Arc::new(program);
    Blocks { program, call, ret, plain, iret, loads, kernel_load, faults, middle }
}

fn at(address: u64) -> Address {
    Address { virt: VirtAddr(address), phys: PhysAddr(address % (1 << 30)) }
}

const READ: Event = Event::Syscall { number: 0, args: [3, 0, 0, 0, 0, 0] };
const TICK: Event = Event::Interrupt { vector: 236 };

/// A kernel run: what led to it, and its length.
type Run = (Option<Event>, u64);

/// Kernel runs with traps, and instructions by privilege.
fn runs(script: Script, model: TrapModel) -> (Vec<Run>, TrapCounts, [u64; 2]) {
    let mut runs = KernelRuns::new(Traps::new(script, model));
    let mut all = Vec::new();
    while let Some(KernelRun { cause, instructions, .. }) = runs.next_run().unwrap() {
        all.push((cause, instructions));
    }
    (all, *runs.source().counts(), runs.instructions)
}

fn trap(trap: Trap, instructions: u64) -> Run {
    (Some(Event::Exception { vector: trap.vector() }), instructions)
}

#[test]
fn a_recursion_spills_and_fills() {
    for (depth, leaf_calls_save, traps) in
        [(6, true, 0), (7, true, 1), (20, true, 14), (7, false, 0), (8, false, 1), (20, false, 13)]
    {
        let b = blocks();
        let mut script = Script::new(Arc::clone(&b.program));
        (0..depth).for_each(|_| {
            script.run(b.call[0], vec![]);
        });
        script.run(b.plain[0], vec![]);
        (0..depth).for_each(|_| {
            script.run(b.ret[0], vec![]);
        });
        script.run(b.plain[0], vec![]);
        let windows = WindowModel { leaf_calls_save, ..MODEL.windows };
        let (all, counts, instructions) = runs(script, TrapModel { windows, ..MODEL });
        let mut expected = vec![trap(Trap::WindowSpill, 101); traps];
        expected.extend(vec![trap(Trap::WindowFill, 102); traps]);
        assert_eq!(all, expected, "{depth} deep, leaves save: {leaf_calls_save}");
        assert_eq!(counts.of(Trap::WindowSpill), [traps as u64, 0]);
        assert_eq!(instructions, [4 * depth + 10, 109 + traps as u64 * 203]);
    }
}

#[test]
fn a_deep_kernel_costs_the_user_its_windows() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    (0..3).for_each(|_| {
        script.run(b.call[0], vec![]);
    });
    script.run(b.plain[0], vec![]).event(READ);
    // The entry takes one of the three free windows, two calls the others, three write the user's.
    (0..5).for_each(|_| {
        script.run(b.call[1], vec![]);
    });
    script.run(b.plain[1], vec![]);
    (0..5).for_each(|_| {
        script.run(b.ret[1], vec![]);
    });
    script.run(b.plain[1], vec![]);
    // One window is left of four: two returns more, two fills.
    (0..3).for_each(|_| {
        script.run(b.ret[0], vec![]);
    });
    script.run(b.plain[0], vec![]);
    let (all, counts, _) = runs(script, MODEL);
    let read = (Some(READ), 5 * 2 + 5 + 5 * 2 + 5 + 3 * 101);
    let fill = trap(Trap::WindowFill, 102);
    assert_eq!(all, [read, fill, fill, fill]);
    assert_eq!((counts.entry_spills, counts.exit_fills), (0, 0));
}

#[test]
fn entries_spill_and_exits_fill() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    (0..6).for_each(|_| {
        script.run(b.call[0], vec![]);
    });
    script.run(b.plain[0], vec![]).event(TICK).run(b.plain[1], vec![]).run(b.plain[0], vec![]);
    // Another address space: the five windows that are the user's still, and the kernel's call.
    script.event(READ).run(b.call[1], vec![]).run(b.plain[1], vec![]);
    script.event(Event::AddressSpace(Asid(5))).run(b.plain[1], vec![]).run(b.plain[0], vec![]);
    let windows = WindowModel { leaf_calls_save: true, clean_windows: true, windows: 8 };
    let (all, counts, _) = runs(script, TrapModel { windows, ..MODEL });
    let read = 2 + 101 + 5 + (104 + 5 * 101) + 5 + 107;
    let miss = trap(Trap::InstructionTlbMiss, 109);
    assert_eq!(all, [(Some(TICK), 106 + 5), (Some(READ), read), miss]);
    assert_eq!((counts.entry_spills, counts.exit_fills, counts.flushed), (1, 1, 6));
}

#[test]
fn windows_of_the_kernel_are_cleaned_for_the_user() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    script.run(b.plain[0], vec![]).event(TICK).run(b.plain[1], vec![]);
    (0..2).for_each(|_| {
        script.run(b.call[0], vec![]);
    });
    script.run(b.plain[0], vec![]);
    let windows = WindowModel { clean_windows: true, ..MODEL.windows };
    let (all, ..) = runs(script, TrapModel { windows, ..MODEL });
    let clean = trap(Trap::CleanWindow, 103);
    assert_eq!(all, [(Some(TICK), 5), clean, clean]);
}

#[test]
fn nested_interrupts_take_windows_and_give_them_back() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    script.run(b.plain[0], vec![]).event(READ).run(b.plain[1], vec![]);
    // Six windows: one of the entry, one of the call, five interrupts inside one another.
    script.run(b.call[1], vec![]).run(b.plain[1], vec![]);
    (0..5).for_each(|_| {
        script.event(TICK).run(b.plain[1], vec![]);
    });
    (0..5).for_each(|_| {
        script.run(b.iret, vec![]);
    });
    script.run(b.plain[1], vec![]).run(b.ret[1], vec![]).run(b.plain[1], vec![]);
    script.run(b.plain[0], vec![]);
    let (all, counts, _) = runs(script, MODEL);
    // The fifth interrupt writes the user's window, which the return to the user reads again.
    let length = 5 + 2 + 5 + 5 * 5 + 101 + 5 + 5 + 2 + 5 + 107;
    assert_eq!(all, [(Some(READ), length)]);
    assert_eq!(counts.of(Trap::WindowSpill), [0, 1]);
}

#[test]
fn fault_behind_an_interrupt_keeps_the_window_that_is_due_back() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    script.run(b.plain[0], vec![]).event(READ).run(b.plain[1], vec![]);
    // Each time, the instruction that the interrupt returned to faults and is tried again.
    (0..10).for_each(|_| {
        script.event(TICK).run(b.plain[1], vec![]).run(b.iret, vec![]);
        script.run(b.faults[1], vec![at(0xffff_ffff_8200_0000)]);
        script.event(Event::Exception { vector: 14 }).run(b.plain[1], vec![]).run(b.iret, vec![]);
        script.run(b.plain[1], vec![]);
    });
    script.run(b.plain[0], vec![]);
    let (_, counts, _) = runs(script, MODEL);
    assert_eq!((counts.of(Trap::WindowSpill), counts.exit_fills), ([0, 0], 0));
}

#[test]
fn a_block_is_cut_where_its_data_miss() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    // Two misses in one execution; then one hits and one misses; then a fault, which waits.
    script.run(b.loads, vec![at(40 * PAGE), at(41 * PAGE)]);
    script.run(b.loads, vec![at(40 * PAGE), at(42 * PAGE)]);
    script
        .run(b.faults[0], vec![at(60 * PAGE)])
        .event(TICK)
        .run(b.kernel_load, vec![at(61 * PAGE)]);
    script.run(b.plain[0], vec![]);
    let mut traps = Traps::new(script.clone(), MODEL);
    let mut seen = Vec::new();
    loop {
        match traps.next_item().unwrap() {
            Item::End => break,
            Item::Event(event) => seen.push((event.name(), traps.site())),
            Item::Run(id) => {
                let program = Arc::clone(traps.program());
                let template = program.template(id);
                assert_eq!(program.sites_of(template).len(), traps.addresses().len());
                let block = program.block(template.block);
                if !block.kernel {
                    let name = ["0", "1", "2", "3", "4", "5"][usize::from(template.executed)];
                    seen.push((name, traps.addresses().first().map_or(0, |a| a.virt.0)));
                }
            }
        }
    }
    let pc = |n: u64| b.program.block(b.program.template(b.loads).block).pc.0 + n;
    let expected = [
        ("exception", pc(0)),
        ("1", 0),
        ("exception", pc(1)),
        ("2", 40 * PAGE),
        ("exception", pc(3)),
        ("1", 41 * PAGE),
        ("1", 0),
        ("2", 40 * PAGE),
        ("exception", pc(3)),
        ("1", 42 * PAGE),
        ("0", 60 * PAGE),
        ("interrupt", pc(3)),
        ("5", 0),
    ];
    assert_eq!(seen, expected);
    let (all, counts, instructions) = runs(script, MODEL);
    let miss = trap(Trap::DataTlbMiss, 111);
    let tick = (Some(TICK), 1 + 111);
    assert_eq!(all, [miss, miss, miss, tick]);
    assert_eq!(counts.of(Trap::DataTlbMiss), [3, 1]);
    assert_eq!(instructions[0], 4 + 4 + 5);
}

#[test]
fn pages_that_left_the_tlb_are_found_in_the_buffer() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    // Three pages of one set of two ways, in turn: the second time around each is known.
    for page in [40, 42, 44, 40, 42, 44] {
        script.run(b.loads, vec![at(page * PAGE), at(page * PAGE)]);
    }
    let (all, ..) = runs(script, MODEL);
    let lengths: Vec<u64> = all.iter().map(|run| run.1).collect();
    assert_eq!(lengths, [111, 111, 111, 110, 110, 110]);
}

#[test]
fn the_kernel_has_large_pages_and_a_locked_image() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    script.run(b.plain[0], vec![]).event(READ);
    for address in [0xffff_8880_0000_0000, 0xffff_8880_003f_0000, 0xffff_ffff_8200_0000] {
        script.run(b.kernel_load, vec![at(address)]);
    }
    script.run(b.plain[0], vec![]);
    let (all, counts, _) = runs(script, MODEL);
    assert_eq!(all, [(Some(READ), 3 + 112)]);
    assert_eq!(counts.of(Trap::DataTlbMiss), [0, 1]);
}

#[test]
fn two_traps_before_one_instruction_are_two_runs() {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    (0..7).for_each(|_| {
        script.run(b.call[0], vec![]);
    });
    script.event(Event::AddressSpace(Asid(9))).run(b.middle, vec![]);
    script.run(b.plain[0], vec![]);
    let (all, ..) = runs(script, MODEL);
    let (miss, spill) = (trap(Trap::InstructionTlbMiss, 109), trap(Trap::WindowSpill, 101));
    // The second call is in the middle of its block: the trap comes behind it.
    assert_eq!(all, [miss, spill, spill]);
}

#[test]
fn impossible_models_are_refused() {
    let complaint = |change: fn(&mut TrapModel)| {
        let mut model = MODEL;
        change(&mut model);
        let (path, message) = model.check().unwrap_err();
        format!("{path}: {message}")
    };
    assert!(MODEL.check().is_ok());
    assert_eq!(complaint(|m| m.windows.windows = 2), "windows.windows: 2, expected 3 to 32");
    let ways = complaint(|m| m.tlb.data.ways = 3);
    assert_eq!(ways, "tlb.data: 4 entries of 3 ways, expected whole sets");
    assert!(complaint(|m| m.tlb.page_bytes = 5000).contains("power of two"));
    assert!(complaint(|m| m.tlb.tsb_entries = 0).starts_with("tlb.tsb_entries: 0"));
    assert!(complaint(|m| m.handlers.user_fill = 0).starts_with("handlers.user_fill: 0"));
}

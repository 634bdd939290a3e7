//! Return targets across an export and an import: what a return stack says must stay the same.

use std::collections::HashMap;

use halfwink_units::{PhysAddr, VirtAddr};
use proptest::prelude::*;

use super::{
    export_champsim, import_champsim, Compression, ExportOptions, ImportOptions, RecordForm,
};
use crate::format::{BlockDef, Code, CodeForm, Header, TraceFile, TraceWriter};
use crate::program::BlockId;
use crate::record::{Branch, Instr, Kind, RegSet};
use crate::source::{Item, Source};

/// An executed instruction: address, length, branch.
type Executed = (u64, u8, Branch);

/// A trace of these instructions, each a block of its own.
fn traced(executed: &[Executed]) -> TraceFile {
    let header = Header::new("calls", "a test", CodeForm::Decoded);
    let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
    let mut blocks: HashMap<Executed, BlockId> = HashMap::new();
    for &(pc, len, branch) in executed {
        let kind = if branch == Branch::None { Kind::IntAlu } else { Kind::Branch };
        // An indirect call without a register would be a direct one.
        let instr = Instr { kind, branch, reads: RegSet(1), ..Instr::nop(0, len) };
        let block = *blocks.entry((pc, len, branch)).or_insert_with(|| {
            let (pc, phys) = (VirtAddr(pc), PhysAddr(pc));
            let code = Code::Decoded(std::slice::from_ref(&instr));
            let phys_next_page = PhysAddr((pc.0 | 0xfff) + 1);
            let def = BlockDef { pc, phys, phys_next_page, kernel: false, code };
            writer.define_block(&def).unwrap()
        });
        writer.run(block, 1, &[]).unwrap();
    }
    TraceFile::from_bytes(writer.finish().unwrap().1).unwrap()
}

fn exported(file: &TraceFile) -> Vec<u8> {
    let all = ExportOptions { user: true, kernel: true, limit: None };
    let mut records = Vec::new();
    export_champsim(file, all, &mut records, Compression::Raw).unwrap();
    records
}

fn imported(records: &[u8]) -> TraceFile {
    let (workload, origin) = ("calls".to_owned(), "a test".to_owned());
    let options = ImportOptions { workload, origin, limit: None, level: 1 };
    let (_, out) = import_champsim(records, RecordForm::Own, &options, Vec::new()).unwrap();
    TraceFile::from_bytes(out).unwrap()
}

fn played(file: &TraceFile) -> Vec<Executed> {
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    let mut out = Vec::new();
    loop {
        let id = match stream.next_item().unwrap() {
            Item::Run(id) => id,
            Item::Event(_) => continue,
            Item::End => return out,
        };
        let block = program.block(program.template(id).block);
        out.extend(program.instrs_of(block).iter().map(|i| {
            let pc = block.pc_of(i);
            (pc, (block.end_of(i) - pc) as u8, i.branch)
        }));
    }
}

/// Whether a return stack foretells each return.
fn foretold(executed: &[Executed]) -> Vec<bool> {
    let mut stack = Vec::new();
    let mut right = Vec::new();
    for pair in executed.windows(2) {
        let ((pc, len, branch), (next, ..)) = (pair[0], pair[1]);
        match branch {
            Branch::Call | Branch::IndirectCall => stack.push(pc + u64::from(len)),
            Branch::Return => right.push(stack.pop() == Some(next)),
            _ => {}
        }
    }
    right
}

fn again(executed: &[Executed]) -> Vec<Executed> {
    let again = played(&imported(&exported(&traced(executed))));
    let flow =
        |all: &[Executed]| all.iter().map(|&(pc, _, branch)| (pc, branch)).collect::<Vec<_>>();
    assert_eq!(flow(&again), flow(executed));
    again
}

/// Lengths of calls after an export and an import, by address.
fn calls(executed: &[Executed]) -> Vec<(u64, u8)> {
    let is_call = |b| matches!(b, Branch::Call | Branch::IndirectCall);
    let all = again(executed).into_iter().filter(|&(.., branch)| is_call(branch));
    all.map(|(pc, len, _)| (pc, len)).collect()
}

const NOP: Branch = Branch::None;
const CALL: Branch = Branch::Call;
const REGISTER: Branch = Branch::IndirectCall;
const RET: Branch = Branch::Return;

#[test]
fn nested_calls_and_their_first_time() {
    // 100 calls 200, which calls 300 twice through registers of two lengths.
    let executed = [
        (0x100, 5, CALL),
        (0x200, 3, REGISTER),
        (0x300, 1, RET),
        (0x203, 2, REGISTER),
        (0x300, 1, RET),
        (0x205, 1, RET),
        (0x105, 1, NOP),
    ];
    assert_eq!(calls(&executed), [(0x100, 5), (0x200, 3), (0x203, 2)]);
    assert_eq!(foretold(&again(&executed)), [true; 3]);
}

#[test]
fn recursion_returns_to_one_place_many_times() {
    let mut executed = vec![(0x100, 6, CALL)];
    executed.extend([(0x200, 7, REGISTER); 50]);
    executed.push((0x200, 2, Branch::Jump));
    executed.push((0x240, 1, RET));
    executed.extend([(0x207, 1, RET); 50]);
    executed.push((0x106, 1, NOP));
    assert_eq!(foretold(&again(&executed)), [true; 51]);
}

#[test]
fn a_tail_call_returns_for_its_caller() {
    let executed =
        [(0x100, 3, REGISTER), (0x200, 5, Branch::Jump), (0x300, 1, RET), (0x103, 1, NOP)];
    assert_eq!(calls(&executed), [(0x100, 3)]);
    assert_eq!(foretold(&again(&executed)), [true]);
}

#[test]
fn calls_that_never_return_leave_the_others_alone() {
    // A long jump out of 300 back into 100; the call at 200 is open for ever.
    let executed = [
        (0x100, 2, REGISTER),
        (0x200, 7, REGISTER),
        (0x300, 2, Branch::IndirectJump),
        (0x208, 1, RET),
        (0x102, 6, REGISTER),
        (0x400, 1, RET),
        (0x108, 1, NOP),
    ];
    // What nobody can know is as an encoding often is.
    assert_eq!(calls(&executed), [(0x100, 2), (0x200, 2), (0x102, 6)]);
    // The address after `call +0` is popped, not returned to.
    let executed = [(0x100, 5, CALL), (0x105, 1, NOP), (0x106, 1, NOP)];
    assert_eq!(calls(&executed), [(0x100, 5)]);
}

#[test]
fn calls_of_two_programs_return_in_any_order() {
    // Both are within a call when the other goes on.
    let executed = [
        (0x100, 3, REGISTER),
        (0x200, 1, NOP),
        (0x9100, 6, REGISTER),
        (0x9200, 1, NOP),
        (0x201, 1, RET),
        (0x103, 1, NOP),
        (0x9201, 1, RET),
        (0x9106, 1, NOP),
    ];
    assert_eq!(calls(&executed), [(0x100, 3), (0x9100, 6)]);
}

#[test]
fn a_short_jump_that_is_taken_is_no_longer_instruction() {
    let executed = [
        (0x100, 2, Branch::Conditional),
        (0x105, 2, Branch::Conditional),
        (0x107, 6, Branch::Conditional),
        (0x109, 1, NOP),
    ];
    let ends: Vec<_> = again(&executed).iter().map(|&(pc, len, _)| pc + u64::from(len)).collect();
    // Taken, not taken, taken: told from where the next instruction is.
    assert_eq!((ends[0] != 0x105, ends[1] == 0x107, ends[2] != 0x109), (true, true, true));
}

/// What a thread does next: it calls, returns, jumps, or another one goes on.
#[derive(Clone, Copy, Debug)]
enum Step {
    Call { site: u64, function: u64 },
    TailCall { function: u64 },
    Return,
    Unwind,
    Switch,
}

fn step() -> impl Strategy<Value = Step> {
    let call = (0u64..6, 0u64..8).prop_map(|(site, function)| Step::Call { site, function });
    prop_oneof![
        8 => call,
        1 => (0u64..8).prop_map(|function| Step::TailCall { function }),
        8 => Just(Step::Return),
        1 => Just(Step::Unwind),
        1 => Just(Step::Switch),
    ]
}

/// What two threads with stacks of their own execute.
fn executed(steps: &[Step]) -> Vec<Executed> {
    let mut out = Vec::new();
    let mut stacks = [vec![], vec![]];
    let mut functions = [0u64, 1];
    let mut thread = 0;
    let length = |function: u64, site: u64| 2 + ((function * 5 + site * 3) % 8) as u8;
    for &step in steps {
        let base = 0x1000 * (1 + functions[thread]);
        match step {
            Step::Call { site, function } => {
                let (pc, len) = (base + 0x20 * (1 + site), length(functions[thread], site));
                out.push((pc, len, if len == 5 { CALL } else { REGISTER }));
                stacks[thread].push((functions[thread], pc + u64::from(len)));
                functions[thread] = function;
            }
            Step::TailCall { function } => {
                out.push((base + 0x10, 5, Branch::Jump));
                functions[thread] = function;
            }
            Step::Return => {
                let Some((function, back)) = stacks[thread].pop() else { continue };
                out.extend([(base + 0x18, 1, RET), (back, 1, NOP)]);
                functions[thread] = function;
            }
            Step::Unwind => {
                stacks[thread].pop();
                let Some((function, _)) = stacks[thread].pop() else { continue };
                out.push((base + 0x1c, 2, Branch::IndirectJump));
                functions[thread] = function;
            }
            Step::Switch => thread = 1 - thread,
        }
        out.push((0x1000 * (1 + functions[thread]) + 0x1e, 1, NOP));
    }
    out
}

proptest! {
    #[test]
    fn a_return_stack_foretells_the_same_returns(steps in prop::collection::vec(step(), 1..400)) {
        let executed = executed(&steps);
        prop_assume!(!executed.is_empty());
        prop_assert_eq!(foretold(&again(&executed)), foretold(&executed));
    }
}

/// A branch that is not taken, an interrupt, and user code that goes on.
#[test]
fn interrupt_is_not_target_of_branch() {
    let header = Header::new("interrupted", "a test", CodeForm::Decoded);
    let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
    let flags = Instr { reads: RegSet::FLAGS, kind: Kind::Branch, ..Instr::nop(0, 2) };
    let branch = Instr { branch: Branch::Conditional, ..flags };
    let code = [
        (0x100, false, branch),
        (0x9000, true, Instr::nop(0, 1)),
        (0x102, false, Instr::nop(0, 1)),
    ];
    for (pc, kernel, instr) in code {
        let code = Code::Decoded(std::slice::from_ref(&instr));
        let phys_next_page = PhysAddr((pc | 0xfff) + 1);
        let (pc, phys) = (VirtAddr(pc), PhysAddr(pc));
        let block =
            writer.define_block(&BlockDef { pc, phys, phys_next_page, kernel, code }).unwrap();
        writer.run(block, 1, &[]).unwrap();
    }
    let file = TraceFile::from_bytes(writer.finish().unwrap().1).unwrap();
    let user = ExportOptions { user: true, kernel: false, limit: None };
    let mut records = Vec::new();
    export_champsim(&file, user, &mut records, Compression::Raw).unwrap();
    assert_eq!((records.len(), records[8], records[9]), (128, 1, 0), "a branch, not taken");
}

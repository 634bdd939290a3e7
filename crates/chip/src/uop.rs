//! From instructions to micro-operations: what the pipelines execute.
//!
//! Each template of a program is cracked once: loads, then the operation, then stores, linked by
//! temporary registers. Which memory access belongs to which micro-operation is fixed then, so that
//! playing a trace only looks up addresses.

use halfwink_trace::{Branch, Instr, InstrFlags, Kind, Program, RegSet, Site, Template};
use halfwink_units::{LINE_SHIFT, PAGE_SHIFT};

/// Registers of the pipelines: the architectural ones, temporaries, and one that is always ready.
pub(crate) const REGISTERS: usize = 64;
/// Always ready, never written.
pub(crate) const NO_REG: u8 = 63;
/// Temporaries live within one instruction, so each template may use the same three.
const TEMP_LOAD: u8 = 60;
const TEMP_LOAD2: u8 = 61;
const TEMP_RESULT: u8 = 62;
const _: () = assert!(RegSet::COUNT <= TEMP_LOAD as usize && (NO_REG as usize) < REGISTERS);

/// Operation of a micro-operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    /// Takes a place in the window, nothing else.
    Nop,
    Alu,
    Multiply,
    Divide,
    Vector,
    FpAdd,
    FpMultiply,
    FpDivide,
    Load,
    Store,
    Branch,
    /// Read-modify-write in the data cache.
    Atomic,
    /// Entry to or return from the kernel, or a change of machine state.
    System,
}

/// Number of kinds of operations.
pub(crate) const OPS: usize = Op::System as usize + 1;

/// Kind of functional unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Unit {
    Alu,
    Multiply,
    Fp,
    Memory,
    /// Needs no unit.
    Nothing,
}

/// Number of kinds of units, [`Unit::Nothing`] included.
pub(crate) const UNITS: usize = Unit::Nothing as usize + 1;

impl Op {
    /// The unit that executes it.
    #[inline]
    pub(crate) const fn unit(self) -> Unit {
        match self {
            Op::Nop => Unit::Nothing,
            Op::Alu | Op::Branch | Op::Atomic | Op::System => Unit::Alu,
            Op::Multiply | Op::Divide => Unit::Multiply,
            Op::Vector | Op::FpAdd | Op::FpMultiply | Op::FpDivide => Unit::Fp,
            Op::Load | Op::Store => Unit::Memory,
        }
    }
}

/// Optimisations of a micro-operation on some cores, as bits.
pub(crate) mod fold {
    /// Fused: it is of the same instruction as the one before it, or a branch that a comparison
    /// decides.
    pub(crate) const JOINS: u8 = 1;
    /// Eliminated: it gives one register the value of another one.
    pub(crate) const MOVES: u8 = 2;
    /// Slower: it loads from an address with an index.
    pub(crate) const INDEXED: u8 = 4;
    /// Locked: an access of an atomic instruction.
    pub(crate) const LOCKED: u8 = 8;
}

/// A micro-operation, as cracked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uop {
    /// Source registers; unused places hold [`NO_REG`].
    pub(crate) sources: [u8; 4],
    /// Registers of the results, in the same form.
    pub(crate) results: [u8; 2],
    pub(crate) op: Op,
    /// Changes the flow of control; the last of its block.
    pub(crate) branch: Branch,
    /// Index of the access in the template, for loads and stores.
    pub(crate) access: u16,
    /// Size in bytes, for loads and stores.
    pub(crate) size: u8,
    /// Starts an instruction in another line than the one before, or the block.
    pub(crate) new_line: bool,
    /// Waits for everything before it, holds back everything after it.
    pub(crate) serializing: bool,
    /// Possible optimisations on present cores: bits of [`fold`].
    pub(crate) folds: u8,
    /// Neither of these two, and not for a unit that is busy for long: nearly all of them.
    pub(crate) ordinary: bool,
    /// Bytes from the first byte of the block to its instruction.
    pub(crate) offset: u16,
}

impl Uop {
    fn is_ordinary(&self) -> bool {
        let special = matches!(self.op, Op::Divide | Op::FpDivide | Op::System);
        !special && !self.new_line && !self.serializing
    }
}

/// A template, ready to be played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Playable {
    /// Index of its first micro-operation.
    pub(crate) first_uop: u32,
    pub(crate) uops: u32,
    /// Virtual address of the first instruction.
    pub(crate) pc: u64,
    /// Virtual address behind the last executed instruction.
    pub(crate) fall_through: u64,
    /// Physical address of the first instruction, and of the next page.
    pub(crate) phys: u64,
    pub(crate) phys_next_page: u64,
    /// Number of instructions that retire.
    pub(crate) instrs: u16,
    /// Number of micro-operations by unit.
    pub(crate) in_unit: [u16; UNITS],
    pub(crate) kernel: bool,
    /// The branch that it ends in, and how far behind the first instruction.
    pub(crate) branch: Branch,
    pub(crate) branch_offset: u16,
    /// Whether an operation in it waits for all before, and holds back all after it.
    pub(crate) serializes: bool,
    /// Starts with a repeated string instruction.
    pub(crate) starts_repeat: bool,
    /// Address of the repeated string instruction that it ends in, or `u64::MAX`.
    pub(crate) ends_repeat: u64,
    /// Bytes that an iteration of it moves or fills; 0 if it does neither.
    pub(crate) moves: u8,
}

/// Size of a line, in bytes.
const LINE: u64 = 1 << LINE_SHIFT;

impl Playable {
    /// Lines that its instructions lie in.
    #[inline]
    pub(crate) fn lines(&self) -> u64 {
        if self.instrs == 0 {
            return 0;
        }
        // Recordings of others may hold any address: a block may wrap over the last one.
        let bytes = self.fall_through.wrapping_sub(self.pc);
        (((self.pc & (LINE - 1)) + bytes).saturating_sub(1) >> LINE_SHIFT) + 1
    }

    /// Bytes from the first instruction to line `n` of these.
    #[inline]
    pub(crate) fn offset_of_line(&self, n: u64) -> u16 {
        (n << LINE_SHIFT).saturating_sub(self.pc & (LINE - 1)) as u16
    }

    /// Line of the instruction that begins so many bytes behind the first.
    #[inline]
    pub(crate) fn line_at(&self, offset: u16) -> u64 {
        const PAGE: u64 = 1 << PAGE_SHIFT;
        let offset = u64::from(offset);
        // A block may run on into the next page of virtual memory, which lies anywhere in physical.
        let in_page = self.pc % PAGE + offset;
        let phys = if in_page < PAGE {
            self.phys.wrapping_add(offset)
        } else {
            (self.phys_next_page & !(PAGE - 1)) + (in_page - PAGE)
        };
        phys >> LINE_SHIFT
    }
}

/// All templates of a program.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) uops: Vec<Uop>,
    pub(crate) playable: Vec<Playable>,
}

impl Code {
    pub(crate) fn compile(program: &Program) -> Code {
        let mut code = Code::default();
        for template in &program.templates {
            let playable = code.crack(program, template);
            code.playable.push(playable);
        }
        code
    }

    fn crack(&mut self, program: &Program, template: &Template) -> Playable {
        let block = program.block(template.block);
        let instrs = program.instrs_of(block);
        let executed = &instrs[..usize::from(template.executed)];
        let sites = program.sites_of(template);
        let first_uop = self.uops.len() as u32;
        let mut line = None;
        for (n, instr) in executed.iter().enumerate() {
            let at = self.uops.len();
            self.crack_instr(instr, n, sites);
            let decides = n > 0 && is_fused(&executed[n - 1], instr);
            let its_line = block.pc_of(instr) >> LINE_SHIFT;
            let end_line = block.end_of(instr).wrapping_sub(1) >> LINE_SHIFT;
            let first = &mut self.uops[at];
            first.new_line = line != Some(its_line);
            line = Some(its_line);
            if end_line != its_line {
                // By virtual lines, which end where physical ones do: a line lies in one page.
                // The rest of the instruction is fetched with its last micro-operation.
                self.straddle(at, instr);
                line = Some(end_line);
            }
            self.uops[at].folds |= if decides { fold::JOINS } else { 0 };
            self.uops[at + 1..].iter_mut().for_each(|uop| uop.folds |= fold::JOINS);
        }
        // A faulting instruction does not retire, but its accesses reached the caches. Nothing
        // depends on them: what it loaded is loaded again when it is tried again.
        self.unexecuted_accesses(sites, template.executed);
        let last = executed.last();
        let mut in_unit = [0; UNITS];
        let (mut branch, mut branch_offset, mut serializes) = (Branch::None, 0, false);
        for uop in &mut self.uops[first_uop as usize..] {
            in_unit[uop.op.unit() as usize] += 1;
            uop.ordinary = uop.is_ordinary();
            serializes |= uop.serializing;
            if uop.branch != Branch::None {
                (branch, branch_offset) = (uop.branch, uop.offset);
            }
        }
        Playable {
            in_unit,
            first_uop,
            uops: self.uops.len() as u32 - first_uop,
            pc: block.pc.0,
            fall_through: last.map_or(block.pc.0, |i| block.end_of(i)),
            phys: block.phys.0,
            phys_next_page: block.phys_next_page.0,
            instrs: template.executed,
            kernel: block.kernel,
            branch,
            branch_offset,
            serializes,
            starts_repeat: executed.first().is_some_and(|i| i.flags.has(InstrFlags::REP)),
            ends_repeat: last
                .filter(|i| i.flags.has(InstrFlags::REP))
                .map_or(u64::MAX, |i| block.pc_of(i)),
            moves: last.map_or(0, |i| moved_bytes(i, executed.len() - 1, sites)),
        }
    }

    /// Appends a marker for the line in which an instruction ends: its last micro-operation fetches
    /// it, or a no-operation if there is only one.
    fn straddle(&mut self, at: usize, instr: &Instr) {
        let end = instr.offset + u16::from(instr.len) - 1;
        if self.uops.len() == at + 1 {
            let mut filler = Uop { new_line: true, offset: end, ..blank(instr) };
            // Keep the operation last, so that a branch ends its block.
            filler.op = Op::Nop;
            let operation = self.uops[at];
            self.uops[at] = Uop { new_line: operation.new_line, offset: instr.offset, ..filler };
            self.uops.push(Uop { new_line: true, offset: end, ..operation });
        } else {
            let last = self.uops.last_mut().expect("an instruction has a micro-operation");
            last.new_line = true;
            last.offset = end;
        }
    }

    fn unexecuted_accesses(&mut self, sites: &[Site], executed: u16) {
        for (access, site) in sites.iter().enumerate().filter(|(_, s)| s.instr >= executed) {
            self.uops.push(Uop {
                op: if site.write { Op::Store } else { Op::Load },
                access: access as u16,
                size: site.size,
                ..blank(&Instr::nop(0, 1))
            });
        }
    }

    fn crack_instr(&mut self, instr: &Instr, n: usize, sites: &[Site]) {
        let own = |write: bool| {
            sites
                .iter()
                .enumerate()
                .filter(move |(_, s)| usize::from(s.instr) == n && s.write == write)
        };
        let [loads, stores] = [false, true].map(|write| own(write).count());
        let data = data_sources(instr);
        let results = result_registers(instr);
        let op = operation(instr, loads + stores);
        // A plain load writes the result itself; a plain store takes it from the register.
        let plain = op == Op::Nop && instr.branch == Branch::None;
        let mut load_temps = [NO_REG; 2];
        for (i, (access, site)) in own(false).enumerate() {
            let temp = [TEMP_LOAD, TEMP_LOAD2][i % 2];
            let direct = plain && stores == 0 && loads == 1;
            self.uops.push(Uop {
                sources: registers(instr.address),
                results: if direct { results } else { [temp, NO_REG] },
                op: Op::Load,
                access: access as u16,
                size: site.size,
                folds: indexed(instr) | locked(instr),
                ..blank(instr)
            });
            load_temps[i % 2] = temp;
        }
        let needs_operation = !plain || (loads == 0 && stores == 0);
        if needs_operation {
            let mut sources = registers(data);
            // From the back: of more than four sources, what was loaded is never the one left out.
            for (place, temp) in sources.iter_mut().rev().zip(load_temps) {
                if temp != NO_REG {
                    *place = temp;
                }
            }
            let mut all = results;
            if stores > 0 && all[1] == NO_REG {
                all[1] = TEMP_RESULT;
            }
            if op == Op::Nop {
                // Nobody waits for it, and it waits for nobody.
                (sources, all) = ([NO_REG; 4], [NO_REG; 2]);
            }
            self.uops.push(Uop { folds: moves(instr), sources, results: all, op, ..blank(instr) });
        }
        for (access, site) in own(true) {
            let mut sources = registers(instr.address);
            let value = if needs_operation && instr.branch == Branch::None {
                TEMP_RESULT
            } else if load_temps[0] != NO_REG {
                load_temps[0]
            } else {
                first_register(data)
            };
            // The last place is free: base, index and stack pointer are all (push, call).
            debug_assert_eq!(sources[3], NO_REG, "an address of four registers");
            sources[3] = value;
            self.uops.push(Uop {
                sources,
                op: Op::Store,
                access: access as u16,
                size: site.size,
                ..blank(instr)
            });
        }
        let last = self.uops.len() - 1;
        self.finish_instr(instr, last);
    }

    /// The last micro-operation of an instruction carries its effect on the flow of control.
    fn finish_instr(&mut self, instr: &Instr, last: usize) {
        if instr.branch != Branch::None && self.uops[last].op != Op::Branch {
            // A call stores its return address: the branch must stay last.
            let branch =
                (0..=last).rev().find(|&i| matches!(self.uops[i].op, Op::Branch | Op::System));
            if let Some(i) = branch {
                self.uops[i..=last].rotate_left(1);
            }
        }
        let uop = &mut self.uops[last];
        uop.branch = instr.branch;
        uop.serializing = instr.flags.has(InstrFlags::SERIALIZING);
    }
}

fn blank(instr: &Instr) -> Uop {
    Uop {
        sources: [NO_REG; 4],
        results: [NO_REG; 2],
        op: Op::Nop,
        branch: Branch::None,
        access: 0,
        size: 0,
        new_line: false,
        serializing: false,
        folds: locked(instr),
        ordinary: false,
        offset: instr.offset,
    }
}

/// Returns whether an instruction gives one register the value of another one.
fn moves(instr: &Instr) -> u8 {
    let one = |set: RegSet| set.0.is_power_of_two();
    let is_plain = instr.kind == Kind::Move && instr.address == RegSet(0);
    if is_plain && one(instr.reads) && one(instr.writes) {
        fold::MOVES
    } else {
        0
    }
}

/// Bytes that instruction `n` of a block moves or fills, as an iteration of a string instruction.
fn moved_bytes(instr: &Instr, n: usize, sites: &[Site]) -> u8 {
    let repeats = instr.kind == Kind::String && instr.flags.has(InstrFlags::REP);
    if !repeats || instr.writes.contains(RegSet::FLAGS) {
        return 0;
    }
    sites.iter().find(|site| usize::from(site.instr) == n && site.write).map_or(0, |site| site.size)
}

/// Returns whether its address has an index.
fn indexed(instr: &Instr) -> u8 {
    if instr.address.0.count_ones() > 1 {
        fold::INDEXED
    } else {
        0
    }
}

/// Returns whether an instruction is atomic.
fn locked(instr: &Instr) -> u8 {
    if instr.flags.has(InstrFlags::LOCKED) {
        fold::LOCKED
    } else {
        0
    }
}

/// True if decoders make one operation of a comparison and the conditional branch behind it, as
/// x86-64 cores do since Core 2 (cmp, test) and Bulldozer: they are what writes nothing but flags.
fn is_fused(comparison: &Instr, branch: &Instr) -> bool {
    comparison.kind == Kind::IntAlu
        && comparison.writes == RegSet::FLAGS
        && branch.branch == Branch::Conditional
}

fn operation(instr: &Instr, accesses: usize) -> Op {
    if instr.flags.has(InstrFlags::LOCKED) {
        return Op::Atomic;
    }
    match instr.kind {
        Kind::Nop | Kind::Pause | Kind::Halt => Op::Nop,
        // A move between registers is an operation; one to or from memory is the access itself.
        Kind::Move if accesses == 0 => Op::Alu,
        Kind::Move => Op::Nop,
        // String instructions that compare have a result beside what they move.
        Kind::String if instr.writes.contains(RegSet::FLAGS) => Op::Alu,
        Kind::String => Op::Nop,
        Kind::IntAlu | Kind::Lea | Kind::Fence => Op::Alu,
        Kind::IntMul => Op::Multiply,
        Kind::IntDiv => Op::Divide,
        Kind::VecInt => Op::Vector,
        Kind::FpAdd => Op::FpAdd,
        Kind::FpMul => Op::FpMultiply,
        Kind::FpDiv => Op::FpDivide,
        Kind::Branch => match instr.branch {
            Branch::Syscall | Branch::Sysret | Branch::Iret | Branch::Interrupt => Op::System,
            _ => Op::Branch,
        },
        Kind::System => Op::System,
    }
}

/// Registers whose values the operation needs, beside those that form addresses.
fn data_sources(instr: &Instr) -> RegSet {
    let only_data = instr.reads.without(instr.address);
    // Both: a string instruction's pointer forms its address and is counted up by its operation.
    let updated = RegSet(instr.reads.0 & instr.writes.0);
    let data = only_data.union(updated);
    if instr.flags.has(InstrFlags::STACK) {
        // The front end keeps track of the stack pointer.
        data.without(RegSet::STACK_POINTER)
    } else {
        data
    }
}

/// The first two registers that it writes; of a product's three, the flags are left out.
fn result_registers(instr: &Instr) -> [u8; 2] {
    let mut writes = instr.writes;
    let adjusts = instr.flags.has(InstrFlags::STACK) && instr.reads.contains(RegSet::STACK_POINTER);
    if adjusts {
        writes = writes.without(RegSet::STACK_POINTER);
    }
    let mut results = [NO_REG; 2];
    for (place, n) in results.iter_mut().zip(writes.iter()) {
        *place = n as u8;
    }
    results
}

fn registers(set: RegSet) -> [u8; 4] {
    let mut out = [NO_REG; 4];
    for (place, n) in out.iter_mut().zip(set.iter()) {
        *place = n as u8;
    }
    out
}

fn first_register(set: RegSet) -> u8 {
    set.iter().next().map_or(NO_REG, |n| n as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_trace::{decode_block, Block, BlockId};
    use halfwink_units::{PhysAddr, VirtAddr};

    /// Cracks one instruction with these accesses (true for stores).
    fn crack(bytes: &[u8], accesses: &[bool]) -> Vec<Uop> {
        let pc = VirtAddr(0x40_0000);
        let mut instrs = Vec::new();
        decode_block(pc, bytes, &[bytes.len() as u8], &mut instrs);
        let mut program = Program::default();
        let block = Block {
            pc,
            phys: PhysAddr(0),
            phys_next_page: PhysAddr(0),
            kernel: false,
            first_instr: 0,
            instrs: 0,
        };
        program.push_block(block, &instrs);
        let sites: Vec<Site> =
            accesses.iter().map(|&write| Site { instr: 0, size: 8, write, group: 0 }).collect();
        program.push_template(BlockId(0), 1, &sites);
        Code::compile(&program).uops
    }

    fn ops(uops: &[Uop]) -> Vec<Op> {
        uops.iter().map(|u| u.op).collect()
    }

    #[test]
    fn a_plain_load_is_one() {
        let uops = crack(&[0x48, 0x8b, 0x43, 0x08], &[false]); // mov rax, [rbx + 8]
        assert_eq!(ops(&uops), [Op::Load]);
        assert_eq!((uops[0].sources[0], uops[0].results[0]), (3, 0));
    }

    #[test]
    fn a_plain_store_takes_its_register() {
        let uops = crack(&[0x48, 0x89, 0x43, 0x08], &[true]); // mov [rbx + 8], rax
        assert_eq!(ops(&uops), [Op::Store]);
        assert_eq!((uops[0].sources[0], uops[0].sources[3]), (3, 0));
    }

    #[test]
    fn a_read_modify_write_is_three_in_a_chain() {
        let uops = crack(&[0x48, 0x01, 0x03], &[false, true]); // add [rbx], rax
        assert_eq!(ops(&uops), [Op::Load, Op::Alu, Op::Store]);
        assert!(uops[1].sources.contains(&TEMP_LOAD) && uops[1].sources.contains(&0));
        assert!(uops[1].results.contains(&TEMP_RESULT) && uops[1].results.contains(&16));
        assert_eq!(uops[2].sources[3], TEMP_RESULT);
    }

    #[test]
    fn the_stack_pointer_of_push_and_pop_is_free() {
        let push = crack(&[0x53], &[true]); // push rbx
        assert_eq!(ops(&push), [Op::Store]);
        assert_eq!(push[0].results, [NO_REG; 2]);
        assert_eq!(push[0].sources[3], 3);
        let pop = crack(&[0x5b], &[false]); // pop rbx
        assert_eq!(ops(&pop), [Op::Load]);
        assert_eq!(pop[0].results[0], 3);
    }

    #[test]
    fn branch_is_last_operation_of_instruction() {
        let call = crack(&[0xe8, 0, 0, 0, 0], &[true]);
        assert_eq!(ops(&call), [Op::Store, Op::Branch]);
        assert_eq!(call[1].branch, Branch::Call);
        let ret = crack(&[0xc3], &[false]);
        assert_eq!(ops(&ret), [Op::Load, Op::Branch]);
        assert_eq!(ret[1].sources[3], TEMP_LOAD);
    }

    #[test]
    fn a_string_move_is_a_load_and_a_store() {
        let uops = crack(&[0xf3, 0x48, 0xa5], &[false, true]); // rep movsq
        assert_eq!(ops(&uops), [Op::Load, Op::Store]);
        assert_eq!(uops[1].sources[3], TEMP_LOAD);
    }

    #[test]
    fn atomics_and_kernel_entries_are_marked() {
        let xadd = crack(&[0xf0, 0x48, 0x0f, 0xc1, 0x03], &[false, true]);
        assert_eq!(ops(&xadd), [Op::Load, Op::Atomic, Op::Store]);
        let syscall = crack(&[0x0f, 0x05], &[]);
        assert_eq!(ops(&syscall), [Op::System]);
        assert!(syscall[0].serializing);
    }
}

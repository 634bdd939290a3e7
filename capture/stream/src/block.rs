// SPDX-License-Identifier: GPL-2.0-or-later
//! What the recorder knows of a block of code without looking at its execution.

use halfwink_trace::{BlockDef, Code};
use halfwink_units::{PhysAddr, VirtAddr};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::idt::Entry;

/// A block as the translator met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Virtual address of the first instruction.
    pub pc: u64,
    /// Guest-physical address of the first instruction.
    pub phys: u64,
    /// Guest-physical address of the next page, if the block reaches into it.
    pub phys_next_page: u64,
    /// Bytes of all instructions.
    pub bytes: Vec<u8>,
    /// Length of each instruction.
    pub lengths: Vec<u8>,
}

impl Definition {
    /// The part from instruction number `first` on; the block must be longer.
    #[must_use]
    pub fn from_instruction(&self, first: u16) -> Definition {
        const PAGE: u64 = 4096;
        let (before, lengths) = self.lengths.split_at(usize::from(first));
        let skipped: usize = before.iter().map(|&length| usize::from(length)).sum();
        let pc = self.pc + skipped as u64;
        let next_page = pc / PAGE > self.pc / PAGE;
        let phys = if next_page {
            (self.phys_next_page & !(PAGE - 1)) + pc % PAGE
        } else {
            self.phys + skipped as u64
        };
        Definition {
            pc,
            phys,
            phys_next_page: if next_page { 0 } else { self.phys_next_page },
            bytes: self.bytes[skipped..].to_vec(),
            lengths: lengths.to_vec(),
        }
    }

    /// Converts for the trace writer.
    #[must_use]
    pub fn as_block(&self) -> BlockDef<'_> {
        BlockDef {
            pc: VirtAddr(self.pc),
            phys: PhysAddr(self.phys),
            phys_next_page: PhysAddr(self.phys_next_page),
            kernel: VirtAddr(self.pc).is_kernel_half(),
            code: Code::Bytes { bytes: &self.bytes, lengths: &self.lengths },
        }
    }
}

/// Successors of the last instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The next instruction follows.
    Next,
    /// The instruction at this address follows.
    To(u64),
    /// The instruction at this address or the next one follows.
    Either(u64),
    /// Anywhere: an indirect branch, a return, a system call.
    Anywhere,
}

impl Exit {
    /// Returns whether `pc` may follow a block that ends at `end`.
    #[inline]
    #[must_use]
    pub fn leads_to(self, end: u64, pc: u64) -> bool {
        match self {
            Exit::Next => pc == end,
            Exit::To(target) => pc == target,
            Exit::Either(target) => pc == target || pc == end,
            Exit::Anywhere => true,
        }
    }
}

/// Kind of the last instruction, as far as the recorder distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// An instruction of any other kind.
    Plain,
    /// `rdtsc` or `rdtscp`: the time is in rdx:rax afterwards.
    ReadsTime,
}

/// The parts of a block that the recorder needs at every execution, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct BlockInfo {
    /// Virtual address of the first instruction.
    pub pc: u64,
    /// Virtual address behind the last instruction.
    pub end: u64,
    /// Number of its instructions.
    pub count: u16,
    /// Successors of its last instruction.
    pub exit: Exit,
    /// Kind of its last instruction.
    pub last: Last,
    /// The trace's writer knows the block.
    pub defined: bool,
    /// Offset of every instruction.
    offsets: Box<[u16]>,
}

/// Extent of an execution of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Number of instructions that retired.
    pub executed: u16,
    /// True if the block's code explains the address that followed.
    pub explained: bool,
}

impl BlockInfo {
    /// Looks the block over.
    #[must_use]
    pub fn new(def: &Definition) -> BlockInfo {
        let mut offset = 0u16;
        let offsets: Box<[u16]> = def
            .lengths
            .iter()
            .map(|&length| {
                let here = offset;
                offset += u16::from(length);
                here
            })
            .collect();
        let start = usize::from(offsets.last().copied().unwrap_or(0));
        let last = decode(def.pc + start as u64, &def.bytes[start..]);
        let end = def.pc + def.bytes.len() as u64;
        BlockInfo {
            pc: def.pc,
            end,
            count: def.lengths.len() as u16,
            exit: exit_of(&last),
            last: match last.mnemonic() {
                Mnemonic::Rdtsc | Mnemonic::Rdtscp => Last::ReadsTime,
                _ => Last::Plain,
            },
            defined: false,
            offsets,
        }
    }

    /// The number of the instruction at `pc`.
    #[must_use]
    pub fn index_of(&self, pc: u64) -> Option<u16> {
        let offset = u16::try_from(pc.checked_sub(self.pc)?).ok()?;
        self.offsets.binary_search(&offset).ok().map(|i| i as u16)
    }

    /// Returns whether `pc` may follow when all instructions retired.
    #[inline]
    #[must_use]
    pub fn leads_to(&self, pc: u64) -> bool {
        self.exit.leads_to(self.end, pc)
    }

    /// Returns the extent of an execution, given that the CPU then executed the block at `pc`. `io`
    /// is the last instruction that was executed apart from the block because it accessed a device.
    #[inline]
    #[must_use]
    pub fn before_block(&self, pc: u64, io: Option<u16>) -> Retired {
        if io.is_none() && self.leads_to(pc) {
            return Retired { executed: self.count, explained: true };
        }
        self.before_block_slow(pc, io)
    }

    #[cold]
    fn before_block_slow(&self, pc: u64, io: Option<u16>) -> Retired {
        let resumed = self.index_of(pc);
        match (io, resumed) {
            (Some(io), Some(next)) if next == io + 1 => Retired { executed: next, explained: true },
            _ if self.leads_to(pc) => Retired { executed: self.count, explained: true },
            // Stopped inside and went on there: a device access without a memory operand, or a
            // store into the code at hand.
            (_, Some(next)) => Retired { executed: next, explained: true },
            (_, None) => Retired { executed: self.count, explained: false },
        }
    }

    /// Returns the extent as [`BlockInfo::before_block`] does, where it is not known whether the
    /// block accessed a device: an execution that continues inside it then shows that it did.
    #[must_use]
    pub fn before_block_elsewhere(&self, pc: u64) -> u16 {
        match self.index_of(pc) {
            Some(next) if next > 0 && self.exit == Exit::Anywhere => next,
            _ => self.before_block(pc, None).executed,
        }
    }

    /// Returns the extent of an execution, given that the CPU then entered the kernel in this way.
    #[must_use]
    pub fn before_entry(&self, entry: Entry, io: Option<u16>) -> Retired {
        let full = Retired { executed: self.count, explained: true };
        let inside = self.index_of(entry.rip);
        match inside {
            Some(next) if io.is_some_and(|io| next == io + 1) => {
                Retired { executed: next, explained: true }
            }
            // Interrupts come between blocks; a loop may lead back into itself.
            _ if entry.is_interrupt() && self.leads_to(entry.rip) => full,
            Some(next) => Retired { executed: next, explained: true },
            // The next block could not be fetched.
            None => Retired { explained: self.leads_to(entry.rip), ..full },
        }
    }
}

/// Hook that the translator sets on an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// No hook is set.
    None,
    /// Hook on a `syscall` instruction.
    Syscall,
    /// Hook on a `hlt` instruction.
    Halt,
    /// `mov cr3, reg`, with the number of the register.
    AddressSpace(u8),
}

/// The hook for an instruction.
#[must_use]
pub fn hook_of(bytes: &[u8]) -> Hook {
    // Every instruction of interest is one of these opcodes; decoding them all would be slow.
    match bytes {
        [0xf4] => Hook::Halt,
        [0x0f, 0x05] => Hook::Syscall,
        [0x0f, 0x22, ..] | [_, 0x0f, 0x22, ..] => {
            let instruction = decode(0, bytes);
            let to_cr3 = instruction.mnemonic() == Mnemonic::Mov
                && instruction.op0_kind() == OpKind::Register
                && instruction.op0_register() == Register::CR3;
            if to_cr3 {
                Hook::AddressSpace(instruction.op1_register().number() as u8)
            } else {
                Hook::None
            }
        }
        _ => Hook::None,
    }
}

fn decode(pc: u64, bytes: &[u8]) -> Instruction {
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode()
}

fn exit_of(last: &Instruction) -> Exit {
    if last.mnemonic() == Mnemonic::Syscall {
        return Exit::Anywhere;
    }
    // One iteration at a time: back to itself, or on.
    if (last.has_rep_prefix() || last.has_repne_prefix()) && last.is_string_instruction() {
        return Exit::Either(last.ip());
    }
    match last.flow_control() {
        FlowControl::Next | FlowControl::Interrupt | FlowControl::Exception => Exit::Next,
        FlowControl::UnconditionalBranch => Exit::To(last.near_branch_target()),
        FlowControl::ConditionalBranch => Exit::Either(last.near_branch_target()),
        FlowControl::Call if last.is_call_near() => Exit::To(last.near_branch_target()),
        FlowControl::Call
        | FlowControl::IndirectBranch
        | FlowControl::IndirectCall
        | FlowControl::Return
        | FlowControl::XbeginXabortXend => Exit::Anywhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_FAULT: u8 = 14;
    const TIMER: u8 = 236;

    fn block(instrs: &[&[u8]]) -> BlockInfo {
        BlockInfo::new(&Definition {
            pc: 0x1000,
            phys: 0,
            phys_next_page: 0,
            bytes: instrs.concat(),
            lengths: instrs.iter().map(|i| i.len() as u8).collect(),
        })
    }

    fn retired(executed: u16) -> Retired {
        Retired { executed, explained: true }
    }

    /// mov (%rdi),%rax; nop; jne back to the top.
    fn looped() -> BlockInfo {
        block(&[&[0x48, 0x8b, 0x07], &[0x90], &[0x75, 0xfa]])
    }

    #[test]
    fn exit_of_block_is_read_from_its_last_instruction() {
        assert_eq!(looped().exit, Exit::Either(0x1000));
        assert_eq!(block(&[&[0xc3]]).exit, Exit::Anywhere);
        assert_eq!(block(&[&[0xe8, 0, 1, 0, 0]]).exit, Exit::To(0x1105));
        assert_eq!(block(&[&[0x90]]).exit, Exit::Next);
        assert_eq!(block(&[&[0x0f, 0x05]]).exit, Exit::Anywhere);
        assert_eq!(block(&[&[0x48, 0xcf]]).exit, Exit::Anywhere);
        assert_eq!(block(&[&[0x90], &[0xf3, 0x48, 0xa5]]).exit, Exit::Either(0x1001));
        assert_eq!(block(&[&[0x0f, 0x31]]).last, Last::ReadsTime);
        assert_eq!(block(&[&[0x0f, 0x01, 0xf9]]).last, Last::ReadsTime);
    }

    #[test]
    fn next_block_tells_that_all_instructions_retired() {
        let b = looped();
        assert_eq!(b.before_block(0x1006, None), retired(3));
        assert_eq!(b.before_block(0x1000, None), retired(3));
        assert_eq!(b.before_block(0x2000, None), Retired { executed: 3, explained: false });
    }

    #[test]
    fn a_device_access_in_the_middle() {
        let b = looped();
        assert_eq!(b.before_block(0x1003, Some(0)), retired(1));
        assert_eq!(b.before_block(0x1006, Some(0)), retired(3));
        assert_eq!(b.before_entry(Entry { vector: TIMER, rip: 0x1003 }, Some(0)), retired(1));
    }

    #[test]
    fn device_access_without_report_tells_instructions_before_it() {
        let returns = block(&[&[0x89, 0xb7, 0, 0xd0, 0x5f, 0xff], &[0xc3]]);
        assert_eq!(returns.before_block_elsewhere(0x1006), 1);
        assert_eq!(returns.before_block_elsewhere(0x2000), 2);
        assert_eq!(looped().before_block_elsewhere(0x1000), 3);
    }

    #[test]
    fn entry_in_block_tells_how_many_instructions_retired() {
        let b = looped();
        let fault = |rip| b.before_entry(Entry { vector: PAGE_FAULT, rip }, None);
        assert_eq!(fault(0x1000), retired(0), "the load at the top faulted");
        assert_eq!(fault(0x1004), retired(2));
        assert_eq!(fault(0x1006), retired(3), "what follows could not be fetched");
        assert_eq!(fault(0x3000), Retired { executed: 3, explained: false });
        let interrupt = |rip| b.before_entry(Entry { vector: TIMER, rip }, None);
        assert_eq!(interrupt(0x1000), retired(3), "it looped, then came the interrupt");
        assert_eq!(interrupt(0x1006), retired(3));
        assert_eq!(interrupt(0x1003), retired(1));
    }

    #[test]
    fn instructions_with_hooks_are_recognized() {
        assert_eq!(hook_of(&[0xf4]), Hook::Halt);
        assert_eq!(hook_of(&[0x0f, 0x05]), Hook::Syscall);
        assert_eq!(hook_of(&[0x0f, 0x22, 0xd8]), Hook::AddressSpace(0));
        assert_eq!(hook_of(&[0x41, 0x0f, 0x22, 0xdc]), Hook::AddressSpace(12));
        assert_eq!(hook_of(&[0x0f, 0x22, 0xe0]), Hook::None, "cr4");
        assert_eq!(hook_of(&[0x90]), Hook::None);
    }
}

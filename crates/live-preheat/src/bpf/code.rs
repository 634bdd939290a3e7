//! An assembler of BPF, as small as two programs need.

use std::os::fd::RawFd;

use halfwink_live::bpf::Instruction;

/// A place that jumps may name before it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(usize);

/// Helpers of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Helper {
    /// Nanoseconds of the monotonic clock.
    Now = 5,
    /// Reads kernel memory; an error where there is none.
    ReadKernel = 113,
}

/// Widths of loads and stores.
pub(super) const WORD: u8 = 0x00;
pub(super) const DOUBLE: u8 = 0x18;
/// Conditions of jumps, unsigned.
pub(super) const EQUAL: u8 = 0x10;
pub(super) const AT_LEAST: u8 = 0x30;
pub(super) const NOT_EQUAL: u8 = 0x50;
pub(super) const BELOW: u8 = 0xa0;
/// Register that points behind the stack.
pub(super) const FRAME: u8 = 10;

/// Instructions in the making.
#[derive(Debug, Default)]
pub(super) struct Code {
    all: Vec<Instruction>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Code {
    fn push(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        // The kernel's bit fields: the destination is in the lower four bits (little endian).
        debug_assert!(to <= FRAME && from <= FRAME, "BPF has registers 0 to 10");
        let registers = from << 4 | to;
        self.all.push(Instruction { code, registers, offset, immediate });
    }

    /// A place to be named now and set later.
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// The label stands here.
    pub(super) fn here(&mut self, label: Label) {
        debug_assert!(self.places[label.0].is_none(), "a label stands in one place");
        self.places[label.0] = Some(self.all.len());
    }

    /// Emits `to = from`.
    pub(super) fn copy(&mut self, to: u8, from: u8) {
        self.push(0xbf, to, from, 0, 0);
    }

    /// Emits `to = immediate`.
    pub(super) fn set(&mut self, to: u8, immediate: i32) {
        self.push(0xb7, to, 0, 0, immediate);
    }

    /// `to = immediate`, of 64 bits.
    pub(super) fn set_wide(&mut self, to: u8, immediate: u64) {
        // The only instruction of two slots: the second one holds the upper half.
        self.push(0x18, to, 0, 0, immediate as u32 as i32);
        self.push(0, 0, 0, 0, (immediate >> 32) as u32 as i32);
    }

    /// `to =` the memory of a map of one entry.
    pub(super) fn map_value(&mut self, to: u8, map: RawFd) {
        const MAP_VALUE: u8 = 2;
        self.push(0x18, to, MAP_VALUE, 0, map);
        self.push(0, 0, 0, 0, 0);
    }

    /// `to += from`, `to -= from`.
    pub(super) fn add(&mut self, to: u8, from: u8) {
        self.push(0x0f, to, from, 0, 0);
    }

    /// Emits `to -= from`.
    pub(super) fn subtract(&mut self, to: u8, from: u8) {
        self.push(0x1f, to, from, 0, 0);
    }

    /// Emits `to += immediate`.
    pub(super) fn add_number(&mut self, to: u8, immediate: i32) {
        self.push(0x07, to, 0, 0, immediate);
    }

    /// `to -= immediate`, of 32 bits, the upper ones zero.
    pub(super) fn subtract_word(&mut self, to: u8, immediate: i32) {
        self.push(0x14, to, 0, 0, immediate);
    }

    /// Emits `to &= immediate`.
    pub(super) fn and(&mut self, to: u8, immediate: i32) {
        self.push(0x57, to, 0, 0, immediate);
    }

    /// `to &= from`, `to |= from`.
    pub(super) fn and_register(&mut self, to: u8, from: u8) {
        self.push(0x5f, to, from, 0, 0);
    }

    /// Emits `to |= from`.
    pub(super) fn or_register(&mut self, to: u8, from: u8) {
        self.push(0x4f, to, from, 0, 0);
    }

    /// Emits `to ^= immediate`.
    pub(super) fn xor(&mut self, to: u8, immediate: i32) {
        self.push(0xa7, to, 0, 0, immediate);
    }

    /// `to >>= bits`, with copies of the sign.
    pub(super) fn shift_signed_right(&mut self, to: u8, bits: i32) {
        self.push(0xc7, to, 0, 0, bits);
    }

    /// Emits `to <<= bits`.
    pub(super) fn shift(&mut self, to: u8, bits: i32) {
        self.push(0x67, to, 0, 0, bits);
    }

    /// `to = *(from + offset)`.
    pub(super) fn load(&mut self, width: u8, to: u8, from: u8, offset: i16) {
        self.push(0x61 | width, to, from, offset, 0);
    }

    /// `*(to + offset) = from`.
    pub(super) fn store(&mut self, width: u8, to: u8, offset: i16, from: u8) {
        self.push(0x63 | width, to, from, offset, 0);
    }

    /// Jumps if `register` stands so to a number.
    pub(super) fn jump_if(&mut self, how: u8, register: u8, immediate: i32, to: Label) {
        self.jumps.push((self.all.len(), to));
        self.push(0x05 | how, register, 0, 0, immediate);
    }

    /// Jumps if a register stands so to another.
    pub(super) fn jump_if_than(&mut self, how: u8, register: u8, other: u8, to: Label) {
        self.jumps.push((self.all.len(), to));
        self.push(0x0d | how, register, other, 0, 0);
    }

    /// Emits a jump to a label.
    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push((self.all.len(), to));
        self.push(0x05, 0, 0, 0, 0);
    }

    /// Calls a helper: arguments in registers 1 to 5, which it clobbers, its answer in 0.
    pub(super) fn call(&mut self, helper: Helper) {
        self.push(0x85, 0, 0, 0, helper as i32);
    }

    /// Calls a function of the kernel by its number among the kernel's types.
    pub(super) fn call_function(&mut self, number: i32) {
        const KERNEL_FUNCTION: u8 = 2;
        self.push(0x85, 0, KERNEL_FUNCTION, 0, number);
    }

    /// Emits the end of the program.
    pub(super) fn exit(&mut self) {
        self.set(0, 0);
        self.push(0x95, 0, 0, 0, 0);
    }

    /// All instructions, with jumps to where their labels stand.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let place = self.places[label.0].expect("every label that is named stands somewhere");
            self.all[at].offset = (place as isize - at as isize - 1) as i16;
        }
        self.all
    }
}

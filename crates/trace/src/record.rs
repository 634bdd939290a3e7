//! One decoded instruction: what a timing model needs to know of it, whatever machine it came from.

use std::fmt;

/// A set of architectural registers, one bit each.
///
/// | bits | registers |
/// |---|---|
/// | 0-15 | general purpose, in encoding order (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8..r15) |
/// | 16 | status flags |
/// | 17-48 | vector registers 0..31 |
/// | 49-56 | mask registers |
/// | 57 | the x87/MMX stack, as one |
/// | 58 | floating-point control and status |
/// | 59 | control and other system registers, as one; segments carry no dependency |
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RegSet(pub u64);

impl RegSet {
    /// Set without registers.
    pub const EMPTY: RegSet = RegSet(0);
    /// Number of distinct registers.
    pub const COUNT: usize = 60;
    /// rsp, which pipelines let the front end keep track of.
    pub const STACK_POINTER: RegSet = RegSet(1 << 4);
    /// Set of the status flags.
    pub const FLAGS: RegSet = RegSet(1 << 16);
    /// Number of the first vector register.
    pub const VECTOR0: u32 = 17;
    /// Number of the first mask register.
    pub const MASK0: u32 = 49;
    /// Set of the x87 stack.
    pub const X87: RegSet = RegSet(1 << 57);
    /// Floating-point control and status.
    pub const FP_CONTROL: RegSet = RegSet(1 << 58);
    /// Set of the system registers.
    pub const SYSTEM: RegSet = RegSet(1 << 59);

    /// General-purpose register `n` (0..16).
    #[must_use]
    pub const fn gpr(n: u32) -> RegSet {
        RegSet(1 << n)
    }

    /// Vector register `n` (0..32).
    #[must_use]
    pub const fn vector(n: u32) -> RegSet {
        RegSet(1 << (Self::VECTOR0 + n))
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: RegSet) -> RegSet {
        RegSet(self.0 | other.0)
    }

    /// Returns the registers of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: RegSet) -> RegSet {
        RegSet(self.0 & !other.0)
    }

    /// True if every register of `other` is in `self`.
    #[must_use]
    pub const fn contains(self, other: RegSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if no register is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Register numbers in the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let n = rest.trailing_zeros();
                rest &= rest - 1;
                n
            })
        })
    }
}

impl fmt::Debug for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GPR: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ];
        let mut set = f.debug_set();
        for n in self.iter() {
            match n {
                0..=15 => set.entry(&format_args!("{}", GPR[n as usize])),
                16 => set.entry(&format_args!("flags")),
                17..=48 => set.entry(&format_args!("v{}", n - 17)),
                49..=56 => set.entry(&format_args!("k{}", n - 49)),
                57 => set.entry(&format_args!("x87")),
                58 => set.entry(&format_args!("fpctl")),
                _ => set.entry(&format_args!("sys")),
            };
        }
        set.finish()
    }
}

macro_rules! byte_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vmeta])* $variant,)* }

        impl $name {
            /// Every value, in the order of its number in a trace file.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Converts from the number in a trace file.
            #[must_use]
            pub fn from_u8(n: u8) -> Option<$name> {
                Self::ALL.get(usize::from(n)).copied()
            }

            /// Short name for listings.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

byte_enum! {
    /// Computation of an instruction, by the functional unit it needs. Memory operands are apart:
    /// an `IntAlu` with a load is an `add reg, [mem]`. The numbers are part of the trace format:
    /// append only.
    Kind {
        /// Computes nothing.
        Nop = "nop",
        /// Register or memory move, without computing.
        Move = "move",
        /// One-cycle integer arithmetic and logic.
        IntAlu = "alu",
        /// Multiplication of integers.
        IntMul = "mul",
        /// Division of integers.
        IntDiv = "div",
        /// Address arithmetic without an access.
        Lea = "lea",
        /// Vector integer and shuffle.
        VecInt = "vec",
        /// Floating-point addition, comparison, conversion.
        FpAdd = "fadd",
        /// Floating-point multiplication, fused or not.
        FpMul = "fmul",
        /// Floating-point division and square root.
        FpDiv = "fdiv",
        /// Transfer of control.
        Branch = "branch",
        /// One iteration of a string instruction.
        String = "string",
        /// A fence. Atomic operations are of their own kind and [`InstrFlags::LOCKED`].
        Fence = "fence",
        /// Changes machine state: control registers, MSRs, interrupts, cpuid.
        System = "system",
        /// Hint of a spin-wait loop.
        Pause = "pause",
        /// Stops the core until an interrupt.
        Halt = "halt",
    }
}

byte_enum! {
    /// Effect of an instruction on the flow of control. Append only.
    Branch {
        /// No change of flow.
        None = "-",
        /// Conditional direct branch.
        Conditional = "cond",
        /// Unconditional direct jump.
        Jump = "jump",
        /// Unconditional, through a register or memory.
        IndirectJump = "ijump",
        /// Direct call of a function.
        Call = "call",
        /// Call through a register or memory.
        IndirectCall = "icall",
        /// Return from a call.
        Return = "ret",
        /// Enters the kernel by a system-call instruction.
        Syscall = "syscall",
        /// Leaves the kernel by `sysret`/`sysexit`.
        Sysret = "sysret",
        /// Returns from an interrupt.
        Iret = "iret",
        /// Interrupt by an instruction.
        Interrupt = "int",
    }
}

/// Properties that change how a pipeline treats an instruction.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct InstrFlags(pub u8);

impl InstrFlags {
    /// Adjusts the stack pointer implicitly (push, pop, call, ret).
    pub const STACK: InstrFlags = InstrFlags(1);
    /// Has a repeat prefix: the trace holds one execution per iteration.
    pub const REP: InstrFlags = InstrFlags(1 << 1);
    /// Marks an atomic read-modify-write.
    pub const LOCKED: InstrFlags = InstrFlags(1 << 2);
    /// Marks a result that does not depend on the sources (`xor eax, eax`).
    pub const ZERO_IDIOM: InstrFlags = InstrFlags(1 << 3);
    /// Drains the pipeline before the next instruction may start.
    pub const SERIALIZING: InstrFlags = InstrFlags(1 << 4);
    /// All bits that have a meaning in this version.
    pub const KNOWN: InstrFlags = InstrFlags(0x1f);

    /// True if all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: InstrFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of properties.
    #[must_use]
    pub const fn union(self, other: InstrFlags) -> InstrFlags {
        InstrFlags(self.0 | other.0)
    }
}

/// A decoded instruction at its place in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instr {
    /// Registers read, those that form addresses included.
    pub reads: RegSet,
    /// Set of registers written.
    pub writes: RegSet,
    /// The registers among `reads` that form memory addresses.
    pub address: RegSet,
    /// Bytes from the first byte of the block.
    pub offset: u16,
    /// Encoded length in bytes (1..=15 on x86).
    pub len: u8,
    /// Computation of the instruction.
    pub kind: Kind,
    /// Effect on the flow of control.
    pub branch: Branch,
    /// Special properties of the instruction.
    pub flags: InstrFlags,
}

impl Instr {
    /// A no-operation of `len` bytes at `offset`, to fill in with struct update syntax.
    #[must_use]
    pub const fn nop(offset: u16, len: u8) -> Instr {
        Instr {
            reads: RegSet::EMPTY,
            writes: RegSet::EMPTY,
            address: RegSet::EMPTY,
            offset,
            len,
            kind: Kind::Nop,
            branch: Branch::None,
            flags: InstrFlags(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_the_file_do_not_move() {
        // A change here is a change of the trace format.
        assert_eq!(Kind::Halt as u8, 15);
        assert_eq!(Kind::FpAdd as u8, 7);
        assert_eq!(Branch::Interrupt as u8, 10);
        assert_eq!(Kind::from_u8(16), None);
        assert_eq!(Branch::from_u8(4), Some(Branch::Call));
    }

    #[test]
    fn registers_print_by_name() {
        let set = RegSet::gpr(0).union(RegSet::FLAGS).union(RegSet::vector(3));
        assert_eq!(format!("{set:?}"), "{rax, flags, v3}");
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 16, 20]);
    }
}

//! Whose an access to a cache is, and what fetch comes to next.

use halfwink_trace::Branch;

/// Source of an access: the lower bits of the virtual address of its instruction, and its
/// privilege. It is one word, since every operation of a window has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct By(u32);

impl By {
    #[inline]
    pub(crate) const fn new(pc: u64, kernel: bool) -> By {
        By((pc as u32) << 1 | kernel as u32)
    }

    #[inline]
    pub(crate) fn kernel(self) -> bool {
        self.0 & 1 != 0
    }

    /// 31 bits of the address.
    #[inline]
    pub(crate) fn pc(self) -> u64 {
        u64::from(self.0 >> 1)
    }
}

/// Next item for fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Coming {
    /// This line, and the virtual address of its first instruction.
    Line(u64, By, u64),
    /// This branch; it goes to `target`, unless something comes between.
    Branch { branch: Branch, pc: u64, fall_through: u64, target: Option<u64>, kernel: bool },
    /// No further item is visible until dispatch has advanced.
    Nothing,
}

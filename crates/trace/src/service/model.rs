//! What a generated service is like.

use crate::event::Event;

/// Reason of a kernel entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A system call, by Linux' number for x86-64.
    Syscall(u32),
    /// An interrupt, by vector.
    Interrupt(u8),
    /// An exception, by vector; those of [`crate::Trap`] are UltraSPARC's.
    Exception(u8),
}

impl Cause {
    /// The event of an entry. `variant` tells calls of one cause apart by their arguments.
    pub(super) fn event(self, variant: u32) -> Event {
        match self {
            Cause::Syscall(number) => {
                let args = [3 + u64::from(variant), 0, 512 << variant, 0, 0, 0];
                Event::Syscall { number, args }
            }
            Cause::Interrupt(vector) => Event::Interrupt { vector },
            Cause::Exception(vector) => Event::Exception { vector },
        }
    }
}

/// Kernel invocations of about one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Number of these invocations in a deck.
    pub calls: u32,
    /// Mean length of an invocation, in instructions.
    pub mean: u32,
    /// Largest deviation of a length from the mean, as a share of it.
    pub spread: f64,
    /// Causes of the invocations, equally frequent. Each cause has kernel code and data of its own.
    pub causes: &'static [Cause],
}

/// Bytes touched by user code alone, by the kernel alone, and by both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regions {
    /// User code and data.
    pub user: u64,
    /// Kernel code and data.
    pub kernel: u64,
    /// Data that both use.
    pub shared: u64,
}

/// A working set that is gone through again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkingSet {
    /// Share of the accesses of its privilege that goes to it.
    pub share: f64,
    /// Size of the set.
    pub bytes: u64,
}

impl WorkingSet {
    /// Set without accesses.
    pub const NONE: WorkingSet = WorkingSet { share: 0.0, bytes: 0 };
}

/// Access behaviour of a privilege's code. Shares are of its memory accesses; the rest goes to the
/// stack of 32 lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    /// Times that a block of code is executed, on average, before the next one is.
    pub reuse: f64,
    /// Share that goes to what belongs to the cause of the invocation, from its first line on at
    /// each invocation: the longer it is, the more of it. None of user code.
    pub cyclic: f64,
    /// Working sets that are gone through line by line, from the first to the last and again. Of
    /// all patterns it is what LRU serves worst: what others displace in part is missed whole.
    pub walked: [WorkingSet; 2],
    /// Share that goes to a table, all lines alike.
    pub table: f64,
    /// Share that goes through the region line by line, from end to end.
    pub sweep: f64,
    /// Share that goes to shared lines, by popularity.
    pub shared: f64,
    /// Share that goes to lines of the region, by popularity.
    pub popular: f64,
    /// Popularity: the share of accesses to the first part p of the lines is p^(4/`skew`), so 4 is
    /// none and 40 is a lot.
    pub skew: u32,
    /// Accesses to a line before the next one is chosen.
    pub words: u32,
    /// Size of the table.
    pub table_bytes: u64,
}

/// A service, or a program, as a mixture of run lengths and streams of addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceModel {
    /// Name of the workload.
    pub name: &'static str,
    /// The program that it is calibrated to.
    pub program: &'static str,
    /// Mean length of a user run, in instructions.
    pub user_run: u32,
    /// Classes of kernel invocations.
    pub classes: &'static [Class],
    /// Regions of memory.
    pub regions: Regions,
    /// Bytes of user code.
    pub user_code: u64,
    /// Popularity of its functions, as [`Side::skew`].
    pub user_code_skew: u32,
    /// Behaviour of user code.
    pub user: Side,
    /// Behaviour of kernel code.
    pub kernel: Side,
    /// Share of an invocation's instructions beyond the first thousand that copies kernel lines to
    /// shared ones.
    pub copy: f64,
}

impl ServiceModel {
    /// Kernel invocations in a deck.
    #[must_use]
    pub fn deck(&self) -> u32 {
        self.classes.iter().map(|class| class.calls).sum()
    }

    /// Mean length of a kernel invocation, in instructions.
    #[must_use]
    pub fn kernel_run(&self) -> f64 {
        let sum: u64 = self.classes.iter().map(|c| u64::from(c.calls) * u64::from(c.mean)).sum();
        sum as f64 / f64::from(self.deck())
    }
}

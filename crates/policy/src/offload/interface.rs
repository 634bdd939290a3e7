//! Events and actions of a thread that enters the kernel, between a world and its policy.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;

use super::astate::Registers;
use super::threshold::Sample;
use crate::{Host, Log, Policy};

/// A policy that decides where kernel entries of one core run.
pub trait Offload: Policy<Event = Event, Action = Action> + Send {}

impl<O: Offload + ?Sized> Offload for Box<O> {}

impl<O: Offload, L: Log<Event, Action> + Send> Offload for Host<O, L> {}

/// A boxed offload policy.
pub type OffloadPolicy = Box<dyn Offload>;

/// Reason of a kernel entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Cause {
    /// A system-call instruction was executed.
    SystemCall {
        /// Number of the call.
        number: u32,
    },
    /// A device, a timer or another core.
    Interrupt {
        /// Number of the vector.
        vector: u8,
    },
    /// An instruction that could not complete.
    Exception {
        /// Number of the vector.
        vector: u8,
    },
}

impl Cause {
    /// A number that no other cause has: kind in bits 32 and up, number or vector below.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self {
            Cause::SystemCall { number } => 1 << 32 | number as u64,
            Cause::Interrupt { vector } => 2 << 32 | vector as u64,
            Cause::Exception { vector } => 3 << 32 | vector as u64,
        }
    }
}

/// Information about a kernel entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KernelEntry {
    /// Cause of the entry.
    pub cause: Cause,
    /// The arguments of a system call, in the order of the kernel's ABI; zero for others.
    pub args: [u64; 6],
    /// Bytes that the call asks for, if they stand in memory rather than in an argument (`readv`)
    /// and the world has looked.
    pub bytes_in_memory: Option<u64>,
    /// The registers that a predictor hashes.
    pub registers: Registers,
}

/// Events from a core to its offload policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// The core enters the kernel from user mode.
    Enter(KernelEntry),
    /// Back to user mode.
    Exit {
        /// Instructions retired in kernel mode since the entry, those of nested interrupts too.
        instructions: u64,
    },
    /// Counters since the last sample, for policies that adjust themselves.
    Sample(Sample),
}

/// Place where a kernel invocation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Place {
    /// On the core that entered the kernel.
    Here,
    /// On the core that is set aside for the kernel.
    OsCore,
    /// There, while the thread that was running goes on where it is: for interrupts, which a
    /// machine delivers to the core that they are bound to. One that leads to another process, or
    /// halts, is not separable from the thread, and runs here.
    Beside,
}

/// The answer to a kernel entry; or after a return, where the user code goes on, if it is not to go
/// back to (or stay on) its own core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Action {
    /// Place where the invocation runs.
    pub place: Place,
    /// Cost of the decision on the core that entered, in its cycles; charged wherever the
    /// invocation then runs.
    pub decision_cycles: u32,
}

impl Action {
    /// Checks that it can answer this entry.
    ///
    /// # Errors
    /// The place found and where it is allowed.
    pub fn check(&self, entry: &KernelEntry) -> Result<(), String> {
        let is_interrupt = matches!(entry.cause, Cause::Interrupt { .. });
        match self.place {
            Place::Beside if !is_interrupt => {
                Err("answered `beside`, expected it of interrupts alone".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Cycles of a decision in hardware: one lookup (Nellans 2014, Sec 4.6.2).
pub const HARDWARE_CYCLES: u32 = 1;
/// Cycles of a static check: the instructions that the check adds to `getpid` (Nellans 2014, Sec
/// 4.6.1: from 17 to 33). assumption: a cycle per instruction.
pub const STATIC_CHECK_CYCLES: u32 = 16;
/// Cycles of a decision by software at every entry (Nellans 2014, Sec 4.4: tens to hundreds).
/// assumption: the middle of that.
pub const SOFTWARE_CYCLES: u32 = 100;

/// A slot for the one action that an offload policy can have pending.
pub(super) type Pending = Option<Action>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_with_one_number_have_different_codes() {
        assert_eq!(Cause::SystemCall { number: 14 }.code(), 0x1_0000_000e);
        assert_eq!(Cause::Interrupt { vector: 14 }.code(), 0x2_0000_000e);
        assert_eq!(Cause::Exception { vector: 14 }.code(), 0x3_0000_000e);
    }
}

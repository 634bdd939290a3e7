// SPDX-License-Identifier: GPL-2.0-or-later
//! A block that began to execute, and the CPU that it executes on.

use crate::block::{BlockInfo, Exit};
use crate::idt::Entry;

/// A block that began to execute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub block: u32,
    /// The block as QEMU translated it: the same code, perhaps at another address.
    pub home: u32,
    pub count: u16,
    /// The trace's writer knows the block.
    pub defined: bool,
    /// End of the block and its successors, copied from the block: another look-up would cost a
    /// cache miss.
    end: u64,
    exit: Exit,
    /// Last instruction that was executed apart because it talked to a device.
    pub io: Option<u16>,
    /// Whether it was counted already, as it ended in `hlt`.
    pub done: bool,
    /// Another CPU's, while the recorded one had work.
    pub stolen: bool,
    /// Instruction count at its end, if it ends by reading the time.
    pub reads_time: Option<u64>,
}

impl Flight {
    /// A block that begins now.
    #[inline]
    pub fn new(block: u32, home: u32, info: &BlockInfo) -> Flight {
        Flight {
            block,
            home,
            count: info.count,
            defined: info.defined,
            end: info.end,
            exit: info.exit,
            io: None,
            done: false,
            stolen: false,
            reads_time: None,
        }
    }

    /// True if the block certainly ran to its end, given that the block at `pc` came next. Device
    /// accesses in the middle are known on the `recorded` CPU only.
    #[inline]
    pub fn surely_leads_to(&self, pc: u64, recorded: bool) -> bool {
        if self.io.is_some() || self.done {
            return false;
        }
        match self.exit {
            Exit::Anywhere => recorded,
            exit => exit.leads_to(self.end, pc),
        }
    }
}

/// State of a CPU in the recorder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    pub flight: Option<Flight>,
    pub halted: bool,
}

/// Results of reading registers at the start of a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// The block is the handler of an interrupt or exception.
    pub entry: Option<Entry>,
    /// The instruction before read the time, and this is it.
    pub time: Option<u64>,
}

//! What a processor with register windows and software-filled TLBs is like.

use serde::{Deserialize, Serialize};

use crate::event::Event;

/// Reasons of kernel entries beside system calls, interrupts and exceptions. Traps of UltraSPARC
/// that x86-64 does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trap {
    /// A `save` found no free window.
    WindowSpill,
    /// A `restore` found its window in memory.
    WindowFill,
    /// A `save` found a window with another mode's values.
    CleanWindow,
    /// Code of a page that the instruction TLB does not hold.
    InstructionTlbMiss,
    /// Data of a page that the data TLB does not hold.
    DataTlbMiss,
}

impl Trap {
    /// All kinds of traps.
    pub const ALL: [Trap; 5] = [
        Trap::WindowSpill,
        Trap::WindowFill,
        Trap::CleanWindow,
        Trap::InstructionTlbMiss,
        Trap::DataTlbMiss,
    ];

    /// Trap type (SPARC V9 manual, Ch. 7; UltraSPARC I and II manual, Ch. 11). No exception of x86
    /// has a vector over 31, so an [`Event::Exception`] with one of these is that trap.
    #[must_use]
    pub const fn vector(self) -> u8 {
        match self {
            Trap::CleanWindow => 0x24,
            Trap::InstructionTlbMiss => 0x64,
            Trap::DataTlbMiss => 0x68,
            Trap::WindowSpill => 0x80,
            Trap::WindowFill => 0xc0,
        }
    }

    /// The trap that an event is, if it is one.
    #[must_use]
    pub fn of(event: &Event) -> Option<Trap> {
        let Event::Exception { vector } = *event else { return None };
        Trap::ALL.into_iter().find(|trap| trap.vector() == vector)
    }

    /// Returns the name for listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Trap::WindowSpill => "window-spill",
            Trap::WindowFill => "window-fill",
            Trap::CleanWindow => "clean-window",
            Trap::InstructionTlbMiss => "instruction-tlb-miss",
            Trap::DataTlbMiss => "data-tlb-miss",
        }
    }

    /// True for those of register windows.
    #[must_use]
    pub const fn is_window(self) -> bool {
        matches!(self, Trap::WindowSpill | Trap::WindowFill | Trap::CleanWindow)
    }
}

/// A processor's register windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowModel {
    /// NWINDOWS: 3 to 32.
    pub windows: u8,
    /// Calls that return without calling take a window too.
    pub leaf_calls_save: bool,
    /// The user finds windows of the kernel cleaned, one a trap.
    pub clean_windows: bool,
}

/// Shape of a set-associative TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbShape {
    /// Pages that it holds.
    pub entries: u16,
    /// Pages of a set.
    pub ways: u16,
}

/// A processor's TLBs, and the table that fills them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbModel {
    /// Pages of programs, in bytes: a power of two.
    pub page_bytes: u64,
    /// TLB of user code.
    pub instruction: TlbShape,
    /// TLB of user data.
    pub data: TlbShape,
    /// Pages of the kernel's data, in bytes: a power of two.
    pub kernel_page_bytes: u64,
    /// TLB of the kernel's data.
    pub kernel_data: TlbShape,
    /// The kernel's image: so many of the last addresses, which are locked in the TLBs.
    pub kernel_image_bytes: u64,
    /// Entries of a program's translation storage buffer, which is direct-mapped.
    pub tsb_entries: u32,
}

/// Instructions of each handler, from the trap's first to `retry`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerLengths {
    /// Writes a window of the user's.
    pub user_spill: u16,
    /// Reads a window of the user's back.
    pub user_fill: u16,
    /// Length of clearing a window.
    pub clean_window: u16,
    /// Writes a window of the kernel's.
    pub kernel_spill: u16,
    /// Reads a window of the kernel's back.
    pub kernel_fill: u16,
    /// Extra length of a kernel entry if no window is free.
    pub entry_spill: u16,
    /// Extra length of a return to the user if its window is in memory.
    pub exit_fill: u16,
    /// Finds a page of code in the translation storage buffer.
    pub instruction_tsb_hit: u16,
    /// Walks the page table for it.
    pub instruction_tsb_miss: u16,
    /// Finds a page of data in the translation storage buffer.
    pub data_tsb_hit: u16,
    /// Walks the page table for it.
    pub data_tsb_miss: u16,
    /// Maps a page of the kernel's data.
    pub kernel_data: u16,
}

/// All that decides which traps a program takes, and how long each lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrapModel {
    /// Model of the register windows.
    pub windows: WindowModel,
    /// Model of the TLBs.
    pub tlb: TlbModel,
    /// Lengths of the handlers.
    pub handlers: HandlerLengths,
}

impl TrapModel {
    /// The first value that is impossible: its path (`tlb.data.ways`), and what was expected.
    ///
    /// # Errors
    /// If there is one.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if !(3..=32).contains(&self.windows.windows) {
            let found = self.windows.windows;
            return Err(("windows.windows", format!("{found}, expected 3 to 32")));
        }
        let tlb = &self.tlb;
        for (path, shape) in [
            ("tlb.instruction", tlb.instruction),
            ("tlb.data", tlb.data),
            ("tlb.kernel_data", tlb.kernel_data),
        ] {
            if shape.ways == 0 || shape.entries == 0 || !shape.entries.is_multiple_of(shape.ways) {
                let TlbShape { entries, ways } = shape;
                let message = format!("{entries} entries of {ways} ways, expected whole sets");
                return Err((path, message));
            }
        }
        for (path, bytes) in
            [("tlb.page_bytes", tlb.page_bytes), ("tlb.kernel_page_bytes", tlb.kernel_page_bytes)]
        {
            if !bytes.is_power_of_two() || bytes < 4096 {
                return Err((path, format!("{bytes}, expected a power of two from 4096")));
            }
        }
        if !(1..=1 << 20).contains(&tlb.tsb_entries) {
            let message = format!("{}, expected 1 to 1048576", tlb.tsb_entries);
            return Err(("tlb.tsb_entries", message));
        }
        self.handlers.check()
    }
}

/// Longest handler that can be described, in instructions.
const LONGEST: u16 = 1000;

impl HandlerLengths {
    fn check(&self) -> Result<(), (&'static str, String)> {
        for (path, instructions) in [
            ("handlers.user_spill", self.user_spill),
            ("handlers.user_fill", self.user_fill),
            ("handlers.clean_window", self.clean_window),
            ("handlers.kernel_spill", self.kernel_spill),
            ("handlers.kernel_fill", self.kernel_fill),
            ("handlers.entry_spill", self.entry_spill),
            ("handlers.exit_fill", self.exit_fill),
            ("handlers.instruction_tsb_hit", self.instruction_tsb_hit),
            ("handlers.instruction_tsb_miss", self.instruction_tsb_miss),
            ("handlers.data_tsb_hit", self.data_tsb_hit),
            ("handlers.data_tsb_miss", self.data_tsb_miss),
            ("handlers.kernel_data", self.kernel_data),
        ] {
            if !(1..=LONGEST).contains(&instructions) {
                let message = format!("{instructions} instructions, expected 1 to {LONGEST}");
                return Err((path, message));
            }
        }
        Ok(())
    }
}

//! What happens between instructions.

use halfwink_units::Asid;

/// An event at a point of the instruction stream, other than an instruction.
///
/// Times are the recorded machine's own virtual nanoseconds since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The following instructions run on this CPU of the recorded machine.
    Cpu(u16),
    /// The page tables were switched.
    AddressSpace(Asid),
    /// A system-call instruction just executed: number and the six argument registers.
    Syscall {
        /// Number of the system call.
        number: u32,
        /// Arguments, in the order of the kernel's ABI.
        args: [u64; 6],
    },
    /// An interrupt is taken before the next instruction.
    Interrupt {
        /// Number of the vector.
        vector: u8,
    },
    /// An exception is taken before the next instruction; the faulting instruction did not retire.
    Exception {
        /// Number of the vector.
        vector: u8,
    },
    /// The CPU halted, and something woke it.
    Idle {
        /// Time at which it halted, in virtual nanoseconds.
        from_ns: u64,
        /// Time at which it woke, in virtual nanoseconds; not before `from_ns`.
        to_ns: u64,
    },
    /// The recorded program executed a marker instruction; or a sample begins ([`SAMPLE_MARK`]).
    Mark {
        /// Code of the marker.
        code: u32,
        /// Argument register of the marker.
        arg: u64,
    },
    /// A request of the workload was sent to the recorded service.
    RequestBegin {
        /// Identifies the request within the trace.
        id: u64,
        /// Time at which it was sent, in virtual nanoseconds.
        at_ns: u64,
    },
    /// The response to a request was complete.
    RequestEnd {
        /// The `id` of its [`Event::RequestBegin`].
        id: u64,
        /// Time at which it was complete, in virtual nanoseconds.
        at_ns: u64,
    },
}

impl Event {
    /// Short name for listings and counts.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Event::Cpu(_) => "cpu",
            Event::AddressSpace(_) => "address-space",
            Event::Syscall { .. } => "syscall",
            Event::Interrupt { .. } => "interrupt",
            Event::Exception { .. } => "exception",
            Event::Idle { .. } => "idle",
            Event::Mark { .. } => "mark",
            Event::RequestBegin { .. } => "request-begin",
            Event::RequestEnd { .. } => "request-end",
        }
    }
}

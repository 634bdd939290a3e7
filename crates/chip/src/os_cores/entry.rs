//! What a recorded event tells of a kernel entry.

use halfwink_policy::offload::{Cause, KernelEntry, Registers};
use halfwink_trace::Event;

/// The kernel entry that an event leads to; `None` for events that lead to none.
///
/// assumption: traces hold call numbers and arguments, but no register values. So `PSTATE` is
/// constant for each kind of entry; the call number and the first two arguments have their roles;
/// an interrupt or exception has its vector for a call number and zero arguments. What a call's
/// arguments point to is not in a trace either.
#[must_use]
pub fn kernel_entry(event: &Event) -> Option<KernelEntry> {
    const INTERRUPT: u64 = 1 << 62;
    const EXCEPTION: u64 = 2 << 62;
    let (cause, args, registers) = match *event {
        Event::Syscall { number, args } => {
            let registers = Registers::x86_64(0, u64::from(number), args[0], args[1]);
            (Cause::SystemCall { number }, args, registers)
        }
        Event::Interrupt { vector } => {
            let registers = Registers::x86_64(INTERRUPT, u64::from(vector), 0, 0);
            (Cause::Interrupt { vector }, [0; 6], registers)
        }
        Event::Exception { vector } => {
            let registers = Registers::x86_64(EXCEPTION, u64::from(vector), 0, 0);
            (Cause::Exception { vector }, [0; 6], registers)
        }
        _ => return None,
    };
    Some(KernelEntry { cause, args, bytes_in_memory: None, registers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_entries_do_not_collide() {
        let astate = |event: &Event| kernel_entry(event).unwrap().registers.astate();
        // A call 14 without arguments, interrupt 14 and a page fault.
        let causes = [
            Event::Syscall { number: 14, args: [0; 6] },
            Event::Interrupt { vector: 14 },
            Event::Exception { vector: 14 },
        ];
        let astates = causes.map(|cause| astate(&cause));
        assert_eq!(astates, [14, 1 << 62 | 14, 1 << 63 | 14]);
        assert_eq!(kernel_entry(&Event::Cpu(0)), None);
        let call = Event::Syscall { number: 1, args: [4, 0x100, 99, 0, 0, 0] };
        assert_eq!(astate(&call), 0x105);
    }
}

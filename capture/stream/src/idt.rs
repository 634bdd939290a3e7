// SPDX-License-Identifier: GPL-2.0-or-later
//! Interrupts and exceptions: which addresses they enter the kernel at, and where they came from.

use std::collections::HashMap;

/// Address at which Linux maps the interrupt descriptor table read-only, on every x86-64 kernel
/// since 4.15.
pub const LINUX_IDT: u64 = 0xffff_fe00_0000_0000;
/// Bytes in the table: 256 gates of 16 bytes.
pub const IDT_BYTES: usize = 256 * 16;
/// Bytes of the frame that the CPU pushes, with an error code.
pub const FRAME_BYTES: usize = 48;
/// Vectors below this one are exceptions.
pub const FIRST_INTERRUPT: u8 = 32;
/// The non-maskable interrupt is an interrupt although its vector is low.
const NMI: u8 = 2;

/// Entry address to vector, for all gates that are present.
#[must_use]
pub fn parse_idt(table: &[u8; IDT_BYTES]) -> HashMap<u64, u8> {
    let mut handlers = HashMap::new();
    for (vector, gate) in table.chunks_exact(16).enumerate() {
        let part = |at: usize, bytes: usize| {
            gate[at..at + bytes].iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b))
        };
        let handler = part(0, 2) | part(6, 2) << 16 | part(8, 4) << 32;
        if gate[5] & 0x80 != 0 && handler != 0 {
            handlers.entry(handler).or_insert(vector as u8);
        }
    }
    handlers
}

/// An entry into the kernel through the interrupt descriptor table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the vector.
    pub vector: u8,
    /// Address of the instruction that the handler will return to.
    pub rip: u64,
}

impl Entry {
    /// Parses the top of the handler's stack.
    #[must_use]
    pub fn parse(vector: u8, frame: &[u8; FRAME_BYTES]) -> Entry {
        let at = if pushes_error_code(vector) { 8 } else { 0 };
        let rip = u64::from_le_bytes(frame[at..at + 8].try_into().expect("eight bytes"));
        Entry { vector, rip }
    }

    /// True for interrupts, false for exceptions.
    #[must_use]
    pub fn is_interrupt(self) -> bool {
        self.vector >= FIRST_INTERRUPT || self.vector == NMI
    }
}

/// Intel SDM volume 3, table 6-1.
fn pushes_error_code(vector: u8) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idt_gate_gives_handler_address() {
        let mut table = [0; IDT_BYTES];
        let handler = 0xffff_ffff_81c0_0be0u64;
        let bytes = handler.to_le_bytes();
        let gate = &mut table[14 * 16..15 * 16];
        gate[..2].copy_from_slice(&bytes[..2]);
        gate[6..8].copy_from_slice(&bytes[2..4]);
        gate[8..12].copy_from_slice(&bytes[4..]);
        assert!(parse_idt(&table).is_empty(), "it is not present yet");
        table[14 * 16 + 5] = 0x8e;
        assert_eq!(parse_idt(&table), HashMap::from([(handler, 14)]));
    }

    #[test]
    fn frames_with_and_without_an_error_code() {
        let mut frame = [0; FRAME_BYTES];
        frame[0] = 7;
        frame[8] = 9;
        assert_eq!(Entry::parse(14, &frame).rip, 9);
        assert_eq!(Entry::parse(6, &frame).rip, 7);
        assert!(Entry::parse(236, &frame).is_interrupt());
        assert!(Entry::parse(2, &frame).is_interrupt());
        assert!(!Entry::parse(3, &frame).is_interrupt());
    }
}

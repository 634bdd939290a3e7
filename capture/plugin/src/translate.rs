// SPDX-License-Identifier: GPL-2.0-or-later
//! What is done with a block when QEMU translates it.

use crate::block::Definition;
use crate::ffi::TbHandle;

/// Address at which Linux maps its own text: `phys = virt - KERNEL_MAP` without address
/// randomisation.
const KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
/// Kernel text lies in the first GiB of that mapping, behind its first 16 MiB.
const KERNEL_TEXT: std::ops::Range<u64> = KERNEL_MAP + (16 << 20)..KERNEL_MAP + (1 << 30);
const PAGE: u64 = 4096;

/// Turns addresses in QEMU's memory into guest-physical ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RamBase(Option<u64>);

impl RamBase {
    /// Learns from a block of kernel text, whose physical address is known.
    pub fn learn(&mut self, virt: u64, host: u64) {
        if self.0.is_none() && host != 0 && KERNEL_TEXT.contains(&virt) {
            let base = host.wrapping_sub(virt - KERNEL_MAP);
            self.0 = base.is_multiple_of(PAGE).then_some(base);
        }
    }

    /// Guest-physical address of a host address; 0 if either is unknown.
    #[must_use]
    pub fn phys(self, host: u64) -> u64 {
        match self.0 {
            Some(base) if host >= base => host - base,
            _ => 0,
        }
    }
}

/// Copies a block out of QEMU.
#[must_use]
pub fn define(tb: TbHandle, ram: RamBase) -> Definition {
    let mut def =
        Definition { pc: 0, phys: 0, phys_next_page: 0, bytes: Vec::new(), lengths: Vec::new() };
    let mut buf = [0; 16];
    for insn in tb.instructions() {
        let length = insn.bytes(&mut buf);
        let virt = insn.virt();
        if def.lengths.is_empty() {
            def.pc = virt;
            def.phys = ram.phys(insn.host());
        } else if def.phys_next_page == 0 && virt / PAGE != def.pc / PAGE {
            def.phys_next_page = ram.phys(insn.host()) & !(PAGE - 1);
        }
        def.bytes.extend_from_slice(&buf[..length]);
        def.lengths.push(length as u8);
    }
    def
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_is_found_by_kernel_text() {
        let mut ram = RamBase::default();
        assert_eq!(ram.phys(0x7000_0000_1000), 0);
        ram.learn(0x40_0000, 0x7000_0000_1000);
        assert_eq!(ram, RamBase::default(), "user code tells nothing");
        ram.learn(KERNEL_MAP + 0x0100_0010, 0x7000_0100_0010);
        assert_eq!(ram.phys(0x7000_0000_1000), 0x1000);
        assert_eq!(ram.phys(0x6000_0000_0000), 0);
    }
}

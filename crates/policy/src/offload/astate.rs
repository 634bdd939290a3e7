//! AState: what a processor's registers say of the kernel invocation that begins.

/// The registers that are hashed, by their names on SPARC (Nellans 2014, Sec 4.6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Registers {
    /// Privilege, interrupt mask, floating-point enable, memory model.
    pub pstate: u64,
    /// First global register; always zero on SPARC.
    pub g0: u64,
    /// Second global register: the system-call number.
    pub g1: u64,
    /// Register of the first argument.
    pub i0: u64,
    /// Register of the second argument.
    pub i1: u64,
}

impl Registers {
    /// Fills the roles from registers of x86-64. assumption: `rax` is the call number, `rdi` and
    /// `rsi` are the first arguments, and what SPARC keeps in PSTATE is made up of `rflags` and the
    /// privilege left.
    #[must_use]
    pub const fn x86_64(pseudo_pstate: u64, rax: u64, rdi: u64, rsi: u64) -> Registers {
        Registers { pstate: pseudo_pstate, g0: 0, g1: rax, i0: rdi, i1: rsi }
    }

    /// `AState = PSTATE xor %g0 xor %g1 xor %i0 xor %i1`, without shifting or mixing (Nellans 2014,
    /// Sec 4.6.2).
    #[must_use]
    pub const fn astate(&self) -> u64 {
        self.pstate ^ self.g0 ^ self.g1 ^ self.i0 ^ self.i1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn astate_is_the_exclusive_or_of_the_registers() {
        // 0x16 ^ 0x04 = 0x12; ^ 0x03 = 0x11; ^ 0xffff_8000 = 0xffff_8011.
        let registers = Registers { pstate: 0x16, g0: 0, g1: 4, i0: 3, i1: 0xffff_8000 };
        assert_eq!(registers.astate(), 0xffff_8011);
        // 0xff00 ^ 0x0ff0 = 0xf0f0: every register takes part, the top bits too.
        let registers = Registers { pstate: 0xff00, g0: 0x0ff0, g1: 1 << 63, i0: 0, i1: 1 << 63 };
        assert_eq!(registers.astate(), 0xf0f0);
        assert_eq!(Registers::x86_64(2, 1, 4, 0x100).astate(), 0x107);
    }

    #[test]
    fn swapped_arguments_have_equal_astate() {
        // What a plain exclusive-or costs: read(3, 5) and read(5, 3) are one state.
        let registers = |i0, i1| Registers { pstate: 0, g0: 0, g1: 0, i0, i1 };
        assert_eq!(registers(3, 5).astate(), registers(5, 3).astate());
        assert_ne!(registers(3, 5).astate(), registers(3, 6).astate());
    }
}

//! Instructions of `DR_ISA_REGDEPS`: public traces say of each only which registers it depends on
//! and of what kind it is (`core/ir/isa_regdeps/encoding_common.h`).
//!
//! ```text
//! header u32: destinations 4 bits | sources 4 | flags written 1 | read 1 | category 22
//! size u8 | destinations u8 x n | sources u8 x n, if there are any
//! ```

use crate::record::{Instr, Kind, RegSet};

/// Bits of a category (`dr_instr_category_t`).
mod category {
    pub(super) const FP: u32 = 1;
    pub(super) const LOAD: u32 = 1 << 1;
    pub(super) const STORE: u32 = 1 << 2;
    pub(super) const BRANCH: u32 = 1 << 3;
    pub(super) const SIMD: u32 = 1 << 4;
    pub(super) const STATE: u32 = 1 << 5;
    pub(super) const MOVE: u32 = 1 << 6;
    pub(super) const CONVERT: u32 = 1 << 7;
    pub(super) const MATH: u32 = 1 << 8;
}

const HEADER_BYTES: usize = 4;
/// Number of the first virtual register, `DR_REG_VIRT0`.
const FIRST_REGISTER: u8 = 2;

/// Decodes an instruction; none if the bytes end before its last register.
pub(super) fn decode(bytes: &[u8]) -> Option<Instr> {
    let header = u32::from_le_bytes(*bytes.first_chunk::<HEADER_BYTES>()?);
    let destinations = (header & 0xf) as usize;
    let sources = (header >> 4 & 0xf) as usize;
    let named = match destinations + sources {
        0 => &[][..],
        // One byte holds the size of the largest operand.
        all => bytes.get(HEADER_BYTES + 1..HEADER_BYTES + 1 + all)?,
    };
    let (written, read) = named.split_at(destinations);
    let set = |numbers: &[u8]| {
        numbers.iter().fold(RegSet::EMPTY, |set, number| set.union(register(*number)))
    };
    let flags = |bit: u32| if header >> 8 & bit != 0 { RegSet::FLAGS } else { RegSet::EMPTY };
    let category = header >> 10;
    let (reads, writes) = (set(read), set(written));
    let uses_memory = category & (category::LOAD | category::STORE) != 0;
    Some(Instr {
        reads: reads.union(flags(2)),
        writes: writes.union(flags(1)),
        address: if uses_memory { address(reads, writes) } else { RegSet::EMPTY },
        kind: kind(category, named.is_empty()),
        ..Instr::nop(0, 1)
    })
}

/// Guesses which sources form the address, which is not told: general registers, and of them those
/// that keep their value, since what is computed from memory is mostly written back.
fn address(reads: RegSet, writes: RegSet) -> RegSet {
    let general = RegSet(reads.0 & 0xffff);
    match general.without(writes) {
        RegSet::EMPTY => general,
        kept => kept,
    }
}

/// The unit of an instruction. Which of a category multiply or divide is not told.
fn kind(found: u32, is_without_registers: bool) -> Kind {
    let is = |bits: u32| found & bits != 0;
    if is(category::BRANCH) {
        Kind::Branch
    } else if is(category::STATE) {
        Kind::System
    } else if is(category::FP) && is(category::MATH | category::CONVERT) {
        Kind::FpAdd
    } else if is(category::MATH) {
        if is(category::SIMD) {
            Kind::VecInt
        } else {
            Kind::IntAlu
        }
    } else if is(category::MOVE | category::LOAD | category::STORE) {
        Kind::Move
    } else if is(category::SIMD) {
        Kind::VecInt
    } else if is_without_registers {
        Kind::Nop
    } else {
        Kind::IntAlu
    }
}

/// The place of a virtual register, in the order in which x86's are numbered
/// (`d_r_reg_id_to_virtual`).
fn register(number: u8) -> RegSet {
    match number.checked_sub(FIRST_REGISTER).map(u32::from) {
        None => RegSet::EMPTY,
        Some(n @ 0..=15) => RegSet::gpr(n),
        Some(16..=31) => RegSet::X87,
        // Segments carry no dependency.
        Some(32..=37) => RegSet::EMPTY,
        Some(n @ 70..=101) => RegSet::vector(n - 70),
        Some(n @ 102..=109) => RegSet(1 << (RegSet::MASK0 + n - 102)),
        Some(_) => RegSet::SYSTEM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_to_memory_has_its_registers() {
        // add [rbx + rcx], rax: no destination, three sources, writes flags; load, store, math.
        let header = 3 << 4 | 1 << 8 | (1 << 1 | 1 << 2 | 1 << 8) << 10_u32;
        let mut bytes = u32::to_le_bytes(header).to_vec();
        bytes.extend([8, 3 + 2, 1 + 2, 2, 0, 0, 0, 0]);
        let found = decode(&bytes).unwrap();
        let named = [0, 1, 3].map(RegSet::gpr).into_iter().fold(RegSet::EMPTY, RegSet::union);
        assert_eq!((found.reads, found.writes), (named, RegSet::FLAGS));
        assert_eq!((found.address, found.kind), (named, Kind::IntAlu));
        assert_eq!(decode(&bytes[..7]), None);
    }

    #[test]
    fn a_sum_over_an_array_does_not_wait_for_itself_to_load() {
        // add rax, [rbx]: what is written is no part of the address.
        let header = 1 | 2 << 4 | 1 << 8 | (1 << 1 | 1 << 8) << 10_u32;
        let mut bytes = u32::to_le_bytes(header).to_vec();
        bytes.extend([8, 2, 2, 3 + 2]);
        assert_eq!(decode(&bytes).unwrap().address, RegSet::gpr(3));
        // mov rax, [rax]: but for lack of another it is.
        let header = 1 | 1 << 4 | (1 << 1 | 1 << 6) << 10_u32;
        let mut bytes = u32::to_le_bytes(header).to_vec();
        bytes.extend([8, 2, 2, 0]);
        assert_eq!(decode(&bytes).unwrap().address, RegSet::gpr(0));
    }

    #[test]
    fn vectors_flags_and_nothing() {
        // addpd xmm1, xmm0, then a conditional branch, then a nop.
        let header = 1 | 2 << 4 | (1 | 1 << 4 | 1 << 8) << 10_u32;
        let mut bytes = u32::to_le_bytes(header).to_vec();
        bytes.extend([16, 71 + 2, 70 + 2, 71 + 2]);
        let found = decode(&bytes).unwrap();
        assert_eq!(found.writes, RegSet::vector(1));
        assert_eq!(found.reads, RegSet::vector(0).union(RegSet::vector(1)));
        assert_eq!(found.kind, Kind::FpAdd);
        let branch = decode(&u32::to_le_bytes(2 << 8 | 1 << 13)).unwrap();
        assert_eq!((branch.kind, branch.reads), (Kind::Branch, RegSet::FLAGS));
        assert_eq!(decode(&[0; 4]).unwrap().kind, Kind::Nop);
        assert_eq!(decode(&[0; 3]), None);
    }
}

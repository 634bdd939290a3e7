//! From x86-64 machine code to records, by iced-x86.

use std::sync::OnceLock;

use halfwink_units::VirtAddr;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo,
    InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use crate::record::{Branch, Instr, InstrFlags, Kind, RegSet};

/// Decodes the instructions of a block. Bytes that do not decode to an instruction of the given
/// length become a serializing system instruction, so that a timing model treats them carefully.
pub fn decode_block(pc: VirtAddr, bytes: &[u8], lengths: &[u8], out: &mut Vec<Instr>) {
    let mut info = InstructionInfoFactory::new();
    each(pc, bytes, lengths, |offset, len, decoded| {
        out.push(match decoded {
            Some(instruction) => record(instruction, info.info(instruction), offset),
            None => Instr {
                kind: Kind::System,
                flags: InstrFlags::SERIALIZING,
                ..Instr::nop(offset, len)
            },
        });
    });
}

/// Which base register the loads and stores of an instruction use; a hint for compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryGroups {
    /// Address group of loads.
    pub load: u8,
    /// Address group of stores.
    pub store: u8,
}

/// Group of accesses without a base register.
const NO_BASE: u8 = 16;
/// Group of accesses that no operand explains.
const UNKNOWN_BASE: u8 = 17;

impl MemoryGroups {
    /// Derives the groups from the address registers, where nothing better is known.
    #[must_use]
    pub fn guess(address: RegSet) -> MemoryGroups {
        let group = address.iter().find(|&n| n < 16).map_or(NO_BASE, |n| n as u8);
        MemoryGroups { load: group, store: group }
    }
}

/// Appends the groups of every instruction of a block.
pub fn memory_groups(pc: VirtAddr, bytes: &[u8], lengths: &[u8], out: &mut Vec<MemoryGroups>) {
    let mut info = InstructionInfoFactory::new();
    each(pc, bytes, lengths, |_, _, decoded| {
        let mut groups = MemoryGroups { load: UNKNOWN_BASE, store: UNKNOWN_BASE };
        if let Some(instruction) = decoded {
            for memory in info.info(instruction).used_memory() {
                let base = match memory.base() {
                    Register::None => memory.index(),
                    base => base,
                };
                let group = match reg_bit(base) {
                    Some(n @ 0..=15) => n as u8,
                    _ => NO_BASE,
                };
                let (reads, writes) = reads_and_writes(memory.access());
                if reads && groups.load == UNKNOWN_BASE {
                    groups.load = group;
                }
                if writes && groups.store == UNKNOWN_BASE {
                    groups.store = group;
                }
            }
        }
        out.push(groups);
    });
}

/// Text of an instruction, for listings: Intel syntax is not available, so the mnemonic alone.
#[must_use]
pub fn mnemonic(pc: VirtAddr, bytes: &[u8]) -> String {
    let mut decoder = Decoder::with_ip(64, bytes, pc.0, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return "(bad)".to_owned();
    }
    format!("{:?}", instruction.mnemonic()).to_lowercase()
}

fn each(
    pc: VirtAddr,
    bytes: &[u8],
    lengths: &[u8],
    mut with: impl FnMut(u16, u8, Option<&Instruction>),
) {
    let mut offset = 0usize;
    for &len in lengths {
        let end = (offset + usize::from(len)).min(bytes.len());
        let window = bytes.get(offset..end).unwrap_or_default();
        let ip = pc.0.wrapping_add(offset as u64);
        // Each instruction has a window and a decoder of its own: bytes that do not decode leave
        // those behind them where they are.
        let mut decoder = Decoder::with_ip(64, window, ip, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let good = !instruction.is_invalid() && instruction.len() == usize::from(len);
        with(offset.min(usize::from(u16::MAX)) as u16, len.max(1), good.then_some(&instruction));
        offset += usize::from(len);
    }
}

fn record(instruction: &Instruction, info: &InstructionInfo, offset: u16) -> Instr {
    let mut reads = RegSet::EMPTY;
    let mut writes = RegSet::EMPTY;
    let mut address = RegSet::EMPTY;
    for used in info.used_registers() {
        let Some(bit) = reg_bit(used.register()) else { continue };
        let (r, w) = reads_and_writes(used.access());
        let set = RegSet(1 << bit);
        if r {
            reads = reads.union(set);
        }
        if w {
            writes = writes.union(set);
            // Writing part of a register keeps the rest (32-bit writes clear it).
            let size = used.register().size();
            if used.register().is_gpr() && size < 4 {
                reads = reads.union(set);
            }
        }
    }
    for memory in info.used_memory() {
        for register in [memory.base(), memory.index()] {
            if let Some(bit) = reg_bit(register) {
                address = address.union(RegSet(1 << bit));
            }
        }
    }
    if instruction.rflags_read() != 0 {
        reads = reads.union(RegSet::FLAGS);
    }
    if instruction.rflags_modified() != 0 {
        writes = writes.union(RegSet::FLAGS);
    }
    reads = reads.union(address);
    let kind = kind_of(instruction);
    let branch = branch_of(instruction.code());
    let flags = flags_of(instruction, kind, branch);
    if flags.has(InstrFlags::ZERO_IDIOM) {
        reads = address;
    }
    let len = instruction.len() as u8;
    Instr { reads, writes, address, offset, len, kind, branch, flags }
}

fn reads_and_writes(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write => (false, true),
        // A conditional write keeps the old value otherwise.
        OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

/// Bit of a register in a [`RegSet`]; `None` for those that carry no dependency.
fn reg_bit(register: Register) -> Option<u32> {
    let full = register.full_register();
    if full.is_gpr() {
        return Some(full.number() as u32);
    }
    if full.is_vector_register() {
        return Some(RegSet::VECTOR0 + full.number() as u32);
    }
    if full.is_k() {
        return Some(RegSet::MASK0 + full.number() as u32);
    }
    // One bit stands for all: x87 registers rotate with the top of their stack, and MMX shares
    // them.
    if full.is_st() || full.is_mm() {
        return Some(57);
    }
    if full.is_cr() || full.is_dr() || full.is_tr() {
        return Some(59);
    }
    // Segment bases are constant between system instructions; the instruction pointer is known.
    None
}

fn branch_of(code: Code) -> Branch {
    match code.flow_control() {
        FlowControl::Next | FlowControl::Exception | FlowControl::XbeginXabortXend => Branch::None,
        FlowControl::UnconditionalBranch => Branch::Jump,
        FlowControl::IndirectBranch => Branch::IndirectJump,
        FlowControl::ConditionalBranch => Branch::Conditional,
        FlowControl::IndirectCall => Branch::IndirectCall,
        FlowControl::Interrupt => Branch::Interrupt,
        FlowControl::Return => match code.mnemonic() {
            Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Branch::Iret,
            Mnemonic::Erets | Mnemonic::Eretu | Mnemonic::Uiret => Branch::Iret,
            Mnemonic::Sysret | Mnemonic::Sysretq | Mnemonic::Sysexit | Mnemonic::Sysexitq => {
                Branch::Sysret
            }
            Mnemonic::Ret | Mnemonic::Retf => Branch::Return,
            _ => Branch::None,
        },
        FlowControl::Call => match code.mnemonic() {
            Mnemonic::Syscall | Mnemonic::Sysenter => Branch::Syscall,
            Mnemonic::Call => Branch::Call,
            _ => Branch::None,
        },
    }
}

/// Returns whether an instruction leaves for a hypervisor, a guest or firmware, or returns from
/// one. iced-x86 counts `vmcall` and `rsm` among calls and returns, but they leave the stack and a
/// predictor's return addresses alone, and a program goes on behind its `vmcall`.
fn is_world_switch(code: Code) -> bool {
    matches!(code.flow_control(), FlowControl::Call | FlowControl::Return)
        && branch_of(code) == Branch::None
}

fn flags_of(instruction: &Instruction, kind: Kind, branch: Branch) -> InstrFlags {
    let mut flags = InstrFlags::default();
    let mut set = |condition: bool, flag| {
        if condition {
            flags = flags.union(flag);
        }
    };
    set(instruction.is_stack_instruction(), InstrFlags::STACK);
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    set(kind == Kind::String && repeated, InstrFlags::REP);
    // An exchange with memory locks without a prefix (Intel SDM 2, XCHG).
    let exchanges_memory = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    set(instruction.has_lock_prefix() || exchanges_memory, InstrFlags::LOCKED);
    set(is_zero_idiom(instruction), InstrFlags::ZERO_IDIOM);
    // All control registers but CR8, the task priority (Intel SDM 3, Sec 9.3).
    let controls =
        writes_control_register(instruction) && instruction.op0_register() != Register::CR8;
    let changes_privilege =
        matches!(branch, Branch::Syscall | Branch::Sysret | Branch::Iret | Branch::Interrupt);
    let drains = changes_privilege
        || controls
        || is_serializing(instruction.mnemonic())
        || is_world_switch(instruction.code());
    set(drains, InstrFlags::SERIALIZING);
    flags
}

/// Returns whether the result is zero whatever the sources hold, so that it waits for none.
///
/// assumption: forms that keep other bits of their destination wait for it as any partial write
/// does. Of `xor al, al` and `xor ax, ax` these are the upper bits of `rax`: cores that rename al
/// apart pay at the next read of eax instead, which the model does not have, and Intel's
/// optimization manual (Sec 3.5.1.7) names 32-bit operations to break a dependency. Of a masked
/// vector these are the elements outside the mask.
fn is_zero_idiom(instruction: &Instruction) -> bool {
    use Mnemonic::{Pxor, Sub, Vpxor, Vpxord, Vpxorq, Vxorpd, Vxorps, Xor, Xorpd, Xorps};
    let by_itself = matches!(
        instruction.mnemonic(),
        Xor | Sub | Pxor | Xorps | Xorpd | Vpxor | Vpxord | Vpxorq | Vxorps | Vxorpd
    );
    let last = instruction.op_count().wrapping_sub(1);
    let is_whole = !instruction.has_op_mask() && instruction.op0_register().size() >= 4;
    by_itself
        && is_whole
        && instruction.op_count() >= 2
        && (0..instruction.op_count()).all(|i| instruction.op_kind(i) == OpKind::Register)
        && instruction.op_register(last) == instruction.op_register(last - 1)
}

/// Architecturally serializing, or so slow that a pipeline drains around it.
fn is_serializing(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Cpuid, Invd, Invept, Invlpg, Invpcid, Invvpid, Lfence, Lgdt, Lidt, Lldt, Ltr, Mfence,
        Rdmsr, Rdtscp, Serialize, Wbinvd, Wrmsr, Xrstor, Xrstor64, Xsetbv,
    };
    matches!(
        mnemonic,
        Cpuid
            | Invd
            | Invept
            | Invlpg
            | Invpcid
            | Invvpid
            | Lfence
            | Lgdt
            | Lidt
            | Lldt
            | Ltr
            | Mfence
            | Rdmsr
            | Rdtscp
            | Serialize
            | Wbinvd
            | Wrmsr
            | Xrstor
            | Xrstor64
            | Xsetbv
    )
}

fn kind_of(instruction: &Instruction) -> Kind {
    // This comes first: a `mov` to a control register has the mnemonic of every other `mov`.
    if writes_control_register(instruction) {
        return Kind::System;
    }
    static BY_CODE: OnceLock<Vec<Kind>> = OnceLock::new();
    // Kinds follow from names, whose text is costly to make: it is made once for each code.
    let table = BY_CODE.get_or_init(|| Code::values().map(kind_of_code).collect());
    table[instruction.code() as usize]
}

fn writes_control_register(instruction: &Instruction) -> bool {
    instruction.op_count() > 0
        && instruction.op_kind(0) == OpKind::Register
        && (instruction.op0_register().is_cr() || instruction.op0_register().is_dr())
}

fn kind_of_code(code: Code) -> Kind {
    use Mnemonic as M;
    if branch_of(code) != Branch::None {
        return Kind::Branch;
    }
    match code.mnemonic() {
        M::Nop | M::Endbr64 | M::Endbr32 | M::Fnop | M::Reservednop => return Kind::Nop,
        M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 | M::Prefetchnta | M::Prefetchw => {
            return Kind::Nop
        }
        M::Pause => return Kind::Pause,
        M::Hlt => return Kind::Halt,
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Movbe | M::Movnti | M::Push | M::Pop => {
            return Kind::Move
        }
        M::Lea => return Kind::Lea,
        M::Imul | M::Mul | M::Mulx | M::Crc32 | M::Popcnt | M::Pext | M::Pdep => {
            return Kind::IntMul
        }
        M::Div | M::Idiv => return Kind::IntDiv,
        M::Mfence | M::Lfence | M::Sfence => return Kind::Fence,
        _ => {}
    }
    if code.is_string_instruction() {
        return Kind::String;
    }
    let name = format!("{:?}", code.mnemonic()).to_lowercase();
    if is_system(code, &name) {
        return Kind::System;
    }
    floating_or_vector(code, &name).unwrap_or(Kind::IntAlu)
}

fn is_system(code: Code, name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "cpuid", "rdtsc", "rdtscp", "rdpid", "rdrand", "rdseed", "swapgs", "xgetbv", "smsw", "sldt",
    ];
    const PREFIXES: [&str; 6] = ["xsave", "xrstor", "fxsave", "fxrstor", "wrfsb", "wrgsb"];
    code.is_privileged()
        || is_world_switch(code)
        || NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// x87 and vector instructions, by the conventions of their names.
fn floating_or_vector(code: Code, name: &str) -> Option<Kind> {
    use iced_x86::CpuidFeature as F;
    let features = code.cpuid_features();
    if features.iter().any(|f| matches!(f, F::FPU | F::FPU287 | F::FPU387)) {
        return Some(match name {
            n if n.contains("div") || n.contains("sqrt") => Kind::FpDiv,
            n if n.contains("mul") => Kind::FpMul,
            n if n.starts_with("fld") || n.starts_with("fst") || n == "fxch" => Kind::Move,
            "fsin" | "fcos" | "fsincos" | "fptan" | "fpatan" | "f2xm1" | "fyl2x" | "fyl2xp1"
            | "fprem" | "fprem1" => Kind::FpDiv,
            _ => Kind::FpAdd,
        });
    }
    if !features.iter().any(|&f| is_vector_feature(f)) {
        return None;
    }
    let stem = name.strip_prefix('v').unwrap_or(name);
    // Instructions of integers begin with `p`: without that, `pabsd` would look like a scalar
    // double.
    let fp = ["ps", "pd", "ss", "sd", "ph", "sh"]
        .iter()
        .any(|suffix| stem.ends_with(suffix) && !stem.starts_with('p'));
    let has = |part: &str| stem.contains(part);
    if stem.starts_with("mov") || stem.starts_with("lddqu") {
        return Some(Kind::Move);
    }
    // Estimates from a table, unlike the root that is computed.
    let estimates = stem.starts_with("rcp") || stem.starts_with("rsqrt");
    if fp && !estimates && (has("div") || has("sqrt")) {
        return Some(Kind::FpDiv);
    }
    let multiplies = ["fm", "fnm", "fcm"].iter().any(|start| stem.starts_with(start));
    if fp && (has("mul") || multiplies) {
        return Some(Kind::FpMul);
    }
    // Dot products begin with `dp`; inside a name it is the end of `and` or `blend`, and a suffix.
    let adds = ["add", "sub", "cmp", "comi", "max", "min", "round"].iter().any(|part| has(part));
    if stem.starts_with("cvt") || fp && (adds || estimates || stem.starts_with("dp")) {
        return Some(Kind::FpAdd);
    }
    // `vpmultishiftqb` selects bits, and multiplies nothing.
    let multiplies = has("pmul") && !has("pmultishift") || has("pdp") || has("p4dp");
    if multiplies || has("pmadd") || has("clmul") || stem.starts_with("aes") || has("sha") {
        return Some(Kind::IntMul);
    }
    Some(Kind::VecInt)
}

fn is_vector_feature(feature: iced_x86::CpuidFeature) -> bool {
    const FAMILIES: [&str; 12] = [
        "SSE", "SSSE", "AVX", "MMX", "AES", "PCLMUL", "VPCLMUL", "SHA", "FMA", "F16C", "GFNI",
        "VAES",
    ];
    let name = format!("{feature:?}");
    FAMILIES.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> Instr {
        let mut out = Vec::new();
        decode_block(VirtAddr(0x40_0000), bytes, &[bytes.len() as u8], &mut out);
        out[0]
    }

    #[test]
    fn an_addition_from_memory() {
        // add rax, [rbx + 8 * rcx + 16]
        let add = one(&[0x48, 0x03, 0x44, 0xcb, 0x10]);
        assert_eq!(add.kind, Kind::IntAlu);
        assert_eq!(format!("{:?}", add.reads), "{rax, rcx, rbx}");
        assert_eq!(format!("{:?}", add.address), "{rcx, rbx}");
        assert_eq!(format!("{:?}", add.writes), "{rax, flags}");
    }

    #[test]
    fn idioms_break_dependencies_and_partial_writes_keep_them() {
        // xor eax, eax
        let xor = one(&[0x31, 0xc0]);
        assert!(xor.flags.has(InstrFlags::ZERO_IDIOM) && xor.reads.is_empty());
        // mov al, 1
        let mov = one(&[0xb0, 0x01]);
        assert!(mov.reads.contains(RegSet::gpr(0)) && mov.writes.contains(RegSet::gpr(0)));
        // mov eax, 1
        assert!(one(&[0xb8, 1, 0, 0, 0]).reads.is_empty());
    }

    #[test]
    fn branches_are_told_apart() {
        let cases: [(&[u8], Branch); 10] = [
            (&[0x74, 0x00], Branch::Conditional),
            (&[0xeb, 0x00], Branch::Jump),
            (&[0xff, 0xe0], Branch::IndirectJump),
            (&[0xe8, 0, 0, 0, 0], Branch::Call),
            (&[0xff, 0xd0], Branch::IndirectCall),
            (&[0xc3], Branch::Return),
            (&[0x0f, 0x05], Branch::Syscall),
            (&[0x48, 0x0f, 0x07], Branch::Sysret),
            (&[0x48, 0xcf], Branch::Iret),
            (&[0x90], Branch::None),
        ];
        for (bytes, branch) in cases {
            assert_eq!(one(bytes).branch, branch, "{bytes:x?}");
        }
    }

    #[test]
    fn kinds_by_functional_unit() {
        let cases: [(&[u8], Kind); 14] = [
            (&[0x90], Kind::Nop),
            (&[0xf3, 0x90], Kind::Pause),
            (&[0xf4], Kind::Halt),
            (&[0x0f, 0xaf, 0xc1], Kind::IntMul), // imul eax, ecx
            (&[0xf7, 0xf1], Kind::IntDiv),       // div ecx
            (&[0xf2, 0x0f, 0x58, 0xc1], Kind::FpAdd), // addsd
            (&[0xf2, 0x0f, 0x59, 0xc1], Kind::FpMul), // mulsd
            (&[0xf2, 0x0f, 0x5e, 0xc1], Kind::FpDiv), // divsd
            (&[0x66, 0x0f, 0xfe, 0xc1], Kind::VecInt), // paddd
            (&[0x0f, 0x28, 0xc1], Kind::Move),   // movaps
            (&[0xf3, 0x48, 0xa5], Kind::String), // rep movsq
            (&[0x0f, 0xa2], Kind::System),       // cpuid
            (&[0x0f, 0x22, 0xd8], Kind::System), // mov cr3, rax
            (&[0xd8, 0xc1], Kind::FpAdd),        // fadd
        ];
        for (bytes, kind) in cases {
            assert_eq!(one(bytes).kind, kind, "{bytes:x?}");
        }
        assert!(one(&[0xf3, 0x48, 0xa5]).flags.has(InstrFlags::REP));
        assert!(one(&[0x50]).flags.has(InstrFlags::STACK));
        assert!(one(&[0xf0, 0x48, 0x0f, 0xc1, 0x03]).flags.has(InstrFlags::LOCKED));
    }

    #[test]
    fn vector_names_with_arithmetic_words_inside_keep_their_unit() {
        let cases: [(&str, Kind); 14] = [
            ("dpps", Kind::FpAdd),
            ("vdpbf16ps", Kind::FpAdd),
            ("andps", Kind::VecInt),
            ("vandpd", Kind::VecInt),
            ("blendps", Kind::VecInt),
            ("vexpandpd", Kind::VecInt),
            ("vgatherdps", Kind::VecInt),
            ("rsqrtps", Kind::FpAdd),
            ("vrsqrt14sd", Kind::FpAdd),
            ("sqrtps", Kind::FpDiv),
            ("vfcmaddcph", Kind::FpMul),
            ("vpmultishiftqb", Kind::VecInt),
            ("vpdpbusd", Kind::IntMul),
            ("vpclmulqdq", Kind::IntMul),
        ];
        for (name, kind) in cases {
            // Codes of Knights Corner share names with AVX-512 and no feature with it.
            let is_named = |code: &Code| {
                format!("{:?}", code.mnemonic()).to_lowercase() == name
                    && !format!("{code:?}").starts_with("MVEX")
            };
            let found: Vec<Code> = Code::values().filter(is_named).collect();
            assert!(!found.is_empty(), "{name}");
            for code in found {
                assert_eq!(kind_of_code(code), kind, "{code:?}");
            }
        }
    }

    #[test]
    fn monitor_calls_are_system_instructions_and_no_calls() {
        // vmcall, vmmcall, vmlaunch, vmrun
        for last in [[0x01, 0xc1], [0x01, 0xd9], [0x01, 0xc2], [0x01, 0xd8]] {
            let found = one(&[0x0f, last[0], last[1]]);
            let is_drained = found.flags.has(InstrFlags::SERIALIZING);
            assert_eq!((found.kind, found.branch), (Kind::System, Branch::None), "{last:x?}");
            assert!(is_drained, "{last:x?}");
        }
        let rsm = one(&[0x0f, 0xaa]);
        assert_eq!((rsm.kind, rsm.branch), (Kind::System, Branch::None));
        // uiret, eretu
        assert_eq!(one(&[0xf3, 0x0f, 0x01, 0xec]).branch, Branch::Iret);
        assert_eq!(one(&[0xf3, 0x0f, 0x01, 0xca]).branch, Branch::Iret);
    }

    #[test]
    fn moves_to_control_registers_serialize_except_to_cr8() {
        // mov cr3, rax; mov dr7, rax; mov cr8, rax; mov rax, cr3
        assert!(one(&[0x0f, 0x22, 0xd8]).flags.has(InstrFlags::SERIALIZING));
        assert!(one(&[0x0f, 0x23, 0xf8]).flags.has(InstrFlags::SERIALIZING));
        assert!(!one(&[0x44, 0x0f, 0x22, 0xc0]).flags.has(InstrFlags::SERIALIZING));
        assert!(!one(&[0x0f, 0x20, 0xd8]).flags.has(InstrFlags::SERIALIZING));
    }

    #[test]
    fn exclusive_or_that_keeps_bits_is_no_zero_idiom() {
        // xor al, al; sub al, al; xor ah, ah; xor ax, ax: the other bits of rax stay.
        for bytes in [&[0x30, 0xc0][..], &[0x28, 0xc0], &[0x30, 0xe4], &[0x66, 0x31, 0xc0]] {
            let found = one(bytes);
            assert!(!found.flags.has(InstrFlags::ZERO_IDIOM), "{bytes:x?}");
            assert!(found.reads.contains(RegSet::gpr(0)), "{bytes:x?}");
        }
        // xor rax, rax; xor r8d, r8d; vpxord zmm1, zmm2, zmm2
        let zeroing: [&[u8]; 3] =
            [&[0x48, 0x31, 0xc0], &[0x45, 0x31, 0xc0], &[0x62, 0xf1, 0x6d, 0x48, 0xef, 0xca]];
        for bytes in zeroing {
            let found = one(bytes);
            assert!(found.flags.has(InstrFlags::ZERO_IDIOM), "{bytes:x?}");
            assert!(found.reads.is_empty(), "{bytes:x?}");
        }
        // vpxord zmm1 {k1}, zmm2, zmm2: elements outside the mask stay.
        let merged = one(&[0x62, 0xf1, 0x6d, 0x49, 0xef, 0xca]);
        assert!(!merged.flags.has(InstrFlags::ZERO_IDIOM));
        assert_eq!(format!("{:?}", merged.reads), "{v1, k1}");
    }

    #[test]
    fn bytes_that_are_no_instruction_stay_countable() {
        let bad = one(&[0x06]);
        assert_eq!((bad.kind, bad.len), (Kind::System, 1));
    }

    #[test]
    fn groups_are_base_registers() {
        let mut groups = Vec::new();
        // mov rax, [rbp - 8]; push rax; mov [rip + 0], eax
        let bytes = [0x48, 0x8b, 0x45, 0xf8, 0x50, 0x89, 0x05, 0, 0, 0, 0];
        memory_groups(VirtAddr(0), &bytes, &[4, 1, 6], &mut groups);
        assert_eq!(groups[0].load, 5);
        assert_eq!(groups[1].store, 4);
        assert_eq!(groups[2].store, NO_BASE);
    }
}

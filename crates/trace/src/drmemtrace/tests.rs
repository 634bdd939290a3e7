use super::*;
use crate::event::Event;
use crate::format::{BlockDef, Code, CodeForm, Header, RawAccess, TraceFile, TraceWriter};
use crate::program::BlockId;
use crate::source::Address;
use crate::Compression;
use halfwink_units::{Asid, PhysAddr, VirtAddr};

pub(super) const USER: u64 = 0x40_0000;
pub(super) const KERNEL: u64 = 0xffff_ffff_8100_0000;
pub(super) const ALL: DrmemtraceOptions =
    DrmemtraceOptions { kernel: true, cpu: None, limit: None };

/// A trace of x86 code, written block by block.
pub(super) struct Script(TraceWriter<Vec<u8>>);

impl Script {
    pub(super) fn new() -> Script {
        let header = Header::new("test", "a test", CodeForm::Bytes);
        Script(TraceWriter::create(Vec::new(), &header, 1).unwrap())
    }

    pub(super) fn block(&mut self, pc: u64, bytes: &[u8], lengths: &[u8]) -> BlockId {
        let (pc, phys, phys_next_page) = (VirtAddr(pc), PhysAddr(pc & 0xfff), PhysAddr(0x1000));
        let kernel = pc.is_kernel_half();
        let def =
            BlockDef { pc, phys, phys_next_page, kernel, code: Code::Bytes { bytes, lengths } };
        self.0.define_block(&def).unwrap()
    }

    pub(super) fn run(&mut self, block: BlockId, executed: u16, accesses: &[RawAccess]) {
        self.0.run(block, executed, accesses).unwrap();
    }

    pub(super) fn event(&mut self, event: Event) {
        self.0.event(&event).unwrap();
    }

    pub(super) fn file(self) -> TraceFile {
        TraceFile::from_bytes(self.0.finish().unwrap().1).unwrap()
    }
}

pub(super) fn exported(
    file: &TraceFile,
    options: DrmemtraceOptions,
) -> (DrmemtraceCounts, Vec<Entry>) {
    let mut bytes = Vec::new();
    let done = export_drmemtrace(file, options, &mut bytes, Compression::Raw).unwrap();
    assert_eq!(bytes.len() % ENTRY_BYTES, 0);
    let entries = bytes.chunks(ENTRY_BYTES).map(|e| Entry {
        kind: u16::from_le_bytes([e[0], e[1]]),
        size: u16::from_le_bytes([e[2], e[3]]),
        value: u64::from_le_bytes(e[4..].try_into().unwrap()),
    });
    (done, entries.collect())
}

/// Without its head and encodings, as (kind, value), markers as (100 + kind of marker, value).
fn body(entries: &[Entry]) -> Vec<(u16, u64)> {
    let shown = entries.iter().filter(|e| e.kind != kind::ENCODING).skip(8);
    shown
        .map(|e| if e.kind == kind::MARKER { (100 + e.size, e.value) } else { (e.kind, e.value) })
        .collect()
}

fn markers(which: u16, entries: &[Entry]) -> Vec<u64> {
    let of = entries.iter().filter(|e| e.kind == kind::MARKER && e.size == which);
    of.map(|e| e.value).collect()
}

/// A loop of user code that an interrupt hits behind its branch, and a system call.
pub(super) fn whole_system() -> TraceFile {
    let mut s = Script::new();
    // mov rax,[rbx]; jne -5
    let again = s.block(USER, &[0x48, 0x8b, 0x03, 0x75, 0xfb], &[3, 2]);
    let call = s.block(USER + 5, &[0x0f, 0x05], &[2]); // syscall
    let handler = s.block(KERNEL, &[0x90, 0x48, 0xcf], &[1, 2]); // nop; iretq
    let entry = s.block(KERNEL + 0x100, &[0x90, 0x48, 0x0f, 0x07], &[1, 3]); // nop; sysretq
    let after = s.block(USER + 7, &[0x90], &[1]);
    let at = |n: u64| {
        let (virt, phys) = (VirtAddr(0x7000 + 8 * n), PhysAddr(0x7000 + 8 * n));
        RawAccess { instr: 0, size: 8, write: false, address: Address { virt, phys } }
    };
    s.event(Event::AddressSpace(Asid(7)));
    s.run(again, 2, &[at(0)]);
    s.event(Event::Interrupt { vector: 0x20 });
    s.run(handler, 2, &[]);
    s.run(again, 2, &[at(1)]);
    s.run(call, 1, &[]);
    s.event(Event::Syscall { number: 39, args: [0; 6] });
    s.run(entry, 2, &[]);
    s.run(after, 1, &[]);
    s.file()
}

#[test]
fn the_kernel_stands_between_markers_and_branches_know_where_they_go() {
    let (done, entries) = exported(&whole_system(), ALL);
    let mark = |which: u16| 100 + which;
    let (event, back) = (mark(marker::HARDWARE_EVENT), mark(marker::HARDWARE_CONTEXT_RETURN));
    let target = mark(marker::BRANCH_TARGET);
    let expected = [
        (kind::INSTR, USER),
        (kind::READ, 0x7000),
        // What interrupts user code is not where it goes.
        (kind::TAKEN_JUMP, USER + 3),
        (event, USER),
        (kind::INSTR, KERNEL),
        (target, USER),
        (kind::RETURN, KERNEL + 1),
        (back, 1),
        (kind::INSTR, USER),
        (kind::READ, 0x7008),
        (kind::UNTAKEN_JUMP, USER + 3),
        (kind::INSTR, USER + 5),
        (mark(marker::TIMESTAMP), 1),
        (mark(marker::CPU_ID), 0),
        (mark(marker::SYSCALL), 39),
        (event, USER + 7),
        (kind::INSTR, KERNEL + 0x100),
        (target, USER + 7),
        (kind::INDIRECT_JUMP, KERNEL + 0x101),
        (back, 1),
        (kind::INSTR, USER + 7),
        (kind::THREAD_EXIT, 1),
        (kind::FOOTER, 0),
    ];
    assert_eq!(body(&entries)[1..], expected);
    let counts = DrmemtraceCounts {
        instructions: [6, 4],
        loads: 2,
        taken: 1,
        threads: 1,
        ..Default::default()
    };
    assert_eq!(done, counts);
}

#[test]
fn user_code_alone_flows_around_the_kernel() {
    let file = whole_system();
    let (done, entries) = exported(&file, DrmemtraceOptions { kernel: false, ..ALL });
    assert_eq!((done.instructions, done.taken), ([6, 0], 1));
    assert!(markers(marker::HARDWARE_EVENT, &entries).is_empty());
    assert_eq!(markers(marker::SYSCALL, &entries), [39]);
    assert_eq!(markers(marker::FILETYPE, &entries)[0] & file_type::WHOLE_SYSTEM, 0);
    let (done, _) = exported(&file, DrmemtraceOptions { limit: Some(3), ..ALL });
    assert_eq!(done.instructions, [2, 1]);
}

#[test]
fn bytes_of_an_instruction_are_told_once() {
    let (_, entries) = exported(&whole_system(), ALL);
    let told: Vec<&Entry> = entries.iter().filter(|e| e.kind == kind::ENCODING).collect();
    // Of eight that ran, two of them twice.
    assert_eq!(told.len(), 8);
    assert_eq!((told[0].size, told[0].value), (3, 0x03_8b48));
}

#[test]
fn threads_of_a_process_are_told_by_where_they_go_on() {
    let mut s = Script::new();
    let call = s.block(USER, &[0x0f, 0x05], &[2]);
    let other = s.block(USER + 0x50, &[0x0f, 0x05], &[2]);
    let [after, after_other] = [USER + 2, USER + 0x52].map(|pc| s.block(pc, &[0x90], &[1]));
    let entry = s.block(KERNEL, &[0x48, 0x0f, 0x07], &[3]);
    s.event(Event::AddressSpace(Asid(7)));
    for block in [call, entry, other, entry, after, call, entry, after_other] {
        s.run(block, 1, &[]);
    }
    let (done, entries) = exported(&s.file(), ALL);
    let of =
        |which| entries.iter().filter(|e| e.kind == which).map(|e| e.value).collect::<Vec<_>>();
    assert_eq!(of(kind::THREAD), [1, 2, 1, 2]);
    assert_eq!(of(kind::PID), [1, 1, 1, 1]);
    assert_eq!(done.threads, 2);
}

#[test]
fn a_string_instructions_later_rounds_are_not_fetched() {
    let mut s = Script::new();
    let copy = s.block(USER, &[0xf3, 0xa4], &[2]);
    for _ in 0..3 {
        s.run(copy, 1, &[]);
    }
    let (done, entries) = exported(&s.file(), ALL);
    assert_eq!((done.instructions, done.repeats), ([3, 0], 2));
    assert_eq!(entries.iter().filter(|e| e.kind == kind::NO_FETCH).count(), 2);
}

#[test]
fn several_cpus_need_a_number() {
    let mut s = Script::new();
    let nop = s.block(USER, &[0x90], &[1]);
    for cpu in [0, 1, 1] {
        s.event(Event::Cpu(cpu));
        s.run(nop, 1, &[]);
    }
    let file = s.file();
    let error = export_drmemtrace(&file, ALL, Vec::new(), Compression::Raw).unwrap_err();
    assert_eq!(error.to_string(), "offset 0: it ran on several CPUs; expected the number of one");
    assert_eq!(exported(&file, DrmemtraceOptions { cpu: Some(1), ..ALL }).0.instructions, [2, 0]);
    let none = DrmemtraceOptions { cpu: Some(2), ..ALL };
    assert!(export_drmemtrace(&file, none, Vec::new(), Compression::Raw).is_err());
    let error = export_drmemtrace(&file, ALL, Vec::new(), Compression::Xz).unwrap_err();
    assert!(error.to_string().contains("expected one of them"), "{error}");
}

#[test]
fn run_of_no_instructions_is_exported_as_nothing() {
    let mut script = Script::new();
    let block = script.block(USER, &[0x90, 0x90], &[1, 1]);
    script.run(block, 0, &[]);
    script.run(block, 2, &[]);
    let (done, _) = exported(&script.file(), ALL);
    assert_eq!(done.instructions, [2, 0]);
}

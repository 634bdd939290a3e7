//! The test vectors of `docs/trace-format.md`: a file with every kind of section and event, read as
//! its text says, today and by every later version of this major number.
//!
//! `HALFWINK_BLESS=1 cargo test -p halfwink-trace --test all vectors` writes them anew, which only
//! a new major version of the format has a reason for.

use std::fs;
use std::path::PathBuf;

use halfwink_trace::*;
use halfwink_units::{Asid, LineAddr, PhysAddr, VirtAddr};
use xxhash_rust::xxh3::xxh3_64;

const KERNEL: u64 = 0xffff_8000_0000_1000;
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;

fn vector(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

/// `add rax, [rbx]`, so many times.
fn block(writer: &mut TraceWriter<Vec<u8>>, pc: u64, kernel: bool, count: usize) -> BlockId {
    let (bytes, lengths) = ([0x48, 0x03, 0x03].repeat(count), vec![3; count]);
    let code = Code::Bytes { bytes: &bytes, lengths: &lengths };
    let (phys, phys_next_page) = (PhysAddr(pc % 4096 + 0x7000), PhysAddr(0x9000));
    let block = BlockDef { pc: VirtAddr(pc), phys, phys_next_page, kernel, code };
    writer.define_block(&block).unwrap()
}

fn load(instr: u16, virt: u64, phys: u64, write: bool) -> RawAccess {
    let address = Address { virt: VirtAddr(virt), phys: PhysAddr(phys) };
    RawAccess { instr, size: 8, write, address }
}

/// User code, a system call, an interrupt, an exception, a wait, a request, another CPU.
fn written() -> Vec<u8> {
    let mut header = Header::new("vector", "a test vector", CodeForm::Bytes);
    header.direct_map = Some(DirectMap { virt_base: DIRECT_MAP, bytes: 1 << 30 });
    let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
    let lines = [(0x1c0, true, false, true), (0x201, false, true, false)];
    let lines = lines.map(|(line, code, dirty, kernel)| WarmLine {
        line: LineAddr(line),
        code,
        dirty,
        kernel,
    });
    writer.warm(&WarmSet { lines: lines.to_vec() }).unwrap();
    let user = block(&mut writer, 0x40_0ff0, false, 7);
    let kernel = block(&mut writer, KERNEL, true, 2);
    writer.event(&Event::AddressSpace(Asid(0x1234))).unwrap();
    writer.event(&Event::RequestBegin { id: 1, at_ns: 5 }).unwrap();
    for n in 0..3 {
        let at = 0x7fff_0000 + 64 * n;
        writer.run(user, 7, &[load(0, at, 0x8000 + 64 * n, false)]).unwrap();
    }
    writer.event(&Event::Syscall { number: 1, args: [1, at_most(), 3, 0, 0, u64::MAX] }).unwrap();
    writer.run(kernel, 2, &[load(1, DIRECT_MAP + 0x8040, 0x8040, true)]).unwrap();
    writer.event(&Event::Interrupt { vector: 236 }).unwrap();
    writer.run(kernel, 1, &[]).unwrap();
    writer.event(&Event::Exception { vector: 14 }).unwrap();
    writer.event(&Event::Idle { from_ns: 1000, to_ns: 251_000 }).unwrap();
    writer.event(&Event::Mark { code: 7, arg: 99 }).unwrap();
    writer.event(&Event::RequestEnd { id: 1, at_ns: 252_000 }).unwrap();
    writer.event(&Event::Cpu(1)).unwrap();
    writer.run(user, 3, &[]).unwrap();
    writer.finish().unwrap().1
}

/// An address above the signed ones.
fn at_most() -> u64 {
    1 << 63
}

/// What a file holds, as text.
fn said(bytes: Vec<u8>) -> String {
    let file = TraceFile::from_bytes(bytes).unwrap();
    let totals = serde_json::to_string_pretty(&file.footer().totals).unwrap();
    let warm: String =
        file.warm().unwrap().lines.iter().map(|line| format!("warm {line:?}\n")).collect();
    format!("{warm}{}{totals}\n", listing(&file, u64::MAX).unwrap())
}

#[test]
fn the_vector_reads_as_its_text_says() {
    if std::env::var_os("HALFWINK_BLESS").is_some() {
        fs::write(vector("every-event.hwt"), written()).unwrap();
        fs::write(vector("every-event.txt"), said(written())).unwrap();
    }
    let text = fs::read_to_string(vector("every-event.txt")).unwrap();
    assert_eq!(said(fs::read(vector("every-event.hwt")).unwrap()), text);
    // What is written today says the same, whatever the compressor makes of it.
    assert_eq!(said(written()), text);
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The layout, by the words of the specification alone.
#[test]
fn the_vector_is_laid_out_as_the_specification_says() {
    let file = fs::read(vector("every-event.hwt")).unwrap();
    assert_eq!(file[..8], *b"\x89HWT\r\n\x1a\n");
    assert_eq!((number(&file[8..10]), number(&file[10..12])), (1, 0));
    let length = number(&file[12..16]) as usize;
    let header = &file[24..24 + length];
    assert_eq!(number(&file[16..24]), xxh3_64(header));
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    assert_eq!((&header["workload"], &header["code"]), (&"vector".into(), &"bytes".into()));
    assert_eq!(xxh3_64(b""), 0x2d06_8005_38d3_94c2);
    let (mut at, mut sections) = (24 + length, Vec::new());
    let end = file.len() - 16;
    assert_eq!(file[end + 8..], *b"HWTEND\r\n");
    while at < end {
        let length = number(&file[at + 4..at + 8]) as usize;
        assert_eq!(file[at + 1..at + 4], [0, 0, 0]);
        let body = &file[at + 16..at + 16 + length];
        assert_eq!(number(&file[at + 8..at + 16]), xxh3_64(body), "the section at {at}");
        sections.push((file[at], at as u64));
        at += 16 + length;
    }
    assert_eq!(at, end);
    let kinds: Vec<u8> = sections.iter().map(|&(kind, _)| kind).collect();
    assert_eq!(kinds, [3, 1, 2, 4]);
    assert_eq!(number(&file[end..end + 8]), sections[3].1);
}

/// Every byte counts: none can be another one without a reader's saying so.
#[test]
fn a_vector_with_a_wrong_byte_is_refused() {
    let file = fs::read(vector("every-event.hwt")).unwrap();
    // A later minor version is read as this one.
    let minor = 10..12;
    for at in (0..file.len()).filter(|at| !minor.contains(at)) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let read = TraceFile::from_bytes(damaged)
            .and_then(|file| file.warm().and_then(|_| listing(&file, u64::MAX)));
        assert!(read.is_err(), "byte {at}");
    }
}

//! Files that are not what they should be: one clear error with an offset, never a panic, never a
//! hang.

use halfwink_trace::*;
use halfwink_units::{Asid, PhysAddr, VirtAddr};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

/// A small whole trace with everything in it.
fn whole(code: CodeForm) -> Vec<u8> {
    let mut header = Header::new("test", "a test", code);
    header.direct_map = Some(DirectMap { virt_base: 0xffff_8880_0000_0000, bytes: 1 << 30 });
    let mut writer = TraceWriter::create(Vec::new(), &header, 3).unwrap();
    let line = |n, code| WarmLine {
        line: halfwink_units::LineAddr(n),
        code,
        dirty: n % 2 == 0,
        kernel: false,
    };
    writer.warm(&WarmSet { lines: (0..50).map(|n| line(n * n, n % 3 == 0)).collect() }).unwrap();
    let bytes = [0x48, 0x8b, 0x03, 0x48, 0x01, 0xd8, 0x75, 0xf8];
    let blocks: Vec<BlockId> = (0..20u64)
        .map(|n| {
            let pc = VirtAddr(0x40_0000 + 64 * n);
            let mut instrs = Vec::new();
            decode_block(pc, &bytes, &[3, 3, 2], &mut instrs);
            let code = match code {
                CodeForm::Bytes => Code::Bytes { bytes: &bytes, lengths: &[3, 3, 2] },
                CodeForm::Decoded => Code::Decoded(&instrs),
            };
            let phys = PhysAddr(pc.0);
            let def = BlockDef { pc, phys, phys_next_page: phys, kernel: n % 5 == 0, code };
            writer.define_block(&def).unwrap()
        })
        .collect();
    for n in 0..500u64 {
        let at = 0x7fff_0000_0000 + n * n * 8;
        let address = Address { virt: VirtAddr(at), phys: PhysAddr(at & 0xffff_ffff) };
        let access = RawAccess { instr: 0, size: 8, write: false, address };
        writer.run(blocks[(n * 7 % 20) as usize], 3, &[access]).unwrap();
        match n % 50 {
            10 => writer.event(&Event::Syscall { number: n as u32, args: [n; 6] }).unwrap(),
            20 => writer.event(&Event::Idle { from_ns: n, to_ns: 2 * n }).unwrap(),
            30 => writer.event(&Event::AddressSpace(Asid(n))).unwrap(),
            _ => {}
        }
    }
    writer.finish().unwrap().1
}

/// Reads everything there is to read.
fn read(bytes: Vec<u8>) -> Result<u64, TraceError> {
    let file = TraceFile::from_bytes(bytes)?;
    file.warm()?;
    let mut stream = file.stream();
    let mut items = 0;
    while stream.next_item()? != Item::End {
        items += 1;
    }
    check(&file)?;
    listing(&file, 20)?;
    Ok(items)
}

#[test]
fn the_whole_file_is_read() {
    for code in [CodeForm::Bytes, CodeForm::Decoded] {
        assert_eq!(read(whole(code)).unwrap(), 500 + 30 + 2);
    }
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = whole(CodeForm::Decoded);
    for length in 0..bytes.len() {
        let error = read(bytes[..length].to_vec()).expect_err("it is cut short");
        let expected = match error.problem {
            Problem::Empty => length == 0,
            Problem::Truncated(_) => length > 0 && error.offset <= length as u64,
            _ => false,
        };
        assert!(expected, "cut to {length}: {error}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = whole(CodeForm::Bytes);
    for n in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[n] ^= 1 << (n % 8);
        // A greater minor version is not damage.
        let minor = (10..12).contains(&n);
        match read(damaged) {
            Ok(_) => assert!(minor, "a flipped bit in byte {n} went unnoticed"),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

#[test]
fn foreign_files_are_named() {
    let cases: [(&[u8], &str); 6] = [
        (b"", "the file is empty"),
        (b"\x1f\x8b\x08\x00", "looks like gzip"),
        (b"\xfd7zXZ\x00", "looks like xz"),
        (b"\x7fELF\x02\x01\x01", "`halfwink record -- FILE` records"),
        (b"HWT\r\n\x1a\n", "its first byte was lost"),
        (b"hello, world", "not a halfwink trace"),
    ];
    for (bytes, expected) in cases {
        let error = read(bytes.to_vec()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.starts_with("offset 0: "), "{error}");
    }
}

#[test]
fn a_newer_file_asks_for_a_newer_halfwink() {
    let mut bytes = whole(CodeForm::Bytes);
    bytes[8] = 7;
    let error = read(bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "offset 8: format 7.0 is newer than this halfwink, which reads up to 1.x; update halfwink"
    );
}

/// A file whose checksums and index are right, whatever its sections hold.
fn container(sections: &[(u8, Vec<u8>)], header: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend([1, 0, 0, 0]);
    out.extend((header.len() as u32).to_le_bytes());
    out.extend(xxh3_64(header).to_le_bytes());
    out.extend(header);
    let mut index = Vec::new();
    let put = |out: &mut Vec<u8>, kind: u8, body: &[u8]| {
        out.extend([kind, 0, 0, 0]);
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(xxh3_64(body).to_le_bytes());
        out.extend(body);
    };
    for (kind, body) in sections {
        let (name, chunk) = match kind {
            1 => ("dictionary", "null"),
            3 => ("warm", "null"),
            _ => ("chunk", r#"{"first_instruction":0,"instructions":1,"runs":1}"#),
        };
        index.push(format!(r#"{{"offset":{},"kind":"{name}","chunk":{chunk}}}"#, out.len()));
        put(&mut out, *kind, body);
    }
    let footer_at = out.len() as u64;
    let footer = format!(
        r#"{{"sections":[{}],"totals":{{"instructions":1,"kernel_instructions":0,"runs":1,
           "accesses":0,"repeats":0,"events":{{}},"idle_ns":0,"requests":0}}}}"#,
        index.join(",")
    );
    put(&mut out, 4, footer.as_bytes());
    out.extend(footer_at.to_le_bytes());
    out.extend(*b"HWTEND\r\n");
    out
}

fn column(bytes: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(bytes, 1).unwrap();
    let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
    out.extend((packed.len() as u32).to_le_bytes());
    out.extend(packed);
    out
}

fn any_section() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let columns = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6);
    // Counts are small or absurd, contents arbitrary.
    let count = prop_oneof![0u32..40, any::<u32>()];
    let head = prop::collection::vec(count, 0..8);
    (1u8..4, head, columns, prop::collection::vec(any::<u8>(), 0..8)).prop_map(
        |(kind, head, columns, tail)| {
            let mut body: Vec<u8> = head.iter().flat_map(|n| n.to_le_bytes()).collect();
            for bytes in &columns {
                body.extend(column(bytes));
            }
            body.extend(tail);
            (kind, body)
        },
    )
}

/// Found by fuzzing: an instruction at the very end of the address space.
#[test]
fn an_instruction_may_lie_at_the_last_address() {
    let mut record = [0u8; 64];
    record[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let options = ImportOptions { workload: "x".into(), origin: "x".into(), limit: None, level: 1 };
    let bytes = [record, record].concat();
    let (_, out) = import_champsim(&bytes[..], RecordForm::Own, &options, Vec::new()).unwrap();
    let file = TraceFile::from_bytes(out).unwrap();
    assert_eq!(halfwink_trace::check(&file).unwrap().instructions, [2, 0]);
    assert!(!halfwink_trace::listing(&file, 2).unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(bytes).is_err());
    }

    #[test]
    fn arbitrary_contents_with_right_checksums_do_no_harm(
        sections in prop::collection::vec(any_section(), 0..4),
        decoded: bool,
    ) {
        let code = if decoded { CodeForm::Decoded } else { CodeForm::Bytes };
        let header = serde_json::to_vec(&Header::new("x", "x", code)).unwrap();
        // Whatever it is: no panic, no hang.
        let _ = read(container(&sections, &header));
    }

    #[test]
    fn arbitrary_records_import_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        let options = ImportOptions {
            workload: "x".into(),
            origin: "x".into(),
            limit: None,
            level: 1,
        };
        match import_champsim(bytes.as_slice(), RecordForm::Own, &options, Vec::new()) {
            Ok((summary, out)) => {
                let file = TraceFile::from_bytes(out).unwrap();
                prop_assert_eq!(check(&file).unwrap().runs, summary.totals.runs);
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }
}

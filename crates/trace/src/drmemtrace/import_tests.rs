use std::io::Write as _;

use super::tests::{exported, whole_system, ALL, KERNEL, USER};
use super::*;
use crate::champsim::ImportOptions;
use crate::error::TraceError;
use crate::event::Event;
use crate::format::TraceFile;
use crate::record::{Branch, Kind};
use crate::source::{Item, Source};
use crate::{check, import_champsim, RecordForm};

fn import(entries: &[Entry], limit: Option<u64>) -> Result<TraceFile, TraceError> {
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.bytes()).collect();
    import_bytes(&bytes, limit)
}

fn import_bytes(bytes: &[u8], limit: Option<u64>) -> Result<TraceFile, TraceError> {
    let options =
        ImportOptions { workload: "test".into(), origin: "a test".into(), limit, level: 1 };
    let (_, out) = import_drmemtrace(bytes, &options, Vec::new())?;
    let file = TraceFile::from_bytes(out)?;
    check(&file).unwrap();
    Ok(file)
}

fn entry(kind: u16, size: u16, value: u64) -> Entry {
    Entry { kind, size, value }
}

fn mark(which: u16, value: u64) -> Entry {
    entry(kind::MARKER, which, value)
}

/// The head of a thread's file of this type.
fn head(file_type: u64) -> Vec<Entry> {
    vec![
        entry(kind::HEADER, 0, 7),
        mark(marker::VERSION, 7),
        mark(marker::FILETYPE, file_type),
        entry(kind::THREAD, 4, 11),
        entry(kind::PID, 4, 10),
    ]
}

/// Instructions as (address, branch, kernel, addresses of accesses), and events.
fn everything(file: &TraceFile) -> Vec<String> {
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    let mut out = Vec::new();
    loop {
        match stream.next_item().unwrap() {
            Item::End => return out,
            Item::Event(event) => out.push(format!("{event:?}")),
            Item::Run(id) => {
                let template = program.template(id);
                let block = program.block(template.block);
                let sites = program.sites_of(template);
                let instrs = &program.instrs_of(block)[..usize::from(template.executed)];
                for (n, instr) in instrs.iter().enumerate() {
                    let own = sites.iter().zip(stream.addresses());
                    let own = own.filter(|(s, _)| usize::from(s.instr) == n);
                    let at: Vec<_> =
                        own.map(|(s, a)| (a.virt.0, a.phys.0, s.size, s.write)).collect();
                    let pc = block.pc_of(instr);
                    out.push(format!("{pc:x} {} {} {at:x?}", instr.branch.name(), block.kernel));
                }
            }
        }
    }
}

#[test]
fn what_was_exported_comes_back() {
    let file = whole_system();
    let (_, entries) = exported(&file, ALL);
    let again = import(&entries, None).unwrap();
    // Numbers of address spaces and interrupts are not told.
    let of = |file| -> Vec<String> {
        let lines = everything(file).into_iter();
        lines
            .filter(|line| *line != format!("{:?}", Event::Cpu(0)))
            .map(|line| line.replace("vector: 32", "vector: 255").replace("Asid(0x7)", "Asid(0x1)"))
            .collect()
    };
    assert_eq!(of(&again), of(&file));
    // Where there are no encodings, flow and accesses come back all the same.
    let bare: Vec<_> = entries
        .iter()
        .copied()
        .filter(|entry| entry.kind != kind::ENCODING)
        .map(|entry| match (entry.kind, entry.size) {
            (kind::MARKER, marker::FILETYPE) => mark(marker::FILETYPE, file_type::X86_64),
            _ => entry,
        })
        .collect();
    assert_eq!(of(&import(&bare, None).unwrap()), of(&file));
    let some = import(&entries, Some(3)).unwrap();
    assert_eq!(some.footer().totals.instructions, 3);
}

#[test]
fn later_rounds_of_a_string_instruction_are_no_instructions() {
    let rounds = |encodings: &[Entry], file_type| {
        let mut entries = head(file_type);
        entries.extend_from_slice(encodings);
        entries.push(entry(kind::INSTR, 2, USER));
        entries.push(entry(kind::WRITE, 1, 0x7000));
        for n in 1..4 {
            entries.push(entry(kind::NO_FETCH, 2, USER));
            entries.push(entry(kind::WRITE, 1, 0x7000 + n));
        }
        entries
    };
    let code = [entry(kind::ENCODING, 2, 0xaa_f3)]; // rep stosb
    let with = import(&rounds(&code, file_type::X86_64 | file_type::ENCODINGS), None).unwrap();
    let without = import(&rounds(&[], file_type::X86_64), None).unwrap();
    for file in [&with, &without] {
        let totals = &file.footer().totals;
        assert_eq!((totals.instructions, totals.repeats, totals.accesses), (1, 3, 4));
        let kinds: Vec<_> = file.program().instrs.iter().map(|instr| instr.kind).collect();
        assert!(kinds.iter().all(|kind| *kind == Kind::String), "{kinds:?}");
    }
    assert_eq!(everything(&with), everything(&without));
}

#[test]
fn a_threads_system_calls_and_its_kernels_part_are_told() {
    let mut entries = head(file_type::X86_64 | file_type::SYSCALL_NUMBERS);
    entries.extend([
        entry(kind::INSTR, 2, USER),
        mark(marker::SYSCALL, 39),
        mark(marker::SYSCALL_TRACE_START, 39),
        // Public traces have kernels at addresses of their own.
        entry(kind::INSTR, 4, USER + 0x100_0000),
        mark(marker::SYSCALL_TRACE_END, 39),
        entry(kind::INSTR, 1, USER + 2),
    ]);
    let file = import(&entries, None).unwrap();
    let lines = everything(&file);
    let kernel = lines.iter().filter(|line| line.contains(" true ")).count();
    assert_eq!((kernel, file.footer().totals.kernel_instructions), (1, 1));
    assert!(lines.contains(&format!("{USER:x} syscall false []")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("Syscall { number: 39")), "{lines:?}");
}

#[test]
fn processes_share_no_line_and_markers_tell_where_pages_lie() {
    let mut entries = head(file_type::X86_64);
    let read = |at| [entry(kind::INSTR, 1, USER), entry(kind::READ, 8, at)];
    entries.extend(read(0x7000));
    entries.push(entry(kind::PID, 4, 12));
    entries.extend(read(0x7000));
    entries.extend(read(KERNEL));
    entries
        .extend([mark(marker::PHYSICAL_ADDRESS, 0x5_5000), mark(marker::VIRTUAL_ADDRESS, 0x7000)]);
    entries.extend(read(0x7010));
    entries.push(entry(kind::PID, 4, 10));
    entries.extend(read(0x7010));
    let file = import(&entries, None).unwrap();
    let mut stream = file.stream();
    let mut found = Vec::new();
    loop {
        match stream.next_item().unwrap() {
            Item::End => break,
            Item::Event(_) => {}
            Item::Run(_) => found.extend(stream.addresses().iter().map(|a| a.phys.0)),
        }
    }
    assert_eq!(found, [0x7000, 0x1_0000_0000_7000, KERNEL, 0x5_5010, 0x7010]);
}

#[test]
fn large_accesses_are_of_lines_and_bundles_of_instructions() {
    let mut entries = head(file_type::X86_64);
    entries.extend([
        entry(kind::INSTR, 4, USER),
        entry(kind::WRITE, 512, 0x7000),
        // xsave's size is left open.
        entry(kind::WRITE, 0, 0x7230),
        entry(kind::BUNDLE, 2, 0x0302),
        entry(kind::UNTAKEN_JUMP, 2, USER + 9),
    ]);
    let file = import(&entries, None).unwrap();
    let totals = &file.footer().totals;
    assert_eq!((totals.instructions, totals.accesses), (4, 9));
    let program = file.program();
    let block = program.block(program.templates[0].block);
    let placed: Vec<_> = program.instrs_of(block).iter().map(|i| block.pc_of(i)).collect();
    assert_eq!(placed, [USER, USER + 4, USER + 6, USER + 9]);
    assert_eq!(program.instrs_of(block)[3].branch, Branch::Conditional);
}

#[test]
fn code_at_the_end_of_all_addresses_wraps_around() {
    let mut entries = head(file_type::X86_64);
    entries.extend([entry(kind::INSTR, 4, u64::MAX - 1), entry(kind::BUNDLE, 2, 0x0302)]);
    let file = import(&entries, None).unwrap();
    assert_eq!(file.footer().totals.instructions, 3);
}

#[test]
fn an_instruction_of_endless_accesses_is_refused_before_they_fill_memory() {
    let mut entries = head(file_type::X86_64);
    entries.push(entry(kind::INSTR, 4, USER));
    let whole = entries.len() as u64;
    entries.extend(std::iter::repeat_n(entry(kind::READ, 8, 0x7000), 50_000));
    let said = import(&entries, None).map(|_| ()).unwrap_err().to_string();
    // Where the first one stands that is too many.
    let at = ENTRY_BYTES as u64 * (whole + 16_384);
    assert_eq!(said, format!("offset {at}: more than 16384 accesses in a block of code"));
}

#[test]
fn what_cannot_be_imported_is_one_line() {
    let plain = head(file_type::X86_64);
    let refused = |entries: &[Entry]| import(entries, None).map(|_| ()).unwrap_err().to_string();
    let with = |more: &[Entry]| [plain.clone(), more.to_vec()].concat();
    let promise = head(file_type::X86_64 | file_type::ENCODINGS);
    let cases = [
        (vec![], "no instructions"),
        (plain.clone(), "no instructions"),
        (vec![entry(kind::INSTR, 2, USER)], "begins with an entry of type 10"),
        (vec![entry(kind::HEADER, 0, 8)], "version 8, expected at most 7"),
        (head(file_type::X86_64 | file_type::IFILTERED), "filtered by a cache"),
        (head(file_type::AARCH64), "another architecture"),
        (with(&[entry(kind::INSTR, 0, USER)]), "an instruction of 0 bytes at 0x400000"),
        (with(&[entry(kind::INSTR, 16, USER)]), "expected 1 to 15"),
        (with(&[entry(kind::ENCODING, 9, 0)]), "an encoding of 9 bytes"),
        ([promise, vec![entry(kind::INSTR, 2, USER)]].concat(), "has no encoding"),
    ];
    for (entries, expected) in cases {
        let said = refused(&entries);
        assert!(said.contains(expected) && !said.contains('\n'), "{said}");
    }
    let bytes: Vec<u8> = plain.iter().flat_map(|entry| entry.bytes()).collect();
    let said = import_bytes(&bytes[..50], None).map(|_| ()).unwrap_err().to_string();
    assert_eq!(said, "offset 48: the trace ends inside an entry of 12 bytes");
    // Read as ChampSim's, it is told what it is.
    let options = ImportOptions { workload: "x".into(), origin: "x".into(), limit: None, level: 1 };
    let said = import_champsim(&bytes[..], RecordForm::Own, &options, Vec::new());
    let said = said.map(|_| ()).unwrap_err().to_string();
    assert_eq!(said, "offset 0: these are drmemtrace entries: --format drmemtrace");
}

/// A zip of these chunks.
fn zip(chunks: &[&[u8]], method: rawzip::CompressionMethod) -> Vec<u8> {
    let mut out = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut out);
    for (n, chunk) in chunks.iter().enumerate() {
        let name = format!("chunk.{n:04}");
        let (mut file, config) =
            archive.new_file(&name).compression_method(method).start().unwrap();
        let descriptor = if method == rawzip::CompressionMethod::DEFLATE {
            let packer = flate2::write::DeflateEncoder::new(&mut file, Default::default());
            let mut writer = config.wrap(packer);
            writer.write_all(chunk).unwrap();
            let (packer, descriptor) = writer.finish().unwrap();
            packer.finish().unwrap();
            descriptor
        } else {
            let mut writer = config.wrap(&mut file);
            writer.write_all(chunk).unwrap();
            writer.finish().unwrap().1
        };
        file.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    out
}

#[test]
fn chunks_of_a_zip_are_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drmemtrace.test.zip");
    let (_, entries) = exported(&whole_system(), ALL);
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.bytes()).collect();
    let whole = everything(&import_bytes(&bytes, None).unwrap());
    let read = |content: &[u8]| -> Result<TraceFile, String> {
        std::fs::write(&path, content).unwrap();
        let budget = halfwink_inputs::Budget::new(1 << 30);
        let mut input = DrmemtraceInput::open(&path, &budget).map_err(|e| e.to_string())?;
        let options = ImportOptions {
            workload: "test".into(),
            origin: "a test".into(),
            limit: None,
            level: 1,
        };
        let done = import_drmemtrace(input.reader(), &options, Vec::new());
        done.map(|(_, out)| TraceFile::from_bytes(out).unwrap()).map_err(|e| e.to_string())
    };
    // A boundary of chunks is one of entries, or not.
    let (first, rest) = bytes.split_at(bytes.len() / 2 - 5);
    for method in [rawzip::CompressionMethod::DEFLATE, rawzip::CompressionMethod::STORE] {
        let packed = zip(&[first, rest], method);
        assert_eq!(everything(&read(&packed).unwrap()), whole);
    }
    assert_eq!(everything(&read(&bytes).unwrap()), whole);
    let mut damaged = zip(&[first, rest], rawzip::CompressionMethod::STORE);
    let at = damaged.windows(rest.len()).position(|window| window == rest).unwrap();
    damaged[at + rest.len() - 1] ^= 1;
    let said = read(&damaged).map(|_| ()).unwrap_err();
    assert!(said.contains("checksum") && !said.contains('\n'), "{said}");
    let said = read(&damaged[..damaged.len() / 2]).map(|_| ()).unwrap_err();
    assert!(said.contains("a damaged zip") && !said.contains('\n'), "{said}");
}

//! Arbitrary bytes as drmemtrace entries, behind a head of each kind or their own; what imports
//! must also read back.

use halfwink_trace::{check, import_drmemtrace, ImportOptions, TraceFile};

/// Types of files: with machine code, with registers, with neither.
const FILE_TYPES: [u64; 3] = [0x240, 0x2_0200, 0x40];

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let entry = |kind: u16, size: u16, value: u64| {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(size.to_le_bytes());
        bytes.extend(value.to_le_bytes());
        bytes
    };
    let mut input = match FILE_TYPES.get(usize::from(first % 4)) {
        Some(file_type) => [entry(25, 0, 7), entry(28, 9, *file_type)].concat(),
        None => Vec::new(),
    };
    input.extend_from_slice(rest);
    let options =
        ImportOptions { workload: "x".into(), origin: "x".into(), limit: Some(10_000), level: 1 };
    match import_drmemtrace(&input[..], &options, Vec::new()) {
        Ok((summary, out)) => {
            let file = TraceFile::from_bytes(out).expect("what was written can be read");
            let report = check(&file).expect("and is whole");
            assert_eq!(report.runs, summary.totals.runs);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

//! Arbitrary bytes as ChampSim records, raw and compressed; what imports must also read back.

use halfwink_trace::{check, import_champsim, Compression, ImportOptions, TraceFile};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let compression = [Compression::Raw, Compression::Xz, Compression::Gzip, Compression::Bzip2];
    let options = ImportOptions {
        workload: "x".into(),
        origin: "x".into(),
        // Compressed input may stand for far more than it holds.
        limit: Some(10_000),
        level: 1,
    };
    let compression = compression[usize::from(first) % compression.len()];
    match import_champsim(rest, compression, &options, Vec::new()) {
        Ok((summary, out)) => {
            let file = TraceFile::from_bytes(out).expect("what was written can be read");
            let report = check(&file).expect("and is whole");
            assert_eq!(report.runs, summary.totals.runs);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

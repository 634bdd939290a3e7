//! Arbitrary bytes as ChampSim records of either form; what imports must also read back.

use halfwink_trace::{check, import_champsim, ImportOptions, RecordForm, TraceFile};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let form = if first & 1 == 0 { RecordForm::Own } else { RecordForm::Cloudsuite };
    let options =
        ImportOptions { workload: "x".into(), origin: "x".into(), limit: Some(10_000), level: 1 };
    match import_champsim(rest, form, &options, Vec::new()) {
        Ok((summary, out)) => {
            let file = TraceFile::from_bytes(out).expect("what was written can be read");
            let report = check(&file).expect("and is whole");
            assert_eq!(report.runs, summary.totals.runs);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

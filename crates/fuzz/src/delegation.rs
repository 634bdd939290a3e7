//! Arbitrary bytes as the memory that a delegating program shares: refused, or all that it holds
//! lies within it.

use std::io::Write;

use halfwink_live_delegate::shared::Shared;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some((&pages, bytes)) = bytes.split_first() else { return };
    let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    file.write_all(bytes).expect("room");
    // Files are mapped in pages; most of one is zeros.
    let length = (bytes.len() as u64).max(u64::from(pages) << 14);
    file.as_file().set_len(length).expect("room");
    let Ok((shared, options)) = Shared::open(file.path()) else { return };
    let records = shared.records();
    assert_eq!(records.len() as u64, options.log_records);
    let end = std::mem::size_of_val(records) as u64;
    assert!(end <= length, "{end} bytes of records in {length}");
    assert!(!shared.blocks().is_empty() && options.time_every > 0);
    // Each is read, so that one beyond the end is a fault.
    let text = format!("{:?}", shared.counts());
    assert!(!text.is_empty());
}

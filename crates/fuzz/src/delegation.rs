//! Arbitrary bytes as the memory that a delegating program shares: refused, or all that it holds
//! lies within it.

use std::io::Write;

use halfwink_live_delegate::shared::{Mapped, Options, Shared};

/// Maps these bytes, behind the first, which says for how many records there is room beside a
/// segment's head, or with 0 that these bytes are all of the file; none if it is refused.
#[must_use]
pub fn opened(bytes: &[u8]) -> Option<(Mapped, Options)> {
    let (&room, bytes) = bytes.split_first()?;
    let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    file.write_all(bytes).expect("room");
    // Most of it is zeros, which take no room on a disk.
    let whole = if room > 0 { Shared::bytes(u64::from(room)) as u64 } else { 0 };
    let length = (bytes.len() as u64).max(whole);
    file.as_file().set_len(length).expect("room");
    Mapped::open(file.path()).ok()
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some((shared, options)) = opened(bytes) else { return };
    let records = shared.records();
    assert_eq!(records.len() as u64, options.log_records);
    let end = std::mem::size_of_val(records) as u64;
    let length = shared.bytes() as u64;
    assert!(end <= length, "{end} bytes of records in {length}");
    assert!(!shared.blocks().is_empty() && options.time_every > 0);
    // Each is read, so that one beyond the end is a fault.
    let text = format!("{:?} {:?}", shared.counts(), records.last());
    assert!(!text.is_empty());
}

//! Arbitrary bytes as a trace file.

use halfwink_trace::{check, listing, Item, Source, TraceError, TraceFile};

fn read(bytes: &[u8]) -> Result<(), TraceError> {
    let file = TraceFile::from_bytes(bytes.to_vec())?;
    file.warm()?;
    let mut stream = file.stream();
    while stream.next_item()? != Item::End {}
    check(&file)?;
    listing(&file, 100).map(drop)
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    if let Err(error) = read(bytes) {
        assert!(!error.to_string().contains('\n'));
    }
}

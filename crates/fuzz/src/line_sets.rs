//! Arbitrary words as run-length code, and arbitrary bytes as a file of sets: what is taken is one
//! set, and is written and read again as the same.

use arbitrary::Arbitrary;
use halfwink_policy::preheat::rle::{
    decode32, decode64, encode32, encode64, RleError, LINES_32, LINES_64,
};
use halfwink_policy::preheat::set_file::{SetFile, SetFileError};
use halfwink_policy::preheat::LineSet;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

#[derive(Arbitrary, Debug)]
enum Input {
    Words32(Vec<u32>),
    Words64(Vec<u64>),
    Lines(Vec<u64>),
    File(Vec<u8>),
    /// Under a right head and checksum.
    Sealed {
        parts: u16,
        body: Vec<u8>,
    },
}

fn index(error: RleError) -> usize {
    match error {
        RleError::Unsorted { index }
        | RleError::Overlapping { index }
        | RleError::Overflow { index } => index,
    }
}

fn file(bytes: &[u8]) {
    match SetFile::decode(bytes) {
        Ok(file) => {
            let again = file.encode().expect("it was read");
            assert_eq!(SetFile::decode(&again).as_ref(), Ok(&file));
            assert!(again.len() <= bytes.len());
        }
        Err(
            SetFileError::Cut { at }
            | SetFileError::Rest { at }
            | SetFileError::Space { at, .. }
            | SetFileError::Id { at, .. }
            | SetFileError::Name { at }
            | SetFileError::Words { at, .. },
        ) => assert!(at <= bytes.len()),
        Err(SetFileError::Magic | SetFileError::Version { .. } | SetFileError::Checksum) => {}
    }
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some(input) = crate::any::<Input>(bytes) else { return };
    match input {
    Input::Words32(words) => match decode32(&words) {
        Ok(lines) => {
            let again = encode32(&lines).expect("all are below 4 GiB");
            assert!(again.len() <= words.len() && lines.iter().all(|line| line < LINES_32));
            assert_eq!(decode32(&again), Ok(lines));
        }
        Err(error) => assert!(index(error) < words.len()),
    },
    Input::Words64(words) => match decode64(&words) {
        Ok(lines) => {
            let again = encode64(&lines).expect("all have addresses");
            assert!(again.len() <= words.len() && lines.iter().all(|line| line < LINES_64));
            assert_eq!(decode64(&again), Ok(lines));
        }
        Err(error) => assert!(index(error) < words.len()),
    },
    Input::Lines(lines) => {
        let set = LineSet::from_unsorted(lines);
        let highest = set.iter().last().unwrap_or(0);
        match encode64(&set) {
            Ok(words) => assert_eq!(decode64(&words), Ok(set.clone())),
            Err(error) => assert!(error.line >= LINES_64),
        }
        assert_eq!(encode32(&set).is_ok(), highest < LINES_32);
        assert_eq!(set.runs().map(|run| run.lines).sum::<u64>(), set.len() as u64);
    }
    Input::File(bytes) => file(&bytes),
    Input::Sealed { parts, body } => {
        let mut bytes = b"HWLS\x01\x00".to_vec();
        bytes.extend(parts.to_le_bytes());
        bytes.extend(body);
        let mut hasher = SipHasher24::new_with_key(b"halfwink-set-hws");
        hasher.write(&bytes);
        bytes.extend(hasher.finish().to_le_bytes());
        file(&bytes);
    }
}
}

use alloc::vec;

use proptest::prelude::*;

use super::*;

fn file() -> SetFile {
    let part = |space, id: u8, name: &str, lines: &[u64]| Part {
        space,
        id: vec![id; 20],
        name: name.into(),
        lines: lines.iter().copied().collect(),
    };
    SetFile {
        parts: vec![
            part(Space::Image, 0xab, "/usr/sbin/nginx", &[1, 2, 3, 70]),
            part(Space::KernelText, 0xcd, "", &(0..100).collect::<Vec<_>>()),
        ],
    }
}

/// The right checksum after a change.
fn sealed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = file().encode().unwrap();
    bytes.truncate(bytes.len() - CHECKSUM);
    change(&mut bytes);
    let checksum = checksum(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

#[test]
fn set_file_has_the_documented_bytes() {
    let bytes = file().encode().unwrap();
    // Head, then a part of 8 + 20 + 15 bytes and two words, then one of 8 + 20 and two words.
    assert_eq!(bytes.len(), 8 + (43 + 16) + (28 + 16) + 8);
    assert_eq!(bytes[..8], *b"HWLS\x01\x00\x02\x00");
    assert_eq!(bytes[8..16], [1, 20, 15, 0, 2, 0, 0, 0]);
    assert_eq!(bytes[51..59], (1u64 << 6 | 2).to_le_bytes());
    assert_eq!(SetFile::decode(&bytes), Ok(file()));
    let empty = SetFile::default();
    assert_eq!(SetFile::decode(&empty.encode().unwrap()), Ok(empty));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let wrong = |change: fn(&mut Vec<u8>)| SetFile::decode(&sealed(change)).unwrap_err();
    assert_eq!(SetFile::decode(b"HWLS"), Err(SetFileError::Cut { at: 4 }));
    assert_eq!(wrong(|bytes| bytes[0] = b'X'), SetFileError::Magic);
    assert_eq!(wrong(|bytes| bytes[4] = 2), SetFileError::Version { found: 2 });
    assert_eq!(wrong(|bytes| bytes[6] = 3), SetFileError::Cut { at: 111 });
    assert_eq!(wrong(|bytes| bytes[6] = 1), SetFileError::Rest { at: 67 });
    assert_eq!(wrong(|bytes| bytes[8] = 5), SetFileError::Space { at: 8, found: 5 });
    assert_eq!(wrong(|bytes| bytes[9] = 0), SetFileError::Id { at: 9, found: 0 });
    assert_eq!(wrong(|bytes| bytes[9] = 33), SetFileError::Id { at: 9, found: 33 });
    assert_eq!(wrong(|bytes| bytes[11] = 0x20), SetFileError::Name { at: 10 });
    assert_eq!(wrong(|bytes| bytes[36] = 0xff), SetFileError::Name { at: 36 });
    assert_eq!(wrong(|bytes| bytes[15] = 0xff), SetFileError::Cut { at: 51 });
    let error = RleError::Overlapping { index: 1 };
    assert_eq!(wrong(|bytes| bytes.copy_within(51..59, 59)), SetFileError::Words { at: 51, error });
    let mut bad = file().encode().unwrap();
    bad[60] ^= 1;
    assert_eq!(SetFile::decode(&bad), Err(SetFileError::Checksum));
}

#[test]
fn a_set_of_another_build_is_refused() {
    let here = |space, name: &str| match (space, name) {
        (Space::Image, "/usr/sbin/nginx") => Some(vec![0xab; 20]),
        (Space::KernelText, "") => Some(vec![0xcd; 20]),
        _ => None,
    };
    assert_eq!(file().check(here), Ok(()));
    let other = |space, name: &str| match space {
        Space::KernelText => Some(vec![0xce; 20]),
        _ => here(space, name),
    };
    let error = file().check(other).unwrap_err();
    assert_eq!((error.space, error.found.as_deref()), (Space::KernelText, Some(&[0xce; 20][..])));
    let gone = file().check(|_, _| None).unwrap_err();
    let said = alloc::string::ToString::to_string(&gone);
    let id = "ab".repeat(20);
    assert_eq!(said, alloc::format!("image /usr/sbin/nginx: expected build {id}, found none"));
}

#[test]
fn what_has_no_room_is_not_written() {
    let with = |change: fn(&mut Part)| {
        let mut file = file();
        change(&mut file.parts[1]);
        file.encode()
    };
    let too_long = Err(Unwritable::TooLong { part: 1 });
    assert_eq!(with(|part| part.id.clear()), too_long);
    assert_eq!(with(|part| part.id = vec![0; 33]), too_long);
    assert_eq!(with(|part| part.name = "x".repeat(4097)), too_long);
    let high = with(|part| part.lines = [u64::MAX].into_iter().collect());
    assert!(matches!(high, Err(Unwritable::Line(_))));
}

proptest! {
    #[test]
    fn decoded_set_file_encodes_to_the_same(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        is_sealed: bool,
    ) {
        let bytes = match is_sealed {
            true => sealed(|all| all.splice(8.., bytes).for_each(drop)),
            false => bytes,
        };
        if let Ok(file) = SetFile::decode(&bytes) {
            let again = SetFile::decode(&file.encode().unwrap());
            prop_assert_eq!(again, Ok(file));
        }
    }
}

//! Packed, nested, damaged and hostile inputs.

use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use super::*;

const TEXT: &[u8] = b"period,count\n1,2\n";

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn bz2(bytes: &[u8]) -> Vec<u8> {
    let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A tar of these files, of this kind, with what GNU tar pads.
fn tar_of(files: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, kind, content) in files {
        let mut head = [0_u8; 512];
        head[..name.len()].copy_from_slice(name.as_bytes());
        head[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        head[156] = *kind;
        head[257..263].copy_from_slice(b"ustar\0");
        head[148..156].fill(b' ');
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        out.extend(head);
        out.extend(*content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.extend([0; 1024]);
    out
}

fn read(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let read = unpack(bytes, &Budget::new(1 << 20)).and_then(|mut r| r.read_to_end(&mut out));
    read.map(|_| out).map_err(|error| error.to_string())
}

#[test]
fn layers_are_unpacked_by_what_they_hold() {
    let zst = zstd::bulk::compress(TEXT, 1).unwrap();
    let tar = tar_of(&[("d/", b'5', b""), ("d/._a", b'0', b"mac"), ("d/a.csv", b'0', TEXT)]);
    let long = [&b"x".repeat(150)[..], b"\0"].concat();
    let named = tar_of(&[("././@LongLink", b'L', &long), ("a", b'0', TEXT)]);
    for packed in [
        TEXT.to_vec(),
        gz(TEXT),
        xz(TEXT),
        bz2(TEXT),
        zst,
        tar.clone(),
        gz(&tar),
        xz(&tar),
        named,
        gz(&xz(TEXT)),
    ] {
        assert_eq!(read(&packed).unwrap(), TEXT, "{:?}", &packed[..4]);
    }
    // Two members, as of logs that were put together.
    assert_eq!(read(&[gz(TEXT), gz(TEXT)].concat()).unwrap().len(), 2 * TEXT.len());
    assert_eq!(read(&[xz(TEXT), xz(TEXT)].concat()).unwrap().len(), 2 * TEXT.len());
    assert_eq!(read(b"").unwrap(), b"");
    assert_eq!(read(b"\x1f").unwrap(), b"\x1f");
}

#[test]
fn archives_of_several_and_other_packings_are_told() {
    let tar = tar_of(&[("a", b'0', TEXT), ("b", b'0', b"x"), ("c", b'0', b"")]);
    let said = read(&xz(&tar)).unwrap_err();
    assert_eq!(said, "is a tar of a, b, c; expected one file: unpack it (tar -xf) and name one");
    assert!(read(&tar_of(&[("d", b'5', b"")])).unwrap_err().contains("a tar of no file"));
    assert!(read(&tar[..600]).unwrap_err().contains("ends in the middle of a file"));
    for (bytes, what) in [
        (&b"\x04\x22\x4d\x18aaaa"[..], "packed by lz4"),
        (b"PK\x03\x04aaaa", "packed by zip"),
        (b"7z\xbc\xaf\x27\x1caaaa", "packed by 7z"),
    ] {
        let said = read(bytes).unwrap_err();
        assert!(said.contains(what) && said.contains("unpack it first"), "{said}");
    }
    assert!(read(&gz(&gz(&gz(&gz(&gz(TEXT)))))).unwrap_err().contains("packed more than 4"));
    let cut = gz(&TEXT.repeat(100));
    assert!(read(&cut[..cut.len() / 2]).unwrap_err().starts_with("packed by gzip, and damaged"));
}

#[test]
fn what_unpacks_to_far_more_than_its_size_is_refused() {
    let mut bounded =
        crate::open::Bounded { reader: Box::new(io::repeat(0).take(5000)), left: 4096 };
    let error = bounded.read_to_end(&mut Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("unpacks to more than 256 times its size"), "{error}");
    let mut bounded =
        crate::open::Bounded { reader: Box::new(io::repeat(0).take(4096)), left: 4096 };
    assert_eq!(bounded.read_to_end(&mut Vec::new()).unwrap(), 4096);
}

#[test]
fn bombs_end_at_the_budget() {
    let zeros = vec![0; 64 << 20];
    for packed in [gz(&zeros), xz(&zeros), zstd::bulk::compress(&zeros, 1).unwrap()] {
        assert!(read(&packed).unwrap_err().contains("more than 1048576 bytes unpacked"));
    }
    // All files of an input share it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, [1; 600]).unwrap();
    let budget = Budget::new(1000);
    assert_eq!(read_input(&path, &budget).unwrap().len(), 600);
    assert!(read_input(&path, &budget).unwrap_err().to_string().contains("more than 1000"));
}

#[test]
fn path_of_no_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fifo = at("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    symlink(&fifo, at("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let sparse = std::fs::File::create(at("sparse")).unwrap();
    sparse.set_len(1 << 33).unwrap();
    let said = |path: &Path| {
        let error = open_input(path, &Budget::new(1 << 30)).map(|_| ()).unwrap_err().to_string();
        assert!(!error.contains('\n') && error.starts_with(&path.display().to_string()));
        error
    };
    assert!(said(&fifo).contains("is a FIFO, expected a regular file"));
    assert!(said(&at("link")).contains("is a FIFO"));
    assert!(said(&at("socket")).contains("is a socket"));
    assert!(said(folder.path()).contains("is a folder"));
    assert!(said(Path::new("/dev/zero")).contains("is a device"));
    assert!(said(&at("sparse")).contains("is sparse: 0 of 8589934592 bytes"));
    assert!(said(&at("none")).ends_with("No such file or directory"));
}

#[test]
fn text_is_utf_8_without_a_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b");
    let units: Vec<u16> = "h\u{e4}\n".encode_utf16().collect();
    let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    let text = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        open_input(&path, &Budget::new(1000)).and_then(Opened::text).and_then(Opened::bytes)
    };
    for bytes in [
        [&b"\xff\xfe"[..], &little].concat(),
        [&b"\xfe\xff"[..], &big].concat(),
        "\u{feff}h\u{e4}\n".into(),
        "h\u{e4}\n".into(),
    ] {
        assert_eq!(text(&bytes).unwrap(), "h\u{e4}\n".as_bytes());
    }
    assert_eq!(text(b"").unwrap(), b"");
    // Each line would be a part of the first one.
    let old = text(b"a,b\r1,2\r3,4\r").unwrap_err().to_string();
    assert!(old.contains("`tr '\\r' '\\n' < FILE > lines.txt`"), "{old}");
    assert_eq!(text(b"a,b\r").unwrap(), b"a,b\r");
    assert_eq!(text(b"a,b\r\n1,2").unwrap(), b"a,b\r\n1,2");
    assert!(text(b"\xff\xfea").unwrap_err().to_string().contains("UTF-16 that is damaged"));
}

#[test]
fn lines_without_an_end_are_refused_by_their_number() {
    use super::{no_long_line, LONGEST_LINE};
    let long = "1".repeat(LONGEST_LINE);
    assert_eq!(no_long_line(format!("a\n{long}\nb").as_bytes()), Ok(()));
    let said = no_long_line(format!("a\n{long}1").as_bytes()).unwrap_err();
    assert!(said.starts_with("line 2: found `111") && said.len() < 150, "{said}");
    assert_eq!(no_long_line(b""), Ok(()));
}

#[test]
fn short_texts_are_read_as_they_are_and_packed_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    let text = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read_text(&path, &Budget::new(2000)).map_err(|error| error.to_string())
    };
    let long = TEXT.repeat(60);
    assert!(long.len() > 512);
    assert_eq!(text(&long).unwrap(), long);
    assert_eq!(text("\u{feff}h\u{e4}\n".as_bytes()).unwrap(), "h\u{e4}\n".as_bytes());
    assert_eq!(text(b"").unwrap(), b"");
    assert!(text(&[b'a'; 2001]).unwrap_err().contains("more than 2000 bytes"));
    let tar = tar_of(&[("a", b'0', TEXT)]);
    for (bytes, what) in [(gz(TEXT), "gzip"), (xz(TEXT), "xz"), (bz2(TEXT), "bzip2"), (tar, "tar")]
    {
        let said = text(&bytes[..bytes.len().min(1000)]).unwrap_err();
        assert!(said.contains(&format!("is packed by {what}, expected text")), "{said}");
    }
}

#[test]
fn accounts_name_what_is_not_played() {
    let mut account = Account::of("jobs of fio");
    account.play("jobs", 3);
    account.leave_out("trim", "moves no data", 1);
    account.miss("verify", "reads everything back", 2);
    account.miss("cpuio", "", 1);
    let said = account.clone().settle(&[]).unwrap_err();
    assert_eq!(
        said,
        "matters, but is not played: 2 verify (reads everything back); cpuio; `--ignore \
         verify,cpuio` plays the rest"
    );
    account.settle(&["verify".to_owned(), "cpuio".to_owned()]).unwrap();
    assert_eq!(
        account.to_string(),
        "read as jobs of fio, 3 jobs; left out: trim (moves no data), 2 verify (reads everything \
         back), cpuio"
    );
    assert!(Share::default().accepts(5, 100) && !Share::default().accepts(6, 100));
    assert!(Share::default().is_lost(1000, 1500) && !Share::default().is_lost(999, 1000));
}

proptest! {
    #[test]
    fn anything_is_read_within_the_budget_or_told(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        magic in 0_usize..7,
    ) {
        let magics: [&[u8]; 7] = [
            b"",
            b"\x1f\x8b\x08",
            b"\xfd7zXZ\0",
            b"\x28\xb5\x2f\xfd",
            b"BZh91AY&SY",
            b"ustar",
            b"PK",
        ];
        let mut out = Vec::new();
        let whole = [magics[magic], &bytes].concat();
        let reader = unpack(&whole[..], &Budget::new(10_000));
        let read = reader.and_then(|mut reader| reader.read_to_end(&mut out));
        prop_assert!(out.len() <= 10_000);
        if let Err(error) = read {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
            prop_assert_ne!(error.kind(), io::ErrorKind::OutOfMemory);
        }
    }
}

#[test]
fn topology_of_hwloc_is_named() {
    let text = b"<?xml version=\"1.0\"?>\n<topology version=\"2.0\"><object type=\"Machine\"/>";
    let other = look(text, Family::Descriptions).unwrap();
    assert_eq!(other.what, "a topology of hwloc");
    assert!(other.how.contains("`halfwink calibrate host`"));
}

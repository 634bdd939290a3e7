//! The protocol, bytes to bytes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use halfwink_live_block::proto::handshake::{greeting, Handshake, Refused, Session, Step};
use halfwink_live_block::proto::handshake::{OPTION_MAGIC, REPLY_MAGIC};
use halfwink_live_block::proto::request::{Command, Lost, Request, HEAD, MAGIC};
use halfwink_live_block::proto::{flag, reply, Errno, Export, MOST_BYTES};
use proptest::prelude::*;

fn export() -> Export {
    Export { name: "disk".to_owned(), size: 1 << 20, read_only: false }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn about(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((infos.len() as u16).to_be_bytes());
    infos.iter().for_each(|info| data.extend(info.to_be_bytes()));
    data
}

fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let mut data = text(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(text(query)));
    data
}

#[test]
fn contexts_are_listed_chosen_and_chosen_anew() {
    let play = |options: &[(u32, Vec<u8>)]| {
        let mut said = vec![0, 0, 0, 3];
        said.extend(option(8, b""));
        options.iter().for_each(|(number, data)| said.extend(option(*number, data)));
        said.extend(option(1, b"disk"));
        let (result, out) = play(&said);
        let Ok((_, Step::Go(session))) = result else { panic!("{result:?}") };
        (session.allocation, answers(&out[..out.len() - 10])[1..].to_vec())
    };
    let chosen = contexts("", &["base:allocation"]);
    assert_eq!(play(&[(10, chosen.clone())]), (true, vec![(10, 4), (10, 1)]));
    // Listing chooses nothing; `base:` is a question of lists alone.
    assert_eq!(play(&[(9, contexts("", &["base:"]))]), (false, vec![(9, 4), (9, 1)]));
    assert_eq!(play(&[(9, contexts("", &["base:x"]))]), (false, vec![(9, 1)]));
    assert_eq!(play(&[(10, contexts("", &["base:"]))]), (false, vec![(10, 1)]));
    // Whatever is chosen last counts, even if it cannot be.
    for (wrong, answer) in [
        (contexts("", &[]), (10, 1)),
        (contexts("other", &["base:allocation"]), (10, ERROR + 6)),
        (chosen[..chosen.len() - 1].to_vec(), (10, ERROR + 3)),
        ([&chosen[..], &[0]].concat(), (10, ERROR + 3)),
        (vec![0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], (10, ERROR + 3)),
    ] {
        let (allocation, said) = play(&[(10, chosen.clone()), (10, wrong)]);
        assert!(!allocation);
        assert_eq!(said.last(), Some(&answer));
    }
}

/// Option and kind of each answer.
fn answers(mut out: &[u8]) -> Vec<(u32, u32)> {
    let number = |at: usize, out: &[u8]| u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
    let mut found = Vec::new();
    while !out.is_empty() {
        assert_eq!(out[..8], REPLY_MAGIC.to_be_bytes());
        found.push((number(8, out), number(12, out)));
        out = &out[20 + number(16, out) as usize..];
    }
    found
}

const ERROR: u32 = 1 << 31;

fn play(input: &[u8]) -> (Result<(usize, Step), Refused>, Vec<u8>) {
    let mut out = Vec::new();
    let result = Handshake::default().feed(&export(), input, &mut out);
    (result, out)
}

#[test]
fn a_client_of_today() {
    assert_eq!(greeting()[..8], *b"NBDMAGIC");
    assert_eq!(greeting()[8..16], *b"IHAVEOPT");
    let mut said = vec![0, 0, 0, 3];
    // Extended headers it does without, TLS is not here.
    for number in [11, 5, 999] {
        said.extend(option(number, b""));
    }
    // Too early.
    said.extend(option(10, &contexts("disk", &["base:allocation"])));
    said.extend(option(8, b""));
    said.extend(option(9, &contexts("", &[])));
    said.extend(option(10, &contexts("disk", &["qemu:x", "base:allocation"])));
    said.extend(option(3, b""));
    said.extend(option(6, &about("other", &[])));
    said.extend(option(6, &about("disk", &[1, 3])));
    said.extend(option(7, &about("", &[3])));
    let whole = said.len();
    said.extend(b"what comes after is not the handshake's");
    let (result, out) = play(&said);
    assert_eq!(result, Ok((whole, Step::Go(Session { structured: true, allocation: true }))));
    let unknown: Vec<_> = [11, 5, 999].map(|number| (number, ERROR + 1)).into();
    let known = [
        (10, ERROR + 3),
        (8, 1),
        (9, 4),
        (9, 1),
        (10, 4),
        (10, 1),
        (3, 2),
        (3, 1),
        (6, ERROR + 6),
        (6, 3),
        (6, 3),
        (6, 3),
        (6, 1),
    ];
    let go = [(7, 3), (7, 3), (7, 1)];
    assert_eq!(answers(&out), [&unknown[..], &known, &go].concat());
}

#[test]
fn a_client_of_old() {
    for (flags, zeroes) in [(0u32, 124), (1, 124), (3, 0)] {
        let said = [&flags.to_be_bytes()[..], &option(1, b"disk")].concat();
        let (result, out) = play(&said);
        assert_eq!(
            result,
            Ok((said.len(), Step::Go(Session { structured: false, allocation: false })))
        );
        assert_eq!(out.len(), 10 + zeroes);
        assert_eq!(out[..8], (1u64 << 20).to_be_bytes());
    }
    assert_eq!(play(&[&[0, 0, 0, 0][..], &option(1, b"x")].concat()).0, Err(Refused::Export));
}

#[test]
fn what_no_client_may() {
    assert_eq!(play(&[0, 0, 0, 4]).0, Err(Refused::Flags(4)));
    assert_eq!(play(&[[0; 4], [1; 4], [1; 4], [1; 4], [1; 4]].concat()).0.unwrap_err(), {
        Refused::Magic(0x0101_0101_0101_0101)
    });
    let mut long = vec![0, 0, 0, 1];
    long.extend(OPTION_MAGIC.to_be_bytes());
    long.extend([0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(play(&long).0, Err(Refused::TooLong(7, u32::MAX)));
    // Above 4 KiB, but short enough to be read away and answered.
    let said = [&[0, 0, 0, 1][..], &option(7, &[0; 5000]), &option(2, b"")].concat();
    let (result, out) = play(&said);
    assert_eq!(result, Ok((said.len(), Step::End)));
    assert_eq!(answers(&out), [(7, ERROR + 9), (2, 1)]);
    let many = [vec![0, 0, 0, 1], option(3, b"").repeat(65)].concat();
    assert_eq!(play(&many).0, Err(Refused::TooMany));
    // Lengths inside that do not fit.
    for data in [&b""[..], &[0; 5], &[0, 0, 0, 9, 0, 0], &[0xff; 6], &[0, 0, 0, 0, 0, 1]] {
        let said = [&[0, 0, 0, 1][..], &option(7, data)].concat();
        let (result, out) = play(&said);
        assert_eq!(result, Ok((said.len(), Step::More)));
        assert_eq!(answers(&out), [(7, ERROR + 3)]);
    }
    let said = [&[0, 0, 0, 1][..], &option(8, b"x"), &option(3, b"x")].concat();
    assert_eq!(answers(&play(&said).1), [(8, ERROR + 3), (3, ERROR + 3)]);
}

#[test]
fn flags_say_what_is_kept() {
    let mut export = export();
    let flags = export.flags(true);
    for bit in [flag::SEND_FLUSH, flag::SEND_FUA, flag::CAN_MULTI_CONN, flag::SEND_DF] {
        assert_eq!(flags & bit, bit);
    }
    // Promised only to whom it can be kept.
    assert_eq!(export.flags(false) & flag::SEND_DF, 0);
    export.read_only = true;
    let flags = export.flags(true);
    assert_eq!(flags & (flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::READ_ONLY), 2);
}

fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Request {
    Request { flags, kind, cookie: 7, offset, length }
}

fn bytes(request: &Request) -> Vec<u8> {
    let mut bytes = MAGIC.to_be_bytes().to_vec();
    bytes.extend(request.flags.to_be_bytes());
    bytes.extend(request.kind.to_be_bytes());
    bytes.extend(request.cookie.to_be_bytes());
    bytes.extend(request.offset.to_be_bytes());
    bytes.extend(request.length.to_be_bytes());
    bytes
}

#[test]
fn ranges_and_flags_are_checked() {
    let export = export();
    let say = |kind, flags, offset, length| request(kind, flags, offset, length).command(&export);
    assert_eq!(say(0, 4, 0, 4096), Ok(Command::Read { whole: true }));
    assert_eq!(say(1, 1, (1 << 20) - 1, 1), Ok(Command::Write { fua: true }));
    assert_eq!(say(0, 0, 1 << 20, 0), Ok(Command::Read { whole: false }));
    // Beyond the end, by a byte, by much, and round the end of all numbers.
    assert_eq!(say(0, 0, (1 << 20) - 1, 2), Err(Errno::Inval));
    assert_eq!(say(1, 0, (1 << 20) - 1, 2), Err(Errno::NoSpc));
    assert_eq!(say(0, 0, u64::MAX, 1), Err(Errno::Inval));
    assert_eq!(say(1, 0, u64::MAX - 4095, 4096), Err(Errno::NoSpc));
    assert_eq!(say(6, 0, u64::MAX, u32::MAX), Err(Errno::NoSpc));
    assert_eq!(say(0, 0, 0, MOST_BYTES + 1), Err(Errno::Overflow));
    assert!(request(1, 0, 0, MOST_BYTES + 1).is_endless());
    assert!(!request(0, 0, 0, MOST_BYTES + 1).is_endless());
    // Commands and flags that nobody offered.
    assert_eq!(say(7, 0, 0, 0), Err(Errno::Inval));
    assert_eq!(say(7, 8, 1 << 19, 1 << 19), Ok(Command::Status { one: true }));
    assert_eq!(say(7, 0, 1 << 19, (1 << 19) + 1), Err(Errno::Inval));
    assert_eq!(say(8, 0, 0, 0), Err(Errno::Inval));
    assert_eq!(say(0, 2, 0, 512), Err(Errno::Inval));
    assert_eq!(say(1, 4, 0, 512), Err(Errno::Inval));
    assert_eq!(say(3, 0, 0, 1), Err(Errno::Inval));
    let keep = Command::WriteZeroes { fua: true, keep: true, fast: true };
    assert_eq!(say(6, 1 | 2 | 16, 0, 512), Ok(keep));
    let locked = Export { read_only: true, ..export.clone() };
    for kind in [1, 4, 6] {
        assert_eq!(request(kind, 0, 0, 512).command(&locked), Err(Errno::Perm));
    }
}

#[test]
fn reply_heads_have_the_protocols_bytes() {
    assert_eq!(reply::simple(7, None).bytes().len(), 16);
    let error = reply::simple(7, Some(Errno::NoSpc));
    assert_eq!(error.bytes()[4..8], [0, 0, 0, 28]);
    let data = reply::data(7, 4096, 512, true);
    assert_eq!(data.bytes()[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1]);
    assert_eq!(data.bytes()[16..20], 520u32.to_be_bytes());
    assert_eq!(data.bytes()[20..], 4096u64.to_be_bytes());
    assert_eq!(reply::end(7).bytes()[4..8], [0, 1, 0, 0]);
    let status = reply::status(7, 1, 3);
    assert_eq!(status.bytes()[4..8], [0, 1, 0, 5]);
    assert_eq!(status.bytes()[16..], [0, 0, 0, 28, 0, 0, 0, 1]);
    assert_eq!(reply::extent(512, true), [0, 0, 2, 0, 0, 0, 0, 3]);
    assert_eq!(reply::extent(512, false)[4..], [0; 4]);
    let error = reply::error(7, Errno::Io);
    assert_eq!(error.bytes()[4..8], [0, 1, 0x80, 1]);
    assert_eq!(error.bytes()[20..], [0, 0, 0, 5, 0, 0]);
}

/// As the fuzz target: the same answers however the bytes come.
fn in_pieces(input: &[u8], piece: usize) -> (String, Vec<u8>) {
    let (mut handshake, mut out) = (Handshake::default(), Vec::new());
    let (mut have, mut from) = (0, 0);
    while have < input.len() {
        have = (have + piece).min(input.len());
        match handshake.feed(&export(), &input[from..have], &mut out) {
            Ok((taken, Step::More)) => from += taken,
            Ok((taken, step)) => return (format!("{step:?} {}", from + taken), out),
            Err(why) => return (format!("{why:?}"), out),
        }
    }
    ("more".to_owned(), out)
}

fn conversations() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        // The first byte is the fuzz target's own.
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()[1..].into())
    };
    std::fs::read_dir(folder).unwrap().map(read).collect()
}

#[test]
fn what_real_clients_said_is_understood_in_any_pieces() {
    let all = conversations();
    assert!(all.len() >= 6);
    for (name, said) in all {
        let whole = in_pieces(&said, said.len());
        for piece in [1, 2, 3, 7, 16, 100] {
            assert_eq!(in_pieces(&said, piece), whole, "{name}");
        }
        let (result, _) = play(&said);
        match result.unwrap_or_else(|why| panic!("{name}: {why}")) {
            (_, Step::End) => assert_eq!(name, "nbdinfo-list"),
            (taken, Step::Go(session)) => {
                assert!(session.structured, "{name}");
                let mut rest = &said[taken..];
                let mut count = 0;
                while let Some(request) = Request::parse(rest).unwrap() {
                    assert!(request.command(&export()).is_ok(), "{name}: {request:?}");
                    count += 1;
                    let next = HEAD + request.payload() as usize;
                    rest = rest.get(next..).unwrap_or_default();
                }
                assert!(count > 0, "{name}");
            }
            (_, Step::More) => panic!("{name}: cut in the handshake"),
        }
    }
}

proptest! {
    #[test]
    fn requests_come_back_as_they_were(
        flags: u16, kind: u16, cookie: u64, offset: u64, length: u32, less in 1usize..HEAD,
    ) {
        let request = Request { flags, kind, cookie, offset, length };
        let mut sent = bytes(&request);
        prop_assert_eq!(Request::parse(&sent), Ok(Some(request)));
        prop_assert_eq!(Request::parse(&sent[..HEAD - less]), Ok(None));
        sent[2] ^= 1;
        prop_assert!(matches!(Request::parse(&sent), Err(Lost(_))));
    }

    #[test]
    fn changed_conversations_do_no_harm(
        which in 0usize..8, at in 0usize..200, with: u8, piece in 1usize..40,
    ) {
        let mut said = conversations().swap_remove(which).1;
        let at = at % said.len();
        said[at] ^= with;
        prop_assert_eq!(in_pieces(&said, piece), in_pieces(&said, said.len()));
    }
}

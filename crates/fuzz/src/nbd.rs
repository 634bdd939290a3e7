//! Arbitrary bytes as an NBD client, in arbitrary pieces: the same answers however they are cut,
//! and no command beyond the device.

use halfwink_live_block::proto::handshake::{Handshake, Step};
use halfwink_live_block::proto::request::{Command, Request, HEAD};
use halfwink_live_block::proto::{Export, MOST_BYTES};

fn play(export: &Export, input: &[u8], piece: usize) -> (String, Vec<u8>) {
    let (mut handshake, mut out) = (Handshake::default(), Vec::new());
    let (mut have, mut from) = (0, 0);
    while have < input.len() {
        have = (have + piece).min(input.len());
        match handshake.feed(export, &input[from..have], &mut out) {
            Ok((taken, Step::More)) => from += taken,
            Ok((taken, step)) => {
                assert!(from + taken <= have);
                return (format!("{step:?} {}", from + taken), out);
            }
            Err(why) => return (format!("{why:?}"), out),
        }
        // Answers do not grow faster than questions.
        assert!(out.len() <= 4096 + 64 * input.len());
    }
    ("more".to_owned(), out)
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let Some((&cut, input)) = bytes.split_first() else { return };
    let read_only = cut & 1 == 1;
    // What real tools wrote begins with 0, a GB; small ones have ends that are easily hit.
    let export = Export { name: "disk".to_owned(), size: 1 << (30 ^ (cut % 32)), read_only };
    let whole = play(&export, input, input.len().max(1));
    assert_eq!(whole, play(&export, input, 1 + usize::from(cut >> 1)));
    let mut rest = input;
    while let Ok(Some(request)) = Request::parse(rest) {
        if let Ok(command) = request.command(&export) {
            let end = request.offset.checked_add(u64::from(request.length));
            match command {
                Command::Disconnect => return,
                Command::Flush => assert_eq!(end, Some(0)),
                Command::Read { .. } | Command::Write { .. } => {
                    assert!(request.length <= MOST_BYTES && end.unwrap() <= export.size);
                }
                _ => assert!(end.unwrap() <= export.size),
            }
            let writes = matches!(
                command,
                Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. }
            );
            assert!(!(writes && read_only));
        }
        let payload = request.payload() as usize;
        let Some(after) = rest.get(HEAD + payload..) else { return };
        rest = after;
    }
}

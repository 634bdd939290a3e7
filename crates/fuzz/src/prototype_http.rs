//! Arbitrary bytes as requests to the prototype: read alike however they are cut, and never beyond
//! what is there.

use halfwink_testbed::prototype::server::{parse, Parsed};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let whole = parse(rest);
        match whole {
            Parsed::Partial => return,
            Parsed::Bad(status) => return assert!((400..600).contains(&status), "{status}"),
            Parsed::Request(request) => {
                assert!(request.bytes > 0 && request.bytes <= rest.len());
                if let Err(status) = request.ask {
                    assert!((400..600).contains(&status), "{status}");
                }
                let (head, after) = rest.split_at(request.bytes);
                // What comes behind it is no part of it, and before its end it is none.
                assert_eq!(parse(head), whole);
                let shorter = parse(&head[..head.len() - 1]);
                assert_eq!(shorter, Parsed::Partial);
                rest = after;
            }
        }
    }
}

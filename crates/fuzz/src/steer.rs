//! Arbitrary bytes as a request, a response and a chunked body: nothing that is taken can be read
//! in two ways by whoever gets it.

use halfwink_live_steer::body::{Decoder, Encoder, Framing};
use halfwink_live_steer::head::{self, Client, Given};
use halfwink_live_steer::{Buffer, Headers, Limits};

/// Largest number of fields that the proxy adds: its `Via`, the client, and the framing of the
/// body.
const ADDED: usize = 6;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let client = Client {
        address: "::1".to_owned(),
        scheme: "https",
        headers: Headers { forwarded: true, ..Headers::default() },
    };
    let mut out = Vec::new();
    if let Ok(Some(request)) = head::request(bytes, &Limits::default(), &client, &mut out) {
        assert!(request.taken <= bytes.len());
        // What is sent on is one head, read again as the same, and never changes any more.
        assert!(out.ends_with(b"\r\n\r\n"));
        let mut again = Vec::new();
        // It has fields of ours beside the client's, and the next proxy has room for them.
        let limits = Limits::default();
        let roomier = Limits {
            header_fields: limits.header_fields + ADDED,
            header_bytes: 2 * limits.header_bytes,
            ..limits
        };
        let second = head::request(&out, &roomier, &client, &mut again);
        let second = second.expect("it was understood").expect("it is whole");
        assert_eq!((second.taken, second.framing), (out.len(), request.framing));
    }
    let mut given = Vec::new();
    let mut give = |part: Given<'_>| part.write(&mut given);
    if let Ok(Some(found)) = head::response(bytes, false, &mut give) {
        assert!(found.taken <= bytes.len());
        given.extend_from_slice(b"\r\n");
        let again = head::response(&given, false, |_| {}).expect("it was understood");
        assert_eq!(again.map(|a| (a.taken, a.status)), Some((given.len(), found.status)));
    }
    let (mut decoder, mut input) = (Decoder::new(Framing::Chunked), Buffer::of(bytes));
    let (mut data, mut written) = (Vec::new(), Vec::new());
    let taken = decoder.take(&mut input, usize::MAX, |piece| {
        data.extend_from_slice(piece);
        Encoder::Chunked.piece(piece, &mut written);
    });
    if taken.is_ok() && decoder.is_done() {
        Encoder::Chunked.end(&mut written);
        let (mut decoder, mut input) = (Decoder::new(Framing::Chunked), Buffer::of(&written));
        let mut again = Vec::new();
        decoder.take(&mut input, usize::MAX, |piece| again.extend_from_slice(piece)).expect("ours");
        assert!(decoder.is_done() && input.is_empty() && again == data);
    }
}

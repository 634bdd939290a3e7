//! Heads that proxies read and write.

use super::*;

fn client(headers: Headers) -> Client {
    Client { address: "2001:db8::1".to_owned(), scheme: "https", headers }
}

fn ask(text: &str, headers: Headers) -> Result<(Request, String), u16> {
    let mut out = Vec::new();
    match request(text.as_bytes(), &Limits::default(), &client(headers), &mut out) {
        Ok(Some(found)) => Ok((found, String::from_utf8(out).unwrap())),
        Ok(None) => Err(0),
        Err(refused) => Err(refused.status),
    }
}

#[test]
fn a_request_is_written_anew() {
    let headers = Headers { forwarded: true, ..Headers::default() };
    let text = "PUT /a?b HTTP/1.1\r\nHost: h:1\r\nContent-Length: 007\r\nX:  y \r\n\r\nbody";
    let (found, out) = ask(text, headers).unwrap();
    assert_eq!((found.taken, found.framing), (text.len() - 4, Framing::Length(7)));
    assert!(found.keep_alive && found.idempotent && !found.is_head && !found.expects);
    assert_eq!(
        out,
        "PUT /a?b HTTP/1.1\r\nHost: h:1\r\nX: y\r\nVia: 1.1 halfwink\r\n\
         X-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: h:1\r\n\
         Forwarded: for=\"[2001:db8::1]\";proto=https;host=\"h:1\"\r\nContent-Length: 7\r\n\r\n"
    );
}

#[test]
fn proxies_in_front_may_be_trusted() {
    let headers = Headers { trust: true, via: false, ..Headers::default() };
    let text = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\n\
                X-Forwarded-Proto: http\r\nVia: 1.1 a\r\n\r\n";
    let (_, out) = ask(text, headers).unwrap();
    assert_eq!(
        out,
        "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: http\r\nVia: 1.1 a, 1.1 halfwink\r\n\
         X-Forwarded-For: 1.2.3.4, 2001:db8::1\r\n\r\n"
    );
}

#[test]
fn any_part_of_a_request_may_become_one() {
    let text = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(ask(&text[..end], Headers::default()).unwrap_err(), 0, "{end}");
    }
    assert_eq!(ask(text, Headers::default()).unwrap().0.framing, Framing::Chunked);
}

fn answer(text: &str, is_head: bool) -> Result<Option<(Response, String)>, Garbage> {
    let mut out = Vec::new();
    let found = response(text.as_bytes(), is_head, |part| part.write(&mut out))?;
    Ok(found.map(|found| (found, String::from_utf8(out).unwrap())))
}

#[test]
fn a_response_is_written_anew() {
    let text = "HTTP/1.1 200 Fine\r\nContent-Length : 3\r\nConnection: close, x-a\r\n\
                X-A: 1\r\nB: 2\r\n\r\n";
    let (found, out) = answer(text, false).unwrap().unwrap();
    assert_eq!((found.framing, found.keep_alive), (Framing::Length(3), false));
    assert_eq!(out, "HTTP/1.1 200 Fine\r\nB: 2\r\n");
    let (found, out) = answer(text, true).unwrap().unwrap();
    assert_eq!(found.framing, Framing::None);
    assert_eq!(out, "HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nB: 2\r\n");
    assert_eq!(answer("HTTP/1.1 200 OK\r\n", false), Ok(None));
    assert_eq!(answer("HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", false), Err(Garbage));
}

#[test]
fn upgrades_are_refused_and_not_forgotten() {
    let with = |fields: &str| {
        ask(&format!("GET /ws HTTP/1.1\r\nHost: h\r\n{fields}\r\n"), Headers::default())
    };
    let asks = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(with(asks).unwrap_err(), 426);
    // HTTP/2 may be asked for and not had (RFC 9110, section 7.8); what no connection names, and a
    // client of HTTP/1.0, ask for nothing.
    let http2 = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n";
    let (_, out) = with(http2).unwrap();
    assert!(!out.to_ascii_lowercase().contains("upgrade"), "{out}");
    assert!(with("Upgrade: websocket\r\n").is_ok());
    let old = format!("GET /ws HTTP/1.0\r\nHost: h\r\n{asks}\r\n");
    assert!(ask(&old, Headers::default()).is_ok());
}

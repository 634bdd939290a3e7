//! Interim answers (RFC 9110, section 15.2): a machine's are its client's, at once and in order.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use halfwink_engine::Input;
use halfwink_policy::steering::{Always, Side, SteeringPolicy};

use super::meter::Watts;
use super::{Config, Steer};

const BIG: &str = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nConnection: close\r\n\
                   Content-Length: 5000\r\n\r\n";

/// A proxy before a machine that does this with each connection.
fn proxy(machine: fn(&mut TcpStream)) -> Steer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || machine(&mut stream));
        }
    });
    let text = format!(
        "schema = 1\nlisten = \"127.0.0.1:0\"\n[small]\naddress = \"{address}\"\n[big]\naddress = \
         \"127.0.0.1:1\"\n[health]\ninterval_ms = 0\n[limits]\nbuffer_bytes = 1000\n"
    );
    let config = Config::parse(&Input::new("steer.toml", text), Path::new("")).unwrap();
    let policy: SteeringPolicy = Box::new(Always::new(Side::Small));
    Steer::start(config, policy, Some(vec![Watts::default(); 2]), None).unwrap()
}

/// Reads up to some text, and what has come.
fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(text.as_bytes()) && matches!(stream.read(&mut byte), Ok(1)) {
        seen.push(byte[0]);
    }
    String::from_utf8(seen).unwrap()
}

fn rest(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    match stream.read_to_end(&mut seen) {
        Err(e) if e.kind() != ErrorKind::ConnectionReset => panic!("{e}"),
        _ => String::from_utf8(seen).unwrap(),
    }
}

fn client(at: SocketAddr, sends: &str) -> TcpStream {
    let mut client = TcpStream::connect(at).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    client.write_all(sends.as_bytes()).unwrap();
    client
}

fn say(stream: &mut TcpStream, text: &str) {
    // A test that has ended reads nothing.
    let _ = stream.write_all(text.as_bytes());
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn hints_come_before_the_answer_and_old_clients_get_none() {
    let steer = proxy(|stream| {
        until(stream, "\r\n\r\n");
        say(stream, "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\nConnection: x\r\nX: 1\r\n\r\n");
        say(stream, "HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\nHTTP/1.1 199 New\r\n\r\n");
        // Nothing more before the client has said that it has them.
        until(stream, "\r\n\r\n");
    });
    let get = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let mut waiting = client(steer.address(), get);
    let seen = until(&mut waiting, "199 New\r\nVia: 1.1 halfwink\r\n\r\n");
    assert_eq!(
        seen,
        "HTTP/1.1 100 Continue\r\nVia: 1.1 halfwink\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: \
         </s.css>\r\nVia: 1.1 halfwink\r\n\r\nHTTP/1.1 199 New\r\nVia: 1.1 halfwink\r\n\r\n"
    );
    let steer = proxy(|stream| {
        until(stream, "\r\n\r\n");
        say(stream, &format!("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n{OK}"));
    });
    let text = rest(&mut client(steer.address(), get));
    assert!(text.starts_with("HTTP/1.1 103 Early Hints\r\nLink"), "{text}");
    assert!(text.contains("\r\n\r\nHTTP/1.1 200 OK\r\n") && text.ends_with("ok"), "{text}");
    let text = rest(&mut client(steer.address(), "GET / HTTP/1.0\r\nHost: h\r\n\r\n"));
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("ok"), "{text}");
}

#[test]
fn many_are_passed_on_and_without_end_they_are_garbage() {
    let steer = proxy(|stream| {
        let count = if until(stream, "\r\n\r\n").starts_with("GET /64 ") { 64 } else { 100_000 };
        (0..count).for_each(|_| say(stream, "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"));
        say(stream, OK);
    });
    for (path, status) in [("/64", "200 OK"), ("/more", "502 Bad Gateway")] {
        let get = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let text = rest(&mut client(steer.address(), &get));
        assert_eq!(text.matches("HTTP/1.1 103 ").count(), 64, "{path}");
        assert_eq!(text.matches(&format!("HTTP/1.1 {status}\r\n")).count(), 1, "{text}");
    }
}

#[test]
fn a_machine_is_asked_whether_it_wants_a_long_body() {
    let steer = proxy(|stream| {
        let head = until(stream, "\r\n\r\n");
        assert!(head.contains("\r\nExpect: 100-continue\r\n\r\n"), "{head}");
        say(stream, "HTTP/1.1 100 Continue\r\n\r\n");
        let mut body = vec![0; 5000];
        stream.read_exact(&mut body).unwrap();
        say(stream, OK);
    });
    let mut asking = client(steer.address(), BIG);
    let told = until(&mut asking, "\r\n\r\n");
    assert!(told.starts_with("HTTP/1.1 100 Continue\r\n"), "{told}");
    say(&mut asking, &"x".repeat(5000));
    let text = rest(&mut asking);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("ok"), "{text}");
}

#[test]
fn a_body_that_is_not_wanted_is_not_sent() {
    let steer = proxy(|stream| {
        until(stream, "\r\n\r\n");
        say(stream, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
        assert_eq!(rest(stream), "");
    });
    let text = rest(&mut client(steer.address(), BIG));
    assert!(text.starts_with("HTTP/1.1 413 Content Too Large\r\n"), "{text}");
    assert!(text.contains("Connection: close\r\n") && text.ends_with("no"), "{text}");
}

#[test]
fn where_a_machine_says_nothing_the_client_is_told_to_go_on() {
    let steer = proxy(|stream| {
        until(stream, "\r\n\r\n");
        let mut body = vec![0; 5000];
        stream.read_exact(&mut body).unwrap();
        // It is late with that, and the client knows.
        say(stream, &format!("HTTP/1.1 100 Continue\r\n\r\n{OK}"));
    });
    let mut asking = client(steer.address(), BIG);
    assert_eq!(until(&mut asking, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    say(&mut asking, &"x".repeat(5000));
    let text = rest(&mut asking);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("ok"), "{text}");
}

/// A request of HTTP/2, its body once it is told to go on: interim statuses, and the answer's.
fn ask2(at: SocketAddr, length: usize, expects: bool) -> (Vec<u16>, u16, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(at).await.unwrap();
        let (mut send, conn) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(conn);
        let mut request = http::Request::post(format!("http://{at}/"));
        request = request.header("content-length", length);
        if expects {
            request = request.header("expect", "100-continue");
        }
        let (mut answer, mut body) =
            send.send_request(request.body(()).unwrap(), length == 0).unwrap();
        let mut seen = Vec::new();
        if length > 0 && !expects {
            body.send_data(vec![b'x'; length].into(), true).unwrap();
        }
        loop {
            let early = std::future::poll_fn(|cx| answer.poll_informational(cx)).await;
            let Some(Ok(early)) = early else { break };
            assert!(early.headers().get("via").is_none_or(|via| via == "1.1 halfwink"));
            seen.push(early.status().as_u16());
            if early.status() == 100 && length > 0 && expects {
                body.send_data(vec![b'x'; length].into(), true).unwrap();
            }
        }
        let answer = answer.await.unwrap();
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        let mut text = Vec::new();
        while let Some(Ok(piece)) = body.data().await {
            text.extend_from_slice(&piece);
        }
        (seen, status, String::from_utf8(text).unwrap())
    })
}

#[test]
fn http2_has_interim_answers_too() {
    let steer = proxy(|stream| {
        until(stream, "\r\n\r\n");
        say(stream, &format!("HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 199 N\r\n\r\n{OK}"));
    });
    let found = ask2(steer.address(), 0, false);
    assert_eq!(found, (vec![103, 199], 200, "ok".to_owned()));
    let steer = proxy(|stream| {
        let head = until(stream, "\r\n\r\n");
        let asked = head.contains("\r\nExpect: 100-continue\r\n");
        assert_eq!(asked, head.contains("\r\nContent-Length: 5000\r\n"), "{head}");
        if asked {
            say(stream, "HTTP/1.1 100 Continue\r\n\r\n");
        }
        let mut body = vec![0; if asked { 5000 } else { 500 }];
        stream.read_exact(&mut body).unwrap();
        say(stream, OK);
    });
    // One that is held here as a whole is asked for here.
    for length in [5000, 500] {
        let found = ask2(steer.address(), length, true);
        assert_eq!(found, (vec![100], 200, "ok".to_owned()), "{length}");
    }
}

#[test]
fn http2_learns_that_a_body_is_not_wanted() {
    let steer = proxy(|stream| {
        until(stream, "\r\n\r\n");
        say(stream, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
        assert_eq!(rest(stream), "");
    });
    assert_eq!(ask2(steer.address(), 5000, true), (vec![], 413, "no".to_owned()));
}

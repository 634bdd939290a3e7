//! Arbitrary bytes behind the preface of HTTP/2, to a proxy whose machines are not there: whatever
//! frames they are, the next client is answered.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use halfwink_engine::Input;
use halfwink_live_steer::{Config, Steer};
use halfwink_policy::steering::{AlwaysOn, SteeringPolicy};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// SETTINGS without any: length 0, type 4.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const TYPE: usize = 3;

fn proxy() -> &'static Steer {
    static PROXY: OnceLock<Steer> = OnceLock::new();
    PROXY.get_or_init(|| {
        // Port 1 of two addresses of loopback, where nobody listens.
        let text = "schema = 1\nlisten = \"127.0.0.1:0\"\nthreads = 1\n\
             [small]\naddress = \"127.0.0.1:1\"\n[big]\naddress = \"127.0.0.2:1\"\n";
        let config = Config::parse(&Input::new("x.toml", text), Path::new("")).expect("ours");
        let policy: SteeringPolicy = Box::new(AlwaysOn::new(1));
        Steer::start(config, policy, None, None).expect("loopback")
    })
}

fn open() -> TcpStream {
    let stream = TcpStream::connect(proxy().address()).expect("the proxy listens");
    // Not asserted: only that a dead proxy does not stop the fuzzer for ever.
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    stream
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let mut stream = open();
    // It may hang up before it has read all.
    let _ = stream.write_all(PREFACE);
    let _ = stream.write_all(&SETTINGS);
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.take(1 << 20).read_to_end(&mut answer);
    let mut next = open();
    next.write_all(PREFACE).and_then(|()| next.write_all(&SETTINGS)).expect("it is read");
    let mut head = [0; 9];
    next.read_exact(&mut head).expect("the next client is answered");
    assert_eq!(head[TYPE], SETTINGS[TYPE], "{head:?}");
}

//! What a client has sent before a drain begins is answered or refused, whoever holds it: the
//! kernel's queue of connections, a socket's receive queue, the proxy, a machine.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use halfwink_engine::Input;
use halfwink_policy::steering::{Always, Side, SteeringPolicy};

use super::dispatch::Dispatch;
use super::exchange::Lane;
use super::machine::Machine;
use super::meter::Watts;
use super::shared::{Outcome, Shared};
use super::{threads, Config, Steer};

const LAST: &[u8] = b"GET /last HTTP/1.1\r\nHost: h\r\n\r\n";
const FIRST: &[u8] = b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n";

/// A small machine that answers each request with `ok`, once it has taken a token.
struct Server {
    address: SocketAddr,
    tokens: Sender<()>,
    /// A word for each request that has come.
    came: Receiver<()>,
    /// Where the big machine would be: enough for it to wake.
    big: TcpListener,
}

fn server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((tokens, taken), (comes, came)) = (channel(), channel());
    let taken = Arc::new(Mutex::new(taken));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (taken, comes) = (taken.clone(), comes.clone());
            std::thread::spawn(move || answer(stream, &taken, &comes));
        }
    });
    let big = TcpListener::bind("127.0.0.1:0").unwrap();
    Server { address, tokens, came, big }
}

fn answer(mut stream: TcpStream, taken: &Mutex<Receiver<()>>, comes: &Sender<()>) {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        seen.extend_from_slice(&piece[..count]);
        while let Some(end) = memchr::memmem::find(&seen, b"\r\n\r\n") {
            seen.drain(..end + 4);
            // A test that has ended wants no answer.
            if comes.send(()).is_err() || taken.lock().unwrap().recv().is_err() {
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    }
}

fn config(server: &Server, drain_ms: u64, threads: usize) -> Config {
    let text = format!(
        "schema = 1\nlisten = \"127.0.0.1:0\"\nthreads = {threads}\n\
         [small]\naddress = \"{0}\"\nworkers = 2\n[big]\naddress = \"{1}\"\n\
         [health]\ninterval_ms = 0\n[limits]\ndrain_ms = {drain_ms}\n",
        server.address,
        server.big.local_addr().unwrap()
    );
    Config::parse(&Input::new("steer.toml", text), Path::new(".")).unwrap()
}

fn shared(config: Config) -> Arc<Shared> {
    let machine = |side| Machine::described(&config, side, Watts::default());
    let machines = config.sides().map(machine).collect();
    let policy: SteeringPolicy = Box::new(Always::new(Side::Small));
    Arc::new(Shared::new(Dispatch::new(policy, None, machines, 2), config, None, None))
}

/// A proxy whose drain has begun before any of its threads ran, with what clients have sent.
fn late(server: &Server, threads: usize, clients: &[&[u8]]) -> (Steer, Vec<TcpStream>) {
    let config = config(server, 20_000, threads);
    let (listeners, address) = threads::listen(config.listen, config.threads).unwrap();
    let shared = shared(config);
    let sent = clients.iter().map(|bytes| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(bytes).unwrap();
        client
    });
    let sent = sent.collect();
    shared.drain(Instant::now() + Duration::from_secs(120));
    let threads = Mutex::new(threads::start(&shared, listeners).unwrap());
    (Steer { shared, address, began: [Instant::now(); 2], modelled: true, threads }, sent)
}

fn rest(mut client: TcpStream) -> String {
    let mut text = Vec::new();
    match client.read_to_end(&mut text) {
        Err(e) if e.kind() != ErrorKind::ConnectionReset => panic!("{e}"),
        _ => String::from_utf8_lossy(&text).into_owned(),
    }
}

fn answers(text: &str) -> usize {
    text.matches("HTTP/1.1 200 OK\r\n").count()
}

#[test]
fn connections_that_nobody_has_taken_are_served() {
    for threads in [1, 2] {
        let server = server();
        let (steer, clients) = late(&server, threads, &[LAST; 12]);
        (0..12).for_each(|_| server.tokens.send(()).unwrap());
        steer.stop();
        for client in clients {
            let text = rest(client);
            assert_eq!(
                (answers(&text), text.matches("Connection: close").count()),
                (1, 1),
                "{text}"
            );
        }
        assert_eq!(steer.report().requests["answered"], 12);
        assert_eq!(steer.report().requests["aborted"], 0);
    }
}

#[test]
fn a_connection_without_a_request_is_closed_at_once() {
    let server = server();
    let (steer, clients) = late(&server, 1, &[b""]);
    let begun = Instant::now();
    steer.stop();
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(rest(clients.into_iter().next().unwrap()), "");
}

#[test]
fn requests_behind_the_one_that_is_answered_are_served() {
    let server = server();
    let pipelined = [FIRST, FIRST, LAST].concat();
    let (steer, clients) = late(&server, 1, &[&pipelined]);
    (0..3).for_each(|_| server.tokens.send(()).unwrap());
    steer.stop();
    let text = rest(clients.into_iter().next().unwrap());
    assert_eq!(answers(&text), 3, "{text}");
    // Only the last answer says that no more will be served.
    assert_eq!(text.matches("Connection: close").count(), 1);
    assert!(text.rfind("Connection: close") > text.rfind("HTTP/1.1"));
}

/// A client of HTTP/2 by hand: sends a request, answers pings, returns the types of all frames.
fn frames_of_a_request(mut client: TcpStream) -> Vec<u8> {
    let mut types = Vec::new();
    loop {
        let mut head = [0; 9];
        if client.read_exact(&mut head).is_err() {
            return types;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut body = vec![0; length];
        client.read_exact(&mut body).unwrap();
        types.push(head[3]);
        if head[3] == 6 {
            head[4] = 1;
            client.write_all(&[&head[..], &body].concat()).unwrap();
        }
    }
}

#[test]
fn http2_is_served_and_told_to_go_away() {
    let server = server();
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    request.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]); // SETTINGS
    let fields = [0x82, 0x86, 0x84, 0x41, 1, b'h']; // GET, http, /, authority h
    request.extend_from_slice(&[0, 0, 6, 1, 0b101, 0, 0, 0, 1]); // HEADERS, the end of stream 1
    request.extend_from_slice(&fields);
    let (steer, clients) = late(&server, 1, &[&request]);
    server.tokens.send(()).unwrap();
    let client = clients.into_iter().next().unwrap();
    let reader = std::thread::spawn(move || frames_of_a_request(client));
    steer.stop();
    let types = reader.join().unwrap();
    let (headers, data, go_away) = (1, 0, 7);
    assert!([headers, data, go_away].iter().all(|t| types.contains(t)), "{types:?}");
    assert_eq!(steer.report().requests["answered"], 1);
}

#[test]
fn what_the_runtime_has_not_seen_yet_is_served() {
    let server = server();
    let shared = shared(config(&server, 20_000, 1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let text = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let lane = Lane::new(shared.clone());
        let account = shared.memory.account(peer.ip());
        let serving = tokio::spawn(async move {
            threads::connection(lane, stream, peer, &account).await;
        });
        client.write_all(FIRST).unwrap();
        server.tokens.send(()).unwrap();
        while shared.counts[Outcome::Answered as usize].load(std::sync::atomic::Ordering::Relaxed)
            == 0
        {
            tokio::task::yield_now().await;
        }
        // It waits for a request now; one comes, and the drain, before the runtime looks again.
        client.write_all(LAST).unwrap();
        shared.drain(Instant::now() + Duration::from_secs(120));
        server.tokens.send(()).unwrap();
        serving.await.unwrap();
        rest(client)
    });
    assert_eq!(answers(&text), 2, "{text}");
    assert!(text.ends_with("Connection: close\r\n\r\nok"), "{text}");
}

#[test]
fn what_is_not_answered_in_time_is_refused() {
    let server = server();
    let steer = Steer::start(
        config(&server, 0, 1),
        Box::new(Always::new(Side::Small)) as SteeringPolicy,
        Some(vec![Watts::default(); 2]),
        None,
    )
    .unwrap();
    let clients = [(); 3].map(|()| {
        let mut client = TcpStream::connect(steer.address()).unwrap();
        client.write_all(LAST).unwrap();
        client
    });
    // Two are with the machine, which has no token; the third waits for a worker.
    (0..2).for_each(|_| server.came.recv().unwrap());
    while steer.report().requests["received"] < 3 {
        std::thread::yield_now();
    }
    steer.stop();
    for client in clients {
        let text = rest(client);
        assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{text}");
        assert!(text.contains("Connection: close\r\n"), "{text}");
    }
    let requests = steer.report().requests;
    assert_eq!((requests["aborted"], requests["answered"]), (3, 0));
}

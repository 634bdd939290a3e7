//! One page over HTTP: what a collector of metrics asks for, and no more. Each client has a thread
//! and a deadline, so that none delays another one, the program or its end.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::Error;

/// Content type of OpenMetrics text.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Longest head of a request that is read.
const MOST_HEAD: usize = 8 << 10;
/// Deadline of a connection, from its first byte to its last.
const DEADLINE: Duration = Duration::from_secs(5);
/// Connections that are served at once. A further one takes the place of the oldest: a collector
/// ends within milliseconds, so the oldest is the one that does not mean to.
const MOST_CLIENTS: usize = 16;
/// Largest number of threads: clients, and pages that wait for a lock of the program although their
/// client was cut off.
const MOST_THREADS: usize = 2 * MOST_CLIENTS;
/// Pause after an accept that failed (no descriptors, for example), and between looks for a thread
/// that has ended.
const PAUSE: Duration = Duration::from_millis(50);
/// Largest number of pauses that a client waits for a thread: those of clients that were cut off
/// end at once, if the machine lets them run.
const MOST_PAUSES: u32 = 40;

/// Serves `/metrics` until it is dropped.
pub struct Metrics {
    address: SocketAddr,
    clients: Arc<Mutex<Clients>>,
    thread: Option<JoinHandle<()>>,
}

/// Clients that are being served, the oldest first.
#[derive(Default)]
struct Clients {
    open: VecDeque<(u64, TcpStream)>,
    /// Number of the last client.
    last: u64,
    threads: usize,
    stopping: bool,
}

impl Clients {
    fn cut(client: Option<(u64, TcpStream)>) {
        // One that has gone needs no cut.
        let _ = client.map(|(_, client)| client.shutdown(Shutdown::Both));
    }
}

fn lock(clients: &Mutex<Clients>) -> MutexGuard<'_, Clients> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Listens at `HOST:PORT`; asks `text` for each page.
    ///
    /// # Errors
    /// The address is none, or is taken.
    pub fn serve(
        address: &str,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Metrics, Error> {
        let wrong =
            |why: &dyn std::fmt::Display| Error::Input(format!("--metrics {address}: {why}"));
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            return Err(wrong(&"expected HOST:PORT, such as 127.0.0.1:9475"));
        }
        let full = if address.starts_with(':') {
            format!("127.0.0.1{address}")
        } else {
            address.to_owned()
        };
        let found: Vec<SocketAddr> = full.to_socket_addrs().map_err(|e| wrong(&e))?.collect();
        let listener = TcpListener::bind(&found[..]).map_err(|e| wrong(&e))?;
        let address = listener.local_addr().map_err(|e| wrong(&e))?;
        let clients = Arc::new(Mutex::new(Clients::default()));
        let (own, text) = (clients.clone(), Arc::new(text));
        let body = move || {
            for client in listener.incoming() {
                if lock(&own).stopping {
                    return;
                }
                let Ok(client) = client else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                // A client that goes away is no loss.
                let _ = welcome(client, &own, &text);
            }
        };
        let thread = Builder::new().name("metrics".to_owned()).spawn(body);
        let thread = thread.map_err(|e| Error::Run(format!("thread of metrics: {e}")))?;
        Ok(Metrics { address, clients, thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        lock(&self.clients).stopping = true;
        // The thread that waits in `accept` is woken by a client.
        let called = TcpStream::connect_timeout(&self.address, DEADLINE);
        if let (Ok(_), Some(thread)) = (called, self.thread.take()) {
            let _ = thread.join();
        }
        // Their threads end by themselves; the end does not wait for a page.
        lock(&self.clients).open.drain(..).for_each(|client| Clients::cut(Some(client)));
    }
}

/// Serves a client by a thread of its own.
fn welcome<F: Fn() -> String + Send + Sync + 'static>(
    client: TcpStream,
    clients: &Arc<Mutex<Clients>>,
    text: &Arc<F>,
) -> io::Result<()> {
    let until = Instant::now() + DEADLINE;
    let mut all = lock(clients);
    let mut pauses = 0;
    while all.threads == MOST_THREADS {
        if pauses == MOST_PAUSES || all.stopping {
            return Ok(());
        }
        pauses += 1;
        drop(all);
        std::thread::sleep(PAUSE);
        all = lock(clients);
    }
    if all.open.len() == MOST_CLIENTS {
        Clients::cut(all.open.pop_front());
    }
    let handle = client.try_clone()?;
    all.last += 1;
    let number = all.last;
    let (own, text) = (clients.clone(), text.clone());
    let body = move || {
        // A client that goes away is no loss.
        let _ = answer(client, until, &*text);
        // Before it is counted as gone: the program may end with its last page.
        drop(text);
        let mut all = lock(&own);
        all.open.retain(|(other, _)| *other != number);
        all.threads -= 1;
    };
    Builder::new().name("metrics client".to_owned()).spawn(body)?;
    all.threads += 1;
    all.open.push_back((number, handle));
    Ok(())
}

/// Returns the time that is left.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn answer(mut client: TcpStream, until: Instant, text: &impl Fn() -> String) -> io::Result<()> {
    let (status, body) = match target(&mut client, until)? {
        Some(Target::Metrics) => ("200 OK", text()),
        Some(Target::Other) => ("404 Not Found", "only /metrics is here\n".to_owned()),
        None => ("400 Bad Request", "expected a GET request\n".to_owned()),
    };
    let kind = if status.starts_with("200") { CONTENT_TYPE } else { "text/plain" };
    let length = body.len();
    let page = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    let mut bytes = page.as_bytes();
    while !bytes.is_empty() {
        client.set_write_timeout(Some(left(until)?))?;
        let count = client.write(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

enum Target {
    Metrics,
    Other,
}

/// Reads the request of a client; returns none if it is malformed.
fn target(client: &mut TcpStream, until: Instant) -> io::Result<Option<Target>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        client.set_read_timeout(Some(left(until)?))?;
        let got = client.read(&mut piece)?;
        head.extend_from_slice(&piece[..got]);
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) if request.method == Some("GET") => {
                let path = request.path.unwrap_or("").split('?').next();
                let found = if path == Some("/metrics") { Target::Metrics } else { Target::Other };
                return Ok(Some(found));
            }
            Ok(httparse::Status::Partial) if got > 0 && head.len() < MOST_HEAD => {}
            _ => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn one_page_and_nothing_else() {
        let metrics = Metrics::serve("127.0.0.1:0", || "# EOF\n".to_owned()).unwrap();
        let at = metrics.address();
        let page = ask(at, "GET /metrics?x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\n# EOF\n"));
        assert!(ask(at, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(at, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
        assert!(ask(at, "\0\0\r\n\r\n").starts_with("HTTP/1.1 400"));
        drop(metrics);
        assert!(TcpStream::connect(at).is_err(), "it is gone when dropped");
    }

    #[test]
    fn silent_clients_delay_neither_a_page_nor_the_end() {
        let metrics = Metrics::serve("127.0.0.1:0", || "# EOF\n".to_owned()).unwrap();
        let at = metrics.address();
        // More of them than are served at once, and each with a part of a request.
        let silent: Vec<TcpStream> = (0..3 * MOST_CLIENTS)
            .map(|_| {
                let mut client = TcpStream::connect(at).unwrap();
                client.write_all(b"GET /metrics").unwrap();
                client
            })
            .collect();
        let begun = std::time::Instant::now();
        let page = ask(at, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.ends_with("# EOF\n"), "{page}");
        drop(metrics);
        assert!(begun.elapsed() < DEADLINE);
        drop(silent);
    }

    #[test]
    fn a_page_that_waits_for_a_lock_delays_no_end() {
        let (tell, hear) = std::sync::mpsc::channel::<()>();
        let hear = std::sync::Mutex::new(hear);
        let (comes, came) = std::sync::mpsc::channel();
        let text = move || {
            let _ = comes.send(());
            let _ = hear.lock().map(|hear| hear.recv());
            String::new()
        };
        let metrics = Metrics::serve("127.0.0.1:0", text).unwrap();
        let mut client = TcpStream::connect(metrics.address()).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        came.recv().unwrap();
        // It would wait for ever if it waited for the page.
        drop(metrics);
        drop(tell);
    }

    #[test]
    fn what_is_no_address_is_said() {
        for wrong in ["9475", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x"] {
            let Err(error) = Metrics::serve(wrong, String::new) else { panic!("{wrong}") };
            assert!(error.to_string().starts_with(&format!("--metrics {wrong}: ")), "{error}");
        }
    }
}

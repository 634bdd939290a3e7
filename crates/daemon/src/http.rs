//! One page over HTTP: what a collector of metrics asks for, and no more.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Error;

/// Content type of OpenMetrics text.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Longest head of a request that is read.
const MOST_HEAD: usize = 8 << 10;
/// A client that says or takes nothing for so long is left alone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves `/metrics` until it is dropped.
pub struct Metrics {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Listens at `HOST:PORT`; asks `text` for each page.
    ///
    /// # Errors
    /// The address is none, or is taken.
    pub fn serve(
        address: &str,
        text: impl Fn() -> String + Send + 'static,
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
        let stopping = Arc::new(AtomicBool::new(false));
        let told = stopping.clone();
        let body = move || {
            for client in listener.incoming() {
                if told.load(Ordering::Acquire) {
                    return;
                }
                // One client at a time is enough; one that goes away is nobody's loss.
                let _ = client.and_then(|client| answer(client, &text));
            }
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(body)
            .map_err(|e| Error::Run(format!("thread of metrics: {e}")))?;
        Ok(Metrics { address, stopping, thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Whoever waits in `accept` hears of it by a client.
        let called = TcpStream::connect_timeout(&self.address, PATIENCE);
        if let (Ok(_), Some(thread)) = (called, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn answer(mut client: TcpStream, text: &impl Fn() -> String) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let (status, body) = match target(&mut client)? {
        Some(Target::Metrics) => ("200 OK", text()),
        Some(Target::Other) => ("404 Not Found", "only /metrics is here\n".to_owned()),
        None => ("400 Bad Request", "expected a GET request\n".to_owned()),
    };
    let kind = if status.starts_with("200") { CONTENT_TYPE } else { "text/plain" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

enum Target {
    Metrics,
    Other,
}

/// Reads the request of a client; returns none if it is malformed.
fn target(client: &mut TcpStream) -> io::Result<Option<Target>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
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
    fn what_is_no_address_is_said() {
        for wrong in ["9475", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x"] {
            let Err(error) = Metrics::serve(wrong, String::new) else { panic!("{wrong}") };
            assert!(error.to_string().starts_with(&format!("--metrics {wrong}: ")), "{error}");
        }
    }
}

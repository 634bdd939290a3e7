//! A client that never sleeps: it sends a request and spins for the answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Silence after which an answer of unknown length is taken for complete.
const SILENCE: Duration = Duration::from_millis(60);

/// Requests that are sent to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialogue {
    /// Sent once, before all else; its answer is read and forgotten. Empty for none.
    pub greeting: Vec<u8>,
    /// Sent to be measured. It must have no effects, and an answer of one length.
    pub request: Vec<u8>,
}

/// A connection to the server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// Answer of the server to the greeting.
    pub greeted: Vec<u8>,
    /// Bytes of an answer.
    pub answer_bytes: usize,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects, greets, and learns how long an answer is.
    ///
    /// # Errors
    /// What went wrong, in one line.
    pub fn connect(address: SocketAddr, dialogue: &Dialogue) -> Result<Client, String> {
        let why = |e: std::io::Error| format!("{address}: {e}");
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(why)?;
        stream.set_nodelay(true).map_err(why)?;
        stream.set_nonblocking(true).map_err(why)?;
        let request = dialogue.request.clone();
        let buffer = vec![0; 1 << 20];
        let (greeted, answer_bytes) = (Vec::new(), 0);
        let mut client = Client { stream, request, greeted, answer_bytes, buffer };
        if !dialogue.greeting.is_empty() {
            client.stream.write_all(&dialogue.greeting).map_err(why)?;
            client.greeted = client.until_silence().map_err(why)?;
        }
        client.stream.write_all(&dialogue.request).map_err(why)?;
        client.answer_bytes = client.until_silence().map_err(why)?.len();
        if client.answer_bytes == 0 {
            return Err(format!("{address}: no answer within {} s", PATIENCE.as_secs()));
        }
        // Answers of two lengths would be taken for each other.
        let first = client.answer_bytes;
        client.stream.write_all(&dialogue.request).map_err(why)?;
        let second = client.until_silence().map_err(why)?.len();
        if first != second {
            return Err(format!(
                "{address}: answers of {first} and {second} bytes: expected one length"
            ));
        }
        Ok(client)
    }

    fn until_silence(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let (begun, mut last) = (Instant::now(), Instant::now());
        while last.elapsed() < SILENCE || all.is_empty() && begun.elapsed() < PATIENCE {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    all.extend_from_slice(&self.buffer[..n]);
                    last = Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(all)
    }

    /// Sends the request and spins until all of the answer is there: how long that took, in
    /// microseconds.
    ///
    /// # Errors
    /// As the kernel says; a closed connection; no answer in time.
    pub fn ask(&mut self) -> Result<f64, String> {
        let begun = Instant::now();
        self.stream.write_all(&self.request).map_err(|e| e.to_string())?;
        let mut missing = self.answer_bytes;
        while missing > 0 {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(n) if n > missing => return Err("an answer longer than the first".to_owned()),
                Ok(n) => missing -= n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if begun.elapsed() > PATIENCE {
                        return Err(format!("no answer within {} s", PATIENCE.as_secs()));
                    }
                }
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(begun.elapsed().as_nanos() as f64 / 1e3)
    }
}

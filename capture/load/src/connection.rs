// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection with at most one request under way.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::protocol::{Progress, Protocol};
use crate::random::Random;

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Number of the request.
    pub id: u64,
    /// Due time, in ns of the engine's clock.
    pub due_ns: u64,
}

/// One connection to the server.
pub struct Connection {
    server: SocketAddr,
    stream: TcpStream,
    protocol: Box<dyn Protocol>,
    output: Vec<u8>,
    input: Vec<u8>,
    /// The request whose response is awaited.
    pub pending: Option<Pending>,
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, Duration::from_secs(10))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn wrong(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl Connection {
    /// Connects and greets.
    ///
    /// # Errors
    /// If the server cannot be reached or answers wrongly.
    pub fn open(server: SocketAddr, protocol: Box<dyn Protocol>) -> io::Result<Connection> {
        let stream = connect(server)?;
        let (output, input) = (Vec::new(), Vec::new());
        let mut new = Connection { server, stream, protocol, output, input, pending: None };
        if new.protocol.hello(&mut new.output) {
            new.flush()?;
            new.wait()?;
        }
        Ok(new)
    }

    /// Sends what the server is to hold before the measurement.
    ///
    /// # Errors
    /// If the server answers wrongly.
    pub fn fill(&mut self) -> io::Result<u64> {
        let mut n = 0;
        while self.protocol.fill(n, &mut self.output) {
            self.flush()?;
            self.wait()?;
            n += 1;
        }
        Ok(n)
    }

    /// Returns the socket of the connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Prepares a request; `flush` sends it.
    pub fn prepare(&mut self, pending: Pending, random: &mut Random) {
        self.protocol.request(random, &mut self.output);
        self.pending = Some(pending);
    }

    /// Sends what is prepared.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Waits for a whole response.
    fn wait(&mut self) -> io::Result<()> {
        while !self.receive()? {}
        Ok(())
    }

    /// Reads what is there; true if the response is complete now. The socket must be ready, or
    /// the call blocks.
    ///
    /// # Errors
    /// If the connection breaks or the response is wrong.
    pub fn receive(&mut self) -> io::Result<bool> {
        let filled = self.input.len();
        self.input.resize(filled + (64 << 10), 0);
        let count = self.stream.read(&mut self.input[filled..])?;
        self.input.truncate(filled + count);
        if count == 0 {
            return Err(wrong("the server closed the connection".to_owned()));
        }
        match self.protocol.response(&self.input).map_err(wrong)? {
            Progress::Partial => Ok(false),
            Progress::Complete(length) if length == self.input.len() => {
                self.input.clear();
                Ok(true)
            }
            Progress::Complete(_) => Err(wrong("bytes follow the answer".to_owned())),
        }
    }

    /// Opens a new connection if the protocol wants one for every request; true if it did.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn renew(&mut self) -> io::Result<bool> {
        if !self.protocol.closes() {
            return Ok(false);
        }
        self.stream = connect(self.server)?;
        Ok(true)
    }
}

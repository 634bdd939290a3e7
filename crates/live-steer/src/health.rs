//! Whether a machine is well.

use std::fmt::Display;
use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::address::Address;
use super::budget;
use super::stream::Stream;

/// Reason why a health check failed.
#[derive(Debug)]
pub enum Unwell {
    /// The machine does not answer as it should; the reason in one line.
    Machine(String),
    /// No server listens there; the reason in one line.
    Refused(String),
    /// The check could not run, as this process has no more descriptors.
    Short(std::io::Error),
}

impl Unwell {
    /// An error of the system, at `what`.
    pub fn at(what: &dyn Display, error: std::io::Error) -> Unwell {
        if budget::is_ours(&error) {
            return Unwell::Short(error);
        }
        let why = format!("{what}: {error}");
        match error.kind() {
            ErrorKind::ConnectionRefused => Unwell::Refused(why),
            _ => Unwell::Machine(why),
        }
    }
}

impl From<String> for Unwell {
    fn from(why: String) -> Unwell {
        Unwell::Machine(why)
    }
}

impl Display for Unwell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unwell::Machine(why) | Unwell::Refused(why) => f.write_str(why),
            Unwell::Short(error) => error.fmt(f),
        }
    }
}

/// Connects, and asks for a path if there is one: whether it is well.
///
/// # Errors
/// Why not.
pub async fn probe(
    address: &Address,
    path: Option<&str>,
    patience: Duration,
) -> Result<(), Unwell> {
    tokio::time::timeout(patience, ask(address, path)).await.map_err(|_| {
        Unwell::Machine(format!("{address}: no answer in {} ms", patience.as_millis()))
    })?
}

async fn ask(address: &Address, path: Option<&str>) -> Result<(), Unwell> {
    let said = |e: std::io::Error| Unwell::at(address, e);
    let mut stream = Stream::connect(address).await.map_err(said)?;
    let Some(path) = path else { return Ok(()) };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: halfwink\r\nConnection: close\r\n\r\n",
        match address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        }
    );
    stream.write_all(request.as_bytes()).await.map_err(said)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.map_err(said)?;
    match status(&head) {
        Some(code) if (200..400).contains(&code) => Ok(()),
        Some(code) => Err(Unwell::Machine(format!("{address}: status {code}"))),
        None => Err(Unwell::Machine(format!("{address}: no HTTP"))),
    }
}

/// The code of a status line's first twelve bytes.
fn status(head: &[u8; 12]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let digits = std::str::from_utf8(&rest[2..]).ok()?;
    (rest[1] == b' ').then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines() {
        assert_eq!(status(b"HTTP/1.1 204"), Some(204));
        assert_eq!(status(b"HTTP/1.0 500"), Some(500));
        for bad in [b"HTTP/2.0 200", b"HTTP/1.1 2x0", b"SSH-2.0-Open"] {
            assert_eq!(status(bad), None);
        }
    }
}

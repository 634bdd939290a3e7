//! Whether a machine is well.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::config::Address;
use super::stream::Stream;

/// Connects, and asks for a path if there is one: whether it is well.
///
/// # Errors
/// Why not, in one line.
pub async fn probe(
    address: &Address,
    path: Option<&str>,
    patience: Duration,
) -> Result<(), String> {
    tokio::time::timeout(patience, ask(address, path))
        .await
        .map_err(|_| format!("{address}: no answer in {} ms", patience.as_millis()))?
}

async fn ask(address: &Address, path: Option<&str>) -> Result<(), String> {
    let said = |e: std::io::Error| format!("{address}: {e}");
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
        Some(code) => Err(format!("{address}: status {code}")),
        None => Err(format!("{address}: no HTTP")),
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

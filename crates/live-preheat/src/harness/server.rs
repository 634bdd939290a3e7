//! Finding the thread in the server that answers.

use std::fs;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::harness::Subject;
use crate::shared::{Shared, Slot};

/// Threads of a process.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let listed = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the process that answers a client; 0 if it is unknown.
pub(crate) fn answering(subject: &Subject, client: &Client) -> u32 {
    match subject.pid {
        0 => backend(&client.greeted).unwrap_or(0),
        pid => pid,
    }
}

/// The place of the thread in the process that answers.
pub(crate) fn slot_of(
    subject: &Subject,
    client: &Client,
    shared: Shared,
) -> Result<Option<&'static Slot>, String> {
    let pid = answering(subject, client);
    // The thread may be on its way still.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let found = shared.alive().find(|(_, p, tid)| (*p == pid || pid == 0) && *tid != 0);
        if let Some((slot, _, _)) = found {
            return Ok(Some(slot));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    match fs::metadata(format!("/proc/{pid}")) {
        Ok(_) => Err(format!("process {pid} has not loaded the preload library")),
        Err(_) => Err("no server process has loaded the preload library".to_owned()),
    }
}

/// The process that serves a connection to PostgreSQL, as `BackendKeyData` tells.
fn backend(greeted: &[u8]) -> Option<u32> {
    let mut rest = greeted;
    while let [kind, a, b, c, d, ..] = rest {
        let bytes = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let body = rest.get(5..bytes.checked_add(1)?)?;
        if *kind == b'K' && body.len() >= 4 {
            return Some(u32::from_be_bytes([body[0], body[1], body[2], body[3]]));
        }
        rest = rest.get(bytes + 1..)?;
    }
    None
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! What is said to a server, and how to tell that its answer is complete and right.

mod http;
mod memcached;
mod postgres;
mod redis;

pub use http::Http;
pub use memcached::Memcached;
pub use postgres::Postgres;
pub use redis::Redis;

use crate::random::Random;

/// Progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The response is incomplete.
    Partial,
    /// The response is complete and takes this many bytes.
    Complete(usize),
}

/// One connection's view of a protocol. One request is under way at a time.
pub trait Protocol {
    /// Appends the first message, if the server expects one before requests. Returns whether there
    /// is one.
    fn hello(&mut self, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends the `n`-th request that fills the server before the measurement; false if there is
    /// none.
    fn fill(&mut self, _n: u64, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends a request to `out`.
    fn request(&mut self, random: &mut Random, out: &mut Vec<u8>);

    /// Looks at what came so far in answer to the last request (or greeting, or filling).
    ///
    /// # Errors
    /// What is wrong with the answer.
    fn response(&mut self, input: &[u8]) -> Result<Progress, String>;

    /// Every request has a connection of its own.
    fn closes(&self) -> bool {
        false
    }
}

/// Position behind the first `\r\n`.
fn line_end(input: &[u8]) -> Option<usize> {
    input.windows(2).position(|w| w == b"\r\n").map(|i| i + 2)
}

/// Shows the start of an unexpected answer.
fn unexpected(input: &[u8]) -> String {
    let head = &input[..input.len().min(60)];
    format!("unexpected answer `{}`", String::from_utf8_lossy(head).escape_debug())
}

/// Size in bytes of the value stored under a key: a few hundred, differing from key to key.
fn value_size(key: u64) -> usize {
    64 + (Random::new(key).below(960)) as usize
}

/// The value stored under a key.
fn value(key: u64, out: &mut Vec<u8>) {
    let letter = b'a' + (key % 26) as u8;
    out.resize(out.len() + value_size(key), letter);
}

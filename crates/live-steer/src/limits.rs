//! Limits on clients and machines.

use serde::{Deserialize, Serialize};

use super::ranges::{within, Wrong, HOUR_MS};

/// Limits on clients and machines. Times are in milliseconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest number of client connections.
    pub connections: usize,
    /// Largest number of connections of one client: an IPv4 address, or a /64 network of IPv6.
    pub client_connections: usize,
    /// Memory for bodies before they are steered, and for answers that clients have not taken.
    pub memory_bytes: usize,
    /// Part of it that one client may have.
    pub client_memory_bytes: usize,
    /// Bytes of one answer that wait for the client, so that the machine is free for others.
    pub answer_bytes: usize,
    /// Rate below which a client is dropped, in bytes/s: for bodies that it sends, with a slack of
    /// `body_timeout_ms`, and for answers that it takes, with one of `response_timeout_ms`.
    pub client_bytes_per_s: u64,
    /// Time for which the requests of a client may keep machines waiting for it while others wait
    /// for those machines. A client that takes 1 MiB/s spends none of it.
    pub hold_ms: u64,
    /// Request line and header fields together.
    pub header_bytes: usize,
    /// Largest number of header fields.
    pub header_fields: usize,
    /// Longest request target.
    pub target_bytes: usize,
    /// Body of a request.
    pub body_bytes: u64,
    /// Bytes of a body that are read before the request is steered: a slow client holds no worker.
    pub buffer_bytes: usize,
    /// Timeout from the first byte of a header to its last.
    pub header_timeout_ms: u64,
    /// A connection without requests.
    pub idle_timeout_ms: u64,
    /// Slack of a client that sends a body.
    pub body_timeout_ms: u64,
    /// Between two pieces of a response, from a machine that is awake; and the slack of a client
    /// that takes an answer.
    pub response_timeout_ms: u64,
    /// Timeout of a connection to a machine.
    pub connect_timeout_ms: u64,
    /// Timeout in a queue.
    pub queue_timeout_ms: u64,
    /// Further attempts of one request.
    pub retries: u32,
    /// Idle connections kept to each machine, by each thread.
    pub pool: usize,
    /// Streams of one HTTP/2 connection.
    pub streams: u32,
    /// At the end, for requests under way.
    pub drain_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            client_connections: 1000,
            memory_bytes: 256 << 20,
            client_memory_bytes: 32 << 20,
            answer_bytes: 8 << 20,
            client_bytes_per_s: 1024,
            hold_ms: 500,
            header_bytes: 32 << 10,
            header_fields: 100,
            target_bytes: 8 << 10,
            body_bytes: 1 << 30,
            buffer_bytes: 64 << 10,
            header_timeout_ms: 10_000,
            idle_timeout_ms: 60_000,
            body_timeout_ms: 10_000,
            response_timeout_ms: 30_000,
            connect_timeout_ms: 1_000,
            queue_timeout_ms: 30_000,
            retries: 2,
            pool: 64,
            streams: 128,
            drain_ms: 10_000,
        }
    }
}

impl Limits {
    /// Checks that each limit is within its range.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        within("limits.connections", self.connections as u64, 1, 1 << 20)?;
        within("limits.client_connections", self.client_connections as u64, 1, 1 << 20)?;
        within("limits.memory_bytes", self.memory_bytes as u64, 1 << 20, 1 << 40)?;
        let (own, all) = (self.client_memory_bytes as u64, self.memory_bytes as u64);
        within("limits.client_memory_bytes", own, 64 << 10, all)?;
        within("limits.answer_bytes", self.answer_bytes as u64, 64 << 10, own)?;
        within("limits.client_bytes_per_s", self.client_bytes_per_s, 0, 1 << 40)?;
        within("limits.hold_ms", self.hold_ms, 0, HOUR_MS)?;
        within("limits.header_bytes", self.header_bytes as u64, 256, 1 << 20)?;
        within("limits.header_fields", self.header_fields as u64, 1, MOST_FIELDS as u64)?;
        within("limits.target_bytes", self.target_bytes as u64, 16, self.header_bytes as u64)?;
        within("limits.buffer_bytes", self.buffer_bytes as u64, 0, 16 << 20)?;
        within("limits.retries", u64::from(self.retries), 0, 10)?;
        within("limits.pool", self.pool as u64, 0, 4096)?;
        within("limits.streams", u64::from(self.streams), 1, 10_000)?;
        for (key, value) in [
            ("limits.header_timeout_ms", self.header_timeout_ms),
            ("limits.idle_timeout_ms", self.idle_timeout_ms),
            ("limits.body_timeout_ms", self.body_timeout_ms),
            ("limits.response_timeout_ms", self.response_timeout_ms),
            ("limits.connect_timeout_ms", self.connect_timeout_ms),
            ("limits.queue_timeout_ms", self.queue_timeout_ms),
        ] {
            within(key, value, 1, 24 * HOUR_MS)?;
        }
        within("limits.drain_ms", self.drain_ms, 0, HOUR_MS)
    }
}

/// Header fields that a parser has room for.
pub(super) const MOST_FIELDS: usize = 128;

//! What a client gets before its answer: interim answers of its machine, and leave to send a body.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use super::body::Framing;
use super::config::Config;

/// A machine that has not said by then whether it wants a body may not know that it is to say so.
/// Clients wait for about as long (curl: one second).
const EXPECTED: Duration = Duration::from_secs(1);

/// State of interim answers to a client.
pub struct Interim {
    /// Whether they get a `Via` field.
    pub via: bool,
    /// Whether the client understands interim answers: it speaks HTTP/1.1 or later.
    wanted: bool,
    /// Whether it has received 100 (Continue).
    told: bool,
    /// Whether it waits for the machine's decision on the body.
    asks: bool,
    /// Deadline after which the proxy sends 100 itself, since the machine does not answer: it may
    /// wait for the body.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Interim {
    /// Creates the state for a client: `wanted` if it understands interim answers, `expects` if it
    /// waits for permission, `asks` if the machine decides on that; otherwise the proxy does.
    pub fn new(config: &Config, wanted: bool, expects: bool, asks: bool) -> Interim {
        let via = config.headers.via;
        Interim { via, wanted, told: expects && !asks, asks, patience: None }
    }

    /// Records an interim answer of the machine, and returns whether it is passed to the client. A
    /// second 100 is not passed.
    pub fn is_for_client(&mut self, status: u16) -> bool {
        let passes = self.wanted && (status != 100 || !self.told);
        if status == 100 {
            (self.told, self.asks) = (true, false);
        }
        passes
    }

    /// Returns whether the proxy has to send 100 to the client now.
    #[inline]
    pub fn poll_go_on(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.asks {
            return false;
        }
        // From when the machine can know of it.
        let patience = &mut self.patience;
        let patience = patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(EXPECTED)));
        let over = matches!(patience.as_mut().poll(cx), Poll::Ready(()));
        if over {
            (self.told, self.asks) = (true, false);
        }
        over
    }
}

/// Returns whether the machine is asked for permission to send a body, which it may reject unseen.
/// A body that is buffered here as a whole is requested by the proxy, so that no worker waits for
/// it.
pub fn asks(framing: Framing, config: &Config) -> bool {
    match framing {
        Framing::Length(length) => length > config.limits.buffer_bytes as u64,
        Framing::Chunked => true,
        Framing::None | Framing::Close => false,
    }
}

/// Puts the question at the end of a request's head.
pub fn ask(head: &mut Vec<u8>) {
    head.truncate(head.len() - 2);
    head.extend_from_slice(b"Expect: 100-continue\r\n\r\n");
}

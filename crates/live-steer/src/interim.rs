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

/// What a client gets before its answer.
pub struct Interim {
    /// They are marked.
    pub via: bool,
    /// It knows of interim answers: it speaks HTTP/1.1 or later.
    wanted: bool,
    /// It has been told to go on.
    told: bool,
    /// It waits for the machine to say whether it wants the body.
    asks: bool,
    /// When the proxy tells it to go on, since the machine says nothing: it may wait for the body.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Interim {
    /// For a client that knows of them or not, that waits for leave or not (`expects`), and whose
    /// machine is asked for it or not (`asks`): if not, the proxy gives it.
    pub fn new(config: &Config, wanted: bool, expects: bool, asks: bool) -> Interim {
        let via = config.headers.via;
        Interim { via, wanted, told: expects && !asks, asks, patience: None }
    }

    /// The machine says this: whether the client hears it. Whoever has been told to go on is not
    /// told again.
    pub fn is_for_client(&mut self, status: u16) -> bool {
        let passes = self.wanted && (status != 100 || !self.told);
        if status == 100 {
            (self.told, self.asks) = (true, false);
        }
        passes
    }

    /// Whether the proxy is to tell the client now to go on.
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

/// Of a client that waits for leave to send a body: whether its machine is asked, which may refuse
/// the body unseen. One that is held here as a whole is asked for here, so that no worker waits
/// for it.
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

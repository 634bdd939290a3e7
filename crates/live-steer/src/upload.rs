//! The body of a request of HTTP/2 on its way to a machine.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::RecvStream;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::body::{Encoder, Framing};
use super::config::{ms, Config};
use super::exchange::{Failure, Source};
use super::head::Given;
use super::interim::Interim;
use super::memory::Hold;
use super::pace::{Debt, Pace};
use super::pipe::{Broken, READ};
use super::shared::{Outcome, Shared};
use super::stream::Conn;

/// Sender of the answer to a request.
pub type Respond = Arc<Mutex<SendResponse<Bytes>>>;

/// Locks the sender of an answer.
pub fn lock(respond: &Respond) -> MutexGuard<'_, SendResponse<Bytes>> {
    respond.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Field that names the proxy.
pub const VIA: HeaderValue = HeaderValue::from_static("1.1 halfwink");

/// Returns the failure of a request that is not as it must be, or beyond a limit.
#[must_use]
pub const fn refused(status: u16) -> Failure {
    Failure { status, outcome: Outcome::Refused }
}

/// Adds a field; one that HTTP/2 does not have is left out.
pub fn put(headers: &mut HeaderMap, name: &str, value: &[u8]) {
    let name = HeaderName::from_bytes(name.as_bytes());
    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
        headers.append(name, value);
    }
}

/// The body of a request, and what its client gets meanwhile.
pub struct Up {
    body: RecvStream,
    encoder: Encoder,
    /// All of it has been taken.
    pub done: bool,
    /// Bytes that have been taken.
    pub total: u64,
    most: u64,
    interim: Interim,
    /// The one that is being read, if it is passed on.
    early: Option<Response<()>>,
    respond: Respond,
}

impl Up {
    /// Creates the source of a body.
    pub fn new(
        body: RecvStream,
        framing: Framing,
        config: &Config,
        interim: Interim,
        respond: Respond,
    ) -> Up {
        let most = config.limits.body_bytes;
        let done = framing == Framing::None;
        let encoder = Encoder::of(framing);
        Up { body, encoder, done, total: 0, most, interim, early: None, respond }
    }

    /// Tells a client that waits to send its body.
    pub fn go_on(&self) {
        let mut leave = Response::new(());
        *leave.status_mut() = StatusCode::CONTINUE;
        self.tell(leave);
    }

    /// An interim answer; who is not there any more does not miss it.
    fn tell(&self, early: Response<()>) {
        let _ = lock(&self.respond).send_informational(early);
    }

    /// Takes one piece of the body.
    fn poll_piece(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), Broken>> {
        match self.body.poll_data(cx) {
            Poll::Pending => Poll::Pending,
            // Trailers may be left out (RFC 9110, section 6.5.1).
            Poll::Ready(None) => {
                self.done = true;
                self.encoder.end(out);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(Broken::Read)),
            Poll::Ready(Some(Ok(data))) => {
                self.total += data.len() as u64;
                if self.total > self.most {
                    return Poll::Ready(Err(Broken::TooLong));
                }
                self.encoder.piece(&data, out);
                // It fails only where nothing more will come.
                let _ = self.body.flow_control().release_capacity(data.len());
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Reads as much as is buffered, before a machine is asked to serve it.
    ///
    /// # Errors
    /// If the body is too long or too slow, there is no memory for it, or the client has gone: the
    /// failure says what the client gets.
    pub async fn hold(
        &mut self,
        bytes: &mut Vec<u8>,
        shared: &Shared,
        config: &Config,
        (pace, hold): (&mut Pace, &mut Hold),
    ) -> Result<(), Failure> {
        let limits = &config.limits;
        let slack = ms(limits.body_timeout_ms);
        let most = bytes.len() + limits.buffer_bytes;
        let read = poll_fn(|cx| loop {
            if self.done || bytes.len() >= most {
                return Poll::Ready(Ok(()));
            }
            if !hold.ask(bytes.len() + READ) {
                shared.memory.refuse();
                return Poll::Ready(Err(Failure { status: 503, outcome: Outcome::Overloaded }));
            }
            match self.poll_piece(cx, bytes) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(Broken::TooLong)) => return Poll::Ready(Err(refused(413))),
                Poll::Ready(Err(_)) => {
                    let outcome = Outcome::ClientGone;
                    return Poll::Ready(Err(Failure { status: 400, outcome }));
                }
                Poll::Pending => {
                    let debt = Debt { slack, holds: None, moved: self.total };
                    let late = pace.poll(cx, shared, limits, debt);
                    return late.map(|_| Err(Failure { status: 408, outcome: Outcome::Slow }));
                }
            }
        })
        .await;
        pace.rest();
        hold.keep(bytes.len());
        read
    }
}

impl Source for Up {
    fn poll_upload(&mut self, cx: &mut Context<'_>, to: &mut Conn) -> Poll<Result<(), Broken>> {
        loop {
            if !to.output.is_empty() {
                match to.poll_drain(cx) {
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::Write)),
                    _ if !to.output.is_empty() => return Poll::Pending,
                    _ => {}
                }
            }
            if self.done {
                return Poll::Ready(Ok(()));
            }
            match self.poll_piece(cx, to.output.end()) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
        }
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn interim(&mut self, given: Given<'_>) {
        match (given, &mut self.early) {
            (Given::Status(code, _), _) => {
                let mut early = Response::new(());
                *early.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::CONTINUE);
                self.early = self.interim.is_for_client(code).then_some(early);
            }
            (Given::Field(name, value), Some(early)) => put(early.headers_mut(), name, value),
            (Given::Field(..), None) => {}
        }
    }

    fn interim_end(&mut self) {
        let Some(mut early) = self.early.take() else { return };
        if self.interim.via {
            early.headers_mut().append(http::header::VIA, VIA);
        }
        self.tell(early);
    }

    #[inline]
    fn poll_interim(&mut self, cx: &mut Context<'_>) {
        if self.interim.poll_go_on(cx) {
            self.go_on();
        }
    }
}

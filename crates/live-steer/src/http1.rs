//! HTTP/1.1 and 1.0 with a client: its requests one after the other.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::sync::futures::Notified;

use super::access::{Access, Entry};
use super::body::{Encoder, Framing};
use super::config::{ms, Config};
use super::exchange::{Answer, Lane, Sending, Source};
use super::head::{self, Client, Given, Refused};
use super::interim::{self, Interim};
use super::memory::{Account, Hold};
use super::pace::{self, Debt, Pace};
use super::pipe::{Broken, Pipe, READ};
use super::shared::Outcome;
use super::stream::Conn;
use super::watch::Watch;

/// Connection of a client.
pub struct Session<'a, 'b> {
    lane: &'a Lane,
    config: Arc<Config>,
    generation: u64,
    access: Option<Arc<Access>>,
    /// The request that is served, for the access log.
    entry: Entry,
    client: Client,
    conn: Conn,
    watch: Watch,
    pace: Pace,
    /// Memory of the body that waits for a machine, or of the answer that waits for the client.
    hold: Hold,
    stop: Pin<&'a mut Notified<'b>>,
    /// Once it drains: how many bytes of this connection had come then.
    sent: Option<u64>,
    /// The request as the machine gets it.
    bytes: Vec<u8>,
}

/// State after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another one may come.
    Stay,
    /// The connection is closed, once all is written.
    Close,
    /// The client is not there any more.
    Gone,
}

/// A body that comes by the client's connection, by which interim answers go.
struct Upload<'a> {
    conn: &'a mut Conn,
    pipe: &'a mut Pipe,
    interim: Interim,
    /// An interim answer that is not passed on is being read.
    mute: bool,
}

impl Source for Upload<'_> {
    fn poll_upload(&mut self, cx: &mut Context<'_>, to: &mut Conn) -> Poll<Result<(), Broken>> {
        self.pipe.poll(cx, self.conn, to, None)
    }

    fn is_done(&self) -> bool {
        self.pipe.is_done()
    }

    fn interim(&mut self, given: Given<'_>) {
        if let Given::Status(status, _) = given {
            self.mute = !self.interim.is_for_client(status);
        }
        if !self.mute {
            given.write(self.conn.output.end());
        }
    }

    fn interim_end(&mut self) {
        if !self.mute {
            let out = self.conn.output.end();
            out.extend_from_slice(if self.interim.via { VIA } else { b"" });
            out.extend_from_slice(b"\r\n");
        }
    }

    #[inline]
    fn poll_interim(&mut self, cx: &mut Context<'_>) {
        if self.interim.poll_go_on(cx) {
            self.conn.output.end().extend_from_slice(GO_ON);
        }
        if !self.conn.output.is_empty() {
            // A client that has gone is found out by its request, or by its answer.
            let _ = self.conn.poll_drain(cx);
        }
    }
}

const VIA: &[u8] = b"Via: 1.1 halfwink\r\n";
const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl<'a, 'b> Session<'a, 'b> {
    /// Creates a session of a connection, of which some bytes may have been read.
    pub fn new(
        lane: &'a Lane,
        config: Arc<Config>,
        conn: Conn,
        (client, account): (Client, &Arc<Account>),
        stop: Pin<&'a mut Notified<'b>>,
    ) -> Session<'a, 'b> {
        let watch = Watch::new(ms(config.limits.header_timeout_ms));
        let generation = lane.shared.generation();
        let (pace, hold) = (Pace::new(account), Hold::new(account));
        Session {
            lane,
            config,
            generation,
            access: lane.shared.access(),
            entry: Entry::default(),
            client,
            conn,
            watch,
            pace,
            hold,
            stop,
            sent: None,
            bytes: Vec::new(),
        }
    }

    /// Serves it to its end.
    pub async fn serve(mut self) {
        loop {
            self.bytes.clear();
            let Some(request) = self.read_head().await else { return };
            let head = self.conn.input.get();
            let head = request.as_ref().map_or(head, |request| &head[..request.taken]);
            self.entry = Entry::of_head(self.access.as_ref(), &self.client.address, head);
            let next = match request {
                Ok(request) => {
                    self.conn.input.take(request.taken);
                    self.request(&request).await
                }
                Err(refused) => {
                    let slow = refused.status == 408;
                    let outcome = if slow { Outcome::Slow } else { Outcome::Refused };
                    self.refuse(refused.status, outcome, true, false);
                    Next::Close
                }
            };
            let written = next != Next::Gone && self.flush().await;
            self.entry = Entry::default();
            if !written || next != Next::Stay {
                if written {
                    self.linger().await;
                }
                return;
            }
        }
    }

    /// A request, or what is wrong with it; none if there is no further one.
    async fn read_head(&mut self) -> Option<Result<head::Request, Refused>> {
        let shared = &self.lane.shared;
        if self.generation != shared.generation() {
            self.generation = shared.generation();
            self.config = shared.config();
            self.access = shared.access();
            self.client.headers = self.config.headers.clone();
        }
        let limits = &self.config.limits;
        let idle = self.conn.input.is_empty();
        self.watch.set(ms(if idle { limits.idle_timeout_ms } else { limits.header_timeout_ms }));
        let (conn, watch, stop) = (&mut self.conn, &mut self.watch, &mut self.stop);
        let (client, bytes, sent) = (&self.client, &mut self.bytes, &mut self.sent);
        // Looked at first, and then only when another line has come.
        let mut seen = 0;
        let found = poll_fn(|cx| loop {
            let fresh = conn.input.get().get(seen..).unwrap_or_default();
            let worth = seen == 0 || memchr::memchr(b'\n', fresh).is_some();
            if !fresh.is_empty() && (worth || conn.input.len() > limits.target_bytes) {
                seen = conn.input.len();
                bytes.clear();
                match head::request(conn.input.get(), limits, client, bytes) {
                    Ok(None) => {}
                    Ok(Some(request)) => return Poll::Ready(Some(Ok(request))),
                    Err(refused) => return Poll::Ready(Some(Err(refused))),
                }
            }
            let empty = conn.input.is_empty();
            match conn.poll_fill(cx, READ) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    if empty {
                        watch.set(ms(limits.header_timeout_ms));
                    }
                    continue;
                }
                Poll::Ready(_) if empty => return Poll::Ready(None),
                Poll::Ready(_) => {
                    return Poll::Ready(Some(Err(Refused { status: 400, why: "cut off" })));
                }
                Poll::Pending => {}
            }
            let stopping = shared.is_stopping() || stop.as_mut().poll(cx).is_ready();
            let over = stopping && !is_owed(conn, sent);
            if empty && (over || watch.poll(cx).is_ready()) {
                return Poll::Ready(None);
            }
            if !empty && watch.poll(cx).is_ready() {
                return Poll::Ready(Some(Err(Refused { status: 408, why: "header" })));
            }
            return Poll::Pending;
        })
        .await;
        if found.is_some() {
            shared.count(Outcome::Received);
        }
        found
    }

    async fn request(&mut self, request: &head::Request) -> Next {
        let most = self.config.limits.body_bytes;
        let mut upload = Pipe::new(request.framing, Encoder::of(request.framing), most);
        // A client that did not wait needs no leave.
        let waits = request.expects && self.conn.input.is_empty();
        let asks = waits && interim::asks(request.framing, &self.config);
        if asks {
            interim::ask(&mut self.bytes);
        }
        if !asks && request.framing != Framing::None {
            if let Err(next) = self.read_body(&mut upload, request.expects).await {
                return next;
            }
        }
        let sending = Sending {
            bytes: &self.bytes,
            idempotent: request.idempotent,
            is_head: request.is_head,
        };
        let (lane, config) = (self.lane, self.config.clone());
        let interim = Interim::new(&config, request.is_1_1, request.expects, asks);
        let mut source = Upload { conn: &mut self.conn, pipe: &mut upload, interim, mute: false };
        // The head of the answer; it is the client's only once it has been understood.
        let mut out = Vec::with_capacity(512);
        let give = |part: Given<'_>| part.write(&mut out);
        let patience = (&mut self.watch, &mut self.pace);
        let entry = &mut self.entry;
        let asked = lane.exchange(&config, &sending, &mut source, patience, entry, give);
        let asked = lane.unless_given_up(self.stop.as_mut(), asked).await;
        self.pace.rest();
        // A machine has the body, or nobody wants it.
        self.bytes.clear();
        self.bytes.shrink_to(READ);
        self.hold.keep(0);
        match asked {
            Ok(answer) => {
                lane.shared.count_status(answer.head.status);
                self.entry.status(answer.head.status);
                self.answer(request, answer, &mut upload, &out).await
            }
            Err(failure) if failure.status == 0 => {
                lane.shared.count(failure.outcome);
                self.entry.end(failure.outcome.name(), 0);
                Next::Gone
            }
            Err(failure) => {
                let about_machines = failure.status >= 500;
                let stays = request.keep_alive && upload.is_done() && about_machines;
                let stays = stays && request.is_1_1 && self.goes_on();
                self.refuse(failure.status, failure.outcome, !stays, request.is_head);
                if stays {
                    Next::Stay
                } else {
                    Next::Close
                }
            }
        }
    }

    /// Reads as much of a body as is buffered, before a machine is asked to serve it.
    async fn read_body(&mut self, upload: &mut Pipe, expects: bool) -> Result<(), Next> {
        let limits = &self.config.limits;
        let (conn, bytes) = (&mut self.conn, &mut self.bytes);
        let (pace, hold, shared) = (&mut self.pace, &mut self.hold, &self.lane.shared);
        let head = bytes.len();
        let slack = ms(limits.body_timeout_ms);
        let mut told = !expects;
        let done: Result<(), (u16, Outcome)> = poll_fn(|cx| loop {
            match upload.step(&mut conn.input, bytes) {
                Ok(()) => {}
                Err(Broken::TooLong) => return Poll::Ready(Err((413, Outcome::Refused))),
                Err(_) => return Poll::Ready(Err((400, Outcome::Refused))),
            }
            if upload.is_done() || bytes.len() - head >= limits.buffer_bytes {
                hold.keep(bytes.len());
                return Poll::Ready(Ok(()));
            }
            if !hold.ask(bytes.len() + READ) {
                shared.memory.refuse();
                return Poll::Ready(Err((503, Outcome::Overloaded)));
            }
            if !told {
                told = true;
                conn.output.end().extend_from_slice(GO_ON);
            }
            if !conn.output.is_empty() && matches!(conn.poll_drain(cx), Poll::Ready(Err(_))) {
                return Poll::Ready(Err((0, Outcome::ClientGone)));
            }
            match conn.poll_fill(cx, READ) {
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Err((0, Outcome::ClientGone))),
                Poll::Pending => {
                    let debt = Debt { slack, holds: None, moved: conn.read };
                    let late = pace.poll(cx, shared, limits, debt);
                    return late.map(|_| Err((408, Outcome::Slow)));
                }
            }
        })
        .await;
        pace.rest();
        if done.is_err() {
            hold.keep(0);
            *bytes = Vec::new();
        }
        done.map_err(|(status, outcome)| {
            if status == 0 {
                self.lane.shared.count(outcome);
                self.entry.end(outcome.name(), 0);
                return Next::Gone;
            }
            self.refuse(status, outcome, true, false);
            Next::Close
        })
    }

    /// Passes an answer on.
    async fn answer(
        &mut self,
        request: &head::Request,
        mut answer: Answer,
        upload: &mut Pipe,
        fields: &[u8],
    ) -> Next {
        let (lane, goes_on) = (self.lane, self.goes_on());
        let config = &*self.config;
        let shared = &lane.shared;
        let framing = answer.head.framing;
        let keeps = framing != Framing::Close && (framing != Framing::Chunked || request.is_1_1);
        // Without a length, the end is a chunk's, or the connection's.
        let chunked = request.is_1_1 && matches!(framing, Framing::Close | Framing::Chunked);
        let stays = request.keep_alive && (keeps || chunked) && goes_on;
        let stays = stays && upload.is_done();
        let out = self.conn.output.end();
        out.extend_from_slice(fields);
        if config.headers.via {
            out.extend_from_slice(VIA);
        }
        finish_head(out, framing, chunked, stays, request.is_1_1);
        let encoder = if chunked { Encoder::Chunked } else { Encoder::Plain };
        let mut download = Pipe::new(framing, encoder, u64::MAX);
        let patience = ms(config.limits.response_timeout_ms);
        let (conn, watch, side) = (&mut self.conn, &mut self.watch, answer.ticket.side);
        let (pace, hold) = (&mut self.pace, &mut self.hold);
        watch.set(patience);
        let mut moved = 0;
        let passed = poll_fn(|cx| {
            // What is left of the request; a machine that has answered may not want it.
            if !upload.is_done() {
                let _ = upload.poll(cx, conn, &mut answer.conn, None);
            }
            if let Poll::Ready(done) = download.poll(cx, &mut answer.conn, conn, Some(&mut *hold)) {
                return Poll::Ready(done.map_err(Some));
            }
            // The machine waits for the client to take bytes, or to send them.
            let asks = !upload.is_done() && answer.conn.output.is_empty();
            if download.blocked || asks || !conn.output.is_empty() {
                let holds = (download.blocked || asks).then_some(side);
                let debt = Debt { slack: pace::slack(&config.limits), holds, moved: conn.moved() };
                if pace.poll(cx, shared, &config.limits, debt).is_ready() {
                    return Poll::Ready(Err(None));
                }
            } else {
                pace.rest();
            }
            let now = conn.moved() + answer.conn.moved();
            if now != moved {
                moved = now;
                watch.set(patience);
            }
            lane.wait(cx, side, watch, patience).map(|()| Err(None))
        })
        .await;
        let outcome = match passed {
            Ok(()) => Outcome::Answered,
            Err(Some(Broken::Write)) => Outcome::ClientGone,
            Err(Some(_)) => Outcome::Truncated,
            Err(None) if self.conn.output.is_empty() => Outcome::GatewayTimeout,
            Err(None) => Outcome::Slow,
        };
        shared.count(outcome);
        self.entry.machine_done();
        self.entry.end(outcome.name(), download.total());
        let Answer { conn, ticket, head, generation } = answer;
        if outcome != Outcome::Answered {
            // What is on its way says a length, or chunks, that do not come: a client notices.
            ticket.finish(false);
            return Next::Gone;
        }
        ticket.finish(true);
        if head.keep_alive && upload.is_done() {
            lane.keep(side, conn, generation, config);
        }
        if stays {
            Next::Stay
        } else {
            Next::Close
        }
    }

    /// Returns whether a further request will be served. While draining, only a request that the
    /// client had sent before, behind the one that is answered (RFC 9112, section 9.3.2).
    fn goes_on(&mut self) -> bool {
        !self.lane.shared.is_stopping() || is_owed(&mut self.conn, &mut self.sent)
    }

    /// An answer of the proxy's own.
    fn refuse(&mut self, status: u16, outcome: Outcome, closes: bool, is_head: bool) {
        self.lane.shared.count(outcome);
        self.lane.shared.count_status(status);
        let bytes = own_answer(self.conn.output.end(), status, outcome.why(), closes, is_head);
        self.entry.status(status);
        self.entry.end(outcome.name(), bytes);
    }

    /// Writes all: whether it could.
    async fn flush(&mut self) -> bool {
        // Not only what waits here: TLS has a buffer of its own.
        let (limits, shared) = (&self.config.limits, &self.lane.shared);
        let (conn, pace, hold) = (&mut self.conn, &mut self.pace, &mut self.hold);
        let slack = pace::slack(limits);
        let written = poll_fn(|cx| loop {
            match conn.poll_drain(cx) {
                Poll::Ready(Ok(_)) if conn.output.is_empty() => return Poll::Ready(true),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => {
                    hold.keep(conn.output.len());
                    let debt = Debt { slack, holds: None, moved: conn.moved() };
                    return pace.poll(cx, shared, limits, debt).map(|_| false);
                }
            }
        })
        .await;
        pace.rest();
        hold.keep(0);
        written
    }

    /// A client that still sends would not see an answer if its connection were reset: what it
    /// sends is read and thrown away for a while.
    async fn linger(&mut self) {
        let conn = &mut self.conn;
        let _ = poll_fn(|cx| Pin::new(&mut conn.io).poll_shutdown(cx)).await;
        self.watch.set(LINGER);
        let mut left = 1 << 20;
        poll_fn(|cx| loop {
            conn.input.clear();
            match conn.poll_fill(cx, READ) {
                Poll::Ready(Ok(count)) if count > 0 && left > count => left -= count,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.watch.poll(cx),
            }
        })
        .await;
    }
}

/// Returns whether a draining proxy still has to read a request on this connection: one whose bytes
/// began to arrive before. A client that keeps sending does not delay the end.
fn is_owed(conn: &mut Conn, sent: &mut Option<u64>) -> bool {
    let unread = conn.io.unread();
    let here = conn.read - conn.input.len() as u64;
    let before = *sent.get_or_insert(conn.read + unread as u64);
    here < before && (unread > 0 || !conn.input.is_empty())
}

const LINGER: Duration = Duration::from_millis(500);

/// The last lines of a head.
fn finish_head(out: &mut Vec<u8>, framing: Framing, chunked: bool, stays: bool, is_1_1: bool) {
    if let Framing::Length(length) = framing {
        out.extend_from_slice(b"Content-Length: ");
        out.extend_from_slice(length.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    match (stays, is_1_1) {
        (true, true) => {}
        (true, false) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes an answer of the proxy's own; returns the bytes of its body.
pub fn own_answer(out: &mut Vec<u8>, status: u16, why: &str, closes: bool, is_head: bool) -> u64 {
    let reason = http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason());
    let reason = reason.unwrap_or("Error");
    let retry = if status == 503 { "Retry-After: 1\r\n" } else { "" };
    let close = match (status, closes) {
        // It names what is spoken here (RFC 9110, section 15.5.22).
        (426, _) => "Upgrade: HTTP/1.1\r\nConnection: Upgrade, close\r\n",
        (_, true) => "Connection: close\r\n",
        (_, false) => "",
    };
    let between = if why.is_empty() { "" } else { ": " };
    let length = reason.len() + between.len() + why.len() + 1;
    out.extend_from_slice(
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
             {retry}{close}\r\n"
        )
        .as_bytes(),
    );
    if is_head {
        return 0;
    }
    [reason, between, why, "\n"].iter().for_each(|p| out.extend_from_slice(p.as_bytes()));
    length as u64
}

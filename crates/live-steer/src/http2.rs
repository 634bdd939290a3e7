//! HTTP/2 with a client, by h2; machines are spoken to in HTTP/1.1.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use tokio::sync::futures::Notified;

use super::body::{Encoder, Framing};
use super::config::{ms, Config, Limits};
use super::dispatch::Ticket;
use super::exchange::{Answer, Failure, Lane, Sending, Source};
use super::head::{self, Client, Given, Writer};
use super::http1::own_answer;
use super::interim::{self, Interim};
use super::pipe::{Broken, Pipe, READ};
use super::shared::{Outcome, Shared};
use super::stream::{Buffer, Conn, Stream};
use super::watch::Watch;

/// Bytes that a client may send, of one body and of all, before its window is extended.
const WINDOW: u32 = 1 << 20;
/// Bytes of one answer that may wait to be sent.
const WAITING: usize = 400 << 10;

/// Serves a connection to its end.
pub async fn serve(
    lane: Arc<Lane>,
    stream: Stream,
    client: Client,
    mut stop: Pin<&mut Notified<'_>>,
) {
    let config = lane.shared.config();
    let (limits, client) = (&config.limits, Arc::new(client));
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buffer_size(WAITING);
    let patience = ms(limits.header_timeout_ms);
    let shaken = tokio::time::timeout(patience, builder.handshake(stream)).await;
    let Ok(Ok(mut conn)) = shaken else { return };
    let mut draining = lane.shared.is_stopping();
    if draining {
        conn.graceful_shutdown();
    }
    let pings = conn.ping_pong();
    let mut quiet = pin!(until_silent(pings, limits));
    // Requests have come since it was last quiet.
    let mut busy = false;
    loop {
        tokio::select! {
            taken = conn.accept() => {
                // What a client does wrong ends its connection; its requests have been counted.
                let Some(Ok((request, respond))) = taken else { return };
                busy = true;
                tokio::spawn(answer(lane.clone(), client.clone(), request, respond));
            }
            () = stop.as_mut(), if !draining => {
                draining = true;
                conn.graceful_shutdown();
            }
            (alive, pings) = quiet.as_mut() => {
                if !alive || !(busy || conn.has_streams()) {
                    break;
                }
                busy = false;
                quiet.set(until_silent(pings, limits));
            }
        }
    }
    conn.abrupt_shutdown(Reason::NO_ERROR);
    let _ = tokio::time::timeout(patience, poll_fn(|cx| conn.poll_closed(cx))).await;
}

/// Waits as long as a connection may be idle: whether its client is still there.
async fn until_silent(pings: Option<PingPong>, limits: &Limits) -> (bool, Option<PingPong>) {
    tokio::time::sleep(ms(limits.idle_timeout_ms)).await;
    let Some(mut pings) = pings else { return (true, None) };
    let asked = pings.send_ping(Ping::opaque()).is_ok();
    let patience = ms(limits.header_timeout_ms);
    let pong = tokio::time::timeout(patience, poll_fn(|cx| pings.poll_pong(cx))).await;
    (asked && matches!(pong, Ok(Ok(_))), Some(pings))
}

/// Sender of the answer to a request.
type Respond = Arc<Mutex<SendResponse<Bytes>>>;

fn lock(respond: &Respond) -> MutexGuard<'_, SendResponse<Bytes>> {
    respond.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(
    lane: Arc<Lane>,
    client: Arc<Client>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) {
    let config = lane.shared.config();
    lane.shared.count(Outcome::Received);
    let respond = Arc::new(Mutex::new(respond));
    let stop = pin!(lane.shared.stop.notified());
    let passed = pass(&lane, &config, &client, request, &respond);
    let mut passed = pin!(lane.unless_given_up(stop, passed));
    // A client that wants no answer any more says so.
    let passed = poll_fn(|cx| match passed.as_mut().poll(cx) {
        Poll::Pending => lock(&respond).poll_reset(cx).map(|_| Err(GONE)),
        done => done,
    });
    match passed.await {
        Ok((response, mut live)) => {
            let outcome = live.send(response, &respond).await;
            live.end(outcome);
        }
        Err(failure) => {
            lane.shared.count(failure.outcome);
            if failure.status != 0 {
                lane.shared.count_status(failure.status);
                own(failure, &respond);
            }
        }
    }
}

const GONE: Failure = Failure { status: 0, outcome: Outcome::ClientGone };

const VIA: HeaderValue = HeaderValue::from_static("1.1 halfwink");

const fn refused(status: u16) -> Failure {
    Failure { status, outcome: Outcome::Refused }
}

async fn pass(
    lane: &Arc<Lane>,
    config: &Arc<Config>,
    client: &Client,
    request: Request<RecvStream>,
    respond: &Respond,
) -> Result<(Response<()>, Live), Failure> {
    let (parts, body) = request.into_parts();
    let framing = framing(&parts.headers, &body)?;
    if matches!(framing, Framing::Length(length) if length > config.limits.body_bytes) {
        return Err(refused(413));
    }
    let client = Client { headers: config.headers.clone(), ..client.clone() };
    let mut bytes = Vec::with_capacity(512);
    write_head(&parts, framing, &client, config, &mut bytes)?;
    let expects = expects(&parts.headers)? && framing != Framing::None;
    let asks = expects && interim::asks(framing, config);
    let interim = Interim::new(config, true, expects, asks);
    let mut source = Up::new(body, framing, config, interim, respond.clone());
    if asks {
        interim::ask(&mut bytes);
    } else {
        if expects {
            source.go_on();
        }
        source.hold(&mut bytes, config).await?;
    }
    let sending = Sending {
        bytes: &bytes,
        idempotent: head::is_idempotent(parts.method.as_str()),
        is_head: parts.method == http::Method::HEAD,
    };
    let mut watch = Watch::new(ms(config.limits.response_timeout_ms));
    let mut response = Response::new(());
    let give = |given: Given<'_>| match given {
        Given::Status(code, _) => {
            *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
        }
        Given::Field(name, value) => put(response.headers_mut(), name, value),
    };
    let answer = lane.exchange(config, &sending, &mut source, &mut watch, give).await?;
    if config.headers.via {
        response.headers_mut().append(http::header::VIA, VIA);
    }
    lane.shared.count_status(answer.head.status);
    let framing = answer.head.framing;
    if let Framing::Length(length) = framing {
        response.headers_mut().insert(http::header::CONTENT_LENGTH, length.into());
    }
    let Answer { conn, ticket, head, generation } = answer;
    let live = Live {
        lane: lane.clone(),
        config: config.clone(),
        conn,
        ticket,
        keep_alive: head.keep_alive,
        generation,
        source,
        pipe: Pipe::new(framing, Encoder::Plain, u64::MAX),
        watch,
    };
    Ok((response, live))
}

/// Returns the framing of a body. h2 checks that the body has its announced length.
fn framing(headers: &HeaderMap, body: &RecvStream) -> Result<Framing, Failure> {
    let mut lengths = headers.get_all(http::header::CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (_, Some(_)) => Err(refused(400)),
        _ if body.is_end_stream() => Ok(Framing::None),
        (None, None) => Ok(Framing::Chunked),
        (Some(length), None) => {
            head::length(length.as_bytes()).map(Framing::Length).ok_or_else(|| refused(400))
        }
    }
}

/// Returns whether a client waits for permission to send its body.
fn expects(headers: &HeaderMap) -> Result<bool, Failure> {
    let mut found = false;
    for value in headers.get_all(http::header::EXPECT) {
        if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
            return Err(refused(417));
        }
        found = true;
    }
    Ok(found)
}

fn put(headers: &mut HeaderMap, name: &str, value: &[u8]) {
    let name = HeaderName::from_bytes(name.as_bytes());
    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
        headers.append(name, value);
    }
}

fn write_head(
    parts: &http::request::Parts,
    framing: Framing,
    client: &Client,
    config: &Config,
    bytes: &mut Vec<u8>,
) -> Result<(), Failure> {
    let method = parts.method.as_str();
    if method == "CONNECT" || method == "TRACE" {
        return Err(refused(501));
    }
    let mut hosts = parts.headers.get_all(http::header::HOST).iter();
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let host = match (authority, hosts.next(), hosts.next()) {
        (Some(one), None, None) => one.as_bytes(),
        (Some(one), Some(other), None) if other.as_bytes() == one.as_bytes() => one.as_bytes(),
        (None, Some(one), None) => one.as_bytes(),
        _ => return Err(refused(400)),
    };
    let target = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    if target.len() > config.limits.target_bytes {
        return Err(refused(414));
    }
    if parts.headers.len() > config.limits.header_fields {
        return Err(refused(431));
    }
    let origin = target.starts_with('/') || (target == "*" && method == "OPTIONS");
    let plain = target.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    if !origin || !plain || !head::is_host(host) {
        return Err(refused(400));
    }
    let mut writer = Writer::begin(method, target.as_bytes(), host, client, bytes);
    // Pieces of one cookie field come apart in HTTP/2 (RFC 9113, section 8.2.3).
    let mut cookies: Vec<u8> = Vec::new();
    for (name, value) in &parts.headers {
        if name == http::header::COOKIE {
            let between: &[u8] = if cookies.is_empty() { b"" } else { b"; " };
            cookies.extend_from_slice(between);
            cookies.extend_from_slice(value.as_bytes());
        } else {
            writer.field(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if !cookies.is_empty() {
        writer.field(b"cookie", &cookies);
    }
    writer.end(framing, "2");
    Ok(())
}

/// The body of a request, and what its client gets meanwhile.
struct Up {
    body: RecvStream,
    encoder: Encoder,
    done: bool,
    total: u64,
    most: u64,
    interim: Interim,
    /// The one that is being read, if it is passed on.
    early: Option<Response<()>>,
    respond: Respond,
}

impl Up {
    fn new(
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
    fn go_on(&self) {
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
    async fn hold(&mut self, bytes: &mut Vec<u8>, config: &Config) -> Result<(), Failure> {
        let limits = &config.limits;
        let most = bytes.len() + limits.buffer_bytes;
        while !self.done && bytes.len() < most {
            let piece = poll_fn(|cx| self.poll_piece(cx, bytes));
            match tokio::time::timeout(ms(limits.body_timeout_ms), piece).await {
                Ok(Ok(())) => {}
                Ok(Err(Broken::TooLong)) => return Err(refused(413)),
                Ok(Err(_)) => return Err(Failure { status: 400, outcome: Outcome::ClientGone }),
                Err(_) => return Err(Failure { status: 408, outcome: Outcome::Slow }),
            }
        }
        Ok(())
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

/// An answer on its way.
struct Live {
    lane: Arc<Lane>,
    config: Arc<Config>,
    conn: Conn,
    ticket: Ticket,
    keep_alive: bool,
    generation: u64,
    source: Up,
    pipe: Pipe,
    watch: Watch,
}

/// An answer of the proxy's own; who is not there any more does not miss it.
fn own(failure: Failure, respond: &Respond) {
    let Failure { status, outcome } = failure;
    let mut text = Vec::new();
    own_answer(&mut text, status, outcome.why(), false, false);
    let at = memchr::memmem::find(&text, b"\r\n\r\n").map_or(0, |at| at + 4);
    let own = Bytes::from(text.split_off(at));
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    put(response.headers_mut(), "content-type", b"text/plain");
    response.headers_mut().insert(http::header::CONTENT_LENGTH, own.len().into());
    if status == 503 {
        put(response.headers_mut(), "retry-after", b"1");
    }
    if let Ok(mut body) = lock(respond).send_response(response, false) {
        let _ = body.send_data(own, true);
    }
}

impl Live {
    /// Sends the answer: what became of it.
    async fn send(&mut self, response: Response<()>, respond: &Respond) -> Outcome {
        let bodiless = self.pipe.is_done();
        let sent = lock(respond).send_response(response, bodiless);
        let Ok(mut to) = sent else { return Outcome::ClientGone };
        while !self.pipe.is_done() {
            let piece = poll_fn(|cx| self.poll_piece(cx, &mut to)).await;
            let sent = piece.map(|piece| to.send_data(piece, self.pipe.is_done()));
            match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Outcome::ClientGone,
                Err(outcome) => {
                    to.send_reset(Reason::INTERNAL_ERROR);
                    return outcome;
                }
            }
        }
        Outcome::Answered
    }

    /// Some of the body, once there is room for it.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut SendStream<Bytes>,
    ) -> Poll<Result<Bytes, Outcome>> {
        if to.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Outcome::ClientGone));
        }
        if !self.source.done {
            // A machine that has answered may not want the rest.
            let _ = self.source.poll_upload(cx, &mut self.conn);
        }
        to.reserve_capacity(1);
        while to.capacity() == 0 {
            match to.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {
                    self.watch.set(ms(self.config.limits.response_timeout_ms));
                }
                Poll::Ready(_) => return Poll::Ready(Err(Outcome::ClientGone)),
                // A client that takes nothing.
                Poll::Pending => return self.watch.poll(cx).map(|()| Err(Outcome::Slow)),
            }
        }
        let mut out = Vec::new();
        self.step(cx, &mut out).map_ok(|()| out.into())
    }

    fn end(self, outcome: Outcome) {
        let Live { lane, config, conn, ticket, keep_alive, generation, source, .. } = self;
        lane.shared.count(outcome);
        let (well, side) = (outcome == Outcome::Answered, ticket.side);
        ticket.finish(well);
        if well && keep_alive && source.done {
            lane.keep(side, conn, generation, &config);
        }
    }

    /// Some of the body, or its end.
    fn step(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), Outcome>> {
        let patience = ms(self.config.limits.response_timeout_ms);
        loop {
            if self.pipe.step(&mut self.conn.input, out).is_err() {
                return Poll::Ready(Err(Outcome::Truncated));
            }
            if self.pipe.is_done() || !out.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match self.conn.poll_fill(cx, READ) {
                Poll::Ready(Ok(count)) if count > 0 => self.watch.set(patience),
                Poll::Ready(_) if self.pipe.close(out).is_ok() => return Poll::Ready(Ok(())),
                Poll::Ready(_) => return Poll::Ready(Err(Outcome::Truncated)),
                Poll::Pending => {
                    let side = self.ticket.side;
                    return self
                        .lane
                        .wait(cx, side, &mut self.watch, patience)
                        .map(|()| Err(Outcome::GatewayTimeout));
                }
            }
        }
    }
}

/// First bytes of HTTP/2 in clear text with prior knowledge.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Reads as much as tells whether a client speaks HTTP/2 at once.
pub async fn begins(
    conn: &mut Conn,
    patience: std::time::Duration,
    shared: &Shared,
    mut stop: Pin<&mut Notified<'_>>,
) -> bool {
    let told = std::future::poll_fn(|cx| loop {
        let start = conn.input.get();
        let same = start.iter().zip(PREFACE).take_while(|(a, b)| a == b).count();
        if same == PREFACE.len() || same < start.len() {
            return Poll::Ready(same == PREFACE.len());
        }
        match conn.poll_fill(cx, READ) {
            Poll::Ready(Ok(count)) if count > 0 => continue,
            Poll::Ready(_) => return Poll::Ready(false),
            Poll::Pending => {}
        }
        let stopping = shared.is_stopping() || stop.as_mut().poll(cx).is_ready();
        if stopping && conn.input.is_empty() && conn.io.unread() == 0 {
            return Poll::Ready(false);
        }
        return Poll::Pending;
    });
    tokio::time::timeout(patience, told).await.unwrap_or(false)
}

/// The stream, from its start.
pub fn rewound(conn: Conn) -> Stream {
    let Conn { io, input, .. } = conn;
    if input.is_empty() {
        return io;
    }
    Stream::Read(Box::new(io), Buffer::of(input.get()))
}

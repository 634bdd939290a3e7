//! HTTP/2 with a client, by hyper; machines are spoken to in HTTP/1.1.

use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::futures::Notified;

use super::body::{Encoder, Framing};
use super::config::{ms, Config};
use super::dispatch::Ticket;
use super::exchange::{Answer, Failure, Lane, Sending, Source};
use super::head::{self, Client, Given, Writer};
use super::http1::own_answer;
use super::pipe::{Broken, Pipe, READ};
use super::shared::{Outcome, Shared};
use super::stream::{Buffer, Conn, Stream};
use super::watch::Watch;

/// Serves a connection to its end.
pub async fn serve(lane: Arc<Lane>, stream: Stream, client: Client, stop: Pin<&mut Notified<'_>>) {
    let config = lane.shared.config();
    let client = Arc::new(client);
    let service = service_fn(|request: Request<Incoming>| {
        let (lane, client) = (lane.clone(), client.clone());
        async move { Ok::<_, std::convert::Infallible>(answer(lane, client, request).await) }
    });
    let limits = &config.limits;
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(ms(limits.idle_timeout_ms))
        .keep_alive_timeout(ms(limits.header_timeout_ms));
    let mut conn = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopping = lane.shared.is_stopping();
    tokio::select! {
        // What a client does wrong ends its connection; its requests have been counted.
        _ = conn.as_mut(), if !stopping => return,
        () = stop => {}
    }
    conn.as_mut().graceful_shutdown();
    let _ = conn.await;
}

async fn answer(
    lane: Arc<Lane>,
    client: Arc<Client>,
    request: Request<Incoming>,
) -> Response<Down> {
    let config = lane.shared.config();
    lane.shared.count(Outcome::Received);
    let stop = pin!(lane.shared.stop.notified());
    let passed = pass(&lane, &config, &client, request);
    match lane.unless_given_up(stop, passed).await {
        Ok(response) => response,
        Err(failure) => {
            lane.shared.count(failure.outcome);
            lane.shared.count_status(failure.status);
            own(failure)
        }
    }
}

const fn refused(status: u16) -> Failure {
    Failure { status, outcome: Outcome::Refused }
}

async fn pass(
    lane: &Arc<Lane>,
    config: &Arc<Config>,
    client: &Client,
    request: Request<Incoming>,
) -> Result<Response<Down>, Failure> {
    let (parts, body) = request.into_parts();
    let framing = match body.size_hint().exact() {
        Some(0) if body.is_end_stream() => Framing::None,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    };
    if matches!(framing, Framing::Length(length) if length > config.limits.body_bytes) {
        return Err(refused(413));
    }
    let client = Client { headers: config.headers.clone(), ..client.clone() };
    let mut bytes = Vec::with_capacity(512);
    write_head(&parts, framing, &client, config, &mut bytes)?;
    let mut source = Up::new(body, framing, config);
    source.hold(&mut bytes, config).await?;
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
        response.headers_mut().append(http::header::VIA, HeaderValue::from_static("1.1 halfwink"));
    }
    lane.shared.count_status(answer.head.status);
    let framing = answer.head.framing;
    let length = match framing {
        Framing::Length(length) => Some(length),
        Framing::None => Some(0),
        Framing::Chunked | Framing::Close => None,
    };
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
    let mut body = Down { live: Some(Box::new(live)), own: Bytes::new(), length };
    if framing == Framing::None {
        body.end(Outcome::Answered);
    }
    Ok(response.map(|()| body))
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

/// The body of a request.
struct Up {
    body: Incoming,
    encoder: Encoder,
    done: bool,
    total: u64,
    most: u64,
}

impl Up {
    fn new(body: Incoming, framing: Framing, config: &Config) -> Up {
        let most = config.limits.body_bytes;
        let done = framing == Framing::None;
        Up { body, encoder: Encoder::of(framing), done, total: 0, most }
    }

    /// Takes one piece.
    fn poll_piece(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), Broken>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.done = true;
                self.encoder.end(out);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(Broken::Read)),
            Poll::Ready(Some(Ok(frame))) => {
                // Trailers may be left out (RFC 9110, section 6.5.1).
                if let Ok(data) = frame.into_data() {
                    self.total += data.len() as u64;
                    if self.total > self.most {
                        return Poll::Ready(Err(Broken::TooLong));
                    }
                    self.encoder.piece(&data, out);
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Reads as much as is held before anybody is asked to serve it.
    async fn hold(&mut self, bytes: &mut Vec<u8>, config: &Config) -> Result<(), Failure> {
        let limits = &config.limits;
        let most = bytes.len() + limits.buffer_bytes;
        while !self.done && bytes.len() < most {
            let piece = std::future::poll_fn(|cx| self.poll_piece(cx, bytes));
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

    fn interim(&mut self, _: Given<'_>) {}

    fn interim_end(&mut self) {}

    fn poll_interim(&mut self, _: &mut Context<'_>) {}
}

/// The body of a response.
pub struct Down {
    live: Option<Box<Live>>,
    own: Bytes,
    length: Option<u64>,
}

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

fn own(failure: Failure) -> Response<Down> {
    let Failure { status, outcome } = failure;
    let mut text = Vec::new();
    own_answer(&mut text, status, outcome.why(), false, false);
    let at = memchr::memmem::find(&text, b"\r\n\r\n").map_or(0, |at| at + 4);
    let own = Bytes::from(text.split_off(at));
    let mut response = Response::new(Down { live: None, length: Some(own.len() as u64), own });
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    put(response.headers_mut(), "content-type", b"text/plain");
    if status == 503 {
        put(response.headers_mut(), "retry-after", b"1");
    }
    response
}

impl Down {
    fn end(&mut self, outcome: Outcome) {
        let Some(live) = self.live.take() else { return };
        let Live { lane, config, conn, ticket, keep_alive, generation, source, .. } = *live;
        lane.shared.count(outcome);
        let (well, side) = (outcome == Outcome::Answered, ticket.side);
        ticket.finish(well);
        if well && keep_alive && source.done {
            lane.keep(side, conn, generation, &config);
        }
    }
}

impl Drop for Down {
    fn drop(&mut self) {
        // The client wants no more of it.
        self.end(Outcome::ClientGone);
    }
}

impl Body for Down {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if !self.own.is_empty() {
            let own = std::mem::take(&mut self.own);
            return Poll::Ready(Some(Ok(Frame::data(own))));
        }
        let Some(live) = &mut self.live else { return Poll::Ready(None) };
        if !live.source.done {
            // A machine that has answered may not want the rest.
            let _ = live.source.poll_upload(cx, &mut live.conn);
        }
        let mut out = Vec::new();
        let stepped = live.step(cx, &mut out);
        match stepped {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => {
                if self.live.as_ref().is_some_and(|live| live.pipe.is_done()) {
                    self.end(Outcome::Answered);
                }
                if out.is_empty() {
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Ok(Frame::data(out.into()))))
            }
            Poll::Ready(Err(outcome)) => {
                self.end(outcome);
                Poll::Ready(Some(Err(std::io::ErrorKind::UnexpectedEof.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.live.is_none() && self.own.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Live {
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

/// What HTTP/2 in clear text begins with, where the client knows already.
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

//! HTTP/2 with a client, by h2; machines are spoken to in HTTP/1.1.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::sync::futures::Notified;
use tokio::sync::Notify;

use super::access::Entry;
use super::body::Framing;
use super::config::{ms, Config};
use super::download::Live;
use super::exchange::{Failure, Lane, Sending};
use super::frames::Counted;
use super::head::{self, Client, Given, Writer};
use super::http1::own_answer;
use super::interim::{self, Interim};
use super::limits::Limits;
use super::memory::{Account, Cut, Hold};
use super::pace::Pace;
use super::pipe::READ;
use super::shared::{Outcome, Shared};
use super::stream::{Buffer, Conn, Stream};
use super::upload::{lock, put, refused, Respond, Up, VIA};
use super::watch::Watch;

/// Bytes that a client may send, of one body and of all, before its window is extended.
const WINDOW: u32 = 256 << 10;
/// Bytes of one answer that may wait to be sent.
const WAITING: usize = 400 << 10;

/// Serves a connection to its end.
pub async fn serve(
    lane: Arc<Lane>,
    stream: Stream,
    (client, account): (Client, &Arc<Account>),
    mut stop: Pin<&mut Notified<'_>>,
) {
    let config = lane.shared.config();
    let (limits, client) = (&config.limits, Arc::new(client));
    let cut = Arc::new(Notify::new());
    let from = From { client, account: account.clone(), cut: cut.clone() };
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buffer_size(WAITING);
    let patience = ms(limits.header_timeout_ms);
    let flood = Arc::new(Notify::new());
    let stream = Counted::new(stream, flood.clone());
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
    let reason = loop {
        tokio::select! {
            taken = conn.accept() => match taken {
                Some(Ok((request, respond))) => {
                    busy = true;
                    tokio::spawn(answer(lane.clone(), from.clone(), request, respond));
                }
                // What a client does wrong ends its connection; its requests have been counted.
                ended => {
                    if ended.is_some_and(|ended| ended.is_err_and(|e| is_flood(&e))) {
                        lane.shared.memory.cut(Cut::Flood);
                    }
                    return;
                }
            },
            () = flood.notified() => {
                lane.shared.memory.cut(Cut::Flood);
                break Reason::ENHANCE_YOUR_CALM;
            }
            // At once, and without a word that would wait for the client too.
            () = cut.notified() => return,
            () = stop.as_mut(), if !draining => {
                draining = true;
                conn.graceful_shutdown();
            }
            (alive, pings) = quiet.as_mut() => {
                if !alive || !(busy || conn.has_streams()) {
                    break Reason::NO_ERROR;
                }
                busy = false;
                quiet.set(until_silent(pings, limits));
            }
        }
    };
    // The GOAWAY frame still has to leave, but a client that takes nothing must not hold the
    // connection.
    conn.abrupt_shutdown(reason);
    let _ = tokio::time::timeout(patience, poll_fn(|cx| conn.poll_closed(cx))).await;
}

/// Returns whether h2 has ended a connection for a flood that it counts itself.
fn is_flood(error: &h2::Error) -> bool {
    error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM)
}

/// Client and connection of a request.
#[derive(Clone)]
struct From {
    client: Arc<Client>,
    account: Arc<Account>,
    /// Cuts the connection off, with all its requests.
    cut: Arc<Notify>,
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

async fn answer(
    lane: Arc<Lane>,
    from: From,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) {
    let config = lane.shared.config();
    lane.shared.count(Outcome::Received);
    let (parts, body) = request.into_parts();
    let mut entry = Entry::of_parts(lane.shared.access().as_ref(), &from.client.address, &parts);
    // Shared with the upload, which sends interim answers while this task looks for a reset.
    let respond = Arc::new(Mutex::new(respond));
    let stop = pin!(lane.shared.stop.notified());
    let passed = {
        let passed = pass(&lane, &config, &from, (parts, body), &respond, &mut entry);
        let mut passed = pin!(lane.unless_given_up(stop, passed));
        // A client that wants no answer any more says so.
        let passed = poll_fn(|cx| match passed.as_mut().poll(cx) {
            Poll::Pending => lock(&respond).poll_reset(cx).map(|_| Err(GONE)),
            done => done,
        });
        passed.await
    };
    match passed {
        Ok((response, mut live)) => {
            let outcome = live.send(response, &respond, &mut entry).await;
            entry.end(outcome.name(), live.end(outcome));
        }
        Err(failure) => {
            lane.shared.count(failure.outcome);
            let mut bytes = 0;
            if failure.status != 0 {
                lane.shared.count_status(failure.status);
                entry.status(failure.status);
                bytes = own(failure, &respond);
            }
            entry.end(failure.outcome.name(), bytes);
        }
    }
}

const GONE: Failure = Failure { status: 0, outcome: Outcome::ClientGone };

async fn pass(
    lane: &Arc<Lane>,
    config: &Arc<Config>,
    from: &From,
    (parts, body): (http::request::Parts, RecvStream),
    respond: &Respond,
    entry: &mut Entry,
) -> Result<(Response<()>, Live), Failure> {
    let framing = framing(&parts.headers, &body)?;
    if matches!(framing, Framing::Length(length) if length > config.limits.body_bytes) {
        return Err(refused(413));
    }
    let client = Client { headers: config.headers.clone(), ..(*from.client).clone() };
    let (mut pace, mut hold) = (Pace::new(&from.account), Hold::new(&from.account));
    let mut bytes = Vec::with_capacity(512);
    write_head(&parts, framing, &client, config, &mut bytes)?;
    let expects = expects(&parts.headers)? && framing != Framing::None;
    let asks = expects && interim::asks(framing, config);
    let interim = Interim::new(config, true, expects, asks);
    let mut source = Up::new(body, framing, config, interim, respond.clone());
    // A body about which the machine is asked is not read before it agrees; any other one is held
    // first, so that no worker waits for it.
    if asks {
        interim::ask(&mut bytes);
    } else {
        if expects {
            source.go_on();
        }
        source.hold(&mut bytes, &lane.shared, config, (&mut pace, &mut hold)).await?;
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
    let patience = (&mut watch, &mut pace);
    let answer = lane.exchange(config, &sending, &mut source, patience, entry, give).await;
    pace.rest();
    let answer = answer.inspect_err(|failure| {
        // It has kept a machine waiting for its body.
        if failure.outcome == Outcome::Slow {
            from.cut.notify_one();
        }
    })?;
    if config.headers.via {
        response.headers_mut().append(http::header::VIA, VIA);
    }
    lane.shared.count_status(answer.head.status);
    entry.status(answer.head.status);
    let framing = answer.head.framing;
    if let Framing::Length(length) = framing {
        response.headers_mut().insert(http::header::CONTENT_LENGTH, length.into());
    }
    let live = Live::new((lane, config), answer, source, (watch, pace), from.cut.clone());
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
    // Either names the host; if both do, they must be equal (RFC 9113, section 8.3.1).
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

/// Sends an answer of the proxy's own, if the client is still there; returns the bytes of its body.
fn own(failure: Failure, respond: &Respond) -> u64 {
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
    let length = own.len() as u64;
    let sent = lock(respond).send_response(response, false);
    sent.and_then(|mut body| body.send_data(own, true)).map_or(0, |()| length)
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
        // A request of HTTP/1 differs in its first bytes: it is decided then, and waits for no more
        // of them.
        if same == PREFACE.len() || same < start.len() {
            return Poll::Ready(same == PREFACE.len());
        }
        match conn.poll_fill(cx, READ) {
            Poll::Ready(Ok(count)) if count > 0 => continue,
            Poll::Ready(_) => return Poll::Ready(false),
            Poll::Pending => {}
        }
        let stopping = shared.is_stopping() || stop.as_mut().poll(cx).is_ready();
        // A drain does not wait for a client that has sent nothing.
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
    // h2 reads the preface itself, so that the bytes which told the protocol come once more.
    Stream::Read(Box::new(io), Buffer::of(input.get()))
}

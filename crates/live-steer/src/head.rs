//! Heads of HTTP/1.1 messages: parsed by `httparse`, then held to what RFC 9112 demands beyond it,
//! and written anew for the other side. Pure: bytes to bytes.

use std::mem::MaybeUninit;

use super::body::Framing;
use super::config::Headers;
use super::limits::{Limits, MOST_FIELDS};

/// Reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Status for the client.
    pub status: u16,
    /// Description of the error.
    pub why: &'static str,
}

const fn refuse<T>(status: u16, why: &'static str) -> Result<T, Refused> {
    Err(Refused { status, why })
}

/// Properties of a request whose head has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes that it took.
    pub taken: usize,
    /// Framing of its body.
    pub framing: Framing,
    /// The client speaks HTTP/1.1, not 1.0.
    pub is_1_1: bool,
    /// The connection may stay.
    pub keep_alive: bool,
    /// The client waits for 100 (Continue).
    pub expects: bool,
    /// Whether it may be sent twice.
    pub idempotent: bool,
    /// The response has no body.
    pub is_head: bool,
}

/// Description of a client for machines.
#[derive(Clone, Debug)]
pub struct Client {
    /// Address of the client.
    pub address: String,
    /// Scheme of the connection, `http` or `https`.
    pub scheme: &'static str,
    /// Header fields that machines get.
    pub headers: Headers,
}

/// Meaning of a field to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    EndToEnd,
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    Expect,
    Via,
    XForwardedFor,
    /// Fields `Forwarded`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    Forwarded,
    Upgrade,
    /// Belongs to one connection (RFC 9110, section 7.6.1).
    HopByHop,
}

#[inline]
fn field(name: &[u8]) -> Field {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    match name.len() {
        2 if is("te") => Field::HopByHop,
        3 if is("via") => Field::Via,
        4 if is("host") => Field::Host,
        6 if is("expect") => Field::Expect,
        7 if is("trailer") => Field::HopByHop,
        7 if is("upgrade") => Field::Upgrade,
        9 if is("forwarded") => Field::Forwarded,
        10 if is("connection") => Field::Connection,
        10 if is("keep-alive") => Field::HopByHop,
        14 if is("content-length") => Field::ContentLength,
        14 if is("http2-settings") => Field::HopByHop,
        15 if is("x-forwarded-for") => Field::XForwardedFor,
        16 if is("proxy-connection") => Field::HopByHop,
        16 if is("x-forwarded-host") => Field::Forwarded,
        17 if is("transfer-encoding") => Field::TransferEncoding,
        17 if is("x-forwarded-proto") => Field::Forwarded,
        18 if is("proxy-authenticate") => Field::HopByHop,
        19 if is("proxy-authorization") => Field::HopByHop,
        _ => Field::EndToEnd,
    }
}

/// Every line ends as it must; `httparse` takes a lone line feed too.
fn has_lone_line_feed(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).any(|at| at == 0 || head[at - 1] != b'\r')
}

/// A list of names or codings, without blanks and empty parts.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

fn has_token(value: &[u8], token: &str) -> bool {
    list(value).any(|part| part.eq_ignore_ascii_case(token.as_bytes()))
}

/// A length: digits and nothing else.
pub(super) fn length(value: &[u8]) -> Option<u64> {
    // `parse` alone would take a plus sign, too. Eighteen digits cannot overflow 64 bits.
    let digits = !value.is_empty() && value.len() < 19 && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// A host, with its port or without: what may stand in a URI and cannot break a line or a path.
#[must_use]
pub fn is_host(value: &[u8]) -> bool {
    let sound = |b: &u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:%".contains(b);
    // An address of IPv6 has colons of its own, and stands in brackets.
    let (name, port) = match value.strip_prefix(b"[") {
        Some(rest) => match rest.iter().position(|&b| b == b']') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => return false,
        },
        None => value.split_at(value.iter().position(|&b| b == b':').unwrap_or(value.len())),
    };
    let is_port = match port.strip_prefix(b":") {
        Some(digits) => digits.is_empty() || length(digits).is_some_and(|port| port <= 65_535),
        None => port.is_empty(),
    };
    value.len() <= 1024 && name.iter().all(sound) && is_port
}

/// Fields of a message about its connection and body.
#[derive(Clone, Copy, Debug, Default)]
struct Seen<'a> {
    hosts: usize,
    host: &'a [u8],
    lengths: usize,
    length: Option<u64>,
    codings: usize,
    chunked: usize,
    chunked_last: bool,
    close: bool,
    keep_alive: bool,
    /// The connection names further fields.
    nominates: bool,
    expects: bool,
    expects_more: bool,
    /// Protocols that the client asks for, but HTTP/2, and whether the connection says so.
    protocol: bool,
    upgrades: bool,
}

impl<'a> Seen<'a> {
    #[inline]
    fn note(&mut self, kind: Field, value: &'a [u8]) {
        match kind {
            Field::Host => {
                self.hosts += 1;
                self.host = value;
            }
            Field::ContentLength => {
                self.lengths += 1;
                self.length = length(value);
            }
            Field::TransferEncoding => {
                // An empty field is no coding, and no mistake of ours to be made.
                self.codings += usize::from(list(value).next().is_none());
                for coding in list(value) {
                    self.codings += 1;
                    self.chunked_last = coding.eq_ignore_ascii_case(b"chunked");
                    self.chunked += usize::from(self.chunked_last);
                }
            }
            Field::Connection => {
                for name in list(value) {
                    if name.eq_ignore_ascii_case(b"close") {
                        self.close = true;
                    } else if name.eq_ignore_ascii_case(b"keep-alive") {
                        self.keep_alive = true;
                    } else {
                        // Fields that it names end at the proxy (RFC 9110, section 7.6.1).
                        self.nominates = true;
                        self.upgrades |= name.eq_ignore_ascii_case(b"upgrade");
                    }
                }
            }
            Field::Upgrade => {
                self.protocol |= list(value).any(|name| !name.eq_ignore_ascii_case(b"h2c"));
            }
            Field::Expect if has_token(value, "100-continue") => self.expects = true,
            Field::Expect => self.expects_more = true,
            _ => {}
        }
    }

    fn request_framing(&self, is_1_1: bool) -> Result<Framing, Refused> {
        // A machine could follow the other field, or another coding, and take a part of the body
        // for the next request (RFC 9112, sections 6.1 and 6.3). A coding below `chunked` still has
        // an end and is merely unknown: 501.
        if self.codings > 0 {
            return match () {
                () if self.lengths > 0 => refuse(400, "both length and transfer coding"),
                () if !is_1_1 => refuse(400, "transfer coding in HTTP/1.0"),
                () if self.chunked == 1 && self.codings == 1 => Ok(Framing::Chunked),
                () if self.chunked == 1 && self.chunked_last => refuse(501, "transfer coding"),
                () => refuse(400, "transfer coding"),
            };
        }
        match (self.lengths, self.length) {
            (0, _) => Ok(Framing::None),
            (1, Some(length)) => Ok(Framing::Length(length)),
            _ => refuse(400, "content length"),
        }
    }
}

/// Reads a request's head; writes the one that a machine gets to the end of `out`. None if it is
/// not all there.
///
/// # Errors
/// The status that the client gets, and why.
pub fn request(
    input: &[u8],
    limits: &Limits,
    client: &Client,
    out: &mut Vec<u8>,
) -> Result<Option<Request>, Refused> {
    // A robust server ignores empty lines before a request (RFC 9112, section 2.2).
    let blank = input.chunks_exact(2).take(4).take_while(|two| two == b"\r\n").count() * 2;
    let input = &input[blank..];
    let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let read = match parsed.parse_with_uninit_headers(input, &mut fields) {
        Ok(httparse::Status::Complete(read)) => read,
        Ok(httparse::Status::Partial) => return part(input, limits).map(|()| None),
        Err(httparse::Error::TooManyHeaders) => return refuse(431, "too many fields"),
        Err(httparse::Error::Version) => return version(input),
        Err(_) => return part(input, limits).and(refuse(400, "syntax")), // Limits come first.
    };
    let (Some(method), Some(path)) = (parsed.method, parsed.path) else {
        return refuse(400, "syntax");
    };
    if path.len() > limits.target_bytes {
        return refuse(414, "target too long");
    }
    if read > limits.header_bytes {
        return refuse(431, "header too long");
    }
    if parsed.headers.len() > limits.header_fields {
        return refuse(431, "too many fields");
    }
    if has_lone_line_feed(&input[..read]) {
        return refuse(400, "lone line feed");
    }
    let is_1_1 = parsed.version == Some(1); // Older ones have no upgrade and no expectation.
    let mut seen = Seen::default();
    for header in parsed.headers.iter() {
        seen.note(field(header.name.as_bytes()), header.value);
    }
    let (target, host) = target(method, path, is_1_1, &seen)?;
    let framing = seen.request_framing(is_1_1)?;
    if seen.expects_more {
        return refuse(417, "expectation"); // RFC 9110, section 10.1.1, allows this.
    }
    if is_1_1 && seen.upgrades && seen.protocol {
        return refuse(426, "another protocol, which mode = \"tcp\" passes on");
    }
    if matches!(framing, Framing::Length(length) if length > limits.body_bytes) {
        return refuse(413, "body too long");
    }
    let mut writer = Writer::begin(method, target, host, client, out);
    let nominating = |name: &str| {
        let mut all = parsed.headers.iter();
        all.any(|h| field(h.name.as_bytes()) == Field::Connection && has_token(h.value, name))
    };
    for header in parsed.headers.iter() {
        if !(seen.nominates && nominating(header.name)) {
            writer.field(header.name.as_bytes(), header.value);
        }
    }
    writer.end(framing, if is_1_1 { "1.1" } else { "1.0" });
    Ok(Some(Request {
        taken: blank + read,
        framing,
        is_1_1,
        keep_alive: !seen.close && (is_1_1 || seen.keep_alive),
        expects: seen.expects && is_1_1,
        idempotent: is_idempotent(method),
        is_head: method == "HEAD",
    }))
}

/// Returns whether the method is idempotent (RFC 9110, section 9.2.2).
#[must_use]
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE")
}

/// A head that is not all there: whether it may still become one.
fn part(input: &[u8], limits: &Limits) -> Result<(), Refused> {
    let line = memchr::memchr(b'\n', input);
    if line.unwrap_or(input.len()) > limits.target_bytes + 64 {
        return refuse(414, "target too long");
    }
    if input.len() > limits.header_bytes {
        return refuse(431, "header too long");
    }
    Ok(())
}

fn version<T>(input: &[u8]) -> Result<T, Refused> {
    let line = input.split(|&b| b == b'\r' || b == b'\n').next().unwrap_or_default();
    let name = line.rsplit(|&b| b == b' ').next().unwrap_or_default();
    match name {
        [b'H', b'T', b'T', b'P', b'/', a, b'.', b]
            if a.is_ascii_digit() && b.is_ascii_digit() && name != b"HTTP/1.1" =>
        {
            refuse(505, "version")
        }
        _ => refuse(400, "syntax"),
    }
}

/// The target in origin form, and the host.
fn target<'a>(
    method: &str,
    path: &'a str,
    is_1_1: bool,
    seen: &Seen<'a>,
) -> Result<(&'a [u8], &'a [u8]), Refused> {
    if method == "CONNECT" || method == "TRACE" {
        return refuse(501, "method");
    }
    // RFC 9112, section 3.2, demands 400 for both.
    if seen.hosts > 1 || (is_1_1 && seen.hosts == 0) {
        return refuse(400, "host");
    }
    if !is_host(seen.host) {
        return refuse(400, "host");
    }
    if !path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        return refuse(400, "target");
    }
    // Only OPTIONS has the asterisk form (RFC 9112, section 3.2.4).
    if path.starts_with('/') || (path == "*" && method == "OPTIONS") {
        return Ok((path.as_bytes(), seen.host));
    }
    // The host of a target in absolute form replaces the field (RFC 9112, section 3.2.2).
    let lower = path.get(..8).map(str::to_ascii_lowercase).unwrap_or_default();
    let rest = match lower.as_str() {
        "https://" => &path[8..],
        _ if lower.starts_with("http://") => &path[7..],
        _ => return refuse(400, "target"),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if host.is_empty() || !is_host(host.as_bytes()) || path.starts_with('?') {
        return refuse(400, "target");
    }
    // RFC 9112, section 3.2.4, again.
    let whole: &[u8] = if method == "OPTIONS" { b"*" } else { b"/" };
    Ok((if path.is_empty() { whole } else { path.as_bytes() }, host.as_bytes()))
}

/// Writes the head that a machine gets.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    client: &'a Client,
    host: &'a [u8],
    via: Vec<u8>,
    before: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Writes the first two lines. All arguments must be free of line ends.
    pub fn begin(
        method: &str,
        target: &[u8],
        host: &'a [u8],
        client: &'a Client,
        out: &'a mut Vec<u8>,
    ) -> Writer<'a> {
        put(out, &[method.as_bytes(), b" ", target, b" HTTP/1.1\r\nHost: ", host, b"\r\n"]);
        Writer { out, client, host, via: Vec::new(), before: Vec::new() }
    }

    /// A field, if it is for the machine.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        let list = match field(name) {
            Field::EndToEnd => return put(self.out, &[name, b": ", value, b"\r\n"]),
            Field::Forwarded if self.client.headers.trust => {
                return put(self.out, &[name, b": ", value, b"\r\n"]);
            }
            Field::Via => &mut self.via,
            Field::XForwardedFor if self.client.headers.trust => &mut self.before,
            // `begin` has written the host, and `end` writes framing and forwarding anew. The rest
            // belongs to the client's connection, or is the word of a client that is not trusted.
            _ => return,
        };
        put(list, &[value, b", "]);
    }

    /// Writes the last lines.
    #[inline]
    pub fn end(self, framing: Framing, version: &str) {
        let Client { address, scheme, headers } = self.client;
        let (out, scheme) = (self.out, scheme.as_bytes());
        if headers.via || !self.via.is_empty() {
            put(out, &[b"Via: ", &self.via, version.as_bytes(), b" halfwink\r\n"]);
        }
        if headers.x_forwarded {
            put(out, &[b"X-Forwarded-For: ", &self.before, address.as_bytes(), b"\r\n"]);
            if !headers.trust {
                put(out, &[b"X-Forwarded-Proto: ", scheme, b"\r\n"]);
                put(out, &[b"X-Forwarded-Host: ", self.host, b"\r\n"]);
            }
        }
        if headers.forwarded && !headers.trust {
            // RFC 7239, section 6: an IPv6 address stands in brackets, and thus in quotes.
            let quote: &[u8] = if address.contains(':') { b"\"[" } else { b"" };
            let unquote: &[u8] = if address.contains(':') { b"]\"" } else { b"" };
            put(out, &[b"Forwarded: for=", quote, address.as_bytes(), unquote, b";proto=", scheme]);
            put(out, &[b";host=\"", self.host, b"\"\r\n"]);
        }
        match framing {
            Framing::Length(length) => {
                put(out, &[b"Content-Length: ", length.to_string().as_bytes(), b"\r\n"]);
            }
            Framing::Chunked => put(out, &[b"Transfer-Encoding: chunked\r\n"]),
            Framing::None | Framing::Close => {}
        }
        out.extend_from_slice(b"\r\n");
    }
}

#[inline]
fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Properties of a response whose head has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Bytes that it took.
    pub taken: usize,
    /// Status of the response.
    pub status: u16,
    /// Framing of its body.
    pub framing: Framing,
    /// The connection may stay.
    pub keep_alive: bool,
}

/// A machine's answer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage;

/// Reads a response's head, of an interim one too, and gives its end-to-end fields to `give`, after
/// its status and reason. None if it is not all there.
///
/// # Errors
/// It is none, or it could be read in two ways.
pub fn response(
    input: &[u8],
    is_head: bool,
    mut give: impl FnMut(Given<'_>),
) -> Result<Option<Response>, Garbage> {
    let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let mut parser = httparse::ParserConfig::default();
    // A proxy removes this space, but only from a response (RFC 9112, section 5.1).
    parser.allow_spaces_after_header_name_in_responses(true);
    let read = match parser.parse_response_with_uninit_headers(&mut parsed, input, &mut fields) {
        Ok(httparse::Status::Complete(read)) => read,
        Ok(httparse::Status::Partial) if input.len() <= MOST_RESPONSE_BYTES => return Ok(None),
        _ => return Err(Garbage),
    };
    let status = parsed.code.unwrap_or(0);
    if !(100..1000).contains(&status) || has_lone_line_feed(&input[..read]) {
        return Err(Garbage);
    }
    let mut seen = Seen::default();
    for header in parsed.headers.iter() {
        seen.note(field(header.name.as_bytes()), header.value);
    }
    let bodiless = is_head || status < 200 || status == 204 || status == 304;
    let framing = match (seen.codings, seen.lengths, seen.length) {
        // Such a response ends with its head, whatever its fields say (RFC 9112, section 6.3).
        _ if bodiless => Framing::None,
        (0, 0, _) => Framing::Close,
        (0, 1, Some(length)) => Framing::Length(length),
        (1, 0, _) if seen.chunked == 1 => Framing::Chunked,
        _ => return Err(Garbage),
    };
    let is_1_1 = parsed.version == Some(1);
    if framing == Framing::Chunked && !is_1_1 {
        return Err(Garbage);
    }
    let said = Response {
        taken: read,
        status,
        framing,
        keep_alive: !seen.close && (is_1_1 || seen.keep_alive) && framing != Framing::Close,
    };
    give(Given::Status(status, parsed.reason.unwrap_or("")));
    let nominating = |name: &str| {
        let mut all = parsed.headers.iter();
        all.any(|h| field(h.name.as_bytes()) == Field::Connection && has_token(h.value, name))
    };
    for header in parsed.headers.iter() {
        let kind = field(header.name.as_bytes());
        // Here the length is that of the content which GET would get (RFC 9110, section 8.6): it
        // frames nothing, and the client is to see it.
        let length_of_none = kind == Field::ContentLength
            && status >= 200
            && (is_head || status == 304)
            && seen.lengths == 1
            && seen.length.is_some();
        let ours = matches!(
            kind,
            Field::ContentLength
                | Field::TransferEncoding
                | Field::Connection
                | Field::Upgrade
                | Field::HopByHop
        );
        if length_of_none || !(ours || (seen.nominates && nominating(header.name))) {
            give(Given::Field(header.name, header.value));
        }
    }
    Ok(Some(said))
}

/// A part of a response's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// Status code and reason.
    Status(u16, &'a str),
    /// Name and value of a field.
    Field(&'a str, &'a [u8]),
}

/// A machine's header, at most.
const MOST_RESPONSE_BYTES: usize = 64 << 10;

impl Given<'_> {
    /// Writes it as HTTP/1.1.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Given::Status(code, reason) => {
                let digits = [100, 10, 1].map(|n| b'0' + (code / n % 10) as u8);
                put(out, &[b"HTTP/1.1 ", &digits, b" ", reason.as_bytes(), b"\r\n"]);
            }
            Given::Field(name, value) => put(out, &[name.as_bytes(), b": ", value, b"\r\n"]),
        }
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;

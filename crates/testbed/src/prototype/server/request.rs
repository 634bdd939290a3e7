//! What a client asks for: heads of HTTP/1.1 requests (RFC 9112), as far as the prototype goes.

use super::super::handlers::Workload;

/// Longest head of a request, in bytes.
pub const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;

/// Content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A workload on a file of this number.
    Work(Workload, usize),
    /// Checks whether the pool is alive.
    Health,
    /// Paths and bytes of all files.
    Index,
    /// Asks for the options of the pool.
    Info,
}

/// A head that is there as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Content of the request, or the status with which to reject it.
    pub ask: Result<Ask, u16>,
    /// Whether the answer has no body.
    pub head: bool,
    /// The connection may stay open.
    pub keep: bool,
    /// Bytes of the head.
    pub bytes: usize,
}

/// Result of parsing the bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The request is incomplete.
    Partial,
    /// The request is complete.
    Request(Request),
    /// The request is malformed: answer with this status and close, since the begin of the next
    /// request is unknown.
    Bad(u16),
}

/// Parses the head of a request.
#[must_use]
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) if used <= MOST_HEAD => used,
        Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD => return Parsed::Partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Parsed::Bad(431),
        Err(httparse::Error::Version) => return Parsed::Bad(505),
        Err(_) => return Parsed::Bad(400),
    };
    let named = |name: &'static str| {
        let headers = request.headers.iter();
        headers.filter(move |h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value)
    };
    // No workload takes a body: one that is announced is not waited for.
    let body = named("transfer-encoding").next().is_some()
        || named("content-length").any(|value| value != b"0");
    let is_1_1 = request.version == Some(1);
    let hosts = named("host").count();
    if body || hosts > 1 || (is_1_1 && hosts == 0) {
        return Parsed::Bad(400);
    }
    let says = |word: &str| {
        let tokens = named("connection").flat_map(|value| value.split(|&b| b == b','));
        tokens.map(<[u8]>::trim_ascii).any(|token| token.eq_ignore_ascii_case(word.as_bytes()))
    };
    let keep = if is_1_1 { !says("close") } else { says("keep-alive") };
    let (method, target) = (request.method.unwrap_or(""), request.path.unwrap_or(""));
    let head = method == "HEAD";
    let ask = if head || method == "GET" { asked(target) } else { Err(405) };
    Parsed::Request(Request { ask, head, keep, bytes: used })
}

fn asked(target: &str) -> Result<Ask, u16> {
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let Some(path) = path.strip_prefix('/') else { return Err(400) };
    match path.split_once('/') {
        None => match path {
            "health" => Ok(Ask::Health),
            "index" => Ok(Ask::Index),
            "info" => Ok(Ask::Info),
            _ => Err(404),
        },
        Some((workload, number)) => {
            let workload = workload.parse().map_err(|_| 404u16)?;
            // Digits alone: `parse` would take a sign.
            if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
                return Err(400);
            }
            number.parse().map(|number| Ask::Work(workload, number)).map_err(|_| 404)
        }
    }
}

/// Returns the reason phrase of a status.
#[must_use]
pub const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn get(path: &str) -> Parsed {
        parse(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
    }

    fn ask(parsed: Parsed) -> Result<Ask, u16> {
        match parsed {
            Parsed::Request(request) => request.ask,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn path_chooses_workload_or_is_refused() {
        assert_eq!(ask(get("/count/12")), Ok(Ask::Work(Workload::Count, 12)));
        assert_eq!(ask(get("/ksort/0?x=/1")), Ok(Ask::Work(Workload::Ksort, 0)));
        assert_eq!(ask(get("/health")), Ok(Ask::Health));
        for (path, status) in [
            ("/", 404),
            ("/sort/1", 404),
            ("/count", 404),
            ("/count/", 400),
            ("/count/+1", 400),
            ("/count/1/2", 400),
            ("/count/99999999999999999999999", 404),
            ("http://a/count/1", 400),
            ("*", 400),
        ] {
            assert_eq!(ask(get(path)), Err(status), "{path}");
        }
        assert_eq!(ask(parse(b"POST /count/1 HTTP/1.1\r\nHost: a\r\n\r\n")), Err(405));
    }

    #[test]
    fn request_head_decides_on_keeping_the_connection() {
        let request = |text: &str| match parse(text.as_bytes()) {
            Parsed::Request(request) => request,
            other => panic!("{text}: {other:?}"),
        };
        let two = "GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET";
        assert_eq!((request(two).keep, request(two).bytes), (true, two.len() - 3));
        assert!(!request("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n").keep);
        assert!(!request("GET / HTTP/1.0\r\n\r\n").keep);
        assert!(request("HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep);
        assert!(request("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").keep);
        assert_eq!(parse(b"GET /health HTTP/1.1\r\nHos"), Parsed::Partial);
        assert_eq!(parse(b""), Parsed::Partial);
    }

    #[test]
    fn malformed_request_is_refused_with_its_status() {
        for (text, status) in [
            ("GET /health HTTP/1.1\r\n\r\n", 400),
            ("GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 400),
            ("GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n", 400),
            ("GET /health HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("GET /health HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("GET /health HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("\u{1}\u{2}\u{3}\r\n\r\n", 400),
            ("GET /health\r\n\r\n", 400),
        ] {
            assert_eq!(parse(text.as_bytes()), Parsed::Bad(status), "{text:?}");
        }
        let long = format!("GET /health HTTP/1.1\r\nA: {}", "x".repeat(MOST_HEAD));
        assert_eq!(parse(long.as_bytes()), Parsed::Bad(431));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(parse(many.as_bytes()), Parsed::Bad(431));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_head_cut_short_is_partial(cut in 0..45usize) {
            let whole = b"GET /count/1 HTTP/1.1\r\nHost: a\r\nX: y, z\r\n\r\n";
            prop_assume!(cut < whole.len());
            prop_assert_eq!(parse(&whole[..cut]), Parsed::Partial);
        }
    }
}

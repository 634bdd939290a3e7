// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP/1.1 GET of files whose names tell their sizes: `/f/<size>`, or one of many of each size,
//! `/d/<size>/<number>`.

use super::{unexpected, Progress, Protocol};
use crate::random::Random;

/// Sizes of the files on the server: small pages to pictures.
pub const SIZES: [usize; 8] = [512, 1024, 2048, 4096, 6144, 8192, 16384, 32768];
/// Relative frequency of each file: small ones are requested more often.
const WEIGHTS: [u64; 8] = [16, 20, 20, 16, 12, 8, 5, 3];

/// Keep-alive, or a connection for each request.
#[derive(Clone, Debug)]
pub struct Http {
    keep_alive: bool,
    /// Files of each size, if there are many.
    files: Option<u64>,
    expected: usize,
}

impl Http {
    /// A client that keeps its connection or does not.
    pub fn new(keep_alive: bool, files: Option<u64>) -> Http {
        Http { keep_alive, files, expected: 0 }
    }
}

fn pick(random: &mut Random) -> usize {
    let mut ticket = random.below(WEIGHTS.iter().sum());
    for (size, weight) in SIZES.into_iter().zip(WEIGHTS) {
        if ticket < weight {
            return size;
        }
        ticket -= weight;
    }
    SIZES[0]
}

impl Protocol for Http {
    fn request(&mut self, random: &mut Random, out: &mut Vec<u8>) {
        self.expected = pick(random);
        let connection = if self.keep_alive { "keep-alive" } else { "close" };
        let path = match self.files {
            None => format!("/f/{}", self.expected),
            Some(files) => format!("/d/{}/{}", self.expected, random.below(files)),
        };
        let text = format!(
            "GET {path} HTTP/1.1\r\nHost: server\r\nUser-Agent: halfwink-load\r\nAccept: */*\r\n\
             Connection: {connection}\r\n\r\n"
        );
        out.extend_from_slice(text.as_bytes());
    }

    fn response(&mut self, input: &[u8]) -> Result<Progress, String> {
        let Some(head) = input.windows(4).position(|w| w == b"\r\n\r\n").map(|i| i + 4) else {
            return Ok(Progress::Partial);
        };
        if !input.starts_with(b"HTTP/1.1 200 ") {
            return Err(unexpected(input));
        }
        let length = content_length(&input[..head]).ok_or("no Content-Length in the answer")?;
        if length != self.expected {
            return Err(format!("a file of {length} bytes, expected {}", self.expected));
        }
        let whole = head + length;
        Ok(if input.len() < whole { Progress::Partial } else { Progress::Complete(whole) })
    }

    fn closes(&self) -> bool {
        !self.keep_alive
    }
}

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    head.split(|&b| b == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked(NAME.len())?;
        if !name.eq_ignore_ascii_case(NAME) {
            return None;
        }
        std::str::from_utf8(value).ok()?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_complete_partial_or_refused() {
        let mut http = Http { keep_alive: true, files: None, expected: 3 };
        let good = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 3\r\n\r\nabcHTTP";
        assert_eq!(http.response(good), Ok(Progress::Complete(good.len() - 4)));
        assert_eq!(http.response(&good[..20]), Ok(Progress::Partial));
        assert_eq!(http.response(&good[..good.len() - 5]), Ok(Progress::Partial));
        assert!(http.response(b"HTTP/1.1 404 Not Found\r\n\r\n").is_err());
        http.expected = 4;
        assert!(http.response(good).is_err());
    }

    #[test]
    fn requests_name_their_size() {
        let mut http = Http::new(false, None);
        let mut out = Vec::new();
        http.request(&mut Random::new(1), &mut out);
        let text = String::from_utf8(out).expect("HTTP is text");
        assert!(text.starts_with(&format!("GET /f/{} HTTP/1.1\r\n", http.expected)));
        assert!(text.contains("Connection: close\r\n") && text.ends_with("\r\n\r\n"));
        assert!(http.closes());
        let mut out = Vec::new();
        let mut many = Http::new(false, Some(1));
        many.request(&mut Random::new(1), &mut out);
        assert!(out.starts_with(format!("GET /d/{}/0 HTTP/1.1\r\n", many.expected).as_bytes()));
    }
}

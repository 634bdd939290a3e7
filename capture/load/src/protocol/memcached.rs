// SPDX-License-Identifier: GPL-2.0-or-later
//! memcached's text protocol: nine `get` to one `set`.

use super::{line_end, unexpected, value, value_size, Progress, Protocol};
use crate::random::Random;

/// State of one client.
#[derive(Clone, Debug)]
pub struct Memcached {
    keys: u64,
    /// The key asked for; none after a `set`.
    asked: Option<u64>,
}

impl Memcached {
    /// A client of a server with so many keys.
    pub fn new(keys: u64) -> Memcached {
        Memcached { keys, asked: None }
    }

    fn set(&mut self, key: u64, out: &mut Vec<u8>) {
        self.asked = None;
        out.extend_from_slice(format!("set key-{key:08} 0 0 {}\r\n", value_size(key)).as_bytes());
        value(key, out);
        out.extend_from_slice(b"\r\n");
    }
}

impl Protocol for Memcached {
    fn fill(&mut self, n: u64, out: &mut Vec<u8>) -> bool {
        if n < self.keys {
            self.set(n, out);
        }
        n < self.keys
    }

    fn request(&mut self, random: &mut Random, out: &mut Vec<u8>) {
        let key = random.below(self.keys);
        if random.below(10) == 0 {
            self.set(key, out);
        } else {
            self.asked = Some(key);
            out.extend_from_slice(format!("get key-{key:08}\r\n").as_bytes());
        }
    }

    fn response(&mut self, input: &[u8]) -> Result<Progress, String> {
        let Some(line) = line_end(input) else {
            return Ok(Progress::Partial);
        };
        let Some(key) = self.asked else {
            return match &input[..line] {
                b"STORED\r\n" => Ok(Progress::Complete(line)),
                _ => Err(unexpected(input)),
            };
        };
        let size = value_size(key);
        if input[..line] != *format!("VALUE key-{key:08} 0 {size}\r\n").as_bytes() {
            return Err(unexpected(input));
        }
        let whole = line + size + b"\r\nEND\r\n".len();
        match input.get(whole - 5..whole) {
            None => Ok(Progress::Partial),
            Some(b"END\r\n") => Ok(Progress::Complete(whole)),
            Some(_) => Err(unexpected(&input[line..])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_complete_partial_or_refused() {
        let mut client = Memcached { keys: 10, asked: None };
        assert_eq!(client.response(b"STORED\r\nrest"), Ok(Progress::Complete(8)));
        assert_eq!(client.response(b"STOR"), Ok(Progress::Partial));
        assert!(client.response(b"SERVER_ERROR out of memory\r\n").is_err());
        client.asked = Some(3);
        let mut answer = format!("VALUE key-00000003 0 {}\r\n", value_size(3)).into_bytes();
        value(3, &mut answer);
        assert_eq!(client.response(&answer), Ok(Progress::Partial));
        answer.extend_from_slice(b"\r\nEND\r\n");
        assert_eq!(client.response(&answer), Ok(Progress::Complete(answer.len())));
        assert!(client.response(b"END\r\n").is_err(), "the key is gone");
    }
}

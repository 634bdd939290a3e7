// SPDX-License-Identifier: GPL-2.0-or-later
//! Redis' RESP: nine GET to one SET.

use super::{line_end, unexpected, value, value_size, Progress, Protocol};
use crate::random::Random;

/// State of one client.
#[derive(Clone, Debug)]
pub struct Redis {
    keys: u64,
    /// The key asked for; none after a SET.
    asked: Option<u64>,
}

impl Redis {
    /// A client of a server with so many keys.
    pub fn new(keys: u64) -> Redis {
        Redis { keys, asked: None }
    }

    fn set(&mut self, key: u64, out: &mut Vec<u8>) {
        self.asked = None;
        let size = value_size(key);
        let head = format!("*3\r\n$3\r\nSET\r\n$12\r\nkey:{key:08}\r\n${size}\r\n");
        out.extend_from_slice(head.as_bytes());
        value(key, out);
        out.extend_from_slice(b"\r\n");
    }
}

impl Protocol for Redis {
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
            out.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n$12\r\nkey:{key:08}\r\n").as_bytes());
        }
    }

    fn response(&mut self, input: &[u8]) -> Result<Progress, String> {
        let Some(line) = line_end(input) else {
            return Ok(Progress::Partial);
        };
        let Some(key) = self.asked else {
            return match &input[..line] {
                b"+OK\r\n" => Ok(Progress::Complete(line)),
                _ => Err(unexpected(input)),
            };
        };
        let size = value_size(key);
        if input[..line] != *format!("${size}\r\n").as_bytes() {
            return Err(unexpected(input));
        }
        let whole = line + size + 2;
        match input.get(whole - 2..whole) {
            None => Ok(Progress::Partial),
            Some(b"\r\n") => Ok(Progress::Complete(whole)),
            Some(_) => Err(unexpected(&input[line..])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_complete_partial_or_refused() {
        let mut client = Redis { keys: 10, asked: None };
        assert_eq!(client.response(b"+OK\r\n"), Ok(Progress::Complete(5)));
        assert!(client.response(b"-OOM\r\n").is_err());
        client.asked = Some(4);
        let mut answer = format!("${}\r\n", value_size(4)).into_bytes();
        value(4, &mut answer);
        assert_eq!(client.response(&answer), Ok(Progress::Partial));
        answer.extend_from_slice(b"\r\n");
        assert_eq!(client.response(&answer), Ok(Progress::Complete(answer.len())));
        assert!(client.response(b"$-1\r\n").is_err(), "the key is gone");
    }
}

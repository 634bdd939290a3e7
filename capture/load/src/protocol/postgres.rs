// SPDX-License-Identifier: GPL-2.0-or-later
//! PostgreSQL's simple query protocol, version 3: look an account up, or move its balance.

use super::{unexpected, Progress, Protocol};
use crate::random::Random;

/// State of one client.
#[derive(Clone, Debug)]
pub struct Postgres {
    accounts: u64,
    /// Rows that the last query must have returned or changed.
    rows: u32,
}

impl Postgres {
    /// A client of a database with so many accounts.
    pub fn new(accounts: u64) -> Postgres {
        Postgres { accounts, rows: 0 }
    }

    fn query(&mut self, sql: &str, out: &mut Vec<u8>) {
        self.rows = 1;
        message(b'Q', sql.as_bytes(), out);
    }
}

fn message(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(text.len() as u32 + 5).to_be_bytes());
    out.extend_from_slice(text);
    out.push(0);
}

impl Protocol for Postgres {
    fn hello(&mut self, out: &mut Vec<u8>) -> bool {
        const PARAMETERS: &[u8] = b"user\0postgres\0database\0postgres\0\0";
        self.rows = 0;
        out.extend_from_slice(&(PARAMETERS.len() as u32 + 8).to_be_bytes());
        out.extend_from_slice(&(3u32 << 16).to_be_bytes());
        out.extend_from_slice(PARAMETERS);
        true
    }

    fn request(&mut self, random: &mut Random, out: &mut Vec<u8>) {
        let id = 1 + random.below(self.accounts);
        if random.below(10) == 0 {
            let change = random.below(2001) as i64 - 1000;
            let sql = format!("UPDATE accounts SET balance = balance + {change} WHERE id = {id}");
            self.query(&sql, out);
        } else {
            self.query(&format!("SELECT balance, filler FROM accounts WHERE id = {id}"), out);
        }
    }

    fn response(&mut self, input: &[u8]) -> Result<Progress, String> {
        let (mut at, mut rows) = (0, 0);
        while let Some(head) = input.get(at..at + 5) {
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let Some(body) = input.get(at + 5..at + 1 + length) else {
                return Ok(Progress::Partial);
            };
            at += 1 + length;
            match head[0] {
                b'C' => rows = rows_of(body),
                b'E' => return Err(unexpected(body)),
                b'R' if body != [0; 4] => return Err("the server asks for a password".to_owned()),
                b'Z' if rows != self.rows => {
                    return Err(format!("{rows} rows, expected {}", self.rows));
                }
                b'Z' => return Ok(Progress::Complete(at)),
                _ => {}
            }
        }
        Ok(Progress::Partial)
    }
}

/// Returns the number of rows in `SELECT 1` or `UPDATE 1`.
fn rows_of(body: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(body);
    let number = text.trim_end_matches('\0').rsplit(' ').next();
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_complete_partial_or_refused() {
        let mut client = Postgres { accounts: 10, rows: 1 };
        let mut answer = Vec::new();
        message(b'C', b"SELECT 1", &mut answer);
        assert_eq!(client.response(&answer), Ok(Progress::Partial));
        answer.extend_from_slice(b"Z\0\0\0\x05I");
        assert_eq!(client.response(&answer), Ok(Progress::Complete(answer.len())));
        client.rows = 0;
        assert!(client.response(&answer).is_err());
        let mut error = Vec::new();
        message(b'E', b"SFATAL", &mut error);
        assert!(client.response(&error).is_err());
        assert!(client.response(b"R\0\0\0\x08\0\0\0\x05").is_err());
    }
}

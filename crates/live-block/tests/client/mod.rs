//! A client that says what it likes.
#![allow(dead_code, reason = "each test program uses its part")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const ZEROES: u16 = 6;
pub const FUA: u16 = 1;

/// A request without what follows it.
pub fn request(cookie: u64, (kind, flags): (u16, u16), offset: u64, length: u32) -> Vec<u8> {
    let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
    request.extend(flags.to_be_bytes());
    request.extend(kind.to_be_bytes());
    request.extend(cookie.to_be_bytes());
    request.extend(offset.to_be_bytes());
    request.extend(length.to_be_bytes());
    request
}

/// A client of simple replies.
pub struct Client(pub UnixStream);

impl Client {
    pub fn connect(path: &Path, size: u64) -> Client {
        let mut stream = UnixStream::connect(path).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        let mut said = vec![0, 0, 0, 3];
        said.extend(b"IHAVEOPT");
        said.extend([0, 0, 0, 1, 0, 0, 0, 0]);
        stream.write_all(&said).unwrap();
        let mut about = [0; 10];
        stream.read_exact(&mut about).unwrap();
        assert_eq!(about[..8], size.to_be_bytes());
        Client(stream)
    }

    pub fn ask(&mut self, kind: u16, flags: u16, offset: u64, length: u32, body: &[u8]) {
        let mut request = request(offset, (kind, flags), offset, length);
        request.extend(body);
        self.0.write_all(&request).unwrap();
    }

    pub fn answer(&mut self) -> u32 {
        self.reply().0
    }

    /// Error and cookie.
    pub fn reply(&mut self) -> (u32, u64) {
        let mut head = [0; 16];
        self.0.read_exact(&mut head).unwrap();
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        (error, u64::from_be_bytes(head[8..].try_into().unwrap()))
    }

    pub fn done(&mut self, kind: u16, flags: u16, offset: u64, length: u32, body: &[u8]) {
        self.ask(kind, flags, offset, length, body);
        assert_eq!(self.answer(), 0);
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.done(0, 0, offset, length, b"");
        let mut bytes = vec![0; length as usize];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }
}

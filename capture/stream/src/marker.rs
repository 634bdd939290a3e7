// SPDX-License-Identifier: GPL-2.0-or-later
//! Marker instructions: `nopl disp32(%rax)` with a magic displacement, a no-op on every x86-64
//! machine. Arguments are in rdi and rsi.

/// `0f 1f 80`, the code, and this.
const TAIL: [u8; 3] = *b"HWT";

/// Value of rsi at a stop whose rdi is a program's exit status.
pub const WITH_STATUS: u64 = 0x7375_7461_7473;

/// Request of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Starts the recording at this instruction.
    Start,
    /// Stop recording; rdi is an exit status if rsi is [`WITH_STATUS`].
    Stop,
    /// A request was sent: rdi is its number, rsi how many ns ago it was due.
    RequestBegin,
    /// A response is complete: rdi is the number of its request.
    RequestEnd,
    /// Marks a point for the user: goes into the trace with rdi.
    User(u8),
}

impl Marker {
    /// Smallest code of a user's own marker.
    pub const FIRST_USER: u8 = 16;

    /// The marker in an instruction's bytes, if it is one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Marker> {
        let &[0x0f, 0x1f, 0x80, code, a, b, c] = bytes else {
            return None;
        };
        if [a, b, c] != TAIL {
            return None;
        }
        Some(match code {
            1 => Marker::Start,
            2 => Marker::Stop,
            3 => Marker::RequestBegin,
            4 => Marker::RequestEnd,
            Marker::FIRST_USER.. => Marker::User(code),
            _ => return None,
        })
    }

    /// Returns the code of the marker.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Marker::Start => 1,
            Marker::Stop => 2,
            Marker::RequestBegin => 3,
            Marker::RequestEnd => 4,
            Marker::User(code) => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_there_and_back() {
        for code in 0..=255u8 {
            let bytes = [0x0f, 0x1f, 0x80, code, b'H', b'W', b'T'];
            match Marker::parse(&bytes) {
                Some(marker) => assert_eq!(marker.code(), code),
                None => assert!(code == 0 || (5..Marker::FIRST_USER).contains(&code)),
            }
        }
    }

    #[test]
    fn other_instructions_are_not_markers() {
        assert_eq!(Marker::parse(&[0x0f, 0x1f, 0x80, 1, b'H', b'W', b'U']), None);
        assert_eq!(Marker::parse(&[0x0f, 0x1f, 0x40, 1]), None);
        assert_eq!(Marker::parse(&[0x0f, 0x1f, 0x81, 1, b'H', b'W', b'T']), None);
        assert_eq!(Marker::parse(&[]), None);
    }
}

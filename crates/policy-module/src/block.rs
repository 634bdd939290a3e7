//! The block of a module's memory through which it is called: 64 words of 64 bits, little-endian.
//!
//! | word | written by | holds |
//! |---|---|---|
//! | 0 | host | the time, in picoseconds |
//! | 1 | host | the event: 0 start, 1 timer, then those of the family; all ones `more` |
//! | 2 to 13 | host | the fields of the event |
//! | 14 to 29 | host, before the start | the parameters, each a 64-bit floating-point number |
//! | 30 | module | the time of its timer; all ones if it is off, as at the start |
//! | 31 | module | how many actions it requests; the host clears it before each call |
//! | 32 to 63 | module | its actions: a number and three fields each |
//!
//! A module that requests more than eight actions is called again with `more`, at the same time,
//! until all are taken. It then writes the next ones, and how many are left with them.

use halfwink_policy::record::{Fields, FIELDS};

/// The version of the interface.
pub const ABI: i32 = 1;
/// Most parameters of a module.
pub const PARAMETERS: usize = 16;
/// Actions that the block has room for.
pub const ACTIONS: usize = 8;
/// Most actions of an event: a router's redirect table moved as a whole, and all of its cores.
pub const MOST_ACTIONS: usize = 512;

/// Words of an action: its number and its fields.
const ACTION_WORDS: usize = 4;
const FIRST_PARAMETER: usize = 2 + FIELDS;
const TIMER: usize = FIRST_PARAMETER + PARAMETERS;
const COUNT: usize = TIMER + 1;
const FIRST_ACTION: usize = COUNT + 1;
const WORDS: usize = FIRST_ACTION + ACTIONS * ACTION_WORDS;
/// Length of the block in bytes.
pub const BYTES: usize = 8 * WORDS;

const _: () = assert!(WORDS == 64, "the interface says 64 words");

/// The block within the memory of a module.
pub struct Block<M>(pub M);

impl Block<&mut [u8]> {
    fn set(&mut self, word: usize, value: u64) {
        self.0[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Writes an event with its time.
    pub fn event(&mut self, now: u64, event: u64, fields: &[u64]) {
        self.set(0, now);
        self.set(1, event);
        for (n, &field) in fields.iter().enumerate() {
            self.set(2 + n, field);
        }
        self.set(COUNT, 0);
    }

    /// Writes the parameters and turns the timer off, before the first event.
    pub fn begin(&mut self, parameters: &[f64]) {
        for (n, value) in parameters.iter().enumerate() {
            self.set(FIRST_PARAMETER + n, value.to_bits());
        }
        self.set(TIMER, u64::MAX);
    }
}

impl Block<&[u8]> {
    fn word(&self, word: usize) -> u64 {
        let bytes = &self.0[8 * word..8 * word + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// Returns the time of the timer.
    pub fn timer(&self) -> u64 {
        self.word(TIMER)
    }

    /// Returns how many actions the module says that it requests.
    pub fn count(&self) -> u64 {
        self.word(COUNT)
    }

    /// Returns the number of an action and its fields.
    pub fn action(&self, n: usize) -> (u64, Fields) {
        let first = FIRST_ACTION + n * ACTION_WORDS;
        let mut fields = [0; FIELDS];
        for (n, field) in fields[..ACTION_WORDS - 1].iter_mut().enumerate() {
            *field = self.word(first + 1 + n);
        }
        (self.word(first), fields)
    }
}

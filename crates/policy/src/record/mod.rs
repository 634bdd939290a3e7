//! Events and actions as records of 64-bit words, for policies outside of this program.
//!
//! Logs write the same events and actions as JSON. A record has a fixed layout instead, so that a
//! policy needs neither a parser nor an allocator, and a call of one costs less than reading a line
//! would. The names of kinds and the order of fields are those of the JSON.

use halfwink_units::{LineAddr, Time};

mod circuits;
mod completion;
mod gating;
mod offload;
mod preheat;
mod scaling;
mod segregation;
mod steering;

/// Most fields of an event.
pub const FIELDS: usize = 12;

/// The fields of a record, in the order of the log's JSON. Times are picoseconds.
pub type Fields = [u64; FIELDS];

/// An event or an action that has a record.
pub trait Record: Sized {
    /// Names of its kinds, as logs have them. The number of a kind is its place here, which never
    /// changes; further kinds are added at the end.
    const KINDS: &'static [&'static str];

    /// Writes the fields, and returns the number of the kind and how many fields it has.
    fn put(&self, fields: &mut Fields) -> (usize, usize);

    /// Writes one of the records that come before it, counted from 0, as `put` does: what a record
    /// has no room for. Returns none behind the last of them.
    #[inline]
    fn before(&self, _n: usize, _fields: &mut Fields) -> Option<(usize, usize)> {
        None
    }

    /// Reads a record; none if there is no such kind, or a field is out of its range.
    fn take(kind: usize, fields: &Fields) -> Option<Self>;
}

/// A value that takes one word of a record, or a fixed number of words.
trait Words: Sized {
    /// Number of words that it takes.
    const COUNT: usize = 1;

    /// Writes it to the first words.
    fn write(self, words: &mut [u64]);

    /// Reads it from the first words; none if it is out of range.
    fn read(words: &[u64]) -> Option<Self>;
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Words for $type {
            #[inline]
            fn write(self, words: &mut [u64]) {
                words[0] = self.into();
            }

            #[inline]
            fn read(words: &[u64]) -> Option<Self> {
                words[0].try_into().ok()
            }
        }
    )*};
}

whole_numbers!(u8, u16, u32, u64);

impl Words for bool {
    fn write(self, words: &mut [u64]) {
        words[0] = self.into();
    }

    fn read(words: &[u64]) -> Option<bool> {
        [false, true].into_iter().find(|&is| u64::from(is) == words[0])
    }
}

impl Words for Time {
    #[inline]
    fn write(self, words: &mut [u64]) {
        words[0] = self.0;
    }

    #[inline]
    fn read(words: &[u64]) -> Option<Time> {
        Some(Time(words[0]))
    }
}

impl Words for LineAddr {
    fn write(self, words: &mut [u64]) {
        words[0] = self.0;
    }

    fn read(words: &[u64]) -> Option<LineAddr> {
        Some(LineAddr(words[0]))
    }
}

/// A time that need not be: all ones.
impl Words for Option<Time> {
    fn write(self, words: &mut [u64]) {
        words[0] = self.unwrap_or(Time::NEVER).0;
    }

    fn read(words: &[u64]) -> Option<Option<Time>> {
        Some(Some(Time(words[0])).filter(|&time| time < Time::NEVER))
    }
}

/// Reads one of these values, which takes the word of its place.
fn of_place<T: Copy>(all: &[T], words: &[u64]) -> Option<T> {
    all.get(usize::try_from(words[0]).ok()?).copied()
}

/// Declares the record of an enumeration: for each variant its name in logs and its fields. Two
/// fields behind a `;` share a word, of which the first has the low byte: an action of a module has
/// room for three words.
macro_rules! record {
    ($type:ty { $($name:literal $variant:ident {
        $($field:ident: $of:ty),* $(; $low:ident: $low_of:ty, $high:ident: $high_of:ty)?
    })* }) => {
        impl Record for $type {
            const KINDS: &'static [&'static str] = &[$($name),*];

            #[inline]
            fn put(&self, fields: &mut Fields) -> (usize, usize) {
                #[expect(clippy::allow_attributes, reason = "the last kind leaves the counter")]
                #[allow(unused_assignments, unused_mut)]
                {
                    let mut kind = 0;
                    $(
                        if let Self::$variant { $($field,)* $($low, $high)? } = *self {
                            let mut count = 0;
                            $(
                                <$of as Words>::write($field, &mut fields[count..]);
                                count += <$of as Words>::COUNT;
                            )*
                            $(
                                let mut bytes = [0; 2];
                                <$low_of as Words>::write($low, &mut bytes[..1]);
                                <$high_of as Words>::write($high, &mut bytes[1..]);
                                fields[count] = bytes[0] | bytes[1] << 8;
                                count += 1;
                            )?
                            return (kind, count);
                        }
                        kind += 1;
                    )*
                    unreachable!("each variant has a record")
                }
            }

            #[inline]
            fn take(kind: usize, fields: &Fields) -> Option<Self> {
                #[expect(clippy::allow_attributes, reason = "a kind may have no fields")]
                #[allow(unused_assignments, unused_mut, unused_variables)]
                {
                    let mut place = kind;
                    $(
                        if place == 0 {
                            let mut count = 0;
                            $(
                                let $field = <$of as Words>::read(&fields[count..])?;
                                count += <$of as Words>::COUNT;
                            )*
                            $(
                                let word = fields[count];
                                let $low = <$low_of as Words>::read(&[word & 255])?;
                                let $high = <$high_of as Words>::read(&[word >> 8])?;
                            )?
                            return Some(Self::$variant { $($field,)* $($low, $high)? });
                        }
                        place = place.wrapping_sub(1);
                    )*
                    None
                }
            }
        }
    };
}
use record;

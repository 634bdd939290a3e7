use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A mask of ways (portions, as MPAM says). Its text is hexadecimal digits without a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mask(pub u32);

impl Mask {
    /// `ways` ones from bit `low` on; none if they do not fit into 32 bits.
    pub fn run(low: u32, ways: u32) -> Option<Mask> {
        if low.checked_add(ways)? > 32 {
            return None;
        }
        let ones = if ways == 32 { u32::MAX } else { (1 << ways) - 1 };
        Some(Mask(ones.checked_shl(low).unwrap_or(0)))
    }

    /// Returns the number of ways.
    pub fn ways(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns whether its ones are contiguous; false for an empty mask.
    pub fn is_contiguous(self) -> bool {
        self.0 != 0 && (self.0 >> self.0.trailing_zeros()).trailing_ones() == self.ways()
    }

    /// Returns whether all its ways are in `whole`.
    pub fn is_within(self, whole: Mask) -> bool {
        self.0 & !whole.0 == 0
    }

    /// Returns whether a way is in both.
    pub fn overlaps(self, other: Mask) -> bool {
        self.0 & other.0 != 0
    }

    /// Reads hexadecimal digits, with or without `0x`.
    pub fn parse(text: &str) -> Option<Mask> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then(|| u32::from_str_radix(digits, 16).ok().map(Mask))?
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl Serialize for Mask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mask, D::Error> {
        let text = String::deserialize(deserializer)?;
        Mask::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "mask {text:?}: expected up to 32 bits in hexadecimal"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_stand_together_or_do_not() {
        for (bits, contiguous) in [
            (0, false),
            (1, true),
            (0b110, true),
            (0b101, false),
            (u32::MAX, true),
            (1 << 31, true),
        ] {
            assert_eq!(Mask(bits).is_contiguous(), contiguous, "{bits:b}");
        }
    }

    #[test]
    fn runs_fit_or_are_none() {
        assert_eq!(Mask::run(0, 32), Some(Mask(u32::MAX)));
        assert_eq!(Mask::run(31, 1), Some(Mask(1 << 31)));
        assert_eq!(Mask::run(32, 0), Some(Mask(0)));
        assert_eq!(Mask::run(31, 2), None);
        assert_eq!(Mask::run(u32::MAX, 1), None);
    }

    #[test]
    fn text_is_hexadecimal_and_nothing_else() {
        assert_eq!(Mask::parse("0ff"), Some(Mask(0xff)));
        assert_eq!(Mask::parse("0x7ff"), Some(Mask(0x7ff)));
        for bad in ["", "0x", "+f", "fg", "1ffffffff", " f", "-1"] {
            assert_eq!(Mask::parse(bad), None, "{bad:?}");
        }
    }
}

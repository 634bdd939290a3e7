//! Random numbers that are the same on every machine.

/// The generator xorshift64* (Vigna 2016).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        // Near seeds must not give near streams: one step of splitmix64.
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random((z ^ (z >> 31)) | 1)
    }

    #[inline]
    pub(super) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`, which is not 0.
    #[inline]
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Below `n`, small numbers more often: below p n with probability p^(4/`skew`). Only
    /// operations that IEEE 754 defines to the last bit.
    #[inline]
    pub(super) fn skewed(&mut self, n: u64, skew: u32) -> u64 {
        let u = (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        let mut power = 1.0;
        for _ in 0..skew / 4 {
            power *= u;
        }
        if !skew.is_multiple_of(4) {
            let root = u.sqrt();
            if skew & 2 != 0 {
                power *= root;
            }
            if skew & 1 != 0 {
                power *= root.sqrt();
            }
        }
        ((n as f64 * power) as u64).min(n - 1)
    }
}

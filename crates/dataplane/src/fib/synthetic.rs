use ipnet::Ipv4Net;
use std::collections::HashSet;

/// Prefixes of each length per 10,000, from /8 to /24: about the share of each in the tables of
/// backbone routers (potaroo.net's BGP report of AS 131072, 2024).
// assumption: rounded; what matters to a look-up is that three in five are /24s.
const PER_10_000: [u32; 17] =
    [1, 1, 1, 1, 3, 6, 12, 21, 138, 84, 140, 252, 450, 530, 1130, 1040, 6190];

/// `count` different prefixes with the lengths of a backbone table, from a seed.
///
/// Prefixes nest as in real tables: addresses are drawn from few /8s first, so that long ones fall
/// into short ones.
#[must_use]
pub fn synthetic_prefixes(count: usize, seed: u64) -> Vec<Ipv4Net> {
    let mut random = SplitMix(seed);
    let mut seen = HashSet::with_capacity(count);
    let mut prefixes = Vec::with_capacity(count);
    // Lengths below /15 run out when there are many: give up on one after some tries.
    while prefixes.len() < count {
        let mut share = (random.next() % 10_000) as u32;
        let place = PER_10_000.iter().position(|&part| {
            let here = share < part;
            share = share.wrapping_sub(part);
            here
        });
        let len = 8 + place.unwrap_or(16) as u8;
        // 1.0.0.0 to 223.255.255.255 without 10/8 and 127/8.
        let first = (1 + random.next() % 223) as u32;
        let address = first << 24 | (random.next() as u32 & 0x00ff_ffff);
        if let (false, Ok(prefix)) = (matches!(first, 10 | 127), Ipv4Net::new(address.into(), len))
        {
            let prefix = prefix.trunc();
            if seen.insert(prefix) {
                prefixes.push(prefix);
            }
        }
    }
    prefixes
}

/// Steele, Lea, Flood 2014: a fixed generator, so that a seed means the same table for ever.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

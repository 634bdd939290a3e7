//! Numbers that look as if they were drawn.

/// Spreads a number over all bits (the finalizer of SplitMix64; Steele, Lea and Flood 2014).
/// Nothing stays nothing.
pub(crate) fn spread(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// The one's complement sum of `bytes` and `sum`, unfolded. An odd last byte counts as the high
/// half of a word.
#[must_use]
pub(crate) fn add(bytes: &[u8], mut sum: u64) -> u64 {
    // Four bytes at a time: 2^32 is 1 modulo 2^16 - 1, so wider words fold to the same sum.
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let rest = words.remainder();
    for pair in rest.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    sum
}

/// The checksum of all that was added.
#[must_use]
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of `bytes`.
#[must_use]
pub(crate) fn of(bytes: &[u8]) -> u16 {
    fold(add(bytes, 0))
}

/// The checksum after a word has changed from `old` to `new`: HC' = ~(~HC + ~m + m') (RFC 1624,
/// equation 3).
#[must_use]
pub(crate) fn update(checksum: u16, old: u16, new: u16) -> u16 {
    fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// The sum of the pseudo header of TCP, UDP and ICMPv6 over IPv6 (RFC 8200, 8.1).
#[must_use]
pub(crate) fn pseudo_v6(src: &[u8], dst: &[u8], len: usize, next: u8) -> u64 {
    add(dst, add(src, len as u64 + u64::from(next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: 0001 f203 f4f5 f6f7 sum to ddf2.
        assert_eq!(of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(of(&[0x00, 0x01, 0xf2]), !(0x0001 + 0xf200));
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // Section 4: a word goes from 5555 to 3285 under checksum dd2f; equation 3 gives 0000.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn updated_and_computed_checksums_agree() {
        let mut header: [u8; 20] = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        let mut checksum = of(&header);
        assert_eq!(checksum, 0xb861);
        for ttl in (1..64u8).rev() {
            let old = u16::from_be_bytes([header[8], header[9]]);
            header[8] = ttl;
            checksum = update(checksum, old, u16::from_be_bytes([header[8], header[9]]));
            assert_eq!(checksum, of(&header));
        }
    }
}

//! Where things stand in headers, and the tight checks of the hot path.

use crate::checksum;
use crate::counters::DropReason;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
pub(crate) const ETHERTYPE_V4: u16 = 0x0800;
pub(crate) const ETHERTYPE_ARP: u16 = 0x0806;
pub(crate) const ETHERTYPE_V6: u16 = 0x86dd;
pub(crate) const ETHERTYPE_VLAN: u16 = 0x8100;
pub(crate) const ETHERTYPE_QINQ: u16 = 0x88a8;

pub(crate) const ICMP: u8 = 1;
pub(crate) const IP_IN_IP: u8 = 4;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const IPV6: u8 = 41;
pub(crate) const ESP: u8 = 50;
pub(crate) const ICMP6: u8 = 58;

pub(crate) const V4: usize = 20;
pub(crate) const V6: usize = 40;

/// An Ethernet address, of 48 bits.
pub type Mac = [u8; 6];
pub(crate) const BROADCAST: Mac = [0xff; 6];

/// The big-endian word at `at`, or 0 past the end.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(b) => u16::from_be_bytes([b[0], b[1]]),
        None => 0,
    }
}

/// Reads 32 bits in network order; 0 behind the end.
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(b) => u32::from_be_bytes([b[0], b[1], b[2], b[3]]),
        None => 0,
    }
}

/// Reads 128 bits in network order; 0 behind the end.
#[inline]
pub(crate) fn be128(bytes: &[u8], at: usize) -> u128 {
    match bytes.get(at..at + 16).and_then(|b| b.try_into().ok()) {
        Some(b) => u128::from_be_bytes(b),
        None => 0,
    }
}

#[inline]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[inline]
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Fields of a valid IPv4 header that the hot path needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct V4Header {
    /// Bytes of the header with its options.
    pub(crate) len: usize,
    /// Bytes of the packet.
    pub(crate) total: usize,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) protocol: u8,
    pub(crate) ttl: u8,
    /// Fragment flags and offset.
    pub(crate) fragment: u16,
}

/// "Do not fragment" and "more fragments" in [`V4Header::fragment`].
pub(crate) const DF: u16 = 0x4000;
pub(crate) const MF: u16 = 0x2000;

impl V4Header {
    /// Checks as RFC 1812, 5.2.2 lists them.
    #[inline]
    pub(crate) fn check(packet: &[u8]) -> Result<V4Header, DropReason> {
        let Some(fixed) = packet.first_chunk::<V4>() else { return Err(DropReason::Short) };
        let len = usize::from(fixed[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if fixed[0] >> 4 != 4 || len < V4 || total < len {
            return Err(DropReason::BadHeader);
        }
        if total > packet.len() {
            return Err(DropReason::Short);
        }
        if checksum::of(&packet[..len]) != 0 {
            return Err(DropReason::BadChecksum);
        }
        Ok(V4Header {
            len,
            total,
            src: be32(fixed, 12),
            dst: be32(fixed, 16),
            protocol: fixed[9],
            ttl: fixed[8],
            fragment: be16(fixed, 6),
        })
    }

    /// Returns whether this is a fragment, and not the first.
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.fragment & 0x1fff != 0
    }

    /// Returns whether this is any part of a fragmented packet.
    pub(crate) fn is_fragment(&self) -> bool {
        self.fragment & 0x3fff != 0
    }
}

/// Fields of a valid IPv6 header that the hot path needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct V6Header {
    /// Bytes of the packet, header included.
    pub(crate) total: usize,
    pub(crate) src: u128,
    pub(crate) dst: u128,
    pub(crate) next: u8,
    pub(crate) hops: u8,
}

impl V6Header {
    #[inline]
    pub(crate) fn check(packet: &[u8]) -> Result<V6Header, DropReason> {
        let Some(fixed) = packet.first_chunk::<V6>() else { return Err(DropReason::Short) };
        if fixed[0] >> 4 != 6 {
            return Err(DropReason::BadHeader);
        }
        let total = V6 + usize::from(be16(fixed, 4));
        if total > packet.len() {
            return Err(DropReason::Short);
        }
        Ok(V6Header {
            total,
            src: be128(fixed, 8),
            dst: be128(fixed, 24),
            next: fixed[6],
            hops: fixed[7],
        })
    }
}

/// The upper layer's protocol and where it begins in the packet; `None` for later fragments,
/// unknown chains and those that are cut short.
pub(crate) fn transport(packet: &[u8], header: &V6Header) -> Option<(u8, usize)> {
    let (mut next, mut at) = (header.next, V6);
    // RFC 8200, 4.1 knows at most one of each kind, one twice.
    for _ in 0..8 {
        match next {
            0 | 43 | 60 | 135 => {
                let len = usize::from(*packet.get(at + 1)?) * 8 + 8;
                next = packet[at];
                at += len;
            }
            44 => {
                if packet.len() < at + 8 || be16(packet, at + 2) & 0xfff8 != 0 {
                    return None;
                }
                next = packet[at];
                at += 8;
            }
            51 => {
                let len = usize::from(*packet.get(at + 1)?) * 4 + 8;
                next = packet[at];
                at += len;
            }
            _ => return (at <= header.total).then_some((next, at)),
        }
    }
    None
}

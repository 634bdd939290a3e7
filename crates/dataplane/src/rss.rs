//! Receive-side scaling: the hash by which a network card chooses a queue.

use crate::wire::{self, be16};

/// Microsoft's verification key ("Verifying the RSS hash calculation"): the hash in software agrees
/// with that of a card which has it, and can be checked against published vectors.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Contribution of each byte value at each place of the longest input: the hash is linear, so a
/// packet costs as many look-ups as it has address bytes.
static TABLE: [[u32; 256]; 36] = table();

const fn table() -> [[u32; 256]; 36] {
    let mut table = [[0u32; 256]; 36];
    let mut at = 0;
    while at < 36 {
        // The key's 40 bits from this byte on: a window of 32 for each of its eight bits.
        let mut window = 0u64;
        let mut i = 0;
        while i < 5 {
            let byte = if at + i < 40 { KEY[at + i] } else { 0 };
            window = window << 8 | byte as u64;
            i += 1;
        }
        let mut value = 0;
        while value < 256 {
            let mut hash = 0u32;
            let mut bit = 0;
            while bit < 8 {
                if value >> (7 - bit) & 1 == 1 {
                    hash ^= (window >> (8 - bit)) as u32;
                }
                bit += 1;
            }
            table[at][value] = hash;
            value += 1;
        }
        at += 1;
    }
    table
}

/// The Toeplitz hash of at most 36 bytes; what is longer does not count.
#[must_use]
pub fn toeplitz(input: &[u8]) -> u32 {
    TABLE.iter().zip(input).fold(0, |hash, (row, &byte)| hash ^ row[usize::from(byte)])
}

/// The hash of an Ethernet frame as network cards compute it: of addresses and ports for TCP and
/// UDP over IPv4 and IPv6, of the addresses for fragments and all other protocols, and 0 for what
/// is not IP or is cut short.
#[must_use]
pub fn hash(frame: &[u8]) -> u32 {
    let Some(packet) = frame.get(wire::ETHERNET..) else { return 0 };
    match be16(frame, 12) {
        wire::ETHERTYPE_V4 if packet.len() >= 20 => {
            let header = usize::from(packet[0] & 15) * 4;
            let ports =
                if be16(packet, 6) & 0x3fff == 0 { ports(packet, header, packet[9]) } else { None };
            joined(&packet[12..20], ports)
        }
        wire::ETHERTYPE_V6 if packet.len() >= 40 => {
            joined(&packet[8..40], ports(packet, 40, packet[6]))
        }
        _ => 0,
    }
}

fn ports(packet: &[u8], header: usize, protocol: u8) -> Option<[u8; 4]> {
    if protocol != wire::TCP && protocol != wire::UDP {
        return None;
    }
    packet.get(header..header + 4)?.try_into().ok()
}

fn joined(addresses: &[u8], ports: Option<[u8; 4]>) -> u32 {
    let mut input = [0u8; 36];
    let end = addresses.len();
    input[..end].copy_from_slice(addresses);
    match ports {
        Some(ports) => {
            input[end..end + 4].copy_from_slice(&ports);
            toeplitz(&input[..end + 4])
        }
        None => toeplitz(&input[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// "Verifying the RSS hash calculation": destination, source (address, port), the hash of the
    /// addresses, the hash with ports.
    #[test]
    fn microsofts_vectors_for_ipv4() {
        let vectors = [
            ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e_8fc2, 0x51cc_c178),
            ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d18_09c5, 0x10e8_28a2),
        ];
        for (dst, dst_port, src, src_port, two, four) in vectors {
            let (dst, src): (Ipv4Addr, Ipv4Addr) = (dst.parse().unwrap(), src.parse().unwrap());
            let mut frame = vec![0u8; 14 + 20 + 8];
            frame[12] = 8;
            frame[14] = 0x45;
            frame[23] = 6;
            frame[26..30].copy_from_slice(&src.octets());
            frame[30..34].copy_from_slice(&dst.octets());
            frame[34..36].copy_from_slice(&u16::to_be_bytes(src_port));
            frame[36..38].copy_from_slice(&u16::to_be_bytes(dst_port));
            assert_eq!(hash(&frame), four);
            frame[20] = 0x20; // a first fragment: no ports
            assert_eq!(hash(&frame), two);
            frame[20] = 0x40; // "do not fragment" is no fragment
            assert_eq!(hash(&frame), four);
            frame[23] = 1;
            assert_eq!(hash(&frame), two);
        }
    }

    #[test]
    fn microsofts_vectors_for_ipv6() {
        let vectors = [
            ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc1_8cd5, 0x4020_7d3d),
            ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
            (
                "fe80::200:f8ff:fe21:67cf",
                38024,
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                0x4b61_e985,
                0x02d1_feef,
            ),
        ];
        for (dst, dst_port, src, src_port, two, four) in vectors {
            let (dst, src): (Ipv6Addr, Ipv6Addr) = (dst.parse().unwrap(), src.parse().unwrap());
            let mut frame = vec![0u8; 14 + 40 + 8];
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            frame[20] = 17;
            frame[22..38].copy_from_slice(&src.octets());
            frame[38..54].copy_from_slice(&dst.octets());
            frame[54..56].copy_from_slice(&u16::to_be_bytes(src_port));
            frame[56..58].copy_from_slice(&u16::to_be_bytes(dst_port));
            assert_eq!(hash(&frame), four);
            frame[20] = 44; // a fragment header
            assert_eq!(hash(&frame), two);
        }
    }

    #[test]
    fn what_is_not_ip_or_too_short_hashes_to_nothing() {
        for len in 0..60 {
            let mut frame = vec![0x45u8; len];
            if len >= 14 {
                frame[12..14].copy_from_slice(&[8, 0]);
            }
            assert_eq!(hash(&frame) == 0, len < 34, "{len}");
        }
        assert_eq!(hash(&[6; 60]), 0);
    }
}

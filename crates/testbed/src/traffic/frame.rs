//! Frames that carry a stamp: who sent them, in which order, and when they were due.
//!
//! The stamp is 18 bytes, what a UDP payload holds in the smallest Ethernet frame (60 bytes without
//! the check sequence): tag 2, flow 2, number in the flow 4, number in all 4, scheduled time 6
//! (nanoseconds modulo 2^48, 78 hours). Big-endian. A filler of known bytes follows.

use std::net::{IpAddr, SocketAddr};

use etherparse::PacketBuilder;

use super::Error;

/// Bytes of a stamp, which every frame of the generator carries.
pub const STAMP_BYTES: usize = 18;
/// Smallest and largest frame, in bytes without check sequence.
pub const FRAME_BYTES: std::ops::RangeInclusive<usize> = 60..=9014;
/// The tag unless another is asked for: `HW`.
pub const TAG: u16 = 0x4857;
/// Scheduled times are carried modulo this.
const TIME_MASK: u64 = (1 << 48) - 1;
const ETHERNET_BYTES: usize = 14;
/// Hops that a fresh frame may make.
pub const HOPS: u8 = 64;

/// Stamp that a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which flow, counted from zero.
    pub flow: u16,
    /// Number in its flow.
    pub flow_sequence: u32,
    /// Number in all that the generator sent.
    pub sequence: u32,
    /// Due time, in nanoseconds of `CLOCK_MONOTONIC` modulo 2^48.
    pub scheduled_ns: u64,
}

impl Stamp {
    fn bytes(self, tag: u16) -> [u8; STAMP_BYTES] {
        let mut out = [0; STAMP_BYTES];
        out[..2].copy_from_slice(&tag.to_be_bytes());
        out[2..4].copy_from_slice(&self.flow.to_be_bytes());
        out[4..8].copy_from_slice(&self.flow_sequence.to_be_bytes());
        out[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        out[12..].copy_from_slice(&self.scheduled_ns.to_be_bytes()[2..]);
        out
    }

    fn parse(bytes: &[u8]) -> Stamp {
        let u32_at = |n: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| bytes[n + i]));
        let mut time = [0; 8];
        time[2..].copy_from_slice(&bytes[12..18]);
        Stamp {
            flow: u16::from_be_bytes([bytes[2], bytes[3]]),
            flow_sequence: u32_at(4),
            sequence: u32_at(8),
            scheduled_ns: u64::from_be_bytes(time),
        }
    }

    /// Nanoseconds from when it was due until `now_ns`; negative if it came early, which only
    /// clocks that disagree can bring about.
    #[must_use]
    pub fn age_ns(self, now_ns: u64) -> i64 {
        let age = now_ns.wrapping_sub(self.scheduled_ns) & TIME_MASK;
        // The half above stands for negative numbers.
        ((age << 16) as i64) >> 16
    }
}

/// Content after the stamp.
static FILLER: [u8; *FRAME_BYTES.end()] = {
    let mut out = [0; *FRAME_BYTES.end()];
    let mut n = 0;
    while n < out.len() {
        out[n] = (n * 7 + 3) as u8;
        n += 1;
    }
    out
};

/// The headers of a flow, ready but for lengths, checksums and the stamp.
#[derive(Clone, Debug)]
pub struct Template {
    header: Vec<u8>,
    is_v6: bool,
    /// Sum of the IPv4 header without its length.
    ip_sum: u64,
    /// Sum of pseudo header and UDP header without lengths.
    udp_sum: u64,
    tag: u16,
}

impl Template {
    /// Headers from one socket to another.
    ///
    /// # Errors
    /// The two are not of one family.
    pub fn new(
        macs: ([u8; 6], [u8; 6]),
        from: SocketAddr,
        to: SocketAddr,
        tag: u16,
    ) -> Result<Template, Error> {
        let start = PacketBuilder::ethernet2(macs.0, macs.1);
        let start = match (from.ip(), to.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => start.ipv4(a.octets(), b.octets(), HOPS),
            (IpAddr::V6(a), IpAddr::V6(b)) => start.ipv6(a.octets(), b.octets(), HOPS),
            (a, b) => {
                return Err(Error::input(format!("from {a} to {b}: expected one family of both")))
            }
        };
        let mut header = Vec::with_capacity(64);
        start
            .udp(from.port(), to.port())
            .write(&mut header, &[])
            .map_err(|e| Error::input(e.to_string()))?;
        let is_v6 = to.is_ipv6();
        let udp = header.len() - 8;
        let addresses = if is_v6 { 22..54 } else { 26..34 };
        for at in [udp + 4, udp + 6] {
            header[at..at + 2].fill(0);
        }
        if !is_v6 {
            header[16..18].fill(0);
            header[24..26].fill(0);
        }
        let udp_sum = sum(&header[addresses]) + 17 + sum(&header[udp..]);
        let ip_sum = if is_v6 { 0 } else { sum(&header[14..34]) };
        Ok(Template { header, is_v6, ip_sum, udp_sum, tag })
    }

    /// The smallest frame of this flow, in bytes without check sequence.
    #[must_use]
    pub fn least_bytes(&self) -> usize {
        self.header.len() + STAMP_BYTES
    }

    /// Writes a frame of `bytes` bytes, or the smallest there is, to the start of `out`; its
    /// length. `out` must have room for both.
    pub fn write(&self, stamp: Stamp, bytes: usize, out: &mut [u8]) -> usize {
        let bytes = bytes.max(self.least_bytes());
        let headers = self.header.len();
        let udp = headers - 8;
        let out = &mut out[..bytes];
        out[..headers].copy_from_slice(&self.header);
        let stamp = stamp.bytes(self.tag);
        out[headers..headers + STAMP_BYTES].copy_from_slice(&stamp);
        let rest = bytes - headers - STAMP_BYTES;
        out[headers + STAMP_BYTES..].copy_from_slice(&FILLER[..rest]);
        let udp_bytes = (bytes - udp) as u16;
        out[udp + 4..udp + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        let total = self.udp_sum + 2 * u64::from(udp_bytes) + sum(&out[headers..]);
        // Zero would say that there is no checksum.
        let checksum = Some(!fold(total)).filter(|&c| c != 0).unwrap_or(0xffff);
        out[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
        if self.is_v6 {
            out[18..20].copy_from_slice(&udp_bytes.to_be_bytes());
        } else {
            let ip_bytes = (bytes - ETHERNET_BYTES) as u16;
            out[16..18].copy_from_slice(&ip_bytes.to_be_bytes());
            let checksum = !fold(self.ip_sum + u64::from(ip_bytes));
            out[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        bytes
    }
}

/// Classification of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// One of ours, whole.
    Ours {
        /// Stamp of the frame.
        stamp: Stamp,
        /// Hops that were left to it.
        hops: u8,
        /// Whether the checksum of its IPv4 header is right: routers rewrite it. The UDP one covers
        /// addresses and content without it.
        header_is_whole: bool,
    },
    /// One of ours by its tag, but with a wrong length, UDP checksum or filler.
    Corrupt,
    /// A frame of another source: ARP, neighbour discovery, another tag.
    Other,
}

/// Reads a frame as it came from the wire, without check sequence.
#[must_use]
pub fn read(frame: &[u8], tag: u16) -> Seen {
    let u16_at = |n: usize| frame.get(n..n + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let (udp, hops, addresses, ip_bytes) = match u16_at(12) {
        0x0800 if frame.get(14) == Some(&0x45) && frame.get(23) == Some(&17) => {
            (34, 22, 26..34, usize::from(u16_at(16)))
        }
        0x86dd if frame.get(20) == Some(&17) => (54, 21, 22..54, usize::from(u16_at(18)) + 40),
        _ => return Seen::Other,
    };
    let start = udp + 8;
    if frame.len() < start + STAMP_BYTES || u16_at(start) != tag {
        return Seen::Other;
    }
    let end = ETHERNET_BYTES + ip_bytes;
    let udp_bytes = usize::from(u16_at(udp + 4));
    if end > frame.len() || end < start + STAMP_BYTES || udp + udp_bytes != end {
        return Seen::Corrupt;
    }
    let header_is_whole = udp == 54 || fold(sum(&frame[14..34])) == 0xffff;
    let total = sum(&frame[addresses]) + 17 + udp_bytes as u64 + sum(&frame[udp..end]);
    // The filler is looked at too: a checksum does not see words that changed places.
    let rest = &frame[start + STAMP_BYTES..end];
    let filler_is_whole = FILLER.get(..rest.len()) == Some(rest);
    if u16_at(udp + 6) == 0 || fold(total) != 0xffff || !filler_is_whole {
        return Seen::Corrupt;
    }
    Seen::Ours { stamp: Stamp::parse(&frame[start..]), hops: frame[hops], header_is_whole }
}

/// Sum of big-endian words; an odd byte counts as the upper half of one (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |&b| u64::from(b) << 8);
    words.map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u64>() + odd
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(from: &str, to: &str) -> Template {
        Template::new(([1; 6], [2; 6]), from.parse().unwrap(), to.parse().unwrap(), TAG).unwrap()
    }

    fn both() -> [Template; 2] {
        [template("10.1.0.2:1000", "198.18.0.1:9"), template("[fd01::2]:1000", "[2001:2::1]:9")]
    }

    const STAMP: Stamp = Stamp {
        flow: 7,
        flow_sequence: 70_000,
        sequence: 4_000_000_000,
        scheduled_ns: (1 << 48) - 5,
    };

    #[test]
    fn what_is_written_is_read() {
        for template in both() {
            let mut out = [0; 1600];
            for bytes in [0, 60, 81, 128, 1514] {
                let length = template.write(STAMP, bytes, &mut out);
                assert_eq!(length, bytes.max(template.least_bytes()));
                let expected = Seen::Ours { stamp: STAMP, hops: HOPS, header_is_whole: true };
                assert_eq!(read(&out[..length], TAG), expected);
                assert_eq!(read(&out[..length], TAG + 1), Seen::Other);
                // Short frames are padded on their way.
                assert_eq!(read(&out[..length + 4], TAG), expected);
            }
        }
        assert_eq!(both()[0].least_bytes(), *FRAME_BYTES.start());
    }

    #[test]
    fn another_library_finds_the_checksums_right() {
        for template in both() {
            let mut out = [0; 300];
            let length = template.write(STAMP, 301 - 2, &mut out);
            let packet = etherparse::PacketHeaders::from_ethernet_slice(&out[..length]).unwrap();
            let udp = packet.transport.unwrap().udp().unwrap();
            let payload = packet.payload.slice();
            let expected = match packet.net.unwrap() {
                etherparse::NetHeaders::Ipv4(ip, _) => {
                    assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
                    udp.calc_checksum_ipv4(&ip, payload).unwrap()
                }
                etherparse::NetHeaders::Ipv6(ip, _) => {
                    udp.calc_checksum_ipv6(&ip, payload).unwrap()
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(udp.checksum, expected);
        }
    }

    #[test]
    fn any_changed_byte_behind_the_addresses_of_the_link_is_found() {
        for template in both() {
            let mut out = [0; 128];
            let length = template.write(STAMP, 128, &mut out);
            for n in 14..length {
                let mut changed = out;
                changed[n] ^= 0x10;
                let seen = read(&changed[..length], TAG);
                // IPv6 has no checksum over its traffic class, flow label and hop limit.
                let unguarded = template.is_v6 && matches!(n, 14..=17 | 21);
                if !unguarded {
                    let whole = matches!(seen, Seen::Ours { header_is_whole: true, .. });
                    assert!(!whole, "byte {n}: {seen:?}");
                }
                // What the UDP checksum covers must never be believed.
                let covered = if template.is_v6 { n >= 22 } else { n >= 26 };
                if covered {
                    assert!(!matches!(seen, Seen::Ours { .. }), "byte {n}: {seen:?}");
                }
            }
            assert_eq!(read(&out[..length - 1], TAG), Seen::Corrupt);
            for cut in 0..length - 1 {
                assert!(!matches!(read(&out[..cut], TAG), Seen::Ours { .. }));
            }
        }
    }

    #[test]
    fn ages_survive_the_end_of_the_clock() {
        assert_eq!(STAMP.age_ns(1 << 48), 5);
        assert_eq!(STAMP.age_ns((1 << 48) - 6), -1);
        assert_eq!(STAMP.age_ns((3 << 48) + 995), 1_000);
    }
}

//! Link layers of captures: frames of others than Ethernet get addresses of zeros.
//!
//! `tcpdump -i any` writes a header of Linux's own, tunnels and modems write packets alone.

use pcap_file::DataLink;

/// Header in front of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Ethernet,
    /// No header: the first half byte is the version of IP.
    Raw,
    /// Four bytes of a family (BSD's loopback).
    Family,
    /// `LINKTYPE_LINUX_SLL`: 16 bytes, the last two are the type.
    Cooked,
    /// `LINKTYPE_LINUX_SLL2`: 20 bytes, the first two are the type.
    Cooked2,
}

/// Types below are lengths of IEEE 802.3, or other things of Linux's own.
const FIRST_TYPE: u16 = 0x0600;

impl Link {
    /// The link of a capture; none if its frames cannot be sent.
    pub(super) fn of(link: DataLink) -> Option<Link> {
        match u32::from(link) {
            1 => Some(Link::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Link::Raw),
            0 | 108 => Some(Link::Family),
            113 => Some(Link::Cooked),
            276 => Some(Link::Cooked2),
            _ => None,
        }
    }

    /// Writes a packet as a frame of Ethernet; nothing if it is no packet.
    pub(super) fn frame(self, data: &[u8], frame: &mut Vec<u8>) {
        frame.clear();
        let number =
            |at: usize| data.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let of_ip = |packet: &[u8]| match packet.first().map(|first| first >> 4) {
            Some(4) => Some(0x0800),
            Some(6) => Some(0x86dd),
            _ => None,
        };
        let (kind, from) = match self {
            Link::Ethernet => {
                frame.extend_from_slice(data);
                return;
            }
            Link::Raw => (of_ip(data), 0),
            Link::Family => (data.get(4..).and_then(of_ip), 4),
            Link::Cooked => (number(14), 16),
            Link::Cooked2 => (number(0), 20),
        };
        let (Some(kind), Some(packet)) = (kind.filter(|it| *it >= FIRST_TYPE), data.get(from..))
        else {
            return;
        };
        frame.extend_from_slice(&[0; 12]);
        frame.extend_from_slice(&kind.to_be_bytes());
        frame.extend_from_slice(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_other_links_become_frames() {
        let packet = [0x45, 1, 2, 3];
        let with = |head: &[u8]| [head, &packet].concat();
        let cooked = with(&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0]);
        let cooked2 = with(&[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0]);
        let expected = [&[0; 12][..], &[8, 0], &packet].concat();
        let mut frame = Vec::new();
        for (link, data) in [
            (Link::Raw, packet.to_vec()),
            (Link::Family, with(&[2, 0, 0, 0])),
            (Link::Cooked, cooked),
            (Link::Cooked2, cooked2),
        ] {
            link.frame(&data, &mut frame);
            assert_eq!(frame, expected, "{link:?}");
            for cut in 0..data.len().min(4) {
                link.frame(&data[..cut], &mut frame);
            }
            link.frame(&[], &mut frame);
            assert!(frame.is_empty());
        }
        Link::Ethernet.frame(&packet, &mut frame);
        assert_eq!(frame, packet);
        assert_eq!(Link::of(DataLink::from(105)), None);
    }
}

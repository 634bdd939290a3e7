//! Fragmentation of IPv4 packets (RFC 791, 3.2).

use crate::checksum;
use crate::frame::Frame;
use crate::verdict::Verdict;
use crate::wire::{put16, V4Header, ETHERNET, ETHERTYPE_V4, MF, V4};
use crate::worker::{Cx, Way, Worker};

/// The headers of the fragments of one packet.
struct Headers {
    first: [u8; 60],
    first_len: usize,
    /// Only options that are to be in every fragment.
    later: [u8; 60],
    later_len: usize,
}

impl Headers {
    fn of(packet: &[u8], header: &V4Header) -> Headers {
        let mut first = [0; 60];
        first[..header.len].copy_from_slice(&packet[..header.len]);
        let mut later = first;
        let mut end = V4;
        let mut options = &packet[V4..header.len];
        // The copied flag is the highest bit of an option's type; types 0 and 1 are one byte long.
        while let Some(&kind) = options.first().filter(|&&kind| kind != 0) {
            let len = if kind == 1 { 1 } else { options.get(1).map_or(1, |&l| l.max(2)).into() };
            let option = &options[..len.min(options.len())];
            if kind & 0x80 != 0 {
                later[end..end + option.len()].copy_from_slice(option);
                end += option.len();
            }
            options = &options[option.len()..];
        }
        let later_len = end.next_multiple_of(4);
        later[end..].fill(0);
        later[0] = 0x40 | (later_len / 4) as u8;
        Headers { first, first_len: header.len, later, later_len }
    }
}

impl Worker {
    /// Sends a packet that is longer than its way's MTU, in pieces.
    pub(crate) fn v4_fragments(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<u16>,
        way: &Way,
        header: &V4Header,
        frame: &Frame<'_>,
    ) -> Verdict {
        let packet = &frame.bytes()[ETHERNET..];
        let headers = Headers::of(packet, header);
        let payload = &packet[header.len..];
        let mut done = 0;
        let mut verdict = Verdict::Consumed;
        while done < payload.len() {
            let (head, head_len) = match done {
                0 => (&headers.first, headers.first_len),
                _ => (&headers.later, headers.later_len),
            };
            // An MTU of 68 bytes holds the longest header and eight bytes.
            let room = (way.mtu - head_len) / 8 * 8;
            let piece = &payload[done..payload.len().min(done + room)];
            let last = done + piece.len() == payload.len();
            // Of a fragment that is itself not the last, no piece is.
            let more = if last { header.fragment & MF } else { MF };
            let offset = (header.fragment & 0x1fff) + (done / 8) as u16;
            let sent = self.with_scratch(ETHERNET + head_len + piece.len(), |worker, frame| {
                let bytes = frame.bytes_mut();
                put16(bytes, 12, ETHERTYPE_V4);
                let packet = &mut bytes[ETHERNET..];
                packet[..head_len].copy_from_slice(&head[..head_len]);
                packet[head_len..].copy_from_slice(piece);
                put16(packet, 2, (head_len + piece.len()) as u16);
                put16(packet, 6, more | offset & 0x1fff);
                put16(packet, 10, 0);
                let sum = checksum::of(&packet[..head_len]);
                put16(packet, 10, sum);
                worker.v4_piece(cx, from, way, frame)
            });
            verdict = sent.unwrap_or(verdict);
            self.counters.fragments += 1;
            done += piece.len();
        }
        self.counters.fragmented += 1;
        match verdict {
            Verdict::Send { .. } => {
                if from.is_some() {
                    self.in_pieces = true;
                    self.counters.forwarded += 1;
                    self.counters.forwarded_bytes += frame.len() as u64;
                }
                Verdict::Consumed
            }
            other => other,
        }
    }

    fn v4_piece(
        &mut self,
        cx: &mut Cx<'_>,
        from: Option<u16>,
        way: &Way,
        frame: &mut Frame<'_>,
    ) -> Verdict {
        let verdict = self.depart(cx, from, way, frame);
        if let Verdict::Send { port } = verdict {
            cx.out.send(port, frame.bytes());
        }
        verdict
    }
}

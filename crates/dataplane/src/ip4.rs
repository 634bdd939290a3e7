//! IPv4 (RFC 791, 1812): checks, look-up, TTL.

use crate::checksum;
use crate::counters::DropReason;
use crate::fib::Hop;
use crate::forwarder::{Cx, Verdict, Worker};
use crate::frame::Frame;
use crate::neighbours::Key;
use crate::wire::{be16, put16, V4Header, ETHERNET};

impl Worker {
    /// An IPv4 packet in its Ethernet frame; `group`: the frame went to more than this router.
    pub(crate) fn v4_input(
        &mut self,
        cx: &mut Cx<'_>,
        _port: u16,
        frame: &mut Frame<'_>,
        group: bool,
    ) -> Verdict {
        let header = match V4Header::check(&frame.bytes()[ETHERNET..]) {
            Ok(header) => header,
            Err(reason) => return Verdict::Drop(reason),
        };
        // Short frames are padded on the wire.
        frame.truncate(ETHERNET + header.total);
        if let Err(reason) = addresses(&header, &cx.tables.own_v4) {
            return Verdict::Drop(reason);
        }
        let hop = cx.tables.fib.v4(header.dst);
        if group {
            return Verdict::Drop(DropReason::Broadcast);
        }
        if header.ttl <= 1 {
            return Verdict::Drop(DropReason::TtlExceeded);
        }
        decrement(&mut frame.bytes_mut()[ETHERNET..]);
        match hop {
            Hop::Link { port } => self.transmit(cx, Key::v4(port, header.dst), frame),
            Hop::Gateway { port, gateway } => self.transmit(cx, Key::new(port, gateway), frame),
            Hop::None => Verdict::Drop(DropReason::NoRoute),
            Hop::Blackhole => Verdict::Drop(DropReason::Blackhole),
            Hop::Broadcast => Verdict::Drop(DropReason::Broadcast),
            Hop::Local => Verdict::Drop(DropReason::Unwanted),
        }
    }
}

/// Addresses that must not be on a wire (RFC 1812, 5.3.7; RFC 6890), or are not forwarded.
#[inline]
fn addresses(header: &V4Header, own: &[u32]) -> Result<(), DropReason> {
    let (src, dst) = (header.src, header.dst);
    let strange = |address: u32| matches!(address >> 24, 0 | 127 | 240..=255);
    if strange(src) || src >> 28 == 14 || own.contains(&src) {
        return Err(DropReason::Martian);
    }
    if dst == u32::MAX {
        return Err(DropReason::Broadcast);
    }
    if strange(dst) {
        return Err(DropReason::Martian);
    }
    if dst >> 28 == 14 {
        return Err(DropReason::Multicast);
    }
    Ok(())
}

/// One hop less, and the checksum to match (RFC 1624).
#[inline]
fn decrement(packet: &mut [u8]) {
    let old = be16(packet, 8);
    let new = old - 0x100;
    let sum = checksum::update(be16(packet, 10), old, new);
    put16(packet, 8, new);
    put16(packet, 10, sum);
}

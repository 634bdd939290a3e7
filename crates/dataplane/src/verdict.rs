//! What becomes of a frame: the words that all elements have in common.

use crate::counters::DropReason;

/// Receives the router's own frames.
pub trait Out {
    /// A frame that the router made (ARP, neighbour discovery, ICMP, fragments), or one that had to
    /// wait for its neighbour.
    fn send(&mut self, port: u16, frame: &[u8]);
    /// A datagram of flow records: the payload of a UDP packet to the collector.
    fn export(&mut self, datagram: &[u8]);
}

/// Decision on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The frame was rewritten and leaves by this port.
    Send {
        /// Number of the port, from 0.
        port: u16,
    },
    /// The frame was for the router, or left in pieces through [`Out::send`].
    Consumed,
    /// A copy waits for the neighbour's answer.
    Held,
    /// The frame is dropped.
    Drop(DropReason),
}

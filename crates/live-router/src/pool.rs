//! Memory of frames: fixed chunks that AF_XDP sockets, other sockets and workers pass round without
//! copying.
//!
//! ```text
//!  chunk: | kernel's 256 | HEAD_ROOM | frame as it came ...            | room to grow |
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halfwink_dataplane::Frame;
use xdp::slab::Slab;
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{Packet, Umem};

/// Room before a frame for headers that a tunnel adds: IPv6, ESP and its nonce, and some more.
pub const HEAD_ROOM: usize = 128;
/// Longest IP packet of a port, in bytes.
pub const MTU: u16 = 1500;
/// Size of a chunk, in bytes.
const CHUNK: usize = 2048;
/// Longest frame that a chunk takes as it comes, in bytes.
pub const LONGEST: usize = 1600;

/// All chunks. They live as long as the last socket or slot that names them.
#[derive(Clone)]
pub struct Pool {
    umem: Arc<Mutex<Umem>>,
    /// Address of the first chunk.
    base: usize,
}

/// A chunk with a frame. It must go back to its pool ([`Pool::free`]); one that is merely dropped
/// is lost until the pool goes, which is safe.
pub struct Slot {
    packet: Packet,
    /// Offset of the frame in the chunk.
    head: usize,
}

// SAFETY: a packet is a pointer into the pool's memory that nobody else has, and the pool outlives
// every slot: `Router` keeps it until all threads have ended.
unsafe impl Send for Slot {}

impl Pool {
    /// Allocates `chunks` chunks of 2 KiB.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(chunks: u32) -> std::io::Result<Pool> {
        let config = UmemCfgBuilder {
            frame_size: FrameSize::TwoK,
            head_room: HEAD_ROOM as u32,
            frame_count: chunks,
            ..UmemCfgBuilder::default()
        };
        let config = config.build().map_err(|e| std::io::Error::other(format!("{e:?}")))?;
        let mut umem = Umem::map(config)?;
        let mut base = 0;
        // SAFETY: the packet goes back at once.
        if let Some(first) = unsafe { umem.alloc() } {
            base = first.as_ptr() as usize / CHUNK * CHUNK;
            umem.free_packet(first);
        }
        Ok(Pool { umem: Arc::new(Mutex::new(umem)), base })
    }

    /// The memory itself, for rings.
    pub(super) fn umem(&self) -> MutexGuard<'_, Umem> {
        // A thread that panicked held no chunk half given back.
        self.umem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a slot's chunk.
    pub(super) fn number(&self, slot: &Slot) -> usize {
        (slot.packet.as_ptr() as usize - self.base) / CHUNK
    }

    /// Returns the number of free chunks.
    #[must_use]
    pub fn left(&self) -> usize {
        self.umem().allocatable()
    }

    /// Takes up to `most` empty chunks.
    pub fn take(&self, most: usize, into: &mut Vec<Slot>) {
        let mut umem = self.umem();
        for _ in 0..most {
            // SAFETY: the pool outlives its slots, see `Slot`.
            let Some(packet) = (unsafe { umem.alloc() }) else { return };
            into.push(Slot { packet, head: HEAD_ROOM });
        }
    }

    /// Returns chunks to the pool.
    pub fn free(&self, slots: &mut Vec<Slot>) {
        if slots.is_empty() {
            return;
        }
        let mut umem = self.umem();
        slots.drain(..).for_each(|slot| umem.free_packet(slot.packet));
    }
}

impl Slot {
    /// Wraps a packet that an AF_XDP ring received.
    pub(super) fn received(packet: Packet) -> Slot {
        Slot { packet, head: HEAD_ROOM }
    }

    /// Names the chunk a second time, for when it comes back from no ring.
    ///
    /// # Safety
    /// Only one of both may be used, and the other must not go back to the pool.
    pub(super) unsafe fn named_twice(&self) -> Slot {
        // SAFETY: a packet is a pointer and numbers, and has nothing to drop.
        Slot { packet: unsafe { std::ptr::read(&raw const self.packet) }, head: HEAD_ROOM }
    }

    /// Unwraps the packet for an AF_XDP ring.
    pub(super) fn into_packet(self) -> Packet {
        self.packet
    }

    /// Returns the frame's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.packet
    }

    /// Takes a frame's bytes; false if there are too many.
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        if !self.set_len(bytes.len()) {
            return false;
        }
        self.packet.copy_from_slice(bytes);
        true
    }

    /// Makes the frame so long; what it holds is whatever was there.
    pub fn set_len(&mut self, len: usize) -> bool {
        let by = len as i64 - self.packet.len() as i64;
        self.packet.adjust_tail(by as i32).is_ok()
    }

    /// Returns the frame's bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.packet
    }

    /// Lets `work` rewrite the frame, with the room before and behind it.
    pub fn rewrite<R>(&mut self, work: impl FnOnce(&mut Frame<'_>) -> R) -> R {
        const IN_CHUNK: &str = "room of the chunk itself";
        let (head, len) = (self.head, self.packet.len());
        let room = self.packet.capacity();
        self.packet.adjust_head(-(head as i32)).expect(IN_CHUNK);
        self.packet.adjust_tail((room - head - len) as i32).expect(IN_CHUNK);
        let mut frame = Frame::new(&mut self.packet, head, len).expect(IN_CHUNK);
        let done = work(&mut frame);
        let (head, len) = (frame.start(), frame.len());
        self.packet.adjust_tail(-((room - head - len) as i32)).expect(IN_CHUNK);
        self.packet.adjust_head(head as i32).expect(IN_CHUNK);
        self.head = head;
        done
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slot({} bytes)", self.packet.len())
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} left)", self.left())
    }
}

/// Slots on their way to or from a ring, first in first out.
pub(super) struct Queue<'a>(pub(super) &'a mut std::collections::VecDeque<Slot>, pub(super) usize);

impl Slab for Queue<'_> {
    fn available(&self) -> usize {
        self.1.saturating_sub(self.0.len())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push_front(&mut self, packet: Packet) -> Option<Packet> {
        self.0.push_back(Slot::received(packet));
        None
    }

    fn pop_back(&mut self) -> Option<Packet> {
        self.0.pop_front().map(Slot::into_packet)
    }
}

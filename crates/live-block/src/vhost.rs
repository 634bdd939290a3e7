//! The same devices to virtual machines: a vhost-user-blk back end. The guest's own driver puts
//! requests into memory that both share; a thread for each queue serves them, one phase each.
//!
//! ```text
//!  guest: virtio_blk ──▶ ring in shared memory ──▶ thread of the queue: device ──▶ used, call
//! ```
//!
//! Which thread completes is the guest's choice of queue, so that no policy is asked here.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{VhostUserBackend, VhostUserDaemon, VringRwLock, VringT};
use virtio_queue::{DescriptorChain, QueueOwnedT, Reader, Writer};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryLoadGuard, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    new_event_consumer_and_notifier, EventConsumer, EventFlag, EventNotifier,
};

use crate::backend::Backend;

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap>>;

const SECTOR: u64 = 512;
/// Bytes moved at once between the device and the guest, in whole blocks.
const PIECE: usize = 128 << 10;
/// Entries of a ring at most.
const RING: usize = 256;
/// Bytes that one discard or write-zeroes may name.
const MOST_ZEROES: u64 = 1 << 30;
/// Bytes of a segment of those: sector, count, flags.
const SEGMENT: usize = 16;

// Bits of features, request types and statuses: Virtual I/O Device (VIRTIO) 1.2, Sec 5.2, 6.
const F_SEG_MAX: u64 = 1 << 2;
const F_RO: u64 = 1 << 5;
const F_BLK_SIZE: u64 = 1 << 6;
const F_FLUSH: u64 = 1 << 9;
const F_MQ: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;
const F_INDIRECT: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_PROTOCOL: u64 = 1 << 30;
const F_VERSION_1: u64 = 1 << 32;

const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

const OK: u8 = 0;
const IOERR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// Counters of a back end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Served {
    /// Requests that were answered.
    pub requests: u64,
    /// Number of these that failed.
    pub failed: u64,
    /// Chains that were no request, and got no answer.
    pub broken: u64,
}

struct Inner {
    backend: Box<dyn Backend>,
    read_only: bool,
    queues: usize,
    event_idx: AtomicBool,
    memory: Memory,
    requests: AtomicU64,
    failed: AtomicU64,
    broken: AtomicU64,
}

/// A device for one virtual machine after another.
#[derive(Clone)]
pub struct Vhost(Arc<Inner>);

impl Vhost {
    /// Creates a back end with `queues` queues, 1 to 64, a thread each.
    ///
    /// # Errors
    ///
    /// The number of queues is out of range, or the device is not made of whole sectors.
    pub fn new(backend: Box<dyn Backend>, read_only: bool, queues: usize) -> Result<Vhost, String> {
        if !(1..=64).contains(&queues) {
            return Err(format!("{queues} queues: expected 1 to 64"));
        }
        if !backend.size().is_multiple_of(SECTOR) {
            return Err(format!("{} bytes: expected sectors of 512", backend.size()));
        }
        Ok(Vhost(Arc::new(Inner {
            backend,
            read_only,
            queues,
            event_idx: AtomicBool::new(false),
            memory: Memory::new(GuestMemoryMmap::new()),
            requests: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        })))
    }

    /// Serves one virtual machine at this socket, until it goes.
    ///
    /// # Errors
    /// What the machine does not allow, or what the other side did.
    pub fn serve(&self, socket: &Path) -> Result<(), String> {
        let name = "block vhost".to_owned();
        let memory = self.0.memory.clone();
        let made = VhostUserDaemon::new(name, self.clone(), memory);
        let mut daemon = made.map_err(|e| e.to_string())?;
        daemon.serve(socket).map_err(|e| format!("{}: {e}", socket.display()))
    }

    /// Flushes all answered writes to stable storage.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn flush(&self) -> io::Result<()> {
        self.0.backend.flush()
    }

    /// Returns the counters up to now.
    #[must_use]
    pub fn served(&self) -> Served {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Inner { requests, failed, broken, .. } = &*self.0;
        Served { requests: get(requests), failed: get(failed), broken: get(broken) }
    }

    /// All that waits in a ring; whether there was anything.
    fn drain(&self, vring: &VringRwLock, scratch: &mut [u8]) -> io::Result<bool> {
        let memory = self.0.memory.memory();
        let chains: Vec<Chain> = {
            let mut state = vring.get_mut();
            let waiting = state.get_queue_mut().iter(memory.clone()).map_err(io::Error::other)?;
            waiting.collect()
        };
        let any = !chains.is_empty();
        for chain in chains {
            let head = chain.head_index();
            let written = self.chain(&chain, &memory, scratch).unwrap_or_else(|| {
                self.0.broken.fetch_add(1, Ordering::Relaxed);
                0
            });
            vring.add_used(head, written).map_err(io::Error::other)?;
        }
        if any && vring.needs_notification().map_err(io::Error::other)? {
            vring.signal_used_queue()?;
        }
        Ok(any)
    }

    /// Serves one request; bytes written into the guest's memory, none if it is none.
    fn chain(&self, chain: &Chain, memory: &GuestMemoryMmap, scratch: &mut [u8]) -> Option<u32> {
        let mut input: Reader<'_, ()> = chain.clone().reader(memory).ok()?;
        let mut output: Writer<'_, ()> = chain.clone().writer(memory).ok()?;
        let mut head = [0; 16];
        input.read_exact(&mut head).ok()?;
        // The last byte that may be written is the status.
        let room = output.available_bytes().checked_sub(1)?;
        let mut status_at = output.split_at(room).ok()?;
        let kind = u32::from_le_bytes(head[..4].try_into().ok()?);
        let sector = u64::from_le_bytes(head[8..].try_into().ok()?);
        let status = match self.request(kind, sector, &mut input, &mut output, scratch) {
            Ok(status) => status,
            Err(_) => IOERR,
        };
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.failed.fetch_add(u64::from(status != OK), Ordering::Relaxed);
        status_at.write_all(&[status]).ok()?;
        Some(output.bytes_written() as u32 + 1)
    }

    /// A range of the device, if it is one.
    fn range(&self, sector: u64, bytes: u64) -> io::Result<u64> {
        let at = sector.checked_mul(SECTOR);
        let end = at.and_then(|at| at.checked_add(bytes));
        match (at, end) {
            (Some(at), Some(end)) if end <= self.0.backend.size() => Ok(at),
            _ => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        }
    }

    fn request(
        &self,
        kind: u32,
        sector: u64,
        input: &mut Reader<'_, ()>,
        output: &mut Writer<'_, ()>,
        scratch: &mut [u8],
    ) -> io::Result<u8> {
        let backend = &*self.0.backend;
        if self.0.read_only && matches!(kind, OUT | DISCARD | WRITE_ZEROES) {
            return Ok(IOERR);
        }
        match kind {
            IN => {
                let mut left = output.available_bytes();
                let mut at = self.range(sector, left as u64)?;
                while left > 0 {
                    let piece = &mut scratch[..left.min(PIECE)];
                    backend.read(at, piece)?;
                    output.write_all(piece)?;
                    at += piece.len() as u64;
                    left -= piece.len();
                }
            }
            OUT => {
                let mut left = input.available_bytes();
                let mut at = self.range(sector, left as u64)?;
                while left > 0 {
                    let piece = &mut scratch[..left.min(PIECE)];
                    input.read_exact(piece)?;
                    backend.write(at, piece)?;
                    at += piece.len() as u64;
                    left -= piece.len();
                }
            }
            FLUSH => backend.flush()?,
            GET_ID => {
                let id = b"halfwink\0";
                output.write_all(&id[..id.len().min(output.available_bytes())])?;
            }
            DISCARD | WRITE_ZEROES => {
                let mut segment = [0; SEGMENT];
                input.read_exact(&mut segment)?;
                let [a, b, c, d, e, f, g, h, i, j, k, l, m, ..] = segment;
                let sector = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                let bytes = u64::from(u32::from_le_bytes([i, j, k, l])) * SECTOR;
                // One segment is what the configuration offers.
                if input.available_bytes() > 0 || bytes > MOST_ZEROES {
                    return Ok(UNSUPPORTED);
                }
                let at = self.range(sector, bytes)?;
                if kind == DISCARD {
                    backend.trim(at, bytes)?;
                } else {
                    backend.zero(at, bytes, m & 1 == 0, false)?;
                }
            }
            _ => return Ok(UNSUPPORTED),
        }
        Ok(OK)
    }

    /// The configuration that a driver reads.
    fn config(&self) -> [u8; 60] {
        let mut config = [0; 60];
        let sectors = (MOST_ZEROES / SECTOR) as u32;
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.0.backend.size() / SECTOR).to_le_bytes());
        put(12, &(RING as u32 - 2).to_le_bytes());
        put(20, &(SECTOR as u32).to_le_bytes());
        put(34, &(self.0.queues as u16).to_le_bytes());
        for (most, segments) in [(36, 40), (48, 52)] {
            put(most, &sectors.to_le_bytes());
            put(segments, &1u32.to_le_bytes());
        }
        // Alignment of discards, in sectors; zeroes may lose their room.
        put(44, &8u32.to_le_bytes());
        put(56, &[1]);
        config
    }
}

impl VhostUserBackend for Vhost {
    type Bitmap = ();
    type Vring = VringRwLock;

    fn num_queues(&self) -> usize {
        self.0.queues
    }

    fn max_queue_size(&self) -> usize {
        RING
    }

    fn features(&self) -> u64 {
        let always = F_SEG_MAX | F_BLK_SIZE | F_FLUSH | F_MQ | F_INDIRECT | F_EVENT_IDX;
        let writes = if self.0.read_only { F_RO } else { F_DISCARD | F_WRITE_ZEROES };
        always | writes | F_PROTOCOL | F_VERSION_1
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::MQ
    }

    fn set_event_idx(&self, enabled: bool) {
        self.0.event_idx.store(enabled, Ordering::Relaxed);
    }

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let config = self.config();
        let from = (offset as usize).min(config.len());
        let to = from.saturating_add(size as usize).min(config.len());
        let mut found = config[from..to].to_vec();
        // What a driver asks for beyond is zero; more than a page it may not ask for.
        found.resize((size as usize).min(4096), 0);
        found
    }

    fn update_memory(&self, _memory: Memory) -> io::Result<()> {
        // It is the one that we gave: swapped inside.
        Ok(())
    }

    fn queues_per_thread(&self) -> Vec<u64> {
        (0..self.0.queues).map(|queue| 1 << queue).collect()
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::empty()).ok()
    }

    fn handle_event(
        &self,
        event: u16,
        _set: EventSet,
        vrings: &[VringRwLock],
        _thread: usize,
    ) -> io::Result<()> {
        let Some(vring) = vrings.get(usize::from(event)) else { return Ok(()) };
        let mut scratch = vec![0; PIECE];
        if !self.0.event_idx.load(Ordering::Relaxed) {
            return self.drain(vring, &mut scratch).map(drop);
        }
        loop {
            vring.disable_notification().map_err(io::Error::other)?;
            self.drain(vring, &mut scratch)?;
            if !vring.enable_notification().map_err(io::Error::other)? {
                return Ok(());
            }
        }
    }
}

//! What the programs in the kernel and this process share: `struct memory` of `forward.c`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};

use halfwink_live::bpf::{map_memory, Map};
use halfwink_policy::scaling::ENTRIES;

/// Largest number of CPUs. Frames that others receive are passed to the kernel's stack.
const CPUS: usize = crate::config::CPUS as usize;
/// Largest number of ports of a router.
pub(super) const PORTS: usize = 32;
const IN_ORDER: u8 = 0x80;

/// Counters of a CPU.
#[repr(C)]
pub(super) struct Counters {
    /// Frames that it forwarded or passed as the table says.
    pub(super) served: AtomicU64,
    /// Frames given to a device.
    pub(super) forwarded: AtomicU64,
    sent: AtomicU64,
    /// Frames given to the kernel's stack.
    pub(super) passed: AtomicU64,
    /// Frames in `served` that it received itself.
    pub(super) own: AtomicU64,
    /// Frames dropped while an entry waited for its old CPU.
    pub(super) held: AtomicU64,
    /// Moves that did not wait for the old CPU.
    pub(super) forced: AtomicU64,
    /// Moves that a frame followed.
    pub(super) moved: AtomicU64,
    _pad: [u64; 8],
}

/// Counters of a port on a CPU.
#[repr(C)]
struct Port {
    received: AtomicU64,
    sent: AtomicU64,
}

#[repr(C)]
struct Words {
    table: [AtomicU8; ENTRIES],
    mac: [AtomicU64; PORTS],
    counters: [Counters; CPUS],
    ports: [[Port; PORTS]; CPUS],
    followed: [[u8; ENTRIES]; CPUS],
    flows: [[[u64; 2]; ENTRIES]; CPUS],
    given: [[AtomicU64; CPUS]; CPUS],
    done: [[AtomicU32; CPUS]; CPUS],
}

/// The memory, and the map that holds it.
pub(super) struct Memory {
    map: OwnedFd,
    words: &'static Words,
    /// CPUs that this machine can have.
    cpus: usize,
}

impl Memory {
    /// Makes it, all zeros: each entry names CPU 0.
    pub(super) fn new(cpus: usize) -> io::Result<Memory> {
        let bytes = size_of::<Words>();
        let map = Map::shared(bytes)?;
        let words = map_memory(&map, bytes)?.cast::<Words>();
        // SAFETY: so many bytes stay mapped for as long as the process lives, and zeros are valid
        // words. `followed` and `flows` are the kernel's, and not read here.
        Ok(Memory { map, words: unsafe { &*words }, cpus: cpus.min(CPUS) })
    }

    pub(super) fn map(&self) -> RawFd {
        self.map.as_raw_fd()
    }

    /// Points an entry at a CPU.
    pub(super) fn redirect(&self, entry: u8, cpu: u32, in_order: bool) {
        let word = cpu as u8 | if in_order { IN_ORDER } else { 0 };
        self.words.table[usize::from(entry) % ENTRIES].store(word, Ordering::Release);
    }

    /// Sets the address of a port; frames to others are not its own.
    pub(super) fn set_mac(&self, port: usize, mac: [u8; 6]) {
        let [a, b, c, d, e, f] = mac;
        let word = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        self.words.mac[port].store(word, Ordering::Release);
    }

    /// Counters of a CPU.
    pub(super) fn counters(&self, cpu: u32) -> &Counters {
        &self.words.counters[cpu as usize]
    }

    /// Frames handed to a CPU by others, and those that wait in its ring or were lost behind the
    /// last one that it served.
    pub(super) fn handed(&self, cpu: u32) -> (u64, u64) {
        let (mut all, mut waiting) = (0, 0);
        for from in 0..self.cpus {
            // In this order: a frame may be given and served in between.
            let done = self.words.done[cpu as usize][from].load(Ordering::Acquire);
            let given = self.words.given[from][cpu as usize].load(Ordering::Acquire);
            all += given;
            waiting += u64::from((given as u32).wrapping_sub(done));
        }
        (all, waiting)
    }

    /// Frames received and sent by a port.
    pub(super) fn port(&self, port: usize) -> (u64, u64) {
        self.words.ports[..self.cpus].iter().fold((0, 0), |(received, sent), ports| {
            let port = &ports[port];
            let [more, gone] = [&port.received, &port.sent].map(|n| n.load(Ordering::Relaxed));
            (received + more, sent + gone)
        })
    }

    /// Sum of a counter over all CPUs.
    pub(super) fn sum(&self, of: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        self.words.counters[..self.cpus].iter().map(|c| of(c).load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn words_stand_where_the_program_has_them() {
        // As a compiler for BPF lays out `struct memory`; `forward.bpf` has these numbers in it.
        let of_counters = ENTRIES + PORTS * 8;
        assert_eq!((size_of::<Counters>(), offset_of!(Words, counters)), (128, of_counters));
        let of_ports = of_counters + CPUS * 128;
        assert_eq!(offset_of!(Words, ports), of_ports);
        let of_followed = of_ports + CPUS * PORTS * 16;
        assert_eq!(offset_of!(Words, followed), of_followed);
        let of_flows = of_followed + CPUS * ENTRIES;
        assert_eq!(offset_of!(Words, flows), of_flows);
        let of_given = of_flows + CPUS * ENTRIES * 16;
        assert_eq!(offset_of!(Words, given), of_given);
        assert_eq!(offset_of!(Words, done), of_given + CPUS * CPUS * 8);
    }
}

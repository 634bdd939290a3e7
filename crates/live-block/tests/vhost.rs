//! A vhost-user master, and a driver written by hand: rings in shared memory.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use halfwink_live_block::backend::Ram;
use halfwink_live_block::vhost::{Served, Vhost};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EventFd, EFD_NONBLOCK};

const BYTES: usize = 1 << 20;
const USED: u64 = 0x2000;
const AVAILABLE: u64 = 0x1000;
const BUFFERS: u64 = 0x10000;
const SIZE: u16 = 64;
const WRITE: u16 = 2;
const NEXT: u16 = 1;

/// A guest with one queue.
struct Guest {
    memory: GuestMemoryMmap,
    frontend: Frontend,
    kick: EventFd,
    call: EventFd,
    next: u16,
}

impl Guest {
    fn connect(path: &Path, features: u64) -> Guest {
        let file: File = tempfile::tempfile().unwrap();
        file.set_len(BYTES as u64).unwrap();
        let whole = (GuestAddress(0), BYTES, Some(FileOffset::new(file, 0)));
        let memory = GuestMemoryMmap::<()>::from_ranges_with_files(&[whole]).unwrap();
        let base = memory.get_host_address(GuestAddress(0)).unwrap() as u64;
        let mut frontend = loop {
            // It may not listen yet.
            match Frontend::connect(path, 1) {
                Ok(frontend) => break frontend,
                Err(_) => std::thread::yield_now(),
            }
        };
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        assert_eq!(offered & features, features);
        frontend.get_protocol_features().unwrap();
        frontend.set_protocol_features(VhostUserProtocolFeatures::CONFIG).unwrap();
        frontend.set_features(features | 1 << 30).unwrap();
        let region = memory.find_region(GuestAddress(0)).unwrap();
        let regions = [VhostUserMemoryRegionInfo::from_guest_region(region).unwrap()];
        frontend.set_mem_table(&regions).unwrap();
        let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
        frontend.set_vring_num(0, SIZE).unwrap();
        let config = VringConfigData {
            queue_max_size: 256,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: base,
            used_ring_addr: base + USED,
            avail_ring_addr: base + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &config).unwrap();
        frontend.set_vring_base(0, 0).unwrap();
        frontend.set_vring_call(0, &call).unwrap();
        frontend.set_vring_kick(0, &kick).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
        Guest { memory, frontend, kick, call, next: 0 }
    }

    fn put<T: vm_memory::ByteValued>(&self, at: u64, value: T) {
        self.memory.write_obj(value, GuestAddress(at)).unwrap();
    }

    /// Hands a chain over: address, bytes, flags of each part. Waits until it was used; bytes that
    /// the device says it has written.
    fn hand(&mut self, parts: &[(u64, u32, u16)]) -> u32 {
        for (n, &(address, length, flags)) in (0u16..).zip(parts) {
            let at = u64::from(n) * 16;
            self.put(at, address);
            self.put(at + 8, length);
            let more = usize::from(n) + 1 < parts.len();
            self.put(at + 12, flags | if more { NEXT } else { 0 });
            self.put(at + 14, n + 1);
        }
        self.put(AVAILABLE + 4 + u64::from(self.next % SIZE) * 2, 0u16);
        let used = self.next % SIZE;
        self.next += 1;
        self.put(AVAILABLE + 2, self.next);
        self.kick.write(1).unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while self.call.read().is_err() {
            assert!(Instant::now() < end, "no answer");
            std::thread::yield_now();
        }
        let found: u16 = self.memory.read_obj(GuestAddress(USED + 2)).unwrap();
        assert_eq!(found, self.next);
        self.memory.read_obj(GuestAddress(USED + 4 + u64::from(used) * 8 + 4)).unwrap()
    }

    /// A request as a driver makes it; its status.
    fn ask(&mut self, kind: u32, sector: u64, data: u32, flags: u16) -> u8 {
        self.put(BUFFERS, kind);
        self.put(BUFFERS + 8, sector);
        self.put(BUFFERS + 16, 0xffu8);
        let (head, status) = ((BUFFERS, 16, 0), (BUFFERS + 16, 1, WRITE));
        let body = (BUFFERS + 4096, data, flags);
        if data == 0 {
            self.hand(&[head, status]);
        } else {
            self.hand(&[head, body, status]);
        }
        self.memory.read_obj(GuestAddress(BUFFERS + 16)).unwrap()
    }

    fn data(&self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(BUFFERS + 4096)).unwrap();
        bytes
    }

    fn fill(&self, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(BUFFERS + 4096)).unwrap();
    }
}

const BASIC: u64 = 1 << 9 | 1 << 13 | 1 << 14 | 1 << 32;

fn with_guest(read_only: bool, play: impl FnOnce(Guest)) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let device = Vhost::new(Box::new(Ram::new(1 << 20).unwrap()), read_only, 1).unwrap();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| device.serve(&path));
        let features = if read_only { 1 << 5 | 1 << 32 } else { BASIC };
        play(Guest::connect(&path, features));
        serving.join().unwrap().unwrap();
    });
    device.served()
}

#[test]
fn a_driver_reads_what_it_wrote() {
    let served = with_guest(false, |mut guest| {
        let zero = [0; 60];
        let flags = VhostUserConfigFlags::empty();
        let (_, config) = guest.frontend.get_config(0, 60, flags, &zero).unwrap();
        assert_eq!(config[..8], 2048u64.to_le_bytes());
        for n in 0..100u8 {
            guest.fill(&[n + 1; 8192]);
            assert_eq!(guest.ask(1, u64::from(n), 8192, 0), 0);
            guest.fill(&[0; 8192]);
            assert_eq!(guest.ask(0, u64::from(n) + 1, 8192 - 512, WRITE), 0);
            assert!(guest.data(8192 - 512).iter().all(|&byte| byte == n + 1));
        }
        assert_eq!(guest.ask(4, 0, 0, 0), 0);
        // A segment of zeroes: eight sectors from the fourth on.
        let segment = [&4u64.to_le_bytes()[..], &8u32.to_le_bytes(), &[0; 4]].concat();
        guest.fill(&segment);
        assert_eq!(guest.ask(13, 0, 16, 0), 0);
        assert_eq!(guest.ask(0, 3, 512 * 10, WRITE), 0);
        let found = guest.data(512 * 10);
        assert!(found[512..512 * 9].iter().all(|&byte| byte == 0));
        assert_ne!((found[0], found[512 * 9]), (0, 0));
        assert_eq!(guest.ask(8, 0, 20, WRITE), 0);
        assert_eq!(&guest.data(8), b"halfwink");
    });
    assert_eq!(served, Served { requests: 204, failed: 0, broken: 0 });
}

#[test]
fn requests_that_cannot_be() {
    let served = with_guest(false, |mut guest| {
        // Beyond the end, and round the end of all numbers; kinds that nobody offered.
        assert_eq!(guest.ask(0, 2047, 1024, WRITE), 1);
        assert_eq!(guest.ask(1, u64::MAX / 512 + 1, 512, 0), 1);
        assert_eq!(guest.ask(1, u64::MAX, 512, 0), 1);
        assert_eq!(guest.ask(99, 0, 512, 0), 2);
        guest.fill(&[0xff; 16]);
        assert_eq!(guest.ask(11, 0, 16, 0), 2);
        assert_eq!(guest.ask(11, 0, 3, 0), 1);
        // No head, no room for a status, memory that is none.
        assert_eq!(guest.hand(&[(BUFFERS, 8, 0), (BUFFERS + 16, 1, WRITE)]), 0);
        assert_eq!(guest.hand(&[(BUFFERS, 16, 0)]), 0);
        assert_eq!(guest.hand(&[(1 << 40, 16, 0), (BUFFERS + 16, 1, WRITE)]), 0);
        // All the same it goes on.
        assert_eq!(guest.ask(0, 0, 512, WRITE), 0);
    });
    assert_eq!(served, Served { requests: 7, failed: 6, broken: 3 });
}

#[test]
fn a_read_only_device_is_not_written() {
    let served = with_guest(true, |mut guest| {
        assert_eq!(guest.ask(1, 0, 512, 0), 1);
        assert_eq!(guest.ask(0, 0, 512, WRITE), 0);
    });
    assert_eq!((served.requests, served.failed), (2, 1));
}

//! The hot path allocates nothing: every allocation of this process is counted.
#![allow(unsafe_code)] // a global allocator is

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

mod bed;

use bed::*;
use halfwink_dataplane::{
    AeadKey, AppSettings, Forwarder, Frame, IpsecSettings, Lifetime, NetFlowSettings, Numbers, Out,
    RedundancySettings, SecurityAssociation, Settings, Shared, Verdict,
};
use halfwink_units::Time;

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: it is the system's allocator; counting does not touch memory that it gives out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's duty is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty is the same.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

struct Nowhere;

impl Out for Nowhere {
    fn send(&mut self, _: u16, _: &[u8]) {}
    fn export(&mut self, _: &[u8]) {}
}

fn allocations(app: AppSettings) -> u64 {
    let shared = Shared::new(Settings { app, ..settings() }).expect("good settings");
    let mut router = Forwarder::new(shared, 0);
    let frames: Vec<Vec<u8>> = (0..64u8)
        .map(|n| udp4("10.0.0.2", &format!("192.0.2.{n}"), 64, &vec![n; 40 + usize::from(n) * 8]))
        .chain([udp6("2001:db8::2", "2001:db8:2::7", 64, &[1; 500])])
        .collect();
    let mut room = vec![0u8; 2048];
    let mut before = 0;
    for round in 0..40u64 {
        // The first round may learn, and set itself up.
        if round == 1 {
            before = COUNT.load(Ordering::Relaxed);
        }
        for bytes in &frames {
            room[128..128 + bytes.len()].copy_from_slice(bytes);
            let mut frame = Frame::new(&mut room, 128, bytes.len()).expect("fits");
            let verdict = router.process(Time::ns(round), 0, &mut frame, &mut Nowhere);
            assert_eq!(verdict, Verdict::Send { port: 1 });
        }
        router.tick(Time::ns(round * 20_000_000_000), &mut Nowhere);
    }
    COUNT.load(Ordering::Relaxed) - before
}

/// One test, so that nothing else runs in this process meanwhile.
#[test]
fn no_application_allocates_for_a_packet() {
    let association = SecurityAssociation {
        spi: 256,
        local: "10.0.1.1".parse().expect("one"),
        peer: "10.0.1.9".parse().expect("one"),
        key: AeadKey::new(&[1; 20]).expect("a length"),
        esn: false,
        selectors: vec![],
        numbers: Numbers::unkept(0),
        lifetime: Lifetime::default(),
    };
    let redundancy = RedundancySettings {
        link: 1,
        peer: "10.0.1.9".parse().expect("one"),
        ..RedundancySettings::default()
    };
    let ipsec =
        IpsecSettings { outbound: vec![association], inbound: vec![], ..IpsecSettings::default() };
    assert_eq!(allocations(AppSettings::Route), 0);
    assert_eq!(allocations(AppSettings::NetFlow(NetFlowSettings::default())), 0);
    assert_eq!(allocations(AppSettings::Ipsec(ipsec)), 0);
    assert_eq!(allocations(AppSettings::Redundancy(redundancy)), 0);
}

//! The kernel's forwarding under a policy that moves entries all the time, in a network namespace
//! of its own: no frame is lost or overtaken.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use halfwink_engine::Input;
use halfwink_live::descriptor::{bind_packet, packets_dropped, set_option, socket};
use halfwink_live::sys::CpuSet;
use halfwink_live_router::{Config, Interface, Report, Router};
use halfwink_policy::scaling::{Action, Event, Scaling, ScalingPolicy};
use halfwink_policy::{Policy, Snapshot};
use halfwink_units::Time;

/// Entries moved at a time, and the least time between: 2,000 moves a second and more.
const AT_ONCE: u32 = 3;
const EVERY: Time = Time::ns(1_000_000);
/// Frames a second, in bursts of so many frames of so many flows.
const PPS: u64 = 10_000;
const BURST: u64 = 1024;
/// Frames of a burst that is too long for a short ring.
const LONG_BURST: u64 = 4096;
const FLOWS: u64 = 64;
const FRAMES: u64 = 30_000;
const FRAME: usize = 60;
/// Runs until one is undisturbed.
const TRIES: usize = 10;

/// Moves entries from core to core, in turn.
struct Mover {
    in_order: bool,
    next: Time,
    entry: u32,
    left: u32,
}

impl Policy for Mover {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, _event: &Event) {}

    fn on_timer(&mut self, now: Time) {
        self.next = now.saturating_add(EVERY);
        self.left = AT_ONCE;
    }

    fn next_timer(&self) -> Option<Time> {
        Some(self.next)
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.left = self.left.checked_sub(1)?;
        let (round, entry) = (self.entry / 128, self.entry % 128);
        self.entry += 1;
        let to = (round % 2) as u8;
        Some(Action::Move { entry: entry as u8, to, in_order: self.in_order })
    }

    fn snapshot(&self) -> Snapshot {
        Vec::new()
    }
}

impl Scaling for Mover {}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Gives the calling thread a network namespace with a generator's and a sink's interface beside
/// the router's two; the reason why not, if that cannot be.
fn bed() -> Result<(), String> {
    let flags = libc::CLONE_NEWNET | libc::CLONE_NEWNS;
    // SAFETY: plain numbers.
    if unsafe { libc::geteuid() } != 0 || unsafe { libc::unshare(flags) } != 0 {
        return Err("network namespaces: run as root".to_owned());
    }
    // A sysfs shows the interfaces of the namespace in which it was mounted.
    mount(c"/", None, libc::MS_REC | libc::MS_PRIVATE);
    mount(c"/sys", Some(c"sysfs"), 0);
    if Command::new("ip").arg("-V").output().is_err() {
        return Err("ip is missing; run: apt-get install -y iproute2".to_owned());
    }
    for (port, peer, address) in [("p0", "g0", "10.1.0.1/24"), ("p1", "s0", "10.2.0.1/24")] {
        ip(&format!("link add {port} type veth peer name {peer}"));
        ip(&format!("address add {address} dev {port}"));
        ip(&format!("link set {port} up"));
        ip(&format!("link set {peer} up"));
        gro(peer);
    }
    for (name, on) in [("p0", "1"), ("p1", "1"), ("s0", "0")] {
        std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/forwarding"), on).unwrap();
    }
    ip(&format!("neighbour add 10.2.0.2 lladdr {} dev p1 nud permanent", text(mac("s0"))));
    ip("route add 198.18.0.0/15 via 10.2.0.2");
    Ok(())
}

fn mount(place: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) {
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the kernel reads the texts, which outlive the call.
    let done =
        unsafe { libc::mount(c"none".as_ptr(), place.as_ptr(), kind, flags, std::ptr::null()) };
    assert_eq!(done, 0, "{place:?}: {}", std::io::Error::last_os_error());
}

/// Has a peer of a router's interface receive by NAPI, without which it takes no frames from XDP.
fn gro(name: &str) {
    const SET_GRO: u32 = 0x2c;
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM).unwrap();
    let value = [SET_GRO, 1];
    // SAFETY: zeros are a valid request; the kernel reads the value, which outlives the call.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_ptr().cast_mut().cast();
        assert_eq!(libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request), 0);
    }
}

fn mac(name: &str) -> [u8; 6] {
    Interface::find(name).unwrap().mac
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn packets(name: &str, protocol: libc::c_int) -> OwnedFd {
    let socket = socket(libc::AF_PACKET, libc::SOCK_RAW).unwrap();
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &(256i32 << 20)).unwrap();
    bind_packet(&socket, Interface::find(name).unwrap().index, protocol).unwrap();
    socket
}

/// Sum of a header in ones' complement.
fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// A frame of a flow with its number.
fn frame(to: [u8; 6], flow: u64, number: u64) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..6].copy_from_slice(&to);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 8, 0]);
    let ip = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2, 198, 18, 0, 1];
    frame[14..34].copy_from_slice(&ip);
    frame[24..26].copy_from_slice(&(!sum(&ip)).to_be_bytes());
    frame[34..36].copy_from_slice(&(1000 + flow as u16).to_be_bytes());
    frame[36..42].copy_from_slice(&[0, 9, 0, 26, 0, 0]);
    frame[42..50].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Sends bursts in which each flow has several frames, on the first CPU.
fn send(burst: u64) {
    let _ = CpuSet::one(0).pin();
    let (socket, to) = (packets("g0", 0), mac("p0"));
    let start = Instant::now();
    for number in 0..FRAMES {
        if number % burst == 0 {
            let due = start + Duration::from_nanos(number * 1_000_000_000 / PPS);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let frame = frame(to, number % FLOWS, number);
        // SAFETY: the kernel reads the frame.
        let sent = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), FRAME, 0) };
        assert_eq!(sent, FRAME as isize);
    }
}

/// Frames that came, and those before which a later one of their flow came.
fn receive(socket: &OwnedFd, ended: &AtomicBool) -> (u64, u64) {
    let (mut last, mut came, mut overtaken) = (BTreeMap::new(), 0, 0);
    let (mut frame, to_mac) = ([0u8; 128], mac("s0"));
    let wait = libc::timeval { tv_sec: 0, tv_usec: 100_000 };
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &wait).unwrap();
    loop {
        let (to, room) = (frame.as_mut_ptr().cast(), frame.len());
        // SAFETY: the kernel writes `room` bytes at most.
        let got = unsafe { libc::recv(socket.as_raw_fd(), to, room, 0) };
        if got < 0 && ended.load(Ordering::Relaxed) {
            return (came, overtaken);
        }
        if got < FRAME as isize || frame[30..34] != [198, 18, 0, 1] {
            continue;
        }
        assert_eq!((frame[22], &frame[..6]), (63, to_mac.as_slice()), "hops left, address");
        assert_eq!(sum(&frame[14..34]), 0xffff, "header checksum");
        let number = u64::from_be_bytes(frame[42..50].try_into().unwrap());
        let before = last.entry(number % FLOWS).or_insert(number);
        overtaken += u64::from(number < *before);
        *before = number.max(*before);
        came += 1;
    }
}

fn start(forward: &str, queue: u32, in_order: bool) -> Router {
    let text = format!(
        "schema = 1\nforward = \"{forward}\"\nworkers = 2\ncpus = [0, 1]\nqueue = {queue}\n\
         [[port]]\ninterface = \"p0\"\n[[port]]\ninterface = \"p1\"\n"
    );
    let config = Config::parse(&Input::new("r.toml", text), std::path::Path::new("")).unwrap();
    let mover: ScalingPolicy = Box::new(Mover { in_order, next: EVERY, entry: 0, left: 0 });
    Router::start(config, mover, None).unwrap()
}

/// Frames that came, frames that were overtaken, and the report.
fn play(queue: u32, burst: u64, in_order: bool) -> (u64, u64, Report) {
    let mut router = start("xdp", queue, in_order);
    let sink = packets("s0", libc::ETH_P_IP);
    let ended = Arc::new(AtomicBool::new(false));
    let (came, overtaken) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&sink, &ended));
        scope.spawn(move || send(burst)).join().unwrap();
        ended.store(true, Ordering::Relaxed);
        receiver.join().unwrap()
    });
    assert_eq!(packets_dropped(&sink), 0);
    router.stop();
    (came, overtaken, router.report())
}

#[test]
fn entries_that_move_all_the_time_lose_and_reorder_nothing() {
    if let Err(why) = bed() {
        eprintln!("skipped: {why}");
        return;
    }
    // A neighbour that takes a CPU away for long has frames lost, or moves forced.
    let quiet = (0..TRIES).map(|_| play(4096, BURST, true)).find(|(came, overtaken, report)| {
        assert!(*overtaken == 0 || report.forward.forced > 0, "{overtaken}: {report:?}");
        *came == FRAMES && report.forward.forced == 0
    });
    let (_, _, report) = quiet.expect("frames were lost each time");
    assert!(report.moves >= 2_000, "{}", report.moves);
    assert!(report.forward.followed > 100, "{:?}", report.forward);
    assert_eq!((report.overflowed, report.unsent, report.packets["drop_moving"]), (0, 0, 0));
    assert!(report.workers.iter().all(|worker| worker.served > FRAMES / 10), "{report:?}");
    // The same traffic shows it where frames of moved entries do not wait.
    assert!(
        (0..TRIES).any(|_| play(4096, BURST, false).1 > 0),
        "no frame was overtaken where they may be"
    );
}

#[test]
fn frames_lost_in_a_full_ring_hold_no_entry_up() {
    if let Err(why) = bed() {
        eprintln!("skipped: {why}");
        return;
    }
    let full = (0..TRIES).map(|_| play(64, LONG_BURST, true)).find(|(came, overtaken, report)| {
        assert!(*overtaken == 0 || report.forward.forced > 0, "{overtaken}: {report:?}");
        *came < FRAMES && report.overflowed > 0 && report.forward.forced == 0
    });
    let (_, _, report) = full.expect("no ring was full, or moves were forced, each time");
    assert!(report.forward.followed > 10, "{:?}", report.forward);
}

#[test]
fn masks_of_packet_steering_name_the_cpus_that_have_entries() {
    if let Err(why) = bed() {
        eprintln!("skipped: {why}");
        return;
    }
    let masks = ["p0", "p1"].map(|name| format!("/sys/class/net/{name}/queues/rx-0/rps_cpus"));
    let read = || masks.each_ref().map(|path| std::fs::read_to_string(path).unwrap());
    let is = |mask: &str| read().iter().all(|text| text.trim().trim_start_matches('0') == mask);
    std::fs::write(&masks[1], "1").unwrap();
    let before = read();
    let mut router = start("rps", 1024, true);
    // All entries at the first CPU, at both, at the second.
    for mask in ["", "3", "2"] {
        let end = Instant::now() + Duration::from_secs(60);
        while !is(mask) {
            assert!(Instant::now() < end, "{mask}: {:?}", read());
            std::thread::yield_now();
        }
    }
    router.stop();
    assert_eq!(read(), before);
}

//! Idle periods from the kernel's record of every task switch (`perf_event_open` with
//! `context_switch`): to the idle task, whose number is 0, and away from it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::Periods;
use crate::sys;

/// Ring of each CPU: a page of header, and so many of records.
const PAGE: usize = 4096;
const DATA_PAGES: usize = 256;
/// Bytes of records after which the reader is woken: seldom, since it disturbs.
const WAKE_BYTES: u32 = (DATA_PAGES * PAGE / 4) as u32;
/// Longest sleep of the reader, in milliseconds.
const NAP_MS: u64 = 200;

/// `struct perf_event_attr` up to its sixth version, 112 bytes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    bp_addr: u64,
    bp_len: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
const SAMPLE_TIME: u64 = 1 << 2;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
const RECORD_LOST: u32 = 2;
const RECORD_SWITCH_CPU_WIDE: u32 = 15;
const SWITCH_OUT: u16 = 1 << 13;
/// Places in the ring's header page: of the kernel's and the reader's positions.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

#[derive(Debug)]
pub(super) struct Watch {
    /// End of the watch by the monotonic clock; until then `u64::MAX`.
    end_ns: Arc<AtomicU64>,
    reader: JoinHandle<(Vec<Ring>, io::Result<()>)>,
}

/// Result of a watch: periods and lost records of each CPU, and whether all was recorded.
pub(super) type Found = (Vec<(Periods, u64)>, io::Result<()>);

impl Watch {
    /// Begins; each period is written to `record` as a line of a table, if there is one.
    pub(super) fn begin(cpus: &[u32], record: Option<File>) -> Result<Watch, String> {
        let rings = cpus.iter().map(|&cpu| Ring::open(cpu)).collect::<Result<Vec<_>, _>>()?;
        let end_ns = Arc::new(AtomicU64::new(u64::MAX));
        let told = Arc::clone(&end_ns);
        let reader = thread::spawn(move || read(rings, record, &told));
        Ok(Watch { end_ns, reader })
    }

    pub(super) fn end(self) -> Found {
        let now = monotonic_ns();
        self.end_ns.store(now, Ordering::Release);
        let gone = |_| (Vec::new(), Err(io::Error::other("the reader of switch records is gone")));
        let (rings, recorded) = self.reader.join().unwrap_or_else(gone);
        (rings.into_iter().map(|ring| ring.finish(now)).collect(), recorded)
    }
}

fn read(
    mut rings: Vec<Ring>,
    record: Option<File>,
    end_ns: &AtomicU64,
) -> (Vec<Ring>, io::Result<()>) {
    let mut record = record.map(BufWriter::new);
    let mut recorded = match &mut record {
        Some(file) => file.write_all(b"cpu,begin_ns,end_ns\n"),
        None => Ok(()),
    };
    loop {
        // The end may be noticed late: what comes after it does not count.
        let end = end_ns.load(Ordering::Acquire);
        rings.iter_mut().for_each(|ring| ring.drain(end));
        if let (Some(file), Ok(())) = (&mut record, &recorded) {
            recorded = rings.iter_mut().try_for_each(|ring| ring.write(file));
        }
        rings.iter_mut().for_each(|ring| ring.fresh.clear());
        if end != u64::MAX {
            if let (Some(file), Ok(())) = (&mut record, &recorded) {
                recorded = file.flush();
            }
            return (rings, recorded);
        }
        let mut polled: Vec<libc::pollfd> = rings
            .iter()
            .map(|ring| libc::pollfd { fd: ring.fd, events: libc::POLLIN, revents: 0 })
            .collect();
        let (at, count) = (polled.as_mut_ptr() as u64, polled.len() as u64);
        // SAFETY: the kernel writes to `count` entries.
        unsafe { sys::call3(libc::SYS_poll, at, count, NAP_MS) };
    }
}

#[derive(Debug)]
struct Ring {
    cpu: u32,
    fd: i32,
    base: *mut u8,
    begun_ns: u64,
    /// Since when the CPU is idle.
    idle_ns: Option<u64>,
    /// Whether no record has come yet. The first one tells whether the CPU was idle before it.
    first: bool,
    periods: Periods,
    /// Periods that are not written yet: begin and end.
    fresh: Vec<(u64, u64)>,
    lost: u64,
    /// Lost records that the file does not tell of yet.
    untold: u64,
}

// SAFETY: the mapping belongs to this object, which one thread has at a time.
unsafe impl Send for Ring {}

impl Ring {
    fn open(cpu: u32) -> Result<Ring, String> {
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: DUMMY,
            sample_type: SAMPLE_TIME,
            flags: WATERMARK | SAMPLE_ID_ALL | USE_CLOCKID | CONTEXT_SWITCH,
            wakeup: WAKE_BYTES,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let (none, cloexec) = (u64::MAX, 8);
        let args = [&raw const attributes as u64, none, u64::from(cpu), none, cloexec, 0];
        // SAFETY: the kernel reads the attributes, whose size they hold.
        let fd = unsafe { sys::call(libc::SYS_perf_event_open, args) };
        if sys::is_error(fd) {
            return Err(format!(
                "switch records are not allowed (error {}): run as root or with CAP_PERFMON",
                -fd
            ));
        }
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let bytes = ((DATA_PAGES + 1) * PAGE) as u64;
        let args = [0, bytes, protection, libc::MAP_SHARED as u64, fd as u64, 0];
        // SAFETY: the kernel chooses the place, so nothing is overwritten.
        let base = unsafe { sys::call(libc::SYS_mmap, args) };
        if sys::is_error(base) {
            // SAFETY: it is ours, and nobody uses it.
            unsafe { sys::call3(libc::SYS_close, fd as u64, 0, 0) };
            return Err(format!("no room for switch records (error {})", -base));
        }
        Ok(Ring {
            cpu,
            fd: fd as i32,
            base: base as *mut u8,
            begun_ns: monotonic_ns(),
            idle_ns: None,
            first: true,
            periods: Periods::default(),
            fresh: Vec::new(),
            lost: 0,
            untold: 0,
        })
    }

    fn idle(&mut self, from: u64, to: u64) {
        self.periods.add(to.saturating_sub(from));
        if from < to {
            self.fresh.push((from, to));
        }
    }

    /// Writes the periods that have ended since the last time.
    fn write(&mut self, to: &mut impl Write) -> io::Result<()> {
        match std::mem::take(&mut self.untold) {
            0 => {}
            lost => writeln!(to, "# LOST {lost}")?,
        }
        self.fresh.iter().try_for_each(|(from, end)| writeln!(to, "{},{from},{end}", self.cpu))
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both positions lie in the header page, aligned, as long as the ring lives.
        unsafe { &*self.base.add(at).cast::<AtomicU64>() }
    }

    /// Reads all records that are there.
    fn drain(&mut self, end_ns: u64) {
        let size = DATA_PAGES * PAGE;
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        while tail < head {
            let mut record = [0u64; 8];
            let word = |n: u64| {
                let at = (tail + n * 8) as usize % size;
                // SAFETY: inside of the data pages; records are of whole, aligned words.
                unsafe { self.base.add(PAGE + at).cast::<u64>().read_volatile() }
            };
            let header = word(0);
            let bytes = header >> 48;
            for n in 0..(bytes / 8).min(8) {
                record[n as usize] = word(n);
            }
            record[2] =
                if header as u32 == RECORD_LOST { record[2] } else { record[2].min(end_ns) };
            self.take(&record, (header >> 32) as u16, header as u32);
            tail += bytes.max(8);
        }
        fence(Ordering::SeqCst);
        self.position(TAIL).store(tail, Ordering::Release);
    }

    fn take(&mut self, record: &[u64; 8], misc: u16, kind: u32) {
        match kind {
            RECORD_LOST => {
                self.lost += record[2];
                self.untold += record[2];
                // Where the CPU is now, nobody knows.
                self.idle_ns = None;
            }
            RECORD_SWITCH_CPU_WIDE if misc & SWITCH_OUT != 0 => {
                let (next_pid, at) = (record[1] as u32, record[2]);
                if next_pid == 0 {
                    self.idle_ns = Some(at);
                } else if let Some(since) = self.idle_ns.take() {
                    self.idle(since, at);
                }
                self.first = false;
            }
            // The first record: from the idle task, which has been there since the beginning.
            RECORD_SWITCH_CPU_WIDE if self.first => {
                self.first = false;
                if record[1] as u32 == 0 {
                    self.idle(self.begun_ns, record[2]);
                }
            }
            _ => {}
        }
    }

    fn finish(mut self, now_ns: u64) -> (Periods, u64) {
        if let Some(since) = self.idle_ns.take() {
            self.periods.add(now_ns.saturating_sub(since));
        }
        (self.periods.clone(), self.lost)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let bytes = ((DATA_PAGES + 1) * PAGE) as u64;
        // SAFETY: both are ours, and nobody uses them any more.
        unsafe {
            sys::call3(libc::SYS_munmap, self.base as u64, bytes, 0);
            sys::call3(libc::SYS_close, self.fd as u64, 0, 0);
        }
    }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = libc::CLOCK_MONOTONIC as u64;
    // SAFETY: the kernel writes one `timespec`.
    unsafe { sys::call3(libc::SYS_clock_gettime, clock, &raw mut now as u64, 0) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

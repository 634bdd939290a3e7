//! Lines of the kernel, by a BPF program on the CPU that will need them.
//!
//! ```text
//!  int preheat(u64 *args) {                  // first group, end, deadline, lines are timed
//!      for (g = args[0]; g < args[1] && g < GROUPS; g++)
//!          for (k = 0; k < 8; k++) {         // unrolled
//!              line = set.lines[g * 8 + k];
//!              if (line < text || line in one of three ranges)
//!                  bpf_probe_read_kernel(&discarded, 8, base + line * 64);
//!          }
//!  }
//! ```
//!
//! It is a raw tracepoint's program that is never attached: the command starts it by a test run. The
//! kernel checks it as any other, the program checks every address against the kernel's image once
//! more, and what it reads goes into eight bytes of stack that nobody looks at. Written out, since
//! loading it so needs neither a compiler nor libbpf. All of it goes with its descriptors.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::kernel::Image;

mod call;
mod code;
mod programs;
mod sockets;

use call::{create_map, map_memory, program, run};
use programs::Bounds;
pub use sockets::Sockets;

/// Lines of a group, which the program has unrolled.
pub const GROUP: usize = 8;
/// Groups that one run of the program takes.
pub const GROUPS_A_RUN: usize = 1024;
/// Lines that the map holds.
pub const LINES: usize = 1 << 16;
/// Lines that one timed run takes.
pub const TIMED_A_RUN: usize = 4096;

/// What the programs and the command share.
#[repr(C)]
#[derive(Debug)]
struct Values {
    /// When the last run began and ended, in nanoseconds of the monotonic clock.
    began_ns: AtomicU64,
    ended_ns: AtomicU64,
    /// Groups that runs have taken.
    groups: AtomicU64,
    /// Lines that programs refused.
    refused: AtomicU64,
    _pad: [u64; 4],
    lines: [AtomicU32; LINES],
    /// Nanoseconds of timed lines.
    took_ns: [AtomicU32; TIMED_A_RUN],
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// When its first line was about to be read, by the monotonic clock.
    pub began_ns: u64,
    /// When it was over.
    pub ended_ns: u64,
    /// Lines that were read or refused.
    pub lines: usize,
}

/// The programs, loaded, with the lines to read.
#[derive(Debug)]
pub struct Lines {
    values: *const Values,
    _map: OwnedFd,
    load: OwnedFd,
    time: OwnedFd,
    image: Image,
    /// Lines of the set that `set` stored.
    count: usize,
}

// SAFETY: what it points to is a mapping of atomics, which lasts as long as the process.
unsafe impl Send for Lines {}
// SAFETY: see above.
unsafe impl Sync for Lines {}

impl Lines {
    /// Loads the programs.
    ///
    /// # Errors
    /// What is missing, in one line.
    pub fn open(image: &Image) -> Result<Lines, String> {
        let missing = |what: &'static str| {
            move |e: io::Error| match e.raw_os_error() {
                Some(libc::EPERM) => format!("{what}: needs root or CAP_BPF and CAP_PERFMON"),
                _ => format!("{what}: {e}"),
            }
        };
        let bytes = size_of::<Values>();
        let map = create_map(bytes).map_err(missing("a BPF map"))?;
        let (bounds, fd) = (Bounds::of(image), map.as_raw_fd());
        let load = program(&programs::load(fd, &bounds)).map_err(missing("a BPF program"))?;
        let time = program(&programs::time(fd, &bounds)).map_err(missing("a BPF program"))?;
        let values = map_memory(&map, bytes).map_err(missing("the BPF map's memory"))?.cast();
        Ok(Lines { values, _map: map, load, time, image: image.clone(), count: 0 })
    }

    fn values(&self) -> &Values {
        // SAFETY: the mapping holds one, all atomics, and is never unmapped.
        unsafe { &*self.values }
    }

    /// Stores the lines to read, counted from the image's base.
    ///
    /// # Errors
    /// If one may not be read, or if there are more than [`LINES`].
    pub fn set(&mut self, lines: &[u64]) -> Result<(), String> {
        if lines.len() > LINES {
            return Err(format!("{} lines of the kernel: expected {LINES} at most", lines.len()));
        }
        if let Some(line) = lines.iter().find(|line| !self.image.allows(**line)) {
            return Err(format!("line {line:#x} of the kernel: expected one of its image"));
        }
        self.set_unchecked(lines);
        Ok(())
    }

    fn set_unchecked(&mut self, lines: &[u64]) {
        let last = lines.last().copied().unwrap_or(0);
        let padded = lines.len().next_multiple_of(GROUP);
        let all = lines.iter().copied().chain(std::iter::repeat(last)).take(padded);
        for (slot, line) in self.values().lines.iter().zip(all) {
            slot.store(line as u32, Ordering::Relaxed);
        }
        self.count = lines.len();
    }

    /// Reads a part of the set, by groups of [`GROUP`], on a CPU, until a time of the monotonic
    /// clock (0: to its end).
    ///
    /// # Errors
    /// As the kernel says.
    pub fn run_part(&self, cpu: u32, lines: Range<usize>, until_ns: u64) -> io::Result<Ran> {
        let end = lines.end.min(self.count).div_ceil(GROUP);
        let (mut group, mut ran) = (lines.start / GROUP, Ran::default());
        while group < end {
            let next = end.min(group + GROUPS_A_RUN);
            let before = self.values().groups.load(Ordering::Relaxed);
            run(&self.load, cpu, [group as u64, next as u64, until_ns])?;
            let taken = (self.values().groups.load(Ordering::Relaxed) - before) as usize;
            if ran.began_ns == 0 {
                ran.began_ns = self.values().began_ns.load(Ordering::Relaxed);
            }
            ran.ended_ns = self.values().ended_ns.load(Ordering::Relaxed);
            ran.lines += (taken * GROUP).min(self.count - group * GROUP);
            if group + taken < next {
                break;
            }
            group = next;
        }
        Ok(ran)
    }

    /// Reads all of the set.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn run(&self, cpu: u32, until_ns: u64) -> io::Result<Ran> {
        self.run_part(cpu, 0..self.count, until_ns)
    }

    /// Lines that the programs have refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.values().refused.load(Ordering::Relaxed)
    }

    /// Times one read of each line, in nanoseconds, and forgets the set.
    ///
    /// # Errors
    /// If one may not be read; as the kernel says.
    pub fn time(&mut self, cpu: u32, lines: &[u64]) -> Result<Vec<u32>, String> {
        self.set(lines)?;
        let mut all = Vec::with_capacity(lines.len());
        for from in (0..lines.len()).step_by(TIMED_A_RUN) {
            let end = lines.len().min(from + TIMED_A_RUN);
            let ran = run(&self.time, cpu, [from as u64, end as u64, 0]);
            ran.map_err(|e| format!("a timed run: {e}"))?;
            let took = &self.values().took_ns[..end - from];
            all.extend(took.iter().map(|took| took.load(Ordering::Relaxed)));
        }
        Ok(all)
    }
}


#[cfg(test)]
mod tests {
    use super::*;

    /// The programs, or the line that says why not.
    fn opened() -> Option<(Image, Lines)> {
        let found = Image::running().and_then(|image| Ok((image.clone(), Lines::open(&image)?)));
        found.map_err(|why| eprintln!("skipped: {why}")).ok()
    }

    #[test]
    fn every_line_of_a_set_is_read_on_the_cpu_that_was_asked_for() {
        let Some((image, mut lines)) = opened() else { return };
        let set: Vec<u64> = (0..20_003).filter(|line| image.allows(*line)).collect();
        lines.set(&set).unwrap();
        for cpu in halfwink_live::sys::CpuSet::allowed().iter() {
            let ran = lines.run(cpu, 0).unwrap();
            assert_eq!(ran.lines, set.len());
            assert!(ran.began_ns > 0 && ran.ended_ns > ran.began_ns);
        }
        assert_eq!(lines.run_part(0, 8..24, 0).unwrap().lines, 16);
        assert_eq!(lines.refused(), 0);
        assert!(lines.run(9_999, 0).is_err());
    }

    #[test]
    fn a_deadline_cuts_a_run() {
        let Some((_, mut lines)) = opened() else { return };
        lines.set(&(0..20_000).collect::<Vec<u64>>()).unwrap();
        // A time that has passed long ago: as much as there is between two looks at the clock.
        let ran = lines.run(0, 1).unwrap();
        assert!((1..=64).contains(&ran.lines), "{ran:?}");
    }

    #[test]
    fn what_is_no_part_of_the_image_is_refused_twice() {
        let Some((image, mut lines)) = opened() else { return };
        let beyond = image.allowed.iter().map(|r| r.end).max().unwrap_or(image.text.end);
        let problem = lines.set(&[0, beyond]).unwrap_err();
        assert!(problem.contains("expected one of its image"), "{problem}");
        // Written into the map by somebody else: the program refuses it.
        let between = image.text.end;
        assert!(!image.allows(between), "a hole between text and constants");
        lines.set_unchecked(&[0, between, 1, beyond, u64::from(u32::MAX), 2, 3, 4]);
        lines.run(0, 0).unwrap();
        assert_eq!(lines.refused(), 3);
    }

    #[test]
    fn reads_are_timed() {
        let Some((_, mut lines)) = opened() else { return };
        let set: Vec<u64> = (0..5_000).collect();
        lines.time(0, &set).unwrap();
        let took = lines.time(0, &set).unwrap();
        assert_eq!(took.len(), set.len());
        // Whatever the machine does meanwhile: most of them were cached.
        let quick = took.iter().filter(|ns| (1..100_000).contains(*ns)).count();
        assert!(quick > 4_000, "{quick}");
    }
}

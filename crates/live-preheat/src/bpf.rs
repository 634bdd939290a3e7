//! Lines of the kernel, by a BPF program on the CPU that will need them.
//!
//! ```text
//!  int preheat(u64 *args) {                  // first group, how many, deadline
//!      for (g = 0; g < GROUPS && g < args[1]; g++)
//!          for (k = 0; k < 8; k++) {         // unrolled
//!              line = set.lines[(args[0] + g) * 8 + k];
//!              if (line - first >= lines)     // of the image's part that this program is for
//!                  refused++, line = first;
//!              (void)*(u64 *)bpf_rdonly_cast(base + line * 64, ..);   // or bpf_probe_read_kernel
//!          }
//!  }
//! ```
//!
//! It is a raw tracepoint's program that is never attached: the command starts it by a test run.
//! The kernel checks it as any other, the program checks every address against the kernel's image
//! once more, and nobody looks at what it reads. Written out, since loading it so needs neither a
//! compiler nor libbpf. All of it goes with its descriptors.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::kernel::Image;

mod btf;
mod call;
#[cfg(test)]
mod checked;
mod code;
mod programs;
mod sockets;

use call::{program, run};
use halfwink_live::bpf::{map_memory, Map};
use programs::Bounds;
pub use sockets::Sockets;

/// Lines of a group, which the program has unrolled.
pub const GROUP: usize = 8;
/// Groups that one run of the program takes.
pub const GROUPS_A_RUN: usize = 1024;
/// Lines that the map holds.
pub const LINES: usize = 1 << 16;
/// Lines that one timed run takes.
pub const TIMED_A_RUN: usize = 2048;

/// Variables that the programs and the command share.
#[repr(C)]
#[derive(Debug)]
struct Values {
    /// Begin and end of the last run, in nanoseconds of the monotonic clock.
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

/// Times of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Time just before its first line was read, by the monotonic clock.
    pub began_ns: u64,
    /// Time of its end, by the monotonic clock.
    pub ended_ns: u64,
    /// Lines that were read or refused.
    pub lines: usize,
}

/// The programs, loaded, with the lines to read.
#[derive(Debug)]
pub struct Lines {
    values: *const Values,
    _map: OwnedFd,
    /// Program for each part of the image, with the lines of that part.
    load: Vec<(OwnedFd, Range<u64>)>,
    time: OwnedFd,
    image: Image,
    /// Number of the first group and number of lines, for each part that `set` stored.
    stored: Vec<(usize, usize)>,
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
        let map = Map::shared(bytes).map_err(missing("a BPF map"))?;
        let (bounds, fd) = (Bounds::of(image), map.as_raw_fd());
        let parts = std::iter::once(&image.text).chain(&image.allowed).cloned();
        let load = parts.enumerate().map(|(n, part)| {
            let code = programs::load(fd, &bounds, n);
            Ok((program(&code).map_err(missing("a BPF program"))?, part))
        });
        let load = load.collect::<Result<Vec<_>, String>>()?;
        let time = program(&programs::time(fd, &bounds)).map_err(missing("a BPF program"))?;
        let values = map_memory(&map, bytes).map_err(missing("the BPF map's memory"))?.cast();
        Ok(Lines { values, _map: map, load, time, image: image.clone(), stored: vec![] })
    }

    fn values(&self) -> &Values {
        // SAFETY: the mapping holds one, all atomics, and is never unmapped.
        unsafe { &*self.values }
    }

    /// Stores the lines to read, ascending, counted from the image's base.
    ///
    /// # Errors
    /// If one may not be read, or if there are more than [`LINES`].
    pub fn set(&mut self, lines: &[u64]) -> Result<(), String> {
        if lines.len() > LINES - GROUP * self.load.len() {
            // More than a request touches: what a neighbour did in each round was learned, too.
            return Err(format!(
                "{} lines of the kernel: expected {LINES} at most; learn again while nothing else \
                 runs on this machine",
                lines.len()
            ));
        }
        if let Some(line) = lines.iter().find(|line| !self.image.allows(**line)) {
            return Err(format!("line {line:#x} of the kernel: expected one of its image"));
        }
        self.stored.clear();
        let mut group = 0;
        for (_, part) in &self.load {
            let own: Vec<u64> = lines.iter().copied().filter(|line| part.contains(line)).collect();
            self.stored.push((group, own.len()));
            group += store(self.values(), group, &own);
        }
        Ok(())
    }

    /// Reads all of the set on a CPU, until a time of the monotonic clock (0: to its end).
    ///
    /// # Errors
    /// As the kernel says.
    pub fn run(&self, cpu: u32, until_ns: u64) -> io::Result<Ran> {
        let mut ran = Ran::default();
        for ((program, _), (group, lines)) in self.load.iter().zip(&self.stored) {
            let taken = self.run_part(program, cpu, (*group, *lines), until_ns, &mut ran)?;
            if taken < *lines {
                break;
            }
        }
        Ok(ran)
    }

    fn run_part(
        &self,
        program: &OwnedFd,
        cpu: u32,
        (first, lines): (usize, usize),
        until_ns: u64,
        ran: &mut Ran,
    ) -> io::Result<usize> {
        let (end, mut group) = (first + lines.div_ceil(GROUP), first);
        while group < end {
            let next = end.min(group + GROUPS_A_RUN);
            let before = self.values().groups.load(Ordering::Relaxed);
            run(program, cpu, [group as u64, (next - group) as u64, until_ns])?;
            let taken = (self.values().groups.load(Ordering::Relaxed) - before) as usize;
            if ran.began_ns == 0 {
                ran.began_ns = self.values().began_ns.load(Ordering::Relaxed);
            }
            ran.ended_ns = self.values().ended_ns.load(Ordering::Relaxed);
            let done = (group - first) * GROUP;
            ran.lines += (taken * GROUP).min(lines - done);
            if group + taken < next {
                return Ok((done + taken * GROUP).min(lines));
            }
            group = next;
        }
        Ok(lines)
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
        if let Some(line) = lines.iter().find(|line| !self.image.allows(**line)) {
            return Err(format!("line {line:#x} of the kernel: expected one of its image"));
        }
        self.stored.clear();
        let mut all = Vec::with_capacity(lines.len());
        for list in lines.chunks(TIMED_A_RUN) {
            store(self.values(), 0, list);
            let ran = run(&self.time, cpu, [0, list.len() as u64, 0]);
            ran.map_err(|e| format!("a timed run: {e}"))?;
            let took = &self.values().took_ns[..list.len()];
            all.extend(took.iter().map(|took| took.load(Ordering::Relaxed)));
        }
        Ok(all)
    }
}

/// Stores lines from a group on, the last one again up to the end of its group. How many groups.
fn store(values: &Values, group: usize, lines: &[u64]) -> usize {
    let padded = lines.len().next_multiple_of(GROUP);
    let last = lines.last().copied().unwrap_or(0);
    let all = lines.iter().copied().chain(std::iter::repeat(last)).take(padded);
    for (slot, line) in values.lines[group * GROUP..].iter().zip(all) {
        slot.store(line as u32, Ordering::Relaxed);
    }
    padded / GROUP
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs; where this machine does not allow them, the line that says so.
    fn opened() -> Option<(Image, Lines)> {
        let found = Image::running().and_then(|image| Ok((image.clone(), Lines::open(&image)?)));
        crate::skipped(found)
    }

    #[test]
    fn every_line_of_a_set_is_read_on_the_cpu_that_was_asked_for() {
        let Some((image, mut lines)) = opened() else { return };
        // Of text, constants and variables, each with a group that is not full.
        let some = image.allowed.iter().flat_map(|part| part.clone().take(1_001));
        let set: Vec<u64> = (0..20_003).chain(some).collect();
        lines.set(&set).unwrap();
        for cpu in halfwink_live::sys::CpuSet::allowed().iter() {
            let ran = lines.run(cpu, 0).unwrap();
            assert_eq!(ran.lines, set.len());
            assert!(ran.began_ns > 0 && ran.ended_ns > ran.began_ns);
        }
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
        lines.set(&[0, 1, 2, 3, 4, 5, 6, 7]).unwrap();
        store(lines.values(), 0, &[0, between, 1, beyond, u64::from(u32::MAX), 2, 3, 4]);
        lines.run(0, 0).unwrap();
        assert_eq!(lines.refused(), 3);
        assert!(lines.time(0, &[between]).is_err());
    }

    #[test]
    fn lines_below_a_part_are_refused_as_those_above_are() {
        let Some((image, mut lines)) = opened() else { return };
        for (n, part) in image.allowed.iter().enumerate() {
            let own: Vec<u64> = part.clone().take(GROUP).collect();
            lines.set(&own).unwrap();
            let before = lines.refused();
            // Text; the last line below; the first and the last of the part; the first above.
            let some = [0, part.start - 1, part.start, part.end - 1, part.end];
            store(lines.values(), 0, &some);
            lines.run(0, 0).unwrap();
            // The last one fills its group.
            assert_eq!(lines.refused() - before, 2 + 4, "part {n}: {part:?}");
        }
    }

    #[test]
    fn the_timing_program_refuses_what_is_no_part_of_the_image() {
        let Some((image, lines)) = opened() else { return };
        let between = image.text.end;
        let beyond = image.allowed.iter().map(|r| r.end).max().unwrap_or(between);
        store(lines.values(), 0, &[0, between, u64::from(u32::MAX), beyond, 1]);
        run(&lines.time, 0, [0, 5, 0]).unwrap();
        assert_eq!(lines.refused(), 3);
    }

    #[test]
    fn bpf_program_times_every_line() {
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

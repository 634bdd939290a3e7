//! Which lines a request uses, found out on the machine: empty the caches, let a request run, time
//! one load of each candidate. What is quick was cached by then (reload probing).
//!
//! Loads destroy what they look at and bring neighbours along, so a round looks at a part of the
//! candidates, far apart and in random order, and the request is played once for each part.
//! Candidates: the kernel's image, pages of files that the server maps, pages of its memory. What
//! was quick in each of several rounds is kept, what is quick without a request too is taken off
//! (Gottschlag 2016, Sec 4.1.1).

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use halfwink_live::clock::ticks_fenced;
use halfwink_policy::preheat::estimate::{Dump, Estimate};
use halfwink_policy::preheat::LineSet;

use crate::bpf;
use crate::kernel::{Image, LINE};
use crate::maps::{self, Mapping, Pages, Seen};
use crate::place::{Evictor, Place};
use crate::set::Lines;
use crate::shared::{Operation, Slot};

/// Candidates of one kind that a round looks at, at most.
const A_ROUND: usize = 4096;
/// Parts at least: neighbours are never looked at in the same round.
const PARTS: usize = 17;
/// Calibrations at most, and how long at least they are tried.
const TRIES: usize = 40;
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout of the thread in the server, in nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Tools of the learning rounds.
#[derive(Debug)]
pub struct Learner<'a> {
    /// On the server's CPU.
    pub place: &'a Place,
    /// Memory to fill caches with, how much of it fills the last one, and how much the second one.
    pub evictor: (Evictor, usize, usize),
    /// The programs, and their kernel.
    pub kernel: (Arc<Mutex<bpf::Lines>>, Image),
    /// The server's thread; without it lines of memory are left out.
    pub slot: Option<&'static Slot>,
    /// Process of the server.
    pub pid: u32,
    /// Requests that must have used a line.
    pub requests: u32,
}

/// A set, and what became of candidates.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Learned {
    /// Lines that were learned.
    #[serde(skip)]
    pub lines: Lines,
    /// Counts by kind: kernel, files, memory.
    pub kinds: Vec<Kind>,
    /// Rounds that were played.
    pub rounds: u32,
}

/// Counts of candidates of a kind.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Kind {
    /// Name of the kind.
    pub name: String,
    /// Lines that were looked at.
    pub candidates: usize,
    /// Number that were quick after the first request.
    pub first: usize,
    /// Number that were quick after all requests.
    pub common: usize,
    /// Number of these that were not quick without a request.
    pub kept: usize,
    /// Time of a load that is cached (the median): nanoseconds for the kernel, ticks otherwise.
    pub warm: u32,
    /// Time that nine in ten loads exceed that are not cached; see `warm`.
    pub cold: u32,
}

/// Function that times lines of a kind, in the order of a list.
type Probe<'a> = Box<dyn FnMut(&[u64]) -> Result<Vec<u32>, String> + 'a>;

impl Learner<'_> {
    /// Plays requests until the set is known.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn learn(
        &self,
        request: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Learned, String> {
        let mappings = maps::mappings(self.pid)?;
        let mut learned = Learned::default();
        let candidates: Vec<u64> = self.kernel.1.lines().collect();
        let probe = self.kernel_probe();
        let name = "kernel";
        learned.lines.kernel = self.kind(name, candidates, probe, request, &mut learned)?;
        let (seen, candidates) = self.file_candidates(&mappings)?;
        let probe = self.file_probe(&seen);
        let files = self.kind("files", candidates, probe, request, &mut learned)?;
        learned.lines.files = by_file(&seen, &files);
        if let Some(slot) = self.slot {
            let candidates = self.memory_candidates(&mappings)?;
            let probe = memory_probe(slot);
            learned.lines.memory = self.kind("memory", candidates, probe, request, &mut learned)?;
        }
        Ok(learned)
    }

    fn kind(
        &self,
        name: &str,
        candidates: Vec<u64>,
        mut probe: Probe<'_>,
        request: &mut dyn FnMut() -> Result<(), String>,
        learned: &mut Learned,
    ) -> Result<LineSet, String> {
        let mut kind = Kind { name: name.into(), candidates: candidates.len(), ..Kind::default() };
        if candidates.is_empty() {
            learned.kinds.push(kind);
            return Ok(LineSet::new());
        }
        let loads = self.calibrate(&candidates, &mut probe)?;
        (kind.warm, kind.cold) = (loads.warm, loads.cold);
        let limit = loads.warm.midpoint(loads.cold);
        let mut left = candidates;
        let mut estimate = Estimate::new();
        let rounds = &mut learned.rounds;
        for n in 0..self.requests.max(1) {
            left = self.dump(&left, limit, &mut probe, Some(request), rounds)?;
            estimate.intersect(Dump::new(left.clone()));
            if n == 0 {
                kind.first = left.len();
            }
        }
        kind.common = estimate.lines().len();
        // What is cached each time; once, it may be others' doing.
        let mut idle = left;
        for _ in 0..self.requests.max(1) {
            idle = self.dump(&idle, limit, &mut probe, None, rounds)?;
        }
        let collected = estimate.collected().map_err(|e| e.to_string())?;
        let set = collected.subtract(Dump::new(idle)).sort().lines().clone();
        kind.kept = set.len();
        learned.kinds.push(kind);
        Ok(set)
    }

    /// Candidates that are quick after a request, or after none.
    fn dump(
        &self,
        candidates: &[u64],
        limit: u32,
        probe: &mut Probe<'_>,
        mut request: Option<&mut dyn FnMut() -> Result<(), String>>,
        rounds: &mut u32,
    ) -> Result<Vec<u64>, String> {
        // Odd: the other half of a line's page is never in its part.
        let parts = candidates.len().div_ceil(A_ROUND).max(PARTS) | 1;
        let mut quick = Vec::new();
        for part in 0..parts {
            let mut list: Vec<u64> = candidates.iter().copied().skip(part).step_by(parts).collect();
            shuffle(&mut list, u64::from(*rounds));
            self.evict();
            if let Some(request) = &mut request {
                request()?;
            }
            // What the client's CPU has in its own caches would be quick too.
            let (evictor, _, second_bytes) = self.evictor;
            evictor.stream(second_bytes);
            let took = probe(&list)?;
            *rounds += 1;
            let hits = list.iter().zip(took).filter(|(_, took)| *took < limit);
            quick.extend(hits.map(|(line, _)| *line));
        }
        quick.sort_unstable();
        Ok(quick)
    }

    /// Times cached loads and others. Measures once more where another process had the CPU.
    fn calibrate(&self, candidates: &[u64], probe: &mut Probe<'_>) -> Result<Loads, String> {
        let step = (candidates.len() / 512).max(1);
        let mut list: Vec<u64> = candidates.iter().copied().step_by(step).take(512).collect();
        shuffle(&mut list, 1);
        probe(&list)?;
        let (began, mut tries) = (Instant::now(), 0);
        loop {
            self.evict();
            let cold = probe(&list)?;
            let loads = Loads::new(probe(&list)?, cold);
            if loads.differ() {
                return Ok(loads);
            }
            tries += 1;
            if tries >= TRIES && began.elapsed() >= PATIENCE {
                return Err(loads.to_string());
            }
        }
    }

    fn evict(&self) {
        let (evictor, bytes, _) = self.evictor;
        self.place.run(move || evictor.stream(bytes));
    }

    fn kernel_probe(&self) -> Probe<'_> {
        let cpu = self.place.cpu;
        Box::new(move |list| {
            let (lines, list) = (Arc::clone(&self.kernel.0), list.to_vec());
            self.place
                .run(move || lines.lock().map_err(|_| "another thread failed")?.time(cpu, &list))
        })
    }

    /// Files that the server maps, each once, and its lines there as `file << 40 | line`.
    fn file_candidates(&self, mappings: &[Mapping]) -> Result<(Vec<Seen>, Vec<u64>), String> {
        let mut seen: Vec<Seen> = Vec::new();
        let mut candidates = Vec::new();
        for mapping in mappings.iter().filter(|m| m.is_file()) {
            let path = std::path::Path::new(&mapping.name);
            let known = seen.iter().position(|s| s.path == path);
            let at = match (known, Seen::open(path)) {
                (Some(at), _) => at,
                (None, Ok(file)) => {
                    seen.push(file);
                    seen.len() - 1
                }
                // In another file system (a container's): left out.
                (None, Err(_)) => continue,
            };
            for pages in maps::pages(self.pid, &mapping.range, Pages::OfFiles)? {
                let offset = |address: u64| (address - mapping.range.start + mapping.offset) / LINE;
                let lines = offset(pages.start)..offset(pages.end);
                candidates.extend(lines.map(|line| (at as u64) << FILE_SHIFT | line));
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        Ok((seen, candidates))
    }

    fn file_probe<'a>(&'a self, seen: &'a [Seen]) -> Probe<'a> {
        Box::new(move |list| {
            let seen = seen.to_vec();
            let list = list.to_vec();
            Ok(self.place.run(move || {
                let time = |line: &u64| {
                    let file = &seen[(line >> FILE_SHIFT) as usize];
                    // Elsewhere in its page, so that the time is not that of the translation.
                    file.line((line ^ HALF_PAGE) & FILE_LINES).map(time_load);
                    file.line(line & FILE_LINES).map_or(u32::MAX, time_load)
                };
                list.iter().map(time).collect()
            }))
        })
    }

    fn memory_candidates(&self, mappings: &[Mapping]) -> Result<Vec<u64>, String> {
        let mut candidates = Vec::new();
        for mapping in mappings.iter().filter(|m| m.is_memory()) {
            for pages in maps::pages(self.pid, &mapping.range, Pages::Present)? {
                candidates.extend(pages.start / LINE..pages.end / LINE);
            }
        }
        Ok(candidates)
    }
}

const HALF_PAGE: u64 = maps::PAGE / LINE / 2;
const FILE_SHIFT: u32 = 40;
const FILE_LINES: u64 = (1 << FILE_SHIFT) - 1;

fn by_file(seen: &[Seen], lines: &LineSet) -> Vec<(std::path::PathBuf, LineSet)> {
    let of = |at: usize| {
        let own = lines.iter().filter(move |line| (line >> FILE_SHIFT) as usize == at);
        own.map(|line| line & FILE_LINES).collect::<LineSet>()
    };
    let all = seen.iter().enumerate().map(|(at, file)| (file.path.clone(), of(at)));
    all.filter(|(_, set)| !set.is_empty()).collect()
}

/// Times loads inside of the server; longer lists than fit are never asked for.
fn memory_probe(slot: &'static Slot) -> Probe<'static> {
    Box::new(move |list| {
        let addresses: Vec<u64> = list.iter().map(|line| line * LINE).collect();
        let number = slot.post(Operation::Time, Some(&addresses), 0);
        if !slot.wait(number, PATIENCE_NS) {
            return Err("the thread in the server does not answer".to_owned());
        }
        let took = slot.ticks.iter().take(list.len());
        Ok(took.map(|ticks| ticks.load(std::sync::atomic::Ordering::Relaxed)).collect())
    })
}

fn time_load(at: *const u8) -> u32 {
    let begun = ticks_fenced();
    // SAFETY: `Seen::line` gave it, of a mapping that lasts.
    unsafe { at.read_volatile() };
    (ticks_fenced() - begun) as u32
}

/// Times of loads of lines that are cached, and of lines that are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loads {
    /// Time that one in twenty of those that are cached does not exceed.
    warm_least: u32,
    /// Median of those that are cached.
    warm: u32,
    /// Time that nine in ten of those that are not cached exceed: the slow ones also miss
    /// translations.
    cold: u32,
}

impl Loads {
    fn new(mut warm: Vec<u32>, mut cold: Vec<u32>) -> Loads {
        warm.sort_unstable();
        cold.sort_unstable();
        let at =
            |all: &[u32], twentieths: usize| *all.get(all.len() * twentieths / 20).unwrap_or(&0);
        Loads { warm_least: at(&warm, 1), warm: at(&warm, 10), cold: at(&cold, 2) }
    }

    /// Difference between loads that are cached.
    fn spread(&self) -> u32 {
        self.warm - self.warm_least
    }

    /// Returns whether a limit between the two sorts more than noise. The clock, the system call
    /// around a load and a walk of nested page tables take both kinds alike, and can take longer
    /// than memory does: what counts is the difference, beside that between cached loads. Of these
    /// the quick half is looked at: neighbours take some lines out of the caches again before they
    /// are timed.
    fn differ(&self) -> bool {
        let apart = self.cold.saturating_sub(self.warm);
        apart > self.spread().saturating_mul(3) && apart > self.warm / 8 && self.cold != u32::MAX
    }
}

impl fmt::Display for Loads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loads { warm_least, warm, cold } = self;
        write!(
            f,
            "loads take {warm_least} to {warm} cached and {cold} after emptying the caches: no set \
             can be told on this machine"
        )
    }
}

/// Another order for each seed, the same each time (Fisher and Yates; SplitMix64).
fn shuffle(list: &mut [u64], seed: u64) {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for n in (1..list.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = state;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        list.swap(n, ((x ^ x >> 31) % (n as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 512 loads that take `least` and up to `noise` ticks longer.
    fn loads(least: u32, noise: u32, seed: u64) -> Vec<u32> {
        let mut all: Vec<u64> = (0..512).map(|n| n * u64::from(noise) / 511).collect();
        shuffle(&mut all, seed);
        all.into_iter().map(|more| least + more as u32).collect()
    }

    /// An older EPYC as a guest with nested paging: in the server each load stands in a system call
    /// of 765 ticks, and a load from memory takes less than half more than one from a cache.
    #[test]
    fn loads_in_slow_system_calls_are_told_by_their_difference() {
        let found = Loads::new(loads(845, 20, 1), loads(1_035, 220, 2));
        assert_eq!((found.warm_least, found.warm, found.cold), (845, 855, 1_056));
        assert!(found.cold < found.warm + found.warm / 2);
        assert!(found.differ());
        assert!(Loads::new(loads(85, 10, 1), loads(400, 60, 2)).differ());
        // A neighbour took two in five of the lines that were cached.
        let some = [loads(416, 26, 1)[..307].to_vec(), loads(728, 150, 2)[..205].to_vec()].concat();
        assert!(Loads::new(some, loads(728, 400, 3)).differ());
    }

    #[test]
    fn loads_that_noise_hides_are_refused() {
        for noise in [0, 1, 20, 400] {
            assert!(!Loads::new(loads(855, noise, 1), loads(855, noise, 2)).differ(), "{noise}");
        }
        assert!(!Loads::new(loads(90, 600, 1), loads(428, 600, 2)).differ());
        // A clock of 279 ns: a load is one tick or none.
        let coarse = |seed| loads(0, 2, seed).into_iter().map(|n| n / 2 * 279).collect();
        assert!(!Loads::new(coarse(1), coarse(2)).differ());
        // Caches that were not emptied: one line in five is slow.
        let few = [loads(85, 10, 1)[..410].to_vec(), loads(423, 10, 2)[..102].to_vec()].concat();
        assert!(!Loads::new(loads(85, 10, 3), few).differ());
        assert!(!Loads::new(vec![], vec![]).differ());
        assert!(!Loads::new(vec![u32::MAX; 9], vec![u32::MAX; 9]).differ());
        assert!(!Loads::new(vec![90; 9], vec![u32::MAX; 9]).differ());
        // Most loads failed, and some did not.
        let failed = [vec![90; 3], vec![u32::MAX; 17]].concat();
        assert!(!Loads::new(failed, vec![u32::MAX; 9]).differ());
    }
}

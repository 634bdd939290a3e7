//! Caches, translation and memory.

use halfwink_live::clock;

use super::Host;
use crate::arena::{lines, pages, Arena, LINE, PAGE};
use crate::code::reg::{RAX, RCX, RSI};
use crate::code::{Code, Gpr, Kernel};
use crate::fit::{capacity, crossing, parallelism, plateaus, Level, Measured};
use crate::sample::Bench;
use crate::Fault;

/// Loads of one sample; divisible by what is unrolled.
const LOADS: u64 = 4096;
/// Loads of an iteration.
const UNROLL: u64 = 16;
/// Times of memory that others use too are taken at the lowest tenth: a minimum would be a sample
/// of which many loads happened to hit.
const QUANTILE: f64 = 0.1;
/// Bytes of the smallest walk.
const LEAST: usize = 4096;

pub(super) fn measure(bench: &mut Bench, host: &mut Host, sizes: &[usize]) -> Result<(), Fault> {
    let arena = Arena::new(bench.effort.most_bytes, true).map_err(Fault::Memory)?;
    let share = arena.huge_share().unwrap_or(0.0);
    if share < 0.9 {
        host.notes.push(format!(
            "{:.0} % of the memory was in huge pages: latencies of caches hold page walks",
            100.0 * share
        ));
    }
    let chase = Chase::new()?;
    ladder(bench, host, &chase, &arena)?;
    levels(bench, host, &chase, &arena, sizes)?;
    small_pages(bench, host, &chase, &arena)?;
    streams(bench, host, &arena, sizes)?;
    in_flight(bench, host, &arena, sizes)
}

/// Code that follows pointers.
struct Chase(Kernel);

impl Chase {
    fn new() -> Result<Chase, Fault> {
        let mut code = Code::new();
        code.copy(RAX, RSI).top();
        (0..UNROLL).for_each(|_| {
            code.load(RAX, RAX, 0);
        });
        Ok(Chase(Kernel::map(&code.finish()).map_err(Fault::Code)?))
    }

    /// Nanoseconds of a load on a closed walk through `places`, after one pass.
    fn walk(&self, bench: &Bench, arena: &Arena, places: &[usize]) -> Result<Measured, Fault> {
        arena.link(places);
        let mut at = arena.address(places[0]);
        let mut follow = |loads: u64| {
            let start = clock::ticks_fenced();
            // SAFETY: a closed walk inside the arena.
            at = unsafe { self.0.run(loads / UNROLL, at as *mut u8, std::ptr::null_mut()) };
            clock::ticks_fenced() - start
        };
        // Linking wrote all of it, but in another order than it is walked.
        follow((places.len() as u64).next_multiple_of(UNROLL).min(MOST_WARM));
        let each = LOADS as f64;
        let samples: Vec<f64> =
            (0..bench.effort.runs).map(|_| bench.ns(follow(LOADS)) / each).collect();
        Measured::of(&samples, QUANTILE).ok_or(Fault::Nothing)
    }
}

/// Loads of a first pass, at most: of a walk much larger than every cache the rest is not there
/// anyway.
const MOST_WARM: u64 = 1 << 20;

/// Sizes by even steps of an octave.
fn octaves(from: usize, to: usize, per_octave: usize) -> Vec<usize> {
    let steps = (0..).map(|n| from as f64 * 2f64.powf(f64::from(n) / per_octave as f64));
    let mut sizes: Vec<usize> =
        steps.map(|s| s as usize / LINE * LINE).take_while(|&s| s <= to).collect();
    sizes.dedup();
    sizes
}

/// Rounds of the ladder: others use the last cache, and its size is that of the best of them.
const ROUNDS: usize = 3;

fn ladder(bench: &mut Bench, host: &mut Host, chase: &Chase, arena: &Arena) -> Result<(), Fault> {
    let sizes = octaves(LEAST, arena.bytes(), bench.effort.per_octave);
    let mut points: Vec<_> = sizes.iter().map(|&size| (size as f64, f64::INFINITY)).collect();
    for _ in 0..ROUNDS {
        for (&size, (_, least)) in sizes.iter().zip(&mut points) {
            *least = least.min(chase.walk(bench, arena, &lines(size, 1))?.value);
        }
    }
    let found = plateaus(&points, 3);
    host.curve("ladder.huge", ("bytes", "ns"), points, found);
    Ok(())
}

/// Returns the size at which a level's latency is measured: close to the level before it, but not
/// so close that that one helps. A shared cache may be smaller here than its size (a virtual
/// machine's share, other programs).
fn inside(before: usize, size: usize) -> usize {
    let low = (5 * before / 2).max(LEAST);
    let place = if before == 0 { size / 2 } else { low };
    place.min(3 * size / 4) / LINE * LINE
}

const LEVELS: [(&str, &str); 3] =
    [("latency.l1", "size.l1"), ("latency.l2", "size.l2"), ("latency.l3", "size.l3")];

fn levels(
    bench: &mut Bench,
    host: &mut Host,
    chase: &Chase,
    arena: &Arena,
    sizes: &[usize],
) -> Result<(), Fault> {
    let ladder = host.points("ladder.huge");
    let mut before = 0;
    let mut latencies = Vec::new();
    for (&size, (name, _)) in sizes.iter().zip(LEVELS) {
        let found = chase.walk(bench, arena, &lines(inside(before, size), 2))?;
        host.put(name, "ns", found);
        latencies.push(found);
        before = size;
    }
    let far = chase.walk(bench, arena, &lines(arena.bytes(), 2))?;
    host.put("latency.memory_far", "ns", far);
    latencies.push(far);
    for (pair, (_, name)) in latencies.windows(2).zip(LEVELS) {
        if let Some(value) = capacity(&ladder, pair[0].value, pair[1].value) {
            host.put(name, "bytes", Measured { value, ..pair[0] });
        }
    }
    // Beyond the last cache, and as near to it as can be: farther off translation adds its own.
    let last = LEVELS.iter().rev().find_map(|(_, name)| host.get(name));
    let near = last.map_or(arena.bytes(), |size| 3 * size.value as usize);
    if near > arena.bytes() {
        host.notes.push(format!(
            "memory: walked through {} bytes, expected {near}: caches shorten its latency",
            arena.bytes()
        ));
    }
    let near = near.min(arena.bytes()) / LINE * LINE;
    let found = chase.walk(bench, arena, &lines(near, 2))?;
    host.put("latency.memory", "ns", found);
    Ok(())
}

/// Reach of a TLB level, and the cost of a miss.
struct Reach {
    name: &'static str,
    cost: &'static str,
    pages: f64,
    ns: f64,
}

/// The first level is a plateau, and so is the second; behind it walks take the longer, the less
/// of the page tables is in the caches: what one costs is taken where twice as many pages are used
/// as it reaches.
fn reaches(points: &[(f64, f64)], levels: &[Level], floor: f64) -> Vec<Reach> {
    let mut found = Vec::new();
    let [first, second, ..] = levels else { return found };
    if let Some(pages) = capacity(points, first.value + floor, second.value + floor) {
        let ns = second.value - first.value;
        found.push(Reach { name: "tlb.l1", cost: "tlb.l1_miss", pages, ns });
    }
    let height = WALKS_SHOW * (second.value + floor);
    if let Some(pages) = crossing(points, height) {
        if let Some(at) = points.iter().find(|p| p.0 >= 2.0 * pages) {
            let ns = at.1 - floor - second.value;
            found.push(Reach { name: "tlb.l2", cost: "tlb.l2_miss", pages, ns });
        }
    }
    found
}

/// assumption: a walk that the caches answer takes some 20 cycles, and a first level with the
/// second one's answer 10: where their sum has doubled, half of the loads walk.
const WALKS_SHOW: f64 = 2.0;

/// Walks a line of each page, to measure the reach of the TLB and the cost beyond it.
fn small_pages(
    bench: &mut Bench,
    host: &mut Host,
    chase: &Chase,
    huge: &Arena,
) -> Result<(), Fault> {
    let most = bench.effort.most_bytes.min(128 << 20);
    let small = Arena::new(most, false).map_err(Fault::Memory)?;
    let mut points = Vec::new();
    for bytes in octaves(8 * PAGE, most, bench.effort.per_octave) {
        let count = bytes / PAGE;
        let translated = chase.walk(bench, &small, &pages(count, 3))?;
        // As many lines without a page each: what the caches alone take.
        let alone = chase.walk(bench, huge, &lines(count * LINE, 3))?;
        points.push((count as f64, translated.value - alone.value));
    }
    // A logarithm needs heights above 0: what is added is the latency of the first level.
    let floor = host.get("latency.load").map_or(1.0, |l| l.value * bench.cycle_ns());
    let raised: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1.max(0.0) + floor)).collect();
    let mut found = plateaus(&raised, 3);
    found.iter_mut().for_each(|level| level.value -= floor);
    let reached = reaches(&raised, &found, floor);
    if let Some(second) = reached.get(1) {
        walks(bench, host, &small, 4 * second.pages as usize)?;
    }
    for reach in reached {
        let spread = Measured { value: reach.pages, spread_pct: 0.0, runs: bench.effort.runs };
        host.put(reach.name, "pages", spread);
        host.put(reach.cost, "ns", Measured { value: reach.ns, ..spread });
    }
    host.curve("tlb", ("pages", "ns"), points, found);
    let mut ladder = Vec::new();
    for size in octaves(LEAST, most, 1) {
        ladder.push((size as f64, chase.walk(bench, &small, &lines(size, 4))?.value));
    }
    host.curve("ladder.small", ("bytes", "ns"), ladder, Vec::new());
    Ok(())
}

/// Measures the time of a page walk where many may be under way at once: loads from more pages than
/// any TLB level holds, whose lines fit in the second-level cache.
fn walks(bench: &Bench, host: &mut Host, small: &Arena, count: usize) -> Result<(), Fault> {
    let places = pages(count.min(small.bytes() / PAGE), 5);
    let points = at_once(bench, small, &places, &[1, 2, 4, 8, 12, 16])?;
    let least = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    host.put(
        "tlb.walks",
        "ns",
        Measured { value: least, spread_pct: 0.0, runs: bench.effort.runs },
    );
    host.curve("tlb.walks", ("walks", "ns for each load"), points, Vec::new());
    Ok(())
}

/// A line by its number, one after the other: bytes a nanosecond of each level, for one core.
fn streams(
    bench: &mut Bench,
    host: &mut Host,
    arena: &Arena,
    sizes: &[usize],
) -> Result<(), Fault> {
    let mut code = Code::new();
    code.top();
    for n in 0..8 {
        code.load(RAX, RSI, n * LINE as i32);
    }
    // add rsi, 8 lines
    code.raw(&[0x48, 0x81, 0xc6]).raw(&(8 * LINE as u32).to_le_bytes());
    let kernel = Kernel::map(&code.finish()).map_err(Fault::Code)?;
    let mut before = 0;
    let rest = [arena.bytes()];
    let names = ["bandwidth.l1", "bandwidth.l2", "bandwidth.l3", "bandwidth.memory"];
    let skip = 3 - sizes.len().min(3);
    let all = sizes.iter().take(3).chain(&rest).zip(names.iter().enumerate());
    for (&size, (n, name)) in all {
        let is_memory = size == arena.bytes();
        let bytes = if is_memory { size } else { inside(before, size) };
        let name = if is_memory { names[n + skip] } else { name };
        before = size;
        let bytes = bytes / (8 * LINE) * 8 * LINE;
        let run = || {
            let start = clock::ticks_fenced();
            // SAFETY: the loads stay below `bytes` of the arena.
            unsafe { kernel.run((bytes / (8 * LINE)) as u64, arena.base(), std::ptr::null_mut()) };
            clock::ticks_fenced() - start
        };
        run();
        let runs = if is_memory { bench.effort.runs.min(8) } else { 4 * bench.effort.runs };
        let samples: Vec<f64> = (0..runs).map(|_| bench.ns(run()) / bytes as f64).collect();
        let found = Measured::of(&samples, QUANTILE).ok_or(Fault::Nothing)?;
        host.put(name, "GB/s", found.inverse(1.0));
    }
    Ok(())
}

/// Walks at the same time, at the most.
const WALKS: usize = 64;

/// Several walks at once: misses that the core has in flight.
fn in_flight(
    bench: &mut Bench,
    host: &mut Host,
    arena: &Arena,
    sizes: &[usize],
) -> Result<(), Fault> {
    // Into the last cache, if there are three: what is asked is how many the first level can have
    // in flight, and memory may have a bound of its own.
    let within = |n: usize| Some(inside(*sizes.get(n.checked_sub(1)?)?, *sizes.get(n)?));
    let targets = [
        ("in_flight.l3", "latency.l3", within(2)),
        ("in_flight.memory", "latency.memory_far", Some(arena.bytes())),
    ];
    for (name, alone, bytes) in targets {
        let (Some(bytes), Some(alone)) = (bytes, host.get(alone)) else { continue };
        let places = lines(bytes, 6);
        let counts = [1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, WALKS];
        let points = at_once(bench, arena, &places, &counts)?;
        // A walk alone as it is here: with its head in memory, and where translation adds as much.
        let own = points[0].1;
        if let Some(found) = parallelism(own, &points) {
            host.put(name, "misses", Measured { value: found, ..alone });
        }
        host.curve(name, ("walks", "ns for each load"), points, Vec::new());
    }
    Ok(())
}

/// Returns the nanoseconds of a load by the number of simultaneous walks through these places.
fn at_once(
    bench: &Bench,
    arena: &Arena,
    places: &[usize],
    counts: &[usize],
) -> Result<Vec<(f64, f64)>, Fault> {
    arena.link(places);
    let heads = Arena::new(PAGE, false).map_err(Fault::Memory)?;
    let mut points = Vec::new();
    for &walks in counts {
        for n in 0..walks {
            heads.write(8 * n, arena.address(places[n * (places.len() / walks)]));
        }
        points.push((walks as f64, together(bench, &heads, walks)?));
    }
    Ok(points)
}

/// Nanoseconds of a load, of so many walks that take turns; their heads lie in memory.
fn together(bench: &Bench, heads: &Arena, walks: usize) -> Result<f64, Fault> {
    let mut code = Code::new();
    code.set(RCX, 0).top();
    for n in 0..walks {
        let offset = 8 * n as i32;
        let r: Gpr = [8, 9, 10, 11][n % 4];
        code.load(r, RSI, offset).load(r, r, 0).store(r, RSI, offset);
    }
    let kernel = Kernel::map(&code.finish()).map_err(Fault::Code)?;
    let rounds = (LOADS as usize / walks) as u64;
    let run = || {
        let start = clock::ticks_fenced();
        // SAFETY: heads are in the arena of heads, and lead along closed walks.
        unsafe { kernel.run(rounds, heads.base(), std::ptr::null_mut()) };
        clock::ticks_fenced() - start
    };
    run();
    let each = (rounds as usize * walks) as f64;
    let samples: Vec<f64> = (0..bench.effort.runs).map(|_| bench.ns(run()) / each).collect();
    Ok(Measured::of(&samples, QUANTILE).ok_or(Fault::Nothing)?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_has_its_steps() {
        assert_eq!(octaves(4096, 16384, 2), [4096, 5760, 8192, 11584, 16384]);
    }

    #[test]
    fn translation_reaches_as_far_as_it_did_when_it_was_made_up() {
        // 64 entries and 2048 behind them: 2 ns more, then walks of 30.
        let points: Vec<(f64, f64)> = octaves(8 * PAGE, 64 << 20, 4)
            .into_iter()
            .map(|bytes| (bytes / PAGE) as f64)
            .map(|n| {
                (
                    n,
                    if n <= 64.0 {
                        1.0
                    } else if n <= 2048.0 {
                        3.0
                    } else {
                        33.0
                    },
                )
            })
            .collect();
        let mut levels = plateaus(&points, 3);
        levels.iter_mut().for_each(|l| l.value -= 1.0);
        let found = reaches(&points, &levels, 1.0);
        assert_eq!((found[0].name, found[0].ns), ("tlb.l1", 2.0));
        assert!((64.0..76.0).contains(&found[0].pages), "{}", found[0].pages);
        assert_eq!((found[1].name, found[1].ns), ("tlb.l2", 30.0));
        assert!((2048.0..2436.0).contains(&found[1].pages), "{}", found[1].pages);
    }

    #[test]
    fn a_level_is_measured_inside() {
        assert_eq!(inside(0, 32 << 10), 16 << 10);
        assert_eq!(inside(32 << 10, 1 << 20), 80 << 10);
        // A second level hardly larger than the first.
        assert_eq!(inside(32 << 10, 64 << 10), 48 << 10);
    }
}

//! Data and instruction prefetchers of a core: what they learn from its accesses, and which lines
//! they want before anybody asks for them.
//!
//! ```text
//!  accesses of a cache ─▶ prefetcher ─ lines ─▶ the cache, as misses that nobody waits for
//! ```
//!
//! | kind | of | wants |
//! |---|---|---|
//! | `next-line` | any cache | the lines behind each new one |
//! | `stride` | the data cache | what lies so many strides of an instruction ahead |
//! | `streamer` | the second level | what lies ahead in the direction in which a page is read |
//!
//! Strides are those of Fu, Patel and Janssens (MICRO 1992); streams go back to Jouppi (ISCA 1990).
//!
//! A prefetcher is a pure function of the accesses that it sees, in their order, each once: what
//! it wants depends neither on how far cores run ahead nor on which cycles are visited. It knows
//! physical lines and never leaves a page: the next one lies anywhere.
//!
//! The agents of [`preheating`](crate::preheat) are not its seam: what they ask for is known when a
//! run begins, and comes from beside the cores; this comes out of a core's own caches.

mod private;
mod streamer;
mod stride;

use halfwink_units::{LINE_SHIFT, PAGE_SHIFT};

use crate::machine::{PrefetchKind, PrefetchSpec, PrefetcherSpec};
use streamer::Streamer;
use stride::Strides;

/// Counters of a prefetcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetcherCounts {
    /// Lines that it wanted and that its cache did not have: asked for.
    pub issued: u64,
    /// Wanted, but there was no place in its queue or no miss register to spare.
    pub dropped: u64,
    /// Prefetched lines that were used after they arrived.
    pub useful: u64,
    /// Asked for by the core while they were on their way.
    pub late: u64,
    /// Left their cache unused.
    pub useless: u64,
    /// Look-ups of its cache, whatever they found.
    pub lookups: u64,
}

/// Counters of a core's prefetchers, by cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchCounts {
    /// Prefetcher of the instruction cache.
    pub l1i: PrefetcherCounts,
    /// Prefetcher of the data cache.
    pub l1d: PrefetcherCounts,
    /// Prefetcher of the second level.
    pub l2: PrefetcherCounts,
    /// Look-ups of the second level by those of the first.
    pub l2_lookups: u64,
}

/// Lines of a page.
const PAGE_LINES: u64 = 1 << (PAGE_SHIFT - LINE_SHIFT);

/// The line so many lines from `line`, if it is in the same page.
#[inline]
fn within_page(line: u64, distance: i64) -> Option<u64> {
    let wanted = line.wrapping_add_signed(distance);
    (wanted / PAGE_LINES == line / PAGE_LINES).then_some(wanted)
}

#[derive(Clone, Debug)]
enum Kind {
    NextLine { last: u64 },
    Stride(Strides),
    Streamer(Streamer),
}

/// A prefetcher of one cache.
#[derive(Clone, Debug)]
pub(crate) struct Prefetcher {
    kind: Kind,
    degree: usize,
    /// Lines on their way at most.
    queue: usize,
    /// Lines that it wants now.
    wanted: Vec<u64>,
}

impl Prefetcher {
    fn new(spec: PrefetcherSpec) -> Prefetcher {
        let PrefetcherSpec { kind, degree, distance, entries, queue } = spec;
        let kind = match kind {
            PrefetchKind::NextLine => Kind::NextLine { last: u64::MAX },
            PrefetchKind::Stride => Kind::Stride(Strides::new(entries, distance)),
            PrefetchKind::Streamer => Kind::Streamer(Streamer::new(entries, distance)),
        };
        Prefetcher { kind, degree, queue, wanted: Vec::with_capacity(degree) }
    }

    /// The core accesses a line, by an instruction at this address.
    #[inline]
    pub(crate) fn sees(&mut self, line: u64, pc: u64) {
        self.wanted.clear();
        match &mut self.kind {
            Kind::NextLine { last } => {
                if std::mem::replace(last, line) != line {
                    let behind = (1..=self.degree as i64).filter_map(|n| within_page(line, n));
                    self.wanted.extend(behind);
                }
            }
            Kind::Stride(strides) => strides.sees(line, pc, self.degree, &mut self.wanted),
            Kind::Streamer(streamer) => streamer.sees(line, self.degree, &mut self.wanted),
        }
    }
}

/// The prefetchers of a core.
#[derive(Clone, Debug)]
pub(crate) struct Prefetchers {
    pub(crate) l1i: Option<Prefetcher>,
    pub(crate) l1d: Option<Prefetcher>,
    pub(crate) l2: Option<Prefetcher>,
    /// Lines that the second level's has on their way.
    on_the_way: Vec<u64>,
    pub(crate) counts: PrefetchCounts,
}

impl Prefetchers {
    /// Returns none if the machine has no prefetchers.
    pub(crate) fn of(spec: &PrefetchSpec) -> Option<Box<Prefetchers>> {
        let [l1i, l1d, l2] = [spec.l1i, spec.l1d, spec.l2].map(|spec| spec.map(Prefetcher::new));
        (*spec != PrefetchSpec::default()).then(|| {
            let counts = PrefetchCounts::default();
            Box::new(Prefetchers { l1i, l1d, l2, on_the_way: Vec::new(), counts })
        })
    }
}

//! The addresses that a service accesses.

use halfwink_units::{PhysAddr, VirtAddr};

use super::calls::{length, VARIANTS};
use super::code::{Code, ACCESSES, LINE, PAGE};
use super::model::{ServiceModel, Side};
use super::random::Random;
use crate::source::Address;
use crate::synthetic::scattered;

/// First addresses of user data and shared lines for user code; the kernel accesses all memory by
/// Linux' direct map with four-level paging.
const USER_DATA: u64 = 0x1000_0000;
const USER_SHARED: u64 = 0x7f00_0000_0000;
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
/// First address of physical memory in large pages, behind all scattered pages.
const LARGE_PAGES: u64 = 1 << 40;
/// Lines of each stack.
const STACK: u64 = 32;
/// Bits of the number that chooses a kind of access.
const TICKET_BITS: u32 = 24;

/// Part of memory: so many lines of the user's, the kernel's or the shared ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Bytes of memory before it, pages in order: [`scattered`] says where they really are.
    linear: u64,
    /// First virtual address for user code; unused for the kernel.
    user_virt: u64,
    lines: u64,
    /// Uses large pages, which a working set needs: its lines then spread evenly over all sets.
    large: bool,
}

/// Words of a line, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    line: Address,
    word: u32,
    left: u32,
}

impl Stream {
    #[inline]
    fn next(&mut self) -> Option<Address> {
        self.left = self.left.checked_sub(1)?;
        let offset = u64::from(self.word & 7) * 8;
        self.word += 1;
        let Address { virt, phys } = self.line;
        Some(Address { virt: VirtAddr(virt.0 + offset), phys: PhysAddr(phys.0 + offset) })
    }

    #[inline]
    fn begin(&mut self, line: Address, words: u32) -> Address {
        *self = Stream { line, word: 0, left: words };
        self.next().unwrap_or(line)
    }
}

/// Accesses of a privilege.
#[derive(Clone, Debug)]
struct Accesses {
    /// Bounds of a number below 2^24, for the kinds in the order of [`Side`].
    bounds: [u32; 7],
    skew: u32,
    words: u32,
    stack: Part,
    table: Part,
    walked: [Part; 2],
    region: Part,
    /// Positions of the walks through the working sets; `swept` is that through the region.
    steps: [u64; 2],
    swept: u64,
    streams: [Stream; 7],
}

/// All data of a service.
#[derive(Clone, Debug)]
pub(super) struct Data {
    sides: [Accesses; 2],
    shared: Part,
    /// Data of each cause.
    private: Vec<Part>,
    /// The cause whose data is in use, and how far.
    routine: usize,
    at: u64,
    /// Lines from which and to which is copied.
    from: u64,
    to: u64,
    into: Part,
}

impl Part {
    #[inline]
    fn line(&self, n: u64, kernel: bool) -> Address {
        let linear = self.linear + n * LINE;
        let phys = if self.large { LARGE_PAGES + linear } else { scattered(linear) };
        let virt = if kernel { DIRECT_MAP + phys } else { self.user_virt + n * LINE };
        Address { virt: VirtAddr(virt), phys: PhysAddr(phys) }
    }

    /// Takes so many lines from the front.
    fn split(&mut self, lines: u64) -> Part {
        let first = Part { lines, ..*self };
        self.linear += lines * LINE;
        self.user_virt += lines * LINE;
        self.lines = self.lines.saturating_sub(lines).max(1);
        first
    }
}

impl Accesses {
    /// Creates the accesses of a side in its region, from which stack and table are taken.
    fn new(side: &Side, mut region: Part) -> Accesses {
        let Side { cyclic, table, sweep, shared, popular, walked, .. } = *side;
        let shares = [cyclic, table, sweep, shared, popular, walked[0].share, walked[1].share];
        let mut sum = 0.0;
        let bounds = shares.map(|share| {
            sum += share;
            (sum * f64::from(1 << TICKET_BITS)).round() as u32
        });
        let stack = region.split(STACK);
        let table = region.split((side.table_bytes / LINE).max(1));
        let walked = walked.map(|set| Part { large: true, ..region.split(set.bytes / LINE) });
        let (skew, words) = (side.skew, side.words);
        let streams = Default::default();
        Accesses {
            bounds,
            skew,
            words,
            stack,
            table,
            walked,
            region,
            steps: [0; 2],
            swept: 0,
            streams,
        }
    }
}

impl Data {
    pub(super) fn new(model: &ServiceModel, code: &Code) -> Data {
        let mut linear = code.bytes[0] + code.bytes[1];
        let mut part = |bytes: u64, user_virt: u64| {
            let lines = (bytes / LINE).max(1);
            let part = Part { linear, user_virt, lines, large: false };
            linear += (lines * LINE).next_multiple_of(PAGE);
            part
        };
        let beside = |all: u64, code: u64| all.saturating_sub(code);
        let user = part(beside(model.regions.user, code.bytes[0]), USER_DATA);
        let mut kernel = part(beside(model.regions.kernel, code.bytes[1]), 0);
        let shared = part(model.regions.shared, USER_SHARED);
        let private = model.classes.iter().flat_map(|class| {
            let longest = f64::from(length(class, VARIANTS - 1));
            let accesses = longest * ACCESSES * model.kernel.cyclic;
            let lines = (accesses / f64::from(model.kernel.words)).ceil().max(1.0);
            class.causes.iter().map(move |_| lines as u64)
        });
        let private = private.map(|lines| kernel.split(lines)).collect();
        let sides = [Accesses::new(&model.user, user), Accesses::new(&model.kernel, kernel)];
        // Copies of a program that shares nothing stay in the kernel.
        let into = if model.regions.shared > 0 { shared } else { sides[1].region };
        Data { sides, shared, private, routine: 0, at: 0, from: 0, to: 0, into }
    }

    /// The kernel is entered for this cause.
    pub(super) fn enter(&mut self, routine: usize, random: &mut Random) {
        self.routine = routine;
        self.at = 0;
        self.sides[1].streams[0].left = 0;
        // A file, or a packet: whole pages, some more popular than others.
        let lines = PAGE / LINE;
        let pages = (self.sides[1].region.lines / lines).max(1);
        self.from = random.skewed(pages, self.sides[1].skew) * lines;
    }

    /// The address of an access.
    #[inline]
    pub(super) fn access(&mut self, kernel: bool, random: &mut Random) -> Address {
        let side = &mut self.sides[usize::from(kernel)];
        let bits = random.bits();
        let ticket = (bits >> (64 - TICKET_BITS)) as u32;
        let Some(kind) = side.bounds.iter().position(|&bound| ticket < bound) else {
            let line = side.stack.line(bits % STACK, kernel);
            let offset = (bits >> 8) % 8 * 8;
            return Address {
                virt: VirtAddr(line.virt.0 + offset),
                phys: PhysAddr(line.phys.0 + offset),
            };
        };
        if let Some(address) = side.streams[kind].next() {
            return address;
        }
        let line = match kind {
            0 => {
                let private = &self.private[self.routine];
                let n = self.at % private.lines;
                self.at += 1;
                private.line(n, kernel)
            }
            1 => side.table.line(random.below(side.table.lines), kernel),
            2 => {
                side.swept = if side.swept + 1 < side.region.lines { side.swept + 1 } else { 0 };
                side.region.line(side.swept, kernel)
            }
            3 => self.shared.line(random.skewed(self.shared.lines, side.skew), kernel),
            4 => side.region.line(random.skewed(side.region.lines, side.skew), kernel),
            _ => {
                let (set, step) = (&side.walked[kind - 5], &mut side.steps[kind - 5]);
                *step = if *step + 1 < set.lines { *step + 1 } else { 0 };
                set.line(*step, kernel)
            }
        };
        side.streams[kind].begin(line, side.words)
    }

    /// The addresses of the copying loop: eight words read, and written.
    pub(super) fn copy(&mut self, out: &mut Vec<Address>) {
        let kernel = &self.sides[1];
        let from = kernel.region.line(self.from % kernel.region.lines, true);
        let to = self.into.line(self.to, true);
        self.from += 1;
        self.to = (self.to + 1) % self.into.lines;
        for offset in (0..LINE).step_by(8) {
            for line in [from, to] {
                out.push(Address {
                    virt: VirtAddr(line.virt.0 + offset),
                    phys: PhysAddr(line.phys.0 + offset),
                });
            }
        }
    }

    #[cfg(test)]
    pub(super) fn kernel_region_lines(&self) -> u64 {
        self.sides[1].region.lines
    }
}

//! Lines that requests use: generated, since the servers of 2016 were not recorded.
//!
//! A [`Service`](crate::spec::Service) uses groups of lines. A group is laid out in runs with gaps
//! between them, over pages; a request uses each run, or not, as the group says, in an order of
//! first use that stays; between them come lines that no request used before. A restart moves
//! pages.

use halfwink_engine::{stream, Stream};
use rand::RngExt;

use crate::spec::{Group, Spec};

/// Lines of a page.
pub const PAGE_LINES: u64 = 64;
/// Longest run that is laid out.
const LONGEST: u64 = 64;
/// Mean length of the runs of buffers: that of Gottschlag 2016, Sec 4.1.1, for everything.
const BUFFER_RUN: f64 = 3.3;

/// A line that a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Number of the line.
    pub line: u64,
    /// Whether it is written.
    pub write: bool,
    /// The network card brought it.
    pub packet: bool,
}

/// Consecutive lines that are used together.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// First line, in the group's own numbers.
    first: u64,
    lines: u64,
    written: bool,
    /// Place in the order of first use, from 0 to 1.
    place: f64,
}

#[derive(Clone, Debug)]
struct Placed {
    touched: f64,
    moved: f64,
    objects: Vec<Object>,
    /// Frame of each page.
    frames: Vec<u64>,
}

/// Draws lengths of runs: how often one of `n` lines comes falls with a power of `n`, up to 64.
#[derive(Clone, Debug)]
struct Lengths(Vec<f64>);

impl Lengths {
    fn of_mean(mean: f64) -> Lengths {
        let weights = |power: f64| (1..=LONGEST).map(move |n| (n as f64).powf(-power));
        let mean_of = |power: f64| {
            let sum: f64 = weights(power).sum();
            (1..=LONGEST).zip(weights(power)).map(|(n, w)| n as f64 * w).sum::<f64>() / sum
        };
        // It falls with the power: 32.5 lines at 0, hardly more than 1 at 20.
        let (mut low, mut high) = (0.0, 20.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if mean_of(middle) > mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        let total: f64 = weights(low).sum();
        let mut sum = 0.0;
        let cumulative = weights(low).map(|weight| {
            sum += weight / total;
            sum
        });
        Lengths(cumulative.collect())
    }

    fn draw(&self, random: &mut Stream) -> u64 {
        let even = random.random::<f64>();
        let longer = self.0.partition_point(|&sum| sum <= even) as u64;
        1 + longer.min(LONGEST - 1)
    }
}

impl Placed {
    /// Runs of a group, and the pages that they lie in.
    fn new(group: &Group, frames: u64, kernel: &mut u64, random: &mut Stream) -> Placed {
        let lengths = Lengths::of_mean(group.run_lines);
        let gap = group.run_lines * (1.0 / group.density - 1.0);
        let (mut left, mut at) = (group.lines, 0);
        let mut objects = Vec::new();
        while left > 0 {
            let lines = lengths.draw(random).min(left);
            let written = random.random::<f64>() < group.written;
            objects.push(Object { first: at, lines, written, place: random.random() });
            left -= lines;
            // At least one: else two runs would be one.
            at += lines + 1 + (2.0 * (gap - 1.0).max(0.0) * random.random::<f64>()) as u64;
        }
        let pages = at.div_ceil(PAGE_LINES);
        let frame = |page: u64, random: &mut Stream| {
            if group.kernel {
                *kernel + page
            } else {
                user_frame(frames, random)
            }
        };
        let placed = (0..pages).map(|page| frame(page, random)).collect();
        if group.kernel {
            *kernel += pages;
        }
        Placed { touched: group.touched, moved: group.moved, objects, frames: placed }
    }

    fn line(&self, own: u64) -> u64 {
        self.frames[(own / PAGE_LINES) as usize] * PAGE_LINES + own % PAGE_LINES
    }
}

/// Any frame of the upper seven eighths of memory.
fn user_frame(frames: u64, random: &mut Stream) -> u64 {
    random.random_range(frames / 8..frames)
}

/// All groups of a description in memory, and what each request uses of them.
#[derive(Clone, Debug)]
pub struct WorkingSets {
    groups: Vec<Placed>,
    services: Vec<Uses>,
    frames: u64,
    buffers: Lengths,
    random: Stream,
}

#[derive(Clone, Debug)]
struct Uses {
    groups: Vec<usize>,
    /// Group and object, by first use.
    order: Vec<(usize, usize)>,
    fresh_lines: u64,
    packet_share: f64,
}

impl WorkingSets {
    /// Lays all groups of a description out. Services are known by their place among its names.
    #[must_use]
    pub fn new(spec: &Spec, seed: u64) -> WorkingSets {
        let mut random = stream(seed, "layout");
        let frames = spec.memory.gib << 18;
        // The kernel lies in one piece, from the second MiB on.
        let mut kernel = 256;
        let groups: Vec<Placed> = spec
            .groups
            .values()
            .map(|group| Placed::new(group, frames, &mut kernel, &mut random))
            .collect();
        let number = |name: &String| spec.groups.keys().position(|known| known == name);
        let services = spec.services.values().map(|service| {
            let own: Vec<usize> = service.groups.iter().filter_map(number).collect();
            let objects =
                own.iter().flat_map(|&g| (0..groups[g].objects.len()).map(move |o| (g, o)));
            let mut order: Vec<(usize, usize)> = objects.collect();
            let first = own.first().copied();
            // A request begins where packets come in: with the first group.
            let place = |&(g, o): &(usize, usize)| {
                let place = groups[g].objects[o].place;
                if Some(g) == first {
                    0.5 * place
                } else {
                    place
                }
            };
            order.sort_by(|a, b| place(a).total_cmp(&place(b)));
            Uses {
                groups: own,
                order,
                fresh_lines: service.fresh_lines,
                packet_share: service.packet_share,
            }
        });
        let services = services.collect();
        let buffers = Lengths::of_mean(BUFFER_RUN);
        WorkingSets { groups, services, frames, buffers, random: stream(seed, "requests") }
    }

    /// Draws the lines that one request of a service uses, in the order of first use.
    pub fn request(&mut self, service: usize, touches: &mut Vec<Touch>) {
        touches.clear();
        let uses = &self.services[service];
        let random = &mut self.random;
        let mut fresh = uses.fresh_lines as f64;
        // Buffers come evenly among the rest.
        let step = fresh / uses.order.len().max(1) as f64;
        let mut owed = 0.0;
        let packets = uses.packet_share * fresh;
        let mut brought = 0.0;
        for &(g, o) in &uses.order {
            owed += step;
            if owed >= 1.0 && fresh >= 1.0 {
                let lines = self.buffers.draw(random).min(fresh as u64);
                let first = user_frame(self.frames, random) * PAGE_LINES;
                let at = random.random_range(0..=PAGE_LINES - lines);
                // Packets are read first, replies are written later.
                let packet = brought < packets;
                let touch = |n| Touch { line: first + at + n, write: !packet, packet };
                touches.extend((0..lines).map(touch));
                brought += lines as f64;
                owed -= lines as f64;
                fresh -= lines as f64;
            }
            let group = &self.groups[g];
            if group.touched < 1.0 && random.random::<f64>() >= group.touched {
                continue;
            }
            let Object { first, lines, written, .. } = group.objects[o];
            let touch = |n| Touch { line: group.line(first + n), write: written, packet: false };
            touches.extend((0..lines).map(touch));
        }
    }

    /// The first lines of the group that packets of a service come in through.
    #[must_use]
    pub fn path(&self, service: usize, lines: u64) -> Vec<u64> {
        let uses = &self.services[service];
        let Some(&first) = uses.groups.first() else { return Vec::new() };
        let group = &self.groups[first];
        let own = uses.order.iter().filter(|(g, _)| *g == first);
        let objects = own.map(|&(_, o)| group.objects[o]);
        let of = |object: Object| (0..object.lines).map(move |n| object.first + n);
        objects.flat_map(of).take(lines as usize).map(|own| group.line(own)).collect()
    }

    /// The service ends and begins anew: pages that are its own, as its groups say, move.
    pub fn restart(&mut self, service: usize) {
        for &g in &self.services[service].groups {
            let group = &mut self.groups[g];
            if group.moved <= 0.0 {
                continue;
            }
            for frame in &mut group.frames {
                if self.random.random::<f64>() < group.moved {
                    *frame = user_frame(self.frames, &mut self.random);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_their_mean() {
        let mut random = stream(1, "lengths");
        for mean in [1.5, 3.3, 8.0] {
            let lengths = Lengths::of_mean(mean);
            let drawn: u64 = (0..100_000).map(|_| lengths.draw(&mut random)).sum();
            let found = drawn as f64 * 1e-5;
            assert!((found / mean - 1.0).abs() < 0.05, "{found}, expected {mean}");
        }
    }
}

//! What a working set of 100,000 lines costs: as tags are read, then sorted, intersected with
//! another, and encoded.
//!
//! Prints one line of JSON for each step, in milliseconds, of line sets and of what else could keep
//! them: sets of the standard library, and Roaring bitmaps; all measured in turns in this run, the
//! fastest of each. `make bench` shows them. With an argument, does that step once, for Cachegrind:
//! `sort`, `intersect`, `encode`, `decode`, or `nothing`.

#![allow(clippy::print_stdout, missing_docs)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use halfwink_policy::preheat::rle::{decode32, encode32};
use halfwink_policy::preheat::LineSet;
use roaring::RoaringTreemap;

const LINES: usize = 100_000;
/// Of the thesis' last-level cache.
const CACHE_SETS: u64 = 2048;
const TURNS: usize = 41;

/// SplitMix64: the same lines everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Runs of 3.3 lines in the mean (Gottschlag 2016, Sec 4.1.1), anywhere in 4 GiB, as tags are read.
fn dump(random: &mut Random, shared: &[u64]) -> Vec<u64> {
    let mut lines: Vec<u64> = shared.to_vec();
    while lines.len() < LINES {
        let first = random.below((1 << 26) - 64);
        let mut length = 1;
        while length < 64 && random.below(1000) < 697 {
            length += 1;
        }
        lines.extend(first..first + length);
    }
    lines.sort_unstable();
    lines.dedup();
    lines.truncate(LINES);
    lines.sort_unstable_by_key(|&line| (line % CACHE_SETS, line >> 11 ^ line >> 3));
    lines
}

struct Inputs {
    a: Vec<u64>,
    b: Vec<u64>,
}

impl Inputs {
    /// Nine of ten lines are in both.
    fn new() -> Inputs {
        let mut random = Random(1);
        let shared = dump(&mut random, &[]);
        let a = dump(&mut random, &shared[..LINES * 9 / 10]);
        let b = dump(&mut random, &shared[..LINES * 9 / 10]);
        Inputs { a, b }
    }
}

/// The fastest of all turns of each, in milliseconds, one after the other in each turn.
fn fastest<const N: usize>(mut work: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..TURNS {
        for (best, work) in best.iter_mut().zip(work.iter_mut()) {
            let begin = Instant::now();
            work();
            *best = best.min(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    best
}

fn row(step: &str, [ours, standard, roaring, copy]: [f64; 4]) {
    let others = format!(r#""standard":{standard},"roaring":{roaring},"copy":{copy}"#);
    println!(r#"{{"step":"{step}","ours":{ours},{others}}}"#);
}

fn once(step: &str, Inputs { a, b }: &Inputs) {
    let (x, y) = (LineSet::from_unsorted(a.clone()), LineSet::from_unsorted(b.clone()));
    let words = encode32(&x).expect("below 4 GiB");
    match step {
        "sort" => drop(black_box(LineSet::from_unsorted(a.clone()))),
        "intersect" => drop(black_box(x.intersect(&y))),
        "encode" => drop(black_box(encode32(&x))),
        "decode" => drop(black_box(decode32(&words))),
        _ => {}
    }
}

fn main() {
    let inputs = Inputs::new();
    let named = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    if let Some(step) = named {
        return once(&step, &inputs);
    }
    let Inputs { a, b } = &inputs;
    let copy = &mut || drop(black_box(black_box(a).clone()));
    let (x, y) = (LineSet::from_unsorted(a.clone()), LineSet::from_unsorted(b.clone()));
    let (p, q): (BTreeSet<u64>, BTreeSet<u64>) = (x.iter().collect(), y.iter().collect());
    let (s, t): (RoaringTreemap, RoaringTreemap) = (x.iter().collect(), y.iter().collect());
    let words = encode32(&x).expect("below 4 GiB");
    let bytes = bytes_of(&s);
    row(
        "sort",
        fastest([
            &mut || drop(black_box(LineSet::from_unsorted(black_box(a).clone()))),
            &mut || drop(black_box(black_box(a).iter().copied().collect::<BTreeSet<u64>>())),
            &mut || drop(black_box(black_box(a).iter().copied().collect::<RoaringTreemap>())),
            copy,
        ]),
    );
    row(
        "intersect",
        fastest([
            &mut || drop(black_box(black_box(&x).intersect(black_box(&y)))),
            &mut || drop(black_box(black_box(&p).intersection(black_box(&q)).collect::<Vec<_>>())),
            &mut || drop(black_box(black_box(&s) & black_box(&t))),
            copy,
        ]),
    );
    row(
        "encode",
        fastest([
            &mut || drop(black_box(encode32(black_box(&x)))),
            &mut || drop(black_box(black_box(&p).iter().copied().collect::<Vec<u64>>())),
            &mut || drop(black_box(bytes_of(black_box(&s)))),
            copy,
        ]),
    );
    row(
        "decode",
        fastest([
            &mut || drop(black_box(decode32(black_box(&words)))),
            &mut || drop(black_box(black_box(&x).iter().collect::<BTreeSet<u64>>())),
            &mut || drop(black_box(RoaringTreemap::deserialize_from(black_box(&bytes[..])))),
            copy,
        ]),
    );
}

fn bytes_of(set: &RoaringTreemap) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(set.serialized_size());
    set.serialize_into(&mut bytes).expect("memory takes all");
    bytes
}

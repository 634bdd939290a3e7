//! What the generated services give, beside what they are calibrated to (Nellans 2014, Tables 5.1
//! to 5.3): the tables of `docs/workloads.md`.
//!
//!     cargo run --release -p halfwink-chip --example services [INSTRUCTIONS [NAME...]]
//!     ... --example services split NAME INSTRUCTIONS SEED KB...
//!     ... --example services fit NAME ROUNDS SEED [CONSTANT=VALUE...]
//!
//! `split` prints what a bank for the kernel and one for the user gain; `fit` searches constants.

#![expect(clippy::print_stdout, reason = "what the tool is for")]

use std::env::args;
use std::io::{stdout, Write};
use std::time::Instant;

use halfwink_chip::{os_profile, Geometry, Lengths, OsProfile, ProfileCaches};
use halfwink_trace::{Item, Service, Source, SERVICES};

mod bank_split;
mod fit;

/// What the thesis prints of a program.
struct Published {
    name: &'static str,
    /// Table 5.1: instructions of a run, kernel and user.
    runs: [f64; 2],
    /// Table 5.2: the kernel's percentage of misses in L1I, L1D, L2.
    shares: [f64; 3],
    /// Table 5.3: MB of the user's, the kernel's, of both.
    regions: [f64; 3],
    /// Table 5.5: percent that the bank split gains at 512 KB and at 1 MB; none if not printed.
    bank_split: [f64; 2],
}

const fn split(row: Published, bank_split: [f64; 2]) -> Published {
    Published { bank_split, ..row }
}

const fn row(name: &'static str, runs: [f64; 2], shares: [f64; 3], regions: [f64; 3]) -> Published {
    Published { name, runs, shares, regions, bank_split: [f64::NAN; 2] }
}

const PUBLISHED: [Published; 10] = [
    row("syn-apache", [329.0, 156.0], [72.67, 73.43, 55.10], [6.34, 9.02, 0.50]),
    row("syn-specjbb", [692.0, 1_770.0], [71.65, 74.92, 67.57], [108.98, 20.13, 21.34]),
    row("syn-hmmer", [89.0, 33_280.0], [60.41, 4.25, 4.10], [8.16, 1.08, 3.28]),
    row("syn-mummer", [20.0, 47.0], [78.88, 42.05, 10.72], [73.84, 1.04, 45.94]),
    row("syn-fasta", [714.0, 14_862.0], [48.20, 31.21, 90.07], [1.51, 23.03, 5.28]),
    row("syn-blackscholes", [2_098.0, 158_828.0], [85.53, 8.99, 24.71], [1.84, 6.97, 0.11]),
    row("syn-canneal", [18.0, 120.0], [83.61, 43.73, 11.48], [29.53, 8.24, 0.0]),
    row("syn-mcf", [15.0, 22.0], [79.59, 19.24, 1.37], [5.903, 0.162, 0.0]),
    split(
        row("syn-apache-walk", [329.0, 156.0], [72.67, 73.43, 55.10], [6.34, 9.02, 0.50]),
        [9.2, 14.4],
    ),
    split(
        row("syn-specjbb-walk", [692.0, 1_770.0], [71.65, 74.92, 67.57], [108.98, 20.13, 21.34]),
        [12.17, 25.1],
    ),
];

/// Second levels, in KB.
const SIZES: [u64; 5] = [128, 256, 512, 1024, 2048];

fn caches(kilobytes: u64) -> ProfileCaches {
    let shape = |text: &str| Geometry::parse(text).expect("a shape");
    let (l1i, l1d) = (shape("16KB:2"), shape("16KB:2"));
    ProfileCaches { l1i, l1d, unified: vec![shape(&format!("{kilobytes}KB:16"))] }
}

fn profile(spec: &Service, kilobytes: u64) -> OsProfile {
    let (mut source, warm) = spec.warm_source();
    os_profile(&mut source, &warm, &caches(kilobytes)).expect("nothing to be damaged")
}

fn mpki(misses: u64, profile: &OsProfile) -> f64 {
    1000.0 * misses as f64 / profile.instructions.iter().sum::<u64>() as f64
}

/// Instructions generated in a second.
fn speed(spec: &Service) -> f64 {
    let mut source = spec.source();
    let begun = Instant::now();
    let mut sum = 0;
    while source.next_item().expect("nothing to be damaged") != Item::End {
        sum = source.addresses().iter().fold(sum, |sum, a| sum ^ a.phys.0);
    }
    std::hint::black_box(sum);
    spec.instructions as f64 / begun.elapsed().as_secs_f64()
}

fn mean(lengths: &Lengths) -> f64 {
    lengths.instructions() as f64 / lengths.runs().max(1) as f64
}

/// Of misses (user, kernel), in percent.
fn kernel_share([user, kernel]: [u64; 2]) -> f64 {
    percent(kernel, user)
}

fn percent(part: u64, rest: u64) -> f64 {
    100.0 * part as f64 / (part + rest).max(1) as f64
}

/// Ours beside the published value in brackets.
fn calibrated(at: &OsProfile, published: &Published) -> String {
    let (runs, shares) = (published.runs, published.shares);
    let mut row = format!(
        "| `{}` | {:.1} ({}) | {:.0} ({}) | {:.2} ({:.2}) |",
        published.name,
        mean(&at.kernel_lengths()),
        runs[0],
        mean(&at.user_lengths()),
        runs[1],
        percent(at.instructions[1], at.instructions[0]),
        100.0 * runs[0] / (runs[0] + runs[1]),
    );
    for (level, published) in at.levels.iter().zip(shares) {
        row += &format!(" {:.1} ({published}) |", kernel_share(level.counts.misses));
    }
    row
}

/// What is not calibrated.
fn beside(at: &OsProfile, spec: &Service, published: &Published) -> String {
    let megabytes = |lines: u64| lines as f64 * 64.0 / f64::from(1 << 20);
    let touched = [at.footprint.user, at.footprint.kernel, at.footprint.shared];
    let mut row = format!("| `{}` |", published.name);
    for (lines, published) in touched.into_iter().zip(published.regions) {
        row += &format!(" {:.2} ({published}) |", megabytes(lines));
    }
    for level in &at.levels[..2] {
        let [user, kernel] = level.counts.misses;
        row += &format!(" {:.1} + {:.1} |", mpki(user, at), mpki(kernel, at));
    }
    for size in SIZES {
        let at = profile(spec, size);
        row += &format!(" {:.2} |", mpki(at.levels[2].counts.misses.iter().sum(), &at));
    }
    row + &format!(" {:.0} |", speed(spec) / 1e6)
}

const CALIBRATED: &str = "\
| name | kernel run | user run | kernel, % | L1I, % | L1D, % | L2, % |
|---|---|---|---|---|---|---|
";
const BESIDE: &str = "
| name | user, MB | kernel, MB | both, MB | L1I | L1D | 128 KB | 256 KB | 512 KB | 1 MB | 2 MB | \
M/s |
|---|---|---|---|---|---|---|---|---|---|---|---|
";

fn fit_one(name: &str, rounds: &str, seed: &str, set: &[String]) -> std::io::Result<()> {
    let mut model = *SERVICES.iter().find(|model| model.name == name).expect("a service");
    let published = PUBLISHED.iter().find(|row| row.name == name).expect("published");
    fit::set(&mut model, set);
    let spec = Service { model, instructions: 5_000_000, seed: 1, warm_up: 12_000_000 };
    fit::fit(spec, published, rounds.parse().expect("rounds"), seed.parse().expect("a seed"));
    Ok(())
}

fn split_one(name: &str, n: &str, seed: &str, sizes: &[String]) -> std::io::Result<()> {
    let model = *SERVICES.iter().find(|model| model.name == name).expect("a service");
    let published = PUBLISHED.iter().find(|row| row.name == name).expect("published");
    let (instructions, seed) = (n.parse().expect("instructions"), seed.parse().expect("a seed"));
    let spec = Service { model, instructions, seed, warm_up: Service::WARM_UP };
    println!("{}", calibrated(&profile(&spec, 1024), published));
    let (source, warm) = spec.warm_source();
    let stream = bank_split::stream(source, &warm);
    for kilobytes in sizes {
        let split = bank_split::BankSplit::new(&stream, kilobytes.parse().expect("KB"));
        let (route, gain) = split.best();
        let (misses, references) = (split.mpki, split.accesses);
        println!("{kilobytes} KB: {misses:.2} of {references:.2}, {route:?} {gain:+.1} %");
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = args().skip(1).collect();
    if let [what, name, number, seed, more @ ..] = &words[..] {
        match what.as_str() {
            "fit" => return fit_one(name, number, seed, more),
            "split" => return split_one(name, number, seed, more),
            _ => {}
        }
    }
    let instructions = words.first().map_or(100_000_000, |n| n.parse().expect("instructions"));
    let mut out = stdout().lock();
    out.write_all(CALIBRATED.as_bytes())?;
    let mut second = BESIDE.to_owned();
    for model in SERVICES {
        if words.len() > 1 && !words[1..].iter().any(|name| name == model.name) {
            continue;
        }
        let published = PUBLISHED.iter().find(|row| row.name == model.name).expect("published");
        let spec = Service { model, instructions, seed: 1, warm_up: Service::WARM_UP };
        let at = profile(&spec, 1024);
        writeln!(out, "{}", calibrated(&at, published))?;
        second += &format!("{}\n", beside(&at, &spec, published));
    }
    out.write_all(second.as_bytes())
}

//! Request files, as `benches/dram/requests.py` writes them, and a driver that plays them.

#![allow(dead_code)]

pub mod checker;
pub mod driver;
mod mersenne;

use halfwink_dram::{BankHash, Device, MapOrder, Rules, Spec};
use mersenne::Mersenne;

/// One line of a request file.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub line: u64,
    pub write: bool,
    pub clock: u64,
}

const MB: u64 = 1 << 20;

/// `n` requests of a pattern, `gap` clocks apart in the mean; without a gap, all at clock 0.
pub fn requests(pattern: &str, n: u64, gap: Option<f64>) -> Vec<Line> {
    let mut random = Mersenne::new(&format!("{pattern}/1"));
    let mut out = Vec::new();
    let mut at = 0.0f64;
    let size = 16_000_000 / 64;
    let mut push = |random: &mut Mersenne, line, write| {
        out.push(Line { line, write, clock: at as u64 });
        if let Some(gap) = gap {
            at += random.exponential() * gap;
        }
    };
    match pattern {
        "seq" => (0..n).for_each(|i| push(&mut random, i, false)),
        "seqwb" => (0..n / 2).for_each(|i| {
            push(&mut random, 8 * MB / 64 + i, false);
            push(&mut random, i, true);
        }),
        "triad" => (0..n / 3).for_each(|i| {
            push(&mut random, size + i, false);
            push(&mut random, 2 * size + i, false);
            push(&mut random, i, true);
        }),
        "rand" | "chase" => (0..n).for_each(|_| {
            let line = random.below(1 << 24);
            push(&mut random, line, false);
        }),
        "rand50" => (0..n).for_each(|_| {
            let line = random.below(1 << 24);
            let write = random.uniform() < 0.5;
            push(&mut random, line, write);
        }),
        other => panic!("no pattern {other}"),
    }
    out
}

/// Memory as the reference had it: one channel of two ranks.
pub fn reference_spec(device: &str, map: &str, hash: &str) -> Spec {
    let mut device = Device::named(device).expect("a device that comes along");
    match device.clock_ps {
        // DRAMsim3 has no file of a two-gigabit chip.
        1500 => device.timing.t_rfc = 74,
        // Its file has a clock that is one per cent slow.
        625 => device.clock_ps = 630,
        _ => {}
    }
    let map = match map {
        "rochrababgco" => MapOrder::RowRankBankGroupColumn,
        "rochrabacobg" => MapOrder::RowRankBankColumnGroup,
        other => panic!("no map {other}"),
    };
    let hash = match hash {
        "none" => BankHash::None,
        "low" => BankHash::Low,
        "fold" => BankHash::Fold,
        other => panic!("no hash {other}"),
    };
    Spec { channels: 1, ranks: 2, device, map, hash, rules: Rules::default() }
}

//! A search for constants of a service: seeded, one or a few of them changed at a time, a change
//! kept if what comes out is nearer to what is published.
//!
//! It looks at Table 5.2 and at two columns of Table 5.5 (512 KB, 1 MB) and at nothing else.

use halfwink_chip::{os_profile, OsProfile};
use halfwink_trace::{Service, ServiceModel, Side};

use crate::bank_split::{stream, BankSplit};
use crate::{caches, kernel_share, Published};

/// What a model gives.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The kernel's percentage of misses in L1I, L1D, L2.
    shares: [f64; 3],
    /// Percent gained at 512 KB, 1 MB.
    gains: [f64; 2],
    /// Misses per 1000 instructions at 512 KB, 1 MB.
    mpki: [f64; 2],
    /// References to the second level per 1000 instructions.
    accesses: f64,
}

impl Outcome {
    pub fn new(spec: &Service) -> Outcome {
        let (source, warm) = spec.warm_source();
        let at: OsProfile =
            os_profile(&mut source.clone(), &warm, &caches(1024)).expect("nothing to be damaged");
        let mut shares = [0.0; 3];
        for (share, level) in shares.iter_mut().zip(&at.levels) {
            *share = kernel_share(level.counts.misses);
        }
        let stream = stream(source, &warm);
        let splits = [512, 1024].map(|kilobytes| BankSplit::new(&stream, kilobytes));
        Outcome {
            shares,
            gains: [splits[0].best().1, splits[1].best().1],
            mpki: [splits[0].mpki, splits[1].mpki],
            accesses: splits[1].accesses,
        }
    }

    /// Sum of squared deviations, in tolerances: 2.5 points of a share, 1 of a gain. Outside
    /// of 4 to 30 misses and below 120 references per 1000 instructions, no service is plausible.
    fn score(&self, published: &Published) -> f64 {
        let squared = |off: f64| off * off;
        let shares = self.shares.iter().zip(published.shares);
        let gains = self.gains.iter().zip(published.bank_split);
        let beyond = |value: f64, least: f64, most: f64| (value - value.clamp(least, most)) / 2.0;
        shares.map(|(ours, theirs)| squared((ours - theirs) / 2.5)).sum::<f64>()
            + gains.map(|(ours, theirs)| squared(ours - theirs)).sum::<f64>()
            + self.mpki.iter().map(|&mpki| squared(beyond(mpki, 4.0, 30.0))).sum::<f64>()
            + squared(beyond(self.accesses, 30.0, 120.0))
    }
}

/// A constant that may be changed, and between which bounds.
struct Knob {
    name: &'static str,
    of: fn(&mut ServiceModel) -> Constant<'_>,
    least: f64,
    most: f64,
}

enum Constant<'a> {
    Real(&'a mut f64),
    Bytes(&'a mut u64),
}

use Constant::{Bytes, Real};

const fn knob(
    name: &'static str,
    of: fn(&mut ServiceModel) -> Constant<'_>,
    least: f64,
    most: f64,
) -> Knob {
    Knob { name, of, least, most }
}

const KNOBS: [Knob; 19] = [
    knob("user.reuse", |m| Real(&mut m.user.reuse), 1.5, 200.0),
    knob("user.table", |m| Real(&mut m.user.table), 0.0005, 0.4),
    knob("user.sweep", |m| Real(&mut m.user.sweep), 0.0005, 0.3),
    knob("user.shared", |m| Real(&mut m.user.shared), 0.0005, 0.05),
    knob("user.popular", |m| Real(&mut m.user.popular), 0.0005, 0.4),
    knob("user.table_bytes", |m| Bytes(&mut m.user.table_bytes), 8_192.0, 1_048_576.0),
    knob("user_code", |m| Bytes(&mut m.user_code), 16_384.0, 393_216.0),
    knob("kernel.reuse", |m| Real(&mut m.kernel.reuse), 1.5, 30.0),
    knob("kernel.cyclic", |m| Real(&mut m.kernel.cyclic), 0.01, 0.5),
    knob("kernel.table", |m| Real(&mut m.kernel.table), 0.0005, 0.5),
    knob("kernel.sweep", |m| Real(&mut m.kernel.sweep), 0.0005, 0.9),
    knob("kernel.shared", |m| Real(&mut m.kernel.shared), 0.0005, 0.05),
    knob("kernel.popular", |m| Real(&mut m.kernel.popular), 0.0005, 0.3),
    knob("kernel.table_bytes", |m| Bytes(&mut m.kernel.table_bytes), 8_192.0, 1_048_576.0),
    knob("user.walk0", |m| Real(&mut m.user.walked[0].share), 0.001, 0.4),
    knob("user.walk0_bytes", |m| Bytes(&mut m.user.walked[0].bytes), 16_384.0, 262_144.0),
    knob("user.walk1", |m| Real(&mut m.user.walked[1].share), 0.001, 0.4),
    knob("user.walk1_bytes", |m| Bytes(&mut m.user.walked[1].bytes), 65_536.0, 786_432.0),
    knob("copy", |m| Real(&mut m.copy), 0.02, 0.8),
];

impl Knob {
    /// Multiplies it, to two or three digits: constants are meant to be read.
    fn turn(&self, model: &mut ServiceModel, factor: f64) {
        match (self.of)(model) {
            Real(value) => {
                let new = (*value * factor).clamp(self.least, self.most);
                let digits = 10f64.powi(2 - new.log10().floor() as i32);
                *value = (new * digits).round() / digits;
            }
            Bytes(bytes) => {
                let new = (*bytes as f64 * factor).clamp(self.least, self.most);
                *bytes = ((new / 8192.0).round() as u64) << 13;
            }
        }
    }

    fn set(&self, model: &mut ServiceModel, to: f64) {
        match (self.of)(model) {
            Real(value) => *value = to,
            Bytes(bytes) => *bytes = (to * 1024.0) as u64,
        }
    }

    fn print(&self, model: &mut ServiceModel) -> String {
        match (self.of)(model) {
            Real(value) => format!("{}={value}", self.name),
            Bytes(bytes) => format!("{}={}", self.name, *bytes >> 10),
        }
    }
}

/// Something is left for the stack.
fn possible(side: &Side) -> bool {
    let walked = side.walked[0].share + side.walked[1].share;
    side.cyclic + side.table + side.sweep + side.shared + side.popular + walked < 0.97
}

/// Random numbers from 0 to 1 (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Sets constants, `name=value`; sizes are in KB.
pub fn set(model: &mut ServiceModel, words: &[String]) {
    for word in words {
        let (name, value) = word.split_once('=').expect("NAME=VALUE");
        let knob = KNOBS.iter().find(|knob| knob.name == name).expect("a constant");
        knob.set(model, value.parse().expect("a number"));
    }
}

/// Prints each model that is nearer than those before.
pub fn fit(start: Service, published: &Published, rounds: u32, seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut best = start;
    let mut outcome = Outcome::new(&best);
    let mut least = outcome.score(published);
    println!("start {least:.2} {outcome:.2?}");
    for round in 0..rounds {
        let mut next = best;
        let width = if random.next() < 0.5 { 0.15 } else { 0.5 };
        for _ in 0..1 + (random.next() * 3.0) as usize {
            let n = (random.next() * KNOBS.len() as f64) as usize;
            KNOBS[n].turn(&mut next.model, ((2.0 * random.next() - 1.0) * width).exp());
        }
        if next == best || !possible(&next.model.user) || !possible(&next.model.kernel) {
            continue;
        }
        outcome = Outcome::new(&next);
        let score = outcome.score(published);
        if score < least {
            (least, best) = (score, next);
            let constants: Vec<String> = KNOBS.iter().map(|k| k.print(&mut next.model)).collect();
            println!("{round} {least:.2} {outcome:.2?}\n    {}", constants.join(" "));
        }
    }
}

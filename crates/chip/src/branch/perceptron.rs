//! A hashed perceptron: tables of weights, each looked up by the address and a stretch of history;
//! their sum decides (Tarjan and Skadron, "Merging path and gshare indexing in perceptron branch
//! prediction", TACO 2(3), 2005), with the threshold of O-GEHL, which adapts (Seznec, ISCA 2005).

use super::hash;
use super::history::{geometric, Folds, History, MAX_TABLES};
use crate::machine::PerceptronSpec;

/// Wrong predictions, or right ones below the threshold, beyond the others, that move it by one.
/// ChampSim's hashed perceptron has 18; Seznec 2005 64.
const SPEED: i32 = 18;
/// Assumption: where the threshold begins, as in ChampSim's.
const FIRST_THRESHOLD: i32 = 10;

#[derive(Clone, Debug)]
pub(super) struct Perceptron {
    weights: Vec<i8>,
    tables: usize,
    table_bits: u32,
    history: History,
    indices: Folds,
    threshold: i32,
    speed: i32,
}

impl Perceptron {
    pub(super) fn new(spec: &PerceptronSpec) -> Perceptron {
        // The first table goes by the address alone.
        let others = geometric(spec.tables - 1, spec.shortest_history, spec.longest_history);
        let mut lengths = [0; MAX_TABLES];
        lengths[1..].copy_from_slice(&others[..MAX_TABLES - 1]);
        let table_bits = spec.entries.ilog2();
        Perceptron {
            weights: vec![0; spec.tables * spec.entries],
            tables: spec.tables,
            table_bits,
            history: History::new(lengths),
            indices: Folds::new(lengths, table_bits),
            threshold: FIRST_THRESHOLD,
            speed: 0,
        }
    }

    /// Adds to the history what a branch of any kind did.
    #[inline]
    pub(super) fn push(&mut self, bit: bool) {
        self.history.push(bit, std::iter::once(&mut self.indices));
    }

    /// Predicts and learns; whether it was right.
    #[inline]
    pub(super) fn is_right(&mut self, pc: u64, taken: bool) -> bool {
        let mixed = hash(pc) as u32;
        let mask = (1 << self.table_bits) - 1;
        let mut places = [0; MAX_TABLES];
        let mut sum = 0;
        for (n, place) in places.iter_mut().enumerate().take(self.tables) {
            // That of the first table is always 0.
            let index = (mixed ^ mixed >> (n + 1) ^ self.indices.values[n]) & mask;
            *place = (n << self.table_bits) + index as usize;
            sum += i32::from(self.weights[*place]);
        }
        let right = (sum >= 0) == taken;
        if !right || sum.abs() < self.threshold {
            let step = if taken { 1 } else { -1 };
            for place in &places[..self.tables] {
                let weight = &mut self.weights[*place];
                *weight = weight.saturating_add(step);
            }
            self.adapt(right);
        }
        self.push(taken);
        right
    }

    /// Balances how often it learns for being wrong and for being unsure.
    #[inline]
    fn adapt(&mut self, right: bool) {
        self.speed += if right { -1 } else { 1 };
        if self.speed.abs() == SPEED {
            self.threshold = (self.threshold + self.speed.signum()).max(1);
            self.speed = 0;
        }
    }
}

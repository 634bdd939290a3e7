//! Two servers of one kind beside each other, by turns: what the preload library costs one of them
//! that nobody announces to.

use std::sync::atomic::Ordering;

use halfwink_live::sys::CpuSet;
use serde::Serialize;

use super::server::{answering, threads};
use super::Subject;
use crate::client::Client;
use crate::place::{prefer, Place, Rank};
use crate::shared::Shared;
use crate::statistics::{quantile, Quantile, Summary};

/// Requests of a server before the one that is measured: they share their caches.
const WARMING: usize = 2;

/// A server beside another.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Beside {
    /// Response times of the one, in microseconds.
    pub here: Summary,
    /// And of the other.
    pub there: Summary,
    /// The former by the latter, of pairs one after the other: the median.
    pub ratio: Quantile,
    /// Times that threads of the preload library woke, in all processes that report.
    pub wakes: u64,
}

/// Response times of two servers in turn, everything warm and nothing announced. Both run on one
/// CPU, which stays awake, and before all else there.
///
/// # Errors
/// What does not work, in one line.
pub fn beside(
    here: &Subject,
    there: &Subject,
    shared: Shared,
    rounds: usize,
) -> Result<Beside, String> {
    let (server_cpu, client_cpu) = here.cpus;
    CpuSet::one(client_cpu).pin().map_err(|e| format!("CPU {client_cpu}: error {e}"))?;
    let mut clients = [here, there].map(|s| Client::connect(s.address, &s.dialogue));
    for (subject, client) in [here, there].into_iter().zip(&clients) {
        let client = client.as_ref().map_err(Clone::clone)?;
        match answering(subject, client) {
            0 => return Err(format!("{}: no process says that it answers", subject.address)),
            pid => threads(pid).into_iter().for_each(|tid| prefer(tid, Rank::Server)),
        }
    }
    let place = Place::awake(server_cpu);
    place.give_way();
    prefer(0, Rank::First);
    let wakes = || -> u64 { shared.slots().iter().map(|s| s.wakes.load(Ordering::Relaxed)).sum() };
    let before = wakes();
    let mut times = [Vec::with_capacity(rounds), Vec::with_capacity(rounds)];
    for round in 0..rounds {
        // Each is first as often as the other.
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let client = clients[at].as_mut().map_err(|e| e.clone())?;
            for _ in 0..WARMING {
                client.ask()?;
            }
            times[at].push(client.ask()?);
        }
    }
    let wakes = wakes() - before;
    let [here, there] = &times;
    Ok(Beside {
        here: Summary::of(here),
        there: Summary::of(there),
        ratio: ratio(here, there),
        wakes,
    })
}

/// The median ratio of pairs.
fn ratio(here: &[f64], there: &[f64]) -> Quantile {
    let mut ratios: Vec<f64> = here.iter().zip(there).map(|(here, there)| here / there).collect();
    ratios.sort_by(f64::total_cmp);
    quantile(&ratios, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_pairs() {
        // Both grow tenfold while the one stays 2 % behind the other.
        let there: Vec<f64> = (1..=100).map(|n| f64::from(n) / 10.0).collect();
        let here: Vec<f64> = there.iter().map(|t| t * 1.02).collect();
        let found = ratio(&here, &there);
        assert!((found.value - 1.02).abs() < 1e-9 && (found.high - found.low).abs() < 1e-9);
        let mixed: Vec<f64> = (0..100).map(|n| if n % 2 == 0 { 1.0 } else { 2.0 }).collect();
        let turned: Vec<f64> = mixed.iter().map(|t| 3.0 - t).collect();
        let found = ratio(&mixed, &turned);
        assert_eq!((found.low, found.high), (0.5, 2.0), "nothing can be told");
    }
}

// SPDX-License-Identifier: GPL-2.0-or-later
//! Latencies as the clients saw them.

use std::fmt;

/// Latencies of all requests, in ns from when they were due.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    latencies_ns: Vec<u64>,
}

impl Summary {
    /// Counts a request and its latency.
    pub fn add(&mut self, latency_ns: u64) {
        self.latencies_ns.push(latency_ns);
    }

    /// The latency that a part `q` of all requests did not exceed.
    fn quantile_us(sorted: &[u64], q: f64) -> f64 {
        let rank = (q * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).map_or(0.0, |&ns| ns as f64 / 1e3)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let at = |q| Summary::quantile_us(&sorted, q);
        write!(
            f,
            "{} requests, latency p50 {:.1} us, p99 {:.1} us, max {:.1} us",
            sorted.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_prints_median_and_tail() {
        let mut summary = Summary::default();
        assert!(summary.to_string().starts_with("0 requests"));
        for ms in 1..=100 {
            summary.add(ms * 1_000_000);
        }
        let text = summary.to_string();
        assert_eq!(text, "100 requests, latency p50 50000.0 us, p99 99000.0 us, max 100000.0 us");
    }
}

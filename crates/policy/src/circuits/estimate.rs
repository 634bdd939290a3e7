//! What hosts would send if only their own ports held them back (Al-Fares 2010, Hedera, Sec 4.2).
//!
//! What waits is what was not sent yet, not what is wanted. So each pair with anything waiting
//! counts as one flow: senders share their port among their flows, receivers that get too much
//! limit those above an equal share, and senders pass on what that leaves, until nothing changes.

use alloc::vec;
use alloc::vec::Vec;

use super::ONE;

/// Estimates demands of one number of hosts.
#[derive(Clone, Debug)]
pub struct Estimator {
    hosts: usize,
    /// The receiver limits it: it takes no more of its sender's share.
    is_limited: Vec<bool>,
    was: Vec<u64>,
}

impl Estimator {
    /// Creates an estimator for `hosts` senders and receivers.
    #[must_use]
    pub fn new(hosts: usize) -> Estimator {
        let pairs = hosts * hosts;
        Estimator { hosts, is_limited: vec![false; pairs], was: vec![0; pairs] }
    }

    /// Shares of a port ([`ONE`] is all of it) for each pair that has anything waiting.
    pub fn estimate(&mut self, waiting: &[u64], shares: &mut [u64]) {
        self.is_limited.fill(false);
        shares.fill(0);
        // Each round limits a receiver more, or is the last.
        for _ in 0..=self.hosts * self.hosts {
            self.was.copy_from_slice(shares);
            for from in 0..self.hosts {
                self.share_out(waiting, shares, from);
            }
            for to in 0..self.hosts {
                self.limit(waiting, shares, to);
            }
            if self.was == *shares {
                break;
            }
        }
    }

    /// A sender gives each flow that no receiver limits an equal share of what the others leave.
    fn share_out(&self, waiting: &[u64], shares: &mut [u64], from: usize) {
        let row = from * self.hosts..(from + 1) * self.hosts;
        let flows = || row.clone().filter(|&n| waiting[n] > 0);
        let limited: u64 = flows().filter(|&n| self.is_limited[n]).map(|n| shares[n]).sum();
        let free = flows().filter(|&n| !self.is_limited[n]).count() as u64;
        let Some(share) = ONE.saturating_sub(limited).checked_div(free) else { return };
        flows().filter(|&n| !self.is_limited[n]).for_each(|n| shares[n] = share);
    }

    /// A receiver that gets more than its port takes leaves small flows as they are, and gives the
    /// others equal shares of the rest.
    fn limit(&mut self, waiting: &[u64], shares: &mut [u64], to: usize) {
        let hosts = self.hosts;
        let flows = || (0..hosts).map(|from| from * hosts + to).filter(|&n| waiting[n] > 0);
        if flows().map(|n| shares[n]).sum::<u64>() <= ONE {
            return;
        }
        let mut share = 0;
        // As the share rises, more flows are below it.
        loop {
            let small: u64 = flows().map(|n| shares[n]).filter(|&s| s < share).sum();
            let large = flows().filter(|&n| shares[n] >= share).count() as u64;
            let next = (ONE - small).checked_div(large).unwrap_or(share);
            if next <= share {
                break;
            }
            share = next;
        }
        for n in flows() {
            if shares[n] >= share {
                shares[n] = share;
                self.is_limited[n] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(hosts: usize, waiting: &[u64]) -> Vec<f64> {
        let mut shares = vec![0; waiting.len()];
        Estimator::new(hosts).estimate(waiting, &mut shares);
        shares
            .iter()
            .map(|&s| (s as f64 / ONE as f64 * 600.0 + 0.5) as u64 as f64 / 600.0)
            .collect()
    }

    #[test]
    fn receivers_limit_and_senders_pass_on() {
        // 0 sends to 2; 1 to 2 and 3; both share 2's port, and 1 gives 3 the other half.
        let found = estimate(4, &[0, 0, 9, 0, 0, 0, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((found[2], found[6], found[7]), (0.5, 0.5, 0.5));
        // 3 sends there too: a third each, and two thirds for 1 to 3.
        let found = estimate(4, &[0, 0, 9, 0, 0, 0, 9, 9, 0, 0, 0, 0, 0, 0, 9, 0]);
        let third = 200.0 / 600.0;
        assert_eq!((found[2], found[6], found[14]), (third, third, third));
        assert_eq!(found[7], 400.0 / 600.0);
    }
}

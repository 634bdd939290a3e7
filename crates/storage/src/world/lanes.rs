//! When each CPU, the device and the policy have something next: a tree of winners.

/// The next time of each of a fixed number of lanes. Of equal times the lower lane comes first.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    /// Times with their lanes; node 1 is the root, each node is the less of the two below it.
    least: Vec<u128>,
    width: usize,
}

impl Lanes {
    pub(super) fn new(lanes: usize) -> Lanes {
        let width = lanes.next_power_of_two().max(2);
        let mut least: Vec<u128> = (0..2 * width).map(|n| key(n % width, u64::MAX)).collect();
        for node in (1..width).rev() {
            least[node] = least[2 * node].min(least[2 * node + 1]);
        }
        Lanes { least, width }
    }

    /// Sets when a lane is due; [`u64::MAX`] for not at all.
    #[inline]
    pub(super) fn set(&mut self, lane: usize, due: u64) {
        let mut node = self.width + lane;
        self.least[node] = key(lane, due);
        while node > 1 {
            let least = self.least[node].min(self.least[node ^ 1]);
            node /= 2;
            // The winner of this pair was the same before, so no pair above sees a difference:
            // most updates end after a level or two.
            if self.least[node] == least {
                return; // Nor does anything change above.
            }
            self.least[node] = least;
        }
    }

    #[inline]
    pub(super) fn due(&self, lane: usize) -> u64 {
        due(self.least[self.width + lane])
    }

    /// The lane that is due first, and when.
    #[inline]
    pub(super) fn first(&self) -> (usize, u64) {
        let least = self.least[1];
        ((least & 0xffff) as usize, due(least))
    }
}

/// Ordered by time, then lane.
fn key(lane: usize, due: u64) -> u128 {
    // One comparison orders by time and then by lane; 16 bits hold more lanes than a machine has
    // CPUs.
    debug_assert!(lane < 1 << 16, "a lane's number fits below its time");
    u128::from(due) << 16 | lane as u128
}

fn due(key: u128) -> u64 {
    (key >> 16) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_least_and_the_lower_of_equals() {
        let mut lanes = Lanes::new(81);
        assert_eq!(lanes.first().1, u64::MAX);
        let mut state = 1u64;
        let mut plain = vec![u64::MAX; 81];
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lane = (state >> 33) as usize % 81;
            plain[lane] = (state >> 20) % 50;
            lanes.set(lane, plain[lane]);
            let least = *plain.iter().min().unwrap();
            let first = plain.iter().position(|&due| due == least).unwrap();
            assert_eq!(lanes.first(), (first, least));
        }
    }
}

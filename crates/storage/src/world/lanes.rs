//! When each CPU, the device and the policy have something next: a tree of winners.

/// The next time of each of a fixed number of lanes. Of equal times the lower lane comes first.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    due: Vec<u64>,
    /// Winners; node 1 is the root, leaves are lanes.
    winner: Vec<u16>,
    width: usize,
}

impl Lanes {
    pub(super) fn new(lanes: usize) -> Lanes {
        let width = lanes.next_power_of_two().max(2);
        let mut winner: Vec<u16> = vec![0; 2 * width];
        for node in (1..2 * width).rev() {
            let leaf = |lane: usize| lane as u16;
            winner[node] = if node >= width { leaf(node - width) } else { winner[2 * node] };
        }
        Lanes { due: vec![u64::MAX; width], winner, width }
    }

    /// Sets when a lane is due; [`u64::MAX`] for not at all.
    #[inline]
    pub(super) fn set(&mut self, lane: usize, due: u64) {
        if self.due[lane] == due {
            return;
        }
        self.due[lane] = due;
        let mut node = (self.width + lane) / 2;
        while node >= 1 {
            let (left, right) = (self.winner[2 * node], self.winner[2 * node + 1]);
            let is_left = self.due[usize::from(left)] <= self.due[usize::from(right)];
            self.winner[node] = if is_left { left } else { right };
            node /= 2;
        }
    }

    #[inline]
    pub(super) fn due(&self, lane: usize) -> u64 {
        self.due[lane]
    }

    /// The lane that is due first, and when.
    #[inline]
    pub(super) fn first(&self) -> (usize, u64) {
        let lane = usize::from(self.winner[1]);
        (lane, self.due[lane])
    }
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

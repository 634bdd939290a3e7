//! Sizes of multi-rooted trees built of equal switches (Strong 2013, Sec 1.4 and 4.2.1).

/// Switches of a tree; `None` where a count does not fit 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Levels of switches, 1 or more.
    pub levels: u32,
    /// Ports of a switch, even, 2 or more. Dual redundant links halve what counts.
    pub radix: u64,
}

impl Tree {
    /// Servers at full bisection: `k^N / 2^(N-1)`.
    #[must_use]
    pub fn servers(self) -> Option<u64> {
        self.half_radix_power(self.levels)?.checked_mul(2)
    }

    /// Switches of each level but the top: `k^(N-1) / 2^(N-2)`. A single level is one switch.
    #[must_use]
    pub fn switches_per_level(self) -> Option<u64> {
        self.half_radix_power(self.levels.checked_sub(1)?)?.checked_mul(2)
    }

    /// Switches of the top level, half of another's.
    #[must_use]
    pub fn top_switches(self) -> Option<u64> {
        self.half_radix_power(self.levels.checked_sub(1)?)
    }

    /// All switches: `(2N - 1) (k/2)^(N-1)`.
    #[must_use]
    pub fn switches(self) -> Option<u64> {
        let below = self.switches_per_level()?.checked_mul(u64::from(self.levels) - 1)?;
        below.checked_add(self.top_switches()?)
    }

    /// `(k/2)^n`: `k^n / 2^n` without large numbers in between.
    fn half_radix_power(self, exponent: u32) -> Option<u64> {
        (self.radix / 2).checked_pow(exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn a_fat_tree_of_four_port_switches() {
        // Sec 4.2.1: N = 3, k = 4. The fat tree of Al-Fares 2008, Fig 3, has the same counts.
        let tree = Tree { levels: 3, radix: 4 };
        assert_eq!(tree.servers(), Some(16));
        assert_eq!(tree.switches_per_level(), Some(8));
        assert_eq!(tree.top_switches(), Some(4));
        assert_eq!(tree.switches(), Some(20));
    }

    #[test]
    fn tree_of_one_level_is_one_switch() {
        let tree = Tree { levels: 1, radix: 64 };
        assert_eq!((tree.servers(), tree.switches()), (Some(64), Some(1)));
        assert_eq!(Tree { levels: 0, radix: 64 }.switches(), None);
        assert_eq!(Tree { levels: 40, radix: 64 }.servers(), None);
    }

    #[test]
    fn ports_are_used_up() {
        // Every port of every switch has a server or another switch at its other end.
        for levels in 2..6 {
            for radix in [4, 8, 16, 48] {
                let tree = Tree { levels, radix };
                let ports = tree.switches().unwrap() * radix;
                let links = tree.servers().unwrap() * u64::from(levels - 1);
                assert_eq!(ports, tree.servers().unwrap() + 2 * links, "{tree:?}");
            }
        }
    }
}

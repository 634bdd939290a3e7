//! Where cores lie on the chip, what Eq 2.1 counts around one of them, and which sets of cores are
//! the same set turned or mirrored.

/// A set of cores: bit `n` is core `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cores(pub u64);

impl Cores {
    /// The cores of these numbers.
    pub fn of(numbers: impl IntoIterator<Item = usize>) -> Cores {
        Cores(numbers.into_iter().fold(0, |set, n| set | 1 << n))
    }

    /// The first `count` cores.
    #[must_use]
    pub const fn first(count: usize) -> Cores {
        Cores(if count == 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// Returns whether core `n` is in the set.
    #[must_use]
    pub const fn has(self, n: usize) -> bool {
        self.0 >> n & 1 == 1
    }

    /// The set without core `n`.
    #[must_use]
    pub const fn without(self, n: usize) -> Cores {
        Cores(self.0 & !(1 << n))
    }

    /// Returns the number of cores.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the numbers of the cores, rising.
    pub fn iter(self) -> impl Iterator<Item = usize> + Clone {
        (0..64).filter(move |&n| self.has(n))
    }
}

/// Surroundings of a critical active core, as Eq 2.1 counts them (Strong 2013, Sec 2.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Surroundings {
    /// Waking cores beside it, in its row or column.
    pub w: usize,
    /// Waking cores diagonally beside it.
    pub x: usize,
    /// Number of other waking cores.
    pub y: usize,
    /// Cores on the edge of the chip among it and its `w` (the wording in the thesis is loose; this
    /// is how halfwink reads it).
    pub z: usize,
}

/// A grid of cores, numbered row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Number of rows.
    pub rows: usize,
    /// Cores in a row.
    pub columns: usize,
}

impl Grid {
    /// Returns rows times columns.
    #[must_use]
    pub const fn cores(self) -> usize {
        self.rows * self.columns
    }

    /// Row and column of a core.
    #[must_use]
    pub const fn place(self, core: usize) -> (usize, usize) {
        (core / self.columns, core % self.columns)
    }

    /// Rows and columns between two cores.
    #[must_use]
    pub const fn apart(self, a: usize, b: usize) -> (usize, usize) {
        let ((ar, ac), (br, bc)) = (self.place(a), self.place(b));
        (ar.abs_diff(br), ac.abs_diff(bc))
    }

    /// Pairs of cores that share an edge, each once.
    pub fn neighbours(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.cores()).flat_map(move |a| {
            let right = ((a + 1) % self.columns != 0).then_some((a, a + 1));
            let below = (a + self.columns < self.cores()).then_some((a, a + self.columns));
            [right, below].into_iter().flatten()
        })
    }

    /// Quadrants of the chip that a core lies in, with its share of each: a core of a middle row or
    /// column belongs to both sides alike.
    pub fn quadrants(self, core: usize) -> impl Iterator<Item = (usize, f64)> {
        let (row, column) = self.place(core);
        let share = |place: usize, of: usize, far: bool| match (2 * place + 1).cmp(&of) {
            std::cmp::Ordering::Equal => 0.5,
            side => f64::from(u8::from(far == side.is_gt())),
        };
        (0..4).filter_map(move |quadrant| {
            let (lower, right) = (quadrant / 2 == 1, quadrant % 2 == 1);
            let part = share(row, self.rows, lower) * share(column, self.columns, right);
            (part > 0.0).then_some((quadrant, part))
        })
    }

    /// Returns whether a core has fewer than four neighbours.
    #[must_use]
    pub const fn is_edge(self, core: usize) -> bool {
        let (row, column) = self.place(core);
        row == 0 || column == 0 || row + 1 == self.rows || column + 1 == self.columns
    }

    /// Counts the surroundings of `active` for Eq 2.1 while `waking` wake.
    #[must_use]
    pub fn surroundings(self, active: usize, waking: Cores) -> Surroundings {
        let mut found = Surroundings { z: usize::from(self.is_edge(active)), ..Default::default() };
        for core in waking.iter() {
            match self.apart(active, core) {
                (0, 1) | (1, 0) => {
                    found.w += 1;
                    found.z += usize::from(self.is_edge(core));
                }
                (1, 1) => found.x += 1,
                _ => found.y += 1,
            }
        }
        found
    }

    /// Starts of waking cores `stagger_ns` apart, those nearest to `critical` first: what weighs
    /// most lies closest together in time.
    #[must_use]
    pub fn nearest_first(
        self,
        critical: usize,
        waking: Cores,
        stagger_ns: f64,
    ) -> Vec<(usize, f64)> {
        let distance = |core: usize| {
            let (rows, columns) = self.apart(critical, core);
            rows * rows + columns * columns
        };
        let mut order: Vec<usize> = waking.iter().collect();
        order.sort_by_key(|&core| distance(core));
        order.iter().enumerate().map(|(n, &core)| (core, n as f64 * stagger_ns)).collect()
    }

    /// The slot in which a core may start to wake (Strong 2013, Sec 2.3.2). The thesis's maps are
    /// lost; these give a core and its neighbours as many different slots as there are.
    #[must_use]
    pub const fn slot(self, core: usize, slots: usize) -> usize {
        let (row, column) = self.place(core);
        let diagonal = if slots <= 3 { 1 } else { 2 };
        (column + diagonal * row) % slots
    }

    /// Turns and mirrorings that leave the grid and `fixed` as they are; each maps core `n` to
    /// `[n]`. The first changes nothing.
    #[must_use]
    pub fn symmetries(self, fixed: Cores) -> Vec<Vec<usize>> {
        let (rows, columns) = (self.rows, self.columns);
        let mut found: Vec<Vec<usize>> = Vec::new();
        for shape in 0..8 {
            let swaps = shape & 4 != 0;
            if swaps && rows != columns {
                continue;
            }
            let map = |core: usize| {
                let (mut row, mut column) = self.place(core);
                if swaps {
                    (row, column) = (column, row);
                }
                if shape & 1 != 0 {
                    row = rows - 1 - row;
                }
                if shape & 2 != 0 {
                    column = columns - 1 - column;
                }
                row * columns + column
            };
            let image: Vec<usize> = (0..self.cores()).map(map).collect();
            let keeps = Cores::of(fixed.iter().map(|n| image[n])) == fixed;
            if keeps && !found.contains(&image) {
                found.push(image);
            }
        }
        found
    }

    /// One of each class of equal sets, with the size of its class; every set but the empty one.
    #[must_use]
    pub fn sets_up_to(self, symmetries: &[Vec<usize>]) -> Vec<(Cores, usize)> {
        let all = 1u64 << self.cores();
        let mut found = Vec::new();
        for bits in 1..all {
            let set = Cores(bits);
            let mut images: Vec<u64> =
                symmetries.iter().map(|s| Cores::of(set.iter().map(|n| s[n])).0).collect();
            if images.iter().all(|&image| image >= bits) {
                images.sort_unstable();
                images.dedup();
                found.push((set, images.len()));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: Grid = Grid { rows: 4, columns: 4 };

    #[test]
    fn sets_of_sixteen_cores_up_to_symmetry() {
        // Burnside's lemma: (2^16 + 2^4 + 2^8 + 2^4 + 2 * 2^8 + 2 * 2^10) / 8, less the empty set.
        let sets = SQUARE.sets_up_to(&SQUARE.symmetries(Cores::default()));
        assert_eq!(sets.len(), (65_536 + 16 + 256 + 16 + 512 + 2048) / 8 - 1);
        assert_eq!(sets.iter().map(|(_, size)| size).sum::<usize>(), 65_535);
    }

    #[test]
    fn an_oblong_has_four_symmetries_and_a_fixed_corner_leaves_fewer() {
        let oblong = Grid { rows: 2, columns: 3 };
        assert_eq!(oblong.symmetries(Cores::default()).len(), 4);
        assert_eq!(SQUARE.symmetries(Cores::of([0])).len(), 2);
    }

    #[test]
    fn a_middle_column_belongs_to_both_sides() {
        let of = |rows, columns, core| -> Vec<(usize, f64)> {
            Grid { rows, columns }.quadrants(core).collect()
        };
        assert_eq!(of(4, 4, 5), [(0, 1.0)]);
        assert_eq!(of(4, 4, 14), [(3, 1.0)]);
        assert_eq!(of(2, 3, 4), [(2, 0.5), (3, 0.5)]);
        assert_eq!(of(1, 1, 0), [0, 1, 2, 3].map(|quadrant| (quadrant, 0.25)));
    }

    #[test]
    fn surroundings_of_an_inner_core_and_of_a_corner() {
        let all = Cores::first(16);
        let inner = SQUARE.surroundings(5, all.without(5));
        assert_eq!(inner, Surroundings { w: 4, x: 4, y: 7, z: 2 });
        let corner = SQUARE.surroundings(0, all.without(0));
        assert_eq!(corner, Surroundings { w: 2, x: 1, y: 12, z: 3 });
    }
}

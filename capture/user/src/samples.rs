// SPDX-License-Identifier: GPL-2.0-or-later
//! Which stretches of a run of unknown length are recorded as its samples.
//!
//! The run is divided into stretches of one size. First each one is a sample; whenever twice as
//! many as are wanted have been taken, each second one is given up, and the distance doubles. So at
//! the end there are at least as many as are wanted, at one distance, wherever the run ends: a
//! systematic sample. Those that were given up stay in the file until it is written anew.

/// Samples of a run, as they are chosen while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    wanted: usize,
    size: u64,
    /// Distance of samples, in stretches.
    every: u64,
    /// Stretches that were taken, and not given up since.
    taken: Vec<u64>,
    /// True while the present stretch is taken; `end` is where it ends.
    open: bool,
    end: u64,
}

impl Samples {
    /// At least `wanted` samples of `size` instructions.
    #[must_use]
    pub fn new(wanted: usize, size: u64) -> Samples {
        Samples { wanted, size, every: 1, taken: Vec::new(), open: false, end: 0 }
    }

    /// Distance of samples, in stretches of their size.
    #[must_use]
    pub fn every(&self) -> u64 {
        self.every
    }

    /// Returns whether a sample is being taken.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether the block that begins after `at` instructions belongs to the sample that is
    /// being taken; else it may begin one.
    #[inline]
    #[must_use]
    pub fn holds(&self, at: u64) -> bool {
        self.open && at < self.end
    }

    /// Begins a sample with a block after `at` instructions, if one begins there; returns how many
    /// instructions lie before its stretch.
    pub fn begin(&mut self, at: u64) -> Option<u64> {
        let stretch = at / self.size;
        self.end = (stretch + 1).saturating_mul(self.size);
        // A sample that begins late, because its hooks came late, would be shorter than the others.
        let late = at - stretch * self.size > self.latest();
        self.open = !late && self.is_next(stretch);
        if self.open {
            self.taken.push(stretch);
        }
        self.open.then_some(stretch * self.size)
    }

    /// Instructions of a stretch after which no sample of it begins.
    fn latest(&self) -> u64 {
        self.size / 100
    }

    fn is_next(&mut self, stretch: u64) -> bool {
        if !stretch.is_multiple_of(self.every) {
            return false;
        }
        if self.taken.len() == 2 * self.wanted {
            self.every *= 2;
            self.taken.retain(|taken| taken.is_multiple_of(self.every));
        }
        stretch.is_multiple_of(self.every)
    }

    /// Instructions from the position `at` to the next sample; none where one is being taken.
    #[must_use]
    pub fn distance(&self, at: u64) -> u64 {
        if self.holds(at) {
            return 0;
        }
        let distance = self.every.saturating_mul(self.size);
        // The block that begins here may be the first of a stretch, if none was asked about yet.
        if at >= self.end && at % distance <= self.latest() {
            return 0;
        }
        at.checked_next_multiple_of(distance).map_or(u64::MAX, |next| next - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins of the stretches that are taken of a run whose blocks have `step` instructions.
    fn taken(samples: &mut Samples, instructions: u64, step: u64) -> Vec<u64> {
        let mut all = Vec::new();
        for at in (0..instructions).step_by(step as usize) {
            if !samples.holds(at) {
                all.extend(samples.begin(at));
            }
        }
        all
    }

    #[test]
    fn distance_doubles_whenever_there_are_twice_as_many_as_are_wanted() {
        let mut samples = Samples::new(2, 100);
        // 0 to 3 at distance 1; with the stretch 4, 0 and 2 are left; with 8, 0 and 4; with 16.
        let all = taken(&mut samples, 2_000, 1);
        assert_eq!(all, [0, 100, 200, 300, 400, 600, 800, 1200, 1600]);
        assert_eq!((samples.every(), samples.taken), (8, vec![0, 8, 16]));
    }

    #[test]
    fn a_run_has_at_least_as_many_samples_as_are_wanted_and_fewer_than_two_more() {
        for stretches in 5..200 {
            let mut samples = Samples::new(5, 1_000);
            taken(&mut samples, stretches * 1_000, 7);
            let (kept, every) = (&samples.taken, samples.every());
            assert!((5..=10).contains(&kept.len()), "{stretches}: {kept:?}");
            let grid: Vec<u64> = (0..stretches).step_by(every as usize).collect();
            assert_eq!(kept, &grid, "{stretches} stretches, each {every}");
        }
    }

    #[test]
    fn sample_that_would_begin_late_is_left_out() {
        let mut samples = Samples::new(1, 1_000);
        assert_eq!(samples.begin(11), None);
        assert!(!samples.holds(500));
        assert_eq!(samples.begin(1_010), Some(1_000));
        assert!(samples.holds(1_999) && !samples.holds(2_000));
    }

    #[test]
    fn next_sample_is_as_far_as_the_grid_says() {
        let mut samples = Samples::new(1, 100);
        taken(&mut samples, 300, 1);
        assert_eq!(samples.every(), 2);
        assert_eq!(samples.distance(250), 0, "inside the third stretch");
        assert_eq!(samples.distance(300), 100);
        assert_eq!(samples.distance(399), 1);
        assert_eq!(samples.distance(401), 0, "blocks do not end where stretches do");
        assert_eq!(samples.begin(401), Some(400));
    }
}

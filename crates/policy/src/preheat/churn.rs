//! How the lines of a service change from request to request (Gottschlag 2016, Sec 3.3.3).

use super::lines::LineSet;

/// Difference between a set and an earlier one of the same service, in lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Lines of the earlier set.
    pub before: u64,
    /// Lines of the later set.
    pub after: u64,
    /// Lines in both sets.
    pub common: u64,
}

impl Difference {
    /// Compares two sets.
    #[must_use]
    pub fn between(before: &LineSet, after: &LineSet) -> Difference {
        let common = before.common(after) as u64;
        Difference { before: before.len() as u64, after: after.len() as u64, common }
    }

    /// Lines of the later set that are not in the earlier one (Sec 3.3.3).
    #[must_use]
    pub fn new_lines(&self) -> u64 {
        self.after - self.common
    }

    /// Returns the new lines as a share of the later set; 0 if it is empty.
    #[must_use]
    pub fn new_share(&self) -> f64 {
        share(self.new_lines(), self.after)
    }

    /// Lines in both as a share of the later set (Sec 3.3.3: overlap); 0 of an empty one.
    #[must_use]
    pub fn overlap(&self) -> f64 {
        share(self.common, self.after)
    }

    /// Lines in both as a share of those in either (Sec 3.3.5: shared part of the combined set).
    #[must_use]
    pub fn shared_part(&self) -> f64 {
        share(self.common, self.before + self.after - self.common)
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 {
        return 0.0;
    }
    part as f64 / of as f64
}

/// Differences between sets of one service and the first (Fig 3.3).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Churn {
    first: Option<LineSet>,
    sets: u64,
    sum_of_new_shares: f64,
    largest: f64,
}

impl Churn {
    /// One more set; how it differs from the first, `None` of the first.
    pub fn add(&mut self, lines: &LineSet) -> Option<Difference> {
        let Some(first) = &self.first else {
            self.first = Some(lines.clone());
            return None;
        };
        let difference = Difference::between(first, lines);
        self.sets += 1;
        self.sum_of_new_shares += difference.new_share();
        self.largest = self.largest.max(difference.new_share());
        Some(difference)
    }

    /// Mean share of lines that are not in the first set; `None` before the second.
    #[must_use]
    pub fn mean_new_share(&self) -> Option<f64> {
        (self.sets > 0).then(|| self.sum_of_new_shares / self.sets as f64)
    }

    /// The largest such share.
    #[must_use]
    pub fn largest_new_share(&self) -> f64 {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_of_sets_counts_new_and_common_lines() {
        let (a, b): (LineSet, LineSet) = ((0..20).collect(), (1..26).collect());
        let difference = Difference::between(&a, &b);
        assert_eq!(difference, Difference { before: 20, after: 25, common: 19 });
        assert_eq!((difference.new_lines(), difference.new_share()), (6, 0.24));
        assert_eq!((difference.overlap(), difference.shared_part()), (0.76, 19.0 / 26.0));
        let mut churn = Churn::default();
        assert_eq!((churn.add(&a), churn.mean_new_share()), (None, None));
        assert_eq!(churn.add(&b), Some(difference));
        assert_eq!(churn.add(&a).map(|d| d.new_lines()), Some(0));
        assert_eq!((churn.mean_new_share(), churn.largest_new_share()), (Some(0.12), 0.24));
        assert_eq!(churn.add(&LineSet::new()).map(|d| d.new_share()), Some(0.0));
    }
}

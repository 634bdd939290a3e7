use halfwink_units::{Energy, Time};

/// A part of a run: two techniques that play the same work are compared part by part, so that what
/// both have in common leaves the interval of their difference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Piece {
    /// Number of the load that it had, in a run that follows a plan of several; else 0.
    pub stratum: u32,
    /// Units of work that were done in it.
    pub work: u64,
    /// Length of the piece, in seconds.
    pub seconds: f64,
    /// Energy of everything in it, in joules.
    pub energy_j: f64,
}

/// Sums from the start of a run up to some time.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    work: u64,
    at: Time,
    energy: Energy,
}

/// Cuts a run into pieces of equal work: at most 128, and at least 64 once there is as much work.
/// A run whose length is unknown begins with short ones, and merges neighbours.
#[derive(Clone, Debug)]
pub struct Pieces {
    each: u64,
    ends: Vec<End>,
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces { each: 1, ends: Vec::new() }
    }
}

impl Pieces {
    const MOST: usize = 128;

    /// Whether a piece ends when this much work is done.
    #[must_use]
    #[inline]
    pub fn is_due(&self, work: u64) -> bool {
        work.is_multiple_of(self.each)
    }

    /// Ends a piece, with sums from the start of the run.
    pub fn end(&mut self, work: u64, at: Time, energy: Energy) {
        self.ends.push(End { work, at, energy });
        if self.ends.len() == Pieces::MOST {
            self.each *= 2;
            let each = self.each;
            self.ends.retain(|end| end.work % each == 0);
        }
    }

    /// The pieces, with the rest of the run as the last one.
    #[must_use]
    pub fn finish(mut self, work: u64, at: Time, energy: Energy) -> Vec<Piece> {
        if self.ends.last().is_none_or(|last| last.work < work || last.at < at) {
            self.ends.push(End { work, at, energy });
        }
        let mut before = End::default();
        let piece = |end: End| {
            let piece = Piece {
                stratum: 0,
                work: end.work - before.work,
                seconds: (end.at - before.at).as_s(),
                energy_j: end.energy.as_j() - before.energy.as_j(),
            };
            before = end;
            piece
        };
        self.ends.into_iter().map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_units::Power;

    #[test]
    fn pieces_are_few_equal_and_add_up_to_the_run() {
        for total in [1_u64, 63, 64, 127, 128, 129, 1_000, 77_777] {
            let (mut pieces, watt) = (Pieces::default(), Power::from_w(1.0));
            for work in 1..=total {
                if pieces.is_due(work) {
                    let at = Time::ns(10 * work);
                    pieces.end(work, at, watt * at);
                }
            }
            let end = Time::ns(10 * total + 5);
            let found = pieces.finish(total, end, watt * end);
            assert!(found.len() <= 128 && found.len() as u64 >= total.min(64), "{total}");
            assert_eq!(found.iter().map(|p| p.work).sum::<u64>(), total);
            let seconds: f64 = found.iter().map(|p| p.seconds).sum();
            assert!((seconds / end.as_s() - 1.0).abs() < 1e-9, "{total}");
            let whole = &found[..found.len() - 1];
            assert!(whole.windows(2).all(|p| p[0].work == p[1].work), "{total}");
        }
    }
}

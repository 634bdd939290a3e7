//! The threshold N: how long an invocation must be expected to be to move, fixed or found by trying
//! (Nellans 2014, Sec 4.6.3).
//!
//! ```text
//!  OS SHARE ─▶ SAMPLE N, below, above ─▶ RUN ─▶ SAMPLE below, above ─┐
//!  25 M        25 M each                  ▲ 100 M, then               │
//!                                         │ doubled while N stays best│
//!                                         └───────────────────────────┘
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Thresholds that are tried. assumption: those of Table 4.3 and Fig 4.8, since the grid is not
/// printed.
pub const GRID_INSTRUCTIONS: [u64; 6] = [0, 100, 500, 1_000, 5_000, 10_000];

/// Hits of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    /// Number of accesses, hits included.
    pub accesses: u64,
    /// Number of hits.
    pub hits: u64,
}

/// Counters since the last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Instructions retired, by privilege (user, kernel).
    pub instructions: [u64; 2],
    /// Second-level caches, by core (user core, OS core).
    pub l2: [Counts; 2],
    /// Properties of the user code.
    pub user: Traits,
}

/// Counts that tell kinds of code apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Traits {
    /// Number of floating-point operations.
    pub fp: u64,
    /// Number of mispredicted branches.
    pub mispredicted: u64,
    /// Misses of the first-level data cache.
    pub l1d_misses: u64,
}

impl Sample {
    pub(super) fn add(&mut self, more: &Sample) {
        self.user.fp += more.user.fp;
        self.user.mispredicted += more.user.mispredicted;
        self.user.l1d_misses += more.user.l1d_misses;
        for mode in 0..2 {
            self.instructions[mode] += more.instructions[mode];
            self.l2[mode].accesses += more.l2[mode].accesses;
            self.l2[mode].hits += more.l2[mode].hits;
        }
    }

    /// Mean of the two caches' hit rates in millionths (Nellans 2014, Sec 4.6.3); a cache without
    /// accesses is left out (assumption), and without any the mean is zero.
    #[must_use]
    pub fn mean_hit_ppm(&self) -> u64 {
        let used = self.l2.iter().filter(|cache| cache.accesses > 0);
        let rates = used
            .clone()
            // Millionths in integers: policies own no floats, so that a replay is exact on every
            // host. 128 bits, so that no product overflows.
            .map(|cache| (u128::from(cache.hits) * 1_000_000 / u128::from(cache.accesses)) as u64);
        rates.sum::<u64>() / used.count().max(1) as u64
    }

    pub(super) fn total(&self) -> u64 {
        self.instructions.iter().sum()
    }
}

/// Required improvement by another threshold (the text says "1 %").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// Improvement of the hit rate in millionths: 10,000 are one percentage point (assumption).
    Points(u64),
    /// Improvement in millionths of the present hit rate: the other reading.
    Relative(u64),
}

impl Margin {
    fn is_better(self, candidate: u64, present: u64) -> bool {
        let needed = match self {
            Margin::Points(ppm) => ppm,
            Margin::Relative(ppm) => {
                // Rounded up: an improvement just below the margin must not pass by rounding.
                (u128::from(present) * u128::from(ppm)).div_ceil(1_000_000) as u64
            }
        };
        // At least, not more than: exactly one point better moves the threshold (assumption).
        candidate >= present + needed
    }
}

/// Constants of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackParameters {
    /// Thresholds to choose from, ascending; at least one.
    pub grid: Vec<u64>,
    /// Threshold while the OS share is measured and for programs with a small one: 10,000. The text
    /// does not say what holds while it is measured (assumption).
    pub first_low_share: u64,
    /// Threshold that programs with a large OS share start with: 1,000.
    pub first_high_share: u64,
    /// OS share of instructions from which on it is large, in millionths: 100,000.
    pub high_share_ppm: u64,
    /// Instructions for each threshold that is tried: 25 million.
    pub sample_instructions: u64,
    /// Instructions of the first run with the best one: 100 million.
    pub run_instructions: u64,
    /// Instructions of the longest run. assumption: 6.4 billion; the text names no limit.
    pub run_most_instructions: u64,
    /// Improvement that is required.
    pub margin: Margin,
}

impl FeedbackParameters {
    /// Returns the published parameters.
    #[must_use]
    pub fn published() -> FeedbackParameters {
        FeedbackParameters {
            grid: GRID_INSTRUCTIONS.to_vec(),
            first_low_share: 10_000,
            first_high_share: 1_000,
            high_share_ppm: 100_000,
            sample_instructions: 25_000_000,
            run_instructions: 100_000_000,
            run_most_instructions: 6_400_000_000,
            margin: Margin::Points(10_000),
        }
    }

    /// Divides all epochs by `by`, for short traces.
    #[must_use]
    pub fn shortened(mut self, by: u64) -> FeedbackParameters {
        for epoch in [
            &mut self.sample_instructions,
            &mut self.run_instructions,
            &mut self.run_most_instructions,
        ] {
            *epoch = (*epoch / by.max(1)).max(1);
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Measures the OS share.
    Share,
    /// Tries the present threshold for the first time.
    Present,
    /// Tries the next lower one.
    Below,
    /// Tries the next higher one.
    Above,
    /// Keeps to the best.
    Run,
}

/// The controller that finds N.
#[derive(Clone, Debug)]
pub struct Feedback {
    parameters: FeedbackParameters,
    phase: Phase,
    /// Index of N in the grid.
    present: usize,
    /// Hit rate with N, from the last time that it ran.
    present_ppm: u64,
    /// Best neighbour of this round: its hit rate and index.
    best: Option<(u64, usize)>,
    /// The first round is followed by the first run whatever it finds.
    first_round: bool,
    run: u64,
    epoch: Sample,
}

impl Feedback {
    /// A controller that begins to measure the OS share. An empty grid counts as the published one.
    #[must_use]
    pub fn new(mut parameters: FeedbackParameters) -> Feedback {
        if parameters.grid.is_empty() {
            // All indices below rely on at least one threshold.
            parameters.grid = GRID_INSTRUCTIONS.to_vec();
        }
        debug_assert!(
            parameters.grid.is_sorted(),
            "thresholds ascend: neighbours are lower and higher"
        );
        let mut feedback = Feedback {
            phase: Phase::Share,
            present: 0,
            present_ppm: 0,
            best: None,
            first_round: true,
            run: parameters.run_instructions,
            epoch: Sample::default(),
            parameters,
        };
        feedback.present = feedback.nearest(feedback.parameters.first_low_share);
        feedback
    }

    /// Index of the highest threshold that is not above `instructions`.
    fn nearest(&self, instructions: u64) -> usize {
        self.parameters.grid.partition_point(|&n| n <= instructions).saturating_sub(1)
    }

    /// The index of the threshold that is being tried or kept to.
    fn tried(&self) -> usize {
        match self.phase {
            // The phases are entered only where the neighbour exists (`begin_round`, `has_above`).
            Phase::Below => self.present - 1,
            Phase::Above => self.present + 1,
            Phase::Share | Phase::Present | Phase::Run => self.present,
        }
    }

    /// The threshold that decides now, in instructions.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.parameters.grid[self.tried()]
    }

    /// Instructions that the present epoch lasts.
    fn epoch_instructions(&self) -> u64 {
        match self.phase {
            Phase::Run => self.run,
            _ => self.parameters.sample_instructions,
        }
    }

    /// Counters since the last sample. An epoch ends with the first sample that completes it.
    pub fn on_sample(&mut self, sample: &Sample) {
        self.epoch.add(sample);
        // Samples come at the world's pace and not at ours: an epoch is overrun by less than one
        // sample, and the rest counts in it rather than in the next, whose threshold is another.
        if self.epoch.total() < self.epoch_instructions() {
            return;
        }
        let epoch = core::mem::take(&mut self.epoch);
        let ppm = epoch.mean_hit_ppm();
        match self.phase {
            Phase::Share => {
                let total = u128::from(epoch.total());
                let kernel = u128::from(epoch.instructions[1]) * 1_000_000;
                let p = &self.parameters;
                // Products instead of a quotient: no rounding at the boundary.
                let first = if kernel > total * u128::from(p.high_share_ppm) {
                    p.first_high_share
                } else {
                    p.first_low_share
                };
                self.present = self.nearest(first);
                self.phase = Phase::Present;
            }
            Phase::Present | Phase::Run => {
                // The hit rate of the run itself is the one to beat, measured again after each
                // run: programs change their phase.
                self.present_ppm = ppm;
                self.begin_round();
            }
            Phase::Below => {
                self.note(ppm);
                if self.has_above() {
                    self.phase = Phase::Above;
                } else {
                    self.end_round();
                }
            }
            Phase::Above => {
                self.note(ppm);
                self.end_round();
            }
        }
    }

    fn has_above(&self) -> bool {
        self.present + 1 < self.parameters.grid.len()
    }

    /// At the edges of the grid only the neighbour that exists is tried.
    fn begin_round(&mut self) {
        if self.present > 0 {
            self.phase = Phase::Below;
        } else if self.has_above() {
            self.phase = Phase::Above;
        } else {
            self.phase = Phase::Run;
        }
    }

    /// Records the best threshold. Among equals it keeps the lower neighbour, which is tried first.
    fn note(&mut self, ppm: u64) {
        if self.best.is_none_or(|(best, _)| ppm > best) {
            self.best = Some((ppm, self.tried()));
        }
    }

    fn end_round(&mut self) {
        let better = self
            .best
            .take()
            .filter(|&(ppm, _)| self.parameters.margin.is_better(ppm, self.present_ppm));
        if let Some((_, index)) = better {
            self.present = index;
            // A new best threshold is checked again soon.
            self.run = self.parameters.run_instructions;
        } else if !self.first_round {
            // One that stays best is disturbed half as often each time: the samples cost
            // throughput.
            self.run = (self.run * 2).min(self.parameters.run_most_instructions);
        }
        debug_assert!(
            self.present < self.parameters.grid.len(),
            "the threshold is one of the grid"
        );
        self.first_round = false;
        self.phase = Phase::Run;
    }
}

/// A threshold, fixed or adjusting itself.
#[derive(Clone, Debug)]
pub enum Threshold {
    /// Always this many instructions.
    Fixed(u64),
    /// Finds the threshold by trying.
    Feedback(Box<Feedback>),
}

impl Threshold {
    /// Returns the present threshold, in instructions.
    #[inline]
    #[must_use]
    pub fn instructions(&self) -> u64 {
        match self {
            Threshold::Fixed(n) => *n,
            Threshold::Feedback(feedback) => feedback.instructions(),
        }
    }

    pub(super) fn on_sample(&mut self, sample: &Sample) {
        if let Threshold::Feedback(feedback) = self {
            feedback.on_sample(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1_000_000;

    /// An epoch of `millions` with this OS share and hit rates, in per cent.
    fn sample(millions: u64, share: u64, user: u64, os: u64) -> Sample {
        let kernel = millions * M * share / 100;
        let cache = |hits| Counts { accesses: 100, hits };
        let instructions = [millions * M - kernel, kernel];
        Sample { instructions, l2: [cache(user), cache(os)], ..Sample::default() }
    }

    fn controller() -> Feedback {
        Feedback::new(FeedbackParameters::published())
    }

    /// Feeds samples of (millions, hit rate of both caches) and returns N after each.
    fn after(feedback: &mut Feedback, epochs: &[(u64, u64)]) -> Vec<u64> {
        let step = |&(millions, hit): &(u64, u64)| {
            feedback.on_sample(&sample(millions, 50, hit, hit));
            feedback.instructions()
        };
        epochs.iter().map(step).collect()
    }

    #[test]
    fn hit_rates_are_averaged_over_caches_in_use() {
        assert_eq!(sample(25, 0, 90, 70).mean_hit_ppm(), 800_000);
        let mut idle = sample(25, 0, 90, 0);
        idle.l2[1] = Counts::default();
        assert_eq!(idle.mean_hit_ppm(), 900_000);
        assert_eq!(Sample::default().mean_hit_ppm(), 0);
    }

    #[test]
    fn it_starts_by_the_os_share() {
        // Exactly 10 % is not more than 10 %.
        for (share, first) in [(0, 10_000), (10, 10_000), (11, 1_000), (70, 1_000)] {
            let mut feedback = controller();
            assert_eq!(feedback.instructions(), 10_000);
            feedback.on_sample(&sample(25, share, 90, 90));
            assert_eq!(feedback.instructions(), first, "{share} %");
        }
    }

    #[test]
    fn better_neighbour_becomes_the_threshold_and_runs_double() {
        let mut feedback = controller();
        // OS share; then N = 1000, 500, 5000 are tried: 80, 82, 81 %. 500 wins.
        let tried = after(&mut feedback, &[(25, 50), (25, 80), (25, 82), (25, 81)]);
        assert_eq!(tried, [1_000, 500, 5_000, 500]);
        // It runs for 100 M, then 100 and 1000 are tried: neither is a point better than 82.
        let tried = after(&mut feedback, &[(99, 82), (1, 82), (25, 82), (25, 80)]);
        assert_eq!(tried, [500, 100, 1_000, 500]);
        // So the next run lasts 200 M. Then 1000 is exactly one point better, which is enough.
        let tried = after(&mut feedback, &[(199, 82), (1, 82), (25, 82), (25, 83)]);
        assert_eq!(tried, [500, 100, 1_000, 1_000]);
        // Back to 100 M.
        assert_eq!(after(&mut feedback, &[(99, 83), (1, 83)]), [1_000, 500]);
    }

    #[test]
    fn the_first_run_is_not_doubled() {
        let mut feedback = controller();
        after(&mut feedback, &[(25, 80), (25, 80), (25, 80), (25, 80)]);
        assert_eq!(after(&mut feedback, &[(99, 80), (1, 80)]), [1_000, 500]);
        // 500 and 5000 are no better; the second run is: 200 M.
        assert_eq!(after(&mut feedback, &[(25, 80), (25, 80)]), [5_000, 1_000]);
        assert_eq!(after(&mut feedback, &[(199, 80), (1, 80)]), [1_000, 500]);
    }

    #[test]
    fn at_the_edges_only_one_neighbour_is_tried() {
        let mut feedback = controller();
        feedback.on_sample(&sample(25, 0, 80, 80));
        // 10000, then 5000, then the run.
        assert_eq!(after(&mut feedback, &[(25, 80), (25, 80)]), [5_000, 10_000]);
        assert_eq!(after(&mut feedback, &[(99, 80), (1, 80)]), [10_000, 5_000]);
        let only_low = FeedbackParameters { grid: [0, 100].to_vec(), ..feedback.parameters };
        let mut feedback = Feedback::new(only_low);
        // 100 is the highest that is not above 1000; 0 is better and has no lower neighbour.
        let tried = after(&mut feedback, &[(25, 80), (25, 80), (25, 90), (100, 90), (25, 90)]);
        assert_eq!(tried, [100, 0, 0, 100, 0]);
    }

    #[test]
    fn doubling_ends_at_the_longest_run() {
        let parameters = FeedbackParameters {
            run_most_instructions: 300 * M,
            ..FeedbackParameters::published()
        };
        let mut feedback = Feedback::new(parameters);
        after(&mut feedback, &[(25, 80); 4]);
        for run in [100, 200, 300, 300] {
            let tried = after(&mut feedback, &[(run - 1, 80), (1, 80), (25, 80), (25, 80)]);
            assert_eq!(tried, [1_000, 500, 5_000, 1_000], "{run}");
        }
    }

    #[test]
    fn a_per_cent_may_be_meant_relatively() {
        assert!(Margin::Points(10_000).is_better(510_000, 500_000));
        assert!(!Margin::Points(10_000).is_better(509_999, 500_000));
        assert!(Margin::Relative(10_000).is_better(505_000, 500_000));
        assert!(!Margin::Relative(10_000).is_better(504_999, 500_000));
    }

    #[test]
    fn short_traces_shorten_every_epoch() {
        let short = FeedbackParameters::published().shortened(100);
        assert_eq!(short.sample_instructions, 250_000);
        assert_eq!(short.run_instructions, M);
        assert_eq!(short.run_most_instructions, 64 * M);
    }

    proptest::proptest! {
        /// However the counters come in, N stays in the grid and moves by one step at most.
        #[test]
        fn it_moves_by_single_steps(
            samples in proptest::collection::vec((1u64..60, 0u64..=100, 0u64..=100), 0..400)
        ) {
            let mut feedback = controller();
            let index = |feedback: &Feedback| {
                GRID_INSTRUCTIONS.iter().position(|&n| n == feedback.instructions()).unwrap()
            };
            let mut sharing = true;
            for (millions, user, os) in samples {
                let before = index(&feedback);
                feedback.on_sample(&sample(millions, 50, user, os));
                // The OS share may jump; from one neighbour of N to the other it is two steps.
                proptest::prop_assert!(sharing || index(&feedback).abs_diff(before) <= 2);
                sharing = feedback.phase == Phase::Share;
            }
        }
    }
}

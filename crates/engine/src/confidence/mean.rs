use super::{is_look, merge, Estimate, Goal, BATCHES};

/// A mean, until it is known well enough.
///
/// ```
/// use halfwink_engine::confidence::{Estimator, Goal};
///
/// let mut mean = Estimator::new(Goal { relative: 0.05, confidence: 0.95 });
/// let mut n = 0_u64;
/// while !mean.is_done() {
///     n = (n + 7) % 10;
///     mean.push(n as f64);
/// }
/// assert!((mean.estimate().mean - 4.5).abs() < 0.2);
/// ```
#[derive(Clone, Debug)]
pub struct Estimator {
    goal: Goal,
    /// Pushes in a full batch.
    size: u64,
    open: Sums,
    batches: Vec<Sums>,
    done: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    sum: f64,
    samples: u64,
    pushes: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.sum += other.sum;
        self.samples += other.samples;
        self.pushes += other.pushes;
    }
}

impl Estimator {
    /// Has seen nothing yet.
    #[must_use]
    pub fn new(goal: Goal) -> Estimator {
        Estimator { goal, size: 1, open: Sums::default(), batches: Vec::new(), done: false }
    }

    /// Adds the next sample.
    pub fn push(&mut self, value: f64) {
        self.push_many(value, 1);
    }

    /// Adds the next interval: the sum of its samples, and how many they are. The mean may be any
    /// ratio of two sums: joules over instructions, instructions over cycles.
    pub fn push_many(&mut self, sum: f64, samples: u64) {
        self.open.add(&Sums { sum, samples, pushes: 1 });
        if self.batches.len() == 2 * BATCHES {
            self.size *= 2;
            merge(&mut self.batches, Sums::add);
        }
        if self.open.pushes < self.size {
            return;
        }
        self.batches.push(std::mem::take(&mut self.open));
        if is_look(self.batches.len()) {
            let (half_width, apart) = self.spread();
            self.done = apart && half_width <= self.goal.relative * self.mean().abs();
        }
    }

    /// Returns whether the estimate has reached its goal.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Returns the estimate from all samples up to now.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let samples = self.all().samples;
        Estimate { mean: self.mean(), half_width: self.spread().0, samples }
    }

    fn all(&self) -> Sums {
        let mut all = self.open;
        self.batches.iter().for_each(|batch| all.add(batch));
        all
    }

    fn mean(&self) -> f64 {
        let all = self.all();
        all.sum / all.samples as f64
    }

    fn spread(&self) -> (f64, bool) {
        let mut all = Sums::default();
        self.batches.iter().for_each(|batch| all.add(batch));
        let mean = all.sum / all.samples as f64;
        let size = all.samples as f64 / self.batches.len() as f64;
        self.goal.half_width(self.batches.iter().map(|b| (b.sum - mean * b.samples as f64) / size))
    }
}

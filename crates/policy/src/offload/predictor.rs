//! The run-length predictor: how many instructions the kernel invocation that begins will last
//! (Nellans 2014, Sec 4.6.2, Fig 4.7).
//!
//! ```text
//!  registers ─xor─▶ AState ─▶ table ──confidence > 0──▶ its last length ─────┐
//!                               │                                             ├─▶ prediction
//!                               └─otherwise─▶ mean of the last three lengths ─┘
//! ```

use super::table::{Organisation, Table};

/// Most that a 2-bit counter holds.
const CONFIDENCE_MAX: u8 = 3;
/// Most invocations that the global mean can look back.
const HISTORY_MAX: usize = 8;

/// Parameters of a predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Organisation of the table.
    pub organisation: Organisation,
    /// A prediction is good if it is off by at most this share of the actual length, in per cent:
    /// 5.
    pub tolerance_percent: u32,
    /// Confidence of a new entry, 0 to 3. assumption: 1.
    pub first_confidence: u8,
    /// Invocations that the global prediction averages, 1 to 8: 3.
    pub history: usize,
    /// Width of lengths, which saturate, 1 to 63 bits. assumption: 16.
    pub length_bits: u32,
}

impl Parameters {
    /// Returns the published parameters with this table.
    #[must_use]
    pub const fn published(organisation: Organisation) -> Parameters {
        Parameters {
            organisation,
            tolerance_percent: 5,
            first_confidence: 1,
            history: 3,
            length_bits: 16,
        }
    }
}

/// Source of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The table's entry for the AState.
    Local,
    /// The last invocations of any AState: the entry is missing or not trusted.
    Global,
}

/// Expected length of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Expected length, in instructions.
    pub instructions: u64,
    /// Source of the prediction.
    pub source: Source,
}

/// A predictor of one core.
#[derive(Clone, Debug)]
pub struct Predictor {
    parameters: Parameters,
    table: Table,
    recent: [u64; HISTORY_MAX],
    /// Number of lengths in `recent`, and where the next one goes.
    seen: usize,
    next: usize,
}

impl Predictor {
    /// A predictor that knows nothing. Parameters out of their ranges are moved into them.
    #[must_use]
    pub fn new(parameters: Parameters) -> Predictor {
        let parameters = Parameters {
            first_confidence: parameters.first_confidence.min(CONFIDENCE_MAX),
            history: parameters.history.clamp(1, HISTORY_MAX),
            length_bits: parameters.length_bits.clamp(1, 63),
            ..parameters
        };
        let table = Table::new(parameters.organisation);
        Predictor { parameters, table, recent: [0; HISTORY_MAX], seen: 0, next: 0 }
    }

    /// Predicts an invocation that begins with this AState.
    #[inline]
    #[must_use]
    pub fn predict(&self, astate: u64) -> Prediction {
        match self.table.find(astate) {
            Some(cell) if cell.confidence > 0 => {
                Prediction { instructions: cell.length, source: Source::Local }
            }
            _ => Prediction { instructions: self.global(), source: Source::Global },
        }
    }

    /// Mean of the last lengths, rounded down. assumption: of fewer if there were fewer, and zero
    /// before the first.
    fn global(&self) -> u64 {
        let sum: u64 = self.recent[..self.seen].iter().sum();
        sum / self.seen.max(1) as u64
    }

    /// An invocation that began with this AState lasted so many instructions. One of none is no
    /// invocation.
    pub fn train(&mut self, astate: u64, instructions: u64) {
        if instructions == 0 {
            return;
        }
        // The counter that measures is no wider than the field that stores.
        let actual = instructions.min((1 << self.parameters.length_bits) - 1);
        let cell = self.table.entry(astate);
        if cell.length == 0 {
            cell.confidence = self.parameters.first_confidence;
        } else if within(cell.length, actual, self.parameters.tolerance_percent) {
            // assumption: the entry is judged even when it was not trusted with the prediction.
            cell.confidence = (cell.confidence + 1).min(CONFIDENCE_MAX);
        } else {
            cell.confidence = cell.confidence.saturating_sub(1);
        }
        cell.length = actual;
        self.recent[self.next] = actual;
        self.next = (self.next + 1) % self.parameters.history;
        self.seen = (self.seen + 1).min(self.parameters.history);
    }

    /// Returns the parameters of the predictor.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Table entries in use.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.table.used()
    }
}

/// True if `predicted` is off by at most `percent` of `actual`.
fn within(predicted: u64, actual: u64, percent: u32) -> bool {
    let off = u128::from(predicted.abs_diff(actual));
    off * 100 <= u128::from(actual) * u128::from(percent)
}

impl Prediction {
    /// True if it is off by at most `percent` per cent of the actual length.
    #[must_use]
    pub fn is_within(&self, actual: u64, percent: u32) -> bool {
        within(self.instructions, actual, percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Source = Source::Local;
    const GLOBAL: Source = Source::Global;

    fn predictor(organisation: Organisation) -> Predictor {
        Predictor::new(Parameters::published(organisation))
    }

    fn asked(predictor: &Predictor, astate: u64) -> (u64, Source) {
        let prediction = predictor.predict(astate);
        (prediction.instructions, prediction.source)
    }

    #[test]
    fn the_global_mean_is_of_the_last_three() {
        let mut p = predictor(Organisation::PUBLISHED_ASSOCIATIVE);
        assert_eq!(asked(&p, 99), (0, GLOBAL));
        for (astate, length, mean) in [(1, 100, 100), (2, 201, 150), (3, 300, 200), (4, 700, 400)] {
            p.train(astate, length);
            // 100; 301 / 2; 601 / 3; 1201 / 3, rounded down.
            assert_eq!(asked(&p, 99), (mean, GLOBAL));
        }
        // A run of no instructions is none.
        p.train(5, 0);
        assert_eq!((asked(&p, 99), p.entries()), ((400, GLOBAL), 4));
    }

    #[test]
    fn untrusted_entry_predicts_the_global_mean() {
        let mut p = predictor(Organisation::PUBLISHED_ASSOCIATIVE);
        p.train(1, 1000);
        assert_eq!(asked(&p, 1), (1000, LOCAL));
        // 1 -> 0: not trusted, the global mean (1000 + 2000) / 2 is used.
        p.train(1, 2000);
        assert_eq!(asked(&p, 1), (1500, GLOBAL));
        // The stored 2000 is judged, not the 1500 that was predicted: 0 -> 1.
        p.train(1, 2000);
        assert_eq!(asked(&p, 1), (2000, LOCAL));
        // 2, 3, 3: it saturates, so three misses take the trust away.
        (0..3).for_each(|_| p.train(1, 2000));
        p.train(1, 10);
        assert_eq!(asked(&p, 1), (10, LOCAL));
        p.train(1, 20);
        assert_eq!(asked(&p, 1), (20, LOCAL));
        p.train(1, 40);
        assert_eq!(asked(&p, 1), ((10 + 20 + 40) / 3, GLOBAL));
    }

    #[test]
    fn five_per_cent_are_of_the_actual_length() {
        // 950 for 1000: off by 50 = 5 %. 1000 for 950: off by 50 = 5.26 %.
        assert!(within(950, 1000, 5) && within(1050, 1000, 5));
        assert!(!within(949, 1000, 5) && !within(1051, 1000, 5));
        assert!(!within(1000, 950, 5));
        // Below 20 instructions only the same length is within 5 %.
        assert!(within(19, 19, 5) && !within(18, 19, 5) && within(19, 20, 5));
        let mut p = predictor(Organisation::PUBLISHED_ASSOCIATIVE);
        p.train(1, 950);
        p.train(1, 1000);
        // 1 -> 2: one miss leaves it trusted.
        p.train(1, 100);
        assert_eq!(asked(&p, 1), (100, LOCAL));
    }

    #[test]
    fn lengths_above_table_bits_saturate() {
        let mut p = predictor(Organisation::PUBLISHED_ASSOCIATIVE);
        p.train(1, 1_000_000);
        p.train(1, 70_000);
        assert_eq!(asked(&p, 1), (65_535, LOCAL));
        // Both were 65,535 to the predictor: confidence 2, so one miss leaves it trusted.
        p.train(1, 5);
        assert_eq!(asked(&p, 1), (5, LOCAL));
        let wide = Parameters { length_bits: 40, ..Parameters::published(Organisation::Unbounded) };
        let mut p = Predictor::new(wide);
        p.train(1, 1_000_000);
        assert_eq!(asked(&p, 1), (1_000_000, LOCAL));
    }

    #[test]
    fn an_entry_that_left_starts_anew() {
        let mut p = predictor(Organisation::FullyAssociative { entries: 2 });
        (0..4).for_each(|_| p.train(1, 500));
        p.train(2, 40);
        p.train(3, 60);
        // 1 has left: the mean of 500, 40, 60.
        assert_eq!(asked(&p, 1), (200, GLOBAL));
        p.train(1, 500);
        p.train(1, 90);
        // New confidence was 1, so one miss sufficed: (60 + 500 + 90) / 3.
        assert_eq!(asked(&p, 1), (216, GLOBAL));
    }

    #[test]
    fn a_first_confidence_of_zero_asks_for_a_second_run() {
        let organisation = Organisation::PUBLISHED_DIRECT;
        let parameters = Parameters { first_confidence: 0, ..Parameters::published(organisation) };
        let mut p = Predictor::new(parameters);
        p.train(1, 500);
        assert_eq!(asked(&p, 1).1, GLOBAL);
        p.train(1, 510);
        assert_eq!(asked(&p, 1), (510, LOCAL));
    }

    #[test]
    fn aliases_train_one_another_in_a_direct_mapped_table() {
        let mut direct = predictor(Organisation::PUBLISHED_DIRECT);
        let mut unbounded = predictor(Organisation::Unbounded);
        let mut right = (0, 0);
        for n in 0..100 {
            let (astate, length) = if n % 2 == 0 { (3, 100) } else { (1503, 9_000) };
            right.0 += u32::from(direct.predict(astate).is_within(length, 5));
            right.1 += u32::from(unbounded.predict(astate).is_within(length, 5));
            direct.train(astate, length);
            unbounded.train(astate, length);
        }
        // Without bound only the first run of each is wrong.
        assert_eq!(right, (0, 98));
    }

    /// Streams in which every AState always takes its own length, lengths more than 5 % apart.
    fn stream() -> impl proptest::strategy::Strategy<Value = alloc::vec::Vec<(u64, u64)>> {
        use proptest::strategy::Strategy;
        proptest::collection::vec((0u64..40, proptest::bool::ANY), 1..400).prop_map(|picks| {
            let state = |(which, far): (u64, bool)| {
                let which = which + 40 * u64::from(far);
                // Far ones alias with near ones: 1500 = 0 (mod 1500).
                let astate = if far { which - 40 + 1500 } else { which };
                (astate, (0..which).fold(20, |length, _| length + length / 10))
            };
            picks.into_iter().map(state).collect()
        })
    }

    proptest::proptest! {
        /// Whatever a bounded table predicts right in such a stream, the unbounded one does too:
        /// aliasing and forgetting can only lose.
        #[test]
        fn no_table_beats_the_unbounded_one(stream in stream()) {
            let mut unbounded = predictor(Organisation::Unbounded);
            let mut bounded = [
                Organisation::PUBLISHED_DIRECT,
                Organisation::FullyAssociative { entries: 8 },
            ].map(predictor);
            for (astate, length) in stream {
                let right = unbounded.predict(astate).is_within(length, 5);
                for p in &mut bounded {
                    let bounded_right = p.predict(astate).is_within(length, 5);
                    proptest::prop_assert!(right || !bounded_right);
                    p.train(astate, length);
                }
                unbounded.train(astate, length);
            }
        }

        /// While everything fits and nothing aliases, all organisations say the same, whatever the
        /// lengths.
        #[test]
        fn tables_that_hold_everything_agree(
            stream in proptest::collection::vec((0u64..50, 0u64..100_000), 0..300)
        ) {
            let mut all = [
                Organisation::PUBLISHED_ASSOCIATIVE,
                Organisation::PUBLISHED_DIRECT,
                Organisation::Unbounded,
            ].map(predictor);
            for (astate, length) in stream {
                let said = all.each_ref().map(|p| p.predict(astate));
                proptest::prop_assert_eq!(said[0], said[1]);
                proptest::prop_assert_eq!(said[0], said[2]);
                all.iter_mut().for_each(|p| p.train(astate, length));
            }
        }
    }
}

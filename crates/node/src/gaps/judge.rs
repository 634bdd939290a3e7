//! Judgement of a choice in a gap: by residencies, and by the energy of the best state.

use halfwink_techniques::node::machine::us;
use halfwink_techniques::node::Machine;
use halfwink_units::{Energy, Power, Time};

/// Judgement of a policy's first choice in a gap, by residencies, as Linux' `above` and `below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The deepest state that the gap is long enough for.
    Right,
    /// A deeper one was worth it (Linux: `below`).
    Shallow,
    /// The gap is shorter than the state is worth (Linux: `above`).
    Deep,
}

/// A state that the best one of a gap is sought among.
struct Candidate {
    state: usize,
    /// Shortest time to leave it, and what may be added to that.
    wake: (u64, f64),
    power: Power,
}

/// Yardstick of choices: states on sale and those that a policy chooses from.
///
/// Everything that does not depend on the gap is computed once, since each policy judges each gap.
pub(super) struct Judge {
    /// Lengths between which each state of the machine is right.
    right: Vec<[Time; 2]>,
    /// States by number, so that of equal energies the shallowest comes first.
    candidates: Vec<Candidate>,
    waking: Power,
    /// Length up to which no energy exceeds a word.
    longest: Time,
}

impl Judge {
    /// Judges by states on sale and, of those that are not, the ones that a policy chooses from.
    pub(super) fn new(machine: &Machine, own: &[usize]) -> Judge {
        let states = machine.spec().idle_states.iter().enumerate();
        let on_sale = states.filter(|(n, state)| !state.proposed || own.contains(&(n + 1)));
        let mut residencies = vec![(0, Time::ZERO)];
        residencies.extend(on_sale.map(|(n, state)| (n + 1, us(state.residency_us))));
        let right = |state| {
            let own = residencies.iter().find(|(n, _)| *n == state);
            let own = own.map_or(Time::ZERO, |(_, residency)| *residency);
            let deeper = residencies.iter().filter(|(n, r)| *n > state && *r > own);
            [own, deeper.map(|(_, residency)| *residency).min().unwrap_or(Time::NEVER)]
        };
        let candidate = |&(state, _): &(usize, Time)| {
            let [low, high] = machine.states[state].wake;
            let wake = (low.0, (high - low).0 as f64);
            Candidate { state, wake, power: machine.states[state].power }
        };
        let candidates: Vec<Candidate> = residencies.iter().map(candidate).collect();
        let powers = candidates.iter().map(|candidate| candidate.power.0);
        let most = powers.fold(machine.waking.0, u64::max).max(1);
        Judge {
            right: (0..machine.states.len()).map(right).collect(),
            candidates,
            waking: machine.waking,
            longest: Time(u64::MAX / 2 / most),
        }
    }

    /// Judges the choice of a state for a gap of this length.
    #[inline]
    pub(super) fn verdict(&self, state: usize, length: Time) -> Verdict {
        let [own, deeper] = self.right[state];
        if own > length {
            Verdict::Deep
        } else if length >= deeper {
            Verdict::Shallow
        } else {
            Verdict::Right
        }
    }

    /// Least energy of a gap over the states, and the state: it knows when the gap ends, and wakes
    /// before.
    #[inline]
    pub(super) fn least(&self, length: Time, rank: f64) -> (Energy, usize) {
        if length > self.longest {
            return self.least_of_long(length, rank);
        }
        let mut best = (u64::MAX, 0);
        for candidate in &self.candidates {
            let wake = candidate.wake(rank);
            let asleep = length.0.saturating_sub(wake);
            let energy = candidate.power.0 * asleep + self.waking.0 * wake.min(length.0);
            // Without a jump: which state is best changes from gap to gap.
            let energy = if wake > length.0 { u64::MAX } else { energy };
            best = if energy < best.0 { (energy, candidate.state) } else { best };
        }
        debug_assert!(best.0 < u64::MAX, "polling wakes at once");
        (Energy(u128::from(best.0)), best.1)
    }

    #[cold]
    fn least_of_long(&self, length: Time, rank: f64) -> (Energy, usize) {
        let of = |candidate: &Candidate| {
            let wake = Time(candidate.wake(rank));
            let asleep = length.0.checked_sub(wake.0).map(Time)?;
            Some((candidate.power * asleep + self.waking * wake, candidate.state))
        };
        self.candidates.iter().filter_map(of).min().expect("polling wakes at once")
    }
}

impl Candidate {
    /// Picoseconds to leave the state, as [`crate::source::between`] draws them.
    #[inline]
    fn wake(&self, rank: f64) -> u64 {
        // By way of a signed number, which is half the work and holds a hundred days.
        self.wake.0 + (self.wake.1 * rank) as i64 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaps::play::tests::machine;
    use crate::source::{between, rank};

    /// Least energy with whole numbers of any size.
    fn sought(machine: &Machine, states: &[usize], length: Time, rank: f64) -> (Energy, usize) {
        let of = |&state: &usize| {
            let wake = between(machine.states[state].wake, || rank);
            let asleep = length.0.checked_sub(wake.0).map(Time)?;
            Some((machine.states[state].power * asleep + machine.waking * wake, state))
        };
        states.iter().filter_map(of).min().expect("polling wakes at once")
    }

    #[test]
    fn lengths_between_which_a_state_is_right_by_hand() {
        let judge = Judge::new(&machine(), &[]);
        let at = |state, ns| judge.verdict(state, Time::ns(ns));
        assert_eq!((at(0, 1_999), at(0, 2_000)), (Verdict::Right, Verdict::Shallow));
        assert_eq!((at(1, 1_999), at(1, 2_000)), (Verdict::Deep, Verdict::Right));
        assert_eq!((at(1, 599_999), at(1, 600_000)), (Verdict::Right, Verdict::Shallow));
        assert_eq!((at(2, 599_999), at(2, 600_000)), (Verdict::Deep, Verdict::Right));
    }

    #[test]
    fn least_energy_in_words_is_that_in_numbers_of_any_size() {
        let text = include_str!("../../../../machines/node/golden-cove-56.toml");
        let machine = Machine::new(toml::from_str(text).unwrap()).unwrap();
        let judge = Judge::new(&machine, &[]);
        let longest = judge.longest.0;
        for n in 0..20_000_u64 {
            // Over all orders of magnitude, and around the length that a word ends at.
            let length = match n % 4 {
                0 => longest - 100 + n % 200,
                _ => (1 << (n % 63)) + n,
            };
            let (length, rank) = (Time(length), rank(n));
            let expected = sought(&machine, &[0, 1, 2, 3], length, rank);
            assert_eq!(judge.least(length, rank), expected, "{length} {rank}");
        }
    }
}

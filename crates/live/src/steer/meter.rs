//! How long a machine was in each state: what a virtual power meter needs to know. Measured.

use halfwink_units::Time;
use serde::Serialize;

/// A machine's power state, as the proxy knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It serves.
    On,
    /// It was asked to sleep, and does not yet.
    GoingDown,
    /// It sleeps.
    Asleep,
    /// It was asked to wake, and does not yet serve.
    Waking,
    /// It cannot be reached.
    Lost,
}

/// Seconds in each state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Residency {
    /// On, by the number of requests in service; the first with none.
    pub on_s: Vec<f64>,
    /// Going down.
    pub going_down_s: f64,
    /// Asleep.
    pub asleep_s: f64,
    /// Waking.
    pub waking_s: f64,
    /// Lost.
    pub lost_s: f64,
}

impl Residency {
    /// All together: as long as the proxy runs.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        let on: f64 = self.on_s.iter().sum();
        on + self.going_down_s + self.asleep_s + self.waking_s + self.lost_s
    }
}

/// Times in states.
#[derive(Clone, Debug)]
pub struct Meter {
    since: Time,
    on: Vec<u64>,
    other: [u64; 5],
}

impl Meter {
    /// From now on, for a machine of so many workers.
    #[must_use]
    pub fn start(now: Time, workers: usize) -> Meter {
        Meter { since: now, on: vec![0; workers + 1], other: [0; 5] }
    }

    /// It was in this state, with so many in service, until now.
    #[inline]
    pub fn spent(&mut self, now: Time, state: State, in_service: usize) {
        let ps = now.0.saturating_sub(self.since.0);
        self.since = now;
        if state == State::On {
            if in_service >= self.on.len() {
                // More workers since a reload.
                self.on.resize(in_service + 1, 0);
            }
            self.on[in_service] += ps;
        } else {
            self.other[state as usize] += ps;
        }
    }

    /// Times so far, all of which were told by [`Meter::spent`].
    #[must_use]
    pub fn residency(&self) -> Residency {
        let s = |ps: &u64| *ps as f64 * 1e-12;
        let of = |state: State| s(&self.other[state as usize]);
        Residency {
            on_s: self.on.iter().map(s).collect(),
            going_down_s: of(State::GoingDown),
            asleep_s: of(State::Asleep),
            waking_s: of(State::Waking),
            lost_s: of(State::Lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_somewhere() {
        let mut meter = Meter::start(Time::ZERO, 2);
        meter.spent(Time::ns(1_000_000), State::On, 0);
        meter.spent(Time::ns(3_000_000), State::On, 2);
        meter.spent(Time::ns(4_000_000), State::GoingDown, 1);
        meter.spent(Time::ns(6_000_000), State::Asleep, 1);
        meter.spent(Time::ns(7_000_000), State::Waking, 1);
        meter.spent(Time::ns(9_000_000), State::Lost, 1);
        meter.spent(Time::ns(10_000_000), State::On, 3);
        let r = meter.residency();
        assert_eq!(r.on_s, [0.001, 0.0, 0.002, 0.001]);
        assert_eq!(
            (r.going_down_s, r.asleep_s, r.waking_s, r.lost_s),
            (0.001, 0.002, 0.001, 0.002)
        );
        assert!((r.total_s() - 0.01).abs() < 1e-12);
    }
}

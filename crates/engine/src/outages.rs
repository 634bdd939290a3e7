//! Times in which something does not work: a renewal process.

use halfwink_units::Time;

use crate::draw::exponential;
use crate::Stream;

/// Works for a while, then does not for a while, both exponential; asked at times in order.
#[derive(Clone, Debug)]
pub struct Outages {
    random: Stream,
    /// Mean times between outages and of an outage, in picoseconds.
    works: f64,
    lasts: f64,
    /// The one that comes next, or is now.
    begins: Time,
    ends: Time,
}

impl Outages {
    /// Creates outages of mean length `lasts` after working times of mean length `works`. A `works`
    /// of zero means no outages.
    #[must_use]
    pub fn new(random: Stream, works: Time, lasts: Time) -> Outages {
        let (works_ps, lasts_ps) = (works.0 as f64, lasts.0 as f64);
        let mut outages = Outages {
            random,
            works: works_ps,
            lasts: lasts_ps,
            begins: Time::NEVER,
            ends: Time::NEVER,
        };
        if works > Time::ZERO {
            outages.ends = Time::ZERO;
            outages.next();
        }
        outages
    }

    /// Returns the end of the outage at `now`, if there is one. Calls must come in the order of
    /// time.
    pub fn until(&mut self, now: Time) -> Option<Time> {
        while now >= self.ends {
            self.next();
        }
        (now >= self.begins).then_some(self.ends)
    }

    /// Returns the next begin or end of an outage after `now`. Calls must come in the order of
    /// time.
    pub fn change(&mut self, now: Time) -> Time {
        self.until(now).unwrap_or(self.begins)
    }

    fn next(&mut self) {
        // No time at all would never get anywhere.
        let mut span = |mean: f64| Time(((exponential(&mut self.random) * mean) as u64).max(1));
        self.begins = self.ends.saturating_add(span(self.works));
        self.ends = self.begins.saturating_add(span(self.lasts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream;

    #[test]
    fn it_does_not_work_for_the_share_of_time_that_its_means_say() {
        let us = |n: u64| Time::ns(1_000 * n);
        let mut outages = Outages::new(stream(1, "outages"), us(30), us(10));
        let down = (0..1_000_000).filter(|&n| outages.until(us(n)).is_some()).count();
        assert!((down as f64 / 1e6 - 0.25).abs() < 0.01, "{down}");
    }

    #[test]
    fn outages_do_not_depend_on_number_of_looks() {
        let outages = Outages::new(stream(2, "outages"), Time::ns(300), Time::ns(100));
        let at = |step: usize| {
            let mut outages = outages.clone();
            let looks = (0..100_000_u64).step_by(step).map(|ns| outages.until(Time::ns(ns)));
            looks.step_by(30 / step).collect::<Vec<_>>()
        };
        assert_eq!(at(1), at(30));
    }

    #[test]
    fn it_may_work_for_ever() {
        let mut outages = Outages::new(stream(1, "outages"), Time::ZERO, Time::ns(1));
        assert_eq!(outages.until(Time(u64::MAX - 1)), None);
    }
}

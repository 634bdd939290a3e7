//! How often something may be: a bucket of tokens.

use halfwink_units::Time;

/// Token bucket that allows a burst, and then one each millisecond.
#[derive(Debug)]
pub(crate) struct Limiter {
    burst: u64,
    tokens: u64,
    since: Time,
}

const EACH: Time = Time::ns(1_000_000);

impl Limiter {
    /// Creates a full bucket.
    pub(crate) fn new(burst: u64) -> Limiter {
        Limiter { burst, tokens: burst, since: Time::ZERO }
    }

    /// Takes a token, and returns whether there was one.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let earned = now.saturating_sub(self.since).as_ps() / EACH.as_ps();
        self.since = self.since.saturating_add(Time(earned * EACH.as_ps()));
        self.tokens = (self.tokens + earned).min(self.burst);
        let may = self.tokens > 0;
        self.tokens -= u64::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_in_a_burst_then_one_each_millisecond() {
        let mut limiter = Limiter::new(crate::icmp_error::BURST);
        let taken = |limiter: &mut Limiter, now| (0..200).filter(|_| limiter.take(now)).count();
        assert_eq!(taken(&mut limiter, Time::ZERO), 50);
        assert_eq!(taken(&mut limiter, Time::ns(999_999)), 0);
        assert_eq!(taken(&mut limiter, Time::ns(1_000_000)), 1);
        assert_eq!(taken(&mut limiter, Time::ns(4_500_000)), 3);
        assert_eq!(taken(&mut limiter, Time::ns(5_000_000)), 1);
        assert_eq!(taken(&mut limiter, Time::ns(9_000_000_000)), 50);
    }
}

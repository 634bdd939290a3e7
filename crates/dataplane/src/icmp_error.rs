//! ICMP errors as values, and how many may go.

use halfwink_units::Time;

/// Why a packet is refused, as its sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IcmpError {
    TimeExceeded,
    NoRoute,
    HostUnreachable,
    PortUnreachable,
    /// The MTU that would have done.
    TooBig(usize),
}

impl IcmpError {
    /// Type, code and the word behind the checksum (RFC 792, 1191).
    pub(crate) fn v4(self) -> (u8, u8, u32) {
        match self {
            IcmpError::TimeExceeded => (11, 0, 0),
            IcmpError::NoRoute => (3, 0, 0),
            IcmpError::HostUnreachable => (3, 1, 0),
            IcmpError::PortUnreachable => (3, 3, 0),
            IcmpError::TooBig(mtu) => (3, 4, mtu as u32 & 0xffff),
        }
    }

    /// The same of RFC 4443.
    pub(crate) fn v6(self) -> (u8, u8, u32) {
        match self {
            IcmpError::TimeExceeded => (3, 0, 0),
            IcmpError::NoRoute => (1, 0, 0),
            IcmpError::HostUnreachable => (1, 3, 0),
            IcmpError::PortUnreachable => (1, 4, 0),
            IcmpError::TooBig(mtu) => (2, 0, mtu as u32),
        }
    }
}

/// A bucket of tokens (RFC 4443, 2.4 f): so many errors at once, one more each millisecond.
#[derive(Debug)]
pub(crate) struct Limiter {
    tokens: u64,
    since: Time,
}

const BURST: u64 = 50;
const EACH: Time = Time::ns(1_000_000);

impl Default for Limiter {
    fn default() -> Limiter {
        Limiter { tokens: BURST, since: Time::ZERO }
    }
}

impl Limiter {
    /// Whether one may go now; then it counts as gone.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let earned = now.saturating_sub(self.since).as_ps() / EACH.as_ps();
        self.since = self.since.saturating_add(Time(earned * EACH.as_ps()));
        self.tokens = (self.tokens + earned).min(BURST);
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
        let mut limiter = Limiter::default();
        let taken = |limiter: &mut Limiter, now| (0..200).filter(|_| limiter.take(now)).count();
        assert_eq!(taken(&mut limiter, Time::ZERO), 50);
        assert_eq!(taken(&mut limiter, Time::ns(999_999)), 0);
        assert_eq!(taken(&mut limiter, Time::ns(1_000_000)), 1);
        assert_eq!(taken(&mut limiter, Time::ns(4_500_000)), 3);
        assert_eq!(taken(&mut limiter, Time::ns(5_000_000)), 1);
        assert_eq!(taken(&mut limiter, Time::ns(9_000_000_000)), 50);
    }
}

//! Dynamic interrupt moderation of Linux (`lib/dim/net_dim.c`, 6.12): the time for which a network
//! card holds interrupts back, moved by what that did to packets and interrupts a second.

use halfwink_units::Time;

/// Times of the profiles of a receive queue, in microseconds (`NET_DIM_RX_EQE_PROFILES`).
const PROFILES_US: [u64; 5] = [1, 8, 64, 128, 256];
/// Profile that a queue begins with (`NET_DIM_DEF_PROFILE_EQE`).
const FIRST: usize = 1;
/// Interrupts of a measurement (`DIM_NEVENTS`).
const EVENTS: u64 = 64;
/// Difference that counts, in per cent (`IS_SIGNIFICANT_DIFF`).
const SIGNIFICANT_PCT: u64 = 10;
/// Steps without rest after which it parks (`2 * NET_DIM_PARAMS_NUM_PROFILES`).
const MOST_STEPS: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tune {
    OnTop,
    Tired,
    Right,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Worse,
    Same,
    Better,
}

/// Packets and interrupts in a million milliseconds, so that rare ones have a rate too.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    packets: u64,
    events: u64,
}

/// Moderation of one receive queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moderation {
    profile: usize,
    tune: Tune,
    right: u32,
    left: u32,
    tired: u32,
    previous: Rates,
    since: Time,
    packets: u64,
    events: u64,
}

impl Moderation {
    pub(crate) fn new() -> Moderation {
        Moderation {
            profile: FIRST,
            tune: Tune::Right,
            right: 0,
            left: 0,
            tired: 0,
            previous: Rates::default(),
            since: Time::ZERO,
            packets: 0,
            events: 0,
        }
    }

    /// Time for which the next interrupt is held back.
    pub(crate) fn hold(&self) -> Time {
        Time::ns(1000 * PROFILES_US[self.profile])
    }

    pub(crate) fn packet(&mut self) {
        self.packets += 1;
    }

    /// The card interrupts; packets that it brings were counted before.
    pub(crate) fn interrupt(&mut self, now: Time) {
        self.events += 1;
        if self.events < EVENTS || now <= self.since {
            return;
        }
        let took = u128::from((now - self.since).0);
        let rate = |count: u64| (u128::from(count) * 1_000_000_000_000_000 / took) as u64;
        let rates = Rates { packets: rate(self.packets), events: rate(self.events) };
        self.decide(rates);
        (self.since, self.packets, self.events) = (now, 0, 0);
    }

    fn decide(&mut self, rates: Rates) {
        let before = self.tune;
        match self.tune {
            Tune::OnTop => {
                if self.compare(rates) != Found::Same {
                    self.leave_parking();
                }
            }
            Tune::Tired => {
                self.tired = self.tired.saturating_sub(1);
                if self.tired == 0 {
                    self.leave_parking();
                }
            }
            Tune::Right | Tune::Left => {
                if self.compare(rates) != Found::Better {
                    self.turn();
                }
                if self.is_on_top() {
                    self.park(Tune::OnTop);
                } else if self.tired == MOST_STEPS {
                    (self.right, self.left, self.tune) = (0, 0, Tune::Tired);
                } else if !self.step() {
                    self.park(Tune::OnTop);
                }
            }
        }
        if before != Tune::OnTop || self.tune != Tune::OnTop {
            self.previous = rates;
        }
    }

    /// All packets are of one size, so that bytes tell nothing that packets do not.
    fn compare(&self, rates: Rates) -> Found {
        let differs = |a: u64, b: u64| 100 * a.abs_diff(b) > SIGNIFICANT_PCT * b;
        let previous = self.previous;
        let is = |better: bool| if better { Found::Better } else { Found::Worse };
        if previous.packets == 0 {
            return if rates.packets > 0 { Found::Better } else { Found::Same };
        }
        if differs(rates.packets, previous.packets) {
            return is(rates.packets > previous.packets);
        }
        if previous.events > 0 && differs(rates.events, previous.events) {
            return is(rates.events < previous.events);
        }
        Found::Same
    }

    fn turn(&mut self) {
        match self.tune {
            Tune::Right => (self.tune, self.left) = (Tune::Left, 0),
            Tune::Left => (self.tune, self.right) = (Tune::Right, 0),
            Tune::OnTop | Tune::Tired => {}
        }
    }

    fn is_on_top(&self) -> bool {
        match self.tune {
            Tune::Right => self.left > 1 && self.right == 1,
            Tune::Left => self.right > 1 && self.left == 1,
            Tune::OnTop | Tune::Tired => true,
        }
    }

    fn park(&mut self, at: Tune) {
        (self.right, self.left, self.tired, self.tune) = (0, 0, 0, at);
    }

    fn leave_parking(&mut self) {
        self.tune = if self.profile > 0 { Tune::Left } else { Tune::Right };
        self.step();
    }

    /// Moves to the next profile; false at the last one.
    fn step(&mut self) -> bool {
        match self.tune {
            Tune::Right if self.profile + 1 < PROFILES_US.len() => {
                self.profile += 1;
                self.right += 1;
            }
            Tune::Left if self.profile > 0 => {
                self.profile -= 1;
                self.left += 1;
            }
            _ => return false,
        }
        self.tired += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays packets at equal distances, each held back as the queue wants; the longest hold.
    fn plays(moderation: &mut Moderation, gap: Time, packets: u64) -> Time {
        let (mut due, mut longest) = (Time::ZERO, Time::ZERO);
        let from = moderation.since;
        for n in 1..=packets {
            let now = from + Time(gap.0 * n);
            if due > Time::ZERO && due <= now {
                moderation.interrupt(due);
                due = Time::ZERO;
            }
            moderation.packet();
            if due == Time::ZERO {
                longest = longest.max(moderation.hold());
                due = now + moderation.hold();
            }
        }
        longest
    }

    #[test]
    fn rare_packets_are_not_held_for_long() {
        // Each has an interrupt of its own whatever the time: no step is better than another.
        let mut moderation = Moderation::new();
        let longest = plays(&mut moderation, Time::ns(1_000_000), 100_000);
        assert!(longest <= Time::ns(64_000), "{longest:?}");
    }

    #[test]
    fn packets_that_come_fast_share_interrupts() {
        let mut moderation = Moderation::new();
        plays(&mut moderation, Time::ns(2_000), 2_000_000);
        assert!(moderation.hold() >= Time::ns(128_000), "{moderation:?}");
    }
}

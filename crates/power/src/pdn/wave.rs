//! The current that charges a waking core.

use super::spec::Network;

/// Triangle of current: rises from the start for `rise_s`, falls until `wake_s`, and carries the
/// charge of the core in all (Strong 2013, Sec 2.2.1, Fig 2.2b: two-stage turn-on).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triangle {
    /// Start of the triangle, in seconds.
    pub start_s: f64,
    /// Duration of the rise, in seconds.
    pub rise_s: f64,
    /// Duration of the whole, in seconds.
    pub wake_s: f64,
    /// Highest current, in amperes.
    pub peak_a: f64,
}

impl Triangle {
    /// The current of a core of `network` woken in `wake_ns`, starting at `start_ns`.
    #[must_use]
    pub fn new(network: &Network, wake_ns: f64, start_ns: f64) -> Triangle {
        let wake_s = wake_ns * 1e-9;
        Triangle {
            start_s: start_ns * 1e-9,
            rise_s: network.spec().wake_up.rise_share * wake_s,
            wake_s,
            peak_a: 2.0 * network.charge_c() / wake_s,
        }
    }

    /// Current at a time, in amperes.
    #[must_use]
    pub fn at(&self, time_s: f64) -> f64 {
        let t = time_s - self.start_s;
        if t <= 0.0 || t >= self.wake_s {
            0.0
        } else if t < self.rise_s {
            self.peak_a * t / self.rise_s
        } else {
            self.peak_a * (self.wake_s - t) / (self.wake_s - self.rise_s)
        }
    }

    /// The slopes of the ramps that add up to the triangle, in amperes per second, with their
    /// starts after the start of the triangle, in seconds.
    #[must_use]
    pub fn ramps(&self) -> [(f64, f64); 3] {
        let up = self.peak_a / self.rise_s;
        let down = self.peak_a / (self.wake_s - self.rise_s);
        [(up, 0.0), (-(up + down), self.rise_s), (down, self.wake_s)]
    }
}

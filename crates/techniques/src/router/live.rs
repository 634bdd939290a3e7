//! The described router as a live one, and its watts for times that were measured.

use super::Model;

/// Times of one core, in seconds, and the frames that its router has received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreTimes {
    /// Time spent on frames.
    pub busy_s: f64,
    /// Time spent in an empty loop.
    pub spin_s: f64,
    /// Time spent in C1.
    pub c1_s: f64,
    /// Time spent in C3.
    pub c3_s: f64,
    /// Time spent in C6.
    pub c6_s: f64,
}

/// The energies that a model gives for measured times. Nothing here was read off a meter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VirtualMeter {
    /// Energy of the router, in joules.
    pub energy_j: f64,
    /// Energy of the router's cores above their deepest sleep, in joules.
    pub cores_j: f64,
    /// Energy of the same router, had all its cores polled at full speed, in joules.
    pub polling_j: f64,
    /// Energy of the same router, had all its cores slept as deep as they can, in joules.
    pub asleep_j: f64,
}

/// Returns all that is to be set in a description to make it a live router's: `values`, so many
/// cores, and one P-state, since nothing here sets the clock of a real core. [`super::read`] makes
/// the same router again from the name and these alone.
#[must_use]
pub fn live_values(
    described: &Model,
    cores: u8,
    values: &[(String, String)],
) -> Vec<(String, String)> {
    let step = described.steps() - 1;
    let own = [
        // Watts are given at the slowest P-state, which now is the fastest.
        ("power.busy_w", described.busy_w(step).to_string()),
        ("power.spin_w", described.spin_w(step).to_string()),
        ("cores.count", cores.to_string()),
        ("cores.packages", "1".to_owned()),
        ("cores.slowest", described.spec().cores.fastest.to_string()),
    ];
    let own = own.map(|(path, value)| (path.to_owned(), value));
    [values, &own].concat()
}

impl Model {
    /// What this router's cores would have drawn in these times, at its highest P-state, with so
    /// many packets of `bytes` in the mean.
    #[must_use]
    pub fn virtual_meter(
        &self,
        times: &[CoreTimes],
        duration_s: f64,
        packets: u64,
        bytes: f64,
    ) -> VirtualMeter {
        let p = &self.spec().power;
        let step = self.steps() - 1;
        let (busy_w, spin_w) = (self.busy_w(step), self.spin_w(step));
        let cores_j: f64 = times
            .iter()
            .map(|t| t.busy_s * busy_w + t.spin_s * spin_w + t.c1_s * p.c1_w + t.c3_s * p.c3_w)
            .sum();
        let peak_s = packets as f64 * 1e-9 * (p.activity_packet_ns + p.activity_byte_ns * bytes);
        let energy = |cores_j: f64| {
            let activity = (peak_s / duration_s).min(1.0);
            self.total_w(cores_j / duration_s, activity) * duration_s
        };
        let busy_s: f64 = times.iter().map(|t| t.busy_s).sum();
        let all_s = duration_s * times.len() as f64;
        VirtualMeter {
            energy_j: energy(cores_j),
            cores_j,
            polling_j: energy(busy_s * busy_w + (all_s - busy_s).max(0.0) * spin_w),
            asleep_j: energy(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::read;
    use crate::Descriptions;

    #[test]
    fn a_live_core_draws_what_the_described_one_does_at_its_fastest() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let library = Descriptions::new(root);
        let described = read(&library, "westmere", &[]).unwrap().model;
        let values = live_values(&described, 2, &[]);
        let live = read(&library, "westmere", &values).unwrap().model;
        let fastest = described.steps() - 1;
        assert_eq!(live.steps(), 1);
        assert!((live.busy_w(0) - described.busy_w(fastest)).abs() < 1e-9);
        let busy = CoreTimes { busy_s: 1.0, ..CoreTimes::default() };
        let spin = CoreTimes { spin_s: 1.0, ..CoreTimes::default() };
        let all = live.virtual_meter(&[busy, spin], 1.0, 0, 64.0);
        let expected = described.busy_w(fastest) + described.spin_w(fastest);
        assert!((all.cores_j - expected).abs() < 1e-9, "{all:?}");
        // Polling is what it did: its empty loop spins, so both are the same.
        assert!((all.polling_j - all.energy_j).abs() < 1e-9, "{all:?}");
        assert!(all.asleep_j < all.energy_j);
    }
}

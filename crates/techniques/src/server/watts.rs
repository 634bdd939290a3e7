//! Watts of the machines behind a live proxy.

use halfwink_policy::steering::{Side, LEVELS};
use halfwink_units::Power;

use super::Model;

/// The power of a machine in each of its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watts {
    /// On, without requests.
    pub idle: Power,
    /// More for each request in service.
    pub request: Power,
    /// While it changes between on and asleep.
    pub changing: Power,
    /// While it is asleep, by the level of sleep. Places beyond the deepest repeat it.
    pub asleep: [Power; LEVELS],
}

impl Model {
    /// Watts of one machine, of which the live one has so many workers: from idle to maximal power
    /// in proportion to those in service (Niccolini 2012, Eq 3.2), shares of its idle power while
    /// it changes and while it sleeps.
    #[must_use]
    pub fn watts(&self, side: Side, workers: usize) -> Watts {
        let m = self.machine(side);
        Watts {
            idle: Power::from_w(m.idle_w),
            request: Power::from_w((m.max_w - m.idle_w) / workers.max(1) as f64),
            changing: Power::from_w(m.idle_w * m.transition_share),
            asleep: self.set().machines()[side.index()].sleep.map(|level| level.power),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Descriptions;

    #[test]
    fn a_machine_with_all_workers_in_service_draws_its_maximum() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let server = crate::server::read(&Descriptions::new(root), "niccolini", &[]).unwrap().model;
        for (side, m) in [(Side::Small, &server.spec().small), (Side::Big, &server.spec().big)] {
            for workers in [1, 4, 7] {
                let watts = server.watts(side, workers);
                let all = watts.idle.as_w() + watts.request.as_w() * workers as f64;
                assert!((all - m.max_w).abs() < 1e-5 * workers as f64, "{all} of {}", m.max_w);
            }
            let watts = server.watts(side, 4);
            assert!((watts.asleep[0].as_w() - m.idle_w * m.sleep_share).abs() < 1e-6);
            assert!((watts.changing.as_w() - m.idle_w * m.transition_share).abs() < 1e-6);
        }
    }
}

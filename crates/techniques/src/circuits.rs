//! Schedules of live circuits: by name, for the fabric that there is.

use halfwink_policy::circuits::CircuitsPolicy;

use crate::{Choice, CircuitsContext, Error, Make};

/// Name that the live world has in logs.
pub const LIVE_CIRCUITS: &str = "live circuits";
/// The simulated world whose techniques decide in it.
pub const WORLD: &str = "fabric";
/// The described fabric whose values are made a live one's, to replay its log.
pub const MACHINE: &str = "mordia";
/// The simulated world's name of the load that keeps all queues full.
pub const WORKLOAD: &str = "all-to-all";
/// The shortest day of the published switch, in microseconds.
const SHORTEST_DAY_US: f64 = 61.0;

/// A switch of network namespaces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveFabric {
    /// Number of hosts that send.
    pub hosts: u16,
    /// Length of a slot, with its night, in microseconds.
    pub slot_us: f64,
    /// Length of a night, in microseconds.
    pub night_us: f64,
    /// The rate of a wire, in gigabits per second.
    pub gbps: f64,
}

impl LiveFabric {
    fn day_us(&self) -> f64 {
        self.slot_us - self.night_us
    }

    /// Returns the values that make a described fabric this one.
    #[must_use]
    pub fn values(&self) -> Vec<(String, String)> {
        let own = [
            ("hosts.count", self.hosts.to_string()),
            ("switch.port_gbps", self.gbps.to_string()),
            ("switch.reconfiguration_us", self.night_us.to_string()),
            ("switch.shortest_day_us", self.day_us().min(SHORTEST_DAY_US).to_string()),
        ];
        own.map(|(path, value)| (path.to_owned(), value)).to_vec()
    }

    /// Makes the schedule of a technique with its parameters, if there are any; and the technique
    /// in its one spelling. Where it has days or weeks of its own and none are chosen, they are
    /// this fabric's: a week has a slot for each other host.
    ///
    /// # Errors
    /// There is no such technique, it has no circuits, or the fabric cannot be.
    pub fn schedule(&self, technique: &str) -> Result<(CircuitsPolicy, String), Error> {
        let is_possible = |us: f64| us.is_finite() && us > 0.0;
        if self.hosts < 2 || ![self.day_us(), self.night_us, self.gbps].into_iter().all(is_possible)
        {
            let message = format!("{self:?}: expected two hosts, a rate, and days and nights");
            return Err(Error::Usage(message));
        }
        let mut choice = Choice::parse(WORLD, technique)?;
        let week_us = self.slot_us * f64::from(self.hosts - 1);
        for (name, us) in [("day_us", self.day_us()), ("week_us", week_us)] {
            let has = choice.technique().parameters.iter().any(|p| p.name == name);
            if has && choice.given(name).is_none() {
                choice.set(name, &us.to_string())?;
            }
        }
        let context = CircuitsContext {
            night_us: self.night_us,
            shortest_day_us: self.day_us().min(SHORTEST_DAY_US),
            port_gbps: self.gbps,
            hosts: self.hosts,
            planes: 1,
        };
        let Make::Circuits(make) = choice.technique().make else {
            return Err(Error::Usage(format!("{choice}: no schedule of circuits")));
        };
        let policy = make(&choice, &context);
        if !policy.has_circuits() {
            return Err(Error::Usage(format!("{choice}: it has no circuits to play")));
        }
        Ok((policy, choice.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_policy::circuits::{Action, Event};
    use halfwink_units::Time;

    const FABRIC: LiveFabric = LiveFabric { hosts: 4, slot_us: 2000.0, night_us: 200.0, gbps: 1.0 };

    #[test]
    fn a_schedule_has_the_days_of_the_live_fabric() {
        for (technique, days) in [("round-robin", 1800), ("most-needed:day_us=500", 500)] {
            let (mut policy, _) = FABRIC.schedule(technique).unwrap();
            let demand = Event::Demand { from: 0, to: 1, bytes: 1 << 20 };
            policy.on_event(Time::ZERO, &demand);
            policy.on_event(Time::ZERO, &Event::Next { plane: 0, slot: 0 });
            let mut actions = std::iter::from_fn(|| policy.poll_action()).collect::<Vec<_>>();
            let length = Time::ns(1000 * days);
            assert_eq!(actions.pop(), Some(Action::Day { plane: 0, length }), "{technique}");
            assert!(!actions.is_empty());
        }
        let (_, technique) = FABRIC.schedule("traffic-matrix").unwrap();
        assert_eq!(technique, "traffic-matrix:week_us=6000");
    }

    #[test]
    fn what_has_no_circuits_or_no_name_is_refused() {
        let refused = |name| FABRIC.schedule(name).err().unwrap().to_string();
        assert!(refused("packet-switch").contains("no circuits"));
        assert!(refused("round-robbin").contains("did you mean `round-robin`"));
        let alone = LiveFabric { hosts: 1, ..FABRIC }.schedule("round-robin").err().unwrap();
        assert!(alone.to_string().contains("expected two hosts"), "{alone}");
    }
}

//! What live circuits take from a described fabric: their schedule, by name.

use halfwink_eventlog::{Family, Header};
use halfwink_policy::circuits::CircuitsPolicy;
use halfwink_techniques::Choice;

use crate::error::StudyError;
use crate::library::Library;

/// Name of the live world in logs.
pub(crate) const LIVE_CIRCUITS: &str = "live circuits";
/// The fabric whose description is made a live one's.
const MACHINE: &str = "mordia";
/// The simulated world's name of the load that keeps all queues full.
const WORKLOAD: &str = "all-to-all";

/// A switch of network namespaces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveFabric {
    /// Number of hosts.
    pub hosts: u16,
    /// Length of a slot, with its night, in microseconds.
    pub slot_us: f64,
    /// Length of a night, in microseconds.
    pub night_us: f64,
    /// The rate of a wire, in gigabits per second.
    pub gbps: f64,
}

impl LiveFabric {
    /// Returns the values that make a described fabric this one.
    #[must_use]
    pub fn values(&self) -> Vec<(String, String)> {
        let day_us = self.slot_us - self.night_us;
        let own = [
            ("hosts.count", self.hosts.to_string()),
            ("switch.port_gbps", self.gbps.to_string()),
            ("switch.reconfiguration_us", self.night_us.to_string()),
            ("switch.shortest_day_us", day_us.min(61.0).to_string()),
        ];
        own.map(|(path, value)| (path.to_owned(), value)).to_vec()
    }
}

impl Library {
    /// The schedule of a technique with its parameters, if there are any, for a live fabric, and
    /// what it takes to make the same again. Where a technique has days or weeks of its own and
    /// none are chosen, they are this fabric's: a week has a slot for each other host.
    ///
    /// # Errors
    /// If there is no such technique, or it has no circuits.
    pub fn live_circuits(
        &self,
        technique: &str,
        fabric: &LiveFabric,
    ) -> Result<(CircuitsPolicy, Header), StudyError> {
        let mut choice = Choice::parse("fabric", technique)?;
        let day_us = fabric.slot_us - fabric.night_us;
        let week_us = fabric.slot_us * f64::from(fabric.hosts.saturating_sub(1));
        for (name, us) in [("day_us", day_us), ("week_us", week_us)] {
            let has = choice.technique().parameters.iter().any(|p| p.name == name);
            if has && choice.given(name).is_none() {
                choice.set(name, &us.to_string())?;
            }
        }
        let values = fabric.values();
        let info = self.fabric(MACHINE, &values)?;
        let policy = info.schedule(&choice, fabric.hosts, 1)?;
        if !policy.has_circuits() {
            return Err(StudyError::Usage(format!("{choice}: it has no circuits to play")));
        }
        let header = Header::new(LIVE_CIRCUITS, Family::Circuits, &choice.to_string())
            .on(MACHINE, WORKLOAD)
            .with(values.iter().map(|(path, value)| (path.as_str(), value.as_str())));
        Ok((policy, header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_policy::circuits::{Action, Event};
    use halfwink_units::Time;

    const FABRIC: LiveFabric = LiveFabric { hosts: 4, slot_us: 2000.0, night_us: 200.0, gbps: 1.0 };

    fn library() -> Library {
        Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn a_schedule_has_the_days_of_the_live_fabric() {
        let library = library();
        for (technique, days) in [("round-robin", 1800), ("most-needed:day_us=500", 500)] {
            let (mut policy, header) = library.live_circuits(technique, &FABRIC).unwrap();
            let demand = Event::Demand { from: 0, to: 1, bytes: 1 << 20 };
            policy.on_event(Time::ZERO, &demand);
            policy.on_event(Time::ZERO, &Event::Next { plane: 0, slot: 0 });
            let mut actions = std::iter::from_fn(|| policy.poll_action()).collect::<Vec<_>>();
            let length = Time::ns(1000 * days);
            assert_eq!(actions.pop(), Some(Action::Day { plane: 0, length }), "{technique}");
            assert!(!actions.is_empty() && header.set["hosts.count"] == "4");
        }
        let (_, header) = library.live_circuits("traffic-matrix", &FABRIC).unwrap();
        assert_eq!(header.technique, "traffic-matrix:week_us=6000");
    }

    #[test]
    fn what_has_no_circuits_or_no_name_is_refused() {
        let refused = |name| library().live_circuits(name, &FABRIC).err().unwrap().to_string();
        assert!(refused("packet-switch").contains("no circuits"));
        assert!(refused("round-robbin").contains("did you mean `round-robin`"));
    }
}

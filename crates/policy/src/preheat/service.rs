//! What a controller knows of each service.

use alloc::vec::Vec;

use halfwink_units::Time;

/// Ports that are remembered of a service, confirmed or not.
const PORTS: usize = 8;
/// A port belongs to a service once it was seen so often: a stray packet may come first
/// (Gottschlag 2016, Sec 5.5).
const CONFIRMED: u8 = 2;

/// State of a service's set (Gottschlag 2016, Fig 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// There is no set.
    #[default]
    Invalid,
    /// The given number of dumps was taken.
    Training(u32),
    /// All were; what is cached when a load begins is missing.
    Filter,
    /// The world builds it.
    Building,
    /// The set can be loaded.
    Ready {
        /// Time at which it was built.
        since: Time,
        /// Requests since then.
        requests: u32,
    },
}

/// Ports of a service, with how often each was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortTable {
    seen: [(u16, u8); PORTS],
}

impl PortTable {
    /// A packet to this port came when one of the service was expected.
    pub(super) fn see(&mut self, port: u16) {
        let known = self.seen.iter().position(|&(p, times)| times > 0 && p == port);
        // The one that was seen least makes room: of strays there may be many.
        let least = || (0..PORTS).min_by_key(|&n| self.seen[n].1).unwrap_or(0);
        let at = known.unwrap_or_else(least);
        let times = if known.is_some() { self.seen[at].1 } else { 0 };
        self.seen[at] = (port, times.saturating_add(1));
    }

    /// The announcement says it.
    pub(super) fn confirm(&mut self, port: u16) {
        if !self.has(port) {
            self.see(port);
            self.see(port);
        }
    }

    /// Returns whether the port is the service's.
    pub(super) fn has(&self, port: u16) -> bool {
        self.seen.iter().any(|&(p, times)| p == port && times >= CONFIRMED)
    }

    /// Returns whether any port is confirmed.
    pub(super) fn is_known(&self) -> bool {
        self.seen.iter().any(|&(_, times)| times >= CONFIRMED)
    }
}

/// A request that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coming {
    /// Time at which its first packet is due.
    pub(super) due: Time,
    /// Time at which to begin to prepare for it.
    pub(super) begin: Time,
    /// Whether the preparation has begun.
    pub(super) has_begun: bool,
    /// Whether the packet has arrived.
    pub(super) has_arrived: bool,
}

/// State of one service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub(super) id: u16,
    pub(super) state: State,
    pub(super) ports: PortTable,
    pub(super) coming: Option<Coming>,
    /// Begin of the present load.
    pub(super) loading: Option<Time>,
    /// Duration of the last load that was not stopped.
    pub(super) load_time: Time,
    /// Caches lost its lines since they were last loaded or used.
    pub(super) is_cold: bool,
    /// Whether no code that fills its caches ran since they were lost.
    pub(super) is_untouched: bool,
}

impl Service {
    fn new(id: u16) -> Service {
        Service {
            id,
            state: State::Invalid,
            ports: PortTable::default(),
            coming: None,
            loading: None,
            load_time: Time::ZERO,
            is_cold: true,
            is_untouched: false,
        }
    }

    /// Returns whether the entry holds no information.
    fn is_blank(&self) -> bool {
        self.state == State::Invalid && self.coming.is_none()
    }

    /// All of its server's life is over.
    pub(super) fn stop(&mut self) {
        *self = Service::new(self.id);
    }
}

/// Services by id, as many as there is room for. Allocates nothing after construction.
#[derive(Clone, Debug)]
pub(super) struct Services {
    all: Vec<Service>,
    room: usize,
}

impl Services {
    pub(super) fn new(room: usize) -> Services {
        Services { all: Vec::with_capacity(room), room }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Service> {
        self.all.iter_mut()
    }

    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Service> {
        self.all.iter_mut().find(|service| service.id == id)
    }

    /// The service, new if need be; `None` if there is no room.
    pub(super) fn entry(&mut self, id: u16) -> Option<&mut Service> {
        let known = self.all.iter().position(|service| service.id == id);
        let at = match known {
            Some(at) => at,
            None if self.all.len() < self.room => {
                self.all.push(Service::new(id));
                self.all.len() - 1
            }
            None => {
                let at = self.all.iter().position(Service::is_blank)?;
                self.all[at] = Service::new(id);
                at
            }
        };
        Some(&mut self.all[at])
    }

    /// Records that the caches have lost their content.
    pub(super) fn lose(&mut self) {
        for service in &mut self.all {
            (service.is_cold, service.is_untouched) = (true, true);
        }
    }

    /// Records that code runs or lines are loaded: for this service only, if it has caches of its
    /// own.
    pub(super) fn touch(&mut self, own: Option<u16>) {
        let touched = |service: &&mut Service| own.is_none_or(|id| service.id == id);
        self.all.iter_mut().filter(touched).for_each(|service| service.is_untouched = false);
    }

    /// The first service with a port.
    pub(super) fn of_port(&self, port: u16) -> Option<u16> {
        self.all.iter().find(|service| service.ports.has(port)).map(|service| service.id)
    }

    /// Returns the number of services whose state satisfies `is_such`.
    pub(super) fn count(&self, is_such: impl Fn(State) -> bool) -> i64 {
        self.all.iter().filter(|service| is_such(service.state)).count() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_counts_once_seen_twice() {
        let mut ports = PortTable::default();
        ports.see(22);
        assert!(!ports.has(22) && !ports.is_known());
        ports.see(80);
        ports.see(80);
        assert!(ports.has(80) && !ports.has(22) && ports.is_known());
        // Strays make room for one another, never a port that was confirmed.
        (1000..1100).for_each(|port| ports.see(port));
        assert!(ports.has(80));
        ports.confirm(443);
        assert!(ports.has(443));
        assert!(!PortTable::default().has(0), "an empty place is no port");
    }

    #[test]
    fn services_that_stopped_make_room() {
        let mut services = Services::new(2);
        services.entry(80).unwrap().state = State::Filter;
        services.entry(81).unwrap().state = State::Building;
        assert!(services.entry(82).is_none());
        services.get_mut(80).unwrap().stop();
        assert_eq!(services.entry(82).map(|service| service.id), Some(82));
        assert!(services.get_mut(80).is_none());
    }
}

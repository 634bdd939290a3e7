//! Knobs of the controller.

use halfwink_units::Time;

use super::super::Order;

/// Handling of a request that comes before its lines are loaded (Gottschlag 2016, Sec 6.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// Holds the request until they are.
    #[default]
    Wait,
    /// The load is stopped, and is cut at the time at which the request is due.
    Skip,
    /// Both go on at once.
    Concurrent,
}

/// Which services have a set (Sec 4.1.2 and 6.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sets {
    /// Gives each service its own set.
    #[default]
    Apart,
    /// One for all, as where announcements name none: what all dumps have in common.
    Intersection,
    /// One for all: what is in any dump.
    Union,
}

/// Source of the ports of a service (Sec 5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// Announcements call a service by its port.
    #[default]
    Announced,
    /// Learns a port from the first packet after each predicted time, if seen twice.
    Learned,
}

/// Time at which preparations begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// Begins as soon as a request is announced.
    #[default]
    AtOnce,
    /// Begins so that preparations end when the request is due, judging by the last load.
    JustInTime {
        /// Wake-up latency of the machine.
        wake: Time,
        /// Margin beyond that.
        margin: Time,
    },
}

/// Knobs of a [`Preheater`](super::Preheater).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreheaterParameters {
    /// Dumps of each service: at least one.
    pub training: u32,
    /// Takes off what is cached when a load begins.
    pub filter: bool,
    /// Which services have a set.
    pub sets: Sets,
    /// Number of cores that load.
    pub cores: u8,
    /// The order of loads.
    pub order: Order,
    /// Handling of requests that come too early.
    pub late: Late,
    /// Source of the ports.
    pub ports: Ports,
    /// Dumps see one service only, which has a cluster of cores for itself (Sec 4.1.2). If not, a
    /// dump is dropped when packets of others came meanwhile.
    pub isolated: bool,
    /// Loads only after caches were lost, rather than before each announced request.
    pub only_cold: bool,
    /// Time at which preparations begin.
    pub begin: Begin,
    /// After its first packet, for how long a request is taken to run if there is no idle time; and
    /// after it was due, when it is taken not to come.
    pub patience: Time,
    /// Sets are estimated anew when they are so old (Sec 3.3.4).
    pub refresh: Option<Time>,
    /// Sets are estimated anew after so many requests.
    pub refresh_requests: Option<u32>,
    /// Services that there is room for.
    pub services: usize,
}

impl PreheaterParameters {
    /// Returns the parameters of the thesis.
    #[must_use]
    pub const fn published() -> PreheaterParameters {
        PreheaterParameters {
            // assumption: not stated; the experiment of Sec 4.1.2 has 10.
            training: 10,
            filter: true,
            sets: Sets::Apart,
            // Sec 5.3: the best of 1 to 4.
            cores: 2,
            order: Order::Address,
            late: Late::Wait,
            ports: Ports::Announced,
            isolated: false,
            only_cold: false,
            begin: Begin::AtOnce,
            // assumption: above twice the longest mean response of Table 6.1, 3959 us.
            patience: Time::ns(10_000_000),
            refresh: None,
            refresh_requests: None,
            services: 64,
        }
    }

    /// Requests run while lines are loaded, in the order in which they use them (Sec 6.6).
    #[must_use]
    pub const fn concurrent(self) -> PreheaterParameters {
        PreheaterParameters { late: Late::Concurrent, order: Order::FirstUse, ..self }
    }
}

impl Begin {
    /// Returns the time to begin for a request due at `due`.
    pub(super) fn before(self, due: Time, load: Time) -> Time {
        match self {
            Begin::AtOnce => Time::ZERO,
            Begin::JustInTime { wake, margin } => {
                due.saturating_sub(wake).saturating_sub(load).saturating_sub(margin)
            }
        }
    }
}

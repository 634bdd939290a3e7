//! Records what a request uses, and loads it before or as the next one runs: of misses (Jukebox:
//! Schall 2022) or of pages (REAP: Ustiugov 2021).
//!
//! ```text
//!   Arrived ─▶ Load what was recorded, Record ─▶ ... Idle ─▶ Build ─▶ Built: the next recording
//! ```
//!
//! Both record one request, not what many have in common.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use halfwink_units::Time;

use super::{Action, Event, Late, Order, Preheat, Recorded};
use crate::{Policy, Snapshot};

/// Event that starts a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// The request itself, as published.
    #[default]
    Arrived,
    /// The announcement of the request.
    Announced,
}

/// Knobs of a [`Replayer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayerParameters {
    /// Content of the recording.
    pub what: Recorded,
    /// Event that starts a replay.
    pub trigger: Trigger,
    /// Whether requests are held, or run while the recording is loaded.
    pub late: Late,
    /// Cores that load; 0 where hardware does.
    pub cores: u8,
    /// Records again at each so many requests; 0 for never.
    pub again: u32,
    /// Services that there is room for.
    pub services: usize,
}

impl ReplayerParameters {
    /// Hardware logs misses of instructions by region, replays the log of the last invocation as
    /// one begins, and records that one (Schall 2022).
    #[must_use]
    pub const fn jukebox() -> ReplayerParameters {
        ReplayerParameters {
            what: Recorded::CodeMisses,
            trigger: Trigger::Arrived,
            late: Late::Concurrent,
            cores: 0,
            again: 1,
            services: 64,
        }
    }

    /// Pages that the first invocation touched are all in place before later ones run (Ustiugov
    /// 2021).
    #[must_use]
    pub const fn reap() -> ReplayerParameters {
        ReplayerParameters {
            what: Recorded::Pages,
            late: Late::Wait,
            cores: 1,
            again: 0,
            ..ReplayerParameters::jukebox()
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Service {
    port: u16,
    has_set: bool,
    is_recording: bool,
    is_building: bool,
    is_loading: bool,
    /// Announced, and the recording loaded for it.
    is_prepared: bool,
    /// Whether a request runs.
    runs: bool,
    /// Requests since the recording.
    requests: u32,
}

/// Records requests and replays them.
#[derive(Clone, Debug)]
pub struct Replayer {
    parameters: ReplayerParameters,
    services: Vec<Service>,
    asked: VecDeque<Action>,
    recorded: i64,
    loads: i64,
}

impl Replayer {
    /// Creates a policy that knows no service. Services are called by their ports.
    #[must_use]
    pub fn new(parameters: ReplayerParameters) -> Replayer {
        let services = parameters.services.max(1);
        Replayer {
            parameters,
            services: Vec::with_capacity(services),
            // Idle ends a recording of each; a request begins with four.
            asked: VecDeque::with_capacity(services + 8),
            recorded: 0,
            loads: 0,
        }
    }

    fn entry(&mut self, port: u16) -> Option<usize> {
        let known = self.services.iter().position(|service| service.port == port);
        if known.is_none() && self.services.len() < self.parameters.services.max(1) {
            self.services.push(Service {
                port,
                has_set: false,
                is_recording: false,
                is_building: false,
                is_loading: false,
                is_prepared: false,
                runs: false,
                requests: 0,
            });
            return Some(self.services.len() - 1);
        }
        known
    }

    fn load(&mut self, at: usize) {
        let ReplayerParameters { cores, .. } = self.parameters;
        let service = &mut self.services[at];
        if service.has_set && !service.is_loading {
            service.is_loading = true;
            self.loads += 1;
            let (service, order) = (service.port, Order::FirstUse);
            self.asked.push_back(Action::Load { service, until: None, cores, order });
        }
    }

    fn announced(&mut self, port: u16) {
        if self.parameters.trigger != Trigger::Announced {
            return;
        }
        let Some(at) = self.entry(port) else { return };
        self.asked.push_back(Action::Wake);
        if !mem::replace(&mut self.services[at].is_prepared, true) {
            self.load(at);
        }
    }

    fn arrived(&mut self, port: u16) {
        let ReplayerParameters { late, again, what, .. } = self.parameters;
        let Some(at) = self.entry(port) else { return };
        let service = &mut self.services[at];
        if mem::replace(&mut service.runs, true) {
            return;
        }
        service.requests = service.requests.saturating_add(1);
        if !mem::take(&mut service.is_prepared) {
            self.load(at);
        }
        let service = &mut self.services[at];
        let port = service.port;
        if service.is_loading && late != Late::Concurrent {
            self.asked.push_back(match late {
                Late::Skip => Action::Stop { service: port },
                _ => Action::Hold { service: port },
            });
        }
        let is_old = again > 0 && service.requests >= again;
        if (!service.has_set || is_old) && !service.is_building {
            service.is_recording = true;
            self.asked.push_back(Action::Record { service: port, what });
        }
    }

    fn idle(&mut self) {
        for service in &mut self.services {
            service.runs = false;
            if mem::take(&mut service.is_recording) {
                service.is_building = true;
                self.asked.push_back(Action::Build { service: service.port });
            }
        }
    }

    fn built(&mut self, port: u16, lines: u32) {
        let Some(at) = self.entry(port) else { return };
        let service = &mut self.services[at];
        service.is_building = false;
        service.has_set |= lines > 0;
        service.requests = 0;
        self.recorded += 1;
    }

    fn closed(&mut self, port: u16) {
        let Some(at) = self.services.iter().position(|service| service.port == port) else {
            return;
        };
        self.services.swap_remove(at);
        self.asked.push_back(Action::Forget { service: port });
    }
}

impl Policy for Replayer {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match *event {
            Event::Announced { service, .. } => self.announced(service),
            Event::Arrived { port } => self.arrived(port),
            Event::Idle => self.idle(),
            Event::Built { service, lines } => self.built(service, lines),
            Event::Loaded { service } => {
                let mut services = self.services.iter_mut();
                if let Some(service) = services.find(|known| known.port == service) {
                    service.is_loading = false;
                }
            }
            Event::Closed { port } => self.closed(port),
            _ => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asked.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        let sets = self.services.iter().filter(|service| service.has_set).count() as i64;
        vec![("sets", sets), ("recorded", self.recorded), ("loads", self.loads)]
    }
}

impl Preheat for Replayer {}

//! The controller of the thesis: estimates what requests of each service use, then loads it before
//! each announced one (Gottschlag 2016, Sec 4.1 and Fig 4.1).
//!
//! ```text
//!            Announced        N dumps          Announced      Built
//!  Invalid ────────────▶ Train ────────▶ Filter ────────▶ (building) ────▶ Ready ─┐ Announced:
//!     ▲                   ▲  └─ Announced: Estimate .. Dump                 │ ▲    │ Load
//!     │ Closed            └──────────────────────── refresh ────────────────┘ └────┘
//!     └───────────── from anywhere
//! ```

use alloc::collections::VecDeque;
use alloc::vec;
use core::mem;

use halfwink_units::Time;

use super::announce::MAX_LEAD;
use super::service::{Coming, Service, Services, State};
use super::{Action, Event, Preheat};
use crate::{Policy, Snapshot};

mod parameters;
mod training;

pub use parameters::{Begin, Late, Ports, PreheaterParameters, Sets};
use training::Window;

/// The one service where there is one set for all.
const ALL: u16 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    announced: i64,
    /// Due too far ahead.
    refused: i64,
    /// Heard only after the request was due.
    late: i64,
    /// Number of services without room in the table.
    no_room: i64,
    /// While one of the service was on its way.
    again: i64,
    /// Announced, and did not come in time.
    did_not_come: i64,
    loads: i64,
    held: i64,
    stopped: i64,
    dumps: i64,
    /// Dumps and windows of no use.
    dropped: i64,
    restarts: i64,
}

/// Loads what was estimated before announced requests.
#[derive(Clone, Debug)]
pub struct Preheater {
    parameters: PreheaterParameters,
    services: Services,
    window: Option<Window>,
    /// Service whose dump was requested.
    dumping: Option<u16>,
    asked: VecDeque<Action>,
    counts: Counts,
}

impl Preheater {
    /// Creates a policy that knows no service.
    #[must_use]
    pub fn new(parameters: PreheaterParameters) -> Preheater {
        let services = parameters.services.max(1);
        Preheater {
            parameters: PreheaterParameters { training: parameters.training.max(1), ..parameters },
            services: Services::new(services),
            window: None,
            dumping: None,
            // The most is two for each of its services, when a port of all of them is closed.
            asked: VecDeque::with_capacity(4 * services + 8),
            counts: Counts::default(),
        }
    }

    fn ask(&mut self, action: Action) {
        debug_assert!(self.asked.len() < self.asked.capacity(), "nothing is allocated");
        self.asked.push_back(action);
    }

    /// The service whose set is loaded for an announced one.
    fn of_announced(&self, service: u16) -> u16 {
        match self.parameters.sets {
            Sets::Apart => service,
            Sets::Intersection | Sets::Union => ALL,
        }
    }

    fn announced(&mut self, now: Time, named: u16, due: Time) {
        self.counts.announced += 1;
        if due > now.saturating_add(MAX_LEAD) {
            self.counts.refused += 1;
            return;
        }
        let id = self.of_announced(named);
        let parameters = self.parameters;
        let Some(service) = self.services.entry(id) else {
            self.counts.no_room += 1;
            return;
        };
        if parameters.ports == Ports::Announced {
            service.ports.confirm(named);
        }
        self.counts.late += i64::from(due < now);
        let due = due.max(now);
        let begin = parameters.begin.before(due, service.load_time).max(now);
        match &mut service.coming {
            // Once it is due, or came, this is another one.
            Some(coming) if !coming.has_arrived && now <= coming.due => {
                self.counts.again += 1;
                if !coming.has_begun {
                    coming.due = coming.due.min(due);
                    coming.begin = coming.begin.min(begin);
                }
            }
            old => {
                self.counts.did_not_come += i64::from(old.is_some_and(|old| !old.has_arrived));
                *old = Some(Coming { due, begin, has_begun: false, has_arrived: false });
            }
        }
        self.begin_due(now);
    }

    /// Begins to prepare for all requests for which it is time.
    fn begin_due(&mut self, now: Time) {
        let is_due = |service: &Service| {
            let coming = service.coming?;
            (!coming.has_begun && coming.begin <= now).then_some(service.id)
        };
        loop {
            // Each search begins anew, since `begin` changes services; it sets `has_begun`, so the
            // loop ends.
            let due = self.services.iter().find_map(is_due);
            let Some(id) = due else { return };
            self.begin(now, id);
        }
    }

    fn begin(&mut self, now: Time, id: u16) {
        let parameters = self.parameters;
        let service = self.services.get_mut(id).expect("it has a request coming");
        let coming = service.coming.as_mut().expect("it has a request coming");
        coming.has_begun = true;
        let due = coming.due;
        let is_old = match service.state {
            State::Ready { since, requests } => {
                parameters.refresh.is_some_and(|age| now.saturating_sub(since) >= age)
                    || parameters.refresh_requests.is_some_and(|most| requests >= most)
            }
            _ => false,
        };
        if is_old {
            service.state = State::Training(0);
            // What may still be loaded is dropped.
            service.loading = None;
        }
        let is_warm = parameters.only_cold && !service.is_cold;
        let (state, has_lines) = (service.state, is_warm || service.loading.is_some());
        let is_untouched = service.is_untouched;
        self.ask(Action::Wake);
        if is_old {
            self.ask(Action::Forget { service: id });
        }
        match state {
            State::Invalid | State::Training(_) => self.open(id, due),
            // What others left in the caches is no reason not to load it another time.
            State::Filter if !is_untouched => {}
            State::Filter => {
                self.services.get_mut(id).expect("it is there").state = State::Building;
                self.ask(Action::Subtract { service: id });
            }
            State::Ready { .. } if !has_lines => self.load(now, id, due),
            State::Ready { .. } | State::Building => {}
        }
    }

    fn load(&mut self, now: Time, id: u16, due: Time) {
        let PreheaterParameters { late, cores, order, isolated, .. } = self.parameters;
        let until = (late == Late::Skip).then_some(due);
        if until.is_some_and(|until| until <= now) {
            return;
        }
        if let Some(window) = &mut self.window {
            window.is_dirty |= !isolated;
        }
        let service = self.services.get_mut(id).expect("it has a set");
        service.loading = Some(now);
        self.services.touch(isolated.then_some(id));
        self.counts.loads += 1;
        self.ask(Action::Load { service: id, until, cores, order });
    }

    /// Returns the service of a packet: the one with this port, or if ports are learned, the one
    /// without a port yet whose packet was due first.
    fn of_packet(&mut self, now: Time, port: u16) -> Option<u16> {
        if let Some(id) = self.services.of_port(port) {
            return Some(id);
        }
        if self.parameters.ports == Ports::Announced {
            return None;
        }
        let is_armed = |service: &&mut Service| {
            let awaited = |c: Coming| c.has_begun && !c.has_arrived && c.due <= now;
            !service.ports.is_known() && service.coming.is_some_and(awaited)
        };
        let armed = self.services.iter_mut().filter(is_armed);
        let service = armed.min_by_key(|service| service.coming.map(|coming| coming.due))?;
        service.ports.see(port);
        Some(service.id)
    }

    fn arrived(&mut self, now: Time, port: u16) {
        let id = self.of_packet(now, port);
        let is_first = id.is_some_and(|id| self.first_arrived(now, id));
        let PreheaterParameters { isolated, patience, .. } = self.parameters;
        self.services.touch(id.filter(|_| isolated));
        if let Some(window) = &mut self.window {
            if id != Some(window.service) {
                window.is_dirty |= !isolated;
            } else if !mem::replace(&mut window.has_arrived, true) {
                window.until = now.saturating_add(patience);
            }
        }
        let Some(service) = id.and_then(|id| self.services.get_mut(id)) else { return };
        if let State::Ready { requests, .. } = &mut service.state {
            *requests = requests.saturating_add(1);
        }
        if is_first && service.loading.is_some() {
            let service = service.id;
            match self.parameters.late {
                Late::Wait => {
                    self.counts.held += 1;
                    self.ask(Action::Hold { service });
                }
                Late::Skip => {
                    self.counts.stopped += 1;
                    self.ask(Action::Stop { service });
                }
                Late::Concurrent => {}
            }
        }
    }

    /// A packet of a service: whether it is the first of an announced request. If that is ahead of
    /// its time, it is prepared for now.
    fn first_arrived(&mut self, now: Time, id: u16) -> bool {
        let Some(service) = self.services.get_mut(id) else { return false };
        let is_ready = matches!(service.state, State::Ready { .. });
        let Some(coming) = &mut service.coming else { return false };
        if mem::replace(&mut coming.has_arrived, true) {
            return false;
        }
        if !coming.has_begun {
            coming.due = now;
            // The request is here, so a load would be over its limit before it began.
            if is_ready && self.parameters.late == Late::Skip {
                coming.has_begun = true;
            } else {
                self.begin(now, id);
            }
        }
        true
    }

    fn idle(&mut self) {
        if self.window.is_some_and(|window| window.has_arrived) {
            self.close();
        }
        for service in self.services.iter_mut() {
            if service.coming.is_some_and(|coming| coming.has_arrived) && service.loading.is_none()
            {
                service.coming = None;
                service.is_cold = false;
            }
        }
    }

    fn loaded(&mut self, now: Time, id: u16) {
        let Some(service) = self.services.get_mut(id) else { return };
        let Some(began) = service.loading.take() else { return };
        let was_cut = self.parameters.late == Late::Skip
            && service.coming.is_some_and(|coming| coming.has_arrived || coming.due <= now);
        // A load that was stopped says nothing about how long a whole one takes.
        if !was_cut {
            service.load_time = now.saturating_sub(began);
        }
        service.is_cold = false;
        if service.coming.is_some_and(|coming| coming.has_arrived) {
            service.coming = None;
        }
    }

    fn closed(&mut self, port: u16) {
        while let Some(id) = self.services.of_port(port) {
            if self.window.is_some_and(|window| window.service == id) {
                self.window = None;
                self.counts.dropped += 1;
                self.ask(Action::Abandon { service: id });
            }
            let service = self.services.get_mut(id).expect("it has the port");
            let had_something = service.state != State::Invalid;
            service.stop();
            if had_something {
                self.counts.restarts += 1;
                self.ask(Action::Forget { service: id });
            }
        }
    }
}

impl Policy for Preheater {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Announced { service, due } => self.announced(now, service, due),
            Event::Arrived { port } => self.arrived(now, port),
            Event::Idle => self.idle(),
            Event::Lost => self.services.lose(),
            Event::Dumped { service, set, lines } => self.dumped(service, set, lines),
            Event::Built { service, lines } => self.built(now, service, lines),
            Event::Loaded { service } => self.loaded(now, service),
            Event::Closed { port } => self.closed(port),
            Event::Missed { .. } | Event::Received { .. } => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.window.is_some_and(|window| window.until <= now) {
            self.close();
        }
        self.begin_due(now);
    }

    fn next_timer(&self) -> Option<Time> {
        let begins = self.services.iter().filter_map(|service| service.coming);
        let begins = begins.filter(|coming| !coming.has_begun).map(|coming| coming.begin);
        begins.chain(self.window.map(|window| window.until)).min()
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asked.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        let Counts { announced, refused, late, no_room, again, did_not_come, .. } = self.counts;
        let Counts { loads, held, stopped, dumps, dropped, restarts, .. } = self.counts;
        let count = |is_such: fn(State) -> bool| self.services.count(is_such);
        vec![
            ("training", count(|state| matches!(state, State::Training(_)))),
            ("filter", count(|state| matches!(state, State::Filter | State::Building))),
            ("ready", count(|state| matches!(state, State::Ready { .. }))),
            ("announced", announced),
            ("refused", refused),
            ("late", late),
            ("no_room", no_room),
            ("again", again),
            ("did_not_come", did_not_come),
            ("loads", loads),
            ("held", held),
            ("stopped", stopped),
            ("dumps", dumps),
            ("dropped", dropped),
            ("restarts", restarts),
        ]
    }
}

impl Preheat for Preheater {}

//! Windows, dumps, and the sets that come of them.

use halfwink_units::Time;

use super::super::service::State;
use super::super::{Action, SetId};
use super::{Ports, Preheater, PreheaterParameters, Sets, ALL};

/// A window of estimation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) service: u16,
    pub(super) has_arrived: bool,
    /// Others ran in it.
    pub(super) is_dirty: bool,
    /// Latest end of the window.
    pub(super) until: Time,
}

impl Preheater {
    /// Opens a window of estimation, unless there is one, or the last one's dump
    /// is not there yet.
    pub(super) fn open(&mut self, id: u16, due: Time) {
        if self.window.is_some() || self.dumping.is_some() {
            return;
        }
        for service in self.services.iter_mut() {
            (service.is_cold, service.is_untouched) = (true, false);
            if service.id == id && service.state == State::Invalid {
                service.state = State::Training(0);
            }
        }
        let until = due.saturating_add(self.parameters.patience);
        self.window = Some(Window { service: id, has_arrived: false, is_dirty: false, until });
        self.ask(Action::Estimate { service: id });
    }

    /// Ends the window: with a dump if it is of use.
    pub(super) fn close(&mut self) {
        let Some(window) = self.window.take() else { return };
        let Window { service: id, has_arrived, is_dirty, .. } = window;
        let Some(service) = self.services.get_mut(id) else { return };
        self.counts.did_not_come += i64::from(!has_arrived);
        service.coming = None;
        if has_arrived && !is_dirty {
            self.dumping = Some(id);
            self.ask(Action::Dump { service: id });
        } else {
            self.counts.dropped += 1;
            self.ask(Action::Abandon { service: id });
        }
    }

    pub(super) fn dumped(&mut self, id: u16, set: SetId, lines: u32) {
        let PreheaterParameters { training, filter, sets, .. } = self.parameters;
        // Nobody trains anew before this dump is there: it is of no server that stopped.
        let is_wanted = self.dumping.take_if(|dumping| *dumping == id).is_some() && lines > 0;
        let taken = self.services.get_mut(id).and_then(|service| match service.state {
            State::Training(dumps) if is_wanted => Some((service, dumps)),
            _ => None,
        });
        let Some((service, dumps)) = taken else {
            self.counts.dropped += 1;
            self.ask(Action::Discard { set });
            return;
        };
        let is_last = dumps + 1 >= training;
        service.state = match (is_last, filter) {
            (false, _) => State::Training(dumps + 1),
            (true, true) => State::Filter,
            (true, false) => State::Building,
        };
        self.counts.dumps += 1;
        self.ask(match sets {
            Sets::Apart | Sets::Intersection => Action::Intersect { service: id, set },
            Sets::Union => Action::Unite { service: id, set },
        });
        if is_last && !filter {
            self.ask(Action::Build { service: id });
        }
    }

    pub(super) fn built(&mut self, now: Time, id: u16, lines: u32) {
        let id = self.of_announced(id);
        let by_port = self.parameters.ports == Ports::Announced;
        let Some(service) = self.services.entry(id) else {
            self.counts.no_room += 1;
            return;
        };
        // A set from an earlier run comes with a service that nothing is known of.
        if !matches!(service.state, State::Building | State::Invalid) {
            return;
        }
        if lines == 0 {
            // Nothing that requests have in common: there may be more another time.
            service.state = State::Invalid;
            self.ask(Action::Forget { service: id });
            return;
        }
        service.state = State::Ready { since: now, requests: 0 };
        if by_port && id != ALL {
            service.ports.confirm(id);
        }
    }
}

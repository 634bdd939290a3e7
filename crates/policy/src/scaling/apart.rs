//! Cores that decide on their own rests, each from its own events alone.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::{Action, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// Rest policy of one core.
pub trait Resting: Clone + Send {
    /// Parameters that all cores share.
    type Parameters: Send;

    /// A poll took so many packets.
    fn polled(&mut self, now: Time, taken: u32, p: &Self::Parameters);

    /// A poll found nothing: how to rest.
    fn rest(&mut self, now: Time, p: &Self::Parameters) -> Rest;
}

/// A policy that asks for nothing but rests.
#[derive(Clone, Debug)]
pub struct Apart<C: Resting> {
    parameters: C::Parameters,
    cores: Vec<C>,
    pending: Option<Action>,
}

impl<C: Resting> Apart<C> {
    /// Creates `cores` equal cores.
    pub(super) fn alike(core: &C, cores: u8, parameters: C::Parameters) -> Apart<C> {
        Apart { parameters, cores: vec![core.clone(); usize::from(cores)], pending: None }
    }
}

impl<C: Resting> Policy for Apart<C> {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Poll { core, taken, .. } => {
                self.cores[usize::from(core)].polled(now, taken, &self.parameters);
            }
            Event::Empty { core } => {
                let rest = self.cores[usize::from(core)].rest(now, &self.parameters);
                self.pending = Some(Action::Rest { core, rest });
            }
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

impl<C: Resting> Scaling for Apart<C> {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }

    fn is_apart(&self) -> bool {
        true
    }
}

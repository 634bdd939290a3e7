//! A matching on its way to the switch, without those that are lost.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::{Action, Event, NOBODY};

/// The answer to one `Next`.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    /// Receiver of each host; the host itself or [`NOBODY`] if it has none.
    pub(super) to: Vec<u16>,
    lost: Vec<bool>,
    next: usize,
    plane: u8,
    day: Option<Time>,
}

impl Asking {
    pub(super) fn new(hosts: u16) -> Asking {
        let hosts = usize::from(hosts);
        Asking { to: vec![NOBODY; hosts], lost: vec![false; hosts], next: 0, plane: 0, day: None }
    }

    /// Asks for what stands in `to`.
    pub(super) fn ask(&mut self, plane: u8, length: Time) {
        (self.next, self.plane, self.day) = (0, plane, Some(length));
    }

    /// Notes who is lost and who is back.
    pub(super) fn hear(&mut self, event: &Event) {
        let (host, lost) = match *event {
            Event::Lost { host } => (host, true),
            Event::Back { host } => (host, false),
            _ => return,
        };
        if let Some(known) = self.lost.get_mut(usize::from(host)) {
            *known = lost;
        }
    }

    pub(super) fn is_lost(&self, host: u16) -> bool {
        self.lost.get(usize::from(host)).copied().unwrap_or(true)
    }

    pub(super) fn poll(&mut self) -> Option<Action> {
        let length = self.day?;
        while let Some(&to) = self.to.get(self.next) {
            // A matching has at most 65,535 hosts.
            let from = self.next as u16;
            self.next += 1;
            if to != from && !self.is_lost(from) && !self.is_lost(to) {
                return Some(Action::Join { plane: self.plane, from, to });
            }
        }
        self.day = None;
        Some(Action::Day { plane: self.plane, length })
    }

    pub(super) fn lost_count(&self) -> i64 {
        self.lost.iter().filter(|lost| **lost).count() as i64
    }
}

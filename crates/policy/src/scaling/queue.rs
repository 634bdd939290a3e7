//! Actions that wait to be taken. A policy allocates nothing once it runs.

use super::{Action, ENTRIES};

/// Room for a start: every entry moved, every core parked, a P-state set.
const ROOM: usize = ENTRIES + 80;

/// First in, first out.
#[derive(Clone, Debug)]
pub(super) struct Actions {
    slots: [Option<Action>; ROOM],
    head: usize,
    count: usize,
}

impl Actions {
    pub(super) const fn new() -> Actions {
        Actions { slots: [None; ROOM], head: 0, count: 0 }
    }

    /// The world takes all actions after each call, so there is always room.
    pub(super) fn push(&mut self, action: Action) {
        debug_assert!(self.count < ROOM, "actions must be taken after each call");
        self.slots[(self.head + self.count) % ROOM] = Some(action);
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Action> {
        if self.count == 0 {
            return None;
        }
        let action = self.slots[self.head].take();
        self.head = (self.head + 1) % ROOM;
        self.count -= 1;
        action
    }
}

//! What a policy asks for at one event: never more than a few things.

use super::{Action, Side};

/// Actions in their order, without memory of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    actions: [Action; Queue::ROOM],
    first: u8,
    end: u8,
}

impl Queue {
    /// An answer, and one change of power of each machine.
    const ROOM: usize = 4;

    /// Queue without actions.
    pub(super) const NEW: Queue =
        Queue { actions: [Action::Send { side: Side::Small }; Queue::ROOM], first: 0, end: 0 };

    /// One more. The world takes all of them after each call.
    #[inline]
    pub(super) fn push(&mut self, action: Action) {
        debug_assert!(usize::from(self.end) < Queue::ROOM, "the world did not take {self:?}");
        self.actions[usize::from(self.end) % Queue::ROOM] = action;
        self.end += 1;
    }

    /// Takes the next action.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Action> {
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
            return None;
        }
        self.first += 1;
        Some(self.actions[usize::from(self.first - 1) % Queue::ROOM])
    }
}

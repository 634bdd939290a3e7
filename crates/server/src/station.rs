//! A machine at run time: its queue, what it serves, its power state and its meter.

use std::collections::VecDeque;

use halfwink_units::{Energy, Power, Time};

use crate::model::MachineModel;

/// Power states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    On,
    GoingDown,
    Asleep,
    Waking,
}

impl State {
    pub(crate) const ALL: [State; 4] = [State::On, State::GoingDown, State::Asleep, State::Waking];

    pub(crate) fn name(self) -> &'static str {
        match self {
            State::On => "on",
            State::GoingDown => "going-down",
            State::Asleep => "asleep",
            State::Waking => "waking",
        }
    }
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) arrived: Time,
    pub(crate) size: f64,
}

/// A request in service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    finish: Time,
    span: Time,
    pub(crate) arrived: Time,
}

/// What a machine did since its accounts were opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Time in each state, in the order of [`State::ALL`].
    pub(crate) states: [Time; 4],
    /// Worker time: what requests were served for.
    pub(crate) served: Time,
    /// The meter.
    pub(crate) energy: Energy,
    /// Times that it woke.
    pub(crate) wakes: u64,
}

/// A machine.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    model: MachineModel,
    pub(crate) state: State,
    /// Asked to wake while it goes down.
    again: bool,
    /// When its state changes by itself.
    turns: Time,
    /// When it stopped serving.
    stood: Time,
    /// Workers whose caches are cold.
    cold: usize,
    queue: VecDeque<Waiting>,
    /// The next to finish is the last.
    /// Kept in order, not in a heap: there are no more than workers.
    running: Vec<Running>,
    spent: Spent,
    /// Until when `spent` is right.
    since: Time,
    power: Power,
    /// What requests in service had been served for when the accounts were opened.
    before: Time,
}

impl Station {
    pub(crate) fn new(model: MachineModel) -> Station {
        Station {
            model,
            state: State::On,
            again: false,
            turns: Time::NEVER,
            stood: Time::ZERO,
            cold: 0,
            queue: VecDeque::new(),
            running: Vec::with_capacity(model.workers as usize),
            spent: Spent::default(),
            since: Time::ZERO,
            power: model.idle,
            before: Time::ZERO,
        }
    }

    /// Unfinished requests.
    pub(crate) fn load(&self) -> usize {
        self.queue.len() + self.running.len()
    }

    /// When a request in service will be done.
    #[inline]
    pub(crate) fn next_finish(&self) -> Time {
        match self.running.last() {
            Some(next) if self.state == State::On => next.finish,
            _ => Time::NEVER,
        }
    }

    /// When its state changes.
    #[inline]
    pub(crate) fn turns(&self) -> Time {
        self.turns
    }

    /// Runs the meter up to now.
    #[inline]
    fn meter(&mut self, now: Time) {
        let span = now.saturating_sub(self.since);
        if span > Time::ZERO {
            self.spent.states[self.state as usize] += span;
            self.spent.energy += self.power * span;
            self.since = now;
        }
    }

    #[inline]
    fn draw(&mut self) {
        let m = &self.model;
        self.power = match self.state {
            State::On => m.idle + Power(m.thread.0 * self.running.len() as u64),
            State::Asleep => m.sleep,
            State::GoingDown | State::Waking => m.transition,
        };
    }

    pub(crate) fn queue(&mut self, request: Waiting) {
        self.queue.push_back(request);
    }

    /// The next request that can be served now, and how many are then.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(Waiting, u32)> {
        let free = self.running.len() < self.model.workers as usize;
        if self.state != State::On || !free {
            return None;
        }
        let request = self.queue.pop_front()?;
        Some((request, self.running.len() as u32 + 1))
    }

    /// Serves a request for so long, and longer by a worker with cold caches.
    #[inline]
    pub(crate) fn serve(&mut self, now: Time, arrived: Time, mut span: Time) {
        self.meter(now);
        if self.cold > 0 {
            self.cold -= 1;
            span += self.model.cold;
        }
        let finish = now + span;
        // Of those that finish together, who came first goes first.
        let place = self.running.partition_point(|r| r.finish > finish);
        self.running.insert(place, Running { finish, span, arrived });
        self.draw();
    }

    /// Takes the request that is done now.
    #[inline]
    pub(crate) fn finish(&mut self, now: Time) -> Option<Running> {
        self.meter(now);
        debug_assert!(self.state == State::On && self.next_finish() <= now, "nothing is done yet");
        let done = self.running.pop()?;
        self.spent.served += done.span;
        self.draw();
        Some(done)
    }

    /// Begins to wake. Whether it could be asked to.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        match self.state {
            State::Asleep => {
                self.become_(now, State::Waking);
                self.turns = now + self.model.wake;
                true
            }
            State::GoingDown => {
                self.again = true;
                true
            }
            State::On | State::Waking => false,
        }
    }

    /// Begins to go down; what it serves stands still. Whether it could be asked to.
    pub(crate) fn sleep(&mut self, now: Time) -> bool {
        if self.state != State::On {
            return false;
        }
        self.become_(now, State::GoingDown);
        self.turns = now + self.model.down;
        self.stood = now;
        true
    }

    /// Changes state as it was to now. The state that a policy is to be told of, if any.
    pub(crate) fn turn(&mut self, now: Time) -> Option<State> {
        self.turns = Time::NEVER;
        if self.state == State::GoingDown {
            self.become_(now, State::Asleep);
            if std::mem::take(&mut self.again) {
                self.wake(now);
                return None;
            }
            return Some(State::Asleep);
        }
        self.spent.wakes += 1;
        // All by the same: their order stays as it is.
        let still = now.saturating_sub(self.stood);
        for request in &mut self.running {
            request.finish += still + self.model.cold;
            request.span += self.model.cold;
        }
        self.cold = self.model.workers as usize - self.running.len();
        self.become_(now, State::On);
        Some(State::On)
    }

    fn become_(&mut self, now: Time, state: State) {
        self.meter(now);
        self.state = state;
        self.draw();
    }

    /// What requests in service have been served for.
    fn under_way(&self, now: Time) -> Time {
        let until = if self.state == State::On { now } else { self.stood };
        let left = |r: &Running| r.finish.saturating_sub(until);
        self.running.iter().fold(Time::ZERO, |sum, r| sum + r.span.saturating_sub(left(r)))
    }

    /// Closes the accounts, and opens new ones.
    pub(crate) fn close(&mut self, now: Time) -> Spent {
        self.meter(now);
        let under_way = self.under_way(now);
        let mut spent = std::mem::take(&mut self.spent);
        spent.served = (spent.served + under_way).saturating_sub(self.before);
        self.before = under_way;
        spent
    }
}

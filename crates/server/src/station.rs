//! A machine at run time: its queue, what it serves, its power state and its meter.

use std::collections::VecDeque;

use halfwink_policy::steering::LEVELS;
use halfwink_techniques::server::MachineModel;
use halfwink_units::{Energy, Power, Time};

use crate::faults::Fate;

/// Power state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    On,
    GoingDown,
    Asleep,
    Waking,
    /// The machine cannot be reached.
    Lost,
}

/// Spontaneous change of state, which the policy is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Awake,
    Asleep,
    Lost,
    Back,
}

impl State {
    pub(crate) const ALL: [State; 5] =
        [State::On, State::GoingDown, State::Asleep, State::Waking, State::Lost];

    pub(crate) fn name(self) -> &'static str {
        match self {
            State::On => "on",
            State::GoingDown => "going-down",
            State::Asleep => "asleep",
            State::Waking => "waking",
            State::Lost => "lost",
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
    pub(crate) request: Waiting,
}

/// Use of a machine since its accounts were opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Time in each state, in the order of [`State::ALL`].
    pub(crate) states: [Time; 5],
    /// Worker time: what requests were served for.
    pub(crate) served: Time,
    /// Energy by the meter.
    pub(crate) energy: Energy,
    /// Times that it woke.
    pub(crate) wakes: u64,
    /// Time asleep at each level.
    pub(crate) asleep: [Time; LEVELS],
}

/// State of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    model: MachineModel,
    pub(crate) state: State,
    /// Level of sleep in which it is, to which it goes down, or from which it wakes.
    level: usize,
    /// Asked to wake while it goes down.
    again: bool,
    /// Time of its next spontaneous change of state.
    turns: Time,
    /// Time at which it is lost, or back, unless another event comes before.
    upset: Time,
    fate: Option<Box<Fate>>,
    /// Time at which it stopped serving.
    stood: Time,
    /// Workers whose caches are cold.
    cold: usize,
    queue: VecDeque<Waiting>,
    /// The next to finish is the last.
    /// Kept in order, not in a heap: there are no more than workers.
    running: Vec<Running>,
    spent: Spent,
    /// Time up to which `spent` is valid.
    since: Time,
    power: Power,
    /// Time that requests in service had been served when the accounts were opened.
    before: Time,
}

impl Station {
    pub(crate) fn new(model: MachineModel, mut fate: Option<Box<Fate>>) -> Station {
        Station {
            model,
            state: State::On,
            level: 0,
            again: false,
            turns: Time::NEVER,
            upset: fate.as_mut().map_or(Time::NEVER, |fate| fate.crash()),
            fate,
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

    /// Returns the number of unfinished requests.
    pub(crate) fn load(&self) -> usize {
        self.queue.len() + self.running.len()
    }

    /// Returns the unfinished requests.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Waiting> {
        self.queue.iter().chain(self.running.iter().map(|running| &running.request))
    }

    /// Returns the finish time of the next request in service.
    #[inline]
    pub(crate) fn next_finish(&self) -> Time {
        match self.running.last() {
            // In other states requests stand still, and their finish is moved when the machine is
            // on again.
            Some(next) if self.state == State::On => next.finish,
            _ => Time::NEVER,
        }
    }

    /// Returns the time of its next change of state.
    #[inline]
    pub(crate) fn turns(&self) -> Time {
        self.turns.min(self.upset)
    }

    /// Runs the meter up to now.
    #[inline]
    fn meter(&mut self, now: Time) {
        let span = now.saturating_sub(self.since);
        if span > Time::ZERO {
            self.spent.states[self.state as usize] += span;
            if self.state == State::Asleep {
                self.spent.asleep[self.level] += span;
            }
            self.spent.energy += self.power * span;
            self.since = now;
        }
    }

    #[inline]
    fn draw(&mut self) {
        let m = &self.model;
        self.power = match self.state {
            State::On => m.idle + Power(m.thread.0 * self.running.len() as u64),
            // It does not answer; that it is off nobody knows.
            State::Lost => m.idle,
            State::Asleep => m.sleep[self.level].power,
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
    pub(crate) fn serve(&mut self, now: Time, request: Waiting, mut span: Time) {
        self.meter(now);
        if self.cold > 0 {
            self.cold -= 1;
            span += self.model.sleep[self.level].cold;
        }
        let finish = now + span;
        // Of those that finish together, who came first goes first.
        let place = self.running.partition_point(|r| r.finish > finish);
        self.running.insert(place, Running { finish, span, request });
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
                let wake = self.model.sleep[self.level].wake;
                self.turns = now + wake;
                if let Some(fate) = &mut self.fate {
                    self.turns = now.saturating_add(fate.wake(wake));
                    self.upset = now + fate.patience();
                }
                true
            }
            State::GoingDown => {
                self.again = true;
                true
            }
            State::On | State::Waking | State::Lost => false,
        }
    }

    /// Begins to go down, from asleep to the next deeper level; what it serves stands still.
    /// Whether it could be asked to.
    pub(crate) fn sleep(&mut self, now: Time) -> bool {
        let level = match self.state {
            State::On => 0,
            State::Asleep if self.level + 1 < usize::from(self.model.levels) => self.level + 1,
            _ => return false,
        };
        if self.state == State::On {
            // Not from asleep to a deeper level: requests have stood still since it left the state
            // `on`.
            self.stood = now;
        }
        self.become_(now, State::GoingDown);
        self.level = level;
        self.turns = now + self.model.sleep[level].down;
        // Nothing crashes on the way down or asleep (assumption); a wake-up draws anew.
        self.upset = Time::NEVER;
        true
    }

    /// Changes state as it was to now. What a policy is to be told of, if anything.
    pub(crate) fn turn(&mut self, now: Time) -> Option<Turn> {
        // One that is awake just in time is.
        if self.upset < self.turns {
            return Some(if self.state == State::Lost { self.back(now) } else { self.lose(now) });
        }
        self.turns = Time::NEVER;
        if self.state == State::GoingDown {
            self.become_(now, State::Asleep);
            if std::mem::take(&mut self.again) {
                self.wake(now);
                return None;
            }
            return Some(Turn::Asleep);
        }
        self.spent.wakes += 1;
        // All by the same: their order stays as it is.
        let still = now.saturating_sub(self.stood);
        let cold = self.model.sleep[self.level].cold;
        for request in &mut self.running {
            request.finish += still + cold;
            request.span += cold;
        }
        self.cold = self.model.workers as usize - self.running.len();
        self.become_(now, State::On);
        self.hope(now);
        Some(Turn::Awake)
    }

    /// Draws the time of the next loss of a machine that is on.
    fn hope(&mut self, now: Time) {
        if let Some(fate) = &mut self.fate {
            self.upset = now.saturating_add(fate.crash());
        }
    }

    /// Loses the machine. Its requests remain for [`Station::abandon`].
    fn lose(&mut self, now: Time) -> Turn {
        self.spent.served += self.under_way(now);
        let repaired = |fate: &mut Box<Fate>| now.saturating_add(fate.repair());
        // One that wakes late is back then.
        let late = (self.state == State::Waking && self.turns < Time::NEVER).then_some(self.turns);
        self.upset = late.or(self.fate.as_mut().map(repaired)).unwrap_or(Time::NEVER);
        // An order to wake is lost with the machine.
        (self.turns, self.again) = (Time::NEVER, false);
        self.become_(now, State::Lost);
        Turn::Lost
    }

    fn back(&mut self, now: Time) -> Turn {
        debug_assert!(self.load() == 0, "a lost machine has nothing");
        self.cold = self.model.workers as usize;
        self.become_(now, State::On);
        self.hope(now);
        Turn::Back
    }

    /// Takes the requests of a machine that was just lost: those in service by arrival, then those
    /// that waited.
    pub(crate) fn abandon(&mut self) -> Vec<Waiting> {
        debug_assert!(self.state == State::Lost, "others keep what they have");
        let mut left: Vec<Waiting> = self.running.drain(..).map(|r| r.request).collect();
        left.sort_by_key(|request| request.arrived);
        left.extend(self.queue.drain(..));
        left
    }

    fn become_(&mut self, now: Time, state: State) {
        self.meter(now);
        self.state = state;
        self.draw();
    }

    /// Returns the time that requests in service have been served.
    fn under_way(&self, now: Time) -> Time {
        // Served until it stopped, whatever time has passed since.
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

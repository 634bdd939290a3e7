//! The steps of [`super::dispatch`], each under its lock.

use halfwink_engine::Histogram;
use halfwink_eventlog::Header;
use halfwink_live::program::stand_in::{Deciding, Watch};
use halfwink_policy::steering::{Action, Event, Side, SteeringPolicy};
use halfwink_policy::{Host, StuckTimer};
use halfwink_units::Time;
use tokio::sync::oneshot;

use super::config::MOST_MACHINES;
use super::machine::{Machine, Refusal, Verdict, Waiter};
use super::meter::State;
use super::power::Wanted;
use super::{Decides, EventLog, Next};

/// The policy and its machines.
pub struct Inner {
    /// The policy, with its log if there is one.
    pub policy: Host<SteeringPolicy, Option<EventLog>>,
    /// The machines in their order: the small one of a pair first.
    pub machines: Vec<Machine>,
    /// Failed connections one after the other that make a machine lost.
    pub fall: u32,
    /// Deadline of the policy's timer as last announced to its keeper.
    pub armed: Time,
    /// Which policy: requests of an earlier one are not told to this one.
    pub epoch: u32,
    /// Time from arrival to service.
    pub queueing: Histogram,
    /// Time from arrival to the end.
    pub total: Histogram,
    /// Keepers that wait for the lock to be free.
    pub ring: Ring,
    /// Watch over the policy.
    pub watch: Watch<Next>,
    /// Set if a machine of a group may have to follow the others: see [`Inner::gather`].
    pub is_apart: bool,
    pending: Vec<Event>,
    next_id: u64,
}

/// A set of keepers that are woken once the lock is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// One bit for each machine's keeper, that of the first machine lowest.
    machines: u64,
    /// The keeper of the policy's timer.
    pub timer: bool,
}

impl Ring {
    /// Wakes the keeper of a machine.
    #[inline]
    pub fn keeper_of(&mut self, side: Side) {
        debug_assert!(side.index() < MOST_MACHINES, "a bit for each machine");
        self.machines |= 1 << side.index();
    }

    /// Returns the places of the machines whose keepers are to be woken.
    #[inline]
    pub fn places(self) -> impl Iterator<Item = usize> {
        let mut left = self.machines;
        std::iter::from_fn(move || {
            let place = (left != 0).then(|| left.trailing_zeros() as usize);
            // Takes the lowest bit away.
            left &= left.wrapping_sub(1);
            place
        })
    }
}

/// Place that the policy and a queue chose for a request.
pub enum Placed {
    /// A worker serves it.
    Now(Side, u32),
    /// It waits in a queue, under a number.
    Later(u64, oneshot::Receiver<Verdict>),
    /// It was rejected.
    Refused(Refusal),
}

impl Inner {
    /// Creates the state before the first call of the policy.
    pub fn new(policy: Decides, log: Option<EventLog>, machines: Vec<Machine>, fall: u32) -> Inner {
        let Deciding { policy, stand_in } = policy;
        debug_assert!(
            machines.iter().enumerate().all(|(place, m)| m.side.index() == place),
            "machines stand at the places by which policies name them"
        );
        Inner {
            policy: Host::logged(policy, log),
            machines,
            fall,
            armed: Time::NEVER,
            epoch: 0,
            queueing: Histogram::default(),
            total: Histogram::default(),
            ring: Ring::default(),
            watch: Watch::new(stand_in),
            is_apart: false,
            pending: Vec::new(),
            next_id: 0,
        }
    }

    /// Returns the machine that policies name so.
    pub fn of(&mut self, side: Side) -> &mut Machine {
        &mut self.machines[side.index()]
    }

    /// Does what the policy asks for at its start.
    pub fn begin(&mut self, now: Time) {
        self.apply(now);
        self.settle(now);
    }

    /// Another policy: it believes that all machines are on and empty. Those that are not, and
    /// that it does not want asleep, are woken; requests in service are not its affair, those that
    /// wait come anew.
    pub fn replace(&mut self, policy: SteeringPolicy, header: Header, now: Time) {
        let log = self.policy.log().as_ref().map(|log| log.again(header));
        self.policy.replace(policy, log);
        self.epoch += 1;
        self.machines.iter_mut().for_each(|machine| {
            machine.stray = machine.in_service;
            machine.wanted = Wanted::Awake;
            machine.follows = false;
        });
        self.begin(now);
        for place in 0..self.machines.len() {
            let Machine { side, state, wanted, .. } = self.machines[place];
            if state == State::Lost {
                self.tell(now, Event::Lost { side });
            } else if state != State::On && wanted == Wanted::Awake {
                self.wake(side, now);
            }
        }
        let waiters: Vec<_> =
            self.machines.iter_mut().flat_map(|m| std::mem::take(&mut m.queue)).collect();
        waiters.into_iter().for_each(|waiter| self.again(waiter, now));
    }

    /// Tells the policy, and does what it asks for; its answer to an arrival.
    #[inline]
    pub fn tell(&mut self, now: Time, event: Event) -> Option<Side> {
        self.policy.notify(now, &event);
        let send = self.apply(now);
        self.settle(now);
        // The other one begins with the machines as they are, so that it has to hear of a request
        // alone.
        match self.relieve(now) && event == Event::Arrive {
            true => self.tell(now, event),
            false => send,
        }
    }

    /// Has another policy decide if the present one has failed: whether it has.
    #[inline]
    fn relieve(&mut self, now: Time) -> bool {
        let Some((policy, header)) = self.watch.take() else { return false };
        self.replace(policy, header, now);
        true
    }

    /// Rings the policy's timer if its time has come: whether it has.
    ///
    /// # Errors
    /// If it would ring for ever.
    pub fn ring_timer(&mut self, now: Time) -> Result<bool, StuckTimer> {
        let rung = self.policy.expire(now)?;
        if rung {
            self.apply(now);
            self.settle(now);
            self.relieve(now);
        }
        Ok(rung)
    }

    /// Does what the policy asks for; its answer to an arrival. What it is to hear of that waits
    /// until all is done: see [`Inner::settle`].
    #[inline]
    fn apply(&mut self, now: Time) -> Option<Side> {
        let mut send = None;
        while let Some(action) = self.policy.next_action() {
            match action {
                Action::Send { side } => send = Some(side),
                Action::Wake { side } => self.wake(side, now),
                Action::Sleep { side } => self.sleep(side, now),
            }
        }
        send
    }

    /// Tells what its wishes have led to at once; looks after its timer.
    #[inline]
    fn settle(&mut self, now: Time) {
        while let Some(event) = self.pending.pop() {
            self.policy.notify(now, &event);
            self.apply(now);
            if let Event::Awake { side } = event {
                self.admit(side, now);
            }
        }
        if self.policy.due() < self.armed {
            self.ring.timer = true;
        }
    }

    fn wake(&mut self, side: Side, now: Time) {
        self.ring.keeper_of(side);
        let machine = &mut self.machines[side.index()];
        machine.counts.wakes += 1;
        machine.wanted = Wanted::Awake;
        self.is_apart |= machine.group.is_some();
        match machine.state {
            State::Asleep => machine.become_(now, State::Waking),
            // Nothing has been done to it yet.
            State::GoingDown if machine.can_return(now) => {
                machine.return_to_service(now);
                self.pending.push(Event::Awake { side });
            }
            State::On | State::GoingDown | State::Waking | State::Lost => {}
        }
        machine.follows = false;
    }

    /// Lets a machine that goes down serve on, before anything was done to it.
    pub fn keep_on(&mut self, side: Side, now: Time) {
        self.of(side).return_to_service(now);
        self.tell(now, Event::Awake { side });
        self.admit(side, now);
    }

    fn sleep(&mut self, side: Side, now: Time) {
        self.ring.keeper_of(side);
        let machine = &mut self.machines[side.index()];
        machine.counts.sleeps += 1;
        let before = std::mem::replace(&mut machine.wanted, Wanted::Asleep);
        self.is_apart |= machine.group.is_some();
        match machine.state {
            State::On => {
                machine.become_(now, State::GoingDown);
                machine.stays = false;
                machine.held = machine.rest.earliest(machine.on_since, machine.budget);
            }
            State::Asleep if before == Wanted::Asleep && machine.level + 1 < machine.levels => {
                machine.become_(now, State::GoingDown);
                machine.level += 1;
            }
            // A policy that has just begun does not know it, or there is no deeper level.
            State::Asleep => self.pending.push(Event::Asleep { side }),
            State::GoingDown | State::Waking | State::Lost => {}
        }
    }

    /// A request that came at `came` gets its place.
    #[inline]
    pub fn arrive(&mut self, came: Time, now: Time) -> Placed {
        let Some(side) = self.tell(now, Event::Arrive) else {
            debug_assert!(false, "a policy answers each arrival");
            return Placed::Refused(Refusal::Nowhere);
        };
        let machine = self.of(side);
        if machine.is_free() && machine.queue.is_empty() {
            machine.book(now);
            machine.in_service += 1;
            self.queueing.record(Time(now.0 - came.0));
            return Placed::Now(side, self.epoch);
        }
        let refusal = match machine.state {
            State::Lost => Refusal::Nowhere,
            _ if machine.queue.len() >= machine.room => Refusal::Full,
            _ => {
                self.next_id += 1;
                let (id, (tell, hear)) = (self.next_id, oneshot::channel());
                let machine = self.of(side);
                machine.counts.queued += 1;
                machine.queue.push_back(Waiter { id, came, tell });
                return Placed::Later(id, hear);
            }
        };
        machine.counts.refused += 1;
        self.tell(now, Event::Finish { side, latency: Time(now.0 - came.0) });
        Placed::Refused(refusal)
    }

    /// A request in service ends.
    #[inline]
    pub fn leave(&mut self, side: Side, epoch: u32, came: Time, now: Time) {
        let current = self.epoch;
        let machine = self.of(side);
        machine.book(now);
        machine.in_service -= 1;
        if epoch == current {
            self.tell(now, Event::Finish { side, latency: Time(now.0 - came.0) });
        } else {
            machine.stray -= 1;
            if machine.stray == 0 {
                self.ring.keeper_of(side);
            }
        }
        self.admit(side, now);
    }

    /// Serves the requests that have waited longest, as long as workers are free.
    #[inline]
    pub fn admit(&mut self, side: Side, now: Time) {
        while self.of(side).is_free() {
            let Some(waiter) = self.of(side).queue.pop_front() else { return };
            self.serve(side, waiter, now);
        }
    }

    fn serve(&mut self, side: Side, waiter: Waiter, now: Time) {
        let epoch = self.epoch;
        if waiter.tell.send(Verdict::Serve(side, epoch)).is_err() {
            // It has just been given up.
            self.tell(now, Event::Finish { side, latency: Time(now.0 - waiter.came.0) });
            return;
        }
        self.queueing.record(Time(now.0 - waiter.came.0));
        let machine = self.of(side);
        machine.book(now);
        machine.in_service += 1;
    }

    /// A request that waits goes away.
    pub fn give_up(&mut self, id: u64, now: Time) {
        for machine in &mut self.machines {
            if let Some(at) = machine.queue.iter().position(|w| w.id == id) {
                machine.counts.given_up += 1;
                let came = machine.queue.remove(at).map_or(now, |w| w.came);
                let side = machine.side;
                self.tell(now, Event::Finish { side, latency: Time(now.0 - came.0) });
                return;
            }
        }
    }

    /// A machine cannot be reached.
    pub fn lose(&mut self, side: Side, now: Time) {
        let machine = &mut self.machines[side.index()];
        if machine.state == State::Lost {
            return;
        }
        machine.become_(now, State::Lost);
        machine.follows = false;
        machine.counts.losses += 1;
        self.is_apart |= machine.group.is_some();
        self.ring.keeper_of(side);
        self.tell(now, Event::Lost { side });
        for waiter in std::mem::take(&mut self.of(side).queue) {
            self.of(side).counts.resteered += 1;
            self.tell(now, Event::Finish { side, latency: Time(now.0 - waiter.came.0) });
            self.again(waiter, now);
        }
    }

    /// A request that has waited comes again.
    fn again(&mut self, waiter: Waiter, now: Time) {
        let Some(side) = self.tell(now, Event::Arrive) else { return };
        let machine = self.of(side);
        let refusal = match machine.state {
            State::Lost => Refusal::Nowhere,
            _ if machine.is_free() && machine.queue.is_empty() => {
                return self.serve(side, waiter, now);
            }
            _ if machine.queue.len() < machine.room => {
                machine.queue.push_back(waiter);
                return;
            }
            _ => Refusal::Full,
        };
        machine.counts.refused += 1;
        self.tell(now, Event::Finish { side, latency: Time(now.0 - waiter.came.0) });
        // Nobody may listen any more.
        let _ = waiter.tell.send(Verdict::Refuse(refusal));
    }
}

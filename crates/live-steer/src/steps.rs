//! The steps of [`super::dispatch`], each under its lock.

use halfwink_engine::Histogram;
use halfwink_eventlog::Header;
use halfwink_policy::steering::{Action, Event, Side, SteeringPolicy};
use halfwink_policy::{Host, StuckTimer};
use halfwink_units::Time;
use tokio::sync::oneshot;

use super::machine::{Machine, Refusal, Verdict, Waiter};
use super::meter::State;
use super::power::Wanted;
use super::EventLog;

/// The policy and both machines.
pub struct Inner {
    /// The policy, with its log if there is one.
    pub policy: Host<SteeringPolicy, Option<EventLog>>,
    /// The small machine and the big one.
    pub machines: [Machine; 2],
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
    /// Keepers to wake: of both machines, and of the timer.
    pub ring: [bool; 3],
    pending: Vec<Event>,
    next_id: u64,
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
    pub fn new(
        policy: Host<SteeringPolicy, Option<EventLog>>,
        machines: [Machine; 2],
        fall: u32,
    ) -> Inner {
        Inner {
            policy,
            machines,
            fall,
            armed: Time::NEVER,
            epoch: 0,
            queueing: Histogram::default(),
            total: Histogram::default(),
            ring: [false; 3],
            pending: Vec::new(),
            next_id: 0,
        }
    }

    /// Returns a machine of the pair.
    pub fn of(&mut self, side: Side) -> &mut Machine {
        &mut self.machines[side.index_in_pair()]
    }

    /// Does what the policy asks for at its start.
    pub fn begin(&mut self, now: Time) {
        self.apply(now);
        self.settle(now);
    }

    /// Another policy: it believes that both machines are on and empty. Those that are not, and
    /// that it does not want asleep, are woken; requests in service are not its affair, those that
    /// wait come anew.
    pub fn replace(&mut self, policy: SteeringPolicy, header: Header, now: Time) {
        let log = self.policy.log().as_ref().map(|log| log.again(header));
        self.policy.replace(policy, log);
        self.epoch += 1;
        self.machines.iter_mut().for_each(|machine| {
            machine.stray = machine.in_service;
            machine.wanted = Wanted::Awake;
        });
        self.begin(now);
        for side in Side::BOTH {
            let (state, wanted) = (self.of(side).state, self.of(side).wanted);
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
        send
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
            self.ring[2] = true;
        }
    }

    fn wake(&mut self, side: Side, now: Time) {
        self.ring[side.index_in_pair()] = true;
        let machine = self.of(side);
        machine.counts.wakes += 1;
        machine.wanted = Wanted::Awake;
        match machine.state {
            State::Asleep => machine.become_(now, State::Waking),
            // Nothing has been done to it yet.
            State::GoingDown if machine.is_held(now) => {
                let since = if now < machine.held { machine.on_since } else { now };
                machine.counts.spared += u64::from(now < machine.held);
                machine.become_(now, State::On);
                machine.on_since = since;
                self.pending.push(Event::Awake { side });
            }
            State::On | State::GoingDown | State::Waking | State::Lost => {}
        }
    }

    fn sleep(&mut self, side: Side, now: Time) {
        self.ring[side.index_in_pair()] = true;
        let machine = self.of(side);
        machine.counts.sleeps += 1;
        machine.wanted = Wanted::Asleep;
        match machine.state {
            State::On => {
                machine.become_(now, State::GoingDown);
                machine.held = machine.rest.earliest(machine.on_since, machine.budget);
            }
            // A policy that has just begun does not know.
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
            self.ring[side.index_in_pair()] |= machine.stray == 0;
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
        for side in Side::BOTH {
            let machine = self.of(side);
            if let Some(at) = machine.queue.iter().position(|w| w.id == id) {
                machine.counts.given_up += 1;
                let came = machine.queue.remove(at).map_or(now, |w| w.came);
                self.tell(now, Event::Finish { side, latency: Time(now.0 - came.0) });
                return;
            }
        }
    }

    /// A machine cannot be reached.
    pub fn lose(&mut self, side: Side, now: Time) {
        let machine = self.of(side);
        if machine.state == State::Lost {
            return;
        }
        machine.become_(now, State::Lost);
        machine.counts.losses += 1;
        self.ring[side.index_in_pair()] = true;
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

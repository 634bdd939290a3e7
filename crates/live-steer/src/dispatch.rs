//! Who is served where: the policy and its machines, behind one lock that is held for a
//! fraction of a microsecond at each arrival and each end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use halfwink_eventlog::Header;
use halfwink_live::program::stand_in::Deciding;
use halfwink_policy::steering::{Event, Side};
use halfwink_policy::StuckTimer;
use halfwink_units::Time;
use tokio::sync::{oneshot, Notify};

use super::config::Config;
use super::machine::{Leave, Machine, Refusal, Verdict};
use super::meter::{State, Watts};
use super::power::{Seen, Wanted};
use super::steps::{Inner, Placed};
use super::{Decides, EventLog};

/// The policy and its machines.
pub struct Dispatch {
    inner: Mutex<Inner>,
    start: Instant,
    /// A machine's power is to change.
    pub changed: Box<[Notify]>,
    /// The policy's timer has become earlier.
    pub timer: Notify,
}

/// Place of a request.
pub enum Place {
    /// A worker serves it.
    Now(Ticket),
    /// It waits in a queue.
    Later(Waiting),
    /// It was rejected.
    Refused(Refusal),
}

/// A request in service. Dropping it ends it.
pub struct Ticket {
    dispatch: Arc<Dispatch>,
    /// Machine that serves it.
    pub side: Side,
    /// Policy under which it was placed.
    epoch: u32,
    came: Time,
    /// Whether it was answered.
    pub served: bool,
    over: bool,
}

/// A request in a queue. Dropping it gives it up.
pub struct Waiting {
    dispatch: Arc<Dispatch>,
    id: u64,
    came: Time,
    hear: oneshot::Receiver<Verdict>,
    over: bool,
}

impl Dispatch {
    /// All machines on; does what the policy asks for at its start.
    #[must_use]
    pub fn new(
        policy: impl Into<Decides>,
        log: Option<EventLog>,
        machines: Vec<Machine>,
        fall: u32,
    ) -> Arc<Dispatch> {
        let changed = machines.iter().map(|_| Notify::new()).collect();
        let inner = Inner::new(policy.into(), log, machines, fall);
        let dispatch = Arc::new(Dispatch {
            inner: Mutex::new(inner),
            start: Instant::now(),
            changed,
            timer: Notify::new(),
        });
        dispatch.with(|inner, now| inner.begin(now));
        dispatch
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64 * 1000)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` under the lock, and afterwards wakes the keepers that it concerns.
    #[inline]
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Inner, Time) -> T) -> T {
        let mut inner = self.lock();
        // Under the lock, so that the policy gets times in the order of its events.
        let now = self.now();
        let now = inner.policy.observe(now);
        let done = work(&mut inner, now);
        if std::mem::take(&mut inner.is_apart) {
            inner.gather(now);
        }
        let ring = std::mem::take(&mut inner.ring);
        drop(inner);
        // The lock is free by now, and a keeper that wakes takes it at once.
        ring.places().for_each(|place| self.changed[place].notify_one());
        if ring.timer {
            self.timer.notify_one();
        }
        done
    }

    /// A request comes: the policy says where it goes.
    pub fn arrive(self: &Arc<Dispatch>) -> Place {
        let (came, placed) = self.with(|inner, now| (now, inner.arrive(now, now)));
        self.place(came, placed)
    }

    fn place(self: &Arc<Dispatch>, came: Time, placed: Placed) -> Place {
        let dispatch = self.clone();
        match placed {
            Placed::Now(side, epoch) => {
                Place::Now(Ticket { dispatch, side, epoch, came, served: false, over: false })
            }
            Placed::Later(id, hear) => {
                Place::Later(Waiting { dispatch, id, came, hear, over: false })
            }
            Placed::Refused(why) => Place::Refused(why),
        }
    }

    /// Lets the policy's timer ring if its time has come; how long until the next.
    ///
    /// # Errors
    /// If it would ring for ever.
    pub fn tick(&self) -> Result<Option<Time>, StuckTimer> {
        self.with(|inner, now| {
            while inner.ring_timer(now)? {}
            inner.armed = inner.policy.due();
            Ok((inner.armed < Time::NEVER).then(|| Time(inner.armed.0.saturating_sub(now.0))))
        })
    }

    /// Returns a machine's state, and the state that the policy wants. A machine that goes down
    /// stays on while it serves requests that the policy does not know of, and while
    /// its sleep is put off.
    pub fn state(&self, side: Side) -> (State, Wanted) {
        let mut inner = self.lock();
        let machine = inner.of(side);
        let held = machine.is_held(self.now());
        (if held { State::Asleep } else { machine.state }, machine.wanted)
    }

    /// Returns the level of sleep, from 0, at which a machine is, or to or from which it is on its
    /// way.
    pub fn level(&self, side: Side) -> usize {
        self.lock().of(side).level
    }

    /// Returns the time for which a machine that goes down stays on, if its sleep is put off.
    pub fn held(&self, side: Side) -> Option<Duration> {
        let mut inner = self.lock();
        let machine = inner.of(side);
        let left = machine.held.0.saturating_sub(self.now().0);
        let held = machine.state == State::GoingDown && left > 0;
        // Rounded up: a wait that ends too early would find the machine held still.
        held.then(|| Duration::from_nanos(left.div_ceil(1000)))
    }

    /// Records that a machine which goes down has to stay on: it is asked about again after a time,
    /// or serves at once if it was asked to wake meanwhile. Returns whether this is new.
    pub fn stay(&self, side: Side, again: Duration) -> bool {
        self.with(|inner, now| {
            let machine = inner.of(side);
            if machine.state != State::GoingDown || machine.level > 0 {
                return false;
            }
            machine.counts.declined += 1;
            let is_new = !std::mem::replace(&mut machine.stays, true);
            // It was on while it was asked about.
            machine.held = now.saturating_add(Time::from_ns(again.as_nanos() as f64));
            machine.leave = Leave::Unasked;
            inner.is_apart |= machine.group.is_some();
            let machine = inner.of(side);
            if machine.wanted == Wanted::Awake {
                inner.keep_on(side, now);
            } else {
                inner.ring.keeper_of(side);
            }
            is_new
        })
    }

    /// Returns whether a machine that goes down has been asked whether it may sleep.
    pub fn is_allowed(&self, side: Side) -> bool {
        self.lock().of(side).leave != Leave::Unasked
    }

    /// Records that a machine which goes down may sleep. Returns whether its power is to be changed
    /// now: it is not if another machine of its group has to serve or has not been allowed yet, and
    /// it serves at once if it was asked to wake meanwhile.
    pub fn leave(&self, side: Side) -> bool {
        self.with(|inner, now| inner.leave_service(side, now))
    }

    /// Records that it sleeps now, or was asked to wake meanwhile. `well` is whether the command
    /// succeeded.
    pub fn asleep(&self, side: Side, well: bool) {
        self.with(|inner, now| {
            let machine = inner.of(side);
            machine.counts.power_failures += u64::from(!well);
            if machine.state != State::GoingDown {
                return;
            }
            let deeper = machine.level > 0;
            if well && !deeper {
                machine.rest.take(&mut machine.budget, now);
            }
            if !well && deeper {
                // It sleeps on where it was.
                machine.level -= 1;
            }
            if machine.wanted == Wanted::Awake {
                machine.become_(now, State::Waking);
            } else {
                machine.become_(now, State::Asleep);
                machine.insomniac = !well && (machine.insomniac || !deeper);
                // The policy has not known that one which followed its group was awake.
                if !std::mem::take(&mut machine.follows) {
                    inner.tell(now, Event::Asleep { side });
                }
            }
            inner.is_apart |= inner.of(side).group.is_some();
            inner.ring.keeper_of(side);
        });
    }

    /// Records that it serves after a request to wake.
    pub fn awake(&self, side: Side) {
        self.with(|inner, now| {
            let machine = inner.of(side);
            if machine.state == State::Waking && machine.wanted == Wanted::Asleep {
                // A policy that has just begun wants it so, and counts it as going down; or its
                // group has woken it.
                machine.become_(now, State::GoingDown);
                machine.level = 0;
                machine.on_since = now;
                machine.held = machine.rest.earliest(now, machine.budget);
                inner.is_apart |= machine.group.is_some();
                inner.ring.keeper_of(side);
            } else if machine.state == State::Waking {
                machine.become_(now, State::On);
                inner.tell(now, Event::Awake { side });
                inner.admit(side, now);
            }
        });
    }

    /// Records that it cannot be reached, or did not wake; its waiting requests go to
    /// others that can be reached.
    pub fn lost(&self, side: Side) {
        self.with(|inner, now| inner.lose(side, now));
    }

    /// Returns the machine's state, and a number that changes with each of its changes.
    pub fn moment(&self, side: Side) -> (State, u64) {
        self.lock().of(side).moment()
    }

    /// Compares the state that a driver has seen with that of a [`moment`](Dispatch::moment) before
    /// the query. Returns whether another program has changed it; nothing is done against that. A
    /// machine that was switched off is lost, one that was switched on is booked as on.
    pub fn seen(&self, side: Side, moment: (State, u64), seen: Seen) -> bool {
        self.with(|inner, now| {
            let machine = inner.of(side);
            if machine.moment() != moment {
                return false;
            }
            match (machine.state, seen) {
                (State::On, Seen::Asleep) => {
                    machine.counts.overridden += 1;
                    machine.taken = true;
                    inner.lose(side, now);
                    true
                }
                (State::Asleep, Seen::Awake) if !machine.insomniac => {
                    machine.book(now);
                    machine.insomniac = true;
                    machine.counts.overridden += 1;
                    true
                }
                // The command that was too slow has done its work after all.
                (State::Asleep, Seen::Asleep) if machine.insomniac => {
                    machine.book(now);
                    machine.insomniac = false;
                    false
                }
                (_, Seen::Awake) => {
                    machine.taken = false;
                    false
                }
                _ => false,
            }
        })
    }

    /// Returns whether another program has switched it off, so that it is not woken against that.
    pub fn is_taken(&self, side: Side) -> bool {
        self.lock().of(side).taken
    }

    /// Counts a failure to wake it.
    pub fn power_failed(&self, side: Side) {
        self.with(|inner, _| inner.of(side).counts.power_failures += 1);
    }

    /// A lost machine serves again.
    pub fn back(&self, side: Side) {
        self.with(|inner, now| {
            if inner.of(side).state == State::Lost {
                inner.of(side).taken = false;
                inner.of(side).become_(now, State::On);
                inner.of(side).wanted = Wanted::Awake;
                inner.is_apart |= inner.of(side).group.is_some();
                inner.tell(now, Event::Back { side });
                inner.admit(side, now);
            }
        });
    }

    /// A connection to it was made, or failed: whether the machine is lost now.
    pub fn connected(&self, side: Side, well: bool) -> bool {
        self.with(|inner, now| {
            let fall = inner.fall;
            let machine = inner.of(side);
            machine.counts.connections += u64::from(well);
            machine.failures = if well { 0 } else { machine.failures + 1 };
            // One that sleeps or wakes cannot be reached anyway; its keeper says when it is lost.
            if machine.state == State::On && machine.failures >= fall {
                inner.lose(side, now);
            }
            inner.of(side).state == State::Lost
        })
    }

    /// One of its attempts failed.
    pub fn failed(&self, side: Side, retried: bool) {
        self.with(|inner, _| {
            let counts = &mut inner.of(side).counts;
            counts.failed += 1;
            counts.retried += u64::from(retried);
        });
    }

    /// Since when it is on, if it is.
    pub fn on_since(&self, side: Side) -> Option<Instant> {
        let mut inner = self.lock();
        let machine = inner.of(side);
        let since = std::time::Duration::from_nanos(machine.on_since.0 / 1000);
        (machine.state == State::On).then(|| self.start + since)
    }

    /// Returns whether requests wait for it.
    pub fn has_waiting(&self, side: Side) -> bool {
        !self.lock().of(side).queue.is_empty()
    }

    /// Returns whether it cannot be reached.
    pub fn is_lost(&self, side: Side) -> bool {
        self.lock().of(side).state == State::Lost
    }

    /// Other bounds and watts; `policy`: another policy, which takes over what is there, and what
    /// it is called in the log.
    pub fn change(&self, config: &Config, watts: &[Watts], policy: Option<(Decides, Header)>) {
        self.with(|inner, now| {
            inner.fall = config.health.fall;
            for (machine, &watts) in inner.machines.iter_mut().zip(watts) {
                machine.change(now, config, watts);
            }
            inner.is_apart = true;
            if let Some((Deciding { policy, stand_in }, header)) = policy {
                inner.watch.watch(stand_in);
                inner.replace(policy, header, now);
            }
            // More workers may be free than before, and no request has to end for those that wait.
            (0..inner.machines.len()).for_each(|at| inner.admit(inner.machines[at].side, now));
        });
    }
}

impl Ticket {
    /// Ends the request, answered or not.
    pub fn finish(mut self, served: bool) {
        self.served = served;
    }

    /// Sends the request of a lost machine to the place that the policy chooses now.
    pub fn resteer(mut self) -> Place {
        self.over = true;
        let (side, epoch, came) = (self.side, self.epoch, self.came);
        let placed = self.dispatch.with(|inner, now| {
            inner.of(side).counts.resteered += 1;
            inner.leave(side, epoch, came, now);
            // Its latency counts from its first arrival.
            inner.arrive(came, now)
        });
        self.dispatch.place(came, placed)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.over {
            let (side, epoch, came, served) = (self.side, self.epoch, self.came, self.served);
            self.dispatch.with(|inner, now| {
                inner.total.record(Time(now.0 - came.0));
                inner.of(side).counts.served += u64::from(served);
                inner.leave(side, epoch, came, now);
            });
        }
    }
}

impl Waiting {
    /// Waits for a worker, or for the rejection.
    pub async fn verdict(mut self) -> Result<Ticket, Refusal> {
        let heard = (&mut self.hear).await;
        // From here on the verdict holds the place: a drop of this must not give it up.
        self.over = true;
        let (dispatch, came) = (self.dispatch.clone(), self.came);
        match heard {
            Ok(Verdict::Serve(side, epoch)) => {
                Ok(Ticket { dispatch, side, epoch, came, served: false, over: false })
            }
            Ok(Verdict::Refuse(why)) => Err(why),
            // The sender goes without a verdict only if the policy has named no machine.
            Err(_) => Err(Refusal::Nowhere),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (id, came) = (self.id, self.came);
        // What is said is said under the lock: it waits still, or has been told.
        let heard = self.dispatch.with(|inner, now| match self.hear.try_recv() {
            Ok(verdict) => Some(verdict),
            Err(_) => {
                inner.give_up(id, now);
                None
            }
        });
        if let Some(Verdict::Serve(side, epoch)) = heard {
            let dispatch = self.dispatch.clone();
            drop(Ticket { dispatch, side, epoch, came, served: false, over: false });
        }
    }
}

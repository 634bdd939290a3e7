//! One pair of machines with its policy, event by event.

use halfwink_engine::{stream, Histogram, Stream};
use halfwink_policy::steering::{Action, Event, Side, SteeringPolicy};
use halfwink_policy::{Host, StuckTimer};
use halfwink_units::Time;

use crate::model::{Model, Service};
use crate::station::{Spent, State, Station, Waiting};

/// What happened to requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were sent to each machine, the small one first.
    pub sent: [u64; 2],
    /// Requests that are done, by machine.
    pub finished: [u64; 2],
    /// Picoseconds that requests waited for service, by machine; of those whose service began.
    pub waited_ps: [u128; 2],
    /// The longest wait, by machine.
    pub longest_wait: [Time; 2],
    /// From arrival until done.
    pub latency: Histogram,
    /// The same one by one, in seconds, for whoever takes them away; if there is one.
    pub(crate) one_by_one: Option<Vec<f64>>,
}

impl Tally {
    /// Adds what happened elsewhere, or later.
    pub fn add(&mut self, other: &Tally) {
        self.arrived += other.arrived;
        for side in 0..2 {
            self.sent[side] += other.sent[side];
            self.finished[side] += other.finished[side];
            self.waited_ps[side] += other.waited_ps[side];
            self.longest_wait[side] = self.longest_wait[side].max(other.longest_wait[side]);
        }
        self.latency.add(&other.latency);
    }
}

/// A policy did not do what the world needs of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misled {
    /// No answer to an arrival.
    #[error("the policy sent an arriving request nowhere, at {0}")]
    Unanswered(Time),
    /// Requests that are never served.
    #[error("the policy lets the {1:?} machine sleep for ever with {2} requests, at {0}")]
    Stranded(Time, Side, usize),
    /// Its timer rings for ever.
    #[error(transparent)]
    StuckTimer(#[from] StuckTimer),
}

/// A hybrid server at run time.
pub(crate) struct Server<'a> {
    service: &'a Service,
    policy: Host<SteeringPolicy>,
    machines: [Station; 2],
    sizes: Stream,
    timer: Time,
    now: Time,
}

impl<'a> Server<'a> {
    /// Both machines on; then what the policy asks for at its start.
    pub(crate) fn new(
        model: &Model,
        service: &'a Service,
        policy: SteeringPolicy,
        seed: u64,
        name: &str,
    ) -> Server<'a> {
        let mut server = Server {
            service,
            policy: Host::new(policy),
            machines: model.machines().map(Station::new),
            sizes: stream(seed, &format!("{name}sizes")),
            timer: Time::NEVER,
            now: Time::ZERO,
        };
        server.apply();
        server
    }

    /// Unfinished requests.
    pub(crate) fn load(&self) -> usize {
        self.machines[0].load() + self.machines[1].load()
    }

    /// A request comes, of this size if that is known. All that happens until then, happens first.
    ///
    /// # Errors
    /// If the policy does not send it anywhere.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        size: Option<f64>,
        tally: &mut Tally,
    ) -> Result<(), Misled> {
        self.advance(now, tally)?;
        let size = size.unwrap_or_else(|| self.service.draw(&mut self.sizes));
        tally.arrived += 1;
        self.policy.notify(now, &Event::Arrive);
        let side = self.apply().ok_or(Misled::Unanswered(now))?;
        tally.sent[side as usize] += 1;
        self.machines[side as usize].queue(Waiting { arrived: now, size });
        self.serve(now, side, tally);
        Ok(())
    }

    /// Lets happen what happens until then.
    ///
    /// # Errors
    /// If the policy's timer rings for ever.
    #[inline]
    pub(crate) fn advance(&mut self, until: Time, tally: &mut Tally) -> Result<(), Misled> {
        loop {
            let [small, big] = &self.machines;
            let finish = [small.next_finish(), big.next_finish()];
            let turns = [small.turns(), big.turns()];
            let next = finish[0].min(finish[1]).min(turns[0]).min(turns[1]).min(self.timer);
            if next > until || next == Time::NEVER {
                break;
            }
            self.now = next;
            // What happens at the same time, in this order: done, changed, timer.
            if next == finish[0] {
                self.finish(next, Side::Small, tally);
            } else if next == finish[1] {
                self.finish(next, Side::Big, tally);
            } else if next == turns[0] {
                self.turn(next, Side::Small, tally);
            } else if next == turns[1] {
                self.turn(next, Side::Big, tally);
            } else {
                self.policy.expire(next)?;
                self.apply();
            }
        }
        self.now = self.now.max(if until == Time::NEVER { Time::ZERO } else { until });
        Ok(())
    }

    /// Lets all requests finish.
    ///
    /// # Errors
    /// If a machine sleeps for ever with requests.
    pub(crate) fn drain(&mut self, tally: &mut Tally) -> Result<Time, Misled> {
        // A policy's timer may ring for ever.
        while self.load() > 0 {
            let [small, big] = &self.machines;
            let ends = [small.next_finish(), big.next_finish(), small.turns(), big.turns()];
            let next = ends.into_iter().min().unwrap_or(Time::NEVER).min(self.timer);
            let stuck = next == Time::NEVER || next > self.now.saturating_add(PATIENCE);
            if stuck {
                let side = Side::BOTH[usize::from(self.machines[0].load() == 0)];
                let left = self.machines[side as usize].load();
                return Err(Misled::Stranded(self.now, side, left));
            }
            self.advance(next, tally)?;
        }
        Ok(self.now)
    }

    fn finish(&mut self, now: Time, side: Side, tally: &mut Tally) {
        let Some(done) = self.machines[side as usize].finish(now) else { return };
        let latency = now - done.arrived;
        tally.finished[side as usize] += 1;
        tally.latency.record(latency);
        if let Some(list) = &mut tally.one_by_one {
            list.push(latency.as_s());
        }
        // The next one begins before the policy may put the machine to sleep.
        self.serve(now, side, tally);
        self.policy.notify(now, &Event::Finish { side, latency });
        self.apply();
    }

    fn turn(&mut self, now: Time, side: Side, tally: &mut Tally) {
        let event = match self.machines[side as usize].turn(now) {
            Some(State::On) => Event::Awake { side },
            Some(State::Asleep) => Event::Asleep { side },
            _ => return,
        };
        self.serve(now, side, tally);
        self.policy.notify(now, &event);
        self.apply();
    }

    /// Starts what can start.
    #[inline]
    fn serve(&mut self, now: Time, side: Side, tally: &mut Tally) {
        let machine = &mut self.machines[side as usize];
        while let Some((request, load)) = machine.take() {
            let span = self.service.span(side, request.size, load);
            let waited = now - request.arrived;
            tally.waited_ps[side as usize] += u128::from(waited.0);
            let longest = &mut tally.longest_wait[side as usize];
            *longest = (*longest).max(waited);
            machine.serve(now, request.arrived, span);
        }
    }

    /// Does what the policy asks for; where it sends a request, if it does.
    #[inline]
    fn apply(&mut self) -> Option<Side> {
        let mut sent = None;
        while let Some(action) = self.policy.next_action() {
            match action {
                Action::Send { side } => sent = Some(side),
                Action::Wake { side } => {
                    self.machines[side as usize].wake(self.now);
                }
                Action::Sleep { side } => {
                    self.machines[side as usize].sleep(self.now);
                }
            }
        }
        self.timer = self.policy.due();
        sent
    }

    /// What its machines spent since the last time.
    ///
    /// # Errors
    /// If the policy's timer rings for ever.
    pub(crate) fn take(&mut self, now: Time, tally: &mut Tally) -> Result<[Spent; 2], Misled> {
        self.advance(now, tally)?;
        let [small, big] = &mut self.machines;
        Ok([small.close(now), big.close(now)])
    }
}

/// How long a drain waits for a policy to do something for its requests.
const PATIENCE: Time = Time::ns(3_600_000_000_000);

//! Where the policy lives: the first phase tells it what the device is done with, and threads that
//! have nothing to do ask it how to rest.

use std::sync::{Mutex, PoisonError};

use halfwink_eventlog::{Header, Tap};
use halfwink_live::clock::{ticks, Rate};
use halfwink_live::program::stand_in::{Deciding, PolicyFaults, Watch};
use halfwink_policy::completion::Completion;
use halfwink_policy::completion::{Action, CompletionPolicy, Done, Event, Hears, Queues};
use halfwink_policy::scaling::{Depth, Rest};
use halfwink_policy::{Host, Snapshot};
use halfwink_units::Time;

use crate::worker::Post;

/// The policy's side of an event log.
pub type EventLog = Tap<Event, Action>;
/// A policy that takes over, with the header of its part of the log.
pub type Next = (CompletionPolicy, Header);
/// A policy, and the one that takes over if it fails.
pub type Decides = Deciding<CompletionPolicy, Next>;

/// Time since the server's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) start: u64,
    pub(crate) rate: Rate,
}

impl Clock {
    pub(crate) fn start(rate: Rate) -> Clock {
        Clock { start: ticks(), rate }
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.rate.ps(ticks().saturating_sub(self.start)))
    }

    /// A span in ticks.
    pub(crate) fn span(&self, ticks: u64) -> Time {
        Time(self.rate.ps(ticks))
    }
}

/// Properties of the policy, read once at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ways {
    pub(crate) hears: Hears,
    pub(crate) queues: Queues,
    pub(crate) period: Option<Time>,
    pub(crate) hears_polls: bool,
}

impl Ways {
    fn of(policy: &CompletionPolicy) -> Ways {
        Ways {
            hears: policy.hears(),
            queues: policy.queues(),
            period: policy.period(),
            hears_polls: policy.hears_polls(),
        }
    }
}

struct Inner {
    host: Host<CompletionPolicy, Option<EventLog>>,
    watch: Watch<Next>,
}

impl Inner {
    fn replace(&mut self, policy: CompletionPolicy, header: Header) {
        let log = self.host.log().as_ref().map(|log| log.again(header));
        self.host.replace(policy, log);
        self.host.start(|_, _| ());
    }

    /// Has another policy decide if the present one has failed: whether it has.
    fn relieve(&mut self) -> bool {
        let Some((policy, header)) = self.watch.take() else { return false };
        self.replace(policy, header);
        true
    }
}

/// The policy and its surroundings.
pub(crate) struct Control {
    inner: Mutex<Inner>,
    pub(crate) clock: Clock,
    pub(crate) ways: Ways,
}

impl Control {
    pub(crate) fn new(policy: impl Into<Decides>, clock: Clock, log: Option<EventLog>) -> Control {
        let Deciding { policy, stand_in } = policy.into();
        let ways = Ways::of(&policy);
        let mut host = Host::logged(policy, log);
        // A policy of this family has nobody to answer at its start.
        host.start(|_, _| ());
        let inner = Inner { host, watch: Watch::new(stand_in) };
        Control { inner: Mutex::new(inner), clock, ways }
    }

    fn tell(&self, inner: &mut Inner, event: &Event, mut act: impl FnMut(Action)) {
        let now = self.clock.now();
        while inner.host.due() <= now {
            if inner.host.ring(now, |_, action| act(action)).is_err() {
                break;
            }
            inner.relieve();
        }
        inner.host.deliver(now, event, |_, action| act(action));
        if inner.relieve() {
            inner.host.deliver(now, event, |_, action| act(action));
        }
    }

    /// Calls `to` for each of these I/Os with the CPU that completes it: another CPU, or none for
    /// this one.
    pub(crate) fn place(
        &self,
        done: impl Iterator<Item = (Done, u64)>,
        mut to: impl FnMut(Option<u16>),
    ) {
        let mut inner = self.locked();
        for (mut done, ticks) in done {
            done.took = self.clock.span(ticks);
            let mut place = None;
            self.tell(&mut inner, &Event::Done(done), |action| {
                if let Action::Give { io, cpu } = action {
                    if io == done.io {
                        place = Some(cpu);
                    }
                }
            });
            to(place);
        }
    }

    /// Returns the policy's rest action for a thread without work.
    pub(crate) fn rest(&self, cpu: u16) -> Rest {
        let mut answer = Rest::Halt(Depth::C1);
        let mut inner = self.locked();
        self.tell(&mut inner, &Event::Empty { cpu }, |action| {
            if let Action::Rest { cpu: who, rest } = action {
                if who == cpu {
                    answer = rest;
                }
            }
        });
        answer
    }

    /// Anything that asks for no answer.
    pub(crate) fn note(&self, event: &Event) {
        let mut inner = self.locked();
        self.tell(&mut inner, event, |_| ());
    }

    /// Reports to the policy how busy all CPUs were in `all` ticks. `before` holds the working time
    /// of each at the last report.
    pub(crate) fn note_used(&self, posts: &[Post], before: &mut [u64], all: u64) {
        for ((cpu, post), before) in (0u16..).zip(posts).zip(before) {
            let now = post.meter.times.working.get();
            let busy = (now - std::mem::replace(before, now)).min(all);
            // Both fit: a period is a fraction of a second.
            let scale = 1 + (all >> 31);
            let (busy, of) = ((busy / scale) as u32, (all / scale).max(1) as u32);
            self.note(&Event::Used { cpu, busy, of });
        }
    }

    /// Lets another policy decide from now on, in the same log behind a header of its own.
    ///
    /// # Errors
    /// Threads read, poll or report in another way for it, which they do from their start on.
    pub(crate) fn replace(&self, policy: impl Into<Decides>, header: Header) -> Result<(), String> {
        let Deciding { policy, stand_in } = policy.into();
        if Ways::of(&policy) != self.ways {
            let why =
                "policy: one that reads, polls or measures in another way can only come by a \
                       restart";
            return Err(why.to_owned());
        }
        let mut inner = self.locked();
        inner.replace(policy, header);
        inner.watch.watch(stand_in);
        Ok(())
    }

    /// Faults of policies in files.
    pub(crate) fn faults(&self) -> PolicyFaults {
        self.locked().watch.faults()
    }

    /// Returns the state of the policy.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.locked().host.snapshot()
    }

    /// Gives the log's side back, so that it can be ended.
    pub(crate) fn end_log(&self) {
        drop(self.locked().host.log_mut().take());
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Where the policy lives: workers tell it what they find, and it says how to rest; what it asks
//! of the whole router waits for the receiver, the only one who may do it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use halfwink_eventlog::{Header, Tap};
use halfwink_policy::scaling::{Action, Event, Rest, ScalingPolicy};
use halfwink_policy::{Host, Snapshot};
use halfwink_units::Time;

use halfwink_live::clock::{ticks, Rate};
use halfwink_live::program::stand_in::{Deciding, PolicyFaults, Watch};

/// A policy that takes over, with the header of its part of the log.
pub type Next = (ScalingPolicy, Header);

/// Log of its policy's events and actions.
pub type EventLog = Tap<Event, Action>;

/// The policy and its surroundings.
pub struct Control {
    inner: Mutex<Inner>,
    waiting: AtomicBool,
    /// True for workers of whose polls the policy wants to be told, or the one that may take over
    /// from it at any time.
    hears: Vec<AtomicBool>,
    clock: Clock,
}

/// Time since the router's start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    rate: Rate,
}

struct Inner {
    host: Host<ScalingPolicy, Option<EventLog>>,
    watch: Watch<Next>,
    /// Actions that concern the whole router.
    pending: VecDeque<Action>,
    workers: u8,
}

impl Inner {
    /// Tells the policy; its answer, if the event asks how to rest.
    fn deliver(&mut self, now: Time, event: &Event) -> Option<Rest> {
        let asking = match event {
            &Event::Empty { core } => Some(core),
            _ => None,
        };
        let mut answer = None;
        let Inner { host, pending, .. } = self;
        host.deliver(now, event, |_, action| match action {
            Action::Rest { core, rest } if Some(core) == asking => answer = Some(rest),
            other => pending.push_back(other),
        });
        answer
    }

    /// Has another policy decide if the present one has failed: whether it has.
    fn relieve(&mut self) -> bool {
        let Some((policy, header)) = self.watch.take() else { return false };
        self.replace(policy, header);
        true
    }

    /// Has another policy decide. It begins as if nothing had happened, in the middle of traffic:
    /// workers that an earlier one has parked take part, and frames wait for those that came under
    /// the old table.
    fn replace(&mut self, policy: ScalingPolicy, header: Header) {
        let log = self.host.log().as_ref().map(|log| log.again(header));
        self.host.replace(policy, log);
        let Inner { host, pending, workers, .. } = self;
        pending.extend((0..*workers).map(|core| Action::Wake { core }));
        host.start(|_, action| {
            pending.push_back(match action {
                Action::Move { entry, to, .. } => Action::Move { entry, to, in_order: true },
                other => other,
            });
        });
    }
}

impl Clock {
    /// Starts the clock at zero.
    #[must_use]
    pub fn start(rate: Rate) -> Clock {
        Clock { start: ticks(), rate }
    }

    /// Returns the present time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.rate.ps(ticks().saturating_sub(self.start)))
    }
}

impl Control {
    /// Takes a policy for so many workers, with all that it asks for at its start, and its log, if
    /// there is one.
    #[must_use]
    pub fn new(
        policy: impl Into<Deciding<ScalingPolicy, Next>>,
        workers: u8,
        clock: Clock,
        log: Option<EventLog>,
    ) -> Control {
        let deciding = policy.into();
        let hears = hears(&deciding, workers).map(AtomicBool::new).collect();
        let Deciding { policy, stand_in } = deciding;
        let mut host = Host::logged(policy, log);
        let mut pending = VecDeque::new();
        host.start(|_, action| pending.push_back(action));
        let inner = Mutex::new(Inner { host, watch: Watch::new(stand_in), pending, workers });
        Control { inner, waiting: AtomicBool::new(true), hears, clock }
    }

    /// Lets another policy decide from now on, in the same log behind this header.
    pub fn replace(&self, policy: Deciding<ScalingPolicy, Next>, header: Header) {
        let mut inner = self.lock();
        for (slot, hears) in self.hears.iter().zip(hears(&policy, inner.workers)) {
            slot.store(hears, Ordering::Relaxed);
        }
        let Deciding { policy, stand_in } = policy;
        inner.replace(policy, header);
        inner.watch.watch(stand_in);
        self.note(&inner);
    }

    /// Returns whether a worker's polls are told.
    #[inline]
    #[must_use]
    pub fn hears_polls(&self, worker: u8) -> bool {
        self.hears[usize::from(worker)].load(Ordering::Relaxed)
    }

    /// Tells the policy; its answer, if the event asks how to rest.
    pub fn tell(&self, event: Event) -> Option<Rest> {
        let mut inner = self.lock();
        // Read under the lock, so that events are told in the order of their times.
        let now = self.clock.now();
        let mut answer = inner.deliver(now, &event);
        if inner.relieve() {
            answer = inner.deliver(now, &event);
        }
        self.note(&inner);
        answer
    }

    /// Lets the policy's timer ring if its time has come; when it wants to be called next.
    ///
    /// # Panics
    /// If it would ring for ever: nothing can be done about such a policy, and the thread's end is
    /// noticed.
    pub fn timer(&self) -> Option<Time> {
        let mut inner = self.lock();
        loop {
            let Inner { host, pending, .. } = &mut *inner;
            let due = host.due();
            let now = self.clock.now();
            if due > now {
                self.note(&inner);
                return (due < Time::NEVER).then_some(due);
            }
            let rang = host.ring(now, |_, action| pending.push_back(action));
            rang.unwrap_or_else(|stuck| panic!("{stuck}"));
            inner.relieve();
        }
    }

    /// Returns whether actions wait for the receiver.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Takes the actions that wait, in order.
    #[must_use]
    pub fn pending(&self) -> VecDeque<Action> {
        let mut inner = self.lock();
        self.waiting.store(false, Ordering::Release);
        std::mem::take(&mut inner.pending)
    }

    /// The policy's state, and how often its clock stepped back.
    #[must_use]
    pub fn snapshot(&self) -> (Snapshot, u64) {
        let inner = self.lock();
        (inner.host.snapshot(), inner.host.steps_back())
    }

    /// Faults of policies in files.
    #[must_use]
    pub fn faults(&self) -> PolicyFaults {
        self.lock().watch.faults()
    }

    /// Time since the start.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    fn note(&self, inner: &Inner) {
        if !inner.pending.is_empty() {
            self.waiting.store(true, Ordering::Release);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of each worker whether either policy wants to be told of its polls: the second may take
/// over at any time.
fn hears(
    deciding: &Deciding<ScalingPolicy, Next>,
    workers: u8,
) -> impl Iterator<Item = bool> + use<'_> {
    let next = deciding.stand_in.as_ref().map(|stand_in| &stand_in.next().0);
    (0..workers).map(move |worker| {
        deciding.policy.hears_polls(worker) || next.is_some_and(|next| next.hears_polls(worker))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use halfwink_live::program::stand_in::StandIn;

    use halfwink_eventlog::{replay_log, replayer, Family, Header, Live, Reader};
    use halfwink_policy::scaling::{Depth, PowerSave, PowerSaveParameters, Scaling};
    use halfwink_policy::Policy;

    use super::*;

    fn power_save() -> ScalingPolicy {
        let parameters = PowerSaveParameters { c_up: 1, ..PowerSaveParameters::published(2, 1) };
        Box::new(PowerSave::new(parameters))
    }

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn clock() -> Clock {
        Clock::start(Rate(1 << 20))
    }

    #[test]
    fn replayed_router_log_gives_equal_actions() {
        let memory = Memory::default();
        let header = Header::new("live router", Family::Scaling, "power-save:c_up=1");
        let (live, log) = Live::to(Box::new(memory.clone()), &header, 100).unwrap();
        let control = Control::new(power_save(), 2, clock(), Some(log));
        let begun = control.pending().len();
        assert_eq!(begun, 1 + 1 + 128, "a P-state, a parked core, a table");
        for waiting in [40, 50, 2, 60] {
            assert_eq!(control.tell(Event::Poll { core: 0, taken: 8, waiting }), None);
        }
        let c1 = Some(Rest::Halt(Depth::C1));
        assert_eq!(control.tell(Event::Empty { core: 0 }), c1);
        assert_eq!(control.timer(), None);
        assert!(control.is_waiting());
        assert!(control.pending().contains(&Action::Wake { core: 1 }));
        assert!(!control.is_waiting());
        assert_eq!(live.end().unwrap().lines, 6);
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        let replayed = |text: &str| {
            let log = Reader::new("log", text.as_bytes());
            replay_log(log, |_, _| Ok(replayer(power_save()))).unwrap()
        };
        let report = replayed(&text);
        assert_eq!((report.lines, report.first_difference), (6, None), "{text}");
        let forged = text.replacen("\"waiting\":50", "\"waiting\":1", 1);
        let line = replayed(&forged).first_difference.map(|found| found.line);
        assert_eq!(line, Some(4), "header, start, two polls");
    }

    /// A policy that answers so often, and then fails.
    struct Failing {
        answers: u32,
        asked: Option<u8>,
        has_failed: Arc<AtomicBool>,
    }

    impl Policy for Failing {
        type Event = Event;
        type Action = Action;

        fn on_event(&mut self, _now: Time, event: &Event) {
            let &Event::Empty { core } = event else { return };
            if self.answers == 0 {
                self.has_failed.store(true, Ordering::Relaxed);
                return;
            }
            self.answers -= 1;
            self.asked = Some(core);
        }

        fn on_timer(&mut self, _now: Time) {}

        fn next_timer(&self) -> Option<Time> {
            None
        }

        fn poll_action(&mut self) -> Option<Action> {
            self.asked.take().map(|core| Action::Rest { core, rest: Rest::Spin })
        }

        fn snapshot(&self) -> Snapshot {
            Vec::new()
        }
    }

    impl Scaling for Failing {}

    #[test]
    fn another_policy_answers_the_very_question_at_which_one_fails() {
        let memory = Memory::default();
        let header = Header::new("live router", Family::Scaling, "failing");
        let (live, log) = Live::to(Box::new(memory.clone()), &header, 100).unwrap();
        let has_failed = Arc::<AtomicBool>::default();
        let failing = Failing { answers: 1, asked: None, has_failed: has_failed.clone() };
        let fault = move || has_failed.load(Ordering::Relaxed).then(|| "it trapped".to_owned());
        let next = Header::new("live router", Family::Scaling, "power-save:c_up=1");
        let stand_in = StandIn::new(fault, "power-save", (power_save(), next));
        let deciding = Deciding { policy: Box::new(failing) as _, stand_in: Some(stand_in) };
        let control = Control::new(deciding, 2, clock(), Some(log));
        let ask = || control.tell(Event::Empty { core: 0 });
        assert_eq!((ask(), control.pending().len()), (Some(Rest::Spin), 0));
        assert_eq!(control.faults(), PolicyFaults::default());
        assert_eq!(ask(), Some(Rest::Halt(Depth::C1)), "what power-save answers");
        assert!(control.is_waiting());
        begins_in_the_middle_of_traffic(&control.pending().into());
        assert_eq!(control.faults().policy_faults, 1);
        assert_eq!(control.faults().policy_fault.as_deref(), Some("it trapped"));
        assert_eq!(ask(), Some(Rest::Halt(Depth::C1)));
        assert_eq!(control.faults().policy_faults, 1);
        drop(control);
        live.end().unwrap();
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        let names: Vec<bool> = text.lines().map(|line| line.contains("\"technique\"")).collect();
        // Header, an answer, none, header, start, two answers, footer.
        assert_eq!(names, [true, false, false, true, false, false, false, false], "{text}");
    }

    /// Checks what `power-save` of two cores begins with where frames wait.
    fn begins_in_the_middle_of_traffic(pending: &Vec<Action>) {
        assert_eq!(pending[..2], [0, 1].map(|core| Action::Wake { core }));
        assert_eq!(pending.len(), 2 + 1 + 1 + 128, "a P-state, a parked core, a table");
        assert_eq!(pending[3], Action::Park { core: 1 });
        let waits = |action: &Action| matches!(action, Action::Move { to: 0, in_order: true, .. });
        assert!(pending[4..].iter().all(waits), "{pending:?}");
    }

    #[test]
    fn a_policy_of_a_new_description_is_told_what_it_asks_for() {
        let failing = Failing { answers: 1, asked: None, has_failed: Arc::default() };
        let control = Control::new(Box::new(failing) as ScalingPolicy, 2, clock(), None);
        assert_eq!((control.hears_polls(0), control.pending().len()), (false, 0));
        let header = Header::new("live router", Family::Scaling, "power-save");
        control.replace(power_save().into(), header);
        assert!(control.is_waiting() && control.hears_polls(0));
        begins_in_the_middle_of_traffic(&control.pending().into());
        assert_eq!(control.tell(Event::Empty { core: 0 }), Some(Rest::Halt(Depth::C1)));
    }

    /// A policy whose timer is due every millisecond from the first on.
    struct Ticker(Time);

    impl Policy for Ticker {
        type Event = Event;
        type Action = Action;

        fn on_event(&mut self, _now: Time, _event: &Event) {}

        fn on_timer(&mut self, now: Time) {
            self.0 = Time(now.0 + 1_000_000_000);
        }

        fn next_timer(&self) -> Option<Time> {
            Some(self.0)
        }

        fn poll_action(&mut self) -> Option<Action> {
            None
        }

        fn snapshot(&self) -> Snapshot {
            Vec::new()
        }
    }

    impl Scaling for Ticker {}

    #[test]
    fn a_timer_rings_when_it_is_due_and_says_when_it_is_next() {
        let ticker: ScalingPolicy = Box::new(Ticker(Time::ZERO));
        let control = Control::new(ticker, 1, clock(), None);
        let before = control.clock().now();
        let next = control.timer().unwrap();
        assert!(next > before && next > control.clock().now().min(next), "{next}");
        assert_eq!(control.snapshot(), (Vec::new(), 0));
    }
}

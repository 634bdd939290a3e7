//! A machine that does what it is asked, in any order of what happens to it, and checks that what
//! it is asked is possible. For property tests, and for fuzzing.

use std::collections::{BTreeMap, BTreeSet};

use halfwink_policy::preheat::{Action, Event, PreheatPolicy, SetId};
use halfwink_policy::Policy;
use halfwink_units::{LineAddr, Time};

/// Something happens.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A request is announced, so many microseconds ahead.
    Announce {
        /// Of this service.
        service: u16,
        /// Microseconds.
        lead: u16,
    },
    /// A packet comes.
    Arrive(u16),
    /// Nothing runs.
    Idle,
    /// Caches are lost.
    Lose,
    /// The dump that was asked for is there, of so many lines.
    Dump(u32),
    /// The set that was asked for longest is there, of so many lines.
    Build(u32),
    /// A load is over.
    Finish,
    /// A socket is closed.
    Close(u16),
    /// An access misses.
    Miss {
        /// Its line.
        line: u64,
        /// Its instruction.
        site: u64,
    },
    /// A packet is in the network card.
    Receive(u16),
    /// Time passes, in microseconds.
    Pass(u16),
}

/// The machine.
pub struct World {
    policy: PreheatPolicy,
    now: Time,
    /// Whose window is open.
    window: Option<u16>,
    /// Dumps that were asked for, and whether their services run since.
    dumps: Vec<(u16, bool)>,
    /// Dumps that it keeps, likewise.
    kept: BTreeMap<SetId, bool>,
    next_set: u32,
    /// Dumps of each estimate.
    estimates: BTreeMap<u16, u32>,
    building: Vec<u16>,
    built: BTreeSet<u16>,
    loading: Vec<u16>,
    recording: BTreeSet<u16>,
    /// All that was asked for.
    pub log: Vec<(Time, Action)>,
}

impl World {
    /// Where nothing happened.
    pub fn new(policy: PreheatPolicy) -> World {
        World {
            policy,
            now: Time::ZERO,
            window: None,
            dumps: Vec::new(),
            kept: BTreeMap::new(),
            next_set: 0,
            estimates: BTreeMap::new(),
            building: Vec::new(),
            built: BTreeSet::new(),
            loading: Vec::new(),
            recording: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    fn tell(&mut self, event: Event) {
        self.policy.on_event(self.now, &event);
        self.take(Some(event));
    }

    fn take(&mut self, event: Option<Event>) {
        while let Some(action) = self.policy.poll_action() {
            self.log.push((self.now, action));
            self.act(action, event);
        }
        assert!(self.kept.is_empty(), "of each dump it is said at once what becomes of it");
    }

    fn act(&mut self, action: Action, event: Option<Event>) {
        match action {
            Action::Wake => {}
            Action::Estimate { service } => {
                assert_eq!(self.window.replace(service), None, "one window at a time");
                assert!(self.dumps.is_empty(), "the last window's dump is there");
            }
            Action::Dump { service } => {
                assert_eq!(self.window.take(), Some(service), "its window is open");
                self.dumps.push((service, true));
            }
            Action::Abandon { service } => {
                assert_eq!(self.window.take(), Some(service), "its window is open");
            }
            Action::Intersect { service, set } | Action::Unite { service, set } => {
                assert_eq!(self.kept.remove(&set), Some(true), "the dump is there, and of use");
                *self.estimates.entry(service).or_default() += 1;
            }
            Action::Discard { set } => {
                self.kept.remove(&set).expect("the dump is there");
            }
            Action::Subtract { service } => {
                assert!(self.estimates.contains_key(&service), "there is something to take from");
                assert!(self.window != Some(service), "its training is over");
                self.building.push(service);
            }
            Action::Build { service } => {
                let something = self.estimates.contains_key(&service);
                assert!(self.recording.remove(&service) || something, "there is something");
                self.building.push(service);
            }
            Action::Load { service, until, .. } => {
                assert!(self.built.contains(&service), "there is a set");
                assert!(!self.loading.contains(&service), "it is not being loaded");
                assert!(until.is_none_or(|until| until > self.now), "it is not cut at once");
                self.loading.push(service);
            }
            Action::Sham { service } => {
                assert!(!self.loading.contains(&service), "one at a time");
                self.loading.push(service);
            }
            Action::Stop { service } | Action::Hold { service } => {
                assert!(self.loading.contains(&service), "it is being loaded");
                assert!(matches!(event, Some(Event::Arrived { .. })), "of a packet");
            }
            Action::Forget { service } => self.forget(service),
            Action::Record { service, .. } => {
                assert!(self.recording.insert(service), "it is not being recorded");
            }
            Action::Fetch { lines, .. } => assert!(lines > 0),
            Action::Place { lines, .. } => {
                let Some(Event::Received { lines: most, .. }) = event else {
                    panic!("there is no packet");
                };
                assert!((1..=most).contains(&lines));
            }
        }
    }

    fn forget(&mut self, service: u16) {
        self.estimates.remove(&service);
        let dumps = self.dumps.iter_mut().filter(|(dumped, _)| *dumped == service);
        dumps.for_each(|(_, runs)| *runs = false);
        self.built.remove(&service);
        self.recording.remove(&service);
        self.building.retain(|&building| building != service);
        self.loading.retain(|&loading| loading != service);
    }

    fn pass(&mut self, until: Time) {
        while let Some(at) = self.policy.next_timer().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.policy.on_timer(self.now);
            self.take(None);
            let next = self.policy.next_timer();
            assert!(next.is_none_or(|next| next > self.now), "a timer rings once");
        }
        self.now = until;
    }

    /// It happens.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Announce { service, lead } => {
                let due = self.now + Time::ns(1_000 * u64::from(lead));
                self.tell(Event::Announced { service, due });
            }
            Step::Arrive(port) => self.tell(Event::Arrived { port }),
            Step::Idle => self.tell(Event::Idle),
            Step::Lose => self.tell(Event::Lost),
            Step::Dump(lines) => {
                let Some((service, runs)) = self.dumps.pop() else { return };
                let set = SetId(self.next_set);
                self.next_set += 1;
                self.kept.insert(set, runs);
                self.tell(Event::Dumped { service, set, lines });
            }
            Step::Build(lines) => {
                if self.building.is_empty() {
                    return;
                }
                let service = self.building.remove(0);
                self.built.insert(service);
                self.tell(Event::Built { service, lines });
            }
            Step::Finish => {
                if let Some(service) = self.loading.pop() {
                    self.tell(Event::Loaded { service });
                }
            }
            Step::Close(port) => self.tell(Event::Closed { port }),
            Step::Miss { line, site } => {
                self.tell(Event::Missed { line: LineAddr(line), site, is_code: site % 2 == 0 });
            }
            Step::Receive(lines) => {
                self.tell(Event::Received { first: LineAddr(1 << 30), lines });
            }
            Step::Pass(us) => self.pass(self.now + Time::ns(1_000 * u64::from(us))),
        }
    }

    /// After all of it: what was asked for comes, and nothing is left open.
    pub fn end(mut self) -> Vec<(Time, Action)> {
        self.pass(self.now + Time::ns(1_000_000_000));
        assert_eq!(self.window, None, "every window ends");
        for _ in 0..100 {
            self.step(Step::Dump(1));
            self.step(Step::Build(1));
            self.step(Step::Finish);
        }
        self.pass(self.now + Time::ns(1_000_000_000));
        assert_eq!(self.policy.next_timer(), None, "nothing is announced: nothing wakes");
        self.log
    }
}

/// Plays steps.
pub fn play(policy: PreheatPolicy, steps: impl IntoIterator<Item = Step>) -> Vec<(Time, Action)> {
    let mut world = World::new(policy);
    steps.into_iter().for_each(|step| world.step(step));
    world.end()
}

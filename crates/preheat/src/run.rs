//! A run: requests come, the machine sleeps between them, and its policy prepares it for them.

use std::collections::{HashMap, VecDeque};

use halfwink_engine::confidence::Pieces;
use halfwink_engine::draw::exponential;
use halfwink_engine::{stream, Class, EventQueue, RunControl, State, Stream};
use halfwink_policy::preheat::{Action, Event, Hears, LineSet, PreheatPolicy};
use halfwink_policy::Host;
use halfwink_units::{Energy, Power, Time};
use rand::RngExt;

use crate::books::{idle, kernel, request, Books, Doing};
use crate::loader::Loaded;
use crate::node::Node;
use crate::spec::Spec;
use crate::traffic::{Run, RunError, Tally, Traffic};
use crate::working_set::Touch;

#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Announced {
        service: usize,
        due: Time,
        is_false: bool,
    },
    Arrived {
        service: usize,
    },
    Awake,
    /// Goes to sleep, unless another event came between.
    Sleeps(u64),
    Asleep,
    /// Core 0 is done with what it does.
    Done,
    Loaded(u64),
    /// There was nothing to load.
    NothingLoaded(u16),
    Built {
        service: u16,
        lines: u32,
    },
    Restarts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    On,
    GoingDown,
    Asleep,
    Waking,
}

/// Work of core 0.
#[derive(Clone, Debug)]
pub(crate) enum Busy {
    Serving { arrived: Time, rest: Time },
    Sham(u16),
    Dumping { service: u16, subtract: bool },
}

pub(crate) struct Waiting {
    pub(crate) arrived: Time,
    pub(crate) service: usize,
    pub(crate) touches: Vec<Touch>,
}

pub(crate) struct Load {
    pub(crate) service: u16,
    pub(crate) number: u64,
    pub(crate) loaded: Loaded,
    pub(crate) cores: usize,
    pub(crate) begin: Time,
}

pub(crate) struct Sim<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) node: Node<'a>,
    pub(crate) host: Host<PreheatPolicy>,
    pub(crate) hears: Hears,
    pub(crate) queue: EventQueue<Happening>,
    pub(crate) now: Time,
    pub(crate) machine: Machine,
    pub(crate) busy: Option<Busy>,
    pub(crate) waiting: VecDeque<Waiting>,
    /// Actions that were requested while the machine was not on.
    pub(crate) deferred: VecDeque<Action>,
    pub(crate) announced: Vec<usize>,
    pub(crate) load: Option<Load>,
    pub(crate) held: Vec<u16>,
    pub(crate) window: Option<u16>,
    pub(crate) dumps: HashMap<u32, LineSet>,
    pub(crate) estimates: HashMap<u16, LineSet>,
    pub(crate) built: HashMap<u16, LineSet>,
    pub(crate) recordings: HashMap<u16, crate::actions::Recording>,
    /// Lines of the last request of each service, in the order of first use.
    pub(crate) first_use: HashMap<u16, Vec<u64>>,
    pub(crate) books: Books,
    pub(crate) tally: Tally,
    pub(crate) is_cold: bool,
    /// Due time of the last announced request, and of the last one that the policy woke for.
    pub(crate) due: Time,
    pub(crate) expected: Time,
    /// Sleeps, loads and dumps so far.
    pub(crate) numbers: [u64; 3],
    traffic: &'a Traffic,
    arrivals: Stream,
    choices: Stream,
    arrived: u64,
    finished: u64,
    pieces: Pieces,
}

/// Components behind the cores.
pub(crate) fn llc(spec: &Spec) -> usize {
    spec.core.cores as usize
}

pub(crate) fn memory(spec: &Spec) -> usize {
    spec.core.cores as usize + 1
}

pub(crate) fn us(us: f64) -> Time {
    Time::from_ns(1e3 * us)
}

pub(crate) const IDLE: Doing = (State("idle"), idle("no-request"));
pub(crate) const ASLEEP: Doing = (State("asleep"), idle("no-request"));

/// Plays traffic against a node under a policy.
///
/// # Errors
/// If it is stopped, the books do not balance, or the policy leaves requests unserved.
pub fn simulate(
    spec: &Spec,
    traffic: &Traffic,
    policy: PreheatPolicy,
    hears: Hears,
    control: &RunControl,
) -> Result<Run, RunError> {
    let cores = spec.core.cores as usize;
    let names = (0..cores).map(|n| format!("core{n}"));
    let names = names.chain(["llc".to_owned(), "memory".to_owned()]);
    let mut sim = Sim {
        spec,
        node: Node::new(spec, traffic.seed),
        host: Host::new(policy),
        hears,
        queue: EventQueue::new(),
        now: Time::ZERO,
        machine: Machine::On,
        busy: None,
        waiting: VecDeque::new(),
        deferred: VecDeque::new(),
        announced: Vec::new(),
        load: None,
        held: Vec::new(),
        window: None,
        dumps: HashMap::new(),
        estimates: HashMap::new(),
        built: HashMap::new(),
        recordings: HashMap::new(),
        first_use: HashMap::new(),
        books: Books::new(names, Power::from_w(0.0), IDLE),
        tally: Tally::default(),
        is_cold: true,
        due: Time::ZERO,
        expected: Time::ZERO,
        numbers: [0; 3],
        traffic,
        arrivals: stream(traffic.seed, "arrivals"),
        choices: stream(traffic.seed, "choices"),
        arrived: 0,
        finished: 0,
        pieces: Pieces::default(),
    };
    sim.turn_on();
    sim.ask_policy(None);
    // The first request comes after a whole lead, so that it can be announced as all others.
    sim.come_next(traffic.lead);
    if traffic.restart_after > 0 {
        let at = traffic.restart_after as f64 / traffic.rate;
        sim.queue.push(Time::from_ns(1e9 * at), Class(0), Happening::Restarts);
    }
    sim.play(control)?;
    let end = sim.now;
    if let Some(mut load) = sim.load.take() {
        load.loaded.cut(end);
        sim.account(&load);
    }
    // Core 0 may still read tags when the last request was answered.
    let end = end.max(sim.books.latest());
    let books = sim.books.close(end)?;
    let pieces = sim.pieces.finish(sim.finished, end, books.energy_where(|_| true));
    Ok(Run { books, tally: sim.tally, pieces })
}

impl Sim<'_> {
    fn play(&mut self, control: &RunControl) -> Result<(), RunError> {
        let mut events = 0u64;
        while self.finished < self.traffic.requests {
            events += 1;
            if events.is_multiple_of(64) {
                control.report(self.finished)?;
            }
            let (due, next) = (self.host.due(), self.queue.next_time());
            // The policy's timer comes after events of the same time: what has arrived may change
            // what it does when it rings.
            if due < next.unwrap_or(Time::NEVER) {
                self.now = due;
                self.host.expire(due).map_err(RunError::Stuck)?;
                self.take_actions();
                self.go_on();
                continue;
            }
            // Arrivals end with the traffic. Nothing to come and requests left mean that the
            // policy holds them and waits for nothing.
            let Some((at, happening)) = self.queue.pop() else {
                return Err(RunError::Unserved(self.waiting.len()));
            };
            debug_assert!(at >= self.now, "events come in the order of time");
            self.now = at;
            self.happen(happening);
            self.go_on();
        }
        Ok(())
    }

    /// Tells the policy, and does what it asks.
    pub(crate) fn ask_policy(&mut self, event: Option<Event>) {
        if let Some(event) = event {
            self.host.notify(self.now, &event);
        }
        self.take_actions();
    }

    fn take_actions(&mut self) {
        // All actions are taken before the first is done: doing one may notify the policy again,
        // and a host takes no event while actions are left.
        let mut actions = Vec::new();
        while let Some(action) = self.host.next_action() {
            actions.push(action);
        }
        for action in actions {
            self.act(action);
        }
    }

    fn service_of(&mut self) -> usize {
        let services = &self.traffic.services;
        let total: f64 = services.iter().map(|(_, share)| share).sum();
        let mut at = self.choices.random::<f64>() * total;
        for &(service, share) in services {
            at -= share;
            if at < 0.0 {
                return service;
            }
        }
        services.last().map_or(0, |(service, _)| *service)
    }

    /// The next request, and who announces it.
    fn come_next(&mut self, after: Time) {
        if self.arrived >= self.traffic.requests {
            return;
        }
        self.arrived += 1;
        // Arrivals have a random stream of their own: the choices of services and losses do not
        // shift them.
        let gap = Time::from_ns(1e9 / self.traffic.rate * exponential(&mut self.arrivals));
        let at = self.now + gap.max(after);
        let service = self.service_of();
        // A request that comes sooner than the lead is announced at once, with what lead is left.
        let announce = at.saturating_sub(self.traffic.lead).max(self.now);
        if self.choices.random::<f64>() >= self.traffic.lost {
            let announced = Happening::Announced { service, due: at, is_false: false };
            self.queue.push(announce, Class(1), announced);
        } else {
            self.tally.unannounced += 1;
        }
        if self.choices.random::<f64>() < self.traffic.false_alarms {
            let (service, late) = (self.service_of(), self.choices.random::<f64>());
            let at = self.now + Time::from_ns(gap.as_ns() * late);
            let due = at + self.traffic.lead;
            self.queue.push(at, Class(1), Happening::Announced { service, due, is_false: true });
        }
        self.queue.push(at, Class(2), Happening::Arrived { service });
    }

    fn port(&self, service: usize) -> u16 {
        self.spec.services.values().nth(service).map_or(0, |s| s.port)
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Announced { service, due, is_false } => {
                self.tally.false_alarms += u64::from(is_false);
                self.announced.push(service);
                self.due = due;
                if self.machine == Machine::On {
                    self.hear_announcements();
                }
                let service = self.port(service);
                self.ask_policy(Some(Event::Announced { service, due }));
            }
            Happening::Arrived { service } => self.arrive(service),
            Happening::Awake => self.wake(),
            Happening::Sleeps(number) => self.sleep(number),
            Happening::Asleep => self.asleep(),
            Happening::Done => self.done(),
            Happening::Loaded(number) => self.loaded(number),
            Happening::NothingLoaded(service) => {
                self.held.retain(|&held| held != service);
                self.ask_policy(Some(Event::Loaded { service }));
            }
            Happening::Built { service, lines } => {
                self.ask_policy(Some(Event::Built { service, lines }));
            }
            Happening::Restarts => {
                for &(service, _) in &self.traffic.services {
                    self.node.sets.restart(service);
                    let port = self.port(service);
                    if self.hears.restarts {
                        self.ask_policy(Some(Event::Closed { port }));
                    }
                }
            }
        }
    }

    /// Announcements that came while the machine slept are heard when it is on.
    pub(crate) fn hear_announcements(&mut self) {
        for service in std::mem::take(&mut self.announced) {
            self.node.announce(service);
        }
    }

    fn arrive(&mut self, service: usize) {
        self.come_next(Time::ZERO);
        let port = self.port(service);
        self.tally.after_sleep += u64::from(self.is_cold);
        let mut touches = Vec::new();
        self.node.sets.request(service, &mut touches);
        if self.hears.packets {
            self.receive(&touches);
        }
        self.waiting.push_back(Waiting { arrived: self.now, service, touches });
        self.ask_policy(Some(Event::Arrived { port }));
        if self.machine == Machine::Asleep {
            self.begin_to_wake();
        }
    }

    /// Energy of lines that memory reads or writes.
    pub(crate) fn charge_lines(&mut self, doing: Doing, lines: u64, write: bool) {
        let energy = self.node.line_energy(write);
        self.books.event(memory(self.spec), doing, Energy::from_pj(energy * lines as f64));
    }

    /// Serves a waiting request, if the machine is on and free.
    fn go_on(&mut self) {
        self.catch_up();
        if self.machine != Machine::On || self.busy.is_some() {
            return;
        }
        // A request whose service is held waits for its load; those behind it need not.
        let free = |w: &Waiting| !self.held.contains(&self.port(w.service));
        let Some(first) = self.waiting.iter().position(free) else { return };
        let Some(next) = self.waiting.remove(first) else { return };
        self.serve(next);
    }

    /// Core 0 does something for so long, of which it waits for memory for a part.
    pub(crate) fn keep_busy(&mut self, busy: Busy, span: Time, stalled: Time) {
        let power = &self.spec.power;
        let (active, wait) = match busy {
            Busy::Serving { .. } => ((State("active"), request("service")), request("miss")),
            Busy::Sham(_) => ((State("active"), kernel("sham")), kernel("sham")),
            Busy::Dumping { .. } => ((State("active"), kernel("dump")), kernel("dump")),
        };
        debug_assert!(self.busy.is_none(), "core 0 does one thing at a time");
        let stalled = stalled.min(span);
        self.books.turn(0, self.now, Power::from_w(power.core_active_w), active);
        let until = self.now + span;
        let stalled_w = Power::from_w(power.core_stalled_w);
        self.books.turn(0, until.saturating_sub(stalled), stalled_w, (State("stalled"), wait));
        self.books.turn(0, until, Power::from_w(power.core_idle_w), IDLE);
        self.busy = Some(busy);
        self.queue.push(until, Class(0), Happening::Done);
    }

    fn done(&mut self) {
        match self.busy.take() {
            Some(Busy::Serving { arrived, rest }) => {
                self.tally.latency.record(self.now.saturating_sub(arrived) + rest);
                self.finished += 1;
                if self.pieces.is_due(self.finished) {
                    self.pieces.end(self.finished, self.now, self.books.energy(self.now));
                }
            }
            Some(Busy::Sham(service)) => {
                self.held.retain(|&held| held != service);
                self.ask_policy(Some(Event::Loaded { service }));
            }
            Some(Busy::Dumping { service, subtract }) => self.dumped(service, subtract),
            None => {}
        }
        // A held request keeps the machine up: it waits, although no core works.
        if self.busy.is_none() && self.waiting.is_empty() {
            self.ask_policy(Some(Event::Idle));
            self.rest();
        }
    }

    pub(crate) fn note_misses(&mut self, missed: u64) {
        // By halves, to see whether estimates still get better or drift.
        let half = usize::from(2 * self.finished >= self.traffic.requests);
        self.tally.missed_by_half[half] += missed;
    }
}

//! What a policy asks for, done.

use halfwink_engine::State;
use halfwink_policy::preheat::{Action, Event, LineSet, Order, Recorded, SetId};
use halfwink_policy::Host;
use halfwink_units::{LineAddr, Power, Time};

use crate::books::{kernel, request};
use crate::node::{Flush, Misses, Served};
use crate::run::{Busy, Happening, Load, Machine, Sim, Waiting};
use crate::spec::ListOrder;
use crate::working_set::{Touch, PAGE_LINES};
use halfwink_engine::Class;

/// Lines that were recorded, in the order of their use.
pub(crate) struct Recording {
    what: Recorded,
    lines: Vec<u64>,
}

/// Tells a policy of misses while a request runs.
struct Heard<'a> {
    host: &'a mut Host<halfwink_policy::preheat::PreheatPolicy>,
    begin: Time,
    is_told: bool,
    recording: Option<&'a mut Recording>,
}

impl Misses for Heard<'_> {
    fn missed(&mut self, now: Time, line: u64, fetch: &mut Vec<u64>) {
        if let Some(recording) = &mut self.recording {
            recording.lines.push(line);
        }
        if !self.is_told {
            return;
        }
        // The world has no instructions: a page stands for what runs through it.
        let site = line / PAGE_LINES;
        let missed = Event::Missed { line: LineAddr(line), site, is_code: false };
        self.host.deliver(self.begin + now, &missed, |_, action| {
            if let Action::Fetch { first, lines } = action {
                fetch.extend((0..u64::from(lines)).map(|n| first.0 + n));
            }
        });
    }
}

impl Sim<'_> {
    pub(crate) fn act(&mut self, action: Action) {
        let is_on = self.machine == Machine::On;
        if action == Action::Wake {
            // Who wakes for a request does not sleep before it came.
            self.expected = self.expected.max(self.due);
        }
        match action {
            Action::Wake if self.machine == Machine::Asleep => self.begin_to_wake(),
            // One that goes down cannot turn back: it wakes when it is down.
            Action::Wake if self.machine == Machine::GoingDown => self.deferred.push_back(action),
            Action::Wake => {}
            Action::Hold { service } => {
                if self.load.as_ref().is_some_and(|load| load.service == service)
                    || self.is_deferred(service)
                {
                    self.held.push(service);
                    self.tally.held += 1;
                }
            }
            Action::Stop { service } => self.stop(service),
            Action::Forget { service } => self.forget(service),
            Action::Intersect { service, set } => self.combine(service, set, LineSet::intersect),
            Action::Unite { service, set } => self.combine(service, set, LineSet::union),
            Action::Discard { set } => {
                self.dumps.remove(&set.0);
            }
            Action::Record { service, what } => {
                self.recordings.insert(service, Recording { what, lines: Vec::new() });
            }
            Action::Abandon { service } => {
                if self.window == Some(service) {
                    self.window = None;
                    self.node.prefetches = true;
                }
            }
            Action::Fetch { first, lines } => {
                (0..u64::from(lines)).for_each(|n| {
                    self.node.fill(first.0 + n);
                });
            }
            // Answers to packets are taken where they come in.
            Action::Place { .. } => {}
            // What needs a core or a machine that is up waits for it, in the order of asking.
            _ if !is_on || self.busy.is_some() && needs_core(action) => {
                self.deferred.push_back(action);
            }
            Action::Estimate { service } => {
                self.node.prefetches = false;
                let lines = self.node.flush(Flush::CACHES);
                // The flush writes dirty lines back: that energy is the estimate's, whoever wrote
                // them.
                self.charge_lines((State("writing"), kernel("estimate")), lines, true);
                self.is_cold = true;
                self.window = Some(service);
            }
            Action::Dump { service } => self.dump(service, false),
            Action::Subtract { service } => self.dump(service, true),
            Action::Build { service } => self.build(service),
            Action::Load { service, until, cores, order } => {
                self.begin_load(service, until, cores, order);
            }
            Action::Sham { service } => self.sham(service),
        }
    }

    fn is_deferred(&self, service: u16) -> bool {
        self.deferred.iter().any(|action| match action {
            Action::Load { service: of, .. } | Action::Sham { service: of } => *of == service,
            _ => false,
        }) || matches!(self.busy, Some(Busy::Sham(of)) if of == service)
    }

    fn combine(&mut self, id: u16, set: SetId, how: fn(&LineSet, &LineSet) -> LineSet) {
        let Some(dump) = self.dumps.remove(&set.0) else { return };
        let estimate = match self.estimates.remove(&id) {
            Some(old) => how(&old, &dump),
            None => dump,
        };
        self.estimates.insert(id, estimate);
    }

    fn forget(&mut self, service: u16) {
        self.estimates.remove(&service);
        self.built.remove(&service);
        self.recordings.remove(&service);
        if self.load.as_ref().is_some_and(|load| load.service == service) {
            self.stop(service);
        }
    }

    /// Reads all tags, which core 0 does.
    fn dump(&mut self, service: u16, subtract: bool) {
        let span = Time::from_ns(self.spec.estimate.tag_ns * self.node.cache.capacity() as f64);
        self.tally.dumps += 1;
        self.keep_busy(Busy::Dumping { service, subtract }, span, Time::ZERO);
    }

    /// All tags were read.
    pub(crate) fn dumped(&mut self, service: u16, subtract: bool) {
        let set = self.node.dump();
        if subtract {
            let rest = self.estimates.get(&service).map(|e| e.subtract(&set));
            self.estimates.insert(service, rest.unwrap_or_default());
            return self.build(service);
        }
        self.window = None;
        self.node.prefetches = true;
        self.numbers[2] += 1;
        let (id, lines) = (self.numbers[2] as u32, set.len() as u32);
        self.dumps.insert(id, set);
        self.ask_policy(Some(Event::Dumped { service, set: SetId(id), lines }));
    }

    fn build(&mut self, service: u16) {
        let set = match self.recordings.remove(&service) {
            Some(Recording { what: Recorded::Pages, lines }) => {
                let page = |line: u64| line / PAGE_LINES * PAGE_LINES;
                let whole = |line| (0..PAGE_LINES).map(move |n| page(line) + n);
                LineSet::from_unsorted(lines.into_iter().flat_map(whole).collect())
            }
            Some(Recording { lines, .. }) => {
                self.first_use.insert(service, lines.clone());
                LineSet::from_unsorted(lines)
            }
            None => self.estimates.get(&service).cloned().unwrap_or_default(),
        };
        let lines = set.len() as u32;
        self.built.insert(service, set);
        self.queue.push(self.now, Class(0), Happening::Built { service, lines });
    }

    fn begin_load(&mut self, service: u16, until: Option<Time>, cores: u8, order: Order) {
        let Some(set) = self.built.get(&service).filter(|_| self.load.is_none()) else {
            return self.queue.push(self.now, Class(0), Happening::NothingLoaded(service));
        };
        let order = match order {
            Order::Address => ListOrder::Address,
            Order::FirstUse => ListOrder::FirstUse,
            Order::Tags => ListOrder::Set,
        };
        let none = Vec::new();
        let first_use = self.first_use.get(&service).unwrap_or(&none);
        let run_lengths = self.spec.loader.run_lengths;
        let words = self.node.words(set, order, run_lengths, first_use);
        let mut loaded = self.node.plan(&words, u32::from(cores), self.now);
        if let Some(until) = until.filter(|until| *until < loaded.end) {
            loaded.cut(until);
        }
        self.numbers[1] += 1;
        let number = self.numbers[1];
        self.tally.loads += 1;
        self.tally.lines += loaded.arrived.len() as u64;
        self.tally.load_time += loaded.end.saturating_sub(self.now);
        self.tally.load_core_time += loaded.core_time;
        let cores = usize::from(cores.max(1)).min(self.spec.core.cores as usize);
        self.queue.push(loaded.end.max(self.now), Class(0), Happening::Loaded(number));
        self.load = Some(Load { service, number, loaded, cores, begin: self.now });
    }

    /// Posts the times and powers of the cores in a load: the server's core excepted, up to the
    /// number of cores.
    pub(crate) fn account(&mut self, load: &Load) {
        let power = &self.spec.power;
        let (end, loaded) = (load.loaded.end.max(load.begin), &load.loaded);
        let share = loaded.waited.as_ns() / loaded.core_time.as_ns().max(1e-9);
        let waits = Time::from_ns((end - load.begin).as_ns() * share.clamp(0.0, 1.0));
        for core in (1..self.spec.core.cores as usize).take(load.cores) {
            let doing = (State("active"), kernel("load"));
            self.books.turn(core, load.begin, Power::from_w(power.core_active_w), doing);
            let doing = (State("stalled"), kernel("load"));
            let stalled = Power::from_w(power.core_stalled_w);
            self.books.turn(core, end.saturating_sub(waits), stalled, doing);
            self.release(core, end);
        }
    }

    fn release(&mut self, core: usize, at: Time) {
        let power = Power::from_w(self.spec.power.core_asleep_w);
        let asleep = (State("asleep"), crate::books::idle("no-request"));
        self.books.turn(core, at, power, asleep);
    }

    pub(crate) fn loaded(&mut self, number: u64) {
        let Some(load) = self.load.take_if(|load| load.number == number) else { return };
        let written = self.node.take(&load.loaded, Time::NEVER);
        let lines = load.loaded.arrived.len() as u64;
        self.charge_lines((State("reading"), kernel("load")), lines, false);
        self.charge_lines((State("writing"), kernel("load")), written, true);
        self.account(&load);
        let service = load.service;
        self.held.retain(|&held| held != service);
        self.ask_policy(Some(Event::Loaded { service }));
        self.rest();
    }

    fn stop(&mut self, service: u16) {
        self.deferred.retain(|action| {
            !matches!(action, Action::Load { service: of, .. } | Action::Sham { service: of }
                if *of == service)
        });
        let Some(load) = self.load.as_mut().filter(|load| load.service == service) else {
            self.held.retain(|&held| held != service);
            return self.queue.push(self.now, Class(0), Happening::NothingLoaded(service));
        };
        load.loaded.cut(self.now);
        let number = load.number;
        self.loaded(number);
    }

    fn sham(&mut self, service: u16) {
        let services = self.spec.services.values();
        let Some(place) = services.clone().position(|s| s.port == service) else {
            return self.queue.push(self.now, Class(0), Happening::NothingLoaded(service));
        };
        let touches = self.node.next_request(place);
        let flushed = self.take_cold();
        let served = self.node.play(place, &touches, flushed, &mut ());
        self.charge(&served, "sham");
        self.tally.shams += 1;
        self.keep_busy(Busy::Sham(service), served.server, served.exposed);
    }

    fn charge(&mut self, served: &Served, reason: &'static str) {
        let cause = if reason == "sham" { kernel("sham") } else { request("miss") };
        self.charge_lines((State("reading"), cause), served.refills, false);
        self.charge_lines((State("writing"), cause), served.written_back, true);
    }

    /// Small structures are cold once after a sleep.
    fn take_cold(&mut self) -> Flush {
        let is_cold = std::mem::take(&mut self.is_cold);
        if is_cold {
            Flush { llc: false, ..Flush::ALL }
        } else {
            Flush::NONE
        }
    }

    pub(crate) fn receive(&mut self, touches: &[Touch]) {
        let packets: Vec<u64> = touches.iter().filter(|t| t.packet).map(|t| t.line).collect();
        let set = LineSet::from_unsorted(packets);
        let runs: Vec<_> = set.runs().collect();
        for run in runs {
            let received = Event::Received { first: LineAddr(run.first), lines: run.lines as u16 };
            self.host.notify(self.now, &received);
            while let Some(action) = self.host.next_action() {
                if let Action::Place { first, lines } = action {
                    // Into a cache that is off nothing can be placed.
                    if self.machine == Machine::On {
                        (0..u64::from(lines)).for_each(|n| {
                            self.node.fill(first.0 + n);
                        });
                    }
                }
            }
        }
    }

    pub(crate) fn serve(&mut self, next: Waiting) {
        let Waiting { arrived, service, touches } = next;
        let flushed = self.take_cold();
        if let Some(load) = &self.load {
            let loaded = &load.loaded;
            self.node.take(loaded, self.now);
            self.node.expect(loaded, self.now);
        }
        let port = self.spec.services.values().nth(service).map_or(0, |s| s.port);
        let recording = self.recordings.get_mut(&port);
        let what = recording.as_ref().map(|r| r.what);
        let is_told = self.hears.misses;
        let mut heard = Heard { host: &mut self.host, begin: self.now, is_told, recording };
        let served = self.node.play(service, &touches, flushed, &mut heard);
        if what == Some(Recorded::Pages) {
            if let Some(recording) = self.recordings.get_mut(&port) {
                recording.lines = touches.iter().map(|t| t.line).collect();
            }
        }
        if self.window.is_some() {
            self.first_use.insert(port, touches.iter().map(|t| t.line).collect());
        }
        self.tally.refills += served.refills;
        self.tally.missed += served.missed;
        self.note_misses(served.missed);
        self.charge(&served, "request");
        let rest = served.response.saturating_sub(served.server);
        self.keep_busy(Busy::Serving { arrived, rest }, served.server, served.exposed);
    }

    /// Core 0 is free: what it was asked for meanwhile.
    pub(crate) fn catch_up(&mut self) {
        while self.machine == Machine::On && self.busy.is_none() {
            let Some(action) = self.deferred.pop_front() else { return };
            self.act(action);
        }
    }
}

/// Returns whether the action runs on the core of the server.
fn needs_core(action: Action) -> bool {
    matches!(action, Action::Dump { .. } | Action::Subtract { .. } | Action::Sham { .. })
}

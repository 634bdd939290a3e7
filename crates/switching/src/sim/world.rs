//! Threads, cores and events.

use halfwink_engine::{Class, EventQueue, RunControl};
use halfwink_policy::offload::OffloadPolicy;
use halfwink_policy::Host;
use halfwink_units::Time;

use super::core::{Account, Core, Ends, Interrupt, Item, Then};
use super::program::{self, Arrival, Step};
use super::random::Draws;
use super::slices::Slices;
use super::{span, CorePolicies, Kernel, RunError};
use crate::model::{Configuration, CoreKind, Model, ModelError};
use crate::profile::{UnitTimes, Where, Workload};

/// Events between two looks at whether the run shall stop.
const EVENTS_BETWEEN_LOOKS: u32 = 1 << 14;

pub(super) enum Event {
    /// Ends the work on a core, unless its generation has changed since.
    End { core: usize, generation: u64 },
    /// A thread arrives on a core.
    Arrive { core: usize, item: Item },
    /// A thread's wait is over.
    Waited { thread: usize },
    /// Delivers an interrupt to a core.
    Interrupt { core: usize, interrupt: Interrupt },
    /// The client asks for its next batch.
    Batch,
    /// A core may power down now, if it has idled since it was told to wait for this.
    Doze { core: usize, generation: u64 },
    /// The clock of a core ticks.
    Tick { core: usize },
}

pub(super) struct Thread {
    /// Core on which it runs in user mode; none if the kernel may choose.
    pub(super) home: Option<usize>,
    /// Core on which it runs, or ran last.
    pub(super) core: usize,
    pub(super) step: usize,
    /// Units whose interrupts are outstanding.
    pub(super) background: u64,
    pub(super) parked: Parked,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parked {
    No,
    /// Waits for a request.
    Request,
    /// Waits until its background work is small enough.
    Background,
}

/// Times of a leg between two cores.
#[derive(Clone, Copy)]
pub(super) struct LegTimes {
    /// Source, gap, target, if the target is powered down.
    pub(super) asleep: [Time; 3],
    /// Source, gap, target, if the target is up.
    pub(super) awake: [Time; 3],
    /// Target, if it is already busy: no interrupt is needed, and no power-up.
    pub(super) target_busy: Time,
}

pub(super) struct World<'a> {
    pub(super) model: &'a Model,
    pub(super) workload: &'a Workload,
    pub(super) kinds: Vec<&'a CoreKind>,
    /// Time of the program's kernel code on each core over that on the reference core.
    pub(super) kernel_factors: Vec<f64>,
    pub(super) apps: usize,
    pub(super) kernel: &'a Kernel,
    pub(super) cores: Vec<Core>,
    pub(super) policies: Vec<Host<OffloadPolicy>>,
    pub(super) threads: Vec<Thread>,
    pub(super) steps: Vec<Step>,
    pub(super) arrival: Arrival,
    pub(super) times: UnitTimes,
    /// Leg times by path (usual, busy), source and target.
    pub(super) legs: [Vec<Vec<LegTimes>>; 2],
    pub(super) line: Time,
    /// Time to power each core up.
    pub(super) power_up: Vec<Time>,
    pub(super) events: EventQueue<Event>,
    pub(super) draws: Draws,
    pub(super) now: Time,
    pub(super) end: Time,
    pub(super) units: u64,
    pub(super) requests: u64,
    pub(super) answered: u64,
    pub(super) wire_free: Time,
    pub(super) interrupts_on: Vec<usize>,
    pub(super) next_interrupt: usize,
    pub(super) made: Vec<u64>,
    pub(super) moved: Vec<u64>,
    pub(super) slices: Slices,
}

fn kinds<'a>(model: &'a Model, configuration: &Configuration) -> Vec<&'a CoreKind> {
    configuration.app.iter().chain(&configuration.os).map(|name| model.kind(name)).collect()
}

fn power_up(model: &Model, kind: &CoreKind) -> Time {
    span(model.spec().mechanism.power_up_cycles / kind.clock_ghz)
}

/// Fresh policies of all cores, application cores first.
///
/// # Errors
/// If there is no such configuration.
pub(super) fn policies(
    model: &Model,
    workload: &Workload,
    configuration: &str,
    kernel: &Kernel,
) -> Result<Vec<CorePolicies>, ModelError> {
    let configuration = model.configuration(configuration)?;
    let kinds = kinds(model, configuration);
    let of = |(n, kind): (usize, &CoreKind)| CorePolicies {
        offload: program::policy(&model.spec().offload, workload, kernel),
        sleep: Core::sleep_policy(model, kind, n >= configuration.app.len(), power_up(model, kind)),
    };
    Ok(kinds.into_iter().enumerate().map(of).collect())
}

impl<'a> World<'a> {
    pub(super) fn new(
        model: &'a Model,
        workload: &'a Workload,
        configuration: &str,
        kernel: &'a Kernel,
        seed: u64,
        policies: Vec<CorePolicies>,
    ) -> Result<World<'a>, RunError> {
        let configuration = model.configuration(configuration)?;
        let kinds = kinds(model, configuration);
        let apps = configuration.app.len();
        let legs = super::calls::legs(model, configuration, &kinds, kernel)?;
        let calls = workload.calls.len();
        let (offload, sleep): (Vec<_>, Vec<_>) =
            policies.into_iter().map(|own| (Host::new(own.offload), own.sleep)).unzip();
        let mut world = World {
            model,
            workload,
            apps,
            kernel,
            cores: kinds
                .iter()
                .zip(sleep)
                .map(|(kind, sleep)| Core::of(model, kind, calls, sleep))
                .collect(),
            power_up: kinds.iter().map(|kind| power_up(model, kind)).collect(),
            policies: offload,
            kernel_factors: model.kernel_factors(workload, configuration),
            kinds,
            threads: Vec::new(),
            steps: program::steps(workload),
            arrival: program::arrival(workload),
            times: workload.times(),
            legs,
            line: span(model.spec().mechanism.line_ns),
            events: EventQueue::new(),
            draws: Draws::new(seed, &workload.name),
            now: Time(0),
            end: span(workload.seconds * 1e9),
            units: 0,
            requests: 0,
            answered: 0,
            wire_free: Time(0),
            interrupts_on: Vec::new(),
            next_interrupt: 0,
            made: vec![0; calls],
            moved: vec![0; calls],
            slices: Slices::new(),
        };
        world.interrupts_on = world.interrupt_cores();
        world.begin();
        Ok(world)
    }

    fn cores_of(&self, place: Where) -> Vec<usize> {
        let (app, all) = (0..self.apps, 0..self.cores.len());
        match place {
            Where::App => app.collect(),
            Where::Os if self.apps < self.cores.len() => (self.apps..self.cores.len()).collect(),
            Where::Os | Where::Any => all.collect(),
        }
    }

    fn interrupt_cores(&self) -> Vec<usize> {
        let place = match self.kernel {
            Kernel::Unmod => self.workload.unmod.interrupts,
            Kernel::Bound | Kernel::Switching(_) => Where::Os,
        };
        self.cores_of(place)
    }

    fn begin(&mut self) {
        let free = *self.kernel == Kernel::Unmod && self.workload.unmod.threads == Where::Any;
        let homes = match self.kernel {
            Kernel::Unmod => self.cores_of(self.workload.unmod.threads),
            Kernel::Bound | Kernel::Switching(_) => self.cores_of(Where::App),
        };
        let batch = self.workload.batch > 0;
        for n in 0..self.workload.threads * self.apps {
            let core = homes[n % homes.len()];
            let parked = if batch { Parked::Request } else { Parked::No };
            let home = (!free).then_some(core);
            self.threads.push(Thread { home, core, step: 0, background: 0, parked });
        }
        if batch {
            self.events.push(Time(0), Class(1), Event::Batch);
        } else {
            (0..self.threads.len()).for_each(|thread| self.wake(thread));
        }
        let tick_hz = self.model.spec().kernel.tick_hz;
        if tick_hz > 0.0 {
            // The clocks of the cores are apart, as on real machines.
            for core in 0..self.cores.len() {
                let share = (core + 1) as f64 / (self.cores.len() + 1) as f64;
                let at = span(share * 1e9 / tick_hz);
                self.events.push(at, Class(0), Event::Tick { core });
            }
        }
    }

    pub(super) fn play(&mut self, control: &RunControl) -> Result<(), RunError> {
        let mut events = 0_u32;
        while let Some((at, event)) = self.events.pop() {
            if events.is_multiple_of(EVENTS_BETWEEN_LOOKS) {
                control.report(0)?;
            }
            events = events.wrapping_add(1);
            if at > self.end {
                break;
            }
            // The event first in time decides: slices that end before it are closed with the
            // accounts as they were then.
            debug_assert!(at >= self.now, "events come in the order of time");
            self.end_slices(at);
            self.now = at;
            match event {
                // An interrupt puts off the end of what runs. The queue cannot take events back,
                // so that an end counts only if its core has begun nothing else since.
                Event::End { core, generation } if self.cores[core].generation == generation => {
                    self.ended(core);
                }
                Event::Doze { core, generation } if self.cores[core].generation == generation => {
                    self.cores[core].book(self.now);
                    self.cores[core].sleep.on_timer(self.now)?;
                }
                Event::End { .. } | Event::Doze { .. } => {}
                Event::Arrive { core, item } => self.enqueue(core, item),
                Event::Waited { thread } => self.waited(thread),
                Event::Interrupt { core, interrupt } => self.interrupt(core, interrupt),
                Event::Batch => self.batch(),
                Event::Tick { core } => self.tick(core),
            }
        }
        self.end_slices(self.end);
        self.now = self.end;
        for core in &mut self.cores {
            core.book(self.end);
            // An idle period that the end cuts is recorded with the length that it had.
            core.end_idle(self.end);
            core.sleep.close(self.end);
        }
        Ok(())
    }

    // Cores.

    fn schedule_end(&mut self, core: usize) {
        if let Some(due) = self.cores[core].due() {
            let generation = self.cores[core].generation;
            self.events.push(self.now + due, Class(1), Event::End { core, generation });
        }
    }

    /// A thread is ready on a core.
    pub(super) fn enqueue(&mut self, core: usize, item: Item) {
        self.threads[item.thread].core = core;
        if !self.cores[core].is_idle() || self.rouse(core) {
            // A core that powers up counts as busy from here, so that what comes meanwhile queues
            // behind.
            self.cores[core].queue.push_back(item);
        } else {
            self.cores[core].start(self.now, item);
            self.schedule_end(core);
        }
    }

    pub(super) fn interrupt(&mut self, core: usize, interrupt: Interrupt) {
        // Handlers run with interrupts off, one after the other.
        if self.cores[core].handling.is_some() {
            self.cores[core].interrupts.push_back(interrupt);
            return;
        }
        self.cores[core].book(self.now);
        if self.cores[core].is_idle() && self.rouse(core) {
            self.cores[core].interrupts.push_back(interrupt);
            return;
        }
        self.cores[core].handle(self.now, interrupt);
        self.schedule_end(core);
    }

    /// Ends the idle period of a core as work arrives; returns true if it powers up first.
    fn rouse(&mut self, core: usize) -> bool {
        let c = &mut self.cores[core];
        c.book(self.now);
        let takes = self.power_up[core];
        // `rouse` first in any case: it tells the policy and closes the time asleep, which a core
        // with a free power-up needs as well.
        if !c.sleep.rouse(self.now) || takes == Time(0) {
            return false;
        }
        // Powering up is played as an interrupt that does nothing else: it delays threads and is
        // never interrupted itself.
        let (account, ends) = (Account::Waking, Ends::Nothing);
        c.handle(self.now, Interrupt { takes, account, ends });
        self.schedule_end(core);
        true
    }

    fn ended(&mut self, core: usize) {
        self.cores[core].book(self.now);
        if let Some(interrupt) = self.cores[core].handling.take() {
            match interrupt.ends {
                Ends::Nothing => {}
                Ends::Wait { thread } => self.wake(thread),
                Ends::Device { thread, core } => self.device_done(thread, core),
                Ends::Request => self.request(),
                Ends::Background { thread } => self.background_done(thread),
            }
            return self.next(core, true);
        }
        if let Some(item) = self.cores[core].running.take() {
            if let Some(more) = self.after(core, item) {
                self.cores[core].start(self.now, more);
                return self.schedule_end(core);
            }
        }
        self.next(core, false);
    }

    /// Chooses the next work of a core after some work has ended that its thread does not continue.
    fn next(&mut self, core: usize, interrupted: bool) {
        let c = &mut self.cores[core];
        if c.handling.is_some() {
            return;
        }
        if let Some(interrupt) = c.interrupts.pop_front() {
            c.handle(self.now, interrupt);
        // The interrupted thread goes on before those that queue: a tick here is no preemption.
        } else if let Some(item) = c.running.take().or_else(|| c.queue.pop_front()) {
            c.start(self.now, item);
        } else {
            c.rest(self.now, interrupted);
            if let Some(at) = c.sleep.next_timer() {
                let generation = c.generation;
                // After everything else of that time: work that arrives at the very end of an idle
                // period still finds the core up.
                self.events.push(at, Class(2), Event::Doze { core, generation });
            }
        }
        self.schedule_end(core);
    }

    // Threads.

    /// Makes a thread ready for its current step, wherever it may run.
    pub(super) fn wake(&mut self, thread: usize) {
        let core = self.threads[thread].home.unwrap_or_else(|| {
            let last = self.threads[thread].core;
            // The least loaded core; the last one among equals, whose caches still hold the
            // thread; then the lowest number, so that runs repeat.
            let load = |&core: &usize| (self.cores[core].load(), core != last, core);
            (0..self.cores.len()).min_by_key(load).unwrap_or(last)
        });
        self.threads[thread].core = core;
        if let Some(item) = self.step(core, thread) {
            self.enqueue(core, item);
        }
    }

    fn after(&mut self, core: usize, item: Item) -> Option<Item> {
        let thread = item.thread;
        match item.then {
            Then::Step => {
                self.threads[thread].step += 1;
                self.step(core, thread)
            }
            Then::Body { call } => Some(self.body(core, thread, call)),
            Then::Return { call } => self.after_body(core, thread, call),
            Then::Leave { to, gap, takes, body } => {
                let then = body.map_or(Then::Step, |call| Then::Body { call });
                let item = Item { thread, left: takes, account: Account::Switch, call: None, then };
                self.events.push(self.now + gap, Class(1), Event::Arrive { core: to, item });
                None
            }
        }
    }

    /// Begins steps until one takes time on this core (then its work) or the thread has to wait.
    pub(super) fn step(&mut self, core: usize, thread: usize) -> Option<Item> {
        loop {
            let Some(&step) = self.steps.get(self.threads[thread].step) else {
                // The program starts over: a unit of work is one pass over its steps.
                self.units += 1;
                self.threads[thread].step = 0;
                if self.workload.batch > 0 && !self.next_request(thread) {
                    return None;
                }
                continue;
            };
            match step {
                Step::User(ns) => {
                    let ns = self.draws.around(ns, self.workload.spread) * self.user_factor(core);
                    let (left, account) = (span(ns), Account::User);
                    return Some(Item { thread, left, account, call: None, then: Then::Step });
                }
                Step::Call { call, .. } => {
                    if self.arrival == Arrival::During(call) && !self.post_background(thread) {
                        return None;
                    }
                    return Some(self.call(core, thread, call));
                }
                Step::Wire => {
                    self.threads[thread].step += 1;
                    if let Some(until) = self.wire() {
                        self.wait(thread, until);
                        return None;
                    }
                }
                Step::Wait(ns) => {
                    let ns = self.draws.around(ns, self.workload.spread);
                    self.threads[thread].step += 1;
                    self.wait(thread, self.now + span(ns));
                    return None;
                }
            }
        }
    }
}

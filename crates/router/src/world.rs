//! The run loop: packets in, poll loops, what the policy asks for.
//!
//! Events are passes of poll loops, not packets: a core that polls takes a batch and is busy until
//! it polls again. Before each pass all packets that arrived until then are in their rings, under
//! the redirect table of their time. So the run is exact to the packet.

use halfwink_engine::{stream, Imbalance, Stream};
use halfwink_policy::scaling::{Action, Depth, Event, RedirectTable, Rest, ScalingPolicy};
use halfwink_policy::Policy;
use halfwink_units::Time;
use rand::RngExt;

use crate::books::{Parts, Run, Slot};
use crate::cpu::{Cpu, Phase};
use crate::latency::Latencies;
use crate::model::{Model, Point};
use crate::power::Watts;
use crate::ring::Packet;
use crate::spec::{App, Look};
use crate::traffic::{Arrivals, Traffic};

const NEVER: u64 = u64::MAX;
/// A core whose first packet must wait for another core looks again after so much, in picoseconds.
const LOOK_AGAIN: u64 = 200_000;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of all random streams.
    pub seed: u64,
    /// Cores and P-state to start with; a policy may change both.
    pub start: Point,
    /// Whether ports batch, as in the evaluation.
    pub batching: bool,
    /// Whether timers and devices wake cores, too.
    pub background: bool,
    /// Whether to count reordering over all packets, which takes memory.
    pub overall_order: bool,
}

impl Options {
    /// All cores at full speed.
    #[must_use]
    pub fn all_cores(model: &Model, seed: u64) -> Options {
        Options {
            seed,
            start: model.fastest(),
            batching: false,
            background: false,
            overall_order: false,
        }
    }
}

/// A moved entry: what came to `to` after `at` waits for what came to `from` before.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    from: usize,
    to: usize,
    until: u64,
    at: u64,
}

/// The last packet of a flow to leave, of those that came latest.
#[derive(Clone, Copy, Debug, Default)]
struct FlowEnd {
    at: u64,
    left: u64,
}

struct World<'a> {
    model: &'a Model,
    app: &'a App,
    options: Options,
    policy: ScalingPolicy,
    hears: Vec<bool>,
    spins: bool,
    watts: Watts,
    parts: Parts,
    cpus: Vec<Cpu>,
    next: Vec<u64>,
    table: RedirectTable,
    arrivals: Arrivals,
    coming: Packet,
    noise: Stream,
    step: u8,
    /// P-states asked for, and when they hold.
    changing: Vec<(u64, u8)>,
    service: u64,
    in_use: u8,
    barriers: Vec<Barrier>,
    flows: Vec<FlowEnd>,
    flow_mask: u32,
    /// Latency beside waiting and processing.
    path: u64,
    batch: u32,
    /// Whether cores look at their queues before they take a batch.
    before: bool,
    timer: u64,
    received: u64,
    forwarded: u64,
    lost: u64,
    reordered: u64,
    changes: u64,
    interrupts: u64,
    passes: u64,
    active: Time,
    latency: Latencies,
    slot_latency: Latencies,
    departures: Vec<(u64, u64)>,
    slots: Vec<Slot>,
    slot_start: SlotStart,
}

#[derive(Clone, Copy, Debug, Default)]
struct SlotStart {
    at: u64,
    energy_j: f64,
    lost: u64,
    core_time: f64,
    core_since: u64,
}

/// Plays traffic against a policy until the end of its profile.
///
/// # Errors
/// If the books do not balance: a mistake in this crate.
pub fn simulate(
    model: &Model,
    app: &App,
    traffic: &Traffic,
    policy: ScalingPolicy,
    options: Options,
) -> Result<Run, Imbalance> {
    let mut world = World::new(model, app, traffic, policy, options);
    let point = traffic.profile.point.0;
    let end = traffic.profile.length().0;
    world.act(0);
    for n in 0..traffic.profile.loads.len() {
        world.run_until((point * (n as u64 + 1)).min(end));
        world.close_slot(traffic.profile.loads[n], point * (n as u64 + 1));
    }
    world.finish(Time(end))
}

impl<'a> World<'a> {
    fn new(
        model: &'a Model,
        app: &'a App,
        traffic: &Traffic,
        policy: ScalingPolicy,
        options: Options,
    ) -> World<'a> {
        let spec = model.spec();
        let count = usize::from(spec.cores.count);
        let watts = Watts::new(model);
        let parts = Parts::new(model, traffic.bytes);
        let mut arrivals = Arrivals::new(traffic, options.seed);
        let coming = arrivals.next();
        let own = model.service_us(app, model.fastest());
        let ipv4 = model.app("ipv4").map_or(own, |a| model.service_us(a, model.fastest()));
        let batching = if options.batching { spec.path.batching_us } else { 0.0 };
        let path = Time::from_ns((spec.path.unloaded_us - ipv4 + batching).max(0.0) * 1e3).0;
        let flow_mask = traffic.flow_count.next_power_of_two() - 1;
        let start = options.start;
        let mut cpus = vec![Cpu::new(spec.nic.ring, &watts); count];
        for cpu in cpus.iter_mut().skip(usize::from(start.cores)) {
            cpu.parked = true;
        }
        World {
            model,
            app,
            options,
            hears: (0..count).map(|n| policy.hears_polls(n as u8)).collect(),
            spins: policy.always_spins(),
            policy,
            watts,
            parts,
            cpus,
            next: vec![0; count],
            table: RedirectTable::even(start.cores),
            arrivals,
            coming,
            noise: stream(options.seed, "background"),
            step: start.step,
            changing: Vec::new(),
            service: model.service(app, start).0,
            in_use: start.cores,
            barriers: Vec::new(),
            flows: vec![FlowEnd::default(); flow_mask as usize + 1],
            flow_mask,
            path,
            batch: spec.poll.batch,
            before: spec.poll.look == Look::BeforeBatch,
            timer: NEVER,
            received: 0,
            forwarded: 0,
            lost: 0,
            reordered: 0,
            changes: 0,
            interrupts: 0,
            passes: 0,
            active: Time::ZERO,
            latency: Latencies::default(),
            slot_latency: Latencies::default(),
            departures: Vec::new(),
            slots: Vec::new(),
            slot_start: SlotStart::default(),
        }
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let (mut core, mut at) = self.earliest();
            let special = self.changing.first().map_or(NEVER, |c| c.0).min(self.timer);
            while self.coming.at <= at.min(special) && self.coming.at < end {
                if let Some(woken) = self.arrive() {
                    if self.next[woken] < at {
                        (core, at) = (woken, self.next[woken]);
                    }
                }
            }
            if at.min(special) >= end {
                return;
            }
            if special <= at {
                self.on_special(special);
            } else {
                self.on_core(core, at);
            }
        }
    }

    fn earliest(&self) -> (usize, u64) {
        let mut best = (0, self.next[0]);
        for (n, &at) in self.next.iter().enumerate().skip(1) {
            if at < best.1 {
                best = (n, at);
            }
        }
        best
    }

    /// The next packet goes to its ring; the core whose next event that changes.
    fn arrive(&mut self) -> Option<usize> {
        let packet = self.coming;
        self.coming = self.arrivals.next();
        self.received += 1;
        self.active += self.parts.active();
        let core = usize::from(self.table.queue(packet.flow));
        let cpu = &mut self.cpus[core];
        if !cpu.ring.put(packet) {
            self.lost += 1;
            return None;
        }
        match cpu.phase {
            Phase::Spin => {
                cpu.account(packet.at, self.step, &self.watts);
                cpu.work();
                self.next[core] = packet.at.max(cpu.ready);
            }
            Phase::Rest => self.interrupt(core, packet.at),
            Phase::Poll | Phase::Sleep => return None,
        }
        Some(core)
    }

    fn interrupt(&mut self, core: usize, at: u64) {
        self.interrupts += 1;
        let cpu = &mut self.cpus[core];
        cpu.account(at, self.step, &self.watts);
        self.next[core] = cpu.wake(at, true, &self.watts).1;
    }

    fn on_core(&mut self, core: usize, at: u64) {
        let cpu = &mut self.cpus[core];
        match cpu.phase {
            Phase::Poll => self.poll(core, at),
            // What woke it beside its queue.
            Phase::Rest => self.interrupt(core, at),
            Phase::Sleep => {
                cpu.account(at, self.step, &self.watts);
                self.next[core] = cpu.wake(at, false, &self.watts).1;
            }
            Phase::Spin => self.next[core] = NEVER,
        }
    }

    fn poll(&mut self, core: usize, at: u64) {
        self.passes += 1;
        let cpu = &mut self.cpus[core];
        cpu.done = cpu.ring.taken;
        let waiting = cpu.ring.len();
        if self.hears[core] {
            let taken = if self.before { 0 } else { waiting.min(self.batch) };
            let waiting = waiting - taken;
            self.policy.on_event(Time(at), &Event::Poll { core: core as u8, waiting });
            self.act(at);
        }
        if waiting == 0 {
            self.policy.on_event(Time(at), &Event::Empty { core: core as u8 });
            self.act(at);
            return;
        }
        let cpu = &mut self.cpus[core];
        cpu.account(at, self.step, &self.watts);
        cpu.work();
        let mut leaves = at;
        for _ in 0..waiting.min(self.batch) {
            if !self.barriers.is_empty() && self.is_held(core) {
                leaves = leaves.max(at + LOOK_AGAIN);
                break;
            }
            let packet = self.cpus[core].ring.take();
            leaves += self.service;
            self.depart(packet, leaves);
        }
        let cpu = &mut self.cpus[core];
        if self.spins && cpu.ring.len() == 0 {
            // The empty pass that would follow changes nothing.
            cpu.spin_from(leaves, &self.watts);
            leaves = NEVER;
        }
        self.next[core] = leaves;
    }

    #[inline]
    fn depart(&mut self, packet: Packet, leaves: u64) {
        self.forwarded += 1;
        self.slot_latency.record(Time(leaves - packet.at + self.path));
        let flow = &mut self.flows[(packet.flow & self.flow_mask) as usize];
        if packet.at >= flow.at {
            self.reordered += u64::from(leaves < flow.left);
            *flow = FlowEnd { at: packet.at, left: leaves };
        } else {
            self.reordered += u64::from(leaves > flow.left);
        }
        if self.options.overall_order {
            self.departures.push((leaves, packet.at));
        }
    }

    /// Whether the first packet of a core must wait for packets before it in another queue.
    fn is_held(&mut self, core: usize) -> bool {
        let cpus = &self.cpus;
        self.barriers.retain(|b| cpus[b.from].done < b.until);
        let Some(first) = cpus[core].ring.first() else { return false };
        self.barriers.iter().any(|b| b.to == core && first.at > b.at)
    }

    /// A P-state begins to hold, or the policy's timer rings.
    fn on_special(&mut self, at: u64) {
        if self.changing.first().is_some_and(|c| c.0 == at) {
            let (_, step) = self.changing.remove(0);
            for cpu in &mut self.cpus {
                cpu.account(at, self.step, &self.watts);
            }
            self.step = step;
            self.refresh();
            return;
        }
        self.policy.on_timer(Time(at));
        self.act(at);
    }

    fn refresh(&mut self) {
        let point = Point { cores: self.in_use, step: self.step };
        self.service = self.model.service(self.app, point).0;
    }

    /// Does what the policy asks for.
    fn act(&mut self, at: u64) {
        while let Some(action) = self.policy.poll_action() {
            match action {
                Action::Rest { core, rest } => {
                    let core = usize::from(core);
                    let cpu = &mut self.cpus[core];
                    cpu.account(at, self.step, &self.watts);
                    // A parked core sleeps as deep as it can, whatever the policy says.
                    let rest = if cpu.parked { Rest::Halt(Depth::C6) } else { rest };
                    let alarm = cpu.rest(at, rest, &self.watts);
                    self.next[core] = alarm.min(self.background(core, at));
                }
                Action::Move { entry, to, in_order } => self.redirect(at, entry, to, in_order),
                Action::SetStep { step } => {
                    let settled = Time::from_ns(self.model.spec().cores.p_switch_us * 1e3).0;
                    let holds = if at == 0 { 0 } else { at + settled };
                    self.changes += 1;
                    self.changing.push((holds, step));
                }
                Action::Wake { core } => self.park(core, at, false),
                Action::Park { core } => self.park(core, at, true),
            }
        }
        self.timer = self.policy.next_timer().map_or(NEVER, |t| t.0);
    }

    fn background(&mut self, core: usize, at: u64) -> u64 {
        let hz = self.model.spec().sleep.background_hz;
        if !self.options.background || hz <= 0.0 || self.cpus[core].phase != Phase::Rest {
            return NEVER;
        }
        at + (-1e12 / hz * (1.0 - self.noise.random::<f64>()).ln()) as u64
    }

    fn redirect(&mut self, at: u64, entry: u8, to: u8, in_order: bool) {
        let from = usize::from(self.table.queue(u32::from(entry)));
        self.table.set(entry, to);
        let to = usize::from(to);
        let until = self.cpus[from].ring.put;
        if in_order && from != to && self.cpus[from].done < until {
            self.barriers.push(Barrier { from, to, until, at });
        }
    }

    fn park(&mut self, core: u8, at: u64, parked: bool) {
        let core = usize::from(core);
        if self.cpus[core].parked == parked {
            return;
        }
        self.note_cores(at);
        self.changes += 1;
        self.cpus[core].parked = parked;
        self.in_use = self.cpus.iter().filter(|cpu| !cpu.parked).count() as u8;
        self.refresh();
        // One that rests already asks again how, and sleeps deeper.
        if parked && matches!(self.cpus[core].phase, Phase::Rest | Phase::Spin) {
            self.policy.on_event(Time(at), &Event::Empty { core: core as u8 });
        }
    }

    fn note_cores(&mut self, at: u64) {
        let span = (at - self.slot_start.core_since) as f64;
        self.slot_start.core_time += span * f64::from(self.in_use);
        self.slot_start.core_since = at;
    }

    fn close_slot(&mut self, load: f64, at: u64) {
        for cpu in &mut self.cpus {
            cpu.account(at, self.step, &self.watts);
        }
        self.note_cores(at);
        let cores = self.cpus.iter().map(|cpu| cpu.meter().energy).sum();
        let energy_j = self.parts.energy_j(Time(at), cores, self.received);
        let start = self.slot_start;
        let span = (at - start.at) as f64;
        self.slots.push(Slot {
            load,
            power_w: (energy_j - start.energy_j) / (span * 1e-12),
            mean_us: self.slot_latency.mean_us(),
            p99_us: self.slot_latency.quantile_us(0.99),
            cores: start.core_time / span,
            ghz: self.model.ghz(self.step),
            lost: self.lost - start.lost,
        });
        self.latency.add(&self.slot_latency);
        self.slot_latency.clear();
        self.slot_start =
            SlotStart { at, energy_j, lost: self.lost, core_time: 0.0, core_since: at };
    }

    fn finish(mut self, duration: Time) -> Result<Run, Imbalance> {
        let books =
            self.parts.close(duration, &self.cpus, &self.watts, self.received, self.active)?;
        let overall = self.options.overall_order.then(|| {
            self.departures.sort_unstable();
            let mut latest = 0;
            let late = |&&(_, at): &&(u64, u64)| {
                let is_late = at < latest;
                latest = latest.max(at);
                is_late
            };
            self.departures.iter().filter(late).count() as u64
        });
        Ok(Run {
            duration,
            received: self.received,
            forwarded: self.forwarded,
            lost: self.lost,
            queued: self.cpus.iter().map(|cpu| u64::from(cpu.ring.len())).sum(),
            reordered: self.reordered,
            reordered_overall: overall,
            latency: self.latency,
            changes: self.changes,
            interrupts: self.interrupts,
            passes: self.passes,
            slots: self.slots,
            books,
        })
    }
}

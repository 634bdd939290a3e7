//! The run loop: packets in, poll loops, what the policy asks for.
//!
//! Events are passes of poll loops, not packets: a core that polls takes a batch and is busy until
//! it polls again. Before each pass all packets that arrived until then are in their rings, under
//! the redirect table of their time. So the run is exact to the packet.
//!
//! * `passes.rs`: a packet comes, wakes its core, is taken in a batch, leaves.
//! * `actions.rs`: what the policy asks for is done.
//! * `order.rs`: which packets overtook which.
//! * `slots.rs`: points of the profile, and the end.

mod actions;
mod order;
mod passes;
mod slots;

use std::collections::VecDeque;

use halfwink_engine::confidence::Slots;
use halfwink_engine::{stream, Imbalance, Interrupted, RunControl, Stream};
use halfwink_policy::scaling::{RedirectTable, Rest, ScalingPolicy};
use halfwink_policy::{Host, StuckTimer};
use halfwink_techniques::router::{App, Look};
use halfwink_techniques::router::{Model, Point};
use halfwink_units::Time;

use self::actions::Barrier;
use self::order::Order;
use self::slots::SlotStart;
use crate::accounting::{Counts, Parts, Run, Slot};
use crate::cpu::Cpu;
use crate::faults::{Broken, Fate};
use crate::latency::{Latencies, FINE};
use crate::power::Watts;
use crate::ring::Packet;
use crate::traffic::{Arrivals, Traffic};

const NEVER: u64 = u64::MAX;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of all random streams.
    pub seed: u64,
    /// Cores and P-state to start with; a policy may change both.
    pub start: Point,
    /// Lets ports batch packets, as in the evaluation.
    pub batching: bool,
    /// Lets timers and devices wake cores, too.
    pub background: bool,
    /// Counts reordering over all packets, which takes time.
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

struct World<'a> {
    model: &'a Model,
    app: &'a App,
    options: Options,
    policy: Host<ScalingPolicy>,
    /// Cores that rest and were parked just now: they ask again how to.
    newly_parked: VecDeque<u8>,
    hears: Vec<bool>,
    /// Rest action of every core, if the policy has only one.
    rests: Option<Rest>,
    /// Cores have nothing to do with each other.
    apart: bool,
    watts: Watts,
    parts: Parts,
    cpus: Vec<Cpu>,
    next: Vec<u64>,
    /// Fault streams of each core; empty if no fault is enabled.
    fates: Vec<Fate>,
    table: RedirectTable,
    arrivals: Arrivals,
    coming: Packet,
    noise: Stream,
    step: u8,
    /// P-states that cores wish for.
    wishes: Vec<u8>,
    /// The last P-state asked for.
    asked: u8,
    /// P-states asked for, and when they hold.
    changing: Vec<(u64, u8)>,
    service: u64,
    in_use: u8,
    barriers: Vec<Barrier>,
    order: Order,
    /// All moves of entries so far were in order.
    keeps_order: bool,
    /// Latency beside waiting and processing.
    path: u64,
    batch: u32,
    /// Whether cores check their queues before they take a batch.
    before: bool,
    timer: u64,
    counts: Counts,
    active: Time,
    latency: Latencies,
    slot_latency: Latencies,
    slice_latency: Latencies,
    slots: Vec<Slot>,
    slot_start: SlotStart,
    /// End of the last slice, and the energy used up to then, in joules.
    slice_start: (u64, f64),
    sliced: Slots<FINE>,
}

/// Plays traffic against a policy until the end of its profile.
///
/// # Errors
/// See [`RunError`].
pub fn simulate(
    model: &Model,
    app: &App,
    traffic: &Traffic,
    policy: ScalingPolicy,
    options: Options,
) -> Result<Run, RunError> {
    simulate_controlled(model, app, traffic, policy, options, &RunControl::new())
}

/// Reason why a run fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Accounts that do not balance: a mistake in this crate.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// A policy's timer rings for ever.
    #[error(transparent)]
    StuckTimer(#[from] StuckTimer),
    /// An invariant was violated, which holds under any faults.
    #[error("seed {seed}: {broken}")]
    Broken {
        /// Seed of the run.
        seed: u64,
        /// Invariant that was violated.
        broken: Broken,
    },
    /// The run was stopped from outside.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Simulates as [`simulate`] does, observed and stopped from outside; progress counts packets.
///
/// # Errors
/// See [`RunError`].
pub fn simulate_controlled(
    model: &Model,
    app: &App,
    traffic: &Traffic,
    policy: ScalingPolicy,
    options: Options,
    control: &RunControl,
) -> Result<Run, RunError> {
    let mut world = World::new(model, app, traffic, policy, options);
    let point = traffic.profile.point.0;
    let end = traffic.profile.length().0;
    world.act(0);
    let count = traffic.profile.loads.len();
    // Slices only look: where they are changes nothing of what happens.
    let slices = Slots::<FINE>::slices(count) as u64;
    for (n, &load) in traffic.profile.loads.iter().enumerate() {
        let start = point * n as u64;
        for slice in 1..=slices {
            let until = (start + point * slice / slices).min(end);
            // Long slices are cut to look at the control, so that loops over packets do not pay;
            // that changes nothing either.
            let mut at = start + point * (slice - 1) / slices;
            while at < until {
                at = (at + LOOK.0).min(until);
                world.run_until(at)?;
                control.report(world.counts.received)?;
            }
            world.close_slice(until);
        }
        world.close_slot(load, start + point);
    }
    world.verify().map_err(|broken| RunError::Broken { seed: options.seed, broken })?;
    Ok(world.finish(Time(end))?)
}

/// Simulated time between two looks at the control: some hundred thousand packets.
const LOOK: Time = Time::ns(10_000_000);

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
        let start = options.start;
        let apart = policy.is_apart() && !options.background;
        let mut cpus = vec![Cpu::new(spec.nic.ring, &watts); count];
        for cpu in cpus.iter_mut().skip(usize::from(start.cores)) {
            cpu.parked = true;
        }
        World {
            model,
            app,
            options,
            hears: (0..count).map(|n| policy.hears_polls(n as u8)).collect(),
            rests: policy.always_rests(),
            apart,
            policy: if apart { Host::new(policy).unordered() } else { Host::new(policy) },
            newly_parked: VecDeque::with_capacity(count),
            watts,
            parts,
            cpus,
            next: vec![0; count],
            fates: Fate::of(&spec.faults, options.seed, count),
            table: RedirectTable::even(start.cores),
            arrivals,
            coming,
            noise: stream(options.seed, "background"),
            step: start.step,
            wishes: vec![start.step; count],
            asked: start.step,
            changing: Vec::new(),
            service: model.service(app, start).0,
            in_use: start.cores,
            barriers: Vec::new(),
            order: Order::new(traffic.flow_count, options.overall_order),
            keeps_order: true,
            path,
            batch: spec.poll.batch,
            before: spec.poll.look == Look::BeforeBatch,
            timer: NEVER,
            counts: Counts::default(),
            active: Time::ZERO,
            latency: Latencies::default(),
            slot_latency: Latencies::default(),
            slice_latency: Latencies::default(),
            slots: Vec::new(),
            slot_start: SlotStart::default(),
            slice_start: (0, 0.0),
            sliced: Slots::default(),
        }
    }

    fn run_until(&mut self, end: u64) -> Result<(), StuckTimer> {
        if self.apart {
            self.run_apart(end);
            return Ok(());
        }
        loop {
            let (mut core, mut at) = self.earliest();
            let special = self.changing.first().map_or(NEVER, |c| c.0).min(self.timer);
            // Packets first, at equal times too: a core that polls now sees what has come by now,
            // and one that rests may be woken by it, to poll before the event that was next.
            while self.coming.at <= at.min(special) && self.coming.at < end {
                if let Some(woken) = self.arrive() {
                    if woken == core {
                        // It may be busy waking up by then.
                        (core, at) = self.earliest();
                    } else if self.next[woken] < at {
                        (core, at) = (woken, self.next[woken]);
                    }
                }
            }
            if at.min(special) >= end {
                return Ok(());
            }
            if special <= at {
                self.on_special(special)?;
            } else {
                self.on_core(core, at);
            }
        }
    }

    /// Runs cores that do not interact: each is played up to its next packet when that arrives.
    fn run_apart(&mut self, end: u64) {
        while self.coming.at < end {
            let core = usize::from(self.table.queue(self.coming.flow));
            while self.next[core] < self.coming.at {
                self.on_core(core, self.next[core]);
            }
            self.arrive();
        }
        for core in 0..self.next.len() {
            while self.next[core] < end {
                self.on_core(core, self.next[core]);
            }
        }
    }

    /// A scan, not a heap: a router has a dozen cores, and each pass changes the time of one.
    fn earliest(&self) -> (usize, u64) {
        let mut best = (0, self.next[0]);
        for (n, &at) in self.next.iter().enumerate().skip(1) {
            if at < best.1 {
                best = (n, at);
            }
        }
        best
    }
}

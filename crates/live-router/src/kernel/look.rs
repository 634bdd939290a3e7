//! Looks at the counters of the kernel's programs, and what follows from them: events for the
//! policy, its actions, times of CPUs.
//!
//! A look costs a wake-up, so there are few: one for each thousand frames, none sooner than a
//! millisecond after the last, and seldom while nothing comes. Where frames wait, or CPUs beyond
//! the first are in use, the policy has to follow the load, and looks come soon.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use halfwink_engine::Histogram;
use halfwink_live::program::ledger::Length;
use halfwink_live::program::report::Latency;
use halfwink_policy::scaling::{Action, Depth, Event, Rest};
use halfwink_units::Time;

use super::busy::Clocks;
use super::softnet::{line, Softnet};
use super::table::{Counts, Sums, Table};
use crate::control::Control;
use crate::meter::Residency;
use crate::report::{By, PortReport, Report, WorkerReport};

/// Shortest time between looks.
pub(super) const LEAST: Duration = Duration::from_millis(1);
/// Longest time between looks while CPUs beyond the first are in use.
const SEVERAL: Duration = Duration::from_millis(4);
/// Longest time between looks while frames come.
const BUSY: Duration = Duration::from_millis(64);
/// Longest time between looks while none come.
const IDLE: Duration = Duration::from_millis(256);
/// Number of frames after which the next look is due.
const FRAMES: u64 = 1024;
/// Largest number of frames in a ring that are on their way: a CPU takes eight at a time.
const ON_THEIR_WAY: u64 = 8;
/// Between two looks at interfaces, and at the clocks of CPUs.
const CARE: Duration = Duration::from_secs(1);
/// Frames that the kernel takes off its devices in one softirq (`net.core.netdev_budget`). One
/// that ends with work left over (`time_squeeze`) leaves that many behind, or nearly.
const BUDGET: u64 = 300;

/// A core of the policy.
struct Core {
    cpu: u32,
    parked: bool,
    /// Frames that it had served before the start.
    first: u64,
    waiting: u64,
    /// Frames that were lost behind the last one that was served.
    lost: u64,
    before: Counts,
    squeezed: u64,
    passes: u64,
    rests: u64,
    depth: Depth,
    busy: Time,
    residency: Residency,
    cpu_s: f64,
}

/// All that looks have found and done.
pub(super) struct Looks {
    cores: Vec<Core>,
    clocks: Clocks,
    softnet: Softnet,
    looks: u64,
    moves: u64,
    changes: u64,
    step: u32,
    next: Duration,
    looked: Instant,
    cared: Instant,
    metered: Instant,
}

impl Looks {
    pub(super) fn new(cpus: &[u32], clocks: Clocks, table: &dyn Table) -> Looks {
        table.refresh();
        let busy = clocks.read();
        let core = |(&cpu, busy)| Core {
            cpu,
            parked: false,
            first: 0,
            waiting: 0,
            lost: 0,
            before: Counts::default(),
            squeezed: 0,
            passes: 0,
            rests: 0,
            depth: Depth::C1,
            busy,
            residency: Residency::default(),
            cpu_s: 0.0,
        };
        let now = Instant::now();
        let mut looks = Looks {
            cores: cpus.iter().zip(busy).map(core).collect(),
            clocks,
            softnet: Softnet::open(),
            looks: 0,
            moves: 0,
            changes: 0,
            step: 0,
            next: LEAST,
            looked: now,
            cared: now,
            metered: now,
        };
        looks.squeezes();
        for core in &mut looks.cores {
            core.count(table);
            core.first = core.before.served;
        }
        looks
    }

    /// Tells the policy what the CPUs have done since the last look, and follows it. Returns the
    /// time until the next look.
    pub(super) fn look(&mut self, table: &dyn Table, control: &Control) -> Duration {
        self.looks += 1;
        table.refresh();
        let squeezes = self.squeezes();
        let mut all = 0;
        let mut presses = false;
        for (number, core) in self.cores.iter_mut().enumerate() {
            let taken = core.count(table);
            let waiting = core.waiting + squeezes[number];
            all += taken;
            presses |= waiting > ON_THEIR_WAY;
            core.tell(number as u8, taken, waiting, control);
        }
        self.act(table, control);
        self.next = self.pause(all, presses);
        let timer = control.timer();
        self.act(table, control);
        // After the actions: their time is no time in which frames came.
        self.looked = Instant::now();
        let until = timer.map(|at| at.0.saturating_sub(control.clock().now().0) / 1000);
        // A policy whose timer is due all the time must not take a CPU for itself.
        until.map_or(self.next, |ns| self.next.min(Duration::from_nanos(ns).max(LEAST)))
    }

    /// Chooses the time until the next look.
    fn pause(&self, taken: u64, presses: bool) -> Duration {
        if presses {
            return LEAST;
        }
        // A policy counts looks before it parks a CPU; rare looks would keep all of them awake.
        let several = self.cores.iter().filter(|core| !core.parked).count() > 1;
        let most = match taken {
            _ if several => SEVERAL,
            0 => IDLE,
            _ => BUSY,
        };
        let since = self.looked.elapsed();
        // At most twice as long as the last pause: load that has just come may grow.
        let wanted = match taken {
            0 => self.next * 2,
            _ => since.mul_f64(FRAMES as f64 / taken as f64).min(self.next * 2),
        };
        wanted.clamp(LEAST, most)
    }

    /// Follows the policy's actions.
    pub(super) fn act(&mut self, table: &dyn Table, control: &Control) {
        if !control.is_waiting() {
            return;
        }
        for action in control.pending() {
            match action {
                Action::Move { entry, to, in_order } => {
                    let Some(core) = self.cores.get(usize::from(to)) else { continue };
                    table.redirect(entry, core.cpu, in_order);
                    self.moves += 1;
                }
                Action::Park { core } => self.park(core, true),
                Action::Wake { core } => self.park(core, false),
                Action::SetStep { step } => {
                    self.step = u32::from(step);
                    self.changes += 1;
                }
                // Nothing here sets the clock of a real core.
                Action::Wish { step, .. } => self.step = u32::from(step),
                // A rest that no core polled for; the kernel's idle governor decides anyway.
                Action::Rest { .. } => {}
            }
        }
        table.settle();
    }

    fn park(&mut self, core: u8, parked: bool) {
        // Times up to now belong to the state before.
        self.meter();
        let Some(core) = self.cores.get_mut(usize::from(core)) else { return };
        if core.parked != parked {
            core.parked = parked;
            self.changes += 1;
        }
    }

    /// Returns whether interfaces and clocks must be looked at.
    pub(super) fn must_care(&mut self) -> bool {
        if self.cared.elapsed() < CARE {
            return false;
        }
        self.cared = Instant::now();
        self.meter();
        true
    }

    /// Returns whether frames wait in rings.
    pub(super) fn waits(&mut self, table: &dyn Table) -> bool {
        self.cores.iter_mut().for_each(|core| {
            core.count(table);
        });
        self.cores.iter().any(|core| core.waiting > 0)
    }

    /// Adds the times since the last call to the states of the cores.
    fn meter(&mut self) {
        let now = Instant::now();
        let passed = now.duration_since(std::mem::replace(&mut self.metered, now)).as_secs_f64();
        for (core, busy) in self.cores.iter_mut().zip(self.clocks.read()) {
            let worked = busy.0.saturating_sub(core.busy.0) as f64 * 1e-12;
            core.busy = busy;
            core.cpu_s += worked;
            // Ticks of 10 ms may be booked to a shorter time.
            let worked = worked.min(passed);
            core.residency.busy_s += worked;
            let r = &mut core.residency;
            let rested = match (core.parked, core.depth) {
                (true, _) | (_, Depth::C6) => &mut r.c6_s,
                (_, Depth::C3) => &mut r.c3_s,
                (_, Depth::C1) => &mut r.c1_s,
            };
            *rested += passed - worked;
        }
    }

    /// Frames that the kernel left on its devices since the last call, by core; at least.
    fn squeezes(&mut self) -> Vec<u64> {
        let text = self.softnet.read();
        let left = |core: &mut Core| {
            let now = line(text, core.cpu).squeezed;
            let before = std::mem::replace(&mut core.squeezed, now);
            if now > before {
                BUDGET
            } else {
                0
            }
        };
        self.cores.iter_mut().map(left).collect()
    }
}

impl Core {
    /// Reads its counters; returns the frames that it has served since the last call.
    fn count(&mut self, table: &dyn Table) -> u64 {
        let now = table.counts(self.cpu);
        // Frames that the ring had no room for look as if they waited, until a later one is
        // served. Nothing waits where nothing moves.
        if self.before == now {
            self.lost = now.unserved;
        } else if now.served != self.before.served || now.unserved < self.lost {
            self.lost = 0;
        }
        self.waiting = now.unserved.saturating_sub(self.lost);
        now.served - std::mem::replace(&mut self.before, now).served
    }

    fn tell(&mut self, number: u8, taken: u64, waiting: u64, control: &Control) {
        self.passes += u64::from(taken > 0);
        let [taken, waiting] = [taken, waiting].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        if control.hears_polls(number) {
            control.tell(Event::Poll { core: number, taken, waiting });
        }
        if taken > 0 || waiting > 0 {
            return;
        }
        self.rests += 1;
        self.depth = match control.tell(Event::Empty { core: number }) {
            Some(Rest::Halt(depth) | Rest::Nap(depth)) => depth,
            Some(Rest::HaltFor { depth, .. } | Rest::Sleep { depth, .. }) => depth,
            // The kernel never spins here.
            _ => Depth::C1,
        };
    }
}

/// The report up to now.
pub(super) fn report(
    looks: &mut Looks,
    table: &dyn Table,
    control: &Control,
    began: [Instant; 2],
) -> Report {
    let ports = table.ports();
    let (workers, length) = Length::while_reading(began, || {
        looks.meter();
        looks.cores.iter().map(|core| worker(core, table)).collect::<Vec<_>>()
    });
    let sums = table.sums(workers.iter().map(|worker| worker.waiting).sum());
    let [received, sent] = [|p: &PortReport| p.received, |p: &PortReport| p.sent]
        .map(|of| ports.iter().map(of).sum::<u64>());
    let (policy, steps_back) = control.snapshot();
    Report {
        duration_s: length.most.as_s(),
        length,
        received,
        sent,
        lost: 0,
        overflowed: sums.overflowed,
        unsent: sums.forwarded.map_or(0, |forwarded| forwarded.saturating_sub(sent)),
        packets: packets(received, &sums),
        latency: Latency::of(&Histogram::default()),
        ports,
        workers,
        changes: looks.changes,
        moves: looks.moves,
        step: looks.step,
        policy: policy.into_iter().collect(),
        faults: control.faults(),
        steps_back,
        unrecorded: None,
        exported: 0,
        unexported: 0,
        forward: By {
            forwarded_by: table.forward(),
            looks: looks.looks,
            rests: looks.cores.iter().map(|core| core.rests).sum(),
            forced: sums.forced,
            followed: sums.followed,
            busy_from: looks.clocks.source(),
        },
    }
}

fn packets(received: u64, sums: &Sums) -> BTreeMap<String, u64> {
    let mut packets = vec![("received", received), ("passed", sums.passed)];
    if let Some(forwarded) = sums.forwarded {
        packets.extend([("forwarded", forwarded), ("drop_moving", sums.held)]);
    }
    packets.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn worker(core: &Core, table: &dyn Table) -> WorkerReport {
    WorkerReport {
        parked: core.parked,
        served: table.counts(core.cpu).served.saturating_sub(core.first),
        waiting: core.waiting,
        passes: core.passes,
        sleeps: core.rests,
        residency: core.residency,
        cpu_s: core.cpu_s,
    }
}

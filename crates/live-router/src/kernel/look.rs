//! Looks at the counters of the kernel's programs, and what follows from them: events for the
//! policy, its actions, times of CPUs.
//!
//! A look costs a wake-up, so there are few: one for each thousand frames, none sooner than a
//! millisecond after the last, and seldom while nothing comes. Where frames wait, or CPUs beyond
//! the first are in use, the policy has to follow the load, and looks come soon.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use halfwink_engine::Histogram;
use halfwink_live::program::ledger::Length;
use halfwink_live::program::report::Latency;
use halfwink_policy::scaling::{Action, Depth, Event, Rest};
use halfwink_units::Time;

use super::busy::Clocks;
use super::memory::Memory;
use super::ports::Port;
use crate::config::Forward;
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
/// Frames between looks.
const FRAMES: u64 = 1024;
/// So many frames in a ring are on their way; more wait.
const ON_THEIR_WAY: u64 = 8;
/// Between two looks at interfaces, and at the clocks of CPUs.
const CARE: Duration = Duration::from_secs(1);
/// Frames that the kernel takes off its devices in one softirq (`net.core.netdev_budget`). One
/// that ends with work left over (`time_squeeze`) leaves that many behind, or nearly.
const BUDGET: u64 = 300;

/// A core of the policy.
struct Core {
    cpu: u32,
    hears: bool,
    parked: bool,
    served: u64,
    waiting: u64,
    /// Frames that were lost behind the last one that was served.
    lost: u64,
    /// Frames handed over, and served, at the last look.
    before: (u64, u64),
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
    softnet: Option<File>,
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
    pub(super) fn new(cpus: &[u32], hears: Vec<bool>, clocks: Clocks) -> Looks {
        let busy = clocks.read();
        let core = |((&cpu, hears), busy)| Core {
            cpu,
            hears,
            parked: false,
            served: 0,
            waiting: 0,
            lost: 0,
            before: (0, 0),
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
            cores: cpus.iter().zip(hears).zip(busy).map(core).collect(),
            clocks,
            softnet: File::open("/proc/net/softnet_stat").ok(),
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
        looks
    }

    /// Tells the policy what the CPUs have done since the last look, and follows it. Returns the
    /// time until the next look.
    pub(super) fn look(&mut self, memory: &Memory, control: &Control) -> Duration {
        self.looks += 1;
        let squeezes = self.squeezes();
        let mut all = 0;
        let mut presses = false;
        for (number, core) in self.cores.iter_mut().enumerate() {
            let taken = core.count(memory);
            let waiting = core.waiting + squeezes[number];
            all += taken;
            presses |= waiting > ON_THEIR_WAY;
            core.tell(number as u8, taken, waiting, control);
        }
        self.act(memory, control);
        self.next = self.pause(all, presses);
        let timer = control.timer();
        self.act(memory, control);
        self.looked = Instant::now();
        let until = timer.map(|at| at.0.saturating_sub(control.clock().now().0) / 1000);
        until.map_or(self.next, |ns| self.next.min(Duration::from_nanos(ns)))
    }

    /// Chooses the time until the next look.
    fn pause(&self, taken: u64, presses: bool) -> Duration {
        if presses {
            return LEAST;
        }
        let several = self.cores.iter().filter(|core| !core.parked).count() > 1;
        let most = match taken {
            _ if several => SEVERAL,
            0 => IDLE,
            _ => BUSY,
        };
        let since = self.looked.elapsed();
        let wanted = match taken {
            0 => self.next * 2,
            _ => since.mul_f64(FRAMES as f64 / taken as f64).min(self.next * 2),
        };
        wanted.clamp(LEAST, most)
    }

    /// Follows the policy's actions.
    pub(super) fn act(&mut self, memory: &Memory, control: &Control) {
        if !control.is_waiting() {
            return;
        }
        for action in control.pending() {
            match action {
                Action::Move { entry, to, in_order } => {
                    let Some(core) = self.cores.get(usize::from(to)) else { continue };
                    memory.redirect(entry, core.cpu, in_order);
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
    pub(super) fn waits(&mut self, memory: &Memory) -> bool {
        self.cores.iter_mut().for_each(|core| {
            core.count(memory);
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
        let mut text = [0; 1 << 14];
        let read = self.softnet.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = String::from_utf8_lossy(&text[..read.unwrap_or(0)]);
        let left = |core: &mut Core| {
            let now = squeezed(&text, core.cpu);
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

/// Times that a CPU left frames on its devices, from the text of `/proc/net/softnet_stat`.
fn squeezed(text: &str, cpu: u32) -> u64 {
    let mut lines = text.lines().enumerate().filter_map(|(place, line)| {
        let field = |n| u64::from_str_radix(line.split(' ').nth(n)?, 16).ok();
        // CPUs that are off have no line; kernels since 5.10 number the lines.
        Some((field(12).unwrap_or(place as u64), field(2)?))
    });
    lines.find(|(number, _)| *number == u64::from(cpu)).map_or(0, |(_, squeezes)| squeezes)
}

impl Core {
    /// Reads its counters; returns the frames that it has served since the last call.
    fn count(&mut self, memory: &Memory) -> u64 {
        let served = memory.counters(self.cpu).served.load(Ordering::Acquire);
        let (handed, unserved) = memory.handed(self.cpu);
        // Frames that the ring had no room for look as if they waited, until a later one is
        // served. Nothing waits where nothing moves.
        if self.before == (handed, served) {
            self.lost = unserved;
        } else if served != self.served || unserved < self.lost {
            self.lost = 0;
        }
        self.before = (handed, served);
        self.waiting = unserved.saturating_sub(self.lost);
        served - std::mem::replace(&mut self.served, served)
    }

    fn tell(&mut self, number: u8, taken: u64, waiting: u64, control: &Control) {
        self.passes += u64::from(taken > 0);
        let [taken, waiting] = [taken, waiting].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        if self.hears {
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
    memory: &Memory,
    control: &Control,
    ports: &[Port],
    began: [Instant; 2],
) -> Report {
    let ports: Vec<PortReport> =
        ports.iter().enumerate().map(|(n, p)| port(memory, n, p)).collect();
    let (workers, length) = Length::while_reading(began, || {
        looks.meter();
        looks.cores.iter_mut().map(|core| worker(core, memory)).collect::<Vec<_>>()
    });
    let rings: u64 = looks.cores.iter().map(|core| memory.handed(core.cpu).0).sum();
    let own = memory.sum(|c| &c.own);
    let served: u64 = workers.iter().map(|worker| worker.served).sum();
    let waiting: u64 = workers.iter().map(|worker| worker.waiting).sum();
    let (forwarded, held) = (memory.sum(|c| &c.forwarded), memory.sum(|c| &c.held));
    let [received, sent] = [|p: &PortReport| p.received, |p: &PortReport| p.sent]
        .map(|of| ports.iter().map(of).sum::<u64>());
    let packets = [
        ("received", received),
        ("forwarded", forwarded),
        ("passed", memory.sum(|c| &c.passed)),
        ("drop_moving", held),
    ];
    let (policy, steps_back) = control.snapshot();
    Report {
        duration_s: length.most.as_s(),
        length,
        received,
        sent,
        lost: 0,
        overflowed: (own + rings).saturating_sub(served + waiting),
        unsent: forwarded.saturating_sub(sent),
        packets: packets.map(|(name, count)| (name.to_owned(), count)).into(),
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
            forwarded_by: Forward::Xdp,
            looks: looks.looks,
            rests: looks.cores.iter().map(|core| core.rests).sum(),
            forced: memory.sum(|c| &c.forced),
            followed: memory.sum(|c| &c.moved),
            busy_from: looks.clocks.source(),
        },
    }
}

fn port(memory: &Memory, number: usize, port: &Port) -> PortReport {
    let (received, sent) = memory.port(number);
    PortReport {
        interface: port.name.clone(),
        io: port.io(),
        queues: 0,
        up: port.up,
        gone: port.gone,
        received,
        sent,
        unsent: 0,
        lost: 0,
        too_long: 0,
    }
}

fn worker(core: &mut Core, memory: &Memory) -> WorkerReport {
    let served = memory.counters(core.cpu).served.load(Ordering::Acquire);
    WorkerReport {
        parked: core.parked,
        served,
        waiting: core.waiting,
        passes: core.passes,
        sleeps: core.rests,
        residency: core.residency,
        cpu_s: core.cpu_s,
    }
}

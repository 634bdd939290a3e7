//! Results of a run, and the closing of its ledger.

use halfwink_engine::confidence::{Piece, Precision};
use halfwink_engine::{Cause, Closed, Imbalance, Ledger, Mode, Row, State};
use halfwink_techniques::router::Model;
use halfwink_units::{Energy, Power, Time};

use crate::cpu::Cpu;
use crate::faults::FaultCounts;
use crate::latency::Latencies;
use crate::power::Watts;

/// A point of the profile, as it went.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Offered, as a share of the peak rate.
    pub load: f64,
    /// Mean power of the router, in watts.
    pub power_w: f64,
    /// Mean latency of what left, in microseconds.
    pub mean_us: Option<f64>,
    /// 99th percentile, in microseconds.
    pub p99_us: Option<f64>,
    /// Mean number of cores in use.
    pub cores: f64,
    /// Frequency at the end, in GHz.
    pub ghz: f64,
    /// Number of packets lost.
    pub lost: u64,
}

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) forwarded: u64,
    pub(crate) lost: u64,
    pub(crate) changes: u64,
    pub(crate) interrupts: u64,
    pub(crate) passes: u64,
}

/// Results of a finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Length of the run.
    pub duration: Time,
    /// Number of packets that arrived.
    pub received: u64,
    /// Packets that left, or whose batch was taken.
    pub forwarded: u64,
    /// Packets that found no descriptor.
    pub lost: u64,
    /// Packets that still wait.
    pub queued: u64,
    /// Packets that left after one of their flow that came later.
    pub reordered: u64,
    /// Packets that left after any that came later; if it was asked for.
    pub reordered_overall: Option<u64>,
    /// Time from arrival until departure.
    pub latency: Latencies,
    /// Precision of mean latency, its 99th percentile and power under this profile.
    pub precision: Precision,
    /// Parts of the run, to compare with those of another run of the same traffic.
    pub pieces: Vec<Piece>,
    /// Changes of cores or P-state.
    pub changes: u64,
    /// Interrupts that cores took.
    pub interrupts: u64,
    /// Passes of poll loops.
    pub passes: u64,
    /// Number of faults injected.
    pub faults: FaultCounts,
    /// Points of the profile.
    pub slots: Vec<Slot>,
    /// Ledger of the run, balanced.
    pub books: Closed,
}

impl Run {
    /// Returns the energy, in joules.
    #[must_use]
    pub fn energy_j(&self) -> f64 {
        self.books.energy_where(|_| true).as_j()
    }

    /// Mean power, in watts.
    #[must_use]
    pub fn power_w(&self) -> f64 {
        self.energy_j() / self.duration.as_s()
    }

    /// Mean rate of what left, in million packets per second.
    #[must_use]
    pub fn forwarded_mpps(&self) -> f64 {
        self.forwarded as f64 / self.duration.as_s() * 1e-6
    }

    /// Core time in a state (`c0`, `c1`, `c3`, `c6`), as a share of all core time.
    #[must_use]
    pub fn residency(&self, state: &str) -> f64 {
        let mut sums = [0.0; 2];
        for (name, at, _, row) in self.books.named_rows() {
            if name.starts_with("core") {
                sums[0] += row.time.as_s();
                sums[1] += if at.0 == state { row.time.as_s() } else { 0.0 };
            }
        }
        sums[1] / sums[0]
    }
}

/// Watts beside the cores, in whole microwatts.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    package: Power,
    board: Power,
    memory: [Power; 2],
    nic: [Power; 2],
    fans: Power,
    fans_ppm: u64,
    /// Peak time of memory and ports for each packet.
    active: Time,
    packages: u8,
}

impl Parts {
    pub(crate) fn new(model: &Model, bytes: u32) -> Parts {
        let p = &model.spec().power;
        let ns = p.activity_packet_ns + p.activity_byte_ns * f64::from(bytes);
        Parts {
            package: Power::from_w(p.package_w),
            board: Power::from_w(p.board_w),
            memory: [p.memory_idle_w, p.memory_w].map(Power::from_w),
            nic: [p.nic_idle_w, p.nic_w].map(Power::from_w),
            fans: Power::from_w(p.fans_w),
            fans_ppm: (p.fans_per_core_w * 1e6).round() as u64,
            active: Time::from_ns(ns),
            packages: model.spec().cores.packages,
        }
    }

    /// Energy of the router so far, in joules, from its meters.
    pub(crate) fn energy_j(&self, span: Time, cores: Energy, packets: u64) -> f64 {
        let mut idle = self.board + self.memory[0] + self.nic[0] + self.fans;
        for _ in 0..self.packages {
            idle = idle + self.package;
        }
        let active = (self.memory[1] + self.nic[1]) * self.active * packets;
        let fans = Energy(cores.0 * u128::from(self.fans_ppm) / 1_000_000);
        (idle * span + active + fans + cores).as_j()
    }

    /// Posts every component and closes. What cores and packets used is metered as it happens;
    /// their rows are summed up from times and counts.
    pub(crate) fn close(
        &self,
        duration: Time,
        cpus: &[Cpu],
        watts: &Watts,
        received: u64,
        active: Time,
    ) -> Result<Closed, Imbalance> {
        let mut ledger = Ledger::new();
        let always = Cause { mode: Mode::Idle, reason: "always" };
        let packets = Cause { mode: Mode::Kernel, reason: "packets" };
        let on = State("on");
        let mut cores = Energy::ZERO;
        for (n, cpu) in cpus.iter().enumerate() {
            let id = ledger.component(format!("core{n}"), cpu.meter());
            for (kind, row) in cpu.rows(watts) {
                let (state, cause) = kind.row();
                ledger.post(id, state, cause, row);
                cores += row.energy;
            }
        }
        let idle = |power: Power| Row { time: duration, energy: power * duration };
        for n in 0..self.packages {
            let id = ledger.component(format!("package{n}"), idle(self.package));
            ledger.post(id, on, always, idle(self.package));
        }
        let id = ledger.component("board", idle(self.board));
        ledger.post(id, on, always, idle(self.board));
        // The meter of peak time went on packet by packet.
        for (name, [rest, peak]) in [("memory", self.memory), ("nic", self.nic)] {
            let meter = peak * active;
            let mut all = idle(rest);
            all.energy += meter;
            let id = ledger.component(name, all);
            ledger.post(id, on, always, idle(rest));
            let energy = peak * (self.active * received);
            ledger.post(id, on, packets, Row { time: Time::ZERO, energy });
        }
        let share = |cores: Energy| Energy(cores.0 * u128::from(self.fans_ppm) / 1_000_000);
        let mut all = idle(self.fans);
        all.energy += share(cpus.iter().map(|cpu| cpu.meter().energy).sum());
        let id = ledger.component("fans", all);
        ledger.post(id, on, always, idle(self.fans));
        let heat = Cause { mode: Mode::Kernel, reason: "core-heat" };
        ledger.post(id, on, heat, Row { time: Time::ZERO, energy: share(cores) });
        ledger.close(duration)
    }

    pub(crate) fn active(&self) -> Time {
        self.active
    }
}

//! Points of the profile, and the end.

use halfwink_engine::Imbalance;
use halfwink_units::Time;

use super::{World, NEVER};
use crate::accounting::{Run, Slot};
use crate::faults::{Broken, FaultCounts};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotStart {
    pub(super) at: u64,
    energy_j: f64,
    lost: u64,
    pub(super) core_time: f64,
    pub(super) core_since: u64,
}

impl World<'_> {
    pub(super) fn note_cores(&mut self, at: u64) {
        let span = (at - self.slot_start.core_since) as f64;
        self.slot_start.core_time += span * f64::from(self.in_use);
        self.slot_start.core_since = at;
    }

    /// Joules used until `at`.
    fn energy_j(&mut self, at: u64) -> f64 {
        for cpu in &mut self.cpus {
            cpu.account(at, self.step, &self.watts);
        }
        let cores = self.cpus.iter().map(|cpu| cpu.meter().energy).sum();
        self.parts.energy_j(Time(at), cores, self.counts.received)
    }

    /// Keeps what happened in a part of a point, from which confidence intervals come.
    pub(super) fn close_slice(&mut self, at: u64) {
        debug_assert!(self.slice_start.0 <= at, "slices end in the order of time");
        let energy_j = self.energy_j(at);
        let (since, before_j) = std::mem::replace(&mut self.slice_start, (at, energy_j));
        let latency = &mut self.slice_latency;
        let span = Time(at - since);
        self.sliced.slice(span, energy_j - before_j, latency.total(), latency.counts());
        self.slot_latency.add(latency);
        latency.clear();
    }

    pub(super) fn close_slot(&mut self, load: f64, at: u64) {
        let energy_j = self.energy_j(at);
        self.sliced.end_slot();
        self.note_cores(at);
        self.order.settle(at);
        let start = self.slot_start;
        let span = (at - start.at) as f64;
        self.slots.push(Slot {
            load,
            power_w: (energy_j - start.energy_j) / (span * 1e-12),
            mean_us: self.slot_latency.mean_us(),
            p99_us: self.slot_latency.quantile_us(0.99),
            cores: start.core_time / span,
            ghz: self.model.ghz(self.step),
            lost: self.counts.lost - start.lost,
        });
        self.latency.add(&self.slot_latency);
        self.slot_latency.clear();
        self.slot_start =
            SlotStart { at, energy_j, lost: self.counts.lost, core_time: 0.0, core_since: at };
    }

    /// Checks the invariants that hold under any faults, at the end of a run.
    pub(super) fn verify(&self) -> Result<(), Broken> {
        let counts = &self.counts;
        let waiting: u64 = self.cpus.iter().map(|cpu| u64::from(cpu.ring.len())).sum();
        let known = counts.forwarded + counts.lost + waiting;
        if counts.received != known {
            return Err(Broken::Unbalanced(counts.received, known));
        }
        if self.keeps_order && self.order.in_flows() > 0 {
            return Err(Broken::Reordered(self.order.in_flows()));
        }
        for (n, cpu) in self.cpus.iter().enumerate() {
            if cpu.ring.len() > 0 && self.next[n] == NEVER {
                return Err(Broken::Stranded(n as u8, cpu.ring.len()));
            }
        }
        Ok(())
    }

    fn fault_counts(&self) -> FaultCounts {
        let mut all = FaultCounts::default();
        for fate in &self.fates {
            all.interrupts_lost += fate.counts.interrupts_lost;
            all.late += fate.counts.late;
            all.silent += fate.counts.silent;
        }
        all
    }

    pub(super) fn finish(mut self, duration: Time) -> Result<Run, Imbalance> {
        let books = self.parts.close(
            duration,
            &self.cpus,
            &self.watts,
            self.counts.received,
            self.active,
        )?;
        Ok(Run {
            duration,
            received: self.counts.received,
            forwarded: self.counts.forwarded,
            lost: self.counts.lost,
            changes: self.counts.changes,
            interrupts: self.counts.interrupts,
            passes: self.counts.passes,
            faults: self.fault_counts(),
            queued: self.cpus.iter().map(|cpu| u64::from(cpu.ring.len())).sum(),
            reordered: self.order.in_flows(),
            reordered_overall: self.order.overall(),
            precision: self.sliced.precision(),
            pieces: self.sliced.pieces(),
            latency: self.latency,
            slots: self.slots,
            books,
        })
    }
}

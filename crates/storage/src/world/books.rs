//! The end of a run: what was counted, and its books.

use halfwink_engine::confidence::Pieces;
use halfwink_engine::{Cause, Histogram, Ledger, Meter, Row};
use halfwink_units::{Energy, Power, Time};

use super::cpu::{Stage, State};
use super::{CpuTimes, LockCounts, Run, World, WorldError, MAP, OWN, RING};
use crate::description;
use crate::faults::Broken;

impl World<'_, '_> {
    /// Starts counting at this time.
    pub(super) fn count_from(&mut self, now: u64) {
        self.counting_from = now;
        // Stages that are under way are cut at this time: their rest counts, what came before does
        // not.
        for cpu in &mut self.cpus {
            cpu.close(now);
        }
        self.latency = Histogram::default();
        self.pieces = Pieces::default();
        self.interrupts = [0; 2];
        for lock in &mut self.locks {
            (lock.grants, lock.crossings) = (0, 0);
        }
    }

    /// Ends a piece of the run, if it is due.
    pub(super) fn cut(&mut self, now: u64) {
        let done = self.latency.count();
        if self.pieces.is_due(done) {
            let energy = self.energy_until(now);
            self.pieces.end(done, Time(now - self.counting_from), energy);
        }
    }

    /// Energy since counting began, by the meters.
    fn energy_until(&self, now: u64) -> Energy {
        let power = &self.setting.machine.spec().power;
        let cpus = self.cpus.iter().flat_map(|cpu| {
            let times = cpu.metered_until(now);
            watts(power).into_iter().zip(times).map(|(watts, time)| watts * Time(time))
        });
        cpus.sum::<Energy>() + Power::from_w(power.device_w) * Time(now - self.counting_from)
    }

    pub(super) fn broken(&self, broken: Broken) -> WorldError {
        WorldError::Broken { seed: self.setting.seed, broken }
    }

    /// Checks the invariants that hold under any faults.
    pub(super) fn verify(&self) -> Result<(), WorldError> {
        // Faults may delay or fail an I/O but never lose its descriptor: each issued one is
        // finished or somewhere that can be named.
        let known = self.completed + self.in_flight();
        if self.issued != known {
            return Err(self.broken(Broken::Unbalanced(self.issued, known)));
        }
        for (n, cpu) in self.cpus.iter().enumerate() {
            let work = cpu.heard.len() + cpu.given.len() + cpu.ready.len();
            // Work may wait while a CPU is busy; a CPU that rests without a time to wake has
            // missed it.
            let rests = matches!(cpu.stage, Stage::Idle | Stage::Polling);
            if work > 0 && rests && self.lanes.due(n) == u64::MAX {
                return Err(self.broken(Broken::Stranded(n as u16, work)));
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, now: u64) -> Result<Run, WorldError> {
        self.verify()?;
        let duration = Time(now - self.counting_from);
        let energy = self.energy_until(now);
        let power = self.setting.machine.spec().power;
        let mut ledger = Ledger::new();
        let mut cpus = Vec::with_capacity(self.cpus.len());
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            let (times, metered) = cpu.close(now);
            cpus.push(CpuTimes { times: times.map(Time) });
            post(&mut ledger, number, &times, &metered, &power);
        }
        let device_w = Power::from_w(power.device_w);
        let all = Row { time: duration, energy: device_w * duration };
        let device = ledger.component("device", all);
        let cause = Cause { mode: Stage::Idle.mode(), reason: "on" };
        ledger.post(device, halfwink_engine::State("on"), cause, all);
        let in_flight = self.in_flight();
        let warm_up = self.setting.warm_up;
        let faults = self.fate.as_ref().map(|fate| fate.counts).unwrap_or_default();
        Ok(Run {
            duration,
            completed: self.latency.count(),
            completed_in_all: self.completed.max(warm_up) - faults.errors,
            issued: self.issued,
            in_flight,
            faults,
            handlers: handlers(&cpus),
            cpus,
            locks: [self.counted(0, true), self.counted(RING, false), self.counted(MAP, false)],
            interrupts: self.interrupts,
            pieces: self.pieces.finish(self.latency.count(), duration, energy),
            latency: self.latency,
            books: ledger.close(duration)?,
        })
    }

    fn counted(&self, lock: usize, with_own: bool) -> LockCounts {
        let own = if with_own { &self.locks[OWN.min(self.locks.len())..] } else { &[] };
        let all = || own.iter().chain(&self.locks[lock..=lock]);
        LockCounts {
            grants: all().map(|lock| lock.grants).sum(),
            crossings: all().map(|lock| lock.crossings).sum(),
        }
    }

    /// I/Os wherever they are: being issued, at the device, waiting for a CPU, or on one.
    fn in_flight(&self) -> u64 {
        let of = |cpu: &super::Cpu| {
            let issuing = matches!(cpu.stage, Stage::Submit | Stage::Insert | Stage::Dispatch)
                || cpu.stage == Stage::SpinToIssue
                || cpu.left.is_some();
            cpu.heard.len() + cpu.given.len() + cpu.completing.len() + usize::from(issuing)
        };
        // With faults the device's queue is no measure: an I/O whose answer was lost is not in it,
        // and a stale answer is, although its I/O has ended.
        let at_device = self.fate.as_ref().map_or(self.device.len(), |fate| fate.out());
        (self.cpus.iter().map(of).sum::<usize>() + at_device) as u64
    }
}

/// CPUs that completed anything.
fn handlers(cpus: &[CpuTimes]) -> u32 {
    let completes = |cpu: &&CpuTimes| cpu.of(|stage| stage == Stage::Complete) > Time::ZERO;
    cpus.iter().filter(completes).count() as u32
}

/// Power of a CPU in each [`State`].
fn watts(power: &description::Power) -> [Power; 4] {
    [power.idle_w, power.poll_w, power.spin_w, power.busy_w].map(Power::from_w)
}

/// Rows of a CPU by stage; its meter knows states of power alone.
fn post(
    ledger: &mut Ledger,
    number: usize,
    times: &[u64; Stage::ALL.len()],
    metered: &[u64; 4],
    power: &description::Power,
) {
    let watts = watts(power);
    // Meter and rows come from two counts of time (state changes and stages): a stage that forgets
    // to post its time unbalances the ledger.
    let states = watts.iter().zip(metered);
    let meter = Meter {
        time: Time(metered.iter().sum()),
        energy: states.map(|(&watts, &time)| watts * Time(time)).sum(),
    };
    let component = ledger.component(format!("cpu{number}"), meter);
    for (&stage, &time) in Stage::ALL.iter().zip(times) {
        let state: State = stage.state();
        let row = Row { time: Time(time), energy: watts[state as usize] * Time(time) };
        let cause = Cause { mode: stage.mode(), reason: stage.name() };
        ledger.post(component, halfwink_engine::State(state.name()), cause, row);
    }
}

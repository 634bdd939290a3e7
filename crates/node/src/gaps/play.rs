//! An idle policy in the gaps of a recording.

use halfwink_engine::Histogram;
use halfwink_techniques::node::{Idler, Machine, MakeIdler, Plan};
use halfwink_units::{Energy, Power, Time};

use super::judge::{Judge, Verdict};
use super::together::{of_parts, Span, Together};
use super::{Cpu, Gap, Recording};
use crate::governor::{Governor, Hindsight, Resting};
use crate::run::RunError;
use crate::source::{between, rank};

/// Result of a policy in all gaps.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Gaps by verdict: right, too shallow, too deep.
    pub count: [u64; 3],
    /// Gaps in which it chose first what the kernel chose, of those where that is known.
    pub agrees: u64,
    /// Energy beyond the best state of each gap, by verdict; none is counted where it was right.
    pub lost: [Energy; 3],
    /// Energy of the CPUs in gaps, with wake-ups and ticks.
    pub energy: Energy,
    /// Time in each idle state, `poll` first.
    pub states: Vec<Time>,
    /// Time in which CPUs wake.
    pub waking: Time,
    /// Ticks that woke an idle CPU.
    pub ticks: u64,
    /// Time that what ends a gap waits for the CPU to wake.
    pub latency: Histogram,
    /// Gaps that were over before the CPU had slept: it was still waking from the one before.
    pub swallowed: u64,
    /// Sleep of what CPUs share, if the policy lets it.
    pub package: Option<Together>,
}

impl Outcome {
    fn new(machine: &Machine) -> Outcome {
        Outcome { states: vec![Time::ZERO; machine.states.len()], ..Outcome::default() }
    }

    /// Counts a gap in which `first` was chosen first, and that took so much energy.
    fn judge(&mut self, by: &Judge, first: usize, (length, rank): (Time, f64), spent: Energy) {
        let verdict = by.verdict(first, length);
        self.count[verdict as usize] += 1;
        if verdict != Verdict::Right {
            let (least, _) = by.least(length, rank);
            self.lost[verdict as usize] += Energy(spent.0.saturating_sub(least.0));
        }
    }

    fn add(&mut self, other: &Outcome) {
        for n in 0..self.count.len() {
            self.count[n] += other.count[n];
            self.lost[n] += other.lost[n];
        }
        self.agrees += other.agrees;
        self.energy += other.energy;
        for (all, one) in self.states.iter_mut().zip(&other.states) {
            *all += *one;
        }
        self.waking += other.waking;
        self.ticks += other.ticks;
        self.latency.add(&other.latency);
        self.swallowed += other.swallowed;
    }
}

/// Time to leave a state.
fn wake(machine: &Machine, state: usize, rank: f64) -> Time {
    between(machine.states[state].wake, || rank)
}

/// Number of a gap among all, which draws the same wake-up under every policy.
fn id(cpu: u32, gap: usize) -> u64 {
    // A recording of days has fewer than 2^40 gaps, so no two gaps have one number.
    u64::from(cpu) << 40 | gap as u64
}

/// States that a policy chooses from.
fn own(idler: &Idler) -> Vec<usize> {
    match idler {
        Idler::Gate { rests, .. } => rests.clone(),
        Idler::Rest { depths, .. } => depths.to_vec(),
    }
}

/// Energy of the best state in every gap, known beforehand: what no policy can go below with the
/// states on sale.
#[must_use]
pub fn best(machine: &Machine, recording: &Recording) -> Outcome {
    let judge = Judge::new(machine, &[]);
    let mut found = Outcome::new(machine);
    for cpu in &recording.cpus {
        for (n, gap) in cpu.gaps.iter().enumerate() {
            let rank = rank(id(cpu.number, n));
            let (energy, state) = judge.least(gap.length(), rank);
            found.energy += energy;
            let wake = wake(machine, state, rank);
            found.states[state] += gap.length() - wake;
            found.waking += wake;
            found.count[Verdict::Right as usize] += 1;
            found.latency.record(Time::ZERO);
        }
    }
    found
}

/// Plays the states that the kernel chose; gaps without one, or with one that `kernel` does not
/// have, are left out.
#[must_use]
pub fn recorded(machine: &Machine, recording: &Recording, kernel: &[usize]) -> Outcome {
    let judge = Judge::new(machine, kernel);
    let mut found = Outcome::new(machine);
    for cpu in &recording.cpus {
        for (n, gap) in cpu.gaps.iter().enumerate() {
            let Some(&state) = gap.state.and_then(|number| kernel.get(usize::from(number))) else {
                continue;
            };
            let (length, rank) = (gap.length(), rank(id(cpu.number, n)));
            let wake = wake(machine, state, rank);
            let spent = machine.states[state].power * length + machine.waking * wake;
            found.judge(&judge, state, (length, rank), spent);
            // The kernel agrees with itself: the share is comparable with that of policies.
            found.agrees += 1;
            found.energy += spent;
            found.states[state] += length;
            found.waking += wake;
            found.latency.record(wake);
        }
    }
    found
}

/// Plays a policy for each CPU in the gaps of a recording; `kernel` has the machine's states by
/// their numbers in the kernel that was recorded.
///
/// # Errors
/// If the policy asks for what a core cannot do, or the machine has no such package state.
pub fn play(
    machine: &Machine,
    recording: &Recording,
    kernel: &[usize],
    plan: &Plan,
    make: MakeIdler,
) -> Result<Outcome, RunError> {
    let package =
        match &plan.package {
            Some(name) => Some(machine.package(name).ok_or_else(|| {
                RunError::Plan(format!("the machine has no package state `{name}`"))
            })?),
            None => None,
        };
    let needs = package.as_ref().map(|package| package.needs);
    let mut all = Outcome::new(machine);
    let mut deep: Vec<Vec<Span>> = Vec::new();
    for (n, cpu) in recording.cpus.iter().enumerate() {
        let idler = make(n);
        let mut player = Player {
            machine,
            judge: Judge::new(machine, &own(&idler)),
            governor: Governor::new(idler),
            ready: Time::ZERO,
            needs,
            deep: Vec::new(),
            kernel,
            found: Outcome::new(machine),
        };
        player.cpu(cpu)?;
        deep.push(player.deep);
        all.add(&player.found);
    }
    if let Some(package) = package {
        let parts = deep.iter().map(Vec::as_slice).collect();
        all.package = Some(of_parts(parts, |span| *span, package.enter));
    }
    Ok(all)
}

struct Player<'a> {
    machine: &'a Machine,
    judge: Judge,
    governor: Governor,
    /// Time at which the CPU had woken from the gap before.
    ready: Time,
    /// State from which on a rest lets what CPUs share sleep.
    needs: Option<usize>,
    deep: Vec<Span>,
    /// The machine's states by their numbers in the kernel.
    kernel: &'a [usize],
    found: Outcome,
}

impl Player<'_> {
    fn cpu(&mut self, cpu: &Cpu) -> Result<(), RunError> {
        for (n, gap) in cpu.gaps.iter().enumerate() {
            self.gap(gap, rank(id(cpu.number, n)))?;
        }
        Ok(())
    }

    fn gap(&mut self, gap: &Gap, rank: f64) -> Result<(), RunError> {
        let begin = gap.begin.max(self.ready);
        // The CPU still woke when the gap began, and work came before it could rest: no policy was
        // asked.
        if begin >= gap.end {
            self.found.swallowed += 1;
            self.found.latency.record(begin - gap.end);
            return Ok(());
        }
        let before = self.found.energy;
        let mut since = begin;
        let mut rest = self.governor.begin(since)?;
        let first = rest.state;
        loop {
            if rest.due >= gap.end {
                self.end(since, rest, gap.end, rank)?;
                break;
            }
            let due = rest.due;
            self.rested(rest.state, since, due);
            if !rest.wakes {
                since = due;
                rest = self.governor.ring(due, rest.state)?;
                continue;
            }
            let ready = self.woke(rest.state, due, rank);
            self.governor.ticked(ready);
            since = ready + self.machine.tick_work;
            self.found.ticks += 1;
            self.found.energy += self.machine.active * self.machine.tick_work;
            // The work came while the CPU woke for the tick or served it, and waits for the end of
            // that.
            if since >= gap.end {
                self.ready = since;
                self.found.latency.record(since - gap.end);
                break;
            }
            rest = self.governor.begin(since)?;
        }
        let chosen = gap.state.and_then(|number| self.kernel.get(usize::from(number)));
        self.found.agrees += u64::from(chosen == Some(&first));
        let spent = self.found.energy - before;
        self.found.judge(&self.judge, first, (gap.end - begin, rank), spent);
        Ok(())
    }

    /// Work comes at `at` for a CPU that rests.
    fn end(&mut self, since: Time, rest: Resting, at: Time, rank: f64) -> Result<(), RunError> {
        // An oracle gates and wakes in hindsight: only now is it known how the rest divides.
        if let Some(Hindsight { gate, wake }) = self.governor.end(at)? {
            let gated = self.governor.gated();
            self.rested(rest.state, since, gate);
            self.rested(gated, gate.max(since), wake);
            self.found.waking += at - wake;
            self.found.energy += self.machine.waking * (at - wake);
            self.found.latency.record(Time::ZERO);
            self.ready = at;
            return Ok(());
        }
        self.rested(rest.state, since, at);
        let ready = self.woke(rest.state, at, rank);
        self.governor.woken(ready)?;
        self.found.latency.record(ready - at);
        self.ready = ready;
        Ok(())
    }

    fn rested(&mut self, state: usize, from: Time, to: Time) {
        let span = to.saturating_sub(from);
        self.found.states[state] += span;
        self.found.energy += self.machine.states[state].power * span;
        if self.needs.is_some_and(|needs| state >= needs) {
            match self.deep.last_mut() {
                // Two rests of one gap are one span of the package.
                Some((_, end)) if *end == from => *end = to,
                _ => self.deep.push((from, to)),
            }
        }
    }

    /// The CPU leaves a state from `at` on; when it runs.
    fn woke(&mut self, state: usize, at: Time, rank: f64) -> Time {
        let span = wake(self.machine, state, rank);
        self.found.waking += span;
        self.found.energy += self.machine.waking * span;
        at + span
    }
}

/// Watts that a package in its state takes less than an awake one, of what all sockets share.
#[must_use]
pub fn package_saves(machine: &Machine, name: &str) -> Option<Power> {
    let package = machine.package(name)?;
    let parts = machine.spec().shared.iter().zip(&package.shares);
    Some(Power::from_w(parts.map(|(part, share)| part.awake_w * (1.0 - share)).sum()))
}

#[cfg(test)]
pub(super) mod tests;

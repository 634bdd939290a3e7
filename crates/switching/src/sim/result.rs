//! What a run leaves: amounts, shares of time, idle times, books that balance.

use halfwink_engine::confidence::{Estimate, Piece};
use halfwink_engine::{Cause, Closed, Imbalance, Ledger, Meter, Mode, Row, State};
use halfwink_units::{Power, Time};

use super::core::{Account, Core};
use crate::accounting::Metered;
use crate::model::CoreKind;
use crate::profile::Workload;

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Simulated time, in seconds.
    pub seconds: f64,
    /// Units of work done.
    pub units: u64,
    /// Amount in the reported interval, in the workload's unit.
    pub amount: f64,
    /// Power of all cores, in watts, with its confidence interval.
    pub power_w: Estimate,
    /// Units of work each second, with its confidence interval.
    pub units_per_s: Estimate,
    /// Pieces of the run, to compare with those of another kernel: work is units.
    pub pieces: Vec<Piece>,
    /// Cores, application cores first.
    pub cores: Vec<CoreResult>,
    /// Calls made and moved.
    pub calls: Vec<CallCount>,
    /// Ledger of the run.
    pub ledger: Closed,
}

/// One core of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreResult {
    /// Name of the core (`app0`, `os0`).
    pub name: String,
    /// User mode, in percent of the time.
    pub user_pct: f64,
    /// Share of time in system calls.
    pub call_pct: f64,
    /// Switching to and from other cores.
    pub switch_pct: f64,
    /// Interrupt handlers and ticks.
    pub interrupt_pct: f64,
    /// Share of time powering up.
    pub waking_pct: f64,
    /// Share of time idle, up or powered down.
    pub idle_pct: f64,
    /// Powered down, of the idle time.
    pub off_pct: f64,
    /// Times it was powered up.
    pub wakes: u64,
    /// Each system call, in percent of the time.
    pub by_call_pct: Vec<f64>,
    /// Idle time as the instrument records it, in seconds of the simulated time.
    pub recorded_idle_s: f64,
    /// Number of recorded idle periods.
    pub idle_periods: u64,
    /// Energy of the core, in joules.
    pub energy_j: f64,
}

/// Number of times that a call was made and moved.
#[derive(Clone, Debug, PartialEq)]
pub struct CallCount {
    /// Name of the call.
    pub name: String,
    /// Number of times it was made.
    pub made: u64,
    /// Times it ran on an OS core.
    pub moved: u64,
}

impl Run {
    /// Energy of all cores, in joules.
    #[must_use]
    pub fn energy_j(&self) -> f64 {
        self.cores.iter().map(|core| core.energy_j).sum()
    }

    /// Work per joule, in the workload's unit.
    #[must_use]
    pub fn amount_per_joule(&self, workload: &Workload) -> f64 {
        self.units as f64 * workload.unit_amount / self.energy_j()
    }

    /// Metered time of the whole run that this one stands for, in seconds: the time of its fixed
    /// work, or its fixed time, and what is metered beyond.
    #[must_use]
    pub fn elapsed_s(&self, workload: &Workload) -> f64 {
        let work_s = workload
            .fixed_amount
            .map(|amount| workload.per_seconds * amount / self.amount)
            .or(workload.fixed_s)
            .unwrap_or(self.seconds);
        work_s + workload.metered_beyond_s
    }

    /// Returns the inputs of accounts, with idle times as recorded (`true`) or exact.
    #[must_use]
    pub fn metered(&self, workload: &Workload, recorded: bool) -> Metered {
        let elapsed_s = self.elapsed_s(workload);
        let scale = elapsed_s / self.seconds;
        let idle_s = |core: Option<&CoreResult>| {
            core.map_or(0.0, |core| match recorded {
                true => core.recorded_idle_s * scale,
                false => core.idle_pct / 100.0 * elapsed_s,
            })
        };
        let os = self.cores.iter().find(|core| core.name.starts_with("os"));
        Metered {
            elapsed_s,
            idle_app_s: idle_s(self.cores.first()),
            idle_os_s: idle_s(os),
            wakes: self.cores.first().map_or(0.0, |core| core.idle_periods as f64 * scale),
        }
    }
}

/// Closes the books of the cores.
pub(super) fn close(
    cores: &[(String, &CoreKind, &Core)],
    end: Time,
) -> Result<(Closed, Vec<CoreResult>), Imbalance> {
    let mut ledger = Ledger::new();
    let mut results = Vec::new();
    for (name, kind, core) in cores {
        let (active, off) = (Power::from_w(kind.active_w), Power::from_w(kind.idle_w));
        let up = kind.up_w.map_or(active, Power::from_w);
        let asleep = core.sleep.asleep;
        let idle = end.saturating_sub(core.busy).saturating_sub(asleep);
        let energy = active * core.busy + off * asleep + up * idle;
        let id = ledger.component(name.clone(), Meter { time: end, energy });
        for (account, mode, reason) in ROWS {
            let time = core.booked[account as usize];
            let (state, power) = match account {
                Account::Idle => ("idle", up),
                Account::Off => ("off", off),
                Account::Waking => ("waking", active),
                _ => ("active", active),
            };
            let row = Row { time, energy: power * time };
            ledger.post(id, State(state), Cause { mode, reason }, row);
        }
        let pct = |time: Time| 100.0 * time.as_s() / end.as_s();
        let of = |account: Account| pct(core.booked[account as usize]);
        results.push(CoreResult {
            name: name.clone(),
            user_pct: of(Account::User),
            call_pct: of(Account::Call),
            switch_pct: of(Account::Switch),
            interrupt_pct: of(Account::Interrupt) + of(Account::Tick),
            waking_pct: of(Account::Waking),
            idle_pct: of(Account::Idle) + of(Account::Off),
            off_pct: of(Account::Off),
            wakes: core.sleep.wakes,
            by_call_pct: core.by_call.iter().map(|&time| pct(time)).collect(),
            recorded_idle_s: core.idle.lower_bound_s(),
            idle_periods: core.idle.periods,
            energy_j: energy.as_j(),
        });
    }
    Ok((ledger.close(end)?, results))
}

const ROWS: [(Account, Mode, &str); 8] = [
    (Account::User, Mode::User, "work"),
    (Account::Call, Mode::Kernel, "call"),
    (Account::Switch, Mode::Kernel, "core-switch"),
    (Account::Interrupt, Mode::Kernel, "interrupt"),
    (Account::Tick, Mode::Kernel, "tick"),
    (Account::Waking, Mode::Kernel, "power-up"),
    (Account::Idle, Mode::Idle, "no-work"),
    (Account::Off, Mode::Idle, "no-work"),
];

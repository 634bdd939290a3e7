//! Runs of programs as tables.

use halfwink_switching::{CoreResult, Run};

use super::Cell;
use crate::table::{real, text, Head, Table, Value};

/// The columns that identify a program's run.
const KEY: [Head; 4] = [text("workload"), text("variant"), text("configuration"), text("kernel")];

/// Columns of a core.
pub(super) const CORES: [Head; 10] = [
    text("core"),
    real("user_pct"),
    real("call_pct"),
    real("switch_pct"),
    real("interrupt_pct"),
    real("waking_pct"),
    real("idle_pct"),
    real("off_pct"),
    real("recorded_idle_pct"),
    real("wakes_per_s"),
];

const RUNS: [Head; 5] = [
    real("amount"),
    text("amount_unit"),
    real("unit_ns"),
    real("power_w"),
    real("amount_per_joule"),
];

const CALLS: [Head; 5] =
    [text("call"), real("made_per_s"), real("moved_per_s"), real("app_pct"), real("os_pct")];

fn key(cell: &Cell) -> Vec<Value> {
    vec![
        cell.workload.name.clone().into(),
        cell.workload.variant.clone().into(),
        cell.configuration.into(),
        cell.kernel.into(),
    ]
}

pub(super) fn runs_table(done: &[(&Cell, &Run)]) -> Table {
    let mut table = Table::new(&[&KEY[..], &RUNS].concat());
    for (cell, run) in done {
        let mut row = key(cell);
        row.extend([
            run.amount.into(),
            cell.workload.amount_unit.clone().into(),
            (run.seconds * 1e9 / run.units as f64).into(),
            (run.energy_j() / run.seconds).into(),
            run.amount_per_joule(cell.workload).into(),
        ]);
        table.push(row);
    }
    table
}

/// A row of [`CORES`].
pub(super) fn core_values(core: &CoreResult, run: &Run) -> [Value; 10] {
    [
        core.name.clone().into(),
        core.user_pct.into(),
        core.call_pct.into(),
        core.switch_pct.into(),
        core.interrupt_pct.into(),
        core.waking_pct.into(),
        core.idle_pct.into(),
        core.off_pct.into(),
        (100.0 * core.recorded_idle_s / run.seconds).into(),
        (core.wakes as f64 / run.seconds).into(),
    ]
}

pub(super) fn cores_table(done: &[(&Cell, &Run)]) -> Table {
    let mut table = Table::new(&[&KEY[..], &CORES].concat());
    for (cell, run) in done {
        for core in &run.cores {
            let mut row = key(cell);
            row.extend(core_values(core, run));
            table.push(row);
        }
    }
    table
}

pub(super) fn calls_table(done: &[(&Cell, &Run)]) -> Table {
    let mut table = Table::new(&[&KEY[..], &CALLS].concat());
    for (cell, run) in done {
        for (n, call) in run.calls.iter().enumerate() {
            let on = |os: bool| -> f64 {
                let of = run.cores.iter().filter(|core| core.name.starts_with("os") == os);
                of.map(|core| core.by_call_pct[n]).sum()
            };
            let mut row = key(cell);
            row.extend([
                call.name.clone().into(),
                (call.made as f64 / run.seconds).into(),
                (call.moved as f64 / run.seconds).into(),
                on(false).into(),
                on(true).into(),
            ]);
            table.push(row);
        }
    }
    table
}

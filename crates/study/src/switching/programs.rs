//! Runs of programs as tables.

use halfwink_switching::Run;

use super::Cell;
use crate::table::{Table, Value};

fn key(cell: &Cell) -> Vec<Value> {
    vec![
        cell.workload.name.clone().into(),
        cell.workload.variant.clone().into(),
        cell.configuration.into(),
        cell.kernel.into(),
    ]
}

pub(super) fn runs_table(done: &[(&Cell, &Run)]) -> Table {
    let mut table = Table::new(&[
        "workload",
        "variant",
        "configuration",
        "kernel",
        "amount",
        "amount_unit",
        "unit_ns",
        "power_w",
        "amount_per_joule",
    ]);
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

pub(super) fn cores_table(done: &[(&Cell, &Run)]) -> Table {
    let mut table = Table::new(&[
        "workload",
        "variant",
        "configuration",
        "kernel",
        "core",
        "user_pct",
        "call_pct",
        "switch_pct",
        "interrupt_pct",
        "waking_pct",
        "idle_pct",
        "off_pct",
        "recorded_idle_pct",
        "wakes_per_s",
    ]);
    for (cell, run) in done {
        for core in &run.cores {
            let mut row = key(cell);
            row.extend([
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
            ]);
            table.push(row);
        }
    }
    table
}

pub(super) fn calls_table(done: &[(&Cell, &Run)]) -> Table {
    let mut table = Table::new(&[
        "workload",
        "variant",
        "configuration",
        "kernel",
        "call",
        "made_per_s",
        "moved_per_s",
        "app_pct",
        "os_pct",
    ]);
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

//! Energy of single cores and of cores with an OS core, under every accounting.

use halfwink_switching::accounting::{self, OsCore};
use halfwink_switching::{Run, Workload};

use super::{Cell, SwitchingInfo};
use crate::table::{real, text, Table};

impl SwitchingInfo {
    /// Runs on a single core, and on the same core with an OS core, under all accountings.
    pub(super) fn accounts(&self, done: &[(&Cell, &Run)]) -> Table {
        let mut table = Table::new(&[
            text("workload"),
            text("variant"),
            text("accounting"),
            text("idle"),
            real("os_core_w"),
            real("rate"),
            real("elapsed_s"),
            real("idle_app_s"),
            real("idle_os_s"),
            real("energy_j"),
            real("merit"),
            real("work_per_joule"),
        ]);
        let spec = self.model.spec();
        for workload in spec.workloads.iter().filter(|_| !spec.os_core_w.is_empty()) {
            let of = |n: usize, kernel: Option<&String>| {
                let configuration = workload.configurations.get(n)?;
                let is = |c: &Cell| {
                    // By identity: two workloads may have one name and differ in their variant.
                    std::ptr::eq(c.workload, workload)
                        && c.configuration == configuration
                        && Some(c.kernel) == kernel.map(String::as_str)
                };
                done.iter().find(|(cell, _)| is(cell)).map(|(_, run)| *run)
            };
            let unmod = "unmod".to_owned();
            let (Some(single), Some(dual)) = (of(0, Some(&unmod)), of(1, workload.kernels.last()))
            else {
                continue;
            };
            for recorded in [true, false] {
                self.account(&mut table, workload, [single, dual], recorded);
            }
        }
        table
    }

    fn account(
        &self,
        table: &mut Table,
        workload: &Workload,
        [single, dual]: [&Run; 2],
        recorded: bool,
    ) {
        let mut push = |name: &str, os_w: Option<f64>, run: &Run, joules: f64| {
            let metered = run.metered(workload, recorded);
            let elapsed_s = metered.elapsed_s;
            let work =
                accounting::work_per_joule(run.amount, workload.per_seconds, elapsed_s, joules);
            table.push(vec![
                workload.name.clone().into(),
                workload.variant.clone().into(),
                name.into(),
                if recorded { "recorded" } else { "exact" }.into(),
                os_w.into(),
                run.amount.into(),
                elapsed_s.into(),
                metered.idle_app_s.into(),
                metered.idle_os_s.into(),
                joules.into(),
                accounting::merit(run.amount, joules).into(),
                work.into(),
            ]);
        };
        let watts = self.watts(0.0);
        let (one, two) = (single.metered(workload, recorded), dual.metered(workload, recorded));
        // The published accounts do not charge for waking up: Tables 5 to 7 leave no room for it.
        let unwoken = accounting::Metered { wakes: 0.0, ..two };
        let always_j = accounting::single_always_on_j(watts, one.elapsed_s);
        push("single-always-on", None, single, always_j);
        push("single-gated", None, single, accounting::single_gated_j(watts, one));
        push("dual-gated", None, dual, accounting::dual_gated_j(watts, two));
        for &os_w in &self.model.spec().os_core_w {
            let watts = self.watts(os_w);
            let (always, gated) = (OsCore::AlwaysOn, OsCore::Gated);
            let published_j = accounting::with_os_core_j(watts, unwoken, always);
            push(always.name(), Some(os_w), dual, published_j);
            let gated_j = accounting::with_os_core_j(watts, two, gated);
            push(gated.name(), Some(os_w), dual, gated_j);
        }
    }

    /// Printed rows, accounted for again.
    pub(super) fn printed(&self) -> Table {
        let mut table = Table::new(&[
            text("workload"),
            text("variant"),
            text("accounting"),
            text("idle"),
            real("os_core_w"),
            real("elapsed_single_s"),
            real("elapsed_s"),
            real("idle_app_s"),
            real("idle_os_s"),
            real("energy_j"),
            real("merit"),
            real("break_even_merit_w"),
            real("break_even_energy_w"),
        ]);
        for row in &self.model.spec().printed {
            let found = row.forensic(self.watts(0.0));
            for (idle, run) in [("recorded", found.recorded), ("corrected", found.corrected)] {
                let mut push = |name: &str, os_w: Option<f64>, joules: f64, merit: Option<f64>| {
                    table.push(vec![
                        row.workload.clone().into(),
                        row.variant.clone().into(),
                        name.into(),
                        idle.into(),
                        os_w.into(),
                        found.elapsed_single_s.into(),
                        run.elapsed_s.into(),
                        run.idle_app_s.into(),
                        run.idle_os_s.into(),
                        joules.into(),
                        merit.into(),
                        found.break_even_merit_w.into(),
                        found.break_even_energy_w.into(),
                    ]);
                };
                let merit = row.rate_single.map(|rate| accounting::merit(rate, found.single_j));
                push("single-always-on", None, found.single_j, merit);
                for &os_w in &self.model.spec().os_core_w {
                    for os in [OsCore::AlwaysOn, OsCore::Gated] {
                        let (joules, merit) = row.with_os_core(self.watts(os_w), run, os);
                        push(os.name(), Some(os_w), joules, merit);
                    }
                }
            }
        }
        table
    }

    /// Whole systems, and what each printed row gains or loses them with an OS core (E4.9).
    pub(super) fn systems(&self) -> Table {
        let mut table = Table::new(&[
            text("system"),
            real("total_w"),
            real("cpu_w"),
            real("largest_other_w"),
            text("workload"),
            text("variant"),
            real("os_core_w"),
            real("gain_j"),
        ]);
        let spec = self.model.spec();
        for system in &spec.systems {
            for row in &spec.printed {
                let found = row.forensic(self.watts(0.0));
                let longer_s = found.recorded.elapsed_s - found.elapsed_single_s;
                for &os_w in &spec.os_core_w {
                    let watts = self.watts(os_w);
                    let (joules, _) = row.with_os_core(watts, found.recorded, OsCore::AlwaysOn);
                    let (gain_j, rest_w) = (found.single_j - joules, system.total_w - system.cpu_w);
                    table.push(vec![
                        system.name.clone().into(),
                        system.total_w.into(),
                        system.cpu_w.into(),
                        system.largest_other_w().into(),
                        row.workload.clone().into(),
                        row.variant.clone().into(),
                        os_w.into(),
                        accounting::system_gain_j(gain_j, rest_w, longer_s).into(),
                    ]);
                }
            }
        }
        table
    }

    pub(super) fn catalogue(&self) -> Table {
        let mut table = Table::new(&[text("core"), real("ipc_per_watt"), real("ipc_per_area")]);
        for core in &self.model.spec().catalogue {
            let (per_watt, per_area) = (core.ipc / core.average_w, core.ipc / core.area);
            table.push(vec![core.name.clone().into(), per_watt.into(), per_area.into()]);
        }
        table
    }
}

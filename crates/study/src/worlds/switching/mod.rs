//! Models of core switching by name, and answers about them as tables.

mod energy;
mod job;
mod programs;

pub use job::Switching;

use halfwink_engine::Input;
use halfwink_switching::accounting::{self, Watts};
use halfwink_switching::{
    calibrate_mechanism, calibrate_workload, run, Configuration, Kernel, Model, ModelError, Run,
    RunError, Workload,
};

use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;
use crate::table::{integer, real, text, Table};
use programs::{calls_table, cores_table, runs_table};

/// The folder of models of core switching in the library.
const FOLDER: &str = "machines/switching";
/// Power-up delays of the table of costs, in cycles of the core: none, that of the circuit (Strong
/// 2013, Sec 3.3.1), those of Table 3.7.
const POWER_UPS: [f64; 4] = [0.0, 50.0, 250.0, 1000.0];
/// The seed of every run.
const SEED: u64 = 1;
/// Time to leave the powered-down state: 1000 cycles at 3 GHz (Mogul 2007, Sec 7.3).
const POWER_UP_CYCLES: f64 = 1000.0;
/// Factors by which kernel code may be slower on an OS core: EV5, EV6, EV8 over EV4 (Mogul 2007,
/// Table 1).
const SLOWDOWNS: [f64; 4] = [1.0, 1.3, 1.87, 2.14];

/// A model of core switching, read.
#[derive(Clone, Debug)]
pub struct SwitchingInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The model of core switching.
    pub model: Model,
    input: Input,
}

impl Library {
    /// Reads a model of core switching: `alpha`, or a file ending in `.toml`; then sets `values`
    /// (path, value).
    ///
    /// # Errors
    /// If there is none of that name, or it is impossible.
    pub fn switching(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<SwitchingInfo, StudyError> {
        let path = self.find_named(FOLDER, "switching model", name)?;
        let values = values.iter().map(|(path, value)| (path.as_str(), value));
        let input = self.described(&path, values, &[])?;
        let at = |e: ModelError| input.error_at_key(&e.element, &e.message);
        let model = Model::new(input.parse()?).map_err(at)?;
        Ok(SwitchingInfo { name: name.to_owned(), model, input })
    }

    /// Names of the models of core switching.
    #[must_use]
    pub fn switchings(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }
}

/// A workload on a configuration with a kernel.
struct Cell<'a> {
    workload: &'a Workload,
    configuration: &'a str,
    kernel: &'a str,
}

impl SwitchingInfo {
    /// The description, with the values that were set.
    pub(crate) fn text(&self) -> &str {
        &self.input.text
    }

    fn at(&self, error: &ModelError) -> StudyError {
        self.input.error_at_key(&error.element, &error.message).into()
    }

    fn failed(&self, error: &RunError) -> StudyError {
        match error {
            RunError::Model(error) => self.at(error),
            RunError::Interrupted(_) => StudyError::Interrupted,
            RunError::Books(_) | RunError::StuckTimer(_) => StudyError::Model(error.to_string()),
        }
    }

    /// Everything, as tables by name.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `costs` | an empty call on a configuration with a kernel and a power-up delay |
    /// | `runs` | a workload on a configuration with a kernel: amount, power, work per joule |
    /// | `cores` | a core of such a run: shares of its time, idle time as recorded and exact |
    /// | `calls` | a call of such a run: how often it was made and moved, its time on each core |
    /// | `accounts` | a run under one of the accountings, with a power of the OS core |
    /// | `printed` | a printed row under one of the accountings |
    /// | `systems` | a whole system, and what a printed row means for it (E4.9) |
    /// | `catalogue` | a kind of core: performance by power and area |
    /// | `facts` | a value (misses of caches, break-even lengths) |
    ///
    /// # Errors
    /// If something of the description is not there.
    pub fn tables(&self) -> Result<Vec<(&'static str, Table)>, StudyError> {
        let cells = self.cells()?;
        let runs = self.run_all(&cells)?;
        let done: Vec<(&Cell, &Run)> = cells.iter().zip(&runs).collect();
        Ok(vec![
            ("costs", self.costs()?),
            ("runs", runs_table(&done)),
            ("cores", cores_table(&done)),
            ("calls", calls_table(&done)),
            ("accounts", self.accounts(&done)),
            ("printed", self.printed()),
            ("systems", self.systems()),
            ("catalogue", self.catalogue()),
            ("facts", self.facts()),
        ])
    }

    fn cells(&self) -> Result<Vec<Cell<'_>>, StudyError> {
        let mut cells = Vec::new();
        for workload in &self.model.spec().workloads {
            for configuration in &workload.configurations {
                let found = self.model.configuration(configuration).map_err(|e| self.at(&e))?;
                for kernel in &workload.kernels {
                    if kernel == "unmod" || !found.os.is_empty() {
                        cells.push(Cell { workload, configuration, kernel });
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Runs cells side by side; each is the same whatever runs beside it.
    fn run_all(&self, cells: &[Cell]) -> Result<Vec<Run>, StudyError> {
        let one = |cell: &Cell| {
            let kernel = Kernel::named(cell.kernel);
            run(&self.model, cell.workload, cell.configuration, &kernel, SEED)
        };
        let runs = parallel(cells, one).into_iter();
        runs.map(|run| run.map_err(|error| self.failed(&error))).collect()
    }

    /// Cost of an empty call that switches twice, in nanoseconds.
    ///
    /// # Errors
    /// If a version is not there.
    pub fn costs(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[
            text("configuration"),
            text("kernel"),
            real("power_up_cycles"),
            real("ns"),
            integer("races_lost"),
        ]);
        let two = |c: &&Configuration| !c.os.is_empty();
        for configuration in self.model.spec().configurations.iter().filter(two) {
            let versions = self.model.spec().mechanism.versions.keys().map(|v| Some(v.as_str()));
            for version in std::iter::once(None).chain(versions) {
                for cycles in POWER_UPS {
                    let found = self.model.round_trip(version, configuration, cycles);
                    let trip = found.map_err(|e| self.at(&e))?;
                    let lost = u64::from(!trip.out.won) + u64::from(!trip.back.won);
                    table.push(vec![
                        configuration.name.clone().into(),
                        version.unwrap_or("none").into(),
                        cycles.into(),
                        trip.total_ns().into(),
                        lost.into(),
                    ]);
                }
            }
        }
        Ok(table)
    }

    fn watts(&self, os_w: f64) -> Watts {
        let spec = self.model.spec();
        let app = spec.configurations.first().and_then(|c| spec.cores.get(&c.app[0]));
        let (app_w, ghz) = app.map_or((0.0, 1.0), |core| (core.active_w, core.clock_ghz));
        Watts { app_w, os_w, power_up_s: POWER_UP_CYCLES / (ghz * 1e9) }
    }

    fn facts(&self) -> Table {
        let mut table = Table::new(&[text("fact"), real("value")]);
        let mut push = |fact: String, value: f64| table.push(vec![fact.into(), value.into()]);
        let spec = self.model.spec();
        for (name, shape) in &spec.l1 {
            push(format!("l1.{name}.instruction_misses"), shape.instruction_misses);
            push(format!("l1.{name}.data_misses"), shape.data_misses);
        }
        push("mechanism.ipi_handler_ns".to_owned(), spec.mechanism.ipi_handler_ns);
        push("power_up_cycles".to_owned(), POWER_UP_CYCLES);
        for (name, version) in &spec.mechanism.versions {
            let leg_s = version.leg_cycles / spec.reference_ghz * 1e-9;
            push(format!("mechanism.versions.{name}.leg_us"), leg_s * 1e6);
            for &os_w in &spec.os_core_w {
                for slowdown in SLOWDOWNS {
                    let found = accounting::break_even_call_s(self.watts(os_w), leg_s, slowdown);
                    // An OS core that draws more than it saves breaks even at no length.
                    if found.is_finite() {
                        push(format!("break_even_us.{name}.{os_w}_w.{slowdown}"), found * 1e6);
                    }
                }
            }
        }
        table
    }

    /// The fitted values, fitted again: path, value in the description, value of the fit.
    ///
    /// # Errors
    /// If nothing was observed that could be fitted to.
    pub fn calibrate(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[text("element"), real("value")]);
        let mut push = |element: String, value: f64| table.push(vec![element.into(), value.into()]);
        let spec = self.model.spec();
        if !spec.mechanism.observed.is_empty() {
            let fit = calibrate_mechanism(&self.model).map_err(|e| self.at(&e))?;
            fit.parameters.into_iter().for_each(|p| push(p.element, p.value));
            push("error_rms_pct".to_owned(), 100.0 * fit.error_rms);
            push("error_max_pct".to_owned(), 100.0 * fit.error_max);
        }
        for (n, workload) in spec.workloads.iter().enumerate() {
            if workload.fitted_to.is_some() {
                let solved = calibrate_workload(&self.model, workload);
                let solved = solved.map_err(|e| self.failed(&e))?;
                push(format!("workloads.{n}.demand.user_ns"), solved.user_ns);
                push(format!("workloads.{n}.demand.wait_ns"), solved.wait_ns);
                let worst = solved.rate_error.abs().max(solved.idle_error.abs());
                push(format!("workloads.{n}.error_pct"), 100.0 * worst);
            }
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::library;

    #[test]
    fn a_shipped_model_fills_its_tables() {
        let info = library().switching("alpha", &[]).unwrap();
        let costs = info.costs().unwrap();
        let (configurations, kernels) = (14, 6);
        assert_eq!(costs.len(), configurations * kernels * POWER_UPS.len());
        assert!(info.facts().len() > 6);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let complaint = |name: &str, path: &str, value: &str| {
            let values = [(path.to_owned(), value.to_owned())];
            library().switching(name, &values).unwrap_err().to_string()
        };
        assert!(complaint("alhpa", "schema", "1").contains("did you mean `alpha`"));
        let clock = complaint("alpha", "cores.simple.clock_ghz", "0");
        assert!(clock.contains("alpha.toml") && clock.contains("expected a number above 0"));
        let share = complaint("alpha", "mechanism.source_share", "1.5");
        assert!(share.contains("expected 0 to 1"), "{share}");
    }
}

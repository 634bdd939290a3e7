//! The experiments of Nellans 2014, ch. 6, on all machines of Table 6.2.

use halfwink_engine::RunControl;
use halfwink_storage::world::{Parts, Path};
use halfwink_techniques::Choice;

use super::job::{Load, OWN};
use super::StorageInfo;
use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;
use crate::table::{integer, real, text, Head, Table, Value};
use crate::world::Tables;

/// The machines, by sockets.
const MACHINES: [&str; 4] = ["sandybridge-e", "westmere-ep", "nehalem-ex", "westmere-ex"];
/// The machine of Figs 6.6 to 6.9: its first socket completes, and its second issues, so that the
/// CPUs that are counted are the driver's.
const ONE_SOCKET: &str = "westmere-ep";
/// The machine of Figs 6.10 to 6.15.
pub(super) const MANY_SOCKETS: &str = "westmere-ex";
/// I/Os before counting, and counted.
const IOS: u64 = 60_000;
/// Rates of Figs 6.6, 6.8 and 6.9, in thousands of I/Os a second.
const RATES: [f64; 20] = [
    10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 110.0, 120.0, 150.0, 200.0, 250.0,
    300.0, 350.0, 400.0, 450.0, 500.0,
];

/// The drivers that Figs 6.8 and 6.9 compare.
const DRIVERS: [(&str, &str); 3] =
    [("st", "single-thread"), ("mt-one-cpu", "same"), ("mt-one-socket", TURNS)];
/// The CPUs of the hearing one's socket by turns, itself left out; of I/Os that come back in order,
/// those of neighbouring tags follow each other. (`round-robin-socket` takes the issuer's socket.)
const TURNS: &str = "interleaved-tags:threads=5";

/// All machines, with the same values set.
pub(super) struct Bench {
    machines: Vec<StorageInfo>,
}

fn load() -> Load {
    Load { warm_up: IOS, ios: IOS, ..Load::default() }
}

impl Library {
    /// Returns what the work measured, as tables by name, with values set in every machine.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `queue` | a machine and a number of issuing CPUs, through the request queue: Fig 6.4 |
    /// | `parts` | parts of a completion that are left out: Sec 6.2.1 |
    /// | `rates` | a driver and a rate: Figs 6.6, 6.8, 6.9 |
    /// | `sockets` | a policy and a number of issuing CPUs: Figs 6.10, 6.11 |
    /// | `steps` | the same, with what one CPU more changed |
    /// | `issuers` | where the issuers of the single-threaded driver are: Sec 6.2.1 |
    /// | `peaks` | a driver at its largest rate: Table 6.3 |
    /// | `latencies` | a latency of the device: Table 6.1 |
    /// | `applications` | an application and a driver: Figs 6.12 to 6.15 |
    /// | `facts` | a value of a machine |
    ///
    /// # Errors
    /// If a value cannot be, or a run fails.
    pub fn storage_experiments(&self, set: &[(String, String)]) -> Result<Tables, StudyError> {
        let machines = MACHINES.iter().map(|name| self.storage(name, set));
        let bench = Bench { machines: machines.collect::<Result<_, _>>()? };
        // These come first: peaks and steps are taken from them.
        let (rates, sockets) = (bench.rates()?, bench.sockets()?);
        let peaks = bench.peaks(&rates, &sockets)?;
        Ok(vec![
            ("queue", bench.queue()?),
            ("parts", bench.parts()?),
            ("issuers", bench.issuers()?),
            ("latencies", bench.latencies()),
            ("applications", bench.applications()?),
            ("facts", bench.facts()),
            ("peaks", peaks),
            ("steps", bench.steps(&sockets)),
            ("rates", rates),
            ("sockets", sockets),
        ])
    }
}

impl Bench {
    pub(super) fn machine(&self, name: &str) -> &StorageInfo {
        self.machines.iter().find(|info| info.name == name).unwrap_or(&self.machines[0])
    }

    /// The request queue over a driver with nothing to do, by issuing CPUs (Fig 6.4).
    fn queue(&self) -> Result<Table, StudyError> {
        let heads = [&[text("machine"), integer("sockets")], &STEPS[..], &LAST].concat();
        let mut table = Table::new(&heads);
        // The block layer completes so, whichever driver is under it: no mutant replaces it.
        let policy = Choice::parse("storage", "issuer")?;
        let points: Vec<(&StorageInfo, u16)> = self
            .machines
            .iter()
            .flat_map(|info| (1..=info.machine.spec().topology.cpus()).map(move |n| (info, n)))
            .collect();
        let found = parallel(&points, |&(info, issuers)| {
            let load = Load { path: Path::Queue, issuers, warm_up: 5_000, ios: 20_000, ..load() };
            info.play(&policy, &load, &RunControl::new())
        });
        let mut before = None;
        for ((info, issuers), run) in points.iter().zip(found) {
            let run = run?;
            let (sockets, cores) = info.sockets();
            let mut row: Vec<Value> = vec![info.name.as_str().into(), u64::from(sockets).into()];
            row.extend(step(u64::from(*issuers), cores, run.iops(), &mut before));
            let interrupts: u64 = run.interrupts.iter().sum();
            row.push((interrupts as f64 / run.completed as f64).into());
            table.push(row);
        }
        Ok(table)
    }

    /// Measures what short-circuits leave (Sec 6.2.1), with issuers beside the CPU that takes the
    /// device's interrupts, in its socket.
    fn parts(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[text("parts"), real("iops"), real("us_per_io")]);
        let info = self.machine(ONE_SOCKET);
        let policy = info.choice("single-thread")?;
        let (_, cores) = info.sockets();
        for (name, parts) in [
            ("interrupt", Parts::InterruptOnly),
            ("structures", Parts::NoCompletion),
            ("all", Parts::All),
        ] {
            // Of the interrupt alone, five issuers are slower than it.
            let all = if parts == Parts::InterruptOnly { 2 * cores } else { cores };
            let load = Load { parts, first: 1, issuers: all - 1, ..load() };
            let run = info.play(&policy, &load, &RunControl::new())?;
            table.push(vec![name.into(), run.iops().into(), (1e6 / run.iops()).into()]);
        }
        Ok(table)
    }

    /// Measures the single-threaded driver with its issuers in different places (Sec 6.2.1).
    fn issuers(&self) -> Result<Table, StudyError> {
        let mut table = Table::new(&[text("issuers"), real("iops")]);
        let info = self.machine(ONE_SOCKET);
        let policy = info.choice("single-thread")?;
        let (_, cores) = info.sockets();
        for (name, first, issuers) in
            [("one-socket", 0, cores), ("both", 0, 2 * cores), ("the-other", cores, cores)]
        {
            let load = Load { first, issuers, ..load() };
            let run = info.play(&policy, &load, &RunControl::new())?;
            table.push(vec![name.into(), run.iops().into()]);
        }
        Ok(table)
    }

    /// Drivers on one socket by rate; a rate of 0 is as fast as it goes (Figs 6.6, 6.8, 6.9).
    fn rates(&self) -> Result<Table, StudyError> {
        let heads = [
            text("driver"),
            real("asked_kiops"),
            real("iops"),
            real("cpu_pct"),
            real("us_per_io"),
            real("latency_us"),
        ];
        let mut table = Table::new(&heads);
        let info = self.machine(ONE_SOCKET);
        let (_, cores) = info.sockets();
        let mut points = Vec::new();
        for (name, technique) in DRIVERS {
            let policy = info.choice(technique)?;
            points.extend(RATES.iter().chain(&[0.0]).map(|&rate| (name, policy.clone(), rate)));
        }
        let found = parallel(&points, |(name, policy, rate)| {
            // The single-threaded driver was measured with issuers in its own socket.
            let first = if *name == "mt-one-socket" { cores } else { 0 };
            let rate = (*rate > 0.0).then_some(1e3 * rate);
            let load = Load { issuers: cores, first, rate, ..load() };
            info.play(policy, &load, &RunControl::new())
        });
        for ((name, _, rate), run) in points.iter().zip(found) {
            let run = run?;
            table.push(vec![
                (*name).into(),
                (*rate).into(),
                run.iops().into(),
                (100.0 * run.driver_cpus()).into(),
                (1e6 * run.driver_cpus() / run.iops()).into(),
                run.latency.mean().map(|t| t.as_ns() * 1e-3).into(),
            ]);
        }
        Ok(table)
    }

    /// Policies by issuing CPUs (Figs 6.10, 6.11).
    fn sockets(&self) -> Result<Table, StudyError> {
        let info = self.machine(MANY_SOCKETS);
        let cpus = info.machine.spec().topology.cpus();
        let mut points = Vec::new();
        for policy in ["single-thread", "issuer", "cache-aware"] {
            let choice = info.choice(policy)?;
            points.extend((1..=cpus).map(|n| (policy, choice.clone(), n)));
        }
        let found =
            parallel(&points, |(policy, choice, issuers)| -> Result<Vec<Value>, StudyError> {
                let load = Load { issuers: *issuers, ..load() };
                let run = info.play(choice, &load, &RunControl::new())?;
                let mut row: Vec<Value> = vec![(*policy).into()];
                // The first column is the seed, which is the same in all rows.
                row.extend(info.own(&run, &load).into_iter().skip(1));
                Ok(row)
            });
        let mut table = Table::new(&[&[text("policy")], &OWN[1..]].concat());
        for row in found {
            table.push(row?);
        }
        Ok(table)
    }

    /// Tabulates the same by how many CPUs of the last socket issue, and what one more changed.
    fn steps(&self, sockets: &Table) -> Table {
        let mut table = Table::new(&[&[text("policy")], &STEPS[..], &COST].concat());
        let (_, cores) = self.machine(MANY_SOCKETS).sockets();
        let mut before = None;
        for row in 0..sockets.len() {
            let cell = |name| sockets.get(row, name).cloned().unwrap_or_else(|| 0.0.into());
            let issuers = number(sockets, row, "issuers") as u64;
            let mut cells = vec![cell("policy")];
            cells.extend(step(issuers, cores, number(sockets, row, "iops"), &mut before));
            cells.push(cell("driver_us_per_io"));
            table.push(cells);
        }
        table
    }

    /// Drivers at their largest rates (Table 6.3): one CPU or one socket by the driver's CPUs, many
    /// sockets by CPUs that issue.
    fn peaks(&self, rates: &Table, sockets: &Table) -> Result<Table, StudyError> {
        let heads = [text("driver"), real("iops"), real("cpus"), real("us_per_io")];
        let mut table = Table::new(&heads);
        let (_, cores) = self.machine(ONE_SOCKET).sockets();
        for (driver, cpus) in [("st", 1), ("mt-one-socket", cores)] {
            let (iops, _) = most(rates, "driver", driver, "asked_kiops")?;
            push(&mut table, driver, iops, f64::from(cpus));
        }
        for (driver, policy) in [("mt-naive", "issuer"), ("mt-cache-aware", "cache-aware")] {
            let (iops, cpus) = most(sockets, "policy", policy, "issuers")?;
            push(&mut table, driver, iops, cpus);
        }
        Ok(table)
    }

    fn facts(&self) -> Table {
        let mut table = Table::new(&[text("machine"), text("fact"), real("value")]);
        for info in &self.machines {
            let spec = info.machine.spec();
            let lines = &spec.coherence;
            let web = spec.applications.0.get("specweb2009");
            for (fact, value) in [
                ("sockets", f64::from(spec.topology.sockets)),
                ("cores_per_socket", f64::from(spec.topology.cores_per_socket)),
                ("l1_kb", spec.topology.l1_kb),
                ("l3_mb", spec.topology.l3_mb),
                ("working_set_mb", spec.driver.working_set_mb),
                ("interrupt_us", spec.driver.interrupt_us),
                ("ipi_us", info.machine.slower() * spec.driver.ipi_receive_us),
                ("specweb2009_threads", web.map_or(0.0, |it| f64::from(it.threads))),
                ("remote_ratio", lines.two_hops_ns / lines.same_socket_ns),
            ] {
                table.push(vec![info.name.as_str().into(), fact.into(), value.into()]);
            }
        }
        table
    }
}

fn push(table: &mut Table, driver: &str, iops: f64, cpus: f64) {
    table.push(vec![driver.into(), iops.into(), cpus.into(), (1e6 * cpus / iops).into()]);
}

/// Columns of a number of issuing CPUs.
const STEPS: [Head; 5] =
    [integer("issuers"), integer("socket"), integer("in_socket"), real("iops"), real("change_pct")];
const LAST: [Head; 1] = [real("interrupts_per_io")];
const COST: [Head; 1] = [real("driver_us_per_io")];

/// Which CPU of which socket issues last, and what it changed.
fn step(issuers: u64, cores: u16, iops: f64, before: &mut Option<f64>) -> [Value; 5] {
    let cores = u64::from(cores);
    // With one issuer a new machine or policy begins, and the row before is of another one.
    let change = before.filter(|_| issuers > 1).map(|before| 100.0 * (iops / before - 1.0));
    *before = Some(iops);
    let (socket, place) = ((issuers - 1) / cores + 1, (issuers - 1) % cores + 1);
    [issuers.into(), socket.into(), place.into(), iops.into(), change.into()]
}

fn number(table: &Table, row: usize, column: &str) -> f64 {
    match table.get(row, column) {
        Some(&Value::Real(value)) => value,
        Some(&Value::Integer(value)) => value as f64,
        _ => f64::NAN,
    }
}

/// The largest rate among the rows of a name, and where it is.
fn most(table: &Table, key: &str, name: &str, at: &str) -> Result<(f64, f64), StudyError> {
    let is_named = |&row: &usize| table.get(row, key) == Some(&Value::from(name));
    let rows = (0..table.len()).filter(is_named);
    let found = rows.map(|row| (number(table, row, "iops"), number(table, row, at)));
    found
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .ok_or_else(|| StudyError::Model(format!("no rows of `{name}`")))
}

//! Experiments: what one world can be asked as a whole, beside studies, for the targets.

use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;
use crate::table::{integer, real, text, Column, Head, Kind, Table, Value};
use crate::world::Tables;
use crate::worlds::chip::SegregationSweep;

/// A function of a world that returns tables, asked for as `NAME/ARGUMENT`.
pub struct Experiment {
    /// First part of what it is asked for by.
    pub name: &'static str,
    /// A description of its argument; empty if it takes none.
    pub argument: &'static str,
    /// A description in one line.
    pub title: &'static str,
    run: Run,
}

/// The function of an experiment, by what it is run on.
#[derive(Clone, Copy)]
enum Run {
    /// On a described machine, of which values may be set.
    On(fn(&Library, &str, &Set) -> Result<Named, StudyError>),
    /// On a described machine, table by table: those whose names are wanted.
    Apart(fn(&Library, &str, &Set, &Wanted) -> Result<Named, StudyError>),
    /// On what its argument says.
    Of(fn(&Library, &str) -> Result<Named, StudyError>),
}

/// Values to set, by path.
type Set = [(String, String)];

/// Tells whether a table is wanted, by its name for SQL.
type Wanted<'a> = dyn Fn(&str) -> bool + 'a;

/// All experiments, in the order in which they are listed.
pub static EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "circuits",
        argument: "a fabric with hosts",
        title: "its hosts by length of day: `circuits_runs`, `circuits_margins`, ...",
        run: Run::On(|library, name, set| {
            Ok(prefixed("circuits", library.fabric(name, set)?.experiments()?))
        }),
    },
    Experiment {
        name: "circuits-changed",
        argument: "a fabric with hosts",
        title: "TCP in turns with one thing changed, to explain: `circuits_tcp_changed`",
        run: Run::On(|library, name, set| {
            let changed = library.fabric(name, set)?.tcp_changed()?;
            Ok(prefixed("circuits", vec![("tcp_changed", changed)]))
        }),
    },
    Experiment {
        name: "fabric",
        argument: "a fabric",
        title: "closed forms of circuits: `FABRIC_facts`, `FABRIC_days`, `FABRIC_savings`, ...",
        run: Run::On(fabric),
    },
    Experiment {
        name: "network",
        argument: "a delivery network",
        title: "values of a power-delivery network: `network`",
        run: Run::On(network),
    },
    Experiment {
        name: "os-profile",
        argument: "a machine, or shapes of caches",
        title: "the kernel's part in every recorded workload: `os_totals`, `os_entries`, ...",
        run: Run::Of(|library, caches| os_profiles(library, &library.recorded()?, caches)),
    },
    Experiment {
        name: "os-profile-generated",
        argument: "a machine, or shapes of caches",
        title: "the same of every generated service",
        run: Run::Of(|library, caches| {
            os_profiles(library, &with_compute(GENERATED_SERVERS), caches)
        }),
    },
    Experiment {
        name: "predict",
        argument: "",
        title: "how well kernel entries are predicted: `predictions`, `decisions`, `traps`",
        run: Run::Of(|library, _| predict(library)),
    },
    Experiment {
        name: "segregation",
        argument: "a second level, with `,SETTING=VALUE`",
        title: "kernel and user apart in it: `segregation_schemes`, `segregation_facts`, ...",
        run: Run::Of(segregation),
    },
    Experiment {
        name: "switching",
        argument: "a model of core switching",
        title: "costs, runs and accounts of core switching: `switch_costs`, `switch_runs`, ...",
        run: Run::On(|library, name, set| {
            Ok(prefixed("switch", library.switching(name, set)?.tables()?))
        }),
    },
    Experiment {
        name: "router",
        argument: "a router",
        title: "the experiments on a router: `router_facts`, `router_points`, `router_runs`, ...",
        run: Run::On(|library, name, set| {
            Ok(prefixed("router", library.router(name, set)?.tables()?))
        }),
    },
    Experiment {
        name: "preheat",
        argument: "a server that loses its caches",
        title: "the experiments on it: `preheat_services`, `preheat_steps`, `preheat_tail`, ...",
        run: Run::Apart(|library, name, set, wanted| {
            let machine = library.preheat_machine(name, set)?;
            let tables = machine.tables(|table| wanted(&format!("preheat_{table}")))?;
            Ok(prefixed("preheat", tables))
        }),
    },
    Experiment {
        name: "storage",
        argument: "`described`, or SETTING=VALUE of every machine, by commas",
        title: "block I/Os on all machines: `storage_queue`, `storage_sockets`, ...",
        run: Run::Of(storage),
    },
    Experiment {
        name: "hybrid",
        argument: "a hybrid server",
        title: "the experiments on a hybrid server: `hybrid_facts`, `hybrid_delays`, ...",
        run: Run::On(|library, name, set| {
            Ok(prefixed("hybrid", library.server(name, set)?.tables()?))
        }),
    },
];

impl Library {
    /// Runs an experiment: `router/westmere`, `predict`. Values of a described machine may be set,
    /// behind its name (`router/westmere,power.c1_w=9`) or as pairs. Of its tables, those `only`
    /// are returned; all, if none is named.
    ///
    /// # Errors
    /// If there is none of that name or no such table, it has no machine to set values of, or it
    /// fails.
    pub fn experiment(&self, asked: &str, set: &Set, only: &[String]) -> Result<Named, StudyError> {
        let wanted = |table: &str| only.is_empty() || only.iter().any(|name| name == table);
        let mut tables = self.all_tables(asked, set, &wanted)?;
        let names = || tables.iter().map(|(name, _)| name.as_str());
        if let Some(missing) = only.iter().find(|name| !names().any(|known| known == *name)) {
            return Err(StudyError::unknown("table", missing, names()));
        }
        tables.retain(|(name, _)| wanted(name));
        Ok(tables)
    }

    fn all_tables(&self, asked: &str, set: &Set, wanted: &Wanted) -> Result<Named, StudyError> {
        let (name, argument) = asked.split_once('/').unwrap_or((asked, ""));
        let known = || EXPERIMENTS.iter();
        let Some(found) = known().find(|e| e.name == name) else {
            return Err(StudyError::unknown("experiment", name, known().map(|e| e.name)));
        };
        // An argument that is ignored would give two names to one result, and targets would be
        // computed twice.
        if argument.is_empty() != found.argument.is_empty() {
            let expected = if found.argument.is_empty() { "nothing" } else { found.argument };
            let message = format!("experiment `{asked}`: expected {expected} behind `{name}/`");
            return Err(StudyError::Usage(message));
        }
        // Pairs come behind the argument's own values, since the last value that is set at a path
        // holds.
        let whole = || {
            let (machine, mut all) = settings(argument)?;
            all.extend_from_slice(set);
            Ok::<_, StudyError>((machine, all))
        };
        match found.run {
            Run::On(run) => whole().and_then(|(machine, set)| run(self, &machine, &set)),
            Run::Apart(run) => whole().and_then(|(machine, set)| run(self, &machine, &set, wanted)),
            Run::Of(run) if set.is_empty() => run(self, argument),
            Run::Of(_) => Err(StudyError::Usage(format!(
                "experiment `{asked}`: `{}`: expected no values to set; it names no machine",
                set[0].0
            ))),
        }
    }
}

/// Names that SQL takes, of tables of several experiments side by side.
fn prefixed(prefix: &str, tables: Tables) -> Named {
    tables.into_iter().map(|(name, content)| (format!("{prefix}_{name}"), content)).collect()
}

/// Tables by the names that SQL has for them.
type Named = Vec<(String, Table)>;

/// Tables are named after the fabric, since several are asked for side by side.
fn fabric(library: &Library, name: &str, set: &Set) -> Result<Named, StudyError> {
    Ok(prefixed(&name.replace('-', "_"), library.fabric(name, set)?.tables()))
}

/// On every machine as it is described, or with values set in all.
fn storage(library: &Library, asked: &str) -> Result<Named, StudyError> {
    let asked = asked.strip_prefix("described").unwrap_or(asked).trim_start_matches(',');
    let set = if asked.is_empty() { Vec::new() } else { settings(&format!(",{asked}"))?.1 };
    Ok(prefixed("storage", library.storage_experiments(&set)?))
}

/// A name, and values to set behind commas.
fn settings(asked: &str) -> Result<(String, Vec<(String, String)>), StudyError> {
    let mut parts = asked.split(',');
    let name = parts.next().unwrap_or_default().to_owned();
    let pair = |part: &str| {
        let found = part.split_once('=').map(|(path, value)| (path.to_owned(), value.to_owned()));
        found.ok_or_else(|| StudyError::Usage(format!("`{part}`: expected SETTING=VALUE")))
    };
    Ok((name, parts.map(pair).collect::<Result<_, _>>()?))
}

fn network(library: &Library, name: &str, set: &Set) -> Result<Named, StudyError> {
    let mut table = Table::new(&[text("fact"), real("value")]);
    for fact in library.network(name, set)?.facts()? {
        table.push(vec![fact.fact.into(), fact.value.into()]);
    }
    Ok(vec![("network".to_owned(), table)])
}

fn os_profiles(library: &Library, names: &[String], caches: &str) -> Result<Named, StudyError> {
    let profiles = parallel(names, |name| library.os_profile(name, caches, &[]));
    Ok(prefixed("os", joined(names, profiles)?))
}

/// Servers of Nellans 2014, Table 5.1, as they are generated.
const GENERATED_SERVERS: [&str; 2] = ["syn-apache", "syn-specjbb"];
/// Services that are recorded, in their place: what is used again when decides how caches are best
/// divided, and the table does not say it.
const RECORDED_SERVERS: [&str; 2] = ["nginx", "java-shop"];
/// Compute programs of that table, as they are generated.
const COMPUTE: [&str; 6] =
    ["syn-hmmer", "syn-mummer", "syn-fasta", "syn-blackscholes", "syn-canneal", "syn-mcf"];

fn with_compute(servers: [&str; 2]) -> Vec<String> {
    servers.into_iter().chain(COMPUTE).map(str::to_owned).collect()
}

/// Ways to share a second level: its shape, then values to change, with commas between.
/// Experiments that differ in what they set have tables of their own: named after `as`.
fn segregation(library: &Library, asked: &str) -> Result<Named, StudyError> {
    let mut parts = asked.split(',');
    let mut set = vec![("l2".to_owned(), parts.next().unwrap_or_default().to_owned())];
    let mut prefix = "segregation".to_owned();
    for part in parts {
        match part.split_once('=') {
            Some(("as", name)) => name.clone_into(&mut prefix),
            // Kinds, which have commas between them elsewhere.
            Some(("only", kinds)) => set.push(("only".to_owned(), kinds.replace('+', ","))),
            Some((name, value)) => set.push((name.to_owned(), value.to_owned())),
            None => {
                let message = format!("experiment `segregation/{asked}`: expected SETTING=VALUE");
                return Err(StudyError::Usage(message));
            }
        }
    }
    let sweep = SegregationSweep::of(&set)?;
    let names = with_compute(RECORDED_SERVERS);
    // One after the other: each plays its schemes on all host cores.
    let found = names.iter().map(|name| library.segregation(name, &sweep)).collect();
    Ok(prefixed(&prefix, joined(&names, found)?))
}

/// Tables of several workloads as one each, with a column `workload` first.
fn joined(
    workloads: &[String],
    found: Vec<Result<Tables, StudyError>>,
) -> Result<Tables, StudyError> {
    let mut joined: Tables = Vec::new();
    for (workload, tables) in workloads.iter().zip(found) {
        for (name, table) in tables? {
            let table = labelled(workload, table);
            match joined.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => append(known, table),
                None => joined.push((name, table)),
            }
        }
    }
    Ok(joined)
}

fn labelled(workload: &str, table: Table) -> Table {
    let values = vec![Value::from(workload); table.len()];
    let mut columns = vec![Column { name: "workload", kind: Kind::Text, values }];
    columns.extend(table.columns);
    Table { columns }
}

fn append(table: &mut Table, more: Table) {
    for (column, added) in table.columns.iter_mut().zip(more.columns) {
        debug_assert_eq!(column.name, added.name);
        column.values.extend(added.values);
    }
}

/// A row for each workload, set of entries and table; one for each threshold of these; and one for
/// each kind of trap.
fn predict(library: &Library) -> Result<Named, StudyError> {
    let names = library.recorded()?;
    let found = parallel(&names, |name| library.prediction(name, &[]));
    let head = [text("workload"), text("entries"), text("table"), integer("predictions")];
    let mut predictions = Table::new(&[&head[..], &PREDICTIONS].concat());
    let mut decisions = Table::new(&[&head[..], &DECISIONS].concat());
    let mut traps = Table::new(&TRAPS);
    for (workload, found) in names.iter().zip(found) {
        let found = found?;
        for trap in found.traps {
            let counts = [trap.user.into(), trap.kernel.into()];
            traps.push([[workload.as_str().into(), trap.trap.into()], counts].concat());
        }
        for row in found.rows {
            let who = || -> [Value; 4] {
                [
                    workload.as_str().into(),
                    row.entries.into(),
                    row.table.as_str().into(),
                    row.predictions.into(),
                ]
            };
            let mut values = who().to_vec();
            values.extend([
                row.exact_percent.into(),
                row.within_5_percent.into(),
                row.too_short_percent.into(),
                row.local_percent.into(),
                row.table_entries.into(),
            ]);
            predictions.push(values);
            for decision in &row.decisions {
                let mut values = who().to_vec();
                values.extend([
                    decision.threshold.into(),
                    decision.right_percent.into(),
                    decision.longer_percent.into(),
                ]);
                decisions.push(values);
            }
        }
    }
    Ok(vec![
        ("predictions".to_owned(), predictions),
        ("decisions".to_owned(), decisions),
        ("traps".to_owned(), traps),
    ])
}

const PREDICTIONS: [Head; 5] = [
    real("exact_percent"),
    real("within_5_percent"),
    real("too_short_percent"),
    real("local_percent"),
    integer("table_entries"),
];
const TRAPS: [Head; 4] = [text("workload"), text("trap"), integer("user"), integer("kernel")];
const DECISIONS: [Head; 3] = [integer("threshold"), real("right_percent"), real("longer_percent")];

#[cfg(test)]
mod tests {
    use super::*;

    /// Every experiment fills its tables with values of the kinds that they declare.
    #[test]
    #[ignore = "minutes: `reproduce` runs the same"]
    fn every_experiment_fills_its_tables() {
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        for asked in [
            "fabric/optical-core",
            "network/ev6",
            "os-profile/32KB:2 32KB:2 1MB:16",
            "predict",
            "switching/alpha",
            "switching/xeon-5160",
            "router/westmere",
            "hybrid/niccolini",
        ] {
            for (name, table) in library.experiment(asked, &[], &[]).unwrap() {
                assert!(!table.columns.is_empty(), "{asked}: {name}");
            }
        }
    }
}

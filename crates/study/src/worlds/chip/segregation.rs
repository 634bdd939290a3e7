//! Ways to keep kernel and user apart in the second level, all over one recorded stream.

use halfwink_chip::{
    replay, second_level_stream, stack_distances, Geometry, ReplaySetup, Replayed,
    SecondLevelLatencies, SecondLevelStream,
};
use halfwink_policy::segregation::{
    Allocator, AllocatorParameters, BankChoice, BankChoiceParameters, Fixed, LookUp, Route, Rule,
    SegregationPolicy, Split, UtilityBased, MAX_WAYS,
};

use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;
use crate::table::{integer, real, text, Kind, Table, Value};
use crate::world::Tables;

/// What is swept, and how it is counted.
#[derive(Clone, Debug)]
pub struct SegregationSweep {
    /// Each first-level cache: `16KB:2` (Nellans 2014, Table 5.4).
    pub l1: String,
    /// The second level: `1MB:16`.
    pub l2: String,
    /// Cycles that references stall for.
    pub latencies: SecondLevelLatencies,
    /// Write-backs of the first level are accesses of the second.
    pub write_backs: bool,
    /// Stores wait for their line.
    pub stores_stall: bool,
    /// Published epochs are this much longer than those of the policies here.
    pub epochs_shortened_by: u64,
    /// Kinds of schemes to play beside `lru`; all if none are named.
    pub only: Vec<String>,
    /// What each first-level cache keeps apart in banks of its own, if anything.
    pub l1_split: Option<Route>,
}

impl Default for SegregationSweep {
    /// As published, on recorded workloads some million instructions long.
    fn default() -> SegregationSweep {
        SegregationSweep {
            l1: "16KB:2".to_owned(),
            l2: "1MB:16".to_owned(),
            latencies: SecondLevelLatencies { whole: 12, bank: 9, memory: 350 },
            write_backs: false,
            stores_stall: true,
            epochs_shortened_by: 25,
            only: Vec::new(),
            l1_split: None,
        }
    }
}

impl SegregationSweep {
    /// The published sweep, with values changed: `l1`, `l2`, `whole_cycles`, `bank_cycles`,
    /// `memory_cycles`, `write_backs`, `stores_stall`, `epochs_shortened_by`, `only` (kinds, with
    /// commas), `l1_split` (`none`, `data`, `instructions`, `both`).
    ///
    /// # Errors
    /// If there is no such value, or it cannot be that.
    pub fn of(set: &[(String, String)]) -> Result<SegregationSweep, StudyError> {
        let mut sweep = SegregationSweep::default();
        for (name, value) in set {
            let wrong = |expected: &str| {
                StudyError::Usage(format!("{name} = `{value}`: expected {expected}"))
            };
            let whole = || value.parse::<u64>().map_err(|_| wrong("a whole number"));
            let truth = || value.parse::<bool>().map_err(|_| wrong("true or false"));
            match name.as_str() {
                "l1" => sweep.l1.clone_from(value),
                "l2" => sweep.l2.clone_from(value),
                "whole_cycles" => sweep.latencies.whole = whole()?,
                "bank_cycles" => sweep.latencies.bank = whole()?,
                "memory_cycles" => sweep.latencies.memory = whole()?,
                "write_backs" => sweep.write_backs = truth()?,
                "stores_stall" => sweep.stores_stall = truth()?,
                "only" => {
                    sweep.only = value.split(',').map(|kind| kind.trim().to_owned()).collect();
                    let is_known = |kind: &String| KINDS.contains(&kind.as_str());
                    if !sweep.only.iter().all(is_known) {
                        return Err(wrong(&KINDS.join(", ")));
                    }
                }
                "l1_split" => {
                    let named = |route: &Route| route_name(*route) == value;
                    sweep.l1_split = Route::ALL.into_iter().find(named);
                    if sweep.l1_split.is_none() && value != "none" {
                        return Err(wrong("none, data, instructions or both"));
                    }
                }
                "epochs_shortened_by" => {
                    sweep.epochs_shortened_by = whole()?;
                    if sweep.epochs_shortened_by == 0 {
                        return Err(wrong("1 or more: an epoch has a length"));
                    }
                }
                _ => {
                    let known = "l1, l2, whole_cycles, bank_cycles, memory_cycles, write_backs, \
                                 stores_stall, epochs_shortened_by, only, l1_split";
                    return Err(StudyError::Usage(format!("no setting `{name}`: {known}")));
                }
            }
        }
        Ok(sweep)
    }
}

/// Kinds of schemes.
const KINDS: [&str; 7] =
    ["lru", "bank-partition", "bank-choice", "way-partition", "way-allocator", "ucp", "insertion"];

/// Cycles of an epoch of utility-based partitioning (Qureshi, Patt 2006, Sec 3.4).
const UTILITY_EPOCH: u64 = 5_000_000;

/// A way to share the cache.
struct Scheme {
    name: &'static str,
    /// What a static one sets; the route and look-up that an adaptive one is confined to.
    rule: Rule,
    adaptive: Option<fn(&SegregationSweep, Rule) -> SegregationPolicy>,
}

impl Scheme {
    const fn fixed(name: &'static str, rule: Rule) -> Scheme {
        Scheme { name, rule, adaptive: None }
    }

    fn policy(&self, sweep: &SegregationSweep) -> SegregationPolicy {
        match self.adaptive {
            Some(make) => make(sweep, self.rule),
            None => Box::new(Fixed::new(self.rule)),
        }
    }
}

fn schemes(sweep: &SegregationSweep, ways: u8) -> Vec<Scheme> {
    let mut list = vec![Scheme::fixed("lru", Rule::LRU)];
    for look_up in [LookUp::Parallel, LookUp::Serial] {
        let banks = Route::ALL.map(|route| Rule::banks(route, look_up));
        list.extend(banks.map(|rule| Scheme::fixed("bank-partition", rule)));
        list.push(Scheme {
            name: "bank-choice",
            rule: Rule { look_up, ..Rule::LRU },
            adaptive: Some(|sweep, rule| {
                let parameters = BankChoiceParameters::published(rule.look_up);
                Box::new(BankChoice::new(parameters.shortened(sweep.epochs_shortened_by)))
            }),
        });
    }
    for route in Route::ALL {
        let split = |kernel| Scheme::fixed("way-partition", Rule::ways(route, kernel));
        list.extend((1..ways).map(split));
    }
    list.push(Scheme {
        name: "way-allocator",
        rule: Rule::LRU,
        adaptive: Some(|sweep, _| {
            let published = AllocatorParameters::published();
            Box::new(Allocator::new(published.shortened(sweep.epochs_shortened_by)))
        }),
    });
    list.push(Scheme {
        name: "ucp",
        rule: Rule::LRU,
        adaptive: Some(|sweep, _| {
            Box::new(UtilityBased::new(UTILITY_EPOCH / sweep.epochs_shortened_by.max(1)))
        }),
    });
    let ranks = (0..ways).flat_map(|user| (0..ways).map(move |kernel| (user, kernel)));
    list.extend(ranks.map(|(u, k)| Scheme::fixed("insertion", Rule::insertion(u, k))));
    let asked = |name: &str| sweep.only.is_empty() || sweep.only.iter().any(|kind| kind == name);
    list.retain(|scheme| scheme.name == "lru" || asked(scheme.name));
    list
}

impl Library {
    /// Plays every way to share a second level over one workload's references to it.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `schemes` | a scheme: what it sets, misses and reads by privilege, what they cost |
    /// | `facts` | a fact and its value |
    /// | `curves` | hits by route, side and recency: of a cache of n ways, the first n sums |
    ///
    /// # Errors
    /// If the workload is not one of one core, or a shape cannot be.
    pub fn segregation(
        &self,
        workload: &str,
        sweep: &SegregationSweep,
    ) -> Result<Tables, StudyError> {
        let l1 = Geometry::parse(&sweep.l1).map_err(StudyError::Usage)?;
        let l2 = Geometry::parse(&sweep.l2).map_err(StudyError::Usage)?;
        if !(2..=MAX_WAYS).contains(&l2.ways) || l2.sets < 2 {
            return Err(StudyError::Usage(format!(
                "cache `{}`: expected 2 to {MAX_WAYS} ways and 2 sets at least, to be split",
                sweep.l2
            )));
        }
        if sweep.l1_split.is_some() && l1.sets < 2 {
            let message = format!("cache `{}`: expected 2 sets at least, to be split", sweep.l1);
            return Err(StudyError::Usage(message));
        }
        let mut tasks = self.workload(workload)?.tasks(None)?;
        if tasks.len() != 1 {
            let message = format!("workload `{workload}`: expected one that runs on one core");
            return Err(StudyError::Usage(message));
        }
        let mut task = tasks.remove(0);
        let first = sweep.l1_split.map(|route| Rule::banks(route, LookUp::Parallel));
        let stream = second_level_stream(
            task.source.as_mut(),
            &task.warm,
            [l1, l1],
            first.unwrap_or(Rule::LRU),
        )?;
        swept(&stream, l2, sweep)
    }
}

fn swept(
    stream: &SecondLevelStream,
    geometry: Geometry,
    sweep: &SegregationSweep,
) -> Result<Tables, StudyError> {
    let list = schemes(sweep, geometry.ways as u8);
    let played = parallel(&list, |scheme| {
        let setup = ReplaySetup {
            geometry,
            monitors: scheme.name == "ucp",
            latencies: sweep.latencies,
            write_backs: sweep.write_backs,
            stores_stall: sweep.stores_stall,
        };
        replay(stream, &setup, scheme.policy(sweep))
    });
    let played = played
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| StudyError::Usage(error.to_string()))?;
    let rows: Vec<(&Scheme, &Replayed)> = list.iter().zip(&played).collect();
    Ok(vec![
        ("schemes", scheme_table(&rows, sweep)),
        ("facts", fact_table(stream, &rows)),
        ("curves", curve_table(stream, geometry, sweep)),
    ])
}

/// In words that SQL and readers share.
fn route_name(route: Route) -> &'static str {
    match route {
        Route::Data => "data",
        Route::Instructions => "instructions",
        Route::Both => "both",
    }
}

fn scheme_table(rows: &[(&Scheme, &Replayed)], sweep: &SegregationSweep) -> Table {
    let mut table = Table::new(&[
        text("scheme"),
        text("route"),
        text("look_up"),
        integer("kernel_ways"),
        integer("user_rank"),
        integer("kernel_rank"),
        integer("user_accesses"),
        integer("kernel_accesses"),
        integer("user_misses"),
        integer("kernel_misses"),
        real("mpki"),
        integer("instructions"),
        integer("fast"),
        integer("slow"),
        integer("waited_misses"),
        real("ipc"),
        real("gain_pct"),
        real("equal_gain_pct"),
        real("predicted_pct"),
        real("banks_per_access"),
        integer("changes"),
        real("settled_mcycles"),
        integer("final_kernel_ways"),
    ]);
    let lru = rows[0].1.cost;
    let equal = SecondLevelLatencies { bank: sweep.latencies.whole, ..sweep.latencies };
    for (scheme, found) in rows {
        let adaptive = scheme.adaptive.is_some();
        let last = found.rules.last().map_or(Rule::LRU, |&(_, rule)| rule);
        let banked = matches!(scheme.name, "bank-partition" | "bank-choice");
        let inserts = scheme.name == "insertion";
        let rank = |side: usize| optional(inserts.then(|| scheme.rule.insertion[side]));
        let gain = |latencies| {
            100.0 * (lru.cycles(latencies) as f64 / found.cost.cycles(latencies) as f64 - 1.0)
        };
        let misses = found.misses[0] + found.misses[1];
        let accesses = found.accesses[0] + found.accesses[1];
        let [right, wrong] = found.predicted;
        let split = matches!(last.split, Split::Ways(_) | Split::Banks);
        table.push(vec![
            scheme.name.into(),
            if split { route_name(last.route) } else { "" }.into(),
            match (banked, scheme.rule.look_up) {
                (false, _) => "",
                (true, LookUp::Parallel) => "parallel",
                (true, LookUp::Serial) => "serial",
            }
            .into(),
            optional(if adaptive { None } else { last.split.kernel_ways() }),
            rank(0),
            rank(1),
            found.accesses[0].into(),
            found.accesses[1].into(),
            found.misses[0].into(),
            found.misses[1].into(),
            percent(misses, found.cost.instructions).map(|p| 10.0 * p).into(),
            found.cost.instructions.into(),
            found.cost.fast.into(),
            found.cost.slow.into(),
            found.cost.misses.into(),
            (found.cost.instructions as f64 / found.cost.cycles(sweep.latencies).max(1) as f64)
                .into(),
            gain(sweep.latencies).into(),
            gain(equal).into(),
            percent(right, right + wrong).into(),
            percent(found.bank_reads, accesses).map(|p| p / 100.0).into(),
            (found.rules.len() as u64).saturating_sub(1).into(),
            (found.rules.last().map_or(0, |&(at, _)| at) as f64 / 1e6).into(),
            optional(last.split.kernel_ways()),
        ]);
    }
    table
}

fn optional(value: Option<u8>) -> Value {
    value.map_or(Value::Missing(Kind::Integer), |value| u64::from(value).into())
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Least misses if each set were given the best scheme of a kind for itself.
fn by_set(rows: &[(&Scheme, &Replayed)], kind: &str) -> u64 {
    let of_kind = || rows.iter().filter(|(scheme, _)| scheme.name == kind || scheme.name == "lru");
    let sets = rows[0].1.misses_of_set.len();
    (0..sets)
        .map(|set| {
            let least = of_kind().map(|(_, found)| found.misses_of_set[set]).min();
            u64::from(least.expect("there is the baseline"))
        })
        .sum()
}

fn fact_table(stream: &SecondLevelStream, rows: &[(&Scheme, &Replayed)]) -> Table {
    let mut table = Table::new(&[text("fact"), real("value")]);
    let [user, kernel] = stream.instructions();
    let all = (user + kernel) as f64;
    let of_all = |misses: u64| 1000.0 * misses as f64 / all;
    for (fact, value) in [
        ("instructions", all),
        ("kernel_share", kernel as f64 / all),
        ("references", stream.len() as f64),
        ("configurations", rows.len() as f64),
        ("way_partition_by_set_mpki", of_all(by_set(rows, "way-partition"))),
        ("insertion_by_set_mpki", of_all(by_set(rows, "insertion"))),
    ] {
        table.push(vec![fact.into(), value.into()]);
    }
    table
}

fn curve_table(stream: &SecondLevelStream, geometry: Geometry, sweep: &SegregationSweep) -> Table {
    let mut table = Table::new(&[text("route"), text("side"), integer("recency"), integer("hits")]);
    for route in Route::ALL {
        let found = stack_distances(stream, geometry, route, sweep.write_backs);
        for (side, hits) in ["user", "kernel"].into_iter().zip(found.hits.hits) {
            for (recency, &hits) in hits[..geometry.ways].iter().enumerate() {
                let recency = recency as u64;
                table.push(vec![
                    route_name(route).into(),
                    side.into(),
                    recency.into(),
                    hits.into(),
                ]);
            }
        }
    }
    table
}

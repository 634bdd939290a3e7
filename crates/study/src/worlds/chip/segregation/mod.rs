//! Ways to keep kernel and user apart in the second level, all over one recorded stream.

mod advice;
mod schemes;
mod tables;

use halfwink_chip::{
    replay, Geometry, ReplaySetup, Replayed, SecondLevelLatencies, SecondLevelStream, Sides,
};
use halfwink_policy::segregation::{LookUp, Replacement, Route, Rule, MAX_WAYS};

use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;
use crate::world::Tables;
pub use advice::{ChangePct, SplitAdvice};
use schemes::{schemes, Scheme, KINDS};
use tables::{curve_table, fact_table, scheme_table};

/// The settings of a sweep of segregated caches: what is swept, and how it is counted.
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
    /// The property by which references take sides.
    pub sides: Sides,
    /// Published epochs are this much longer than those of the policies here.
    pub epochs_shortened_by: u64,
    /// Kinds of schemes to play beside `lru`; all if none are named.
    pub only: Vec<String>,
    /// The references that each first-level cache keeps apart in banks of its own, if any.
    pub l1_split: Option<Route>,
}

impl Default for SegregationSweep {
    /// Returns the published settings, on recorded workloads some million instructions long.
    fn default() -> SegregationSweep {
        SegregationSweep {
            l1: "16KB:2".to_owned(),
            l2: "1MB:16".to_owned(),
            latencies: SecondLevelLatencies { whole: 12, bank: 9, memory: 350 },
            write_backs: false,
            stores_stall: true,
            sides: Sides::Privilege,
            epochs_shortened_by: 25,
            only: Vec::new(),
            l1_split: None,
        }
    }
}

impl SegregationSweep {
    /// The published sweep, with values changed: `l1`, `l2`, `whole_cycles`, `bank_cycles`,
    /// `memory_cycles`, `write_backs`, `stores_stall`, `sides` (`privilege`, `swapped`, `page`),
    /// `epochs_shortened_by`, `only` (kinds, with commas), `l1_split` (`none`, `data`,
    /// `instructions`, `both`).
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
                "sides" => {
                    sweep.sides = match value.as_str() {
                        "privilege" => Sides::Privilege,
                        "swapped" => Sides::Swapped,
                        "page" => Sides::Page,
                        _ => return Err(wrong("privilege, swapped or page")),
                    };
                }
                "l1_split" => {
                    sweep.l1_split = Route::named(value);
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
                                 stores_stall, sides, epochs_shortened_by, only, l1_split";
                    return Err(StudyError::Usage(format!("no setting `{name}`: {known}")));
                }
            }
        }
        Ok(sweep)
    }

    /// Shapes of a first level and of the second, and what first levels keep apart.
    fn shapes(&self) -> Result<(Geometry, Geometry, Rule), StudyError> {
        let l1 = Geometry::parse(&self.l1).map_err(StudyError::Usage)?;
        let l2 = Geometry::parse(&self.l2).map_err(StudyError::Usage)?;
        if !(2..=MAX_WAYS).contains(&l2.ways) || l2.sets < 2 {
            return Err(StudyError::Usage(format!(
                "cache `{}`: expected 2 to {MAX_WAYS} ways and 2 sets at least, to be split",
                self.l2
            )));
        }
        if self.l1_split.is_some() && l1.sets < 2 {
            let message = format!("cache `{}`: expected 2 sets at least, to be split", self.l1);
            return Err(StudyError::Usage(message));
        }
        let first = self.l1_split.map(|route| Rule::banks(route, LookUp::Parallel));
        Ok((l1, l2, first.unwrap_or(Rule::LRU)))
    }

    /// Returns the settings with which a second level is played.
    fn setup(&self, geometry: Geometry) -> ReplaySetup {
        ReplaySetup {
            geometry,
            replacement: Replacement::Lru,
            sides: self.sides,
            monitors: false,
            latencies: self.latencies,
            write_backs: self.write_backs,
            stores_stall: self.stores_stall,
        }
    }
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
        let (stream, geometry) = self.second_level(workload, sweep)?;
        swept(&stream, geometry, sweep)
    }
}

fn swept(
    stream: &SecondLevelStream,
    geometry: Geometry,
    sweep: &SegregationSweep,
) -> Result<Tables, StudyError> {
    let list = schemes(sweep, geometry.ways as u8);
    let played = parallel(&list, |scheme| {
        let monitors = scheme.name == "ucp";
        let replacement = scheme.replacement;
        let setup = ReplaySetup { monitors, replacement, ..sweep.setup(geometry) };
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

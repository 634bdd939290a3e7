//! How many ways the kernel should have to itself, and whether it is worth it.

use halfwink_chip::{
    replay, second_level_stream, stack_distances, Cost, Geometry, Machine, ReplaySetup, Replayed,
    SecondLevelStream,
};
use halfwink_engine::confidence::{Estimator, Goal};
use halfwink_policy::segregation::{Fixed, Route, Rule};
use serde::Serialize;

use super::SegregationSweep;
use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;

/// A change against one LRU stack for all, in per cent, with its interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChangePct {
    /// The mean over the recording's parts.
    pub mean: f64,
    /// The interval's ends; none where the parts are too few to say.
    pub interval: Option<(f64, f64)>,
}

/// The advice on a split second level, from a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitAdvice {
    /// Number of ways of the cache.
    pub ways: usize,
    /// The references that go to the kernel's ways.
    pub route: &'static str,
    /// Ways for the kernel, of the split with the shortest time.
    pub kernel_ways: u8,
    /// Misses for a thousand instructions, in one stack and split.
    pub mpki: [f64; 2],
    /// Change of the time that the same work takes. Modelled.
    pub time: ChangePct,
    /// Change of its energy: the core's leakage and clock over that time, and memory's accesses.
    /// Modelled.
    pub energy: ChangePct,
    /// True if the whole interval of the time is a gain, so that splitting is worth anything.
    pub worth_it: bool,
}

/// Picojoules of a core's cycle, and of a line from memory.
#[derive(Clone, Copy)]
struct Picojoules {
    cycle: f64,
    miss: f64,
}

impl Picojoules {
    fn of(machine: &Machine) -> Picojoules {
        let core = &machine.power.core;
        let memory = &machine.power.memory;
        Picojoules {
            cycle: (core.leakage_w + core.clock_w) * 1e12 / machine.clock.hz(),
            miss: memory.activate_pj + memory.read_pj,
        }
    }

    fn spent(self, cost: &Cost, sweep: &SegregationSweep) -> f64 {
        self.cycle * cost.cycles(sweep.latencies) as f64 + self.miss * cost.misses as f64
    }
}

impl Library {
    /// The best split of a second level by ways for a workload on one core, with these routes to
    /// choose from; all by one pass, and the best one then played.
    ///
    /// # Errors
    /// As [`Library::segregation`]; or if there is no route.
    pub fn split_advice(
        &self,
        workload: &str,
        machine: &str,
        routes: &[String],
        sweep: &SegregationSweep,
    ) -> Result<SplitAdvice, StudyError> {
        let joules = Picojoules::of(&self.machine(machine, &[])?.machine);
        let (stream, geometry) = self.second_level(workload, sweep)?;
        let routes = routes
            .iter()
            .map(|name| {
                Route::named(name).ok_or_else(|| {
                    let message = format!("route `{name}`: expected both, data or instructions");
                    StudyError::Usage(message)
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let best = |route: &Route| {
            let found = stack_distances(&stream, geometry, *route, sweep.write_backs);
            let ways = geometry.ways;
            // By misses, which one pass gives for all splits; the first of equals, which leaves
            // most ways to the user.
            let kernel = (1..ways).min_by_key(|&kernel| found.misses(ways - kernel, kernel));
            let kernel = kernel.expect("two ways at least");
            (found.misses(ways - kernel, kernel), *route, kernel as u8)
        };
        let choices = parallel(&routes, best);
        let (_, route, kernel_ways) = choices
            .into_iter()
            .min_by_key(|&(misses, _, _)| misses)
            .ok_or_else(|| StudyError::Usage("no route to choose from".to_owned()))?;
        // Played after all, since stack distances know neither how long a miss stalls nor the parts
        // that intervals need.
        let rules = [Rule::LRU, Rule::ways(route, kernel_ways)];
        let played = parallel(&rules, |rule| fixed(&stream, geometry, sweep, *rule));
        let [whole, split] = <[Replayed; 2]>::try_from(played).expect("as many as rules");
        let time = change(&whole, &split, |cost| cost.cycles(sweep.latencies) as f64);
        Ok(SplitAdvice {
            ways: geometry.ways,
            route: route.name(),
            kernel_ways,
            worth_it: time.interval.is_some_and(|(_, high)| high < 0.0),
            mpki: [&whole, &split].map(|found| {
                let misses = found.misses[0] + found.misses[1];
                1000.0 * misses as f64 / found.cost.instructions.max(1) as f64
            }),
            time,
            energy: change(&whole, &split, |cost| joules.spent(cost, sweep)),
        })
    }

    /// A workload's references to the second level, and its shape.
    pub(super) fn second_level(
        &self,
        workload: &str,
        sweep: &SegregationSweep,
    ) -> Result<(SecondLevelStream, Geometry), StudyError> {
        let (l1, l2, first) = sweep.shapes()?;
        let mut tasks = self.workload(workload)?.tasks(None)?;
        if tasks.len() != 1 {
            let message = format!("workload `{workload}`: expected one that runs on one core");
            return Err(StudyError::Usage(message));
        }
        let mut task = tasks.remove(0);
        Ok((second_level_stream(task.source.as_mut(), &task.warm, [l1, l1], first)?, l2))
    }
}

fn fixed(
    stream: &SecondLevelStream,
    geometry: Geometry,
    sweep: &SegregationSweep,
    rule: Rule,
) -> Replayed {
    let setup = ReplaySetup { monitors: false, ..sweep.setup(geometry) };
    replay(stream, &setup, Box::new(Fixed::new(rule))).expect("a split that leaves ways to both")
}

/// Returns by how much a quantity of `split` exceeds that of `whole`, part by part of the same
/// instructions.
fn change(whole: &Replayed, split: &Replayed, of: impl Fn(&Cost) -> f64) -> ChangePct {
    let mut ratio = Estimator::new(Goal::NONE);
    let mut before = [Cost::default(); 2];
    for (whole, split) in whole.parts.iter().zip(&split.parts) {
        let [was, is] = [of(&whole.since(&before[0])), of(&split.since(&before[1]))];
        // The estimator takes whole numbers of samples: cycles and picojoules are large enough for
        // rounding not to matter.
        ratio.push_many(is, was.round() as u64);
        before = [*whole, *split];
    }
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let estimate = ratio.estimate();
    ChangePct {
        // Of the whole rather than of the parts' mean: parts differ in length.
        mean: percent(of(&split.cost) / of(&whole.cost).max(f64::MIN_POSITIVE)),
        interval: estimate.interval().map(|(low, high)| (percent(low), percent(high))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(l2: &str) -> SplitAdvice {
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let l2 = [("l2".to_owned(), l2.to_owned())];
        let sweep = SegregationSweep::of(&l2).unwrap();
        let routes = Route::ALL.map(|route| route.name().to_owned());
        library.split_advice("nginx", "ultrasparc", &routes, &sweep).unwrap()
    }

    #[test]
    fn a_cache_that_holds_all_is_left_alone() {
        let found = advice("1MB:16");
        assert!(found.mpki[0] < 0.2, "{found:?}");
        assert!(!found.worth_it, "{found:?}");
    }

    #[test]
    fn a_cache_that_is_too_small_is_worth_splitting() {
        let found = advice("128KB:16");
        assert_eq!((found.ways, found.route, found.kernel_ways), (16, "both", 15));
        let (low, high) = found.time.interval.unwrap();
        assert!(low < found.time.mean && found.time.mean < high && high < -5.0, "{found:?}");
        assert!(found.energy.mean < -5.0 && found.mpki[1] < found.mpki[0]);
    }
}

//! Which points of a study's sweep are played: all, some drawn at random, or those that a search
//! for the best trade-off asks for.

use std::collections::HashSet;

use halfwink_engine::draw::above_zero;
use halfwink_engine::{nearest, stream, Input, InputError};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::table::Kind;
use crate::world::World;

/// Columns that are worked out from the runs of a study together, by
/// `python/halfwink/results/relate.py`.
const RELATED: &[&str] = &[
    "energy_saving_pct",
    "core_energy_saving_pct",
    "core_clock_saving_pct",
    "slowdown_pct",
    "energy_delay_pct",
];
/// Points that a design may ask for: as many runs are the most that a study may have.
const MOST_POINTS: u64 = 1_000_000;
/// Most axes of a sweep that is drawn from: each point is kept.
const MOST_AXES: usize = 64;

/// The way in which a study's points are chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Design {
    /// Every combination of the sweep's values.
    Grid,
    /// Some combinations, all equally probable, none twice.
    Random {
        /// The number of points; at most all combinations are drawn.
        points: u64,
        /// Other points for another seed; those of fewer points are among those of more.
        seed: u64,
    },
    /// Points are chosen in rounds, near the best that was found
    /// (`python/halfwink/runs/designs.py`).
    Adaptive {
        /// The largest number of points, for each workload on each machine.
        points: u64,
        /// The seed of the stream that draws the points.
        seed: u64,
        /// Columns of the results of which less is better.
        minimize: Vec<String>,
        /// Columns of which more is better; with the former exactly two.
        maximize: Vec<String>,
    },
}

/// `[design]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DesignFile {
    kind: Spanned<String>,
    points: Option<Spanned<u64>>,
    seed: Option<Spanned<u64>>,
    minimize: Option<Spanned<Vec<Spanned<String>>>>,
    maximize: Option<Spanned<Vec<Spanned<String>>>>,
}

impl DesignFile {
    /// Returns where the file says how many points it asks for.
    pub(crate) fn points_at(&self) -> Option<std::ops::Range<usize>> {
        self.points.as_ref().map(Spanned::span)
    }
}

impl Design {
    pub(crate) fn parse(
        input: &Input,
        world: &dyn World,
        file: Option<Spanned<DesignFile>>,
        sweep: &[(String, Vec<String>)],
    ) -> Result<Design, InputError> {
        let Some(file) = file else { return Ok(Design::Grid) };
        let (whole, file) = (file.span(), file.into_inner());
        let kind = file.kind.get_ref().as_str();
        if !["grid", "random", "adaptive"].contains(&kind) {
            let message =
                format!("design of kind `{kind}`; expected \"grid\", \"random\" or \"adaptive\"");
            return Err(input.error_at(&file.kind.span(), message));
        }
        let of_kind = |span, key, kinds: &str| {
            let message =
                format!("a design of kind `{kind}` has no `{key}`; expected kind {kinds}");
            Err(input.error_at(&span, message))
        };
        if kind != "adaptive" {
            if let Some(list) = file.minimize.as_ref() {
                return of_kind(list.span(), "minimize", "\"adaptive\"");
            }
            if let Some(list) = file.maximize.as_ref() {
                return of_kind(list.span(), "maximize", "\"adaptive\"");
            }
        }
        // An ignored key is an error: a grid with `points` would seem to have been thinned out.
        if kind == "grid" {
            for (key, value) in [("points", &file.points), ("seed", &file.seed)] {
                if let Some(value) = value {
                    return of_kind(value.span(), key, "\"random\" or \"adaptive\"");
                }
            }
            return Ok(Design::Grid);
        }
        if sweep.is_empty() || sweep.len() > MOST_AXES {
            let message = format!(
                "a design of kind `{kind}` and {} lists of values in [sweep]; expected 1 to \
                 {MOST_AXES}",
                sweep.len()
            );
            return Err(input.error_at(&whole, message));
        }
        distinct(input, kind, sweep)?;
        let points = match &file.points {
            Some(points) if (1..=MOST_POINTS).contains(points.get_ref()) => *points.get_ref(),
            Some(points) => {
                let message = format!("points: expected a whole number, 1 to {MOST_POINTS}");
                return Err(input.error_at(&points.span(), message));
            }
            None => {
                let message =
                    format!("a design of kind `{kind}` without `points`; expected how many");
                return Err(input.error_at(&whole, message));
            }
        };
        let seed = file.seed.as_ref().map_or(1, |seed| *seed.get_ref());
        if kind == "random" {
            return Ok(Design::Random { points, seed });
        }
        let minimize = columns(input, world, file.minimize)?;
        let maximize = columns(input, world, file.maximize)?;
        if minimize.len() + maximize.len() != 2 || minimize == maximize {
            let message = "expected two columns of the results to trade off, in `minimize` and \
                           `maximize` together";
            return Err(input.error_at(&whole, message));
        }
        Ok(Design::Adaptive { points, seed, minimize, maximize })
    }

    /// Points at most, of so many that there are.
    pub(crate) fn most(&self, grid: u128) -> u128 {
        match self {
            Design::Grid => grid,
            Design::Random { points, .. } | Design::Adaptive { points, .. } => {
                grid.min(u128::from(*points))
            }
        }
    }

    /// Points in the order in which they are drawn, each the place of a value in each list; of a
    /// grid none are. No more is made than what is asked for, however large the grid.
    pub(crate) fn draws(&self, sweep: &[(String, Vec<String>)]) -> Vec<Vec<usize>> {
        let (Design::Random { seed, .. } | Design::Adaptive { seed, .. }) = self else {
            return Vec::new();
        };
        // No more than there are, or the loop below would never end.
        let wanted = self.most(grid(sweep)) as usize;
        let mut random = stream(*seed, "design");
        let mut seen = HashSet::new();
        let mut drawn = Vec::with_capacity(wanted);
        while drawn.len() < wanted {
            let point: Vec<usize> = sweep
                .iter()
                .map(|(_, values)| {
                    // In (0, n], so 1 to n.
                    (above_zero(&mut random) * values.len() as f64).ceil() as usize - 1
                })
                .collect();
            // Drawn again if it was there: with as many points as the grid has the last ones take
            // many draws, which is cheap beside a run. The order does not depend on the number of
            // points, so that fewer are among more.
            if seen.insert(point.clone()) {
                drawn.push(point);
            }
        }
        drawn
    }
}

/// Points that there are.
pub(crate) fn grid(sweep: &[(String, Vec<String>)]) -> u128 {
    sweep.iter().fold(1, |product: u128, (_, values)| product.saturating_mul(values.len() as u128))
}

/// A value that stands twice would be two points that are one.
fn distinct(input: &Input, kind: &str, sweep: &[(String, Vec<String>)]) -> Result<(), InputError> {
    for (path, values) in sweep {
        let mut seen = HashSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(*value)) {
            let message =
                format!("`{twice}` stands twice; expected once in a design of kind `{kind}`");
            return Err(input.error_at_key(&format!("sweep.{path}"), &message));
        }
    }
    Ok(())
}

/// Names of numbers that a run of this world has.
fn columns(
    input: &Input,
    world: &dyn World,
    names: Option<Spanned<Vec<Spanned<String>>>>,
) -> Result<Vec<String>, InputError> {
    let schema = world.schema();
    let of_runs = schema.iter().filter(|(table, _)| *table == "run").flat_map(|(_, heads)| heads);
    let numbers = of_runs.filter(|head| !matches!(head.1, Kind::Text)).map(|head| head.0);
    let known: Vec<&str> = numbers.chain(RELATED.iter().copied()).collect();
    let mut found = Vec::new();
    for name in names.map(Spanned::into_inner).unwrap_or_default() {
        if !known.contains(&name.get_ref().as_str()) {
            let near = nearest(name.get_ref(), known.iter().copied());
            let hint = near.map_or_else(
                || format!("; expected one of {}", known.join(", ")),
                |near| format!("; did you mean `{near}`?"),
            );
            let world = world.name();
            let message =
                format!("runs of the world `{world}` have no number `{}`{hint}", name.get_ref());
            return Err(input.error_at(&name.span(), message));
        }
        found.push(name.into_inner());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Study;

    const TEXT: &str = r#"
schema = 1
title = "drawn"
world = "toy"
workloads = ["exponential@30"]
machines = ["machine"]
techniques = ["always-on", "idle-gate"]

[design]
kind = "random"
points = 20

[sweep]
requests = [10, 20, 30, 40, 50, 60, 70, 80]
seed = [1, 2, 3, 4, 5, 6, 7, 8]
"#;

    fn parse(text: &str) -> Result<Study, InputError> {
        Study::parse("d", &Input::new("d.toml", text))
    }

    fn sets(text: &str) -> Vec<Vec<(String, String)>> {
        let jobs = parse(text).unwrap().jobs().unwrap();
        jobs.into_iter().step_by(2).map(|job| job.set).collect()
    }

    #[test]
    fn points_are_drawn_once_each_and_every_technique_is_played_at_each() {
        let jobs = parse(TEXT).unwrap().jobs().unwrap();
        assert_eq!(jobs.len(), 2 * 20);
        assert_eq!(jobs[0].set, jobs[1].set);
        let different: HashSet<_> = sets(TEXT).into_iter().collect();
        assert_eq!(different.len(), 20);
    }

    #[test]
    fn fewer_points_are_among_more_and_a_seed_draws_others() {
        let more = sets(&TEXT.replace("points = 20", "points = 40"));
        assert_eq!(sets(TEXT), more[..20]);
        let others = sets(&TEXT.replace("points = 20", "points = 20\nseed = 2"));
        assert_ne!(sets(TEXT), others);
    }

    #[test]
    fn each_point_is_as_probable_as_another() {
        // 64 cells of 10,000 draws of 8 points: 1,250 are expected, with a deviation of 33.
        let mut counts = [0_u32; 64];
        for seed in 0..10_000 {
            let text = TEXT.replace("points = 20", &format!("points = 8\nseed = {seed}"));
            for point in parse(&text).unwrap().draws {
                counts[point[0] * 8 + point[1]] += 1;
            }
        }
        assert!(counts.iter().all(|&n| (1_084..1_416).contains(&n)), "{counts:?}");
    }

    #[test]
    fn all_there_are_may_be_asked_for_and_no_more_are() {
        let all: HashSet<_> = sets(&TEXT.replace("= 20", "= 1000")).into_iter().collect();
        assert_eq!(all.len(), 64);
    }

    #[test]
    fn a_grid_beyond_memory_may_be_drawn_from() {
        let many = (1..=1000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let keys = ["gating.wake_up_ns", "gating.break_even_ns", "gating.restore_ns", "seed"];
        let sweep: String = keys.iter().map(|key| format!("\"{key}\" = [{many}]\n")).collect();
        let text = format!("{}[sweep]\n{sweep}", TEXT.split("[sweep]").next().unwrap());
        assert_eq!(parse(&text).unwrap().jobs().unwrap().len(), 40);
        let error = parse(&text.replace("= 20", "= 600000")).unwrap_err().to_string();
        assert_eq!(error, "d.toml:11: 1200000 runs; expected at most 1000000");
    }

    #[test]
    fn an_adaptive_design_has_no_list_of_runs() {
        let text = TEXT.replace("\"random\"", "\"adaptive\"").replace(
            "points = 20",
            "points = 20\nminimize = [\"energy_j\"]\nmaximize = [\"energy_saving_pct\"]",
        );
        let study = parse(&text).unwrap();
        assert!(matches!(study.design, Design::Adaptive { points: 20, .. }));
        assert_eq!(study.draws.len(), 20);
        let error = study.jobs().unwrap_err().to_string();
        assert!(error.starts_with("d: an adaptive design chooses its runs by their results"));
    }

    #[test]
    fn wrong_design_is_refused_with_reason() {
        let adaptive = |text: &str| format!("kind = \"adaptive\"\n{text}");
        let two = "minimize = [\"energy_j\", \"latency_p99_u\"]";
        let cases = [
            ("kind = \"ramdom\"".to_owned(), "d.toml:10: design of kind `ramdom`; expected"),
            ("kind = \"grid\"".to_owned(), "d.toml:11: a design of kind `grid` has no `points`"),
            (adaptive(""), "d.toml:9: expected two columns of the results"),
            (adaptive(two), "d.toml:11: runs of the world `toy` have no number `latency_p99_u`"),
            (adaptive("maximize = [\"energy_j\"]"), "d.toml:9: expected two columns"),
            (
                "kind = \"random\"\nminimize = []".to_owned(),
                "d.toml:11: a design of kind `random` has no `minimize`",
            ),
            ("kind = \"random\"\npoint = 3".to_owned(), "did you mean `points`?"),
        ];
        for (with, expected) in cases {
            let error = parse(&TEXT.replace("kind = \"random\"", &with)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        for (from, to, expected) in [
            ("= 20\n", "= 0\n", "d.toml:11: points: expected a whole number, 1 to 1000000"),
            ("points = 20\n", "", "d.toml:9: a design of kind `random` without `points`"),
            (
                "[10, 20, ",
                "[10, 20, 10, ",
                "d.toml:14: sweep.requests: `10` stands twice; expected once",
            ),
        ] {
            let error = parse(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

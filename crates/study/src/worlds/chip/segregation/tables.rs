//! What was played, as tables.

use halfwink_chip::{stack_distances, Geometry, Replayed, SecondLevelLatencies, SecondLevelStream};
use halfwink_policy::segregation::{AllocatorParameters, LookUp, Route, Rule, Split};

use super::schemes::{Scheme, BY_SHARE};
use super::SegregationSweep;
use crate::table::{integer, real, text, Head, Kind, Table, Value};

/// Columns of the table of schemes.
const SCHEMES: [Head; 23] = [
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
    real("converged_mcycles"),
    integer("final_kernel_ways"),
];

pub(super) fn scheme_table(rows: &[(&Scheme, &Replayed)], sweep: &SegregationSweep) -> Table {
    let mut table = Table::new(&SCHEMES);
    let lru = rows[0].1.cost;
    // With banks as slow as the whole cache the gain is that of fewer misses alone.
    let equal = SecondLevelLatencies { bank: sweep.latencies.whole, ..sweep.latencies };
    for (scheme, found) in rows {
        let adaptive = scheme.adaptive.is_some();
        let last = found.rules.last().map_or(Rule::LRU, |&(_, rule)| rule);
        let banked = matches!(scheme.name, "bank-partition" | "bank-choice");
        let inserts = matches!(scheme.name, "insertion" | BY_SHARE);
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
            if split { last.route.name() } else { "" }.into(),
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
            (converged(found, sweep) as f64 / 1e6).into(),
            optional(last.split.kernel_ways()),
        ]);
    }
    table
}

/// Returns when an allocation became near constant: from then on, whatever was kept for longer than
/// it takes to try it is within a way of what is kept at last.
fn converged(found: &Replayed, sweep: &SegregationSweep) -> u64 {
    let tried = AllocatorParameters::published().shortened(sweep.epochs_shortened_by);
    let ends = found.rules.iter().skip(1).map(|&(at, _)| at).chain([u64::MAX]);
    let kept: Vec<(u64, Rule)> = found
        .rules
        .iter()
        .zip(ends)
        // Rules that are only tried last one sample each, the kept one until the next round of
        // trials.
        .filter(|((at, _), end)| end - at >= 2 * tried.sample_cycles)
        .map(|(&rule, _)| rule)
        .collect();
    let ways = |rule: &Rule| rule.split.kernel_ways().unwrap_or(0);
    let last = kept.last().map_or(0, |(_, rule)| ways(rule));
    let from = kept.iter().rposition(|(_, rule)| ways(rule).abs_diff(last) > 1);
    kept.get(from.map_or(0, |n| n + 1)).map_or(0, |&(at, _)| at)
}

fn optional(value: Option<u8>) -> Value {
    value.map_or(Value::Missing(Kind::Integer), |value| u64::from(value).into())
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Least misses if each set were given the best scheme of a kind, or LRU, for itself; `None` if
/// the kind was not played.
fn by_set(rows: &[(&Scheme, &Replayed)], kind: &str) -> Option<u64> {
    if !rows.iter().any(|(scheme, _)| scheme.name == kind) {
        return None;
    }
    let of_kind = || rows.iter().filter(|(scheme, _)| scheme.name == kind || scheme.name == "lru");
    let sets = rows[0].1.misses_of_set.len();
    let least = |set| of_kind().map(|(_, found): &(_, &Replayed)| found.misses_of_set[set]).min();
    Some((0..sets).filter_map(least).map(u64::from).sum())
}

pub(super) fn fact_table(stream: &SecondLevelStream, rows: &[(&Scheme, &Replayed)]) -> Table {
    let mut table = Table::new(&[text("fact"), real("value")]);
    let [user, kernel] = stream.instructions();
    let all = (user + kernel) as f64;
    let of_all = |misses: u64| 1000.0 * misses as f64 / all;
    for (fact, value) in [
        ("instructions", Some(all)),
        ("kernel_share", Some(kernel as f64 / all)),
        ("references", Some(stream.len() as f64)),
        ("configurations", Some(rows.len() as f64)),
        ("way_partition_by_set_mpki", by_set(rows, "way-partition").map(of_all)),
        ("insertion_by_set_mpki", by_set(rows, "insertion").map(of_all)),
    ] {
        table.push(vec![fact.into(), value.into()]);
    }
    table
}

pub(super) fn curve_table(
    stream: &SecondLevelStream,
    geometry: Geometry,
    sweep: &SegregationSweep,
) -> Table {
    let mut table = Table::new(&[text("route"), text("side"), integer("recency"), integer("hits")]);
    for route in Route::ALL {
        let found = stack_distances(stream, geometry, route, sweep.write_backs);
        for (side, hits) in ["user", "kernel"].into_iter().zip(found.hits.hits) {
            for (recency, &hits) in hits[..geometry.ways].iter().enumerate() {
                let recency = recency as u64;
                table.push(vec![route.name().into(), side.into(), recency.into(), hits.into()]);
            }
        }
    }
    table
}

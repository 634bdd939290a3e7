//! What was found, as tables.

use halfwink_chip::preheat::CacheLevel;
use halfwink_power::{CoreState, Lost};

use super::modes::{Mode, Outcome};
use super::{cut_name, Found};
use crate::table::{Table, Value};
use crate::worlds::chip::tables::us;

pub(super) fn tables(found: &Found) -> Vec<(&'static str, Table)> {
    vec![
        ("facts", facts(found)),
        ("modes", modes(found)),
        ("requests", requests(found)),
        ("training", training(found)),
        ("orders", orders(found)),
    ]
}

/// A table of rows that have the same columns, at least one.
fn rows(rows: impl IntoIterator<Item = Vec<(&'static str, Value)>>) -> Table {
    let mut rows = rows.into_iter();
    let mut table = Table::row(rows.next().unwrap_or_default());
    for row in rows {
        table.push(row.into_iter().map(|(_, value)| value).collect());
    }
    table
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, n), value| (sum + value, n + 1));
    sum / count as f64
}

fn of<'a>(found: &'a Found, mode: Mode) -> impl Iterator<Item = &'a Outcome> + 'a {
    found.outcomes.iter().filter(move |outcome| outcome.mode == mode)
}

/// Watts that a sleep saves while it lasts, modelled.
fn saved_w(found: &Found) -> f64 {
    let (power, gating) = (&found.machine.power, &found.machine.gating);
    let state = |state| power.core.in_state(state, gating, false).as_w();
    let core = state(CoreState::Idle) - state(CoreState::Gated);
    let l3 = power.l3.leakage_w;
    core + if gating.loses(Lost::L3) { l3 * gating.leakage_reduction } else { 0.0 }
}

fn facts(found: &Found) -> Table {
    let measured = of(found, Mode::Warm).count();
    let loses: Vec<String> =
        found.machine.gating.loses.iter().map(|part| format!("{part:?}").to_lowercase()).collect();
    let dumped = match found.level {
        CacheLevel::L1i => "l1i",
        CacheLevel::L1d => "l1d",
        CacheLevel::L2 => "l2",
        CacheLevel::L3 => "l3",
    };
    let lines = found.set.len();
    Table::row(vec![
        ("cut", Value::from(cut_name(found.requests.cut))),
        ("marked_requests", found.requests.marked.into()),
        ("alone", found.requests.alone.into()),
        ("training_requests", found.training.len().into()),
        ("measured_requests", measured.into()),
        ("loses", loses.join(" ").into()),
        ("dumped_level", dumped.into()),
        ("set_lines", lines.into()),
        ("set_kib", (lines as f64 / 16.0).into()),
        ("set_words", found.words.into()),
        ("mean_run_lines", (lines as f64 / found.words.max(1) as f64).into()),
        ("saved_w", saved_w(found).into()),
    ])
}

fn modes(found: &Found) -> Table {
    let response = |mode| mean(of(found, mode).map(|o| us(o.response)));
    let energy = |mode| mean(of(found, mode).map(|o| o.energy_j));
    let (warm, cold) = (response(Mode::Warm), response(Mode::Cold));
    let sleep_us = found.sleep_us;
    let saved = saved_w(found);
    let found_rows = Mode::ALL.map(|mode| {
        let per = |value: fn(&Outcome) -> f64| mean(of(found, mode).map(value));
        let mut sorted: Vec<f64> = of(found, mode).map(|o| us(o.response)).collect();
        sorted.sort_by(f64::total_cmp);
        // The nearest rank: some hundred requests are too few to interpolate the 99th percentile.
        let quantile = |q: f64| sorted[((sorted.len() - 1) as f64 * q).round() as usize];
        let here = response(mode);
        let excess_j = energy(mode) - energy(Mode::Warm);
        let asleep = mode != Mode::Warm;
        vec![
            ("mode", Value::from(mode.name())),
            ("requests", sorted.len().into()),
            ("response_mean_us", here.into()),
            ("response_p50_us", quantile(0.5).into()),
            ("response_p99_us", quantile(0.99).into()),
            // Of what cold caches and waking cost, this much is gone.
            ("reduction", ((cold - here) / (cold - warm)).into()),
            ("l2_misses", per(|o| o.l2_misses as f64).into()),
            ("l3_misses", per(|o| o.l3_misses as f64).into()),
            ("lines", per(|o| o.lines as f64).into()),
            ("loaded", per(|o| o.loaded as f64).into()),
            ("useful", per(|o| o.useful as f64).into()),
            ("touched", per(|o| o.touched as f64).into()),
            ("preheat_us", per(|o| us(o.preheat)).into()),
            ("late_us", per(|o| us(o.late)).into()),
            ("energy_uj", (energy(mode) * 1e6).into()),
            ("excess_uj", (excess_j * 1e6).into()),
            // What a sleep costs beyond the warm run, over the watts that it saves, is the time to
            // sleep longer; negative ones have paid off already.
            ("break_even_us", asleep.then(|| (sleep_us + excess_j / saved * 1e6).max(0.0)).into()),
        ]
    });
    rows(found_rows)
}

fn requests(found: &Found) -> Table {
    rows(found.outcomes.iter().map(|o| {
        vec![
            ("request", Value::from(o.request)),
            ("mode", o.mode.name().into()),
            ("instructions", o.instructions.into()),
            ("response_us", us(o.response).into()),
            ("l2_misses", o.l2_misses.into()),
            ("l3_misses", o.l3_misses.into()),
            ("lines", o.lines.into()),
            ("loaded", o.loaded.into()),
            ("useful", o.useful.into()),
            ("touched", o.touched.into()),
            ("preheat_us", us(o.preheat).into()),
            ("late_us", us(o.late).into()),
            ("energy_uj", (o.energy_j * 1e6).into()),
        ]
    }))
}

fn training(found: &Found) -> Table {
    rows(found.training.iter().enumerate().map(|(n, training)| {
        vec![
            ("request", Value::from(n)),
            ("dumped", training.dumped.into()),
            ("touched", training.touched.into()),
            ("evicted", training.evicted.into()),
            ("common", training.common.into()),
        ]
    }))
}

fn orders(found: &Found) -> Table {
    rows(
        found.orders.iter().map(|(name, took)| {
            vec![("order", Value::from(*name)), ("preheat_us", us(*took).into())]
        }),
    )
}

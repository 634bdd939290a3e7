"""The chart that answers: energy for a unit of work against latency."""

from __future__ import annotations

from itertools import product
from typing import Any

import altair as alt
import polars as pl

from halfwink.relate import KEYS, ends
from halfwink.report.charts import technique_scale, workloads
from halfwink.report.labels import labels, marks, pixels
from halfwink.results import Results
from halfwink.summary import energy, has_assumed, is_assumed, of_baseline
from halfwink.wording import duration

LATENCY = "latency_p99_us"
#: Differences of less than this share of the values are not drawn as if they mattered.
LEAST_SPAN = {"x": 0.05, "y": 0.01}
#: Pixels of a chart, of one workload and of each of several.
ALONE, BESIDE = (640, 380), (300, 220)
#: Pixels that a chart leaves free around its points.
FREE = 16
#: Places of a chart that get names, at most.
LABELLED = {ALONE: 16, BESIDE: 8}
#: Points of which none has a name.
MANY = 200
#: A run is far out that takes so many times the median; the others would all be one point.
FAR = 10.0
PREFIXES = ((1e-6, 1e9, "n"), (1e-3, 1e6, "u"), (1.0, 1e3, "m"))


def tradeoff(results: Results) -> alt.FacetChart:
    """Energy for a unit of work against latency: a point per run in which something waited, but
    for those far out. Where watts of a machine are assumed, energy is in per cent of the
    baseline's.

    Bars are 95 % intervals, where they are known. Runs at the same place share a label; one for
    which there is no room beside all else is left to the legend.
    """
    runs, _ = _near_and_far(results)
    y, title, values = _energy_axis(runs)
    runs = runs.with_columns(values.alias(y))
    width, height = size = ALONE if runs["workload"].n_unique() == 1 else BESIDE
    runs = runs.join(_labels(runs, y, size), on=[*KEYS, "technique"], how="left")
    columns = [*KEYS, "technique", y, "latency_mean_us", LATENCY]
    limits = [name for name in ends(LATENCY) if name in runs.columns]
    scale = alt.Scale(zero=False, nice=False, padding=FREE)
    base = alt.Chart().encode(
        x=alt.X(
            f"{LATENCY}:Q",
            title="99th percentile of latency (us), modelled",
            scale=scale,
            axis=alt.Axis(tickCount=width // 75),
        ),
        y=alt.Y(
            f"{y}:Q",
            title=title,
            scale=scale,
            axis=alt.Axis(tickCount=5),
        ),
        color=alt.Color("technique:N", scale=technique_scale(results), title="technique"),
        tooltip=columns,
    )
    layers = [base.mark_point(size=70, filled=True, opacity=0.85)]
    if len(limits) == 2 and runs[limits[0]].count() > 0:
        low, high = limits
        layers.append(base.mark_rule().encode(x=f"{low}:Q", x2=f"{high}:Q"))
    layers += marks(base)
    for ways in product((-1, 1), repeat=2):
        across, up = (1 + way * LEAST_SPAN[axis] for way, axis in zip(ways, "xy", strict=True))
        room = base.transform_calculate(
            across=f"{across} * datum.{LATENCY}", up=f"{up} * datum.{y}"
        ).mark_point(opacity=0)
        layers.append(room.encode(x="across:Q", y="up:Q", tooltip=alt.value(None)))
    return (
        alt.layer(*layers, data=runs.select(*columns, *limits, "names", "side"))
        .properties(width=width, height=height)
        .facet(facet=alt.Facet("workload:N", title=None, sort=workloads(results)), columns=3)
        .resolve_scale(x="independent", y="independent")
    )


def far_out(results: Results) -> str:
    """A sentence that names the runs that the chart leaves out; empty if it shows all."""
    _, far = _near_and_far(results)
    many = results.runs["workload"].n_unique() > 1
    told = [
        f"{row['technique']}{' on ' + row['workload'] if many else ''} "
        f"({_energy(row)}, {duration(row[LATENCY])})"
        for row in far.unique(["workload", "technique"], maintain_order=True).to_dicts()
    ]
    return f" Far outside, and not drawn: {', '.join(told)}." if told else ""


def _energy_axis(runs: pl.DataFrame) -> tuple[str, str, pl.Expr]:
    """Column, title and values of the axis of energy."""
    unit = runs["unit_of_work"][0]
    if has_assumed(runs):
        title = f"energy per {unit} (% of baseline), modelled"
        return "energy_of_baseline_pct", title, 100 - pl.col("energy_saving_pct")
    factor, prefix = _prefix(runs["energy_j_per_unit"].median())
    name = f"energy_{prefix}j_per_unit"
    return name, f"{prefix}J per {unit}, modelled", factor * pl.col("energy_j_per_unit")


def _energy(row: dict[str, Any]) -> str:
    if is_assumed(row):
        return f"{of_baseline(row, 0)} % of the baseline's energy"
    return energy(row["energy_j_per_unit"])


def _near_and_far(results: Results) -> tuple[pl.DataFrame, pl.DataFrame]:
    runs = results.runs.drop_nulls([LATENCY, "energy_j_per_unit"])
    near = pl.lit(True)
    for column in (LATENCY, "energy_j_per_unit"):
        near &= pl.col(column) <= FAR * pl.col(column).median().over("workload")
    return runs.filter(near), runs.filter(~near)


def _labels(runs: pl.DataFrame, y: str, size: tuple[int, int]) -> pl.DataFrame:
    """``names`` of all techniques at a place, with one of them, and at which ``side`` of it there
    is room for them."""
    columns = [*KEYS, "technique"]
    rows: list[dict[str, str]] = []
    for _, group in runs.group_by("workload", maintain_order=True):
        if group.height > MANY:
            continue
        whose = group.select(columns).to_dicts()
        across, up = (
            pixels(group[column].cast(pl.Float64).to_list(), length, FREE, LEAST_SPAN[axis])
            for column, axis, length in ((LATENCY, "x", size[0]), (y, "y", size[1]))
        )
        points = [(x, size[1] - over) for x, over in zip(across, up, strict=True)]
        found = labels(points, group["technique"].to_list(), size, LABELLED[size])
        rows += [whose[it.point] | {"names": it.names, "side": it.side} for it in found]
    return pl.DataFrame(rows, schema=dict.fromkeys((*columns, "names", "side"), pl.String))


def _prefix(joules: object) -> tuple[float, str]:
    """Factor and prefix of a unit in which so many joules are a handy number."""
    value = joules if isinstance(joules, float) else 0.0
    return next(((factor, name) for limit, factor, name in PREFIXES if value < limit), (1.0, ""))

"""The chart that answers: energy for a unit of work against latency."""

from __future__ import annotations

from itertools import product
from math import log
from typing import Any

import altair as alt
import polars as pl

from halfwink.report.charts import technique_scale, technique_shape, workloads
from halfwink.report.labels import COLOUR, FONT, hover, labels, marks, pixels
from halfwink.results.relate import KEYS, ends
from halfwink.results.results import Results
from halfwink.results.sources import is_assumed
from halfwink.results.summary import energy, has_assumed, of_baseline
from halfwink.results.wording import duration

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
#: From this ratio of the latencies on, their axis is logarithmic: else most points would be one.
RATIO = 3.0
#: A run is far out that takes so many times the median; the others would all be one point.
FAR = 10.0
PREFIXES = ((1e-6, 1e9, "n"), (1e-3, 1e6, "u"), (1.0, 1e3, "m"))


def tradeoff(
    results: Results, size: tuple[int, int] | None = None, font: float = FONT, columns: int = 3
) -> alt.FacetChart:
    """Energy for a unit of work against latency: a point per run in which something waited, but
    for those far out. Where watts of a machine are assumed, energy is in per cent of the
    baseline's.

    Bars are 95 % intervals, where they are known. The dashed line joins the Pareto front; the
    winner of the verdict has a ring and is named. Runs at the same place share a label; one for
    which there is no room beside all else is left to the legend, the front last.

    Args:
        results: runs of any world.
        size: width and height of a panel, in pixels.
        font: size of the labels' font, in pixels.
        columns: panels in a row.
    """
    runs, _ = _near_and_far(results)
    y, title, values = _energy_axis(runs)
    runs = _ranked(results, runs.with_columns(values.alias(y)), y)
    is_alone = runs["workload"].n_unique() == 1
    most = LABELLED[ALONE if is_alone or size is not None else BESIDE]
    width, height = size = size or (ALONE if is_alone else BESIDE)
    is_log = _is_wide(runs)
    found = _labels(runs, y, (size, font, most), is_log=is_log)
    runs = runs.join(found, on=[*KEYS, "technique"], how="left")
    shown = [*KEYS, "technique", y, "latency_mean_us", LATENCY]
    limits = [name for name in ends(LATENCY) if name in runs.columns]
    scale = alt.Scale(zero=False, nice=False, padding=FREE)
    base = alt.Chart().encode(
        x=alt.X(
            f"{LATENCY}:Q",
            title="99th percentile of latency (us), modelled",
            scale=alt.Scale(type="log", nice=False, padding=FREE) if is_log else scale,
            axis=alt.Axis(tickCount=max(3, width // 75), format="~s" if is_log else "~r"),
        ),
        y=alt.Y(
            f"{y}:Q",
            title=title,
            scale=scale,
            axis=alt.Axis(tickCount=5),
        ),
        color=alt.Color("technique:N", scale=technique_scale(results), title="technique"),
        tooltip=hover(*shown),
    )
    front = base.mark_line(strokeDash=[4, 3], strokeWidth=1).encode(
        color=alt.ColorValue(COLOUR),
        detail=alt.Detail("workload:N"),
        order=alt.Order(f"{LATENCY}:Q"),
    )
    points = base.mark_point(size=70, filled=True, opacity=0.85)
    ring = base.mark_point(size=220, filled=False, strokeWidth=1.5, shape="circle")
    layers = [
        front.transform_filter("datum.on_front"),
        points.encode(shape=technique_shape(results)),
        ring.encode(color=alt.ColorValue(COLOUR)).transform_filter("datum.is_winner"),
    ]
    if len(limits) == 2 and runs[limits[0]].count() > 0:
        low, high = limits
        # A logarithmic axis has no place for an end at zero, nor for a missing one, which counts
        # as zero: it would draw nothing at all.
        known = base.transform_filter(f"datum['{low}'] > 0 && datum['{high}'] > 0")
        layers.append(known.mark_rule().encode(x=alt.X(f"{low}:Q"), x2=alt.X2(f"{high}:Q")))
    layers += marks(base, font)
    for ways in product((-1, 1), repeat=2):
        across, up = (1 + way * LEAST_SPAN[axis] for way, axis in zip(ways, "xy", strict=True))
        room = base.transform_calculate(
            across=f"{across} * datum.{LATENCY}", up=f"{up} * datum.{y}"
        ).mark_point(opacity=0)
        layers.append(
            room.encode(x=alt.X("across:Q"), y=alt.Y("up:Q"), tooltip=alt.TooltipValue(None))
        )
    kept = [*shown, *limits, "names", "side", "on_front", "is_winner"]
    return (
        alt.layer(*layers, data=runs.select(kept))
        .properties(width=width, height=height)
        .facet(facet=alt.Facet("workload:N", title=None, sort=workloads(results)), columns=columns)
        .resolve_scale(x="independent", y="independent")
    )


def _ranked(results: Results, runs: pl.DataFrame, y: str) -> pl.DataFrame:
    """The runs with ``on_front``, of their workload, and ``is_winner``, by the verdict; those on
    the front first, so that labels find room for them."""
    at = ["workload", LATENCY, y]
    best = pl.col(y).cum_min().over("workload").shift(1).over("workload")
    sorted_runs = runs.sort(at, maintain_order=True).with_columns(
        (best.is_null() | (pl.col(y) < best)).alias("on_front")
    )
    on_front = sorted_runs.filter("on_front").select([*KEYS, "technique"])
    won = results.verdict().winners.select([*KEYS, "technique"])
    numbered = runs.with_row_index("row")
    marked = numbered.with_columns(
        pl.col("row").is_in(_rows(numbered, on_front).implode()).alias("on_front"),
        pl.col("row").is_in(_rows(numbered, won).implode()).alias("is_winner"),
    )
    first = ["is_winner", "on_front"]
    return marked.sort(first, descending=True, maintain_order=True).drop("row")


def _rows(numbered: pl.DataFrame, of: pl.DataFrame) -> pl.Series:
    return numbered.join(of, on=of.columns, how="semi", nulls_equal=True)["row"]


def _is_wide(runs: pl.DataFrame) -> bool:
    """Returns whether latencies of a workload are so far apart that their axis is logarithmic."""
    span = runs.group_by("workload").agg(
        pl.col(LATENCY).min().alias("low"), pl.col(LATENCY).max().alias("high")
    )
    low = span["low"].min()
    is_positive = isinstance(low, float) and low > 0
    return is_positive and (span["high"] / span["low"] > RATIO).any()


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


def _labels(
    runs: pl.DataFrame, y: str, room: tuple[tuple[int, int], float, int], *, is_log: bool
) -> pl.DataFrame:
    """``names`` of all techniques at a place, with one of them, and at which ``side`` of it there
    is room for them: in a panel of some size, with a font of some size, for so many places."""
    size, font, most = room
    columns = [*KEYS, "technique"]
    # Labels are placed in the pixels of their usual font.
    larger = FONT / font
    across, up = (round(larger * length) for length in size)
    rows: list[dict[str, str]] = []
    for _, group in runs.group_by("workload", maintain_order=True):
        if group.height > MANY:
            continue
        whose = group.select(columns).to_dicts()
        xs = _pixels(group[LATENCY], (across, larger * FREE, LEAST_SPAN["x"]), is_log=is_log)
        ys = _pixels(group[y], (up, larger * FREE, LEAST_SPAN["y"]), is_log=False)
        points = [(x, up - over) for x, over in zip(xs, ys, strict=True)]
        names = [
            f"{technique} (winner)" if won else technique
            for technique, won in group.select("technique", "is_winner").iter_rows()
        ]
        front = sorted(points[n] for n, is_on in enumerate(group["on_front"]) if is_on)
        found = labels(points, names, (across, up), most, front)
        rows += [whose[it.point] | {"names": it.names, "side": it.side} for it in found]
    return pl.DataFrame(rows, schema=dict.fromkeys((*columns, "names", "side"), pl.String))


def _pixels(values: pl.Series, axis: tuple[int, float, float], *, is_log: bool) -> list[float]:
    """Pixels of values on an axis of some length, with pixels that are free at its ends, and the
    share by which it extends beyond the values."""
    length, free, beyond = axis
    known: list[float] = values.cast(pl.Float64).to_list()
    if not is_log:
        return pixels(known, length, round(free), beyond)
    reach = [min(known) * (1 - beyond), max(known) * (1 + beyond), *known]
    return pixels([log(value) for value in reach], length, round(free))[2:]


def _prefix(joules: object) -> tuple[float, str]:
    """Factor and prefix of a unit in which so many joules are a handy number."""
    value = joules if isinstance(joules, float) else 0.0
    return next(((factor, name) for limit, factor, name in PREFIXES if value < limit), (1.0, ""))

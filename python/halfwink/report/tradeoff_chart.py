"""The chart that answers: energy for a unit of work against latency."""

from __future__ import annotations

from itertools import product
from typing import Any

import altair as alt
import polars as pl

from halfwink.report.chart_axes import Axis, Kind, numbered, time_unit
from halfwink.report.charts import technique_scale, technique_shape, workloads
from halfwink.report.labels import COLOUR, FONT, Point, hover, labels, marks
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
#: Text beside a winner's ring that has no room for a name.
WINNER = "winner"
#: Columns of the ends of the energy's paired 95 % interval, in the unit of the chart.
BARS = ("energy_bar_low", "energy_bar_high")
#: A run is far out that takes so many times the median; the others would all be one point.
FAR = 10.0
PREFIXES = ((1e-6, 1e9, "n"), (1e-3, 1e6, "u"), (1.0, 1e3, "m"))


def tradeoff(
    results: Results, size: tuple[int, int] | None = None, font: float = FONT, columns: int = 3
) -> alt.FacetChart:
    """Energy for a unit of work against latency: a point per run in which something waited, but
    for those far out. Where watts of a machine are assumed, energy is in per cent of the
    baseline's.

    Bars are 95 % intervals, where they are known: of energy the paired one of the difference from
    the baseline, of latency the run's own. The dashed line joins the Pareto front; the winner of
    the verdict has a ring and is named. Runs at the same place share a label; one for which there
    is no room beside all else is left to the legend, the front last.

    Args:
        results: runs of any world.
        size: width and height of a panel, in pixels.
        font: size of the labels' font, in pixels.
        columns: panels in a row.
    """
    runs, _ = _near_and_far(results)
    y, title, values = _energy_axis(runs)
    runs = paired_bars(_ranked(results, runs.with_columns(values.alias(y)), y), y)
    is_alone = runs["workload"].n_unique() == 1
    most = LABELLED[ALONE if is_alone or size is not None else BESIDE]
    width, height = size = size or (ALONE if is_alone else BESIDE)
    unit = font / FONT
    across, up = _axes(runs, y, size, FREE * unit)
    found = _labels(runs, y, (across, up), unit, most)
    runs = runs.join(found, on=[*KEYS, "technique"], how="left")
    shown = [*KEYS, "technique", y, "latency_mean_us", LATENCY]
    limits = [name for name in ends(LATENCY) if name in runs.columns]
    is_log = any(axis.is_log for axis in across.values())
    factor, time = time_unit(max(axis.high for axis in across.values()))
    numbers = sorted({tick for axis in across.values() for tick in axis.ticks(4 * font)})
    scale = alt.Scale(zero=False, nice=False, padding=FREE * unit)
    base = alt.Chart().encode(
        x=alt.X(
            f"{LATENCY}:Q",
            title=f"99th percentile of latency ({time}), modelled",
            scale=alt.Scale(type="log", nice=False, padding=FREE * unit) if is_log else scale,
            axis=numbered(numbers, factor),
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
    if runs[BARS[0]].count() > 0:
        layers.append(energy_bars(base))
    layers += marks(base, font, runs["side"].drop_nulls().unique().sort())
    for ways in product((-1, 1), repeat=2):
        beside, over = (1 + way * LEAST_SPAN[axis] for way, axis in zip(ways, "xy", strict=True))
        room = base.transform_calculate(
            across=f"{beside} * datum.{LATENCY}", up=f"{over} * datum.{y}"
        ).mark_point(opacity=0)
        layers.append(
            room.encode(x=alt.X("across:Q"), y=alt.Y("up:Q"), tooltip=alt.TooltipValue(None))
        )
    kept = [*shown, *limits, *BARS, "names", "side", "on_front", "is_winner"]
    return (
        alt.layer(*layers, data=runs.select(kept))
        .properties(width=width, height=height)
        .facet(facet=alt.Facet("workload:N", title=None, sort=workloads(results)), columns=columns)
        .resolve_scale(x="independent", y="independent")
    )


def paired_bars(runs: pl.DataFrame, y: str) -> pl.DataFrame:
    """The runs with :data:`BARS`: what a run would take at either end of its saving's paired 95 %
    interval, in the unit of a column of energy. Null of the baseline, and where there is none."""
    saving = "energy_saving_pct"
    low, high = ends(saving)
    if not {low, high} <= set(runs.columns):
        return runs.with_columns(pl.lit(None, pl.Float64).alias(name) for name in BARS)
    # The baseline's energy for the same work.
    base = pl.col(y) / (1 - pl.col(saving) / 100)
    is_known = (pl.col(high) > pl.col(low)) & (pl.col(saving) < 100)
    return runs.with_columns(
        pl.when(is_known).then(base * (1 - pl.col(end) / 100)).alias(name)
        for name, end in zip(BARS, (high, low), strict=True)
    )


def energy_bars(base: alt.Chart) -> alt.Chart:
    """Bars of runs that have :data:`BARS`. They stand over their points, which may be larger, in
    the colour of text."""
    low, high = BARS
    bars = base.transform_filter(f"isValid(datum.{low})").mark_rule(strokeWidth=1)
    return bars.encode(y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q"), color=alt.ColorValue(COLOUR))


def front_and_winner(results: Results) -> str:
    """A sentence that names the front and the winner of the only workload; empty of several."""
    runs, _ = _near_and_far(results)
    if runs["workload"].n_unique() != 1:
        return ""
    y, _, values = _energy_axis(runs)
    ranked = _ranked(results, runs.with_columns(values.alias(y)), y)
    front, won = (
        ", ".join(ranked.filter(column).sort(LATENCY)["technique"].unique(maintain_order=True))
        for column in ("on_front", "is_winner")
    )
    return f" On the front: {front}." + (f" The winner: {won}." if won else "")


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


def far_out(results: Results) -> str:
    """Sentences that name the runs that the chart leaves out; empty if it shows all."""
    _, far = _near_and_far(results)
    unknown = results.runs.filter(pl.any_horizontal(pl.col(LATENCY, "energy_j_per_unit").is_null()))
    names = unknown["technique"].unique(maintain_order=True)
    none = f" Without a latency, and not drawn: {', '.join(names)}." if len(names) else ""
    many = results.runs["workload"].n_unique() > 1
    told = [
        f"{row['technique']}{' on ' + row['workload'] if many else ''} "
        f"({_energy(row)}, {duration(row[LATENCY])})"
        for row in far.unique(["workload", "technique"], maintain_order=True).to_dicts()
    ]
    return none + (f" Far outside, and not drawn: {', '.join(told)}." if told else "")


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


def _axes(
    runs: pl.DataFrame, y: str, size: tuple[int, int], free: float
) -> tuple[dict[str, Axis], dict[str, Axis]]:
    """Axes of latency and of energy, by workload. All of latency are logarithmic if one is."""
    limits = [name for name in ends(LATENCY) if name in runs.columns]
    groups = {
        str(workload): group
        for (workload,), group in runs.group_by(["workload"], maintain_order=True)
    }

    def over(columns: list[str], axis: str, kind: Kind | None) -> dict[str, Axis]:
        length, least = (size[0], LEAST_SPAN["x"]) if axis == "x" else (size[1], LEAST_SPAN["y"])
        found: dict[str, Axis] = {}
        for workload, group in groups.items():
            # The bars reach as far as they do; only the points have more room.
            own = group[columns[0]].to_list()
            others = [v for name in columns[1:] for v in group[name].drop_nulls() if v > 0]
            values = [value * (1 + way * least) for value in own for way in (-1, 1)] + others
            found[workload] = Axis.over(values, length, 0.0, free, kind)
        return found

    across = over([LATENCY, *limits], "x", None)
    if any(axis.is_log for axis in across.values()):
        is_positive = all(axis.low > 0 for axis in across.values())
        across = over([LATENCY, *limits], "x", "log" if is_positive else "linear")
    return across, over([y, *BARS], "y", "linear")


def _labels(
    runs: pl.DataFrame,
    y: str,
    axes: tuple[dict[str, Axis], dict[str, Axis]],
    unit: float,
    most: int,
) -> pl.DataFrame:
    """``names`` of all techniques at a place, with one of them, and at which ``side`` of it there
    is room for them: on axes by workload, with a font of so many usual ones, for so many places."""
    columns = [*KEYS, "technique"]
    limits = [name for name in ends(LATENCY) if name in runs.columns]
    rows: list[dict[str, str]] = []
    for (workload,), group in runs.group_by(["workload"], maintain_order=True):
        if group.height > MANY:
            continue
        whose = group.select(columns).to_dicts()
        across, up = (axis[str(workload)] for axis in axes)

        # Labels are placed in the pixels of their usual font.
        def place(x: float, over: float, across: Axis = across, up: Axis = up) -> Point:
            return across.pixel(x) / unit, (up.length - up.pixel(over)) / unit

        points = [place(*at) for at in group.select(LATENCY, y).iter_rows()]
        won = group["is_winner"].to_list()
        names = [
            f"{technique} ({WINNER})" if is_won else technique
            for technique, is_won in zip(group["technique"], won, strict=True)
        ]
        lines = [sorted(points[n] for n, is_on in enumerate(group["on_front"]) if is_on)]
        for x, low, high in group.select(LATENCY, *BARS).iter_rows():
            lines += [] if low is None else [[place(x, low), place(x, high)]]
        if len(limits) == 2:
            for over, low, high in group.select(y, *limits).iter_rows():
                if low is not None and high is not None and low > 0:
                    lines.append([place(low, over), place(high, over)])
        rings = {n: WINNER for n, is_won in enumerate(won) if is_won}
        room = round(across.length / unit), round(up.length / unit)
        found = labels(points, names, room, most, lines, rings)
        rows += [whose[it.point] | {"names": it.names, "side": it.side} for it in found]
    return pl.DataFrame(rows, schema=dict.fromkeys((*columns, "names", "side"), pl.String))


def _prefix(joules: object) -> tuple[float, str]:
    """Factor and prefix of a unit in which so many joules are a handy number."""
    value = joules if isinstance(joules, float) else 0.0
    return next(((factor, name) for limit, factor, name in PREFIXES if value < limit), (1.0, ""))

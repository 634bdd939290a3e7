"""A server at several loads: joules for a request against latency, and watts against load."""

from __future__ import annotations

import altair as alt
import polars as pl

from halfwink.report.labels import hover
from halfwink.report.palette import DASHED, DASHES, colours_of, numbers_of
from halfwink.results.published_watts import of_chart
from halfwink.results.relate import KEYS
from halfwink.results.results import Results
from halfwink.results.summary import has_assumed

LATENCY = "latency_p99_us"
#: A workload with its load, and the values that were set.
Load = tuple[str, str]
WIDTH, HEIGHT = 380, 340
#: Lines that are nowhere further apart than this share are drawn as one.
ALIKE = 0.01
#: Pixels that the chart leaves free around its points, and that a name takes.
FREE = 24
NAME_WIDTH, NAME_HEIGHT = 150, 12


def is_along_load(results: Results) -> bool:
    """Returns whether these are runs of a server at several loads."""
    runs = results.runs
    return "load_pct" in runs.columns and runs["load_pct"].drop_nulls().n_unique() > 1


def along_load(results: Results) -> alt.HConcatChart | alt.VConcatChart:
    """One line for each composition along the load, for each service and machine: millijoules for
    a request against the 99th percentile of latency, and beside it watts against load. Where watts
    are assumed, both are in per cent of the baseline's at its greatest load.

    Filled points are on the Pareto front of their load: no other composition takes less energy
    and answers as soon. Loads that the server cannot carry are not drawn. Compositions that agree
    at all loads are one line, and are named below the title.
    """
    runs = _drawn(results)
    rows = [
        alt.hconcat(
            *_pair(results, _measured(group, results.baseline), f"{service} on {machine}")
        ).resolve_legend(color="shared")
        for (service, machine), group in runs.group_by(["service", "machine"], maintain_order=True)
    ]
    return rows[0] if len(rows) == 1 else alt.vconcat(*rows)


def front(runs: pl.DataFrame) -> pl.Series:
    """Returns whether no other row of the same workload, machine and values is better in energy and
    latency, or as good in one and better in the other."""
    marked: dict[int, bool] = {}
    numbered = runs.with_row_index("row")
    for _, group in numbered.group_by(KEYS, maintain_order=True):
        points = group.select("row", "energy_j_per_unit", LATENCY).rows()
        for row, joules, wait in points:
            marked[row] = not any(
                other <= joules and late <= wait and (other < joules or late < wait)
                for _, other, late in points
            )
    return pl.Series("front", [marked[row] for row in range(runs.height)])


def alike(runs: pl.DataFrame) -> dict[str, list[str]]:
    """The techniques of one service and machine, by the first of those that agree with them in
    energy and latency at all loads."""
    found: dict[str, list[str]] = {}
    values: dict[str, dict[Load, tuple[float, float]]] = {}
    for technique, workload, values_set, joules, wait in runs.select(
        "technique", "workload", "set", "energy_j_per_unit", LATENCY
    ).iter_rows():
        values.setdefault(technique, {})[workload, values_set] = (joules, wait)
    for technique, at in values.items():
        first = next((name for name in found if _agree(values[name], at)), technique)
        found.setdefault(first, []).append(technique)
    return found


def _agree(one: dict[Load, tuple[float, float]], other: dict[Load, tuple[float, float]]) -> bool:
    return one.keys() == other.keys() and all(
        abs(a - b) <= ALIKE * min(a, b)
        for load, at in one.items()
        for a, b in zip(at, other[load], strict=True)
    )


def _drawn(results: Results) -> pl.DataFrame:
    runs = results.runs.drop_nulls([LATENCY, "energy_j_per_unit", "load_pct"])
    if "keeps_up" in runs.columns:
        runs = runs.filter(pl.col("keeps_up") == "yes")
    return runs.with_columns(
        pl.col("workload").str.replace(r"@.*$", "").alias("service"), front(runs)
    ).sort("load_pct", maintain_order=True)


def _measured(runs: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """The runs of one service and machine with the columns of :func:`_measures`. Machines whose
    watts are assumed may stand beside others, so each machine has its own."""
    energy, power = _measures(runs)
    if not has_assumed(runs):
        return runs.with_columns((1e3 * pl.col("energy_j_per_unit")).alias(energy))
    is_base = pl.col("technique") == baseline
    return runs.with_columns(
        (100 * pl.col(column) / pl.col(column).filter(is_base).last()).alias(name)
        for column, name in (("energy_j_per_unit", energy), ("power_w", power))
    )


def _measures(runs: pl.DataFrame) -> tuple[str, str]:
    """Columns of energy and power: of assumed watts only per cent mean something."""
    if has_assumed(runs):
        return "energy_pct", "power_pct"
    return "energy_mj_per_unit", "power_w"


def _pair(
    results: Results, runs: pl.DataFrame, title: str
) -> tuple[alt.LayerChart | alt.FacetChart, ...]:
    groups = alike(runs)
    names = list(groups)
    colours = colours_of(names)
    first_of = {name: first for first, members in groups.items() for name in members}
    # A line is on the front where one of those that it stands for is.
    best = pl.col("front").any().over(pl.col("technique").replace_strict(first_of), *KEYS)
    runs = runs.with_columns(best).filter(pl.col("technique").is_in(names))
    title = f"{title}: energy against p99, along the load"
    told = [f"{first} stands for {', '.join(more)} too" for first, *more in groups.values() if more]
    colour = alt.Color(
        "technique:N",
        title=None,
        scale=alt.Scale(domain=names, range=[colours[name] for name in names]),
        legend=alt.Legend(orient="bottom", columns=4, labelLimit=240, **DASHED),
    )
    dash = alt.StrokeDash(
        "technique:N",
        scale=alt.Scale(
            domain=names,
            range=[DASHES[n] for n in numbers_of(names, len(DASHES))],
        ),
        legend=None,
    )
    energy, power = _measures(runs)
    of = f"(% of {results.baseline}'s at its greatest load), modelled"
    is_relative = has_assumed(runs)
    trade = _lines(
        runs,
        alt.X(
            f"{LATENCY}:Q",
            title="99th percentile of latency (us), modelled",
            scale=alt.Scale(type="log", nice=False, padding=FREE),
            axis=alt.Axis(tickCount=5, format="~s", grid=False),
        ),
        alt.Y(
            f"{energy}:Q",
            title=f"energy per request {of}" if is_relative else "mJ per request, modelled",
            scale=alt.Scale(type="log", nice=False, padding=FREE),
            axis=alt.Axis(tickCount=5, format="~r"),
        ),
        (colour, dash),
        named=True,
    ).properties(title=alt.Title(title, subtitle=told, subtitleColor="#666"))
    watts = _lines(
        runs,
        alt.X(
            "load_pct:Q",
            title="load (% of what the cores carry)",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(tickCount=8),
        ),
        alt.Y(
            f"{power}:Q",
            title=f"power {of}" if is_relative else "W of the server, modelled",
            scale=alt.Scale(zero=True),
        ),
        (colour, dash),
        named=False,
    )
    against = f"{'power' if is_relative else 'watts'} against load"
    known = of_chart(runs)
    if is_relative or not known.height:
        return trade, watts.properties(title=against)
    said = f"crosses: SPECpower {known['published_result'][0]}, {known['published_server'][0]}"
    over = alt.Title(against, subtitle=[said], subtitleColor="#666")
    return trade, alt.layer(watts, _published(known)).properties(title=over)


def _published(points: pl.DataFrame) -> alt.Chart:
    """Published watts of the same server; those that the machine file was made from are grey."""
    return (
        alt.Chart(points)
        .mark_point(shape="cross", size=60, filled=True)
        .encode(
            x=alt.X("load_pct:Q"),
            y=alt.Y("published_w:Q"),
            color=alt.condition(
                "datum.published_use == 'input'", alt.value("#999"), alt.value("black")
            ),
            tooltip=hover(*points.columns),
        )
    )


def _lines(
    runs: pl.DataFrame,
    x: alt.X,
    y: alt.Y,
    by: tuple[alt.Color, alt.StrokeDash],
    *,
    named: bool,
) -> alt.LayerChart | alt.FacetChart:
    colour, dash = by
    energy, power = _measures(runs)
    columns = ["technique", "load_pct", LATENCY, energy, power, "front"]
    data = runs.select(*KEYS, *columns)
    base = alt.Chart(data).encode(x=x, y=y, color=colour, tooltip=hover(*KEYS, *columns))
    line = base.mark_line(strokeWidth=1.6, opacity=0.8).encode(
        strokeDash=dash, order=alt.Order("load_pct:Q"), detail=alt.Detail("technique:N")
    )
    points = base.mark_point(size=55, strokeWidth=1.6, opacity=1).encode(
        fill=alt.condition("datum.front", colour, alt.value("white"))
    )
    layers = [line, points]
    if named:
        layers += [*_names(data, x, y, colour), _loads(data, x, y)]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _names(data: pl.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color) -> list[alt.Chart]:
    """The name of each line at its end of least load, moved down where another stands there."""
    energy = next(name for name in ("energy_mj_per_unit", "energy_pct") if name in data.columns)
    ends = data.group_by("technique", maintain_order=True).first()
    across = _pixels(data[LATENCY], ends[LATENCY], WIDTH)
    down = [HEIGHT - up for up in _pixels(data[energy], ends[energy], HEIGHT)]
    layers: list[alt.Chart] = []
    placed: list[tuple[float, float]] = []
    for n in sorted(range(ends.height), key=lambda n: down[n]):
        line = down[n]
        for other, taken in sorted(placed, key=lambda place: place[1]):
            if abs(other - across[n]) < NAME_WIDTH and abs(taken - line) < NAME_HEIGHT:
                line = taken + NAME_HEIGHT
        placed.append((across[n], line))
        text = alt.Chart(ends[n]).mark_text(align="left", dx=8, dy=line - down[n], fontSize=10)
        layers.append(text.encode(x=x, y=y, text=alt.Text("technique:N"), color=colour))
    return layers


def _pixels(all_of_it: pl.Series, wanted: pl.Series, length: int) -> list[float]:
    """Where values lie on a logarithmic axis of so many pixels."""
    logs = all_of_it.log()
    known: list[float] = logs.to_list()
    low, span = min(known), max(max(known) - min(known), 1e-9)
    return [FREE + (length - 2 * FREE) * (value - low) / span for value in wanted.log().to_list()]


def _loads(data: pl.DataFrame, x: alt.X, y: alt.Y) -> alt.Chart:
    """Loads along the line of the baseline, which is the first technique."""
    first = data["technique"][0]
    told = data.filter(technique=first).with_columns(
        (pl.col("load_pct").round(1).cast(pl.String).str.replace(r"\.0$", "") + " %").alias("load")
    )
    return (
        alt.Chart(told)
        .mark_text(align="right", dx=-8, dy=8, fontSize=9, color="#666")
        .encode(x=x, y=y, text=alt.Text("load:N"))
    )

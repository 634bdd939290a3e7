"""A server at several loads: joules for a request against latency, and watts against load."""

from __future__ import annotations

import altair as alt
import polars as pl

from halfwink.report.chart_axes import Axis, numbered, time_unit
from halfwink.report.labels import COLOUR, FONT, Point, hover, labels, marks
from halfwink.report.palette import DASHED, DASHES, colours_of, numbers_of
from halfwink.report.tradeoff_chart import BARS, WINNER, energy_bars, paired_bars
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
#: Pixels that the chart leaves free around its points, and names of it, at most.
FREE, NAMED = 16, 40


def is_along_load(results: Results) -> bool:
    """Returns whether these are runs of a server at several loads."""
    runs = results.runs
    return "load_pct" in runs.columns and runs["load_pct"].drop_nulls().n_unique() > 1


def along_load(
    results: Results, size: tuple[int, int] | None = None, font: float = FONT, columns: int = 2
) -> alt.HConcatChart | alt.VConcatChart:
    """One line for each composition along the load, for each service and machine: millijoules for
    a request against the 99th percentile of latency, and beside it watts against load. Where watts
    are assumed, both are in per cent of the baseline's at its greatest load.

    Filled points are on the Pareto front of their load: no other composition takes less energy
    and answers as soon. The winner of a load has a ring. Bars are paired 95 % intervals of the
    difference from the baseline. Loads that the server cannot carry are not drawn. Compositions
    that agree at all loads are one line, and are named below the title.

    Args:
        results: runs of a server at several loads.
        size: width and height of a panel, in pixels; such a chart has no titles.
        font: size of the labels' font, in pixels.
        columns: panels in a row.
    """
    parts = _parts(results)
    rows = [
        _pair(results, group, "" if size and len(parts) == 1 else title, (size, font))
        for title, group in parts.items()
    ]
    if columns == 1:
        return alt.vconcat(*(panel for row in rows for panel in row)).resolve_legend(color="shared")
    pairs = [alt.hconcat(*row).resolve_legend(color="shared") for row in rows]
    return pairs[0] if len(pairs) == 1 else alt.vconcat(*pairs)


def _parts(results: Results) -> dict[str, pl.DataFrame]:
    """The runs of each service and machine, by their names."""
    groups = _drawn(results).group_by(["service", "machine"], maintain_order=True)
    return {
        f"{service} on {machine}": _measured(group, results.baseline)
        for (service, machine), group in groups
    }


def told(results: Results) -> str:
    """Sentences on what stands for what, on who wins where, and on published watts."""
    found: list[str] = []
    wins: dict[str, list[str]] = {}
    parts = _parts(results)
    for title, runs in parts.items():
        found += [f"{line}." for line in _stands_for(alike(runs))]
        where = f" of {title}" if len(parts) > 1 else ""
        for name, load in runs.filter("is_winner").select("technique", "load_pct").iter_rows():
            wins.setdefault(name, []).append(f"{_load(load)}{where}")
        if not has_assumed(runs) and (known := of_chart(runs)).height:
            found.append(f"{_crosses(known)}.")
    won = "; ".join(f"{name} at {', '.join(loads)}" for name, loads in wins.items())
    return " ".join([f"Winners: {won}.", *found] if won else found)


def won_at(results: Results) -> dict[str, str]:
    """At which loads each line of the chart has won, in words; of several services and machines
    that it has."""
    loads: dict[str, dict[float, None]] = {}
    parts = list(_parts(results).values())
    for runs in parts:
        first_of = {name: first for first, members in alike(runs).items() for name in members}
        for name, load in runs.filter("is_winner").select("technique", "load_pct").iter_rows():
            loads.setdefault(first_of[name], {})[load] = None
    is_plain = len(parts) > 1 or len(loads) == 1
    return {
        name: WINNER if is_plain else f"{WINNER} at {', '.join(f'{x:g}' for x in at)} %"
        for name, at in loads.items()
    }


def _load(percent: float) -> str:
    return f"{round(percent, 1):g} %"


def _stands_for(groups: dict[str, list[str]]) -> list[str]:
    return [f"{first} stands for {', '.join(more)} too" for first, *more in groups.values() if more]


def _crosses(known: pl.DataFrame) -> str:
    return f"crosses: SPECpower {known['published_result'][0]}, {known['published_server'][0]}"


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
    won = results.verdict().winners.select(*KEYS, "technique", is_winner=True)
    return (
        runs.with_columns(pl.col("workload").str.replace(r"@.*$", "").alias("service"), front(runs))
        .join(won, on=[*KEYS, "technique"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.col("is_winner").fill_null(value=False))
        .sort("load_pct", maintain_order=True)
    )


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
    results: Results,
    runs: pl.DataFrame,
    title: str,
    room: tuple[tuple[int, int] | None, float],
) -> tuple[alt.LayerChart | alt.FacetChart, ...]:
    size, font = room
    is_print = size is not None
    size = size or (WIDTH, HEIGHT)
    groups = alike(runs)
    names = list(groups)
    colours = colours_of(names)
    first_of = {name: first for first, members in groups.items() for name in members}
    of_line = pl.col("technique").replace_strict(first_of)
    # A line is on the front where one of those that it stands for is, and wins where one does.
    either = (pl.col(name).any().over(of_line, *KEYS) for name in ("front", "is_winner"))
    energy, power = _measures(runs)
    runs = runs.with_columns(either).filter(pl.col("technique").is_in(names))
    runs = paired_bars(runs, energy)
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
    of = f"(% of {results.baseline}'s at its greatest load), modelled"
    is_relative = has_assumed(runs)
    free = FREE * font / FONT
    across = Axis.over(runs[LATENCY], size[0], 0.0, free, "log")
    reach = [value for name in (energy, *BARS) for value in runs[name].drop_nulls()]
    up = Axis.over(reach, size[1], 0.0, free, "log")
    factor, time = time_unit(across.high)
    lines = _lines(
        runs,
        alt.X(
            f"{LATENCY}:Q",
            title=f"99th percentile of latency ({time}), modelled",
            scale=across.scale(),
            axis=numbered(across.ticks(3 * font), factor, grid=False),
        ),
        alt.Y(
            f"{energy}:Q",
            title=f"energy per request {of}" if is_relative else "mJ per request, modelled",
            scale=up.scale(),
            axis=numbered(up.ticks(2 * font)),
        ),
        (colour, dash),
        is_marked=True,
    )
    trade = alt.layer(*lines, *_named(runs, (across, up), colour, font))
    watts = _lines(
        runs,
        alt.X(
            "load_pct:Q",
            title="load (% of what the cores carry)",
            scale=alt.Scale(zero=True, nice=False, padding=free / 2),
            axis=alt.Axis(tickCount=8),
        ),
        alt.Y(
            f"{power}:Q",
            title=f"power {of}" if is_relative else "W of the server, modelled",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(tickCount=5),
        ),
        (colour, dash),
        is_marked=False,
    )
    known = of_chart(runs)
    if not is_relative and known.height:
        watts.append(_published(known))
    panels = (trade, alt.layer(*watts))
    trade, watts = (panel.properties(width=size[0], height=size[1]) for panel in panels)
    if is_print:
        return (trade.properties(title=title) if title else trade), watts
    text = f"{title}: energy against p99, along the load"
    over = alt.Title(text, subtitle=_stands_for(groups), subtitleColor="#666")
    against = f"{'power' if is_relative else 'watts'} against load"
    if is_relative or not known.height:
        return trade.properties(title=over), watts.properties(title=against)
    beside = alt.Title(against, subtitle=[_crosses(known)], subtitleColor="#666")
    return trade.properties(title=over), watts.properties(title=beside)


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
    is_marked: bool,
) -> list[alt.Chart]:
    colour, dash = by
    energy, power = _measures(runs)
    columns = ["technique", "load_pct", LATENCY, energy, power, "front"]
    data = runs.select(*KEYS, *columns, *BARS, "is_winner")
    base = alt.Chart(data).encode(x=x, y=y, color=colour, tooltip=hover(*KEYS, *columns))
    line = base.mark_line(strokeWidth=1.6, opacity=0.8).encode(
        strokeDash=dash, order=alt.Order("load_pct:Q"), detail=alt.Detail("technique:N")
    )
    points = base.mark_point(size=55, strokeWidth=1.6, opacity=1).encode(
        fill=alt.condition("datum.front", colour, alt.value("white"))
    )
    layers = [line, points]
    if is_marked:
        ring = base.mark_point(size=150, filled=False, strokeWidth=1, shape="circle", opacity=1)
        layers.append(ring.encode(color=alt.ColorValue(COLOUR)).transform_filter("datum.is_winner"))
        layers += [energy_bars(base)] if runs[BARS[0]].count() else []
    return layers


def _named(
    runs: pl.DataFrame, axes: tuple[Axis, Axis], colour: alt.Color, font: float
) -> list[alt.Chart]:
    """The name of each line at its end of least load, and the loads along the baseline's, where
    there is room for them beside all points and lines."""
    across, up = axes
    energy, power = _measures(runs)
    unit = font / FONT

    def place(x: float, over: float) -> Point:
        return across.pixel(x) / unit, (up.length - up.pixel(over)) / unit

    # Names of winners have the first choice of room, then the ends of the other lines.
    won = runs.filter("is_winner")["technique"].unique()
    is_end = pl.col("load_pct") == pl.col("load_pct").min().over("technique")
    rows = runs.with_columns(
        is_end.alias("is_end"), pl.col("technique").is_in(won.implode()).alias("has_won")
    ).sort("is_end", "has_won", descending=True, maintain_order=True)
    points = [place(*at) for at in rows.select(LATENCY, energy).iter_rows()]
    lines = [
        [place(*at) for at in line.select(LATENCY, energy).iter_rows()]
        for _, line in runs.group_by("technique", maintain_order=True)
    ]
    for x, low, high in rows.select(LATENCY, *BARS).iter_rows():
        lines += [] if low is None else [[place(x, low), place(x, high)]]
    rings = {n: WINNER for n, is_won in enumerate(rows["is_winner"]) if is_won}
    room = round(across.length / unit), round(up.length / unit)
    ends = [
        (f"{name} ({WINNER})" if has_won else name) if is_end else None
        for name, is_end, has_won in rows.select("technique", "is_end", "has_won").iter_rows()
    ]
    found = labels(points, ends, room, NAMED, lines, rings)
    first = runs["technique"][0]
    whose = rows.select(*KEYS, "technique", "load_pct", LATENCY, energy, power).rows(named=True)
    texts = [_load(row["load_pct"]) if row["technique"] == first else None for row in whose]
    taken = [it.box(points[it.point]) for it in found]
    loads = labels(points, texts, room, NAMED, lines, dict.fromkeys(rings, ""), taken)
    layers: list[alt.Chart] = []
    for those, shade in ((found, colour), (loads, alt.ColorValue(COLOUR))):
        data = [whose[it.point] | {"names": it.names, "side": it.side} for it in those if it.names]
        if not data:
            continue
        base = alt.Chart(pl.DataFrame(data)).encode(x=alt.X(f"{LATENCY}:Q"), y=alt.Y(f"{energy}:Q"))
        layers += marks(base, font, sorted({row["side"] for row in data}), shade)
    return layers

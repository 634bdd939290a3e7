"""Charts of results of any world. Each takes results and returns an Altair chart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from json import dumps

import altair as alt
import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.report.chart_axes import Axis, numbered
from halfwink.report.labels import COLOUR, FONT, hover, labels, marks
from halfwink.report.palette import (
    DASHED,
    DASHES,
    MANY_PARTS,
    PARTS,
    SHAPES,
    colours_of,
    numbers_of,
)
from halfwink.results.relate import KEYS, ends
from halfwink.results.results import Results, check_mark, sweep_columns
from halfwink.results.saw_tooth import rules
from halfwink.results.summary import has_assumed, is_shown

#: What the ledger's rows are grouped into, from the bottom of a stack.
ENERGY_GROUPS: dict[str, str] = dict(
    zip(
        (
            *("work", "leakage and clock while running", "stalled", "idle", "gated"),
            *("gating and waking", "unused cores", "shared cache", "memory"),
        ),
        PARTS,
        strict=True,
    )
)


#: Pixels of the chart of savings, pixels that are free around its points, and points with names.
SAVINGS, FREE, NAMED = (560, 340), 16, 24
#: The least saving, as a share of the largest, and the least slowdown for axes without zero; what
#: such an axis shows beyond its savings, as a share of them.
ALIKE, FAR_PCT, AROUND = 0.8, 5.0, 0.05
#: Bars of so many runs can be told apart; the table has all.
PANELS = 24
#: A heading of several lines.
SPLIT = alt.Header(labelExpr="split(datum.value, '\\n')")


def technique_scale(results: Results, *, baseline: bool = True) -> alt.Scale:
    """The colour of each technique: the same in every chart of these results, with the baseline or
    without."""
    names = order(results)
    colours = colours_of(names)
    if not baseline:
        del colours[results.baseline]
    shown = [name for name in names if name in colours]
    return alt.Scale(domain=shown, range=[colours[name] for name in shown])


def technique_shape(results: Results, *, baseline: bool = True) -> alt.Shape:
    """The shape of each technique's points, which tells techniques apart without colours."""
    names, numbers = _marks(results, len(SHAPES), baseline=baseline)
    scale = alt.Scale(domain=names, range=[SHAPES[n] for n in numbers])
    return alt.Shape("technique:N", scale=scale, title="technique")


def technique_dash(results: Results) -> alt.StrokeDash:
    """The dash of each technique's lines, likewise."""
    names, numbers = _marks(results, len(DASHES), baseline=True)
    scale = alt.Scale(domain=names, range=[DASHES[n] for n in numbers])
    return alt.StrokeDash("technique:N", scale=scale, title="technique")


def _marks(results: Results, kinds: int, *, baseline: bool) -> tuple[list[str], list[int]]:
    names = order(results)
    pairs = zip(names, numbers_of(names, kinds), strict=True)
    shown = [pair for pair in pairs if baseline or pair[0] != results.baseline]
    return [name for name, _ in shown], [number for _, number in shown]


def colour_scale(colours: dict[str, str], present: pl.Series) -> alt.Scale:
    names = [name for name in colours if name in set(present.to_list())]
    return alt.Scale(domain=names, range=[colours[name] for name in names])


def savings(
    results: Results, size: tuple[int, int] | None = None, font: float = FONT
) -> alt.LayerChart | alt.FacetChart:
    """Saving against slowdown: a point per technique and workload. Of cores, where told apart.

    The winner of the verdict has a ring. Of one workload all techniques are named, of several the
    winners, where there is room; bars are paired 95 % intervals of the difference.

    Args:
        results: runs of any world.
        size: width and height, in pixels.
        font: size of the labels' font, in pixels.
    """
    runs = results.runs.filter(pl.col("technique") != results.baseline)
    has_cores = "core_energy_saving_pct" in runs.columns
    at_rate = not has_cores and is_shown(runs, "equal_rate_saving_pct")
    saving = "core_energy_saving_pct" if has_cores else "energy_saving_pct"
    saving = "equal_rate_saving_pct" if at_rate else saving
    columns = [*KEYS, "technique", "core_energy_saving_pct", "energy_saving_pct"]
    columns += [saving] if at_rate else []
    low, high = ends(saving)
    has_interval = low in runs.columns and runs[low].count() > 0
    columns += [low, high] if has_interval else []
    columns += ["slowdown_pct", "gated_share", "latency_p99_us"]
    columns = [name for name in columns if name in runs.columns]
    title = "core energy saved (%), modelled" if has_cores else "energy saved (%), modelled"
    title = "energy saved at the baseline's rate (%), modelled" if at_rate else title
    won = results.verdict().winners.select(*KEYS, "technique", is_winner=True)
    runs = runs.join(
        won, on=[*KEYS, "technique"], how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(pl.col("is_winner").fill_null(value=False))
    width, height = size or SAVINGS
    unit = font / FONT
    known = runs.drop_nulls(["slowdown_pct", saving])
    shown = [saving, low, high] if has_interval else [saving]
    reach = [value for name in shown for value in known[name].drop_nulls()]
    # The least and the most saving keep off the frame. Most slowdowns are hundredths of a per cent,
    # some are whole ones.
    saved = with_zero(reach, ALIKE * max(map(abs, reach), default=0.0))
    # Savings that are all but the same lie on one line, not at both ends.
    up = Axis.over(saved, height, 0.0 if 0.0 in saved else AROUND, FREE * unit, "linear")
    slowdowns = with_zero(known["slowdown_pct"].to_list(), FAR_PCT)
    across = Axis.over(slowdowns, width, 0.0, FREE * unit, "symlog")
    about = "linear about zero, then " if across.low <= 0 <= across.high else ""
    base = alt.Chart(runs.select(*columns, "is_winner")).encode(
        x=alt.X(
            "slowdown_pct:Q",
            title=f"slowdown (%), modelled; {about}logarithmic",
            scale=across.scale(),
            axis=numbered(across.ticks(2.5 * font)),
        ),
        y=alt.Y(f"{saving}:Q", title=title, scale=up.scale(), axis=numbered(up.ticks(3 * font))),
        color=alt.Color(
            "technique:N", scale=technique_scale(results, baseline=False), title="technique"
        ),
        tooltip=hover(*columns),
    )
    points = base.mark_point(size=90, filled=True, opacity=0.85)
    zero = (
        alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(color="#bbb").encode(y=alt.Y("zero:Q"))
    )
    layers: list[alt.Chart] = [zero] if up.low <= 0 <= up.high else []
    is_alone = runs["workload"].n_unique() == 1
    # Where colours come again shapes tell techniques apart, and the dashes of paths workloads.
    comes_again = len(set(colours_of(order(results)).values())) < len(order(results))
    shape = alt.Shape("workload:N", title="workload", legend=alt.Legend(labelLimit=260))
    if is_alone or comes_again:
        shape = technique_shape(results, baseline=False)
    if not is_alone:
        # What belongs to one workload, from the least slowdown to the most.
        path = base.mark_line(strokeWidth=1).encode(
            color=alt.ColorValue("#8a8f98" if comes_again else "#c9ccd1"),
            detail=alt.Detail("workload:N"),
            order=alt.Order("slowdown_pct:Q"),
        )
        if comes_again:
            legend = alt.Legend(**DASHED, labelLimit=260)
            dashes = alt.Scale(range=list(DASHES))
            dash = alt.StrokeDash("workload:N", title="workload", scale=dashes, legend=legend)
            path = path.encode(strokeDash=dash)
        layers.append(path)
    layers.append(points.encode(shape=shape))
    ring = base.mark_point(size=240, filled=False, strokeWidth=1.5, shape="circle", opacity=1)
    layers.append(ring.encode(color=alt.ColorValue(COLOUR)).transform_filter("datum.is_winner"))
    if has_interval:
        # 95 % intervals of the difference, over points that may be larger.
        bars = base.mark_rule(strokeWidth=1).encode(color=alt.ColorValue(COLOUR))
        layers.append(bars.encode(y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q")))
    rows = known.sort("is_winner", descending=True, maintain_order=True)
    places = [
        (across.pixel(x) / unit, (height - up.pixel(y)) / unit)
        for x, y in rows.select("slowdown_pct", saving).iter_rows()
    ]
    names = [
        f"{name} (winner)" if has_won else name if is_alone else None
        for name, has_won in rows.select("technique", "is_winner").iter_rows()
    ]
    rings = {n: "winner" for n, has_won in enumerate(rows["is_winner"]) if has_won}
    room = round(width / unit), round(height / unit)
    at_zero = (height - up.pixel(0.0)) / unit
    lines = [[(0.0, at_zero), (room[0], at_zero)]] if up.low <= 0 <= up.high else []
    found = labels(places, names, room, NAMED, lines, rings)
    data = [rows.row(it.point, named=True) | {"names": it.names, "side": it.side} for it in found]
    if data:
        named = pl.DataFrame(data).select("slowdown_pct", saving, "names", "side")
        over = alt.Chart(named).encode(x=alt.X("slowdown_pct:Q"), y=alt.Y(f"{saving}:Q"))
        layers += marks(over, font, named["side"].unique().sort())
    return alt.layer(*layers).properties(width=width, height=height)


def with_zero(values: Sequence[float], least: float) -> list[float]:
    """Returns values and the zero of their axis; without it, if all lie beyond the least on one
    side of it, where it would take the room of their differences."""
    sizes = [abs(value) for value in values]
    is_far = bool(sizes) and min(values) * max(values) > 0 and min(sizes) > least
    return list(values) if is_far else [0.0, *values]


def energy_stack(results: Results) -> alt.FacetChart:
    """Energy of each technique by what it went into, relative to the baseline."""
    sums = (
        results.ledger.with_columns(_group(results).alias("group"))
        .group_by(*KEYS, "technique", "group", maintain_order=True)
        .agg(pl.col("energy_j").sum())
    )
    totals = results.runs.filter(technique=results.baseline).select(
        *KEYS, pl.col("energy_j").alias("baseline_j")
    )
    units = results.runs.select(*KEYS, "technique", "units", "unit_of_work")
    groups = sums["group"].unique().sort().to_list()
    stack = [name for name in ENERGY_GROUPS if name in groups]
    stack += [name for name in groups if name not in ENERGY_GROUPS]
    own = PARTS if len(stack) <= len(PARTS) else MANY_PARTS
    spare = iter(own * len(stack))
    known = all(name in ENERGY_GROUPS for name in stack)
    colours = {name: ENERGY_GROUPS[name] if known else next(spare) for name in stack}
    data = (
        sums.join(totals.unique(KEYS), on=KEYS, nulls_equal=True)
        .join(units.unique([*KEYS, "technique"]), on=[*KEYS, "technique"], nulls_equal=True)
        .with_columns(
            (100 * pl.col("energy_j") / pl.col("baseline_j")).alias("share_pct"),
            (1e6 * pl.col("energy_j") / pl.col("units")).alias("uj_per_unit"),
            pl.col("group").replace_strict(stack, range(len(stack))).alias("order"),
        )
        .pipe(panelled, results)
    )
    joules = [] if has_assumed(results.runs) else ["uj_per_unit", "unit_of_work"]
    return (
        alt.Chart(data)
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("technique:N", sort=order(results), title=None),
            y=alt.Y("sum(share_pct):Q", title="energy (% of baseline), modelled"),
            color=alt.Color("group:N", scale=colour_scale(colours, data["group"]), title=None),
            order=alt.Order("order:Q"),
            tooltip=hover(*KEYS, "technique", "group", "share_pct", *joules),
        )
        .properties(width=150, height=230)
        .facet(facet=panel_facet(results), columns=4)
    )


def _group(results: Results) -> pl.Expr:
    """Returns the group of a ledger row in charts: kind of component and state; for cores that are
    separate from their chip, their state.
    """
    component = pl.col("component").str.replace(r"\d+$", "")
    group = pl.format("{}: {}", component, "state")
    if "core_energy_saving_pct" not in results.runs.columns:
        return group
    return (
        pl.when(pl.col("component") == "l3")
        .then(pl.lit("shared cache"))
        .when(pl.col("component") == "memory")
        .then(pl.lit("memory"))
        .when(pl.col("state") == "unused")
        .then(pl.lit("unused cores"))
        .when(pl.col("state").is_in(["gating", "charging", "restoring"]))
        .then(pl.lit("gating and waking"))
        .when((pl.col("state") == "active") & (pl.col("time_s") == 0))
        .then(pl.lit("work"))
        .when(pl.col("state") == "active")
        .then(pl.lit("leakage and clock while running"))
        .otherwise(pl.col("state"))
    )


#: Columns of the table of slots that say when one was, and what a curve is drawn of.
SLOT_TIMES = {"start_s": "seconds", "second": "point of the profile"}
SLOT_CURVES = {
    "power_w": "power (W), modelled",
    "latency_p99_us": "99th percentile of latency (us), modelled",
    "p99_us": "99th percentile of latency (us), modelled",
    "p99_ms": "99th percentile of latency (ms), modelled",
}


def slots(results: Results) -> alt.VConcatChart:
    """Power and latency over time, a step for each slot and a line for each run."""
    frame = results.tables["slots"]
    when = next(name for name in SLOT_TIMES if name in frame.columns)
    curves = [name for name in SLOT_CURVES if name in frame.columns]
    data = frame.select(*KEYS, "technique", when, *curves)

    def panel(curve: str) -> alt.FacetChart:
        return (
            alt.Chart(data)
            .mark_line(interpolate="step-after", strokeWidth=1.5)
            .encode(
                x=alt.X(f"{when}:Q", title=SLOT_TIMES[when]),
                y=alt.Y(f"{curve}:Q", title=SLOT_CURVES[curve]),
                color=alt.Color("technique:N", scale=technique_scale(results), title="technique"),
                strokeDash=technique_dash(results),
                detail=[alt.Detail("machine:N"), alt.Detail("set:N")],
                tooltip=hover(*KEYS, "technique", when, curve),
            )
            .properties(width=320, height=160)
            .facet(facet=alt.Facet("workload:N", title=None, sort=workloads(results)), columns=3)
        )

    return alt.vconcat(*map(panel, curves))


def has_slots(results: Results) -> bool:
    """Returns whether `slots` can draw anything."""
    return results.has("slots") and any(n in results.tables["slots"].columns for n in SLOT_TIMES)


def by_issuers(results: Results) -> alt.LayerChart | alt.FacetChart:
    """I/Os a second by issuing CPUs, dotted where a socket is full."""
    columns = ["issuers", "iops", "driver_cpus", "driver_us_per_io"]
    base = alt.Chart(results.runs.select(*KEYS, "technique", *columns)).encode(
        x=alt.X("issuers:Q", title="CPUs that issue"),
        y=alt.Y("iops:Q", title="I/Os a second (modelled)"),
        color=alt.Color(
            "technique:N",
            scale=technique_scale(results),
            title="technique",
            # Filled marks without outlines, which would be dashed as the lines are.
            legend=alt.Legend(symbolStrokeWidth=0),
        ),
        detail=[alt.Detail("machine:N"), alt.Detail("set:N")],
        tooltip=hover(*KEYS, "technique", *columns),
    )
    # The legend has the shapes. Points of the lines' own would have dashed outlines.
    lines = base.mark_line().encode(strokeDash=technique_dash(results).legend(None))
    points = base.mark_point(filled=True, size=40, opacity=1)
    points = points.encode(shape=technique_shape(results))
    full = pl.DataFrame({"issuers": rules(results)}, schema={"issuers": pl.Int64})
    dotted = alt.Chart(full).mark_rule(strokeDash=[2, 4], opacity=0.5).encode(x=alt.X("issuers:Q"))
    return alt.layer(dotted, lines, points).properties(width=640, height=360)


#: Units that columns end in, as axes have them.
UNITS = {"pct": "%", "ns": "ns", "us": "us", "ms": "ms", "s": "s", "w": "W", "j": "J"}


def axis_title(column: str) -> str:
    """Returns a column's name in words, its unit last: ``slowdown (%)``. The path of a value that
    is swept stays as ``--set`` takes it."""
    name, _, end = column.rpartition("_")
    if "." in column or end not in UNITS or not name:
        return column if "." in column else column.replace("_", " ")
    if name.endswith("_per"):
        return f"{name.removesuffix('_per').replace('_', ' ')} (1/{UNITS[end]})"
    return f"{name.replace('_', ' ')} ({UNITS[end]})"


#: Units of time, from one to the next a thousandfold.
_TIMES = ("ns", "us", "ms", "s")
#: From such values on an axis has a unit that they are small in.
_LONG = 1e6


def _axis(data: pl.DataFrame, column: str, name: str) -> tuple[pl.DataFrame, str]:
    """Returns the data with a column in the unit in which it is read, and the axis' title: times of
    a million microseconds and more are seconds."""
    title = axis_title(column)
    stem, _, unit = column.rpartition("_")
    is_time = unit in _TIMES[:-1] and "." not in column and not stem.endswith("_per")
    if not is_time or not data.schema[name].is_numeric():
        return data, title
    most = data.select(pl.col(name).abs().max()).item()
    if most is None or most < _LONG:
        return data, title
    at = _TIMES.index(unit)
    by = 1.0
    while at + 1 < len(_TIMES) and most >= 1000 * by:
        at, by = at + 1, 1000 * by
    return data.with_columns(pl.col(name) / by), axis_title(f"{stem}_{_TIMES[at]}")


def study_plot(results: Results, plot: dict[str, str | None]) -> alt.Chart | alt.FacetChart:
    """A plot that a study describes: any two columns of its results.

    Values of a sweep are columns too, under their path (``gating.wake_up_ns``). A baseline on a
    machine of its own, which is not swept, is what others are related to and is not drawn.

    Raises:
        HalfwinkError: the results have no such column, or there is no such mark.
    """
    check_mark(plot)
    data = sweep_columns(results.runs)
    names = [plot[key] for key in ("x", "y", "color", "panel")]
    wanted = list(dict.fromkeys(name for name in names if name))
    for name in wanted:
        if name not in data.columns:
            near = get_close_matches(name, data.columns, 1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise HalfwinkError(f"plot `{plot['title']}`: no column `{name}`{hint}")
    safe = {name: re.sub(r"\W", "_", name) for name in wanted}
    drawn = [name for name in (plot["x"], plot["color"]) if name]
    data = data.select(*wanted).drop_nulls(drawn).rename(safe)
    titles: dict[str, str] = {}
    for name in dict.fromkeys(name for name in (plot["x"], plot["y"]) if name):
        data, titles[name] = _axis(data, name, safe[name])

    def channel(name: str | None, number: str = "Q") -> str:
        name = name or ""
        dtype = data.schema[safe[name]]
        return f"{safe[name]}:{number if dtype.is_numeric() else 'N'}"

    options = {"point": True} if plot["mark"] == "line" else {}
    chart = getattr(alt.Chart(data), f"mark_{plot['mark']}")(**options)
    encoded = chart.encode(
        x=alt.X(channel(plot["x"]), title=titles.get(plot["x"] or "", "")),
        y=alt.Y(channel(plot["y"]), title=titles.get(plot["y"] or "", "")),
        tooltip=hover(*safe.values()),
    )
    if plot["color"]:
        scale = technique_scale(results) if plot["color"] == "technique" else alt.Undefined
        # A line for each value, in the order of the values.
        colour = alt.Color(channel(plot["color"], "O"), scale=scale)
        title = axis_title(plot["color"])
        if plot["mark"] == "line":
            colour = colour.legend(**DASHED)
        encoded = encoded.encode(color=colour.title(title))
        mark = _beside_colour(results, plot, channel(plot["color"], "O"))
        encoded = encoded.encode(mark.title(title)) if mark else encoded
    if plot["panel"]:
        # A number alone does not say what it is.
        is_number = data.schema[safe[plot["panel"]]].is_numeric()
        says = f"{dumps(axis_title(plot['panel']) + ' ')} + datum.label"
        header = alt.Header(labelExpr=says) if is_number else alt.Undefined
        panel = alt.Facet(channel(plot["panel"]), title=None, header=header)
        return encoded.properties(width=190, height=160).facet(facet=panel, columns=4)
    return encoded.properties(width=560, height=300)


def _beside_colour(
    results: Results, plot: dict[str, str | None], channel: str
) -> alt.Shape | alt.StrokeDash | None:
    """Returns the shape of a plot's points or the dash of its lines, which tell apart what colours
    do; bars have a place of their own."""
    if plot["mark"] == "bar":
        return None
    is_line = plot["mark"] == "line"
    if plot["color"] == "technique":
        return technique_dash(results) if is_line else technique_shape(results)
    if is_line:
        return alt.StrokeDash(channel, scale=alt.Scale(range=list(DASHES)))
    return alt.Shape(channel, scale=alt.Scale(range=list(SHAPES)))


def order(results: Results) -> list[str]:
    return results.runs["technique"].unique(maintain_order=True).to_list()


def workloads(results: Results) -> list[str]:
    return results.runs["workload"].unique(maintain_order=True).to_list()


def panels(results: Results) -> pl.DataFrame:
    """Each workload on each machine with each value of a sweep, in order: the columns of `KEYS`,
    and its ``panel``: a line for each of them that differs. Of large sweeps the first `PANELS`."""
    groups = results.runs.select(KEYS).unique(maintain_order=True)
    told = [name for name in KEYS[1:] if groups[name].n_unique() > 1]
    lines = {
        "machine": pl.format("on {}", "machine"),
        "set": pl.col("set").str.replace_all(" ", "\n"),
    }
    label = pl.concat_str("workload", *(lines[n] for n in told), separator="\n", ignore_nulls=True)
    return groups.head(PANELS).with_columns(label.alias("panel"))


def panelled(frame: pl.DataFrame, results: Results) -> pl.DataFrame:
    """The rows of a table that `panels` have, each with its panel."""
    return frame.join(panels(results), on=KEYS, nulls_equal=True)


def panel_facet(results: Results) -> alt.Facet:
    names = panels(results)["panel"].to_list()
    return alt.Facet("panel:N", title=None, sort=names, header=SPLIT)

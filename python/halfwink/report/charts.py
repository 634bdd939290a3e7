"""Charts of a comparison. Each takes results and returns an Altair chart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from halfwink.results import Results, sweep_columns

if TYPE_CHECKING:
    from halfwink.router_results import RouterResults

#: Techniques in a fixed order of colours, so that a technique looks the same in every report.
TECHNIQUE_COLOURS = {
    "always-on": "#8a8f98",
    "idle-gate": "#b59b3b",
    "mapg-counter": "#d1603d",
    "tap": "#2a6fbb",
    "oracle": "#2f8f5b",
}
SPARE_COLOURS = ["#7b4fa3", "#4aa5a5", "#c2578f", "#6b7d2b", "#34495e"]

#: What the ledger's rows are grouped into, from the bottom of a stack.
ENERGY_GROUPS = {
    "work": "#2f6db3",
    "leakage and clock while running": "#7fb0dd",
    "stalled": "#d1603d",
    "idle": "#e3b23c",
    "gated": "#5aa469",
    "gating and waking": "#9b59b6",
    "unused cores": "#c9ccd1",
    "shared cache": "#8d99a6",
    "memory": "#5d6772",
}
CAUSES = {
    "base": "#2f6db3",
    "dependency": "#7fb0dd",
    "branch": "#9b59b6",
    "fetch-stall": "#e3b23c",
    "l2-stall": "#f0a868",
    "l3-stall": "#e07b53",
    "remote-stall": "#c0517a",
    "memory-stall": "#b93a32",
    "store-stall": "#6b7d2b",
    "system": "#4a4f57",
    "core-switch": "#1d2733",
}
STATES = {
    "active": "#2f6db3",
    "stalled": "#d1603d",
    "idle": "#e3b23c",
    "gating": "#c39bd3",
    "gated": "#5aa469",
    "charging": "#9b59b6",
    "restoring": "#6c3483",
}


#: Most slowdowns are hundredths of a per cent, some are whole ones: linear about zero, then not.
SLOWDOWN = alt.Scale(type="symlog", constant=0.02, nice=False)
AXIS = alt.Axis(tickCount=6)


def technique_scale(results: Results | RouterResults) -> alt.Scale:
    """The colour of each technique."""
    return _technique_scale(results.runs)


def _technique_scale(runs: pl.DataFrame) -> alt.Scale:
    names = runs["technique"].unique(maintain_order=True).to_list()
    spare = iter(SPARE_COLOURS * len(names))
    return alt.Scale(
        domain=names, range=[TECHNIQUE_COLOURS.get(name) or next(spare) for name in names]
    )


def _scale(colours: dict[str, str], present: pl.Series) -> alt.Scale:
    names = [name for name in colours if name in set(present.to_list())]
    return alt.Scale(domain=names, range=[colours[name] for name in names])


def savings(results: Results) -> alt.LayerChart | alt.FacetChart:
    """Saving against slowdown: a point per technique and workload."""
    runs = results.runs.filter(pl.col("technique") != results.baseline)
    columns = [
        "workload",
        "machine",
        "technique",
        "core_energy_saving_pct",
        "energy_saving_pct",
        "slowdown_pct",
        "gated_share",
        "latency_p99_us",
    ]
    base = alt.Chart(runs.select(columns)).encode(
        x=alt.X("slowdown_pct:Q", title="slowdown (%), modelled", scale=SLOWDOWN, axis=AXIS),
        y=alt.Y("core_energy_saving_pct:Q", title="core energy saved (%), modelled"),
        color=alt.Color("technique:N", scale=_technique_scale(runs), title="technique"),
        tooltip=columns,
    )
    workloads = runs["workload"].n_unique()
    points = base.mark_point(size=90, filled=True, opacity=0.85)
    zero = alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(color="#bbb").encode(y="zero:Q")
    layers: list[alt.Chart] = [zero, points]
    if workloads > 1:
        shape = alt.Shape("workload:N", title="workload", legend=alt.Legend(labelLimit=260))
        layers[1] = points.encode(shape=shape)
        # What belongs to one workload, from the least slowdown to the most.
        path = base.mark_line(color="#c9ccd1", strokeWidth=1).encode(
            color=alt.value("#c9ccd1"), detail="workload:N", order="slowdown_pct:Q"
        )
        layers.insert(1, path)
    return alt.layer(*layers).properties(width=560, height=340)


def energy_stack(results: Results) -> alt.FacetChart:
    """Energy of each technique by what it went into, relative to the baseline."""
    group = (
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
    sums = (
        results.ledger.with_columns(group.alias("group"))
        .group_by("workload", "machine", "set", "technique", "group", maintain_order=True)
        .agg(pl.col("energy_j").sum())
    )
    keys = ["workload", "machine", "set"]
    totals = results.runs.filter(technique=results.baseline).select(
        *keys, pl.col("energy_j").alias("baseline_j")
    )
    units = results.runs.select(*keys, "technique", "units", "unit_of_work")
    order = list(ENERGY_GROUPS)
    data = (
        sums.join(totals.unique(keys), on=keys)
        .join(units, on=[*keys, "technique"])
        .with_columns(
            (100 * pl.col("energy_j") / pl.col("baseline_j")).alias("share_pct"),
            (1e6 * pl.col("energy_j") / pl.col("units")).alias("uj_per_unit"),
            pl.col("group").replace_strict(order, range(len(order))).alias("order"),
        )
    )
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(
            x=alt.X("technique:N", sort=_order(results), title=None),
            y=alt.Y("sum(share_pct):Q", title="energy (% of baseline), modelled"),
            color=alt.Color("group:N", scale=_scale(ENERGY_GROUPS, data["group"]), title=None),
            order=alt.Order("order:Q"),
            tooltip=["technique", "group", "share_pct", "uj_per_unit", "unit_of_work"],
        )
        .properties(width=150, height=230)
        .facet(facet=alt.Facet("workload:N", title=None, sort=_workloads(results)), columns=4)
    )


def cpi_stack(results: Results) -> alt.FacetChart:
    """Cycles per instruction of the baseline, by reason, user and kernel apart."""
    keys = ["workload", "machine", "set"]
    runs = results.runs.filter(technique=results.baseline).with_columns(
        (pl.col("instructions") / (pl.col("ipc") * pl.col("run_s"))).alias("hz")
    )
    data = (
        results.ledger.filter(
            (pl.col("technique") == results.baseline)
            & pl.col("component").str.starts_with("core")
            & pl.col("mode").is_in(["user", "kernel"])
            & (pl.col("time_s") > 0)
        )
        .group_by(*keys, "mode", "cause", maintain_order=True)
        .agg(pl.col("time_s").sum())
        .join(runs.select(*keys, "hz", "instructions"), on=keys)
        .with_columns(
            (pl.col("time_s") * pl.col("hz") / pl.col("instructions")).alias("cpi"),
            pl.col("cause").replace_strict(list(CAUSES), range(len(CAUSES))).alias("order"),
        )
    )
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(
            x=alt.X("mode:N", title=None, sort=["user", "kernel"]),
            y=alt.Y("sum(cpi):Q", title="cycles per instruction, modelled"),
            color=alt.Color("cause:N", scale=_scale(CAUSES, data["cause"]), title=None),
            order=alt.Order("order:Q"),
            tooltip=["workload", "mode", "cause", "cpi"],
        )
        .properties(width=70, height=230)
        .facet(facet=alt.Facet("workload:N", title=None, sort=_workloads(results)), columns=8)
        .resolve_scale(y="independent")
    )


def stall_histogram(results: Results, break_even_ns: float | None = None) -> alt.FacetChart:
    """How long the baseline's stalls on the shared levels last."""
    data = results.histograms.filter(
        (pl.col("technique") == results.baseline) & (pl.col("histogram") == "stall")
    ).with_columns(
        (pl.col("count") * (pl.col("from_ns") * pl.col("to_ns")).sqrt()).alias("time_ns")
    )
    total = pl.col("time_ns").sum().over("workload")
    data = data.with_columns((100 * pl.col("time_ns") / total).alias("share_pct"))
    bars = (
        alt.Chart()
        .mark_bar(color="#d1603d")
        .encode(
            x=alt.X(
                "from_ns:Q",
                scale=alt.Scale(type="log", nice=False),
                title="stall length (ns), modelled",
            ),
            x2="to_ns:Q",
            y=alt.Y("share_pct:Q", title="share of stalled time (%)"),
            y2=alt.Y2Datum(0),
            tooltip=["workload", "from_ns", "to_ns", "count", "share_pct"],
        )
        .properties(width=190, height=150)
    )
    layers: list[alt.Chart] = [bars]
    if break_even_ns is not None:
        rule = alt.Chart().mark_rule(color="#222", strokeDash=[4, 3])
        layers.append(rule.encode(x=alt.XDatum(break_even_ns)))
    return alt.layer(*layers, data=data).facet(
        facet=alt.Facet("workload:N", title=None, sort=_workloads(results)), columns=4
    )


def residency(results: Results) -> alt.FacetChart:
    """Share of the run in each power state."""
    states = list(STATES)
    data = (
        results.runs.select(
            "workload", "technique", *[pl.col(f"{s}_share").alias(s) for s in states]
        )
        .unpivot(states, index=["workload", "technique"], variable_name="state", value_name="share")
        .with_columns(
            (100 * pl.col("share")).alias("share_pct"),
            pl.col("state").replace_strict(states, range(len(states))).alias("order"),
        )
    )
    return (
        alt.Chart(data)
        .mark_bar()
        .encode(
            x=alt.X("technique:N", sort=_order(results), title=None),
            y=alt.Y("sum(share_pct):Q", title="time (%), modelled", scale=alt.Scale(domainMax=100)),
            color=alt.Color("state:N", scale=_scale(STATES, data["state"]), title=None),
            order=alt.Order("order:Q"),
            tooltip=["workload", "technique", "state", "share_pct"],
        )
        .properties(width=150, height=200)
        .facet(facet=alt.Facet("workload:N", title=None, sort=_workloads(results)), columns=4)
    )


def study_plot(
    results: Results | RouterResults, plot: dict[str, str | None]
) -> alt.Chart | alt.FacetChart:
    """A plot that a study describes: any two columns of its results.

    Values of a sweep are columns too, under their path (``gating.wake_up_ns``). A baseline on a
    machine of its own, which is not swept, is what others are related to and is not drawn.
    """
    data = sweep_columns(results.runs)
    names = [plot[key] for key in ("x", "y", "color", "panel")]
    wanted = list(dict.fromkeys(name for name in names if name))
    safe = {name: re.sub(r"\W", "_", name) for name in wanted}
    drawn = [name for name in (plot["x"], plot["color"]) if name]
    data = data.select(*wanted).drop_nulls(drawn).rename(safe)

    def channel(name: str | None, number: str = "Q") -> str:
        name = name or ""
        dtype = data.schema[safe[name]]
        return f"{safe[name]}:{number if dtype.is_numeric() else 'N'}"

    marks = {"point": "mark_point", "line": "mark_line", "bar": "mark_bar"}
    chart = alt.Chart(data)
    options = {"point": True} if plot["mark"] == "line" else {}
    chart = getattr(chart, marks[plot["mark"] or "point"])(**options)
    encoded = chart.encode(
        x=alt.X(channel(plot["x"]), title=plot["x"]),
        y=alt.Y(channel(plot["y"]), title=plot["y"]),
        tooltip=list(safe.values()),
    )
    if plot["color"]:
        scale = technique_scale(results) if plot["color"] == "technique" else alt.Undefined
        # A line for each value, in the order of the values.
        encoded = encoded.encode(color=alt.Color(channel(plot["color"], "O"), scale=scale))
    if plot["panel"]:
        panel = alt.Facet(channel(plot["panel"]), title=None)
        return encoded.properties(width=190, height=160).facet(facet=panel, columns=4)
    return encoded.properties(width=560, height=300)


def _order(results: Results) -> list[str]:
    return results.runs["technique"].unique(maintain_order=True).to_list()


def _workloads(results: Results) -> list[str]:
    return results.runs["workload"].unique(maintain_order=True).to_list()


#: Where kernel code runs.
PLACES = {"own-core": "#2f6db3", "os-core": "#5aa469"}
#: Causes of kernel entries with a bar of their own; the others share one.
CAUSES_SHOWN = 9


def kernel_time(results: Results) -> alt.FacetChart:
    """Time in which the kernel ran, by technique, by what it was entered for, and where it ran."""
    calls = results.calls.with_columns(
        pl.when(pl.col("name") == "")
        .then(pl.format("{} {}", "kind", "number"))
        .otherwise("name")
        .alias("cause")
    )
    most = calls.group_by("cause").agg(pl.col("running_s").sum()).sort("running_s", descending=True)
    shown = most["cause"].head(CAUSES_SHOWN).to_list()
    runs = results.runs.select("workload", "machine", "set", "technique", "run_s")
    bars = (
        calls.with_columns(
            pl.when(pl.col("cause").is_in(shown)).then("cause").otherwise(pl.lit("others"))
        )
        .join(runs, on=["workload", "machine", "set", "technique"], nulls_equal=True)
        .with_columns((100 * pl.col("running_s") / pl.col("run_s")).alias("share_pct"))
        .group_by("workload", "technique", "cause", "place")
        .agg(pl.col("share_pct").sum(), pl.col("invocations").sum())
    )
    return (
        alt.Chart(bars)
        .mark_bar()
        .encode(
            x=alt.X("share_pct:Q", title="share of the run (%), modelled"),
            y=alt.Y("cause:N", title=None, sort=[*shown, "others"]),
            color=alt.Color(
                "place:N", scale=_scale(PLACES, bars["place"]), title="kernel code ran on"
            ),
            tooltip=["technique", "cause", "place", "invocations", "share_pct"],
        )
        .properties(width=220, height=150)
        .facet(
            row=alt.Row("workload:N", title=None),
            column=alt.Column(
                "technique:N",
                title=None,
                sort=runs["technique"].unique(maintain_order=True).to_list(),
            ),
        )
    )

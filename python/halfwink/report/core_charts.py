"""Charts of cores: why they wait, in which states they are, where kernel code runs."""

from __future__ import annotations

import altair as alt
import polars as pl

from halfwink.report.charts import SPLIT, colour_scale, order, panel_facet, panelled, panels
from halfwink.report.labels import hover
from halfwink.report.palette import MANY_PARTS, PARTS, TECHNIQUES
from halfwink.results.relate import KEYS
from halfwink.results.results import Results

#: What cycles go into, from the bottom of a stack.
CAUSES: dict[str, str] = dict(
    zip(
        (
            *("base", "dependency", "branch", "fetch-stall", "l2-stall", "l3-stall"),
            *("remote-stall", "memory-stall", "tlb-stall", "store-stall", "system"),
            "core-switch",
        ),
        MANY_PARTS,
        strict=True,
    )
)
#: What cores do, likewise.
STATES = {
    "active": PARTS[0],
    "stalled": PARTS[2],
    "idle": PARTS[3],
    "gating": PARTS[5],
    "gated": PARTS[4],
    "charging": PARTS[6],
    "restoring": PARTS[7],
}


def cpi_stack(results: Results) -> alt.FacetChart:
    """Cycles per instruction of the baseline, by reason, user and kernel apart."""
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
        .group_by(*KEYS, "mode", "cause", maintain_order=True)
        .agg(pl.col("time_s").sum())
        .join(runs.select(*KEYS, "hz", "instructions"), on=KEYS)
        .with_columns(
            (pl.col("time_s") * pl.col("hz") / pl.col("instructions")).alias("cpi"),
            pl.col("cause").replace_strict(list(CAUSES), range(len(CAUSES))).alias("order"),
        )
        .pipe(panelled, results)
    )
    return (
        alt.Chart(data)
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("mode:N", title=None, sort=["user", "kernel"]),
            y=alt.Y("sum(cpi):Q", title="cycles per instruction, modelled"),
            color=alt.Color("cause:N", scale=colour_scale(CAUSES, data["cause"]), title=None),
            order=alt.Order("order:Q"),
            tooltip=hover(*KEYS, "mode", "cause", "cpi"),
        )
        .properties(width=70, height=230)
        .facet(facet=panel_facet(results), columns=8)
        .resolve_scale(y="independent")
    )


def stall_histogram(results: Results, break_even_ns: float | None = None) -> alt.FacetChart:
    """Draws the durations of the baseline's stalls on the shared levels."""
    data = results.histograms.filter(
        (pl.col("technique") == results.baseline) & (pl.col("histogram") == "stall")
    ).with_columns(
        (pl.col("count") * (pl.col("from_ns") * pl.col("to_ns")).sqrt()).alias("time_ns")
    )
    total = pl.col("time_ns").sum().over("panel")
    data = data.pipe(panelled, results)
    data = data.with_columns((100 * pl.col("time_ns") / total).alias("share_pct"))
    bars = (
        alt.Chart()
        .mark_bar(color=PARTS[2])
        .encode(
            x=alt.X(
                "from_ns:Q",
                scale=alt.Scale(type="log", nice=False),
                title="stall length (ns), modelled",
            ),
            x2=alt.X2("to_ns:Q"),
            y=alt.Y("share_pct:Q", title="share of stalled time (%)"),
            y2=alt.Y2Datum(0),
            tooltip=hover(*KEYS, "from_ns", "to_ns", "count", "share_pct"),
        )
        .properties(width=190, height=150)
    )
    layers: list[alt.Chart] = [bars]
    if break_even_ns is not None:
        rule = alt.Chart().mark_rule(color="#222", strokeDash=[4, 3])
        layers.append(rule.encode(x=alt.XDatum(break_even_ns)))
    return alt.layer(*layers, data=data).facet(facet=panel_facet(results), columns=4)


def residency(results: Results) -> alt.FacetChart:
    """Share of the run in each power state."""
    states = list(STATES)
    data = (
        results.runs.select(*KEYS, "technique", *[pl.col(f"{s}_share").alias(s) for s in states])
        .unpivot(states, index=[*KEYS, "technique"], variable_name="state", value_name="share")
        .pipe(panelled, results)
        .with_columns(
            (100 * pl.col("share")).alias("share_pct"),
            pl.col("state").replace_strict(states, range(len(states))).alias("order"),
        )
    )
    return (
        alt.Chart(data)
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("technique:N", sort=order(results), title=None),
            y=alt.Y("sum(share_pct):Q", title="time (%), modelled", scale=alt.Scale(domainMax=100)),
            color=alt.Color("state:N", scale=colour_scale(STATES, data["state"]), title=None),
            order=alt.Order("order:Q"),
            tooltip=hover(*KEYS, "technique", "state", "share_pct"),
        )
        .properties(width=150, height=200)
        .facet(facet=panel_facet(results), columns=4)
    )


#: Where kernel code runs.
PLACES = {"own-core": TECHNIQUES[1], "os-core": TECHNIQUES[2]}
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
    runs = results.runs.select(*KEYS, "technique", "run_s")
    bars = (
        calls.with_columns(
            pl.when(pl.col("cause").is_in(shown)).then("cause").otherwise(pl.lit("others"))
        )
        .join(runs, on=[*KEYS, "technique"], nulls_equal=True)
        .pipe(panelled, results)
        .with_columns((100 * pl.col("running_s") / pl.col("run_s")).alias("share_pct"))
        .group_by("panel", "technique", "cause", "place")
        .agg(pl.col("share_pct").sum(), pl.col("invocations").sum())
    )
    return (
        alt.Chart(bars)
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("share_pct:Q", title="share of the run (%), modelled"),
            y=alt.Y("cause:N", title=None, sort=[*shown, "others"]),
            color=alt.Color(
                "place:N", scale=colour_scale(PLACES, bars["place"]), title="kernel code ran on"
            ),
            tooltip=hover("technique", "cause", "place", "invocations", "share_pct"),
        )
        .properties(width=220, height=150)
        .facet(
            row=alt.Row(
                "panel:N", title=None, header=SPLIT, sort=panels(results)["panel"].to_list()
            ),
            column=alt.Column(
                "technique:N",
                title=None,
                sort=runs["technique"].unique(maintain_order=True).to_list(),
            ),
        )
    )

"""A day of load as a picture."""

from __future__ import annotations

import altair as alt
import polars as pl

from halfwink.bed.day import Day
from halfwink.report.palette import DASHES, TECHNIQUES

#: Rows of the chart: column, title, scale.
PANELS = (
    ("offered_pps", "frames per second", "linear"),
    ("busy_cores", "busy cores", "linear"),
    ("modelled_w", "watts, modelled", "linear"),
    ("p99_us", "p99 (us)", "log"),
)
COLOURS = {"live": TECHNIQUES[3], "simulated": TECHNIQUES[1], "offered": TECHNIQUES[0]}


def chart(day: Day) -> alt.VConcatChart:
    """Load, busy cores, modelled watts and p99 against time, live and simulated."""
    panels = [_panel(day.slots, *panel) for panel in PANELS]
    title = f"{day.policy}: the live router and the simulated one; watts are modelled"
    return alt.vconcat(*panels, title=title, spacing=6).resolve_scale(color="shared")


def _panel(slots: pl.DataFrame, column: str, title: str, scale: str) -> alt.Chart:
    sides = [side for side in ("live", "simulated") if f"{side}_{column}" in slots.columns]
    parts = [
        slots.select("second", pl.col(f"{side}_{column}").alias("value"), pl.lit(side).alias("of"))
        for side in sides
    ] or [slots.select("second", pl.col(column).alias("value"), pl.lit("offered").alias("of"))]
    colours = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    dashes = alt.Scale(domain=list(COLOURS), range=[list(dash) for dash in DASHES[: len(COLOURS)]])
    last = column == PANELS[-1][0]
    return (
        alt.Chart(pl.concat(parts))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("second:Q", title="seconds" if last else None, axis=alt.Axis(labels=last)),
            y=alt.Y("value:Q", title=title, scale=_scale(column, scale)),
            color=alt.Color("of:N", scale=colours, title=None),
            strokeDash=alt.StrokeDash("of:N", scale=dashes, title=None),
        )
        .properties(width=640, height=110)
    )


def _scale(column: str, kind: str) -> alt.Scale:
    # Watts begin far from zero: what a router draws asleep.
    return alt.Scale(
        type="log" if kind == "log" else "linear", zero=kind == "linear" and column != "modelled_w"
    )

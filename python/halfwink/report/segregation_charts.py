"""Charts of the gains of splits and insertion ranks over one LRU stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from halfwink.report.labels import hover
from halfwink.report.palette import DASHED, DASHES, TECHNIQUES

if TYPE_CHECKING:
    from halfwink.models.segregation import SegregationSweep

ROUTES = {"both": TECHNIQUES[1], "data": TECHNIQUES[3], "instructions": TECHNIQUES[4]}
GAIN, HOLDS = "gain (modelled), %", "what the kernel's side holds"


def split_and_ranks(found: SegregationSweep) -> alt.VConcatChart:
    """Splits by ways and by banks above, ranks of insertion below."""
    parts: list[alt.LayerChart | alt.FacetChart | alt.Chart] = [_splits(found)]
    grid = found.schemes.filter(scheme="insertion")
    if not grid.is_empty():
        parts.append(_ranks(grid))
    return alt.vconcat(*parts).resolve_scale(color="independent", strokeDash="independent")


def _splits(found: SegregationSweep) -> alt.LayerChart | alt.FacetChart:
    columns = ["route", "kernel_ways", "equal_gain_pct", "gain_pct", "mpki"]
    ways = found.schemes.filter(scheme="way-partition").select(columns)
    banks = found.schemes.filter(scheme="bank-partition", look_up="parallel").select(columns)
    # A bank is half of the cache: between the splits on either side of the middle, if it is odd.
    middle = (len(ways.filter(route="both")) + 1) / 2
    colour = alt.Color(
        "route:N",
        scale=alt.Scale(domain=list(ROUTES), range=list(ROUTES.values())),
        title=HOLDS,
        legend=alt.Legend(**DASHED),
    )
    dashes = alt.Scale(domain=list(ROUTES), range=[list(dash) for dash in DASHES[: len(ROUTES)]])
    dash = alt.StrokeDash("route:N", scale=dashes, title=HOLDS, legend=alt.Legend(**DASHED))
    y = alt.Y("equal_gain_pct:Q", title=GAIN)
    lines = (
        alt.Chart(ways)
        .mark_line(point=True)
        .encode(
            x=alt.X("kernel_ways:Q", title="ways for the kernel"),
            y=y,
            color=colour,
            strokeDash=dash,
        )
    )
    diamonds = (
        alt.Chart(banks.with_columns(pl.lit(middle).alias("half")))
        .mark_point(shape="diamond", size=140, filled=True)
        .encode(x=alt.X("half:Q"), y=y, color=colour, tooltip=hover(*columns))
    )
    zero = (
        alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(color="#888").encode(y=alt.Y("zero:Q"))
    )
    title = "Splits by ways (lines) and a bank for each (diamonds)"
    return alt.layer(zero, lines, diamonds).properties(width=460, height=260, title=title)


def _ranks(grid: pl.DataFrame) -> alt.Chart:
    columns = ["user_rank", "kernel_rank", "equal_gain_pct", "mpki"]
    return (
        alt.Chart(grid.select(columns))
        .mark_rect()
        .encode(
            x=alt.X("kernel_rank:O", title="rank of the kernel's fills (0: most recent)"),
            y=alt.Y("user_rank:O", title="rank of the user's fills"),
            color=alt.Color(
                "equal_gain_pct:Q",
                scale=alt.Scale(scheme="blueorange", domainMid=0, reverse=True),
                title=GAIN,
            ),
            tooltip=hover(*columns),
        )
        .properties(width=460, height=300, title="Ranks at which fills come in")
    )

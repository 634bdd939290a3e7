"""Figures of preheated caches: response times by how a server found its caches."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import altair as alt
import polars as pl

from halfwink import _core
from halfwink.report.figures import Figure
from halfwink.report.gallery_chart import INK
from halfwink.report.palette import PARTS

#: Height of a bar with its gap, by the size of its label.
BAR = 2.2
#: Width of a letter by the size of its font.
LETTER = 0.55
#: Share of a sleep's penalty below which it counts as gone by no technique, in per cent.
LEAST_PCT = 1.0


def gone_pct(warm_us: float, cold_us: float, ours_us: float) -> float | None:
    """Returns the share of the cost of cold caches that is gone, in per cent; none where they cost
    nothing."""
    return 100 * (cold_us - ours_us) / (cold_us - warm_us) if cold_us > warm_us else None


def simulation(modes: pl.DataFrame, workload: str, machine: str) -> Figure:
    """Draws response times of the modes of ``halfwink preheat simulate``."""
    mean = dict(modes.select("mode", "response_mean_us").iter_rows())
    title = answer(gone_pct(mean["warm"], mean["cold"], mean["preheated"]))
    rows = modes.select("mode", mean_us="response_mean_us", p99_us="response_p99_us")
    return _figure(rows, title, f"{workload} on {machine}, simulated")


def prototype(services: pl.DataFrame, machine: str) -> Figure:
    """Draws response times of the services of ``halfwink preheat prototype``."""
    gone: list[float] = []
    for (_,), own in services.group_by(["workload"], maintain_order=True):
        mean = dict(own.select("mode", "response_us").iter_rows())
        share = gone_pct(mean["warm"], mean["cold"], mean["preheated"])
        gone += [] if share is None else [share]
    rows = services.select("workload", "mode", mean_us="response_us", p99_us="p99_us")
    return _figure(rows, answer(*gone), f"the services of the prototype on {machine}, simulated")


def answer(*gone: float | None) -> str:
    """Returns the effect of preheating in a sentence."""
    known = [share for share in gone if share is not None]
    if not known:
        return "Cold caches cost these requests nothing"
    low, high = round(min(known)), round(max(known))
    if high < LEAST_PCT:
        return "Preheating removes nothing of what cold caches cost"
    share = f"{high} %" if low == high else f"{low} to {high} %"
    return f"Preheating removes {share} of what cold caches cost"


def _figure(rows: pl.DataFrame, title: str, where: str) -> Figure:
    def draw(size: tuple[int, int], font: float, columns: int) -> Any:
        return _chart(rows, title, (size[0], font), columns)

    caption = f"{title}: {where}. Bars: mean response; strokes: 99th percentile."
    return Figure(draw, f"{caption} Modelled by halfwink {_core.__version__}.")


def _chart(
    rows: pl.DataFrame, title: str, size: tuple[int, float], columns: int
) -> alt.TopLevelMixin:
    width, font = size
    modes = rows["mode"].unique(maintain_order=True).to_list()
    base = alt.Chart().encode(y=alt.Y("mode:N", sort=modes, title=None))
    bars = base.mark_bar(color=PARTS[0], height={"band": 0.6}).encode(
        x=alt.X("mean_us:Q", title="response, simulated us", axis=alt.Axis(tickCount=4))
    )
    strokes = base.mark_tick(color=INK, thickness=1.2, size=1.4 * font).encode(x=alt.X("p99_us:Q"))
    drawn = alt.layer(bars, strokes, data=rows).properties(
        width=width, height=round(BAR * font * len(modes))
    )
    across = width * (columns if "workload" in rows.columns else 1)
    said = alt.TitleParams(
        wrap(title, max(20, int(across / (LETTER * (font + 1))))), anchor="start", frame="group"
    )
    if "workload" not in rows.columns:
        return drawn.properties(title=said)
    panel = alt.Facet(
        "workload:N", title=None, sort=rows["workload"].unique(maintain_order=True).to_list()
    )
    faceted = drawn.facet(facet=panel, columns=columns).resolve_scale(x="independent")
    return faceted.properties(title=said)

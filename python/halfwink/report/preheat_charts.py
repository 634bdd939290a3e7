"""Figures of preheated caches: response times by how a server found its caches, the steps of the
loader, and what is gained where it is late."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import altair as alt
import polars as pl

from halfwink.report.figures import Figure, modelled
from halfwink.report.gallery_chart import INK
from halfwink.report.palette import DASHES, PARTS, SHAPES, TECHNIQUES

#: Height of a bar with its gap, by the size of its label.
BAR = 2.2
#: Width of a letter by the size of its font.
LETTER = 0.55
#: Share of a sleep's penalty below which it counts as gone by no technique, in per cent.
LEAST_PCT = 1.0
#: What becomes of a request whose lines are not there in time, in words.
LATE = {"concurrent": "answering meanwhile", "wait": "waiting", "skip": "cutting the load"}


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


def steps(table: pl.DataFrame, machine: str) -> Figure:
    """Draws the times of ``halfwink preheat breakdown``: after each step of the loader, and without
    that step alone."""
    after = table.filter(pl.col("how") == "cumulative")
    without = table.filter(pl.col("how") == "left-out").select("step", without_us="time_us")
    rows = after.join(without, on="step", how="left").select(
        "without_us",
        "time_us",
        step=pl.col("step").replace({"none": "no step"}),
    )
    most = after.filter(pl.col("reduction_pct") == pl.col("reduction_pct").max()).row(0, named=True)
    times = after["time_us"].to_list()
    title = (
        f"All steps load {times[0] / times[-1]:.1f} times as fast; "
        f"`{most['step']}` takes {most['reduction_pct']:.0f} % off"
    )

    def draw(size: tuple[int, int], font: float, _columns: int) -> Any:
        across = (size[0], font)
        drawn = _bars(rows, ("step", "time_us", "without_us"), "loading a set", across)
        return drawn.properties(title=_title(title, *across))

    marks = "Bars: with the steps down to this one; strokes: with all steps but this one."
    caption = f"{title}: {machine}, simulated. {marks}"
    return Figure(draw, modelled(caption))


def deadline(table: pl.DataFrame, machine: str) -> Figure:
    """Draws the gain of ``halfwink preheat deadline`` over the lead of the announcement, at the
    machine's own bandwidth and most frequent wake-up time."""
    wake_us = table["wake_us"].mode().min()
    rows = table.filter((pl.col("wake_us") == wake_us) & (pl.col("bandwidth") == 1)).select(
        "workload", "lead_us", "net_gain_us", late=pl.col("late").replace(LATE)
    )
    title = _kept(rows)

    def draw(size: tuple[int, int], font: float, columns: int) -> Any:
        kinds = list(LATE.values())
        scale = alt.Scale(domain=kinds, range=list(TECHNIQUES[1:4]))
        marks = alt.Scale(domain=kinds, range=list(SHAPES[:3]))
        dashes = alt.Scale(domain=kinds, range=[list(dash) for dash in DASHES[:3]])
        colour = alt.Color("late:N", title=None, scale=scale)
        base = alt.Chart().encode(
            x=alt.X("lead_us:Q", title="lead of the announcement, us", axis=alt.Axis(tickCount=4)),
            y=alt.Y("net_gain_us:Q", title="gain, simulated us", axis=alt.Axis(tickCount=4)),
            color=colour,
        )
        lines = base.mark_line().encode(
            strokeDash=alt.StrokeDash("late:N", title=None, scale=dashes)
        )
        points = base.mark_point(filled=True, size=30).encode(
            shape=alt.Shape("late:N", title=None, scale=marks)
        )
        drawn = alt.layer(lines, points, data=rows).properties(width=size[0], height=size[1])
        across = size[0] * min(columns, rows["workload"].n_unique())
        faceted = _by_workload(drawn, rows, columns).resolve_scale(y="independent")
        return faceted.properties(title=_title(title, across, font))

    where = f"{machine}, simulated, a wake-up of {wake_us:g} us"
    caption = f"{title}: {where}. Gain: against cold caches."
    return Figure(draw, modelled(caption))


def _kept(rows: pl.DataFrame) -> str:
    """Returns in a sentence how much of the gain is left at the shortest lead, by what becomes of a
    request that comes before its lines are there."""
    lead = rows["lead_us"].min()
    most = pl.col("net_gain_us").max().over("workload")
    shares = rows.with_columns(kept=100 * pl.col("net_gain_us") / most).filter(
        pl.col("lead_us") == lead
    )
    told: list[str] = []
    for way in LATE.values():
        share = _span(shares.filter(pl.col("late") == way)["kept"].to_list())
        told.append(f"{share} of its gain by {way}" if not told else f"{share} by {way}")
    return f"Announced {lead:g} us ahead, preheating keeps {', '.join(told)}"


def answer(*gone: float | None) -> str:
    """Returns the effect of preheating in a sentence."""
    known = [share for share in gone if share is not None]
    if not known:
        return "Cold caches cost these requests nothing"
    if round(max(known)) < LEAST_PCT:
        return "Preheating removes nothing of what cold caches cost"
    return f"Preheating removes {_span(known)} of what cold caches cost"


def _span(shares: list[float]) -> str:
    """Returns the least and the largest of some shares in per cent, as one if they round alike."""
    low, high = round(min(shares)), round(max(shares))
    return f"{high} %" if low == high else f"{low} to {high} %"


def _figure(rows: pl.DataFrame, title: str, where: str) -> Figure:
    def draw(size: tuple[int, int], font: float, columns: int) -> Any:
        return _chart(rows, title, (size[0], font), columns)

    caption = f"{title}: {where}. Bars: mean response; strokes: 99th percentile."
    return Figure(draw, modelled(caption))


def _chart(
    rows: pl.DataFrame, title: str, size: tuple[int, float], columns: int
) -> alt.TopLevelMixin:
    width, font = size
    drawn = _bars(rows, ("mode", "mean_us", "p99_us"), "response", size)
    across = width * (columns if "workload" in rows.columns else 1)
    said = _title(title, across, font)
    if "workload" not in rows.columns:
        return drawn.properties(title=said)
    faceted = _by_workload(drawn, rows, columns).resolve_scale(x="independent")
    return faceted.properties(title=said)


def _bars(
    rows: pl.DataFrame, names: tuple[str, str, str], what: str, size: tuple[int, float]
) -> Any:
    """Returns a bar for each label, and a stroke: the columns of labels, bars and strokes, what the
    times are of, and the width and size of font."""
    label, bar, stroke = names
    width, font = size
    order = rows[label].unique(maintain_order=True).to_list()
    base = alt.Chart().encode(y=alt.Y(f"{label}:N", sort=order, title=None))
    bars = base.mark_bar(color=PARTS[0], height={"band": 0.6}).encode(
        x=alt.X(f"{bar}:Q", title=f"{what}, simulated us", axis=alt.Axis(tickCount=4))
    )
    strokes = base.mark_tick(color=INK, thickness=1.2, size=1.4 * font)
    drawn = alt.layer(bars, strokes.encode(x=alt.X(f"{stroke}:Q")), data=rows)
    return drawn.properties(width=width, height=round(BAR * font * len(order)))


def _by_workload(drawn: Any, rows: pl.DataFrame, columns: int) -> Any:
    """Returns a panel for each workload, so many in a row."""
    order = rows["workload"].unique(maintain_order=True).to_list()
    panel = alt.Facet("workload:N", title=None, sort=order)
    return drawn.facet(facet=panel, columns=columns)


def _title(text: str, across: float, font: float) -> alt.TitleParams:
    """Returns a title in lines of such a width."""
    most = max(20, int(across / (LETTER * (font + 1))))
    # A blank between a number and its unit is no place to break.
    lines = wrap(text.replace(" %", "\N{NO-BREAK SPACE}%"), most)
    return alt.TitleParams(lines, anchor="start", frame="group")

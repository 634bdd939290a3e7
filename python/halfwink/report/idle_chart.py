"""Chart of idle policies in recorded gaps: the power of idle CPUs against the wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from halfwink.advice.idle_gaps import BEST, RECORDED, USUAL, short_time
from halfwink.report.chart_axes import Axis, numbered, time_unit
from halfwink.report.figures import Figure, modelled
from halfwink.report.labels import COLOUR, FONT
from halfwink.report.palette import SHAPES, colours_of, numbers_of

if TYPE_CHECKING:
    from halfwink.advice.idle_gaps import IdleGaps

#: Pixels of the chart on a screen.
SCREEN = (560, 380)
#: Pixels around the outermost points, and the share by which the axis of power extends.
FREE, LEAST_SPAN = 10, 0.02
#: Columns of the chart: power of idle CPUs in per cent of menu's, the 99th percentile of wake-ups.
POWER, WAIT = "power_pct", "latency_p99_us"
#: What the kernel chose, in a legend.
KERNEL = "chosen by the kernel"


def idle_chart(
    found: IdleGaps, size: tuple[int, int] = SCREEN, font: float = FONT
) -> alt.LayerChart:
    """Draws the power of idle CPUs against the 99th percentile of wake-ups, a point for each
    policy, with its range over the watts that are assumed; menu under each latency limit as a line.

    Args:
        found: results of idle policies in recorded gaps.
        size: width and height, in pixels.
        font: size of the labels' font, in pixels.
    """
    rows = list(_policies(found))
    # With a limit of nothing CPUs poll, far from all others.
    limits = [_point(found, row, "") for row in found.limits if row["limit_us"] != 0]
    whole = found.row(USUAL)["energy_j"]
    bound = 100 * found.row(BEST)["energy_j"] / whole
    waits = [row[WAIT] for row in (*rows, *limits)]
    kind = None if min(waits) > 0 else "symlog"
    across = Axis.over(waits, size[0], 0.0, FREE * font / FONT, kind)
    powers = [row[end] for row in rows for end in ("low_pct", "high_pct", POWER)]
    powers += [row[POWER] for row in limits]
    up = Axis.over([*powers, bound], size[1], LEAST_SPAN, FREE * font / FONT)
    factor, unit = time_unit(across.high)
    x = alt.X(
        f"{WAIT}:Q",
        title=f"p99 of wake-ups ({unit}), modelled",
        scale=across.scale(),
        axis=numbered(across.ticks(4 * font), factor),
    )
    title = "idle power (%), modelled"
    y = alt.Y(f"{POWER}:Q", title=title, scale=up.scale(), axis=numbered(up.ticks(3 * font)))
    names = [row["policy"] for row in rows]
    looks = colours_of(names)
    colours = alt.Scale(domain=names, range=[looks[name] for name in names])
    shapes = alt.Scale(domain=names, range=[SHAPES[n] for n in numbers_of(names, len(SHAPES))])
    colour = alt.Color("policy:N", title=None, scale=colours)
    base = alt.Chart(pl.DataFrame(rows)).encode(x=x, y=y, color=colour)
    tips = [alt.Tooltip(name) for name in ("policy", WAIT, POWER, "low_pct", "high_pct")]
    shape = alt.Shape("policy:N", title=None, scale=shapes)
    points = base.mark_point(size=70, filled=True, opacity=1).encode(shape=shape, tooltip=tips)
    bars = base.mark_rule(strokeWidth=1).encode(y=alt.Y("low_pct:Q"), y2="high_pct:Q")
    ring = base.mark_point(size=220, filled=False, strokeWidth=1.5, shape="circle", opacity=1)
    under = alt.Chart(pl.DataFrame(limits)).encode(x=x, y=y, order="limit_us:Q")
    path = under.mark_line(color=COLOUR, strokeWidth=1, strokeDash=[2, 2])
    dots = under.mark_point(color=COLOUR, size=12, filled=True, opacity=1)
    least = alt.Chart(pl.DataFrame({POWER: [bound]})).mark_rule(strokeDash=[6, 3], color=COLOUR)
    layers: list[alt.Chart] = [
        least.encode(y=y),
        path,
        dots.encode(tooltip=[alt.Tooltip(name) for name in ("limit", WAIT, POWER)]),
        *([bars] if any(row["low_pct"] != row["high_pct"] for row in rows) else []),
        points,
        ring.transform_filter("datum.is_advised"),
        *_goal(found, x, across),
    ]
    drawn = alt.layer(*layers).properties(width=size[0], height=size[1])
    assert isinstance(drawn, alt.LayerChart)
    return drawn


def idle_figure(found: IdleGaps) -> Figure:
    """Returns the chart for print; its caption is the answer."""
    advised = found.best_of_today()
    told = [
        found.sentences()[0],
        f"Power of idle CPUs in per cent of {USUAL}'s, in the idle times of {found.file}, on "
        f"{found.machine}.",
        f"Ring: {advised}, the one to {'keep' if advised == USUAL else 'set'}.",
        f"Dotted: {USUAL} under each latency limit. Dashed: the best state of each gap, known "
        "beforehand.",
    ]
    if found.goal_us is not None:
        told.append(f"Upright: the goal, {short_time(found.goal_us)}.")
    if any(row["low_pct"] != row["high_pct"] for row in _policies(found)):
        told.append("Bars: over the watts assumed.")
    return Figure(lambda size, font, _: idle_chart(found, size, font), modelled(" ".join(told)))


def _policies(found: IdleGaps) -> Iterator[dict[str, Any]]:
    """Returns a point for each policy and for what the kernel chose, in the order of the rows."""
    advised = found.best_of_today()
    for row in found.rows:
        name = row["technique"]
        if name == BEST:
            continue
        point = _point(found, row, KERNEL if name == RECORDED else name)
        saved = found.saving(name)
        low, high = saved.over_watts or (saved.value, saved.value)
        yield point | {
            "low_pct": 100 - high,
            "high_pct": 100 - low,
            "is_advised": name == advised,
        }


def _point(found: IdleGaps, row: dict[str, Any], name: str) -> dict[str, Any]:
    limit = row.get("limit_us")
    return {
        "policy": name,
        WAIT: row[WAIT],
        POWER: 100 * row["energy_j"] / found.row(USUAL)["energy_j"],
        "limit": "no limit" if limit is None else short_time(limit),
        # The longest limits come last along the line.
        "limit_us": 1e12 if limit is None else limit,
    }


def _goal(found: IdleGaps, x: alt.X, across: Axis) -> list[alt.Chart]:
    """Returns the longest wait that was asked for, as an upright line; none outside the axis."""
    if found.goal_us is None or not across.low < found.goal_us < across.high:
        return []
    goal = alt.Chart(pl.DataFrame({WAIT: [found.goal_us]})).encode(x=x)
    return [goal.mark_rule(strokeWidth=1, color=COLOUR)]

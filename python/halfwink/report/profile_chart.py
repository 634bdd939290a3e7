"""Chart of a service's profile: the time of a request after each depth of sleep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.report.figures import Figure, modelled
from halfwink.report.palette import PARTS
from halfwink.report.preheat_charts import BAR

if TYPE_CHECKING:
    from halfwink.models.request_profile import RequestProfile

#: Parts of a request's time, from the axis outwards, with their colours.
WARM, LEFT, GONE = "warm", "left by preheating", "gone by preheating"
COLOURS = {WARM: PARTS[0], LEFT: PARTS[2], GONE: PARTS[3]}


def profile_figure(found: RequestProfile) -> Figure:
    """Returns the time of a request after sleeps that lose contents, what preheating takes off it
    apart, for print.

    Raises:
        HalfwinkError: the profile has no cold contents.
    """
    if not found.cold:
        raise HalfwinkError(
            f"{found.workload}: a profile without a recording knows no cold caches; expected a "
            "recorded WORKLOAD for --plot"
        )
    rows = _rows(found)
    names = rows["sleep"].unique(maintain_order=True).to_list()
    parts = [part for part in COLOURS if part in rows["part"]]
    colours = alt.Scale(domain=parts, range=[COLOURS[part] for part in parts])

    def draw(size: tuple[int, int], font: float, _: int) -> Any:
        title = "time of a request (us), modelled"
        bars = alt.Chart(rows).mark_bar(height={"band": 0.6})
        return bars.encode(
            y=alt.Y("sleep:N", sort=names, title="lost asleep", axis=alt.Axis(labelLimit=0)),
            x=alt.X("time_us:Q", title=title, axis=alt.Axis(tickCount=4)),
            color=alt.Color("part:N", title=None, scale=colours),
            order=alt.Order("order:Q"),
            tooltip=[alt.Tooltip(name) for name in ("sleep", "part", "time_us")],
        ).properties(width=size[0], height=round(BAR * font * len(names)))

    deepest = found.cold[-1]
    told = (
        f"A request of {found.workload} takes {found.mean_us:.4g} us on a warm {found.core} core, "
        f"{found.mean_us + deepest.extra_us:.4g} after a sleep that loses "
        f"{', '.join(deepest.loses)}"
    )
    if deepest.preheated_us is not None:
        told += f", and {found.mean_us + deepest.preheated_us:.4g} if its lines are loaded before"
    return Figure(draw, modelled(f"{told}."))


def _rows(found: RequestProfile) -> pl.DataFrame:
    rows = [("nothing", WARM, found.mean_us)]
    before: tuple[str, ...] = ()
    for cold in found.cold:
        # A deeper sleep loses what the one before does, and more.
        is_more = before and cold.loses[: len(before)] == before
        lost = ", ".join(cold.loses[len(before) :] if is_more else cold.loses)
        lost = f"and {lost}" if is_more else lost
        before = cold.loses
        left = cold.extra_us if cold.preheated_us is None else cold.preheated_us
        times = {WARM: found.mean_us, LEFT: left, GONE: cold.extra_us - left}
        rows += [(lost, part, time) for part, time in times.items() if time > 0]
    known = pl.DataFrame(rows, schema=["sleep", "part", "time_us"], orient="row")
    order = pl.col("part").replace_strict(list(COLOURS), range(len(COLOURS)))
    return known.with_columns(order.alias("order"))

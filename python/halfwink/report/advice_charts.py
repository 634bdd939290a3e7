"""Charts of advice: power against latency of all compositions, and a fleet along a day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from halfwink.advice.composition_search import USUAL
from halfwink.report.chart_axes import Axis, numbered, time_unit
from halfwink.report.figures import Figure, modelled
from halfwink.report.labels import COLOUR, FONT
from halfwink.report.palette import DASHES, SHAPES, TECHNIQUES
from halfwink.report.tradeoff_chart import FAR, FREE, LATENCY, LEAST_SPAN
from halfwink.results.summary import has_assumed
from halfwink.results.wording import duration

if TYPE_CHECKING:
    from halfwink.advice.advice import Advice
    from halfwink.advice.day_advice import DayAdvice

#: Pixels of the chart of compositions on a screen, and of a panel of a day.
SCREEN, DAY_PANEL = (560, 380), (560, 150)
#: Height of a panel of a day, by its width: three stand above each other.
DAY_ASPECT = 0.3
#: Power of a server, in watts or in per cent of the baseline's.
POWER = "power"
#: What a composition needs, in words of a legend.
WITH = {"today": "of today", "kernel": "changed kernel", "silicon": "new hardware"}
#: Colour and shape of each part in the answer, and of the other compositions by what they need.
MARKS = {
    **dict.fromkeys(("set", "keep", "nearest"), (TECHNIQUES[1], "circle")),
    "runner-up": (TECHNIQUES[2], "diamond"),
    WITH["kernel"]: (TECHNIQUES[3], "square"),
    WITH["silicon"]: (TECHNIQUES[6], "triangle-up"),
    "now": (TECHNIQUES[5], "cross"),
}
OTHERS = {need: (TECHNIQUES[0], SHAPES[n]) for n, need in enumerate(WITH)}
#: Share of the width within which the goal's name does not stand in the middle over its line.
EDGE = 0.25


def compositions(
    found: Advice, size: tuple[int, int] = SCREEN, font: float = FONT
) -> alt.LayerChart:
    """Draws power against the 99th percentile of all compositions that were played: what to set,
    the runner-up, what a changed kernel or new hardware would add, and the goal as a line.

    Args:
        found: advice for a service.
        size: width and height, in pixels.
        font: size of the labels' font, in pixels.
    """
    rows, _ = _near_and_far(found)
    goal = [] if found.goal_us is None else [found.goal_us]
    unit = font / FONT
    across = Axis.over([*rows[LATENCY], *goal], size[0], LEAST_SPAN["x"], FREE * unit)
    up = Axis.over(rows[POWER].to_list(), size[1], LEAST_SPAN["y"], FREE * unit)
    factor, time = time_unit(across.high)
    x = alt.X(
        f"{LATENCY}:Q",
        title=f"99th percentile of latency ({time}), modelled",
        scale=across.scale(),
        axis=numbered(across.ticks(4 * font), factor),
    )
    y = alt.Y(f"{POWER}:Q", title=_power_title(found), scale=up.scale(), axis=alt.Axis(tickCount=5))
    looks = {f"{role}: {name}": MARKS[role] for name, role in _roles(found).items()}
    looks |= {_others(need): look for need, look in OTHERS.items()}
    looks = {told: look for told, look in looks.items() if told in set(rows["what"])}
    colours, shapes = (list(of) for of in zip(*looks.values(), strict=True))
    kinds = list(looks)
    # Marks are faint where they are many; the legend's are not.
    legend = alt.Legend(symbolOpacity=1, labelLimit=0)
    base = alt.Chart(rows).encode(
        x=x,
        y=y,
        color=alt.Color(
            "what:N", title=None, legend=legend, scale=alt.Scale(domain=kinds, range=colours)
        ),
        shape=alt.Shape(
            "what:N", title=None, legend=legend, scale=alt.Scale(domain=kinds, range=shapes)
        ),
        tooltip=[alt.Tooltip(name) for name in ("technique", "needs", LATENCY, POWER)],
    )
    faint = alt.condition("datum.keeps_goal", alt.value(0.5), alt.value(0.15))
    others = base.mark_point(size=25, filled=True).encode(opacity=faint)
    named = base.mark_point(size=80, filled=True, opacity=1)
    ring = base.mark_point(size=220, filled=False, strokeWidth=1.5, shape="circle", opacity=1)
    layers: list[alt.Chart] = [
        *_goal_line(found.goal_us, x, across),
        others.transform_filter("!datum.role"),
        named.transform_filter("!!datum.role"),
        ring.encode(shape=alt.ShapeValue("circle")).transform_filter("datum.is_advised"),
    ]
    drawn = alt.layer(*layers).properties(width=size[0], height=size[1])
    assert isinstance(drawn, alt.LayerChart)
    return drawn


def compositions_figure(found: Advice) -> Figure:
    """Returns the chart of compositions for print; its caption is the answer."""
    line = "" if found.goal_us is None else f"Dashed: the goal, {duration(found.goal_us)}. "
    line += "Faint: compositions that break the goal."
    _, far = _near_and_far(found)
    if far.height:
        line += f" Far outside, and not drawn: {far.height} of {found.tried.height} compositions."
    caption = modelled(f"{found.sentences[0]} Ring: {_advised(found)}. {line}")
    return Figure(lambda size, font, _: compositions(found, size, font), caption)


def _advised(found: Advice) -> str:
    """The composition that the ring is around, and in which sense."""
    if not found.keeps_goal:
        return f"{found.today}, the nearest"
    return f"{found.today}, the one to {'keep' if found.today == USUAL else 'set'}"


def _others(need: str) -> str:
    return f"others, {WITH[need]}"


def _roles(found: Advice) -> dict[str, str]:
    """Parts that compositions have in the answer, by composition."""
    needs = dict(found.tried.select("technique", "needs").iter_rows())
    first = "nearest" if not found.keeps_goal else "keep" if found.today == USUAL else "set"
    told = {found.today: first}
    for name, role in ((found.runner_up, "runner-up"), (found.best, WITH[needs[found.best]])):
        if name:
            told.setdefault(name, role)
    told.setdefault(USUAL, "now")
    return told


def _near_and_far(found: Advice) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All compositions with their power and part in the answer, those of the long runs with the
    long runs' values; and those that are so far out that the others would be one point."""
    columns = ["technique", "energy_j_per_unit", LATENCY]
    long = found.results.runs.select(columns)
    base = found.results.runs.filter(technique=USUAL).row(0, named=True)
    # At one load a request's energy says the power; of assumed watts only shares are told.
    whole = 100.0 if has_assumed(found.results.runs) else base["power_w"]
    power = whole * pl.col("energy_j_per_unit") / base["energy_j_per_unit"]
    roles = _roles(found)
    technique = pl.col("technique")
    rows = (
        found.tried.select(*columns, "needs", "keeps_goal")
        .update(long, on="technique")
        .drop_nulls(LATENCY)
        .with_columns(
            power.alias(POWER),
            technique.replace_strict(roles, default=None, return_dtype=pl.String).alias("role"),
            (technique == found.today).alias("is_advised"),
        )
        .with_columns(
            pl.when(pl.col("role").is_null())
            .then(pl.col("needs").replace_strict({need: _others(need) for need in WITH}))
            .otherwise(pl.format("{}: {}", "role", "technique"))
            .alias("what")
        )
        .drop("energy_j_per_unit")
    )
    near = pl.lit(True)
    for column in (LATENCY, POWER):
        near &= pl.col(column) <= FAR * pl.col(column).median()
    near |= pl.col("role").is_not_null()
    return rows.filter(near), rows.filter(~near)


def _power_title(found: Advice) -> str:
    if has_assumed(found.results.runs):
        return f"power of a server (% of {USUAL}'s), modelled"
    return "power of a server (W), modelled"


def _goal_line(goal_us: float | None, x: alt.X, across: Axis) -> list[alt.Chart]:
    """The goal as a dashed line, with its name above the panel, where no point stands."""
    if goal_us is None:
        return []
    goal = alt.Chart(pl.DataFrame({LATENCY: [goal_us]})).encode(x=x)
    share = across.pixel(goal_us) / across.length
    align = "left" if share < EDGE else "right" if share > 1 - EDGE else "center"
    text = goal.mark_text(align=align, baseline="bottom", dy=-3).encode(
        y=alt.YValue(0),
        text=alt.TextValue(f"goal {duration(goal_us)}"),
        color=alt.ColorValue(COLOUR),
    )
    return [goal.mark_rule(strokeDash=[4, 3], color=COLOUR), text]


def along_day(
    found: DayAdvice, size: tuple[int, int] = DAY_PANEL, font: float = FONT
) -> alt.VConcatChart:
    """Draws a day: load of a server, power of the fleet and 99th percentile, under ``menu``, under
    what to set on all servers, and with servers that sleep.

    Args:
        found: advice for a day.
        size: width and height of each of the three panels, in pixels.
        font: size of the labels' font, in pixels.
    """
    some = f"{found.asleep or found.today}, some servers asleep"
    names = {USUAL: USUAL, "today": found.today, "asleep": some}
    domain = list(dict.fromkeys(names.values()))
    colours = alt.Scale(domain=domain, range=list(TECHNIQUES[: len(domain)]))
    dashes = alt.Scale(domain=domain, range=[list(dash) for dash in DASHES[: len(domain)]])

    def lines(what: str, title: str, below: str | None = None) -> alt.LayerChart:
        x = alt.X("hours:Q", title=below, scale=alt.Scale(nice=False))
        columns = {f"{key}_{what}": name for key, name in names.items()}
        data = found.steps.select("hours", *columns).rename(columns)
        # The last step ends where the day does.
        step = data["hours"][1] - data["hours"][0]
        end = data.tail(1).with_columns(pl.col("hours") + step)
        data = pl.concat([data, end]).unpivot(index="hours")
        drawn = alt.Chart(data).mark_line(interpolate="step-after", strokeWidth=1.5)
        scale = alt.Scale(zero=what == "load_pct")
        y = alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(tickCount=4))
        colour = alt.Color("variable:N", title=None, scale=colours)
        dash = alt.StrokeDash("variable:N", title=None, scale=dashes)
        layers: list[alt.Chart] = [drawn.encode(x=x, y=y, color=colour, strokeDash=dash)]
        if what == "p99_us" and found.goal_us is not None:
            goal = alt.Chart(pl.DataFrame({"value": [found.goal_us], "hours": [0.0]}))
            layers.append(goal.mark_rule(color=COLOUR, size=1).encode(y=alt.Y("value:Q")))
            text = goal.mark_text(align="left", dx=4, dy=-0.6 * font, text="goal", color=COLOUR)
            layers.append(text.encode(x=x, y=alt.Y("value:Q")))
        panel = alt.layer(*layers).properties(width=size[0], height=size[1])
        assert isinstance(panel, alt.LayerChart)
        return panel

    drawn = alt.vconcat(
        lines("load_pct", "load, awake (%)"),
        lines("fleet_kw", "fleet (kW), modelled"),
        lines("p99_us", "p99 (us), modelled", "hours"),
    )
    assert isinstance(drawn, alt.VConcatChart)
    return drawn


def day_figure(found: DayAdvice) -> Figure:
    """Returns the day for print; its caption is the answer."""

    def draw(size: tuple[int, int], font: float, _: int) -> alt.VConcatChart:
        return along_day(found, (size[0], round(DAY_ASPECT * size[0])), font)

    return Figure(draw, modelled(found.sentences[0]))

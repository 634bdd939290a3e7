"""The chart that answers: joules for a unit of work against latency."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import altair as alt
import polars as pl

from halfwink.relate import KEYS, ends
from halfwink.report.charts import technique_scale, workloads
from halfwink.results import Results
from halfwink.summary import energy
from halfwink.wording import duration

LATENCY = "latency_p99_us"
#: Differences of less than this share of the values are not drawn as if they mattered.
LEAST_SPAN = {"x": 0.05, "y": 0.01}
#: Pixels of a chart, of one workload and of each of several.
ALONE, BESIDE = (640, 380), (300, 220)
#: Pixels that a chart leaves free around its points.
FREE = 16
#: Places of a chart that get names, at most.
LABELLED = {ALONE: 16, BESIDE: 8}
#: Points of which none has a name.
MANY = 200
#: A run is far out that takes so many times the median; the others would all be one point.
FAR = 10.0
#: Pixels of a label: of a letter, of a line, from its point; and how near points share one.
LETTER, LINE, GAP, NEAR = 5.6, 12, 8, 8
#: Letters of a label, and pixels of the widest ones.
LONG, WIDEST = 48, 340
PREFIXES = ((1e-6, 1e9, "n"), (1e-3, 1e6, "u"), (1.0, 1e3, "m"))
LABEL_COLOUR = "#7d8796"
Box = tuple[float, float, float, float]


def tradeoff(results: Results) -> alt.FacetChart:
    """Joules for a unit of work against latency: a point per run in which something waited, but
    for those far out.

    Bars are 95 % intervals, where they are known. Runs at the same place share a label; one for
    which there is no room beside all else is left to the legend.
    """
    runs, _ = _near_and_far(results)
    factor, prefix = _prefix(runs["energy_j_per_unit"].median())
    y = f"energy_{prefix}j_per_unit"
    runs = runs.with_columns((factor * pl.col("energy_j_per_unit")).alias(y))
    width, height = size = ALONE if runs["workload"].n_unique() == 1 else BESIDE
    runs = runs.join(_labels(runs, y, size), on=[*KEYS, "technique"], how="left")
    columns = [*KEYS, "technique", y, "latency_mean_us", LATENCY]
    limits = [name for name in ends(LATENCY) if name in runs.columns]
    scale = alt.Scale(zero=False, nice=False, padding=FREE)
    base = alt.Chart().encode(
        x=alt.X(
            f"{LATENCY}:Q",
            title="99th percentile of latency (us), modelled",
            scale=scale,
            axis=alt.Axis(tickCount=width // 75),
        ),
        y=alt.Y(
            f"{y}:Q",
            title=f"{prefix}J per {runs['unit_of_work'][0]}, modelled",
            scale=scale,
            axis=alt.Axis(tickCount=5),
        ),
        color=alt.Color("technique:N", scale=technique_scale(results), title="technique"),
        tooltip=columns,
    )
    layers = [base.mark_point(size=70, filled=True, opacity=0.85)]
    if len(limits) == 2 and runs[limits[0]].count() > 0:
        low, high = limits
        layers.append(base.mark_rule().encode(x=f"{low}:Q", x2=f"{high}:Q"))
    text = base.mark_text
    for side, mark in {
        "right": text(align="left", baseline="middle", dx=GAP, fontSize=10, limit=WIDEST),
        "left": text(align="right", baseline="middle", dx=-GAP, fontSize=10, limit=WIDEST),
        "above": text(align="center", baseline="bottom", dy=-GAP, fontSize=10, limit=WIDEST),
        "below": text(align="center", baseline="top", dy=GAP, fontSize=10, limit=WIDEST),
    }.items():
        label = mark.encode(text="names:N", color=alt.value(LABEL_COLOUR))
        layers.append(label.transform_filter(f"datum.side === '{side}'"))
    for ways in product((-1, 1), repeat=2):
        across, up = (1 + way * LEAST_SPAN[axis] for way, axis in zip(ways, "xy", strict=True))
        room = base.transform_calculate(
            across=f"{across} * datum.{LATENCY}", up=f"{up} * datum.{y}"
        ).mark_point(opacity=0)
        layers.append(room.encode(x="across:Q", y="up:Q", tooltip=alt.value(None)))
    return (
        alt.layer(*layers, data=runs.select(*columns, *limits, "names", "side"))
        .properties(width=width, height=height)
        .facet(facet=alt.Facet("workload:N", title=None, sort=workloads(results)), columns=3)
        .resolve_scale(x="independent", y="independent")
    )


def far_out(results: Results) -> str:
    """A sentence that names the runs that the chart leaves out; empty if it shows all."""
    _, far = _near_and_far(results)
    many = results.runs["workload"].n_unique() > 1
    told = [
        f"{row['technique']}{' on ' + row['workload'] if many else ''} "
        f"({energy(row['energy_j_per_unit'])}, {duration(row[LATENCY])})"
        for row in far.unique(["workload", "technique"], maintain_order=True).to_dicts()
    ]
    return f" Far outside, and not drawn: {', '.join(told)}." if told else ""


def _near_and_far(results: Results) -> tuple[pl.DataFrame, pl.DataFrame]:
    runs = results.runs.drop_nulls([LATENCY, "energy_j_per_unit"])
    near = pl.lit(True)
    for column in (LATENCY, "energy_j_per_unit"):
        near &= pl.col(column) <= FAR * pl.col(column).median().over("workload")
    return runs.filter(near), runs.filter(~near)


@dataclass
class _Place:
    """Points of a chart, in pixels from its upper left corner, that share a label."""

    points: list[tuple[float, float]]
    rows: list[dict[str, object]] = field(default_factory=lambda: [])

    SIDES = ("right", "above", "below", "left")

    def text(self) -> str:
        names = list(dict.fromkeys(str(row["technique"]) for row in self.rows))
        for shown in range(len(names), 0, -1):
            more = f" and {len(names) - shown} more" if shown < len(names) else ""
            if len(text := ", ".join(names[:shown]) + more) <= LONG:
                return text
        return names[0]

    def anchor(self, side: str) -> int:
        """Which point is outermost on a side."""
        along = {
            "right": [x for x, _ in self.points],
            "left": [-x for x, _ in self.points],
            "above": [-y for _, y in self.points],
            "below": [y for _, y in self.points],
        }[side]
        return along.index(max(along))

    def box(self, side: str) -> Box:
        x, y = self.points[self.anchor(side)]
        width = LETTER * len(self.text())
        left = {"right": x + GAP, "left": x - GAP - width}.get(side, x - width / 2)
        top = {"above": y - GAP - LINE, "below": y + GAP}.get(side, y - LINE / 2)
        return left, top, left + width, top + LINE


def _labels(runs: pl.DataFrame, y: str, size: tuple[int, int]) -> pl.DataFrame:
    """``names`` of all techniques at a place, with one of them, and at which ``side`` of it there
    is room for them."""
    rows: list[dict[str, object]] = []
    for _, group in runs.group_by("workload", maintain_order=True):
        places = _places(group, y, size) if group.height <= MANY else []
        if len(places) > LABELLED[size]:
            continue
        points = [point for place in places for point in place.points]
        taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
        for place in places:
            for side in _Place.SIDES:
                box = place.box(side)
                inside = box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]
                if inside and not any(_overlap(box, other) for other in taken):
                    taken.append(box)
                    row = place.rows[place.anchor(side)]
                    rows.append(row | {"names": place.text(), "side": side})
                    break
    columns = [*KEYS, "technique", "names", "side"]
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String))


def _places(group: pl.DataFrame, y: str, size: tuple[int, int]) -> list[_Place]:
    across, up = (
        _pixels(group[column], LEAST_SPAN[axis], pixels)
        for column, axis, pixels in ((LATENCY, "x", size[0]), (y, "y", size[1]))
    )
    places: list[_Place] = []
    for row, x, over in zip(group.to_dicts(), across, up, strict=True):
        point = (x, size[1] - over)
        whose = {key: row[key] for key in (*KEYS, "technique")}
        for place in places:
            if all(abs(a - b) < NEAR for a, b in zip(point, place.points[0], strict=True)):
                break
        else:
            places.append(place := _Place([]))
        place.points.append(point)
        place.rows.append(whose)
    return places


def _pixels(values: pl.Series, span: float, pixels: int) -> list[float]:
    """Where a scale puts the values."""
    known: list[float] = values.cast(pl.Float64).to_list()
    low, high = min(known) * (1 - span), max(known) * (1 + span)
    share = (pixels - 2 * FREE) / ((high - low) or 1.0)
    return [FREE + share * (value - low) for value in known]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _prefix(joules: object) -> tuple[float, str]:
    """Factor and prefix of a unit in which so many joules are a handy number."""
    value = joules if isinstance(joules, float) else 0.0
    return next(((factor, name) for limit, factor, name in PREFIXES if value < limit), (1.0, ""))

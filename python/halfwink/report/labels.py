"""Names beside a chart's points: where there is room, and one for points at the same place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import ceil, hypot
from typing import Any, Literal

import altair as alt

#: Pixels of a label: of a letter, of a line, from its point; and how near points share one.
LETTER, LINE, GAP, NEAR = 5.6, 12, 8, 8
#: Size of the font that has these pixels.
FONT = 10
#: Letters of a label, and pixels of the widest ones.
LONG, WIDEST = 48, 340
COLOUR = "#7d8796"
#: Pixels around a point that no label covers, and around one with a ring.
POINT, RING = 5, 10
#: End of the name of a side of a point with a ring, and how much farther from it a label stands.
RINGED, BEYOND = " of the ring", 4
Point = tuple[float, float]
Box = tuple[float, float, float, float]
Across = Literal["left", "center", "right"]
Up = Literal["top", "middle", "bottom"]
#: Where a label may stand, best first: how it is aligned to the point, across and up.
SIDES: dict[str, tuple[Across, Up]] = {
    "right": ("left", "middle"),
    "above": ("center", "bottom"),
    "below": ("center", "top"),
    "left": ("right", "middle"),
    "right above": ("left", "bottom"),
    "right below": ("left", "top"),
    "left above": ("right", "bottom"),
    "left below": ("right", "top"),
}


@dataclass(frozen=True)
class Label:
    """A name, or several of points at one place.

    Attributes:
        point: beside which of the points it stands.
        names: text of the label.
        side: at which of :data:`SIDES` of the point.
    """

    point: int
    names: str
    side: str

    def box(self, point: Point) -> Box:
        """Returns the pixels that the label covers beside its point."""
        return _box(point, self.side, self.names)


@dataclass
class _Place:
    """Points, by number, that share a label; the first one says where it is."""

    points: dict[int, Point] = field(default_factory=lambda: {})
    names: dict[str, None] = field(default_factory=lambda: {})
    is_ringed: bool = False

    def text(self) -> str:
        names = list(self.names)
        for shown in range(len(names), 0, -1):
            more = f" and {len(names) - shown} more" if shown < len(names) else ""
            if len(text := ", ".join(names[:shown]) + more) <= LONG:
                return text
        return names[0]

    def anchor(self, side: str) -> int:
        """Which point is outermost on a side."""

        def along(point: Point) -> float:
            x, y = point
            return {"right": x, "left": -x, "above": -y, "below": y}[side.split()[0]]

        return max(self.points, key=lambda n: along(self.points[n]))


def _box(point: Point, side: str, text: str) -> Box:
    x, y = point
    across, up = SIDES[side.removesuffix(RINGED)]
    dx, dy = _offset(side)
    width = LETTER * len(text)
    left = x + dx - {"left": 0.0, "center": width / 2, "right": width}[across]
    top = y + dy - {"top": 0.0, "middle": LINE / 2, "bottom": LINE}[up]
    return left, top, left + width, top + LINE


def _offset(side: str) -> tuple[int, int]:
    """Pixels from a point to its label."""
    across, up = SIDES[side.removesuffix(RINGED)]
    gap = GAP + BEYOND * side.endswith(RINGED)
    dx = {"left": gap, "center": 0, "right": -gap}[across]
    dy = {"top": gap, "middle": 0, "bottom": -gap}[up]
    # Beside a corner, half as far.
    return (dx, dy) if not (dx and dy) else (dx // 2, dy)


def pixels(values: Sequence[float], length: int, free: int, beyond: float = 0.0) -> list[float]:
    """Returns the pixels at which a scale puts values: it leaves ``free`` pixels at both ends, and
    extends the range by the share ``beyond`` on either side.
    """
    low, high = min(values) * (1 - beyond), max(values) * (1 + beyond)
    each = (length - 2 * free) / ((high - low) or 1.0)
    return [free + each * (value - low) for value in values]


def labels(
    points: Sequence[Point],
    names: Iterable[str | None],
    size: tuple[int, int],
    most: int,
    lines: Sequence[Sequence[Point]] = (),
    rings: Mapping[int, str] | None = None,
    boxes: Sequence[Box] = (),
) -> list[Label]:
    """Labels of points, none over another label, a point or a line.

    Args:
        points: positions in pixels from the chart's upper left corner.
        names: names of the points; of those without one, labels only keep clear.
        size: width and height of the chart, in pixels.
        most: number of places above which there are no labels.
        lines: corners of lines.
        rings: points with a ring, and the text beside them where the names have no room.
        boxes: further parts of the chart that no label covers.
    """
    rings = rings or {}
    places: list[_Place] = []
    for n, (point, name) in enumerate(zip(points, names, strict=True)):
        if name is None:
            continue
        for place in places:
            first = next(iter(place.points.values()))
            if all(abs(a - b) < NEAR for a, b in zip(point, first, strict=True)):
                break
        else:
            places.append(place := _Place())
        place.points[n] = point
        place.names[name] = None
        place.is_ringed |= n in rings
    if len(places) > most:
        return []
    reach = [RING if n in rings else POINT for n in range(len(points))]
    taken = [*boxes]
    taken += [(x - r, y - r, x + r, y + r) for (x, y), r in zip(points, reach, strict=True)]
    taken += [
        (x, y, x, y) for line in lines for one, two in pairwise(line) for x, y in _along(one, two)
    ]
    found: list[Label] = []
    for place in places:
        short = [rings[n] for n in place.points if n in rings]
        for text, side in product((place.text(), *short), SIDES):
            box = _box(place.points[place.anchor(side)], side + RINGED * place.is_ringed, text)
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found.append(Label(place.anchor(side), text, side + RINGED * place.is_ringed))
                break
    return found


def _along(one: Point, two: Point) -> list[Point]:
    """Points of a line that are nearer to each other than the height of a letter."""
    steps = max(1, ceil(hypot(two[0] - one[0], two[1] - one[1]) / (LINE / 3)))
    return [
        (one[0] + (two[0] - one[0]) * n / steps, one[1] + (two[1] - one[1]) * n / steps)
        for n in range(steps + 1)
    ]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def hover(*columns: str) -> list[alt.Tooltip]:
    """Returns what a point shows on hover: these columns.

    Altair turns a plain name into such an object itself, but reads its whole schema for it: 10 ms a
    name.
    """
    return [alt.Tooltip(column) for column in columns]


def marks(
    base: alt.Chart,
    font: float = FONT,
    sides: Iterable[str] = tuple(SIDES),
    color: alt.Color | alt.ColorValue | None = None,
) -> list[alt.Chart]:
    """Layers that draw labels: of a chart that says where points are, and whose data has columns
    ``names`` and ``side``. A smaller font stands nearer to its point.

    Args:
        base: the chart.
        font: size of the font, in pixels.
        sides: which sides the data has.
        color: colour of the labels, if they have one of their own.
    """
    shown = alt.ColorValue(COLOUR) if color is None else color
    label: dict[str, Any] = {"text": alt.Text("names:N"), "color": shown}
    found: list[alt.Chart] = []
    for side in sides:
        align, baseline = SIDES[side.removesuffix(RINGED)]
        dx, dy = (pixels * font / FONT for pixels in _offset(side))
        mark = base.mark_text(
            align=align, baseline=baseline, dx=dx, dy=dy, fontSize=font, limit=WIDEST * font / FONT
        )
        found.append(mark.encode(**label).transform_filter(f"datum.side === '{side}'"))
    return found

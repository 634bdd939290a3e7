"""Chart of a published figure or table: printed numbers, and ours beside them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from halfwink.report.palette import SHAPES, TECHNIQUES

Entry = Mapping[str, Any]
#: A part of a chart in Vega-Lite. Built as it is: to check a gallery by Altair takes ten seconds.
Spec = dict[str, Any]
#: Kinds of marks: the printed value, that of a model without the mechanism, and ours by verdict.
PUBLISHED, NULL = "published", "without mechanism"
OURS = {
    "ours, met": ("match", "holds"),
    "ours, missed": ("miss", "fails"),
    "ours, given": ("calibrated", "arithmetic", "input"),
    "ours, insensitive": ("insensitive",),
    "ours, not judged": ("contradicted", "analogue", "undetermined", "not-yet"),
}
KINDS = (PUBLISHED, NULL, *OURS)
#: Colours of text: `halfwink.report.figures` puts the ink of its style in their place.
INK = "currentColor"
COLOURS = (INK, INK, TECHNIQUES[1], TECHNIQUES[3], TECHNIQUES[0], TECHNIQUES[4], TECHNIQUES[5])
FILLS = ("transparent", *COLOURS[1:])
#: A tick across the line.
TICK = "M0,-1L0,1"
MARKS = ("circle", TICK, SHAPES[0], SHAPES[3], SHAPES[1], SHAPES[2], SHAPES[4])
#: Rows of a panel up to which each number has its own.
ROWS = 24
#: Positive values that differ by more than this factor stand on a logarithmic axis.
DECADES = 30
#: Least range of values, as a share of the largest, for an axis without zero.
LEAST_SPREAD = 0.2
#: Width of labels by that of their panel, most letters in a line of theirs, and the width of a
#: letter by the size of the font.
LABELS, LETTERS, LETTER = 0.6, 50, 0.56
#: Distance of labels from their panel, in points.
GAP = 8
#: Height of a row with one line, and of each further line, by the size of the font.
ROW, LINE = 1.9, 1.2
#: Least height of a row of several numbers, and the distance of printed marks and ours from its
#: middle.
GROUP, APART = 2.8, 0.6


@dataclass(frozen=True)
class Row:
    """Numbers on one line of a panel.

    Attributes:
        label: lines of the label.
        entries: targets, one or those of a group.
    """

    label: tuple[str, ...]
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Panel:
    """Numbers of one unit.

    Attributes:
        unit: unit of all.
        shared: parts of the quantity that all have.
        rows: lines, from the top.
    """

    unit: str
    shared: str
    rows: tuple[Row, ...]


def kind_of(entry: Entry) -> str:
    """Returns the kind of mark of our value."""
    return next(kind for kind, verdicts in OURS.items() if entry["verdict"] in verdicts)


def is_number(value: object) -> bool:
    """Returns whether a value can be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def panels(entries: Sequence[Entry], letters: int = LETTERS) -> list[Panel]:
    """Returns the numbers of a figure by unit, in their order; statements have none."""
    units: dict[str, list[Entry]] = {}
    for entry in entries:
        if is_number(entry["published"]):
            units.setdefault(entry["unit"], []).append(entry)
    return [_panel(unit, those, letters) for unit, those in units.items()]


def _panel(unit: str, entries: Sequence[Entry], letters: int) -> Panel:
    """Returns a panel with a row for each number; of large tables for each group of numbers whose
    ids differ in the last part alone."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        id = entry["id"]
        groups.setdefault(id.rpartition("/")[0] if len(entries) > ROWS else id, []).append(entry)
    shared = _shared(entries) if len(entries) > 1 else []
    rows: list[Row] = []
    for those in groups.values():
        own = [part for part in _shared(those) if part not in shared]
        label = ", ".join(own) or those[0]["id"].partition("/")[2].rpartition("/")[0]
        rows.append(Row(tuple(textwrap.wrap(label, letters, break_on_hyphens=False)), tuple(those)))
    return Panel(unit, ", ".join(shared), tuple(rows))


def _shared(entries: Sequence[Entry]) -> list[str]:
    """Returns the parts of the quantity that all entries have."""
    first, *others = [entry["quantity"].split(", ") for entry in entries]
    return [part for part in first if all(part in other for other in others)]


def specification(entries: Sequence[Entry], width: int, font: float) -> Spec | None:
    """Returns the chart of a figure in Vega-Lite; None if it has no number.

    Args:
        entries: targets of the figure with our values.
        width: width of the panels in points; their rows decide on the height.
        font: size of letters in points.
    """
    letters = min(LETTERS, int((LABELS * width - GAP) / (LETTER * font)))
    found = [(panel, _marks(panel)) for panel in panels(entries, letters)]
    if not found:
        return None
    used = [k for k in KINDS if any(k == mark["kind"] for _, marks in found for mark in marks)]
    drawn = [_draw(panel, marks, width, font, used) for panel, marks in found]
    return {"vconcat": drawn, "spacing": 2 * font}


def _marks(panel: Panel) -> list[Spec]:
    """Returns the marks of a panel: the printed value, ours and, of rows with one number, the
    null's. Where a row has several, the printed ones stand above ours."""
    marks: list[Spec] = []
    for number, row in enumerate(panel.rows):
        is_alone = len(row.entries) == 1
        apart = 0.0 if is_alone else APART
        for entry in row.entries:
            published, ours, null = entry["published"], entry["ours"], entry["null"]
            marks.append({"row": number, "kind": PUBLISHED, "value": published, "shift": -apart})
            if is_alone and null is not None and is_number(null["value"]):
                marks.append({"row": number, "kind": NULL, "value": null["value"], "shift": 0.0})
            if is_number(ours):
                mark = {"row": number, "kind": kind_of(entry), "value": ours, "shift": apart}
                marks.append({**mark, "from": published})
    return sorted(marks, key=lambda mark: KINDS.index(mark["kind"]))


def is_logarithmic(values: Sequence[float]) -> bool:
    """Returns whether values span decades."""
    return min(values) > 0 and max(values) > DECADES * min(values)


def _scale(values: Sequence[float]) -> Spec:
    if is_logarithmic(values):
        return {"type": "log", "nice": True}
    low, high = min(values), max(values)
    # Without zero, differences that do not matter would fill the axis.
    is_spread = 0.5 * high < low and high - low > LEAST_SPREAD * high
    return {"zero": not is_spread, "nice": True}


def _channels(used: Sequence[str]) -> dict[str, Spec]:
    """Returns shape and colours by kind, with one legend."""
    places = [KINDS.index(kind) for kind in used]

    def channel(values: Sequence[str]) -> Spec:
        scale = {"domain": list(used), "range": [values[n] for n in places]}
        return {"field": "kind", "type": "nominal", "scale": scale, "title": None}

    return {"shape": channel(MARKS), "stroke": channel(COLOURS), "fill": channel(FILLS)}


def _axis(values: Sequence[float]) -> Spec:
    """Returns the axis: labels of a logarithmic one stand at powers of ten alone."""
    if not is_logarithmic(values):
        return {}
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    step = max(1, (high - low) // 4)
    return {"values": [10.0**n for n in range(low, high + 1, step)]}


def _unit(panel: Panel) -> str:
    return {"x": "ratio", "1": "value", "count": "number"}.get(panel.unit, panel.unit)


def _quantitative(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", **more}


def _neutral(panel: Panel, values: Sequence[float]) -> list[Spec]:
    """Returns a dashed line at no effect, if that lies among the values."""
    at = 1.0 if panel.unit == "x" else 0.0
    if not min(values) < at < max(values):
        return []
    mark = {"type": "rule", "strokeDash": [3, 3], "color": INK, "opacity": 0.55}
    return [{"data": {"values": [{}]}, "mark": mark, "encoding": {"x": {"datum": at}}}]


def _draw(panel: Panel, marks: list[Spec], width: int, font: float, used: Sequence[str]) -> Spec:
    """Draws a panel: the printed values, ours, and the distance between them."""
    values = [mark["value"] for mark in marks]
    ends = list(accumulate(_height(row, font) for row in panel.rows))
    places = [end - _height(row, font) / 2 for end, row in zip(ends, panel.rows, strict=True)]
    rows = [{**mark, "y": places[mark["row"]] + font * mark["shift"]} for mark in marks]
    pairs = [{**r, "y2": r["y"] - 2 * font * r["shift"]} for r in rows if "from" in r]
    # Lines of a text hang below its place.
    names = [
        {"y": place - font * LINE * len(row.label) / 2, "text": list(row.label)}
        for place, row in zip(places, panel.rows, strict=True)
    ]
    x = _quantitative("value", scale=_scale(values), axis=_axis(values), title=_unit(panel))
    y = _quantitative("y", axis=None, scale={"domain": [0, ends[-1]], "reverse": True})
    rule = {"type": "rule", "opacity": 0.55, "color": INK}
    text = {"type": "text", "align": "right", "baseline": "line-top", "dx": -GAP, "color": INK}
    # However short the labels are, all charts of a width have panels of a width.
    margin = {"type": "rule", "opacity": 0}
    layer: list[Spec] = [
        *_neutral(panel, values),
        {
            "data": {"values": pairs},
            "mark": rule,
            "encoding": {"x": x, "x2": {"field": "from"}, "y": y, "y2": {"field": "y2"}},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "point", "size": 52, "opacity": 1},
            "encoding": {"x": x, "y": y, **_channels(used)},
        },
        {
            "data": {"values": [{}]},
            "mark": margin,
            "encoding": {"x": {"value": -LABELS * width}, "x2": {"value": 0}, "y": {"value": 0}},
        },
        {
            "data": {"values": names},
            "mark": text
            | {"fontSize": font, "limit": LABELS * width - GAP, "lineHeight": font * LINE},
            "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "text"}},
        },
    ]
    letters = int((1 + LABELS) * width / (LETTER * (font + 1)))
    title = {"text": textwrap.wrap(panel.shared, letters) or "", "anchor": "start"}
    return {"layer": layer, "width": width, "height": round(ends[-1]), "title": title}


def _height(row: Row, font: float) -> float:
    least = 0.0 if len(row.entries) == 1 else GROUP
    return font * max(least, ROW + LINE * (len(row.label) - 1))

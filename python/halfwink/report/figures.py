"""Figures for print: one chart in the width of a column or a page, in a style, with its caption."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from importlib.resources import files
from json import dumps
from math import inf
from pathlib import Path
from textwrap import wrap
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.files import check_drawing, write_whole
from halfwink.report import charts
from halfwink.report.gallery_chart import INK
from halfwink.report.load_chart import along_load, is_along_load, told, won_at
from halfwink.report.tradeoff_chart import (
    LATENCY,
    WINNER,
    far_out,
    front_and_winner,
    tradeoff,
)
from halfwink.results.results import Results
from halfwink.results.saw_tooth import PEAKS

#: Widths in millimetres: a column and the text of a page of two columns.
WIDTHS = {"column": 84.0, "page": 174.0}
#: Dots per inch of pictures in PNG.
PPI = 600
#: What can be drawn: text stays text, with its font inside.
KINDS = (".pdf", ".svg", ".png")
#: Metric-compatible families; the first comes along.
FAMILY = "Liberation Sans"
FONT = f"{FAMILY}, Arial, Helvetica, sans-serif"
#: Points of a millimetre; a pixel of a chart is a point.
POINTS = 72 / 25.4
#: Height of a panel by its width; the fewest points of either, and the least share of the width
#: that panels take.
ASPECT, LEAST, LEAST_SHARE = 0.62, 40, 0.5
#: Width of a letter of names, by the size of its font.
LETTER = 0.56
#: Widths of a letter that two panels beside each other take at least.
BESIDE = 42
#: Drawings until one has the width, and points that it may then be too wide or too narrow by: its
#: margins take them.
ROUNDS, NEAR, NARROW = 14, 2.0, 12.0
#: Margin of a figure, in points.
MARGIN = 2
#: Colour of the page in charts for the screen.
PAGE = "white"
#: Width of a legend's symbol, and of the labels of axes that legends stand beside, in letters.
SYMBOL, BESIDE_AXIS = 4, 9
#: Width of an entry beside others in a legend, by the size of the font.
ENTRY = 16
#: Length of a stroke in a legend, by the size of the font.
STROKE = 1.8
#: Where names in legends may break.
BREAKS = re.compile(r"(?<=[+,: -])")


@dataclass(frozen=True)
class Style:
    """Fonts, lines and colours of a figure.

    Attributes:
        font: size of labels of axes and legends, in points; titles are one larger.
        line: width of axes and rules, in points.
        background: colour of the page.
        ink: colour of text and axes.
        grid: colour of the grid.
    """

    font: float
    line: float
    background: str
    ink: str
    grid: str


STYLES = {
    "paper": Style(7, 0.6, "#ffffff", "#111111", "#e4e6ea"),
    "talk": Style(13, 1.2, "#ffffff", "#111111", "#e4e6ea"),
    "dark": Style(7, 0.6, "#16191f", "#dfe3e8", "#333a44"),
}


#: Stands in the caption of a chart that has them.
BARS = "Bars: paired 95 % intervals of the difference from {}"
OWN_BARS = "of latency, 95 % intervals of each run"
#: Workloads that a caption names, at most.
NAMED = 6


@dataclass(frozen=True)
class Figure:
    """A chart that can be drawn at any size, and what stands below it.

    Attributes:
        draw: makes the chart for a panel of a width and a height, a size of font and a number of
            panels in a row.
        caption: text for below the figure.
        stretch: width of the chart by that of its panel, if labels take a share of that; such a
            chart has one panel in a row.
        notes: texts in brackets behind some names of the legend.
    """

    draw: Callable[[tuple[int, int], float, int], alt.TopLevelMixin]
    caption: str
    stretch: float = 1.0
    notes: Mapping[str, str] = field(default_factory=lambda: {})


def figure_of(results: Results, plots: list[dict[str, Any]] | None = None) -> Figure:
    """Returns the figure that answers: the first plot of a study, else throughput by the CPUs that
    issue, else energy against latency where something waits, else energy saved against slowdown."""
    if plots:
        plot = plots[0]
        chart = charts.study_plot(results, plot)
        return _sized_figure(results, chart, f"{plot['title']}.")
    if results.has(PEAKS):
        text = "Throughput by the CPUs that issue. Dotted: a socket is full."
        return _sized_figure(results, charts.by_issuers(results), text)
    if is_along_load(results):
        text = "Energy against latency, and power against load. Filled: Pareto front; rings: "
        text += f"winners. {told(results)}"
        return Figure(
            lambda size, font, columns: along_load(results, size, font, columns),
            _caption(results, along_load(results), text),
            notes=won_at(results),
        )
    # A workload without waits would be missing.
    if results.runs.group_by("workload").agg(pl.col(LATENCY).count())[LATENCY].min():
        text = "Energy for a unit of work against the 99th percentile of latency. Dashed: Pareto "
        text += f"front; ring: the winner.{front_and_winner(results)}{far_out(results)}"
        return Figure(
            lambda size, font, columns: tradeoff(results, size, font, columns),
            _caption(results, tradeoff(results), text),
            notes=_winners(results),
        )
    notes = _winners(results)
    text = f"Energy saved against slowdown, relative to {results.baseline}."
    # What wins by being the baseline is the zero of both axes.
    drawn = [name for name in notes if name != results.baseline]
    text += f" Ring: the winner ({', '.join(drawn)})." if drawn else ""
    return Figure(
        lambda size, font, _: charts.savings(results, size, font),
        _caption(results, charts.savings(results), text),
        notes=notes,
    )


def _winners(results: Results) -> dict[str, str]:
    """Returns the notes of the legend: how many of the comparisons each winner won."""
    won = results.verdict().winners["technique"]
    counts = won.value_counts(sort=True).rows()
    if len(counts) == 1:
        return {name: WINNER for name, _ in counts}
    return {name: f"{WINNER} of {count} in {len(won)}" for name, count in counts}


def _sized_figure(results: Results, chart: Any, text: str) -> Figure:
    caption = _caption(results, chart, text)
    return Figure(lambda size, _, columns: sized(chart, size, columns), caption)


def of_chart(chart: Any, caption: str) -> Figure:
    """Returns the figure of a chart for the screen. Its names of points go, for they were placed
    for another size; titles of panels stand in the caption."""
    panels = titles(chart.to_dict())
    if len(panels) > 1:
        caption += f" Panels: {'; '.join(panels)}."
    return Figure(lambda size, _, columns: sized(chart, size, columns), modelled(caption))


def titles(part: Any) -> list[str]:
    """Returns the titles of a chart's panels."""
    if isinstance(part, list):
        return [title for inner in part for title in titles(inner)]
    if not isinstance(part, dict):
        return []
    found: list[str] = []
    if "width" in part and isinstance(part.get("title"), str):
        found.append(part["title"])
    return found + titles([part.get(name) for name in ("layer", *CONCATS)])


def modelled(caption: str) -> str:
    """Returns a caption with where its numbers come from."""
    return f"{caption} Modelled by halfwink {_core.__version__}."


def _caption(results: Results, chart: Any, text: str) -> str:
    runs = results.runs
    workloads = runs["workload"].unique(maintain_order=True).to_list()
    of = ", ".join(workloads)
    if len(workloads) > NAMED:
        of = f"{len(workloads)} workloads ({workloads[0]} to {workloads[-1]})"
    on = ", ".join(runs["machine"].unique(maintain_order=True))
    spec = chart.to_dict()
    bars = [
        told
        for end, told in (("y2", BARS.format(results.baseline)), ("x2", OWN_BARS))
        if _has_bars(spec, end)
    ]
    # Where there is one kind alone, it begins the sentence.
    said = "; ".join(bars)
    said = f" {said if said.startswith('Bars') else f'Bars: {said}'}." if said else ""
    return modelled(f"{text} {of} on {on}.{said}")


def _has_bars(part: Any, end: str) -> bool:
    """Returns whether a chart draws intervals: rules with a second end along that axis."""
    if isinstance(part, list):
        return any(_has_bars(inner, end) for inner in part)
    if not isinstance(part, dict):
        return False
    is_bar = _mark(part) == "rule" and end in part.get("encoding", {})
    inner = (value for name, value in part.items() if name != "datasets")
    return is_bar or any(_has_bars(value, end) for value in inner)


#: Keys of charts that stand beside or above each other.
CONCATS = ("concat", "hconcat", "vconcat")


def sized(chart: Any, size: tuple[int, int], columns: int) -> alt.TopLevelMixin:
    """Returns the chart with panels of this size, so many in a row."""
    spec = deepcopy(chart.to_dict())

    def resize(part: Any) -> None:
        if isinstance(part, list):
            for inner in part:
                resize(inner)
        elif isinstance(part, dict):
            if {"mark", "layer", "facet", *CONCATS} & part.keys():
                # The caption says what it is.
                part.pop("title", None)
            if {"mark", "layer"} & part.keys() and "width" in part:
                part["width"], part["height"] = size
            if "facet" in part and "columns" in part:
                part["columns"] = columns
            if "layer" in part:
                # Names that were placed for another size: the legend has them.
                part["layer"] = [one for one in part["layer"] if _mark(one) != "text"]
            if columns == 1 and "hconcat" in part:
                part["vconcat"] = part.pop("hconcat")
            for name, inner in part.items():
                if name not in ("datasets", "data"):
                    resize(inner)

    resize(spec)
    return alt.Chart.from_dict(spec)


def _mark(layer: dict[str, Any]) -> str | None:
    mark = layer.get("mark")
    return mark.get("type") if isinstance(mark, dict) else mark


def specification(figure: Figure, style: Style, width_mm: float) -> dict[str, Any]:
    """The figure in Vega-Lite, as wide as that: panels shrink first, then the legend takes more
    rows, and its names more lines. The margins take what is left, less than a point on each side.
    """
    wide = width_mm * POINTS
    columns = 1 if wide < BESIDE * style.font or figure.stretch > 1 else 2
    least = LEAST_SHARE * wide / columns / figure.stretch
    legend = 0
    beside = max(1, int(wide / (ENTRY * style.font)))
    letters = int((wide / (LETTER * style.font) - BESIDE_AXIS) / beside) - SYMBOL
    panel = (wide / columns - 4 * style.font) / figure.stretch
    best: tuple[float, float, dict[str, Any]] = inf, 0.0, {}
    before = inf
    for _ in range(ROUNDS):
        size = round(max(panel, LEAST)), round(max(ASPECT * panel, LEAST))
        # To check a chart against its schema takes longer than all else; charts on pages are.
        with debug_mode(arg=False):
            drawn = figure.draw(size, style.font, columns).to_dict(validate=False)
        names = _names(drawn)
        shown = {name: _lines_of(name, figure.notes.get(name), letters) for name in names}
        # An entry takes its name and its symbol.
        longest = max((len(line) for lines in shown.values() for line in lines), default=0)
        entry = max(11, LETTER * longest + 3)
        legend = legend or max(1, int(wide / (entry * style.font)))
        spec = _styled(_broken(_named(drawn, shown, letters), size, style), style, wide, legend)
        over = scene(spec)["width"] - wide
        # Too wide is worse than too narrow.
        cost = 3 * over if over > 0.5 else -over
        best = min(best, (cost, over, spec), key=lambda found: found[0])
        if abs(over) <= 0.5:
            break
        step = over / max(1, _in_a_row(spec, columns)) / figure.stretch
        # Where narrower panels make it no narrower, the legend is too wide.
        is_legend = over > 0 and over > before - 1
        before = inf if is_legend or over < 0 else over
        if over > 0 and (is_legend or panel - step < least):
            if legend > 1:
                legend -= 1
                panel = (wide / columns - 6 * style.font) / figure.stretch
            elif letters > LEAST_LETTERS:
                letters -= max(1, letters // 5)
            elif panel > LEAST:
                least = 0.0
                panel -= max(step, 1.0)
            else:
                break
        elif abs(step) < 1:
            # Of panels side by side each point counts as often as there are panels.
            if abs(over) <= NEAR:
                break
            panel -= 1 if over > 0 else -1
        else:
            panel -= step
    _, over, spec = best
    margin = MARGIN - over / 2 if -NARROW <= over <= NEAR else MARGIN
    sides = dict.fromkeys(("left", "right"), margin) | dict.fromkeys(("top", "bottom"), MARGIN)
    return spec | {"padding": sides}


#: Letters of a line in a legend, at least.
LEAST_LETTERS = 10


def _lines_of(name: str, note: str | None, letters: int) -> list[str]:
    """Returns the lines of a name in a legend, with what stands behind it."""
    words = BREAKS.split(name) + ([f" ({note})"] if note else [])
    if sum(map(len, words)) <= letters:
        return ["".join(words)]
    lines = [""]
    for word in (part for whole in words for part in BREAKS.split(whole)):
        if lines[-1].strip() and len(lines[-1] + word.rstrip()) > letters:
            lines.append("")
        lines[-1] += word
    return lines


def _named(part: Any, shown: Mapping[str, list[str]], letters: int) -> Any:
    """Returns the chart with these lines for the names in its legends, and with titles of legends
    in lines of so many letters."""
    told = {name: lines for name, lines in shown.items() if lines != [name]}
    label = f"{dumps(told)}[datum.label] || datum.label"

    def walk(part: Any) -> Any:
        if isinstance(part, list):
            return [walk(inner) for inner in part]
        if not isinstance(part, dict):
            return part
        found = {k: v if k in ("datasets", "data") else walk(v) for k, v in part.items()}
        for channel in LEGENDS:
            of = found.get(channel)
            if not isinstance(of, dict) or of.get("type") not in ("nominal", "ordinal"):
                continue
            if "field" in of and of.get("legend", {}) is not None:
                title = of.get("title")
                lines = wrap(title, letters + SYMBOL) if isinstance(title, str) else []
                legend = of.get("legend", {}) | ({"labelExpr": label} if told else {})
                found[channel] = of | {"legend": legend}
                if len(lines) > 1:
                    found[channel]["title"] = lines
        return found

    return walk(part)


#: Channels that have legends.
LEGENDS = ("color", "shape", "strokeDash", "fill", "stroke")


def _broken(part: Any, size: tuple[int, int], style: Style) -> Any:
    """Returns a chart whose titles of axes have as many lines as keep them along the panel."""
    if isinstance(part, list):
        return [_broken(inner, size, style) for inner in part]
    if not isinstance(part, dict):
        return part
    found = {k: v if k == "datasets" else _broken(v, size, style) for k, v in part.items()}
    for axis, length in zip("xy", size, strict=True):
        channel = found.get(axis)
        if isinstance(channel, dict) and isinstance(title := channel.get("title"), str):
            letters = max(1, int(length / (LETTER * (style.font + 1))))
            lines = wrap(title, letters, break_long_words=False)
            found[axis] = channel | {"title": lines if len(lines) > 1 else title}
    return found


def _names(spec: dict[str, Any]) -> list[str]:
    """Names in the legends of a chart."""
    fields: set[str] = set()

    def look(part: Any) -> None:
        if isinstance(part, list):
            for inner in part:
                look(inner)
        elif isinstance(part, dict):
            for channel in LEGENDS:
                of = part.get(channel)
                if isinstance(of, dict) and isinstance(of.get("field"), str):
                    fields.add(of["field"])
            for name, inner in part.items():
                if name not in ("datasets", "data"):
                    look(inner)

    look(spec)
    rows = (row for table in spec.get("datasets", {}).values() for row in table)
    names = (row[field] for row in rows for field in fields if isinstance(row.get(field), str))
    return list(dict.fromkeys(names))


def _in_a_row(spec: dict[str, Any], columns: int) -> int:
    """Panels that stand beside each other."""
    if "vconcat" in spec:
        return max(_in_a_row(inner, columns) for inner in spec["vconcat"])
    if "hconcat" in spec:
        return len(spec["hconcat"])
    if "facet" not in spec:
        return 1
    field = spec["facet"]["field"]
    (rows, *_) = spec.get("datasets", {"": []}).values()
    return min(columns, len({row[field] for row in rows}))


def _styled(spec: dict[str, Any], style: Style, wide: float, legend: int) -> dict[str, Any]:
    text = {"labelColor": style.ink, "titleColor": style.ink}
    sizes = {"labelFontSize": style.font, "titleFontSize": style.font + 1}
    axis = (
        text
        | sizes
        | {
            "domainColor": style.ink,
            "domainWidth": style.line,
            "gridColor": style.grid,
            "gridWidth": style.line,
            "labelOverlap": "greedy",
            "tickColor": style.ink,
            "tickSize": style.font / 2,
            "tickWidth": style.line,
            "titleFontWeight": "normal",
        }
    )
    config = {
        "background": style.background,
        "font": FONT,
        "padding": MARGIN,
        "axis": axis,
        "header": text | sizes,
        "legend": text
        | sizes
        | {
            "orient": "bottom",
            # Legends stand above each other.
            "layout": {
                "bottom": {"direction": "vertical", "anchor": "start", "margin": style.font}
            },
            "offset": style.font / 2,
            "columns": legend,
            "labelLimit": 0,
            "symbolSize": 4 * style.font,
            "titleFontWeight": "normal",
        },
        "title": {"color": style.ink, "subtitleColor": style.ink, "fontSize": style.font + 1}
        | {"subtitleFontSize": style.font, "fontWeight": "normal", "limit": wide},
        "view": {"stroke": None},
    }
    own = spec.get("config", {})
    return _inked(_marks(spec, style), style) | {"config": own | config}


def _inked(spec: Any, style: Style) -> Any:
    """The chart with the style's ink where its marks have the colour of text, and its page where
    they are white."""
    if isinstance(spec, list):
        return [_inked(part, style) for part in spec]
    if isinstance(spec, dict):
        return {name: _inked(part, style) for name, part in spec.items()}
    return style.ink if spec == INK else style.background if spec == PAGE else spec


def _marks(spec: Any, style: Style) -> Any:
    """Points and labels as large as the style has them, and legends in its columns."""
    if isinstance(spec, list):
        return [_marks(part, style) for part in spec]
    if not isinstance(spec, dict):
        return spec
    found = {k: v if k == "datasets" else _marks(v, style) for k, v in spec.items()}
    if isinstance(legend := found.get("legend"), dict):
        # The figure's width decides.
        free = ("columns", "labelLimit")
        legend = {name: value for name, value in legend.items() if name not in free}
        if legend.get("symbolType") == "stroke":
            # Rows are as high as strokes are long.
            legend["symbolSize"] = (STROKE * style.font) ** 2
        found["legend"] = legend
    mark = found.get("mark")
    if isinstance(mark, dict) and mark.get("type") == "point" and "size" in mark:
        found["mark"] = mark | {"size": mark["size"] * (style.font / 10) ** 2}
    if isinstance(mark, dict) and mark.get("type") == "text":
        found["mark"] = mark | {"fontSize": style.font}
    return found


def scene(spec: dict[str, Any]) -> dict[str, Any]:
    """The scene graph of a chart: every mark with its place, before it is a picture."""
    import vl_convert

    found: Any = vl_convert.vegalite_to_scenegraph(spec)
    return found


def save_figure(figure: Figure, path: Path, style: str = "paper", width: str = "column") -> None:
    """Draws a figure into a PDF, SVG or PNG file.

    Raises:
        HalfwinkError: there is no such style, width or kind of file.
        OSError: the file cannot be written.
    """
    import vl_convert

    check(path, style, width)
    alt.data_transformers.disable_max_rows()
    spec = specification(figure, STYLES[style], WIDTHS[width])
    if path.suffix == ".pdf":
        write_whole(path, vl_convert.vegalite_to_pdf(spec))
    elif path.suffix == ".png":
        write_whole(path, vl_convert.vegalite_to_png(spec, ppi=PPI))
    else:
        write_whole(path, _whole(vl_convert.vegalite_to_svg(spec)))


def _whole(svg: str) -> str:
    """Returns a picture of points with a size that layout programs understand, and with its font.
    A program that reads no font from a picture takes the next family, which is as wide."""

    def side(found: re.Match[str]) -> str:
        return f'{found[1]}="{float(found[2]) / POINTS:.2f}mm"'

    font = files("halfwink.report") / "fonts/figures.woff2"
    source = f"data:font/woff2;base64,{b64encode(font.read_bytes()).decode()}"
    face = f"@font-face{{font-family:'{FAMILY}';src:url({source}) format('woff2')}}"
    head, end, rest = svg.partition(">")
    head = re.sub(r'\b(width|height)="([\d.]+)"', side, head)
    return f"{head}{end}<style>{face}</style>{rest}"


def check(path: Path, style: str, width: str) -> None:
    """Checks that a figure can be drawn like that; raises HalfwinkError in one line."""
    check_drawing(path, KINDS)
    for option, value, known in (("--style", style, STYLES), ("--width", width, WIDTHS)):
        if value not in known:
            raise HalfwinkError(f"{option} {value}: expected one of {', '.join(known)}")

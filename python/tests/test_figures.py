"""Figures for print, by their scene graphs: where each mark stands before it is a picture."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations, cycle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import probed
from colour_vision import colour_alone
from test_tradeoff_chart import crowded
from test_verdict import results

from halfwink import HalfwinkError
from halfwink.cli.main import build, commands
from halfwink.models.segregation import SegregationSweep
from halfwink.report.charts import axis_title, savings, study_plot
from halfwink.report.figures import (
    BARS,
    POINTS,
    STYLES,
    WIDTHS,
    Figure,
    figure_of,
    save_figure,
    scene,
    specification,
)
from halfwink.report.segregation_charts import ROUTES, split_and_ranks
from halfwink.report.tradeoff_chart import tradeoff
from halfwink.results.results import Results

Box = tuple[float, float, float, float]
#: Width of a letter by the size of its font: a mean of the sans-serif fonts.
LETTER = 0.5
#: Points by which letters may touch: half a line is descenders and leading.
TOUCH = 0.25

FEW = {"always-on": (626.9, 33.7), "hybrid": (497.5, 43.8), "hal": (493.7, 158.3)}


def spread() -> Any:
    return results("server", FEW, workload="count")


def two() -> Any:
    found = spread()
    tables = {
        name: pl.concat([table, table.with_columns(workload=pl.lit("other"))])
        for name, table in found.tables.items()
    }
    return replace(found, tables=tables)


def marks(graph: dict[str, Any]) -> list[tuple[str, str, Box]]:
    """Every text and every point that is seen: kind, text, and box in points from the corner."""
    found: list[tuple[str, str, Box]] = []

    def walk(part: dict[str, Any], x: float, y: float) -> None:
        kind = part.get("marktype")
        for item in part.get("items", ()):
            at_x, at_y = x + item.get("x", 0.0), y + item.get("y", 0.0)
            if kind == "group" or "items" in item:
                walk(item, at_x, at_y)
            elif kind == "text" and item.get("text") and item.get("opacity", 1) > 0:
                found.append(("text", str(item["text"]), text_box(item, at_x, at_y)))
            elif kind == "symbol" and item.get("opacity", 1) > 0 and item.get("fill"):
                half = item.get("size", 64) ** 0.5 / 2
                box = (at_x - half, at_y - half, at_x + half, at_y + half)
                found.append((part.get("role", ""), "", box))

    def text_box(item: dict[str, Any], x: float, y: float) -> Box:
        size = item.get("fontSize", 11)
        lines = item["text"] if isinstance(item["text"], list) else [item["text"]]
        wide, high = LETTER * size * max(map(len, map(str, lines))), size * len(lines)
        across = {"center": wide / 2, "right": wide}.get(item.get("align", "left"), 0.0)
        # The first line stands at its place; others follow below it.
        up = {"middle": size / 2, "top": 0.0, "line-top": 0.0}.get(item.get("baseline", ""), size)
        left, top = -across + item.get("dx", 0.0), -up + item.get("dy", 0.0)
        if item.get("angle"):
            return x + top, y - left - wide, x + top + high, y - left
        return x + left, y + top, x + left + wide, y + top + high

    walk(graph["scenegraph"], *graph["origin"])
    return found


def overlap(one: Box, other: Box) -> bool:
    slack = TOUCH * min(one[3] - one[1], other[3] - other[1])
    return (
        one[0] + slack < other[2]
        and other[0] + slack < one[2]
        and one[1] + slack < other[3]
        and other[1] + slack < one[3]
    )


def faults(graph: dict[str, Any]) -> list[str]:
    """What is wrong with a picture: labels that overlap, marks outside, no points."""
    found = marks(graph)
    texts = [(text, box) for kind, text, box in found if kind == "text"]
    points = [box for kind, _, box in found if kind == "mark"]
    wrong = [
        f"`{one}` over `{other}`"
        for (one, a), (other, b) in combinations(texts, 2)
        if overlap(a, b)
    ]
    slack = 4.0
    for name, box in [*texts, *(("a point", box) for box in points)]:
        is_inside = box[0] >= -slack and box[1] >= -slack
        is_inside &= box[2] <= graph["width"] + slack and box[3] <= graph["height"] + slack
        wrong += [] if is_inside else [f"`{name}` outside"]
    return wrong + ([] if points else ["no points"])


#: Figures, styles and widths: one figure has all styles and widths, the others share them.
DRAWN = [
    *((crowded, style, width) for style in STYLES for width in WIDTHS),
    *((spread, style, width) for style, width in zip(STYLES, cycle(WIDTHS), strict=False)),
    *((two, style, width) for style, width in zip(STYLES, cycle(reversed(WIDTHS)), strict=False)),
]


@pytest.mark.parametrize(("made", "style", "width"), DRAWN)
def test_a_figure_has_its_width_and_no_label_over_another(made: Any, style: str, width: str):
    wide = WIDTHS[width]
    graph = scene(specification(figure_of(made()), STYLES[style], wide))
    assert abs(graph["width"] - wide * POINTS) <= 1.5
    assert faults(graph) == []


#: Watts and microseconds of techniques whose names are long.
LONG = {
    "always-big": (176.0, 100.0),
    "sleep-timer:timer_ms=300000": (158.0, 34e6),
    "sleep-timer:level=2,timer_ms=300000": (117.0, 225e6),
    "ladder": (105.0, 224e6),
}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_plot_of_long_waits_has_seconds_and_whole_names(width: str):
    plot = {"title": "waits", "mark": "point", "x": "latency_p99_us", "y": "energy_j"}
    plot |= {"color": "technique", "panel": "load_pct"}
    found = results("server", LONG, workload="chat", load_pct=0.1)
    graph = scene(specification(figure_of(found, [plot]), STYLES["paper"], WIDTHS[width]))
    assert abs(graph["width"] - WIDTHS[width] * POINTS) <= 1.5
    texts = {text for kind, text, _ in marks(graph) if kind == "text"}
    assert texts >= {"latency p99 (s)", "energy (J)", "load (%) 0.1", "800", *LONG}
    assert faults(graph) == []


def test_short_times_keep_their_unit():
    plot = {"title": "waits", "mark": "point", "x": "latency_p99_us", "y": "energy_j"}
    found = results("server", FEW, workload="count")
    drawn = study_plot(found, plot | {"color": None, "panel": None}).to_dict()
    assert drawn["encoding"]["x"]["title"] == "latency p99 (us)"


def test_faults_of_a_picture_are_found():
    graph = scene(specification(figure_of(spread()), STYLES["paper"], WIDTHS["page"]))

    def texts(part: Any) -> list[dict[str, Any]]:
        if isinstance(part, list):
            return [text for inner in part for text in texts(inner)]
        if not isinstance(part, dict):
            return []
        own = [part] if "text" in part else []
        return own + [text for inner in part.values() for text in texts(inner)]

    assert faults(graph) == []
    # Only labels stand beside their place.
    one, two, *_ = sorted((t for t in texts(graph) if t.get("dx")), key=lambda t: t["text"])
    before = dict(one)
    one.update({key: two.get(key, 0) for key in ("x", "y", "dx", "dy", "align", "baseline")})
    assert [fault for fault in faults(graph) if " over " in fault]
    one.update(before | {"x": 5000})
    assert f"`{one['text']}` outside" in faults(graph)
    assert "no points" in faults({**graph, "scenegraph": {"items": [], "marktype": "group"}})


def test_the_caption_says_what_is_drawn_and_names_what_is_not():
    caption = figure_of(crowded()).caption
    assert "Pareto front; ring: the winner" in caption
    assert "not drawn: always-small" in caption
    assert "Modelled by halfwink" in caption


def test_the_front_and_the_winner_are_marked():
    spec = specification(figure_of(spread()), STYLES["paper"], WIDTHS["page"])
    (rows,) = spec["datasets"].values()
    on_front = {row["technique"] for row in rows if row["on_front"]}
    assert on_front == set(FEW)
    assert sum(row["is_winner"] for row in rows) == 1
    dominated = FEW | {"always-big": (700.0, 50.0)}
    spec = specification(
        figure_of(results("server", dominated, workload="count")), STYLES["paper"], 100.0
    )
    (rows,) = spec["datasets"].values()
    assert {row["technique"] for row in rows if row["on_front"]} == set(FEW)


def plotted(mark: str, colour: str) -> Any:
    plot = {"title": "waits", "mark": mark, "x": "latency_p99_us", "y": "energy_j"}
    return study_plot(
        results("server", FEW, workload="count"), plot | {"color": colour, "panel": None}
    )


def split() -> Any:
    rows = [(r, n, float(n), n) for r in ROUTES for n in (1, 2)]
    columns = ["route", "kernel_ways", "equal_gain_pct", "mpki"]
    table = pl.DataFrame(rows, columns, orient="row").with_columns(
        scheme=pl.lit("way-partition"), look_up=pl.lit("parallel"), gain_pct="equal_gain_pct"
    )
    return split_and_ranks(SegregationSweep(table, pl.DataFrame(), pl.DataFrame()))


@pytest.mark.parametrize(
    "made",
    [
        lambda: tradeoff(crowded()),
        lambda: savings(spread()),
        lambda: plotted("point", "technique"),
        lambda: plotted("line", "technique"),
        lambda: plotted("point", "machine"),
        lambda: plotted("line", "machine"),
        split,
    ],
)
def test_no_chart_tells_points_or_lines_apart_by_colour_alone(made: Any):
    assert colour_alone(made().to_dict()) == []


def test_points_that_differ_in_colour_alone_are_found():
    drawn = plotted("point", "technique").to_dict()
    del drawn["encoding"]["shape"]
    assert colour_alone({"layer": [drawn]}) == ["point: technique"]


@pytest.fixture(scope="module")
def figure() -> Figure:
    return figure_of(spread())


def test_a_pdf_holds_its_fonts_and_is_a_column_wide(figure: Figure, tmp_path: Path):
    path = tmp_path / "figure.pdf"
    save_figure(figure, path)
    content = path.read_bytes()
    assert b"FontFile" in content
    wide = float(re.findall(rb"/MediaBox ?\[0 0 ([\d.]+)", content)[0])
    assert wide / POINTS == pytest.approx(84, abs=0.6)


def test_an_svg_has_a_size_in_millimetres(figure: Figure, tmp_path: Path):
    path = tmp_path / "figure.svg"
    save_figure(figure, path, "paper", "page")
    (wide,) = re.findall(r'^<svg [^>]*\bwidth="([\d.]+)mm"', path.read_text())
    assert float(wide) == pytest.approx(174, abs=0.6)


#: Loads the fonts of a page, and shows their families with the width of a word in the first.
FONTS = """
<script>
ready.then(() => Promise.all([...document.fonts].map((face) => face.load()))).then((faces) => {
  const texts = [...document.querySelectorAll("svg text")];
  const word = texts.find((text) => text.textContent === "technique");
  show({
    loaded: faces.map((face) => [face.family.replaceAll('"', ""), face.status]),
    asked: texts.map((text) => text.getAttribute("font-family").split(",")[0]),
    wide: word.getComputedTextLength() / parseFloat(word.getAttribute("font-size")),
  });
}).catch((error) => show({failed: String(error)}));
</script>
"""
#: Advance widths of Helvetica's letters, in thousandths of the size: Adobe's font metrics.
ADVANCES = {"c": 500, "e": 556, "h": 556, "i": 222, "n": 556, "q": 556, "t": 278, "u": 556}


@pytest.mark.browser
def test_an_svg_brings_its_font_to_a_browser(figure: Figure, tmp_path: Path):
    path = tmp_path / "figure.svg"
    save_figure(figure, path)
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><body>{path.read_text()}</body>")
    found = probed(page, FONTS, tmp_path / "browser")
    assert found["loaded"] == [["Liberation Sans", "loaded"]]
    assert set(found["asked"]) == {"Liberation Sans"}
    expected = sum(ADVANCES[letter] for letter in "technique") / 1000
    assert found["wide"] == pytest.approx(expected, rel=0.01)


def test_a_caption_of_many_workloads_names_the_first_and_the_last():
    found = spread()
    many = [found.tables["run"].with_columns(workload=pl.lit(f"count@{n}")) for n in range(1, 21)]
    caption = figure_of(replace(found, tables={"run": pl.concat(many)})).caption
    assert "20 workloads (count@1 to count@20) on m." in caption


def test_no_point_of_savings_lies_on_the_frame():
    chip = results(
        "chip", {"always-on": (100.0, 10.0), "tap": (101.0, 10.0), "oracle": (90.0, 10.0)}
    )
    no_waits = chip.runs.with_columns(latency_p99_us=pl.lit(None, pl.Float64))
    figure = figure_of(replace(chip, tables={"run": no_waits}))
    graph = scene(specification(figure, STYLES["paper"], WIDTHS["column"]))
    lowest = max(box[3] for kind, _, box in marks(graph) if kind == "mark")
    # The axis below has the one number of a slowdown that all have.
    number = max(box[1] for kind, text, box in marks(graph) if kind == "text" and text == "0")
    assert lowest + 10 < number


def test_throughput_by_issuers_is_one_panel():
    rows = [(n, 1000.0 * n * speed, name) for name, speed in (("a", 1), ("b", 2)) for n in (1, 2)]
    table = pl.DataFrame(rows, ["issuers", "iops", "technique"], orient="row").with_columns(
        workload=pl.format("random-read@{}", "issuers"),
        machine=pl.lit("m"),
        set=pl.lit(""),
        driver_cpus=pl.lit(1.0),
        driver_us_per_io=pl.lit(1.0),
        socket_full_at=pl.lit(2),
    )
    peaks = {"run": table, "peaks": table}
    figure = figure_of(Results("storage", peaks, "a"))
    assert figure.caption.startswith("Throughput by the CPUs that issue.")
    spec = specification(figure, STYLES["paper"], WIDTHS["column"])
    assert spec["layer"][1]["encoding"]["strokeDash"]["field"] == "technique"
    assert faults(scene(spec)) == []


def test_a_caption_names_bars_only_where_the_chart_has_them():
    limits = {"latency_p99_low_us": 30.0, "latency_p99_high_us": 200.0}
    assert BARS in figure_of(results("server", FEW, workload="count", **limits)).caption
    chip = results("chip", FEW, **limits)
    no_waits = chip.runs.with_columns(latency_p99_us=pl.lit(None, pl.Float64))
    caption = figure_of(replace(chip, tables=chip.tables | {"run": no_waits})).caption
    assert caption.startswith("Energy saved against slowdown")
    assert BARS not in caption


def test_what_cannot_be_drawn_is_said_before_anything_is_played(tmp_path: Path, halfwink: Any):
    for words, said in (
        (("--plot", "a.gif"), "ends in .pdf, .svg, .png"),
        (("--plot", "none/a.svg"), "none/a.svg: there is no folder none"),
        (("--plot", "a.pdf", "--style", "poster"), "expected one of paper, talk, dark"),
        (("--plot", "a.pdf", "--width", "2"), "expected one of column, page"),
    ):
        done = halfwink("compare", "alu", *words)
        assert done.status == 2
        assert said in done.complaint
    assert list(tmp_path.glob("halfwink-out")) == []
    with pytest.raises(HalfwinkError, match=r"a\.gif"):
        save_figure(figure_of(spread()), tmp_path / "a.gif")


def test_a_command_draws_a_figure_and_prints_its_caption(tmp_path: Path, halfwink: Any):
    words = ("compare", "alu", "-t", "tap", "-i", "10000", "-o", "out", "--plot", "figure.pdf")
    done = halfwink(*words)
    assert done.status == 0, done.err
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert "caption: Energy saved against slowdown" in done.err
    again = halfwink("report", "out", "--plot", "again.svg", "--style", "dark")
    assert again.status == 0, again.err
    assert 'fill="#16191f"' in (tmp_path / "again.svg").read_text()


def test_every_command_that_keeps_results_draws_figures():
    options = {
        " ".join(path): {
            name for argument in app.assemble_argument_collection() for name in argument.names
        }
        for path, app in commands(build())
    }
    kept = {name for name, found in options.items() if {"--out", "--fresh"} <= found}
    assert {"compare", "run", "router", "hybrid", "storage simulate"} <= kept
    assert {name for name in kept if not {"--plot", "--style", "--width"} <= options[name]} == set()


def test_a_command_of_one_world_draws_its_figure(tmp_path: Path, halfwink: Any):
    words = ("router", "ipv4@5", "-t", "polling,napi", "-o", "out", "--plot", "figure.svg")
    done = halfwink(*words)
    assert done.status == 0, done.err
    assert "caption: Energy for a unit of work" in done.err
    assert "</svg>" in (tmp_path / "figure.svg").read_text()


@pytest.mark.parametrize(
    ("column", "title"),
    [
        ("core_energy_saving_pct", "core energy saving (%)"),
        ("latency_p99_us", "latency p99 (us)"),
        ("offered_per_s", "offered (1/s)"),
        ("technique", "technique"),
        ("gated_share", "gated share"),
        ("gating.wake_up_ns", "gating.wake_up_ns"),
        ("s", "s"),
    ],
)
def test_axes_are_titled_in_words_with_units(column: str, title: str):
    assert axis_title(column) == title

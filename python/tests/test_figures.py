"""Figures for print, by their scene graphs: where each mark stands before it is a picture."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product
from math import log
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import probed
from colour_vision import colour_alone
from drawn_results import ALONG, FEW, along, issued, paired, saved, saved_of_many, spread, two
from test_tradeoff_chart import crowded
from test_verdict import results

from halfwink import HalfwinkError, idle
from halfwink.advice.idle_gaps import IdleGaps
from halfwink.cli.main import build, commands
from halfwink.models.circuits import Schedule, fabric
from halfwink.models.request_profile import Cold, RequestProfile
from halfwink.models.segregation import SegregationSweep
from halfwink.report.charts import axis_title, savings, study_plot
from halfwink.report.figures import (
    OWN_BARS,
    POINTS,
    STYLES,
    WIDTHS,
    Figure,
    figure_of,
    of_chart,
    save_figure,
    scene,
    specification,
)
from halfwink.report.idle_chart import idle_figure
from halfwink.report.profile_chart import profile_figure
from halfwink.report.segregation_charts import ROUTES, split_and_ranks
from halfwink.report.tradeoff_chart import tradeoff
from halfwink.results.results import Results

Box = tuple[float, float, float, float]
#: Width of a letter by the size of its font: a mean of the sans-serif fonts.
LETTER = 0.5
#: Points by which letters may touch: half a line is descenders and leading.
TOUCH = 0.25

#: Idle times of a server.
TRACE = Path(__file__).parents[2] / "workloads/idle/nginx-5000.csv.xz"
COLD = (
    Cold(("l1i", "l1d"), 0.5, 0.5, 4),
    Cold(("l1i", "l1d", "l2"), 5, 0.5, 15),
    Cold(("l1i", "l1d", "l2", "branch"), 30, 11, 25),
)
PROFILE = RequestProfile("nginx", "golden-cove", "-", "", 11.5, 150, cold=COLD)
#: A plot of a study.
PLOT = {"title": "waits", "x": "latency_p99_us", "y": "energy_j", "color": "technique"}


def of_study(mark: str, panel: str | None) -> Figure:
    found = results("server", LONG, workload="chat", load_pct=0.1)
    return figure_of(found, [PLOT | {"mark": mark, "panel": panel}])


def scheduled() -> Figure:
    hosts, days = 12, range(1, 10)
    circuits = [" ".join(f"{s}>{(s + day) % hosts}" for s in range(hosts)) for day in days]
    week = pl.DataFrame({"slot": days, "day_us": [95.0] * len(days), "circuits": circuits})
    facts = {"hosts": 12.0, "slots": 9.0, "days_us": 855.0, "week_us": 900.0, "duty_pct": 95.0}
    found = Schedule(week, pl.DataFrame(list(facts.items()), ["name", "value"], orient="row"))
    return Figure(lambda size, _font, _columns: found.drawn(size), found.answer())


@lru_cache
def idle_times() -> IdleGaps:
    return idle(TRACE, techniques=["teo", "c6a", "pc1a", "haltpoll"], p99_us=20)


def read_lines(graph: dict[str, Any]) -> set[str]:
    """Every text, those of several lines as one."""
    return {text for kind, text, _ in marks(graph) if kind == "text"}


def marks(graph: dict[str, Any]) -> list[tuple[str, str, Box]]:
    """Every text, every point that is seen and every ring: kind, text, and box in points from the
    corner. Texts of several lines are one."""
    found: list[tuple[str, str, Box]] = []

    def walk(part: dict[str, Any], x: float, y: float) -> None:
        kind = part.get("marktype")
        for item in part.get("items", ()):
            at_x, at_y = x + item.get("x", 0.0), y + item.get("y", 0.0)
            if kind == "group" or "items" in item:
                walk(item, at_x, at_y)
            elif kind == "text" and item.get("text") and item.get("opacity", 1) > 0:
                lines = item["text"] if isinstance(item["text"], list) else [item["text"]]
                found.append(("text", "".join(map(str, lines)), text_box(item, at_x, at_y)))
            elif kind == "symbol" and item.get("opacity", 1) > 0:
                half = item.get("size", 64) ** 0.5 / 2
                box = (at_x - half, at_y - half, at_x + half, at_y + half)
                is_filled = item.get("fill") not in (None, "transparent")
                role = part.get("role", "")
                found.append((role if is_filled or role != "mark" else "ring", "", box))

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
    """What is wrong with a picture: labels over labels, points or rings, marks outside, texts cut
    off, no points, bars or lines."""
    found = marks(graph)
    texts = [(text, box) for kind, text, box in found if kind == "text"]
    points = [(kind, box) for kind, _, box in found if kind in ("mark", "ring")]
    wrong = [
        f"`{one}` over `{other}`"
        for (one, a), (other, b) in combinations(texts, 2)
        if overlap(a, b)
    ]
    named = {"mark": "a point", "ring": "a ring"}
    wrong += [
        f"`{text}` over {named[kind]}" for text, a in texts for kind, b in points if overlap(a, b)
    ]
    slack = 4.0
    for name, box in [*texts, *(("a point", box) for _, box in points)]:
        is_inside = box[0] >= -slack and box[1] >= -slack
        is_inside &= box[2] <= graph["width"] + slack and box[3] <= graph["height"] + slack
        wrong += [] if is_inside else [f"`{name}` outside"]
    wrong += [f"`{text}` cut off" for text, _ in texts if text.endswith("\N{HORIZONTAL ELLIPSIS}")]
    return wrong + ([] if shapes(graph) else ["nothing drawn"])


def shapes(part: dict[str, Any]) -> int:
    """How many points, bars and lines of data are drawn."""
    graph = part.get("scenegraph", part)
    own = 0
    if graph.get("role") == "mark" and graph.get("marktype") in ("symbol", "rect", "line"):
        own = sum(item.get("opacity", 1) > 0 for item in graph.get("items", ()))
    return own + sum(shapes(inner) for item in graph.get("items", ()) for inner in nested(item))


def nested(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [inner for inner in item.get("items", ()) if isinstance(inner, dict)]


#: Every kind of figure.
KINDS: dict[str, Callable[[], Figure]] = {
    "tradeoff": lambda: figure_of(crowded()),
    "tradeoff of few": lambda: figure_of(paired(spread(), "energy_saving_pct")),
    "tradeoff of two workloads": lambda: figure_of(two()),
    "along the load": lambda: figure_of(along()),
    "along the load of two services": lambda: figure_of(along("nginx", "memcached")),
    "savings": lambda: figure_of(saved()),
    "savings of many": lambda: figure_of(saved_of_many()),
    "by issuers": lambda: figure_of(issued()),
    "study, points": lambda: of_study("point", "load_pct"),
    "study, lines": lambda: of_study("line", None),
    "segregation": lambda: of_chart(split(), "splits."),
    "circuits": lambda: of_chart(fabric().chart(), "savings."),
    "schedule": scheduled,
    "idle policies": lambda: idle_figure(idle_times()),
    "profile": lambda: profile_figure(PROFILE),
}
#: Those with a winner.
WON = [name for name in KINDS if name.startswith(("tradeoff", "along", "savings"))]
DRAWN = [(name, *at) for name in KINDS for at in product(("paper", "talk"), WIDTHS)]


@lru_cache
def graph_of(name: str, style: str, width: str) -> dict[str, Any]:
    return scene(specification(KINDS[name](), STYLES[style], WIDTHS[width]))


@pytest.mark.parametrize(("name", "style", "width"), DRAWN)
def test_a_figure_has_its_width_and_no_label_over_another(name: str, style: str, width: str):
    graph = graph_of(name, style, width)
    # A tenth of a millimetre.
    assert abs(graph["width"] - WIDTHS[width] * POINTS) <= 0.1 * POINTS
    assert faults(graph) == []
    said = [text for kind, text, _ in marks(graph) if kind == "text" and "winner" in text]
    assert bool(said) == (name in WON)


def test_the_dark_style_differs_from_paper_in_colours_alone():
    """So that every figure of that style has its places, too."""
    colours = {name: getattr(STYLES["paper"], name) for name in ("background", "ink", "grid")}
    assert replace(STYLES["dark"], **colours) == STYLES["paper"]
    spec = str(specification(figure_of(along()), STYLES["dark"], WIDTHS["page"]))
    # Points beside the front are as the page is.
    assert "'white'" not in spec
    assert STYLES["dark"].background in spec


@pytest.mark.parametrize("name", WON)
def test_a_caption_names_winner_and_bars(name: str):
    caption = KINDS[name]().caption
    assert "winner" in caption.lower()
    has_pairs = name not in ("tradeoff", "tradeoff of two workloads")
    assert ("Bars: paired 95 % intervals of the difference from " in caption) == has_pairs


def test_paired_bars_end_where_the_table_says():
    """A saving of 26.70 % (25.70 to 27.70): the bar ends at those shares of the baseline's."""
    spec = specification(figure_of(along()), STYLES["paper"], WIDTHS["page"])
    rows = [row for table in spec["datasets"].values() for row in table]
    at = {"technique": "teo+packing", "load_pct": 10.0}
    found = next(row for row in rows if at.items() <= row.items() and "energy_bar_low" in row)
    base, ours = ALONG["menu"][0][0], ALONG["teo+packing"][0][0]
    saving = 100 * (base - ours) / base
    ends = [base * (1 - (saving + way) / 100) for way in (1, -1)]
    assert [found["energy_bar_low"], found["energy_bar_high"]] == pytest.approx(ends)
    of_base = [row for row in rows if row["technique"] == "menu" and "energy_bar_low" in row]
    assert {row["energy_bar_low"] for row in of_base} == {None}


@pytest.mark.parametrize(("style", "share"), [("paper", 0.85), ("talk", 0.7)])
def test_axes_use_their_space_and_have_plain_numbers(style: str, share: float):
    spec = specification(figure_of(along()), STYLES[style], WIDTHS["column"])
    trade = spec["vconcat"][0]["layer"][0]["encoding"]
    for axis, values in (("x", [p99 for at in ALONG.values() for _, p99 in at]),):
        low, high = trade[axis]["scale"]["domain"]
        assert trade[axis]["scale"]["nice"] is False
        # Between the least and the most.
        assert log(max(values) / min(values)) > share * log(high / low)
        ticks = trade[axis]["axis"]["values"]
        assert len(ticks) >= 3
        assert min(ticks) < 100 < max(ticks)
    slow = results("racks", {name: (j, 1000 * us) for name, (j, us) in FEW.items()})
    texts = read_lines(scene(specification(figure_of(slow), STYLES[style], WIDTHS["page"])))
    assert "99th percentile of latency (ms), modelled" in texts
    assert not [text for text in texts if re.search(r"\de[+\d]|\d{5}|\d k", text)]


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
    texts = read_lines(graph)
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
    one, two, *_ = sorted((t for t in texts(graph) if t.get("dx")), key=lambda t: str(t["text"]))
    before = dict(one)
    one.update({key: two.get(key, 0) for key in ("x", "y", "dx", "dy", "align", "baseline")})
    assert [fault for fault in faults(graph) if " over " in fault]
    one.update(before | {"x": 5000})
    assert f"`{one['text']}` outside" in faults(graph)
    assert "nothing drawn" in faults({**graph, "scenegraph": {"items": [], "marktype": "group"}})
    # The name of the winner, moved onto its ring, and one that was cut.
    one.update(before | {"text": "longer than its li\N{HORIZONTAL ELLIPSIS}"})
    assert f"`{one['text']}` cut off" in faults(graph)
    one.update(before)
    winner = next(t for t in texts(graph) if "(winner)" in str(t["text"]) and t.get("dx"))
    winner.update(dx=0, dy=0)
    assert f"`{winner['text']}` over a ring" in faults(graph)


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
        lambda: idle_times().chart(),
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


def test_savings_that_are_all_large_leave_zero_out():
    runs = {"always-on": (100.0, 10.0), "tap": (8.0, 12.0), "oracle": (9.0, 30.0)}
    figure = figure_of(saved(runs))
    graph = scene(specification(figure, STYLES["paper"], WIDTHS["column"]))
    numbers = [text for kind, text, _ in marks(graph) if kind == "text"]
    assert "0" not in numbers
    assert any(text.startswith("slowdown (%), modelled; logarithmic") for text in numbers)
    # An axis of some ten per cent, on which 91 and 92 are close.
    plot = next(box for _, text, box in marks(graph) if text.startswith("core energy saved"))
    tops = [box[1] for kind, _, box in marks(graph) if kind == "mark"]
    assert max(tops) - min(tops) < (plot[3] - plot[1]) / 5


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
    caption = figure_of(results("server", FEW, workload="count", **limits)).caption
    assert f"Bars: {OWN_BARS}." in caption
    chip = results("chip", FEW, **limits)
    no_waits = chip.runs.with_columns(latency_p99_us=pl.lit(None, pl.Float64))
    caption = figure_of(replace(chip, tables=chip.tables | {"run": no_waits})).caption
    assert caption.startswith("Energy saved against slowdown")
    assert "ars: " not in caption


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

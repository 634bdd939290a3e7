"""Figures of preheated caches: their answer, and their marks in the scene graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Halfwink
from test_figures import marks, overlap

from halfwink.report.figures import POINTS, STYLES, WIDTHS, scene, specification
from halfwink.report.preheat_charts import deadline, prototype, simulation, steps

MODES = ("warm", "cold", "preheated", "sham-request")
MODE_ROWS = pl.DataFrame(
    {
        "mode": MODES,
        "response_mean_us": [29.2, 167.5, 37.0, 38.0],
        "response_p99_us": [66.5, 272.2, 141.8, 140.1],
    }
)
SERVICES = pl.concat(
    MODE_ROWS.head(3).select(
        pl.lit(name).alias("workload"),
        "mode",
        (pl.col("response_mean_us") * factor).alias("response_us"),
        (pl.col("response_p99_us") * factor).alias("p99_us"),
    )
    for name, factor in (("mariadb-2016", 30.0), ("memcached-2016", 1.5))
)


def test_the_title_is_the_answer():
    assert simulation(MODE_ROWS, "nginx", "ev6").caption.startswith(
        "Preheating removes 94 % of what cold caches cost: nginx on ev6, simulated. "
    )
    slower = pl.col("mode") == "preheated"
    mixed = SERVICES.with_columns(
        pl.when(slower & (pl.col("workload") == "mariadb-2016"))
        .then(30 * 167.5)
        .otherwise("response_us")
        .alias("response_us")
    )
    told = prototype(mixed, "odroid-xu3").caption
    assert told.startswith("Preheating removes 0 to 94 % of what cold caches cost: the services")
    nothing = MODE_ROWS.with_columns(pl.lit(29.2).alias("response_mean_us"))
    told = simulation(nothing, "alu", "ev6").caption
    assert told.startswith("Cold caches cost these requests nothing: ")


STEPS = pl.DataFrame(
    {
        "how": ["cumulative"] * 3 + ["left-out"] * 2,
        "step": ["none", "sort", "filter", "sort", "filter"],
        "time_us": [200.0, 100.0, 50.0, 120.0, 100.0],
        "reduction_pct": [0.0, 50.0, 50.1, 58.0, 50.0],
    }
)
LEADS = pl.DataFrame(
    [
        (name, late, lead, wake, 1.0, gain * (1.0 if lead == 100.0 else kept))
        for name, gain in (("mariadb-2016", 400.0), ("memcached-2016", 60.0))
        for late, kept in (("wait", 0.5), ("skip", 0.1), ("concurrent", 60.0 / gain))
        for lead, wake in ((20.0, 35.0), (100.0, 35.0), (20.0, 70.0), (100.0, 35.0))
    ],
    orient="row",
    schema=["workload", "late", "lead_us", "wake_us", "bandwidth", "net_gain_us"],
)


def test_titles_of_steps_and_leads_are_their_answers():
    told = steps(STEPS, "odroid-xu3").caption
    assert told.startswith("All steps load 4.0 times as fast; `filter` takes 50 % off: odroid-xu3")
    told = deadline(LEADS, "odroid-xu3").caption
    kept = "15 to 100 % of its gain by answering meanwhile, 50 % by waiting, 10 % by cutting the"
    assert told.startswith(f"Announced 20 us ahead, preheating keeps {kept} load: odroid-xu3")
    assert "a wake-up of 35 us" in told


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("figure", "points", "words"),
    [(steps(STEPS, "odroid-xu3"), 0, "no step"), (deadline(LEADS, "odroid-xu3"), 18, "waiting")],
)
def test_a_figure_of_steps_or_leads_has_its_width_and_all_points(
    figure: Any, points: int, words: str, width: str
):
    graph = scene(specification(figure, STYLES["paper"], WIDTHS[width]))
    assert abs(graph["width"] - WIDTHS[width] * POINTS) <= 1.5
    drawn = marks(graph)
    assert sum(kind == "mark" for kind, _, _ in drawn) == points
    assert words in {text for kind, text, _ in drawn if kind == "text"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("style", ["paper", "talk"])
@pytest.mark.parametrize(
    "figure", [simulation(MODE_ROWS, "nginx", "ev6"), prototype(SERVICES, "odroid-xu3")]
)
def test_a_figure_has_its_width_and_no_label_over_another(figure: Any, style: str, width: str):
    wide = WIDTHS[width]
    graph = scene(specification(figure, STYLES[style], wide))
    assert abs(graph["width"] - wide * POINTS) <= 1.5
    texts = [(text, box) for kind, text, box in marks(graph) if kind == "text"]
    assert {"warm", "cold", "preheated"} <= {text for text, _ in texts}
    for number, (one, a) in enumerate(texts):
        assert -4 <= a[0] < a[2] <= graph["width"] + 4, one
        for other, b in texts[:number]:
            assert not overlap(a, b), (one, other)


def test_the_command_draws_and_prints_the_caption(halfwink: Halfwink, tmp_path: Path):
    done = halfwink("preheat", "prototype", "--plot", "a.pdf", "--json")
    assert done.err.startswith("figure: a.pdf; caption: Preheating removes ")
    assert done.rows("services")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    done = halfwink("preheat", "prototype", "--plot", "a.gif")
    assert done.complaint.startswith("a.gif: expected a name that ends in .pdf")

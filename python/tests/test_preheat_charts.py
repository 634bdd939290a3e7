"""Figures of preheated caches: their answer, and their marks in the scene graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Halfwink
from test_figures import marks, overlap

from halfwink.report.figures import POINTS, STYLES, WIDTHS, scene, specification
from halfwink.report.preheat_charts import prototype, simulation

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

"""The reports of all worlds in a real browser: light and dark, wide, on a telephone, on paper."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from browser import VIEWS, views
from small import SMALL, written

import halfwink as hw
from halfwink.report import charts, write_report
from halfwink.results.results import Results


def results_of(case: str, folder: Path) -> Results:
    if case == "chip, two workloads":
        return hw.compare(["nginx", "chase"], techniques=["tap"], instructions=50_000)
    return hw.run(str(written(case, folder))).results


@pytest.mark.browser
@pytest.mark.parametrize("case", [*SMALL, "chip, two workloads"])
def test_a_report_is_accessible_fits_and_prints_whole(case: str, tmp_path: Path):
    page = tmp_path / "report.html"
    write_report(page, case, results_of(case, tmp_path))
    screens, paper = views(page, tmp_path / "browser")
    assert [(view.width, view.dark) for view in screens] == list(VIEWS)
    for view in [*screens, paper]:
        assert view.broken == []
        assert view.passed > 20
        assert view.charts > 1
        assert view.wider <= 0
    # A telephone leaves columns out that a button shows; all else is scrolled sideways.
    assert screens[0].hidden == screens[1].hidden == ["all columns"]
    assert (paper.hidden, paper.clipped) == (["all columns"], [])


@pytest.mark.parametrize("case", SMALL)
def test_a_sweeps_values_are_not_added_up(case: str, tmp_path: Path):
    results = results_of(case, tmp_path)
    drawn = charts.energy_stack(results).data
    assert isinstance(drawn, pl.DataFrame)
    stacks = drawn.group_by("panel", "technique").agg(pl.col("share_pct").sum())
    assert stacks.height == results.runs.height == 4
    base = stacks.filter(technique=results.baseline)["share_pct"].to_list()
    assert base == pytest.approx([100, 100])

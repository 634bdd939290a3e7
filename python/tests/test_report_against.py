"""What changed between two runs: as sentences, as a table, on the page, and by the command."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from browser import views
from conftest import Halfwink

import halfwink as hw
from halfwink.errors import HalfwinkError
from halfwink.report import write_report
from halfwink.results.results import Results

TECHNIQUES = ["hybrid", "hybrid-all", "power-nap"]


def server(seed: int, techniques: list[str] = TECHNIQUES, out: Path | None = None) -> Results:
    """A pair of servers at 30 % load."""
    values = {"seed": seed}
    return hw.compare("count@30", world="server", techniques=techniques, set=values, out=out)


def test_a_run_played_again_changed_nothing():
    changes = server(1).against(server(1))
    assert changes.sentences == (
        "The winner is the same everywhere. Nothing changed: energies and times are equal.",
    )
    assert changes.table["energy_change_pct"].abs().max() == 0
    assert changes.table["is_winner"].to_list() == changes.table["was_winner"].to_list()
    assert changes.table["is_winner"].sum() == 1


def test_another_seed_is_not_told_from_a_change():
    ours, before = server(1), server(2)
    table = ours.against(before).table
    for row in table.iter_rows(named=True):
        now, then = (
            run.runs.filter(technique=row["technique"])["energy_j_per_unit"][0]
            for run in (ours, before)
        )
        assert row["energy_change_pct"] == pytest.approx(100 * (now / then - 1))
        assert row["energy_change_low_pct"] is None
    changes = ours.against(before)
    assert any("cannot be told from noise" in sentence for sentence in changes.sentences)
    assert "The seeds differ." in changes.sentences


def test_a_change_of_a_value_is_paired_by_the_seed_that_both_have():
    def at(idle_w: float, **seed: int) -> Results:
        values: dict[str, float] = {"big.idle_w": idle_w} | seed
        return hw.compare("count@30", world="server", techniques=["hybrid"], set=values)

    for changes in (at(150.0).against(at(160.0)), at(150.0, seed=3).against(at(160.0, seed=3))):
        for row in changes.table.iter_rows(named=True):
            low, high = row["energy_change_low_pct"], row["energy_change_high_pct"]
            assert low <= row["energy_change_pct"] <= high < 0
        assert "2 of 2 changes of energy with a 95 % interval are beyond chance." in (
            changes.sentences
        )


def test_without_parts_a_change_cannot_be_told_from_noise():
    ours = server(1)
    tables = {name: frame for name, frame in server(2).tables.items() if name != "slices"}
    before = replace(ours, tables=tables)
    found = ours.against(before)
    assert found.table["energy_change_low_pct"].count() == 0
    assert any("cannot be told from noise" in sentence for sentence in found.sentences)


def test_the_first_sentence_names_a_new_winner_and_what_one_run_lacks():
    changes = server(1).against(server(1, ["hybrid", "always-big"]))
    assert changes.sentences[0] == (
        "The winner on count@30 changed from always-on to hybrid-all; the earlier run did not "
        "play hybrid-all."
    )
    assert changes.only_here == ("hybrid-all on count@30", "power-nap on count@30")
    assert changes.only_before == ("always-big on count@30",)
    assert "Only in the earlier run: always-big on count@30." in changes.sentences


def test_a_sweeps_values_are_told_apart_and_one_value_is_not():
    swept = hw.compare("count@30", world="server", techniques=["hybrid"], set={"servers": 2})
    other = hw.compare("count@30", world="server", techniques=["hybrid"], set={"servers": 3})
    changes = swept.against(other)
    assert changes.table.height == 2
    assert "Another values set: servers=2, before servers=3." in changes.sentences
    runs = pl.concat([swept.runs, other.runs])
    both = replace(swept, tables=swept.tables | {"run": runs})
    assert both.against(both).table.height == 4
    assert both.against(swept).only_here == (
        "always-on on count@30 servers=3",
        "hybrid on count@30 servers=3",
    )


def test_runs_that_share_nothing_are_an_error():
    chip = hw.compare("alu", techniques="tap", instructions=20_000)
    with pytest.raises(HalfwinkError, match="worlds chip and server: expected two of one world"):
        chip.against(server(1))
    other = hw.compare("chase", techniques="tap", instructions=20_000)
    with pytest.raises(HalfwinkError, match="no workload and technique is in both runs"):
        chip.against(other)


def test_the_command_prints_the_change_and_draws_it(halfwink: Halfwink, tmp_path: Path):
    server(1, out=tmp_path / "new")
    server(2, out=tmp_path / "old")
    done = halfwink("report", "new", "--against", "old")
    assert done.out.startswith("The winner is the same everywhere. Changes: energy of a unit")
    assert re.search(r"hybrid-all \(winner\) .* mJ/request .* mJ/request", done.out)
    page = (tmp_path / "new/report.html").read_text()
    assert '<h2 id="against">' in page
    assert "The seeds differ." in page
    halfwink("report", "new")
    assert '<h2 id="against">' not in (tmp_path / "new/report.html").read_text()


def test_each_number_beside_the_other_runs_has_its_source(tmp_path: Path):
    results = server(1)
    page = tmp_path / "report.html"
    write_report(page, "against", results, changes=results.against(server(2)))
    table = page.read_text().split('<table id="changes"')[1].split("</table>")[0]
    cells = re.findall(r"<td(?! class=\"t)([^>]*)>([^<]*)", table)
    assert len(cells) > 30
    assert all(re.match(r' title="modelled: \w', said) for said, cell in cells if cell != "-")


def test_a_source_beside_the_other_runs_says_that_watts_are_assumed():
    def zen(seed: int) -> Results:
        return hw.compare("nginx", techniques="tap", machine="zen4", instructions=20_000 + seed)

    changes = zen(0).against(zen(1))
    headings, rows = changes.lines()
    for cells, sources in zip(rows, changes.line_sources(), strict=True):
        told = list(zip(headings, cells, sources, strict=True))
        assert [source for _, _, source in told[:2]] == ["", ""]
        assert told[2][0] == "saved %"
        assert told[2][2].endswith("on zen4; its watts are assumed")
        assert told[4] == ("slowdown %", told[4][1], "modelled: from the simulated run")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("new", "--against", "new/../new"), "is the same run; expected another one"),
        (("new", "--against", "empty"), "no results.parquet; expected the folder of a finished"),
        (("new", "--against", "none"), "no results.parquet; expected the folder of a finished"),
        (("new", "--against", "new", "--index"), "--index, --against: expected one of them"),
    ],
)
def test_a_wrong_other_run_is_one_line(
    words: tuple[str, ...], said: str, halfwink: Halfwink, tmp_path: Path
):
    server(1, ["hybrid"], tmp_path / "new")
    (tmp_path / "empty").mkdir()
    done = halfwink("report", *words)
    assert done.status != 0
    assert said in done.complaint


@pytest.mark.browser
def test_a_page_with_the_other_run_is_accessible_and_fits(tmp_path: Path):
    page = tmp_path / "report.html"
    results = server(1)
    write_report(page, "against", results, changes=results.against(server(2)))
    screens, paper = views(page, tmp_path / "browser")
    for view in [*screens, paper]:
        assert view.broken == []
        assert view.wider <= 0

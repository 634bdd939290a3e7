"""The page that links reports, as written and in a real browser."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from browser import browse, probed, views
from conftest import Halfwink

import halfwink as hw
from halfwink.cli.results import draw
from halfwink.errors import HalfwinkError
from halfwink.report.index import entries, write_index
from halfwink.results.results import study_of
from halfwink.runs import studies
from halfwink.runs.batch import Progress

#: As long as any, and with what HTML and shells take for their own.
ODD = "a & <b> 'quoted' %41 " + "long" * 20


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three finished runs, one without a report, and one that nobody can read; latest last."""
    folder = tmp_path_factory.mktemp("page") / "ours"
    for name, techniques in (
        ("first", ["hybrid"]),
        (f"deep/{ODD}", ["hybrid", "power-nap"]),
        ("bare", None),
    ):
        results = hw.compare(
            "count@30", world="server", techniques=techniques, out=folder / name, set={"seed": 1}
        )
        if name != "bare":
            draw(folder / name, study_of(folder / name)["title"], results)
    (folder / "torn").mkdir()
    (folder / "torn/study.toml").write_bytes((folder / "bare/study.toml").read_bytes())
    (folder / "torn/results.parquet").write_text("torn <i>")
    for number, name in enumerate(("first", f"deep/{ODD}", "bare", "torn")):
        os.utime(folder / name / "results.parquet", (1e9 + number, 1e9 + number))
    assert write_index(folder) == 4
    return folder


def test_every_run_is_listed_latest_first(runs: Path):
    found = entries(runs)
    assert [entry.folder for entry in found] == ["torn", "bare", f"deep/{ODD}", "first"]
    torn, bare, odd, first = found
    assert first.written.isoformat() == "2001-09-09T01:46:40+00:00"
    assert first.verdict == hw.open(runs / "first").verdict().sentences[0]
    assert first.counts == ("2 techniques", "1 workload", "1 machine", "2 runs")
    assert odd.counts[0] == "3 techniques"
    assert (first.has_report, bare.has_report) == (True, False)
    assert first.command == "halfwink run first/study.toml -o first"
    assert torn.verdict.startswith("cannot be read: ")


def test_the_command_finds_all_that_was_kept(runs: Path, halfwink: Halfwink):
    told: list[Progress] = []
    studies.run(str(runs / "first/study.toml"), out=runs / "first", progress=told.append)
    assert told[0].jobs_done == told[0].jobs == 2


@pytest.mark.browser
def test_the_page_is_one_file_whose_links_lead_to_reports(runs: Path, tmp_path: Path):
    text = (runs / "index.html").read_text()
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    assert "<b>" not in text
    assert "<i>" not in text
    # As a browser reads them, from the page's own place.
    found = probed(
        runs / "index.html",
        "<script>show([...document.links].map((link) => link.href))</script>",
        tmp_path,
    )
    assert found == [(runs / name / "report.html").as_uri() for name in (f"deep/{ODD}", "first")]


FIT = """
<script>
addEventListener("load", () => {
  const found = {inner: innerWidth, wider: document.documentElement.scrollWidth - innerWidth};
  found.paper = getComputedStyle(document.body).backgroundColor;
  const words = document.getElementById("words");
  words.value = "3 TECH  longlong";
  words.dispatchEvent(new Event("input"));
  found.left = [...document.querySelectorAll("li")].filter((li) => li.checkVisibility()).length;
  found.said = document.getElementById("shown").textContent;
  show(found);
});
</script>
"""


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False)])
def test_the_page_fits_its_window_and_finds_words(
    width: int, dark: bool, runs: Path, tmp_path: Path
):
    found = probed(runs / "index.html", FIT, tmp_path, width, dark=dark)
    assert found["inner"] == width
    assert found["wider"] <= 0
    assert found["paper"] == ("rgb(22, 25, 31)" if dark else "rgb(255, 255, 255)")
    assert (found["left"], found["said"]) == (1, "1 of 4")


@pytest.mark.browser
def test_the_page_is_accessible_and_prints_whole(runs: Path, tmp_path: Path):
    screens, paper = views(runs / "index.html", tmp_path)
    assert [view.broken for view in [*screens, paper]] == [[]] * 5
    assert min(view.passed for view in [*screens, paper]) > 10
    # Nobody searches on paper.
    assert (paper.hidden, paper.clipped) == (["Find", "4 of 4"], [])


@pytest.mark.browser
def test_without_scripts_all_of_it_is_there(runs: Path, tmp_path: Path):
    bare = runs / "bare.html"
    bare.write_text(
        re.sub(r"<script>.*?</script>", "", (runs / "index.html").read_text(), flags=re.S)
    )
    assert browse(bare, tmp_path).count("<li>") == 4


def test_the_command_says_how_many(runs: Path, halfwink: Halfwink, tmp_path: Path):
    done = halfwink("report", str(runs), "--index")
    assert (done.status, done.err) == (0, f"4 runs: {runs / 'index.html'}\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(HalfwinkError, match=r"empty: no results\.parquet in it or below"):
        write_index(tmp_path / "empty")
    assert halfwink("report", "memory://x", "--index").status == 2

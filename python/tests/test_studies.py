"""Studies that ship: each world has one, each is planned, and short forms of them are played."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink.library import library
from halfwink.results.results import sweep_columns
from halfwink.runs.studies import study_jobs

#: A short study of each world that is not played elsewhere, with options that make it shorter.
SHORT = {
    "circuit-flows": "duration_ms = 0.5",
    "core-switching": "",
    "idle-states": "requests = 2_000",
    "preheat": "requests = 40",
    "steering": "requests = 2_000",
    "storage": "ios = 2_000, warm_up = 2_000",
}
#: A world that is an example for those who add one.
EXAMPLE = "toy"


def test_each_world_ships_a_study():
    shipped = {library().study(name)["world"] for name in library().names("studies", "toml")}
    assert shipped == {world["name"] for world in hw.worlds()} - {EXAMPLE}


def test_a_value_that_a_sweep_has_twice_is_refused(halfwink: Halfwink, tmp_path: Path):
    text = library().study("steering")["text"]
    own = tmp_path / "own.toml"
    own.write_text(re.sub(r"(?m)^(\S+ = \[)([\d.]+), ", r"\1\2, \2, ", text))
    for words in (["--plan"], ["-o", str(tmp_path / "out")]):
        done = halfwink("run", str(own), *words)
        assert done.status == 2
        assert re.search(r"own.toml: sweep.\S+: `[\d.]+` stands twice; expected once", done.err)
    with pytest.raises(hw.HalfwinkError, match="stands twice"):
        hw.run(str(own))


def test_a_mark_that_no_plot_has_is_refused_before_the_first_run(
    halfwink: Halfwink, tmp_path: Path
):
    own = tmp_path / "own.toml"
    own.write_text(
        re.sub(r'(?m)^mark = "\w+"', 'mark = "lines"', library().study("steering")["text"])
    )
    for words in (["--plan"], ["-o", str(tmp_path / "out")]):
        done = halfwink("run", str(own), *words)
        assert done.status == 2
        assert "own.toml: plot `" in done.complaint
        assert "unknown mark `lines`; expected point, line or bar" in done.complaint
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", SHORT)
def test_a_short_study_is_planned(name: str, halfwink: Halfwink):
    done = halfwink("run", name, "--plan", "--json")
    assert done.status == 0, done.err
    jobs = study_jobs(name)
    assert done.json()["facts"]["jobs"] == len(jobs)
    assert 10 < len(jobs) < 100


@pytest.mark.parametrize("name", SHORT)
def test_a_short_study_fills_its_plots(name: str, halfwink: Halfwink, tmp_path: Path):
    study = library().study(name)
    text = re.sub(r"(?m)^options = .*$", f"options = {{ {SHORT[name]} }}", study["text"])
    # The first load and the first value of what is swept are enough.
    text = re.sub(r'(?m)^(workloads = \["[^"]*").*$', r"\1]", text)
    text = re.sub(r"(?m)^(\S+ = \[[\d.]+), .*$", r"\1]", text)
    own = tmp_path / f"{name}.toml"
    own.write_text(text)
    done = halfwink("run", str(own), "-o", str(tmp_path / "out"), "-q")
    assert done.status == 0, done.err
    runs = sweep_columns(hw.open(tmp_path / "out").runs)
    assert runs.height == len(study_jobs(str(own)))
    page = (tmp_path / "out/report.html").read_text()
    for plot in study["plots"]:
        assert escape(plot["title"]) in page
        for axis in (plot["x"], plot["y"], plot["color"], plot["panel"]):
            assert runs[axis].null_count() == 0, axis

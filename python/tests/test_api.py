"""The Python API: data frames, charts, executors."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink.exports import SUBJECTS
from halfwink.models import fabric
from halfwink.results.relate import relate
from halfwink.targets import mutants
from halfwink.targets.targets import select


def test_a_name_that_is_another_packages_is_told_its_place():
    for subject in SUBJECTS:
        for name in import_module(f"halfwink.{subject}").__all__:
            with pytest.raises(AttributeError, match=rf": expected halfwink\.{subject}\.{name}$"):
                getattr(hw, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nosuch'$"):
        getattr(hw, "nosuch")  # noqa: B009


def test_compare_gives_frames_and_a_chart():
    results = hw.compare("nginx", techniques=["tap"], machine="ev6-16", instructions=200_000)
    table = results.table()
    assert table["technique"].to_list() == ["always-on", "tap"]
    assert table["energy_saving_pct"][0] == 0
    assert results.ledger.filter(technique="tap")["energy_j"].sum() > 0
    assert results.chart().to_dict()["layer"]


def test_without_pandas_the_line_that_adds_it_is_said(monkeypatch: pytest.MonkeyPatch):
    results = hw.compare("alu", techniques=["tap"], instructions=10_000)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(hw.HalfwinkError, match=r"run: pip install 'halfwink\[pandas\]'"):
        results.to_pandas()


def test_a_table_becomes_a_frame_of_pandas():
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    results = hw.compare("alu", techniques=["tap"], instructions=10_000)
    frame = results.to_pandas("run")
    assert list(frame["technique"]) == ["always-on", "tap"]
    assert frame["energy_j"].dtype == "float64"


def test_families_and_all_stand_for_many():
    results = hw.compare("alu", techniques=["all-gating"], instructions=20_000)
    chip = [t for t in hw.techniques() if "chip" in t["worlds"]]
    gating = [t["name"] for t in chip if t["family"] == "gating"]
    assert sorted(results.runs["technique"]) == sorted(gating)
    assert results.runs["technique"][0] == "always-on"
    # A lone name is one name.
    one = hw.compare("alu", techniques="tap", instructions=20_000)
    assert one.runs["technique"].to_list() == ["always-on", "tap"]
    assert one.baseline == "always-on"
    with pytest.raises(hw.HalfwinkError, match="unknown family `sleeping`"):
        hw.compare("alu", techniques=["all-sleeping"])


def test_savings_are_relative_to_the_baseline_of_the_same_work():
    rows = {
        "workload": ["a", "a", "b", "b"],
        "machine": ["m"] * 4,
        "set": [""] * 4,
        "technique": ["always-on", "tap"] * 2,
        "load": ["closed", "closed", "open", "open"],
        "units": [1] * 4,
        "duration_s": [9.0] * 4,
        "energy_j": [10.0, 9.0, 4.0, 3.0],
        "working_core_energy_j": [5.0, 4.0, 2.0, 1.0],
        "working_core_clock_j": [1.0, 0.5, 0.5, 0.5],
        "run_s": [1.0, 1.1, 1.0, 1.5],
        "latency_mean_us": [None, None, 10.0, 12.0],
    }
    related = relate(pl.DataFrame(rows), "always-on")
    assert related["energy_saving_pct"].to_list() == pytest.approx([0, 10, 0, 25])
    assert related["core_energy_saving_pct"].to_list() == pytest.approx([0, 20, 0, 50])
    # Of the 20 % half are clock power; of the 50 % none.
    assert related["core_clock_saving_pct"].to_list() == pytest.approx([0, 10, 0, 0])
    # Run time for a closed load, mean latency for an open one.
    assert related["slowdown_pct"].to_list() == pytest.approx([0, 10, 0, 20])


def test_targets_are_chosen_by_area_work_and_prefix():
    targets = [
        {"id": "strong/PT-2.13/ev6", "area": "gating", "source": "Strong 2013, Table 2.3"},
        {"id": "strong/PT-4.1", "area": "circuits", "source": "Strong 2013, Fig 4.2"},
        {"id": "mogul/T3.1", "area": "switching", "source": "Mogul 2007, Table 3"},
    ]
    assert [t["id"] for t in select(targets, ["gating", "mogul"])] == [
        "strong/PT-2.13/ev6",
        "mogul/T3.1",
    ]
    assert len(select(targets, ["strong/PT-2"])) == 1
    assert [t["id"] for t in select(targets, ["strong/F4.2"])] == ["strong/PT-4.1"]
    assert [t["id"] for t in select(targets, ["mogul/Table3"])] == ["mogul/T3.1"]
    assert len(select(targets, [])) == 3


def test_studies_that_ship_can_be_read_and_their_names_exist(tmp_path: Path):
    from halfwink.library import library
    from halfwink.runs.studies import study_jobs

    names = library().names("studies", "toml")
    assert names
    for name in names:
        study = library().study(name)
        if study["design"]["kind"] == "adaptive":
            # All that it may choose from.
            name = str(tmp_path / f"{name}.toml")
            grid = re.sub(r"\[design\].*?(?=\[sweep\])", "", study["text"], flags=re.DOTALL)
            Path(name).write_text(grid)
        for job in study_jobs(name):
            job.prepare()


def test_a_lone_name_or_number_is_one_everywhere():
    run = hw.compare(
        "count", world="server", techniques="hybrid", loads="30", set={"requests": 2000}
    )
    assert run.runs["load_pct"].to_list() == pytest.approx([30, 30])
    with pytest.raises(hw.HalfwinkError, match="nosuch"):
        mutants("niccolini/PT-4.1", only="nosuch")


@pytest.mark.parametrize("wrong", [["requests=8"], "requests=8", 8, [8]])
def test_values_that_are_no_mapping_are_refused(wrong: Any):
    with pytest.raises(hw.HalfwinkError, match="expected a mapping"):
        hw.compare("count@30", world="server", set=wrong)


def test_a_count_that_is_given_twice_is_refused(halfwink: Halfwink):
    twice = {"instructions": 5000}
    with pytest.raises(hw.HalfwinkError, match="given twice: instructions 100000, and 5000 among"):
        hw.compare("gcc", instructions=100_000, set=twice)
    with pytest.raises(hw.HalfwinkError, match="given twice: instructions"):
        hw.tune("tap", {"x": (1, 2)}, workload="gcc", instructions=100_000, set=twice)
    with pytest.raises(hw.HalfwinkError, match="given twice: requests 100000, and 5000"):
        hw.advise("nginx", requests=100_000, set={"requests": 5000})
    words = ("advise", "nginx", "--requests", "9000", "--set", "requests=5000")
    assert "given twice: requests 9000" in halfwink(*words).complaint
    words = ("compare", "gcc", "--set", "instructions=5", "--set", "instructions=50")
    line = "given twice: --set instructions=5 and --set instructions=50; expected it once"
    assert line in halfwink(*words).complaint


def test_every_result_shows_itself_in_a_notebook(tmp_path: Path):
    shown = [
        fabric("optical-core"),
    ]
    for result in shown:
        assert "<table" in result._repr_html_()


def test_capture_is_a_function_whoever_has_imported_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import halfwink.capture as module

    assert hw.capture is module
    monkeypatch.chdir(tmp_path)
    with pytest.raises(module.WrongUseError, match="expected a workload or a command"):
        hw.capture()
    with pytest.raises(
        hw.HalfwinkError, match="command: found 'sleep 1', expected a list of texts"
    ):
        hw.capture(command="sleep 1")
    (tmp_path / "nginx.hwt").touch()
    with pytest.raises(module.WrongUseError, match=r"nginx\.hwt is there: expected out="):
        hw.capture("nginx")
    with pytest.raises(module.WrongUseError, match="nosuch"):
        hw.capture("nosuch")


def test_misses_per_thousand_instructions_are_those_of_the_counters():
    results = hw.compare("chase", techniques="tap", instructions=100_000)
    for row in results.runs.iter_rows(named=True):
        own = results.counters.filter(technique=row["technique"])
        both = pl.col("user") + pl.col("kernel")
        for counter, column in (("l2.misses", "l2_mpki"), ("branches.mispredicted", "branch_mpki")):
            misses = own.filter(counter=counter).select(both.sum()).item()
            assert row[column] == pytest.approx(1000 * misses / row["instructions"])
        third = own.filter(component="l3", counter="misses").select(both.sum()).item()
        assert row["l3_mpki"] == pytest.approx(1000 * third / row["instructions"])
    # A pointer chase through more than any cache misses all of them.
    assert results.runs["l3_mpki"][0] > 10

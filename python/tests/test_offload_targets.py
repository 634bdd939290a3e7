"""Offload studies and their targets, on slices so short that only the way is tested."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import halfwink as hw
from halfwink.jobs import Job, names
from halfwink.library import library, root
from halfwink.report.charts import study_plot
from halfwink.results.results import Results
from halfwink.runs.studies import StudyRun, run, study_jobs
from halfwink.targets import targets
from halfwink.targets.catalogue import experiment

SERVICES = ["apache", "memcached", "nginx", "postgresql", "redis"]
#: Tens of kernel entries of each service.
INSTRUCTIONS = 100_000


def shortened(name: str, folder: Path, **lists: str) -> Path:
    """A shipped study with few instructions, and other values in some of its lists."""
    text = (root() / "studies" / f"{name}.toml").read_text()
    text = re.sub(r"^instructions = .*$", f"instructions = {INSTRUCTIONS}", text, flags=re.M)
    for key, values in lists.items():
        text, found = re.subn(
            rf'^("?{re.escape(key)}"?) = \[[^]]*\]', rf"\1 = {values}", text, flags=re.M
        )
        assert found == 1, key
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def surface(tmp_path_factory: pytest.TempPathFactory) -> StudyRun:
    """The surface of ``offload``, five thresholds by two costs."""
    lists = {
        "workloads": str(SERVICES).replace("'", '"'),
        "technique.threshold": "[0, 100, 1000, 5000, 10000, 20000]",
        "os.switch_cycles": "[0, 10000]",
    }
    return run(str(shortened("offload", tmp_path_factory.mktemp("study"), **lists)))


def test_every_run_is_beside_the_uniprocessor(surface: StudyRun) -> None:
    runs = surface.results.runs
    assert study_jobs("offload")[0].machine == "ultrasparc"
    alone = runs.filter(machine="ultrasparc")
    assert alone["workload"].sort().to_list() == SERVICES
    assert alone["technique"].unique().to_list() == ["os-profile"]
    assert alone["slowdown_pct"].to_list() == [0.0] * len(SERVICES)
    pairs = runs.filter(machine="ultrasparc-os").join(alone, on="workload", suffix="_alone")
    assert len(pairs) == len(SERVICES) * 6 * 2
    slower = 100 * (pairs["run_s"] / pairs["run_s_alone"] - 1)
    assert (slower - pairs["slowdown_pct"]).abs().max() == pytest.approx(0, abs=1e-9)
    # What moves costs time, and a higher threshold moves less.
    free = runs.filter(pl.col("set").str.contains("switch_cycles=0 "))
    dear = runs.filter(pl.col("set").str.contains("switch_cycles=10000 "))
    assert dear["run_s"].sum() > free["run_s"].sum()
    moved = free.filter(workload="nginx").sort(
        pl.col("set").str.extract(r"technique.threshold=(\d+)").cast(pl.Int64)
    )["moved_invocations"]
    assert moved[0] > moved[-1] >= 0
    assert moved.is_sorted(descending=True)


def test_its_plots_have_a_line_for_each_cost(surface: StudyRun) -> None:
    for plot in surface.study["plots"]:
        drawn = study_plot(surface.results, plot).to_dict()
        colour = drawn["spec"]["encoding"]["color"]
        assert (colour["field"], colour["type"]) == ("os_switch_cycles", "ordinal")
        (rows,) = drawn["datasets"].values()
        assert len(rows) == len(SERVICES) * 6 * 2, "the uniprocessor is no point of the surface"


def test_the_sql_of_its_targets_yields_values(
    surface: StudyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(jobs: Sequence[Job], **_: Any) -> Results:
        assert jobs == study_jobs("offload", None)
        return surface.results

    monkeypatch.setattr(targets, "run_all", ran)
    wanted = [
        target["id"]
        for target in library().targets()
        if target["id"].startswith("nellans/T4")
        and "study offload" in names((target["compute"] or {}).get("from"))
    ]
    assert len(wanted) > 20
    found = {entry["id"]: entry for entry in hw.reproduce(wanted)}
    silent = {name for name, entry in found.items() if entry["ours"] is None}
    # No epoch of 100 M instructions, no TLB.
    assert silent >= {"nellans/T4.8", "nellans/T4.18"}
    residency = [
        found[f"nellans/T4.27/apache/threshold-{n}"]["ours"] for n in (0, 100, 1000, 5000, 10000)
    ]
    assert 100 >= residency[0] >= residency[-1] >= 0
    assert found["nellans/T4.19"]["ours"] == found["nellans/T4.25"]["ours"] > 0
    assert isinstance(found["nellans/T4.26"]["ours"], bool)


def test_arithmetic_needs_no_study() -> None:
    found = {
        entry["id"].removeprefix("nellans/"): entry
        for entry in hw.reproduce(["nellans/T2.12/switch-time", "nellans/T4.16", "nellans/T4.9"])
    }
    assert found["T2.12/switch-time"]["ours"] == pytest.approx(6)
    assert found["T4.16/all"]["ours"] == 2050
    assert found["T4.9/original"]["verdict"] == "input"
    assert {e["verdict"] for e in found.values()} == {"arithmetic", "input"}


def test_predictions_are_tables() -> None:
    tables = experiment("predict")
    said = library().prediction("nginx", [])["rows"][0]
    row = tables["predictions"].filter(workload="nginx").row(0, named=True)
    assert row.pop("workload") == "nginx"
    decisions = said.pop("decisions")
    assert row == said
    ours = tables["decisions"].filter(workload="nginx", entries="all", table=said["table"])
    assert ours.select(list(decisions[0])).to_dicts() == decisions
    recorded = library().names("workloads", "hwt")
    assert tables["predictions"]["workload"].unique().sort().to_list() == sorted(recorded)


def test_nothing_of_chapters_2_and_4_is_left_to_do() -> None:
    chapters = ("nellans/T2", "nellans/T4", "nellans/X4")
    left = [
        target["id"]
        for target in library().targets()
        if target["id"].startswith(chapters) and target["compute"] is None
    ]
    assert left == []

"""What stands on the seam, in every world: run, resume, stop, relate, report, list."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Done, Halfwink
from small import SMALL, written

import halfwink as hw
from halfwink import _core
from halfwink.library import root
from halfwink.results.frames import KINDS
from halfwink.results.relate import IDENTITY, relate
from halfwink.results.results import Results, sweep_columns
from halfwink.results.seeds import over_seeds
from halfwink.runs.studies import study_jobs

WORLDS = [world["name"] for world in _core.worlds()]
#: Columns that make results of all worlds comparable.
COMMON = {"unit_of_work", "units", "duration_s", "energy_j", "energy_j_per_unit"}
COMMON |= {"latency_mean_us", "latency_p99_us", "energy_saving_pct", "slowdown_pct"}
COMMON |= {"energy_delay_pct", *IDENTITY}


def test_every_world_has_its_small_study():
    assert set(SMALL) == set(WORLDS)


@pytest.mark.parametrize("world", WORLDS)
def test_a_study_runs_resumes_reports_and_opens_again(
    world: str, halfwink: Halfwink, tmp_path: Path
):
    study = written(world, tmp_path)
    shown = halfwink("run", str(study), "-o", "out")
    assert shown.status == 0, shown.err
    assert "saved %" in shown.out
    assert "modelled" in shown.out
    opened = hw.open(tmp_path / "out")
    assert (opened.world, opened.baseline) == (world, SMALL[world].techniques[0])
    assert opened.table().height == 4
    runs = opened.runs.to_dicts()
    assert len(runs) == 4
    assert set(runs[0]) >= COMMON
    baseline = [run for run in runs if run["technique"] == SMALL[world].techniques[0]]
    assert [run["energy_saving_pct"] for run in baseline] == [0, 0]
    assert [run["slowdown_pct"] for run in baseline] == [0, 0]
    assert len({run["set"] for run in runs}) == 2
    page = tmp_path / "out/report.html"
    first = _headings(page)
    assert "Where the energy goes" in first
    assert "saved" in first, "the study's own plot"
    assert ("Energy against latency" in first) == (opened.runs["latency_p99_us"].count() > 0)
    assert ("Over time" in first) == opened.has("slots")
    # What is there is not run again, unless it was altered.
    kept = sorted((tmp_path / "out/runs").glob("*.json"))
    times = [path.stat().st_mtime_ns for path in kept]
    altered = json.loads(kept[0].read_text())
    (column,) = [c for c in altered["tables"]["run"] if c[0] == "energy_j"]
    column[2] = [12345.0]
    kept[0].write_text(json.dumps(altered))
    again = halfwink("run", str(study), "-o", "out", "--json")
    assert again.rows("runs") == runs
    assert f"{kept[0].name}: is not what was written; computed again" in again.err
    assert [path.stat().st_mtime_ns for path in kept[1:]] == times[1:]
    fresh = halfwink("run", str(study), "-o", "out", "--json", "--fresh").rows("runs")
    assert fresh == runs
    assert all(p.stat().st_mtime_ns > t for p, t in zip(kept, times, strict=True))
    page.unlink()
    assert halfwink("report", "out").status == 0
    assert _headings(page) == first


def _headings(page: Path) -> list[str]:
    return re.findall(r"<h2 id=[^>]*><a [^>]*>(.*?)</a></h2>", page.read_text())


def start(study: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "halfwink", "run", str(study), "-o", "out"]
    return subprocess.Popen(
        [*command, "--executor", "local:2"], cwd=folder, stderr=subprocess.PIPE, text=True
    )


def endless(world: str, folder: Path) -> Path:
    """A study of a run that ends at once and one that never does."""
    path = folder / f"{world}.toml"
    small = SMALL[world]
    if not small.endless:
        # Its length stands in the description: of one workload as it is, of another for years.
        machine = folder / "long.toml"
        text = (root() / "machines/switching/alpha.toml").read_text()
        long = text.replace("seconds = 0.1\n", "seconds = 1000.0\n", 1)
        assert long != text
        machine.write_text(long)
        text = small.text(world, '"mechanism.ipi_handler_ns" = [40]')
        text = text.replace('["web@1g"]', '["web@1g", "ex-tpcb@disk"]')
        path.write_text(text.replace("alpha@", f"{machine}@"))
        return path
    path.write_text(small.text(world, small.endless))
    return path


@pytest.mark.parametrize("world", WORLDS)
def test_ctrl_c_stops_a_run_and_keeps_what_was_finished(world: str, tmp_path: Path):
    process = start(endless(world, tmp_path), tmp_path)
    kept = tmp_path / "out/runs"
    # A result is there: the next job has begun, or begins before the signal is looked at.
    while process.poll() is None and not list(kept.glob("*.json")):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert said.strip().splitlines()[-1].endswith("the same command goes on")
    assert list(kept.glob("*.json"))
    assert not list(kept.glob(".*"))


@pytest.fixture(scope="module")
def small_results(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Results]:
    """Returns the results of a world's small study, which is run once."""
    folder = tmp_path_factory.mktemp("small")
    return lru_cache(lambda world: hw.run(str(written(world, folder))).results)


@pytest.mark.parametrize("world", WORLDS)
def test_tables_have_their_types_with_and_without_rows(
    world: str, small_results: Callable[[str], Results]
):
    (schema,) = [w["tables"] for w in _core.worlds() if w["name"] == world]
    results = small_results(world)
    assert set(results.tables) - {"host"} == set(schema)
    for name, columns in schema.items():
        table = results.tables[name]
        for column, kind, *_ in columns:
            assert table.schema[column] == KINDS[kind], (name, column)
        assert list(table.columns[: len(IDENTITY)]) == list(IDENTITY)
    assert results.host["host_s"].min() > 0  # type: ignore[operator]
    with pytest.raises(AttributeError, match="no table `nothing`"):
        _ = results.nothing


@pytest.mark.parametrize("world", WORLDS)
def test_the_ledger_holds_all_energy(world: str, small_results: Callable[[str], Results]):
    results = small_results(world)
    sums = results.ledger.group_by(IDENTITY).agg(pl.col("energy_j").sum().alias("sum_j"))
    both = results.runs.join(sums, on=IDENTITY, how="left", nulls_equal=True)
    assert both.height == results.runs.height
    for row in both.iter_rows(named=True):
        assert row["sum_j"] == pytest.approx(row["energy_j"], rel=1e-9)


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_jobs_run_one_by_one(
    world: str, small_results: Callable[[str], Results], tmp_path: Path
):
    """A study's jobs, prepared and run by hand, give what the study gives."""
    study = written(world, tmp_path)
    runs = small_results(world).runs
    for job, row in zip(study_jobs(str(study)), runs.iter_rows(named=True), strict=True):
        assert (job.world, job.workload, job.technique) == (
            world,
            row["workload"],
            row["technique"],
        )
        found = {c[0]: c[2][0] for c in job.prepare().run(_core.RunControl())["run"]}
        assert found["energy_j"] == row["energy_j"]


def frame(**columns: list[Any]) -> pl.DataFrame:
    count = len(columns["energy_j"])
    whose = {"workload": ["a"] * count, "machine": ["m"] * count, "set": [""] * count}
    return pl.DataFrame(whose | columns)


def test_work_that_arrives_is_related_by_its_latency():
    runs = frame(
        technique=["polling", "tap"],
        units=[100, 50],
        duration_s=[2.0, 1.0],
        energy_j=[10.0, 4.0],
        latency_mean_us=[10.0, 12.0],
    )
    base, tap = relate(runs, "polling").iter_rows(named=True)
    assert (base["energy_saving_pct"], base["slowdown_pct"]) == (0, 0)
    # Half the work for 4 J: 8 J for as much.
    assert tap["energy_saving_pct"] == pytest.approx(20)
    assert tap["slowdown_pct"] == pytest.approx(20)
    assert tap["energy_delay_pct"] == pytest.approx(100 * (0.8 * 1.2 - 1))
    assert "core_energy_saving_pct" not in base


def test_work_that_does_not_arrive_is_related_by_its_time():
    runs = frame(
        technique=["bound", "v4"],
        units=[100, 50],
        duration_s=[1.0, 1.0],
        energy_j=[10.0, 4.0],
        latency_mean_us=pl.Series([None, None], dtype=pl.Float64),
    )
    row = relate(runs, "bound").row(1, named=True)
    # In the same time, half as much.
    assert row["slowdown_pct"] == pytest.approx(100)


def test_a_machine_without_work_is_related_by_its_power():
    runs = frame(
        technique=["always-on", "nap"],
        units=[0, 0],
        duration_s=[10.0, 20.0],
        energy_j=[10.0, 10.0],
        latency_mean_us=pl.Series([None, None], dtype=pl.Float64),
    )
    assert relate(runs, "always-on").row(1, named=True)["energy_saving_pct"] == pytest.approx(50)


def test_a_run_without_its_baseline_says_nothing():
    runs = frame(
        technique=["tap"], units=[1], duration_s=[1.0], energy_j=[1.0], latency_mean_us=[1.0]
    )
    row = relate(runs, "always-on").row(0, named=True)
    assert row["energy_saving_pct"] is None
    assert row["slowdown_pct"] is None


def test_seeds_are_one_line_with_an_interval():
    values = [1.0, 2.0, 3.0]
    runs = pl.DataFrame(
        {
            "workload": ["a"] * 3,
            "machine": ["m"] * 3,
            "set": [f"x=1 seed={n} y=2" for n in (1, 2, 3)],
            "technique": ["tap"] * 3,
            "units": values,
            "power_w": values,
            "power_low_w": [0.0] * 3,
            "power_high_w": [9.0] * 3,
        }
    )
    (row,) = over_seeds(runs).iter_rows(named=True)
    assert row["set"] == "x=1 y=2"
    assert row["power_w"] == 2
    # Student's t for 2 degrees of freedom is 4.303; the standard error is 1 / sqrt 3.
    assert row["power_high_w"] - row["power_w"] == pytest.approx(4.303 / 3**0.5)
    assert row["power_w"] - row["power_low_w"] == pytest.approx(4.303 / 3**0.5)
    assert (row["units"], row["units_high"]) == (2, row["power_high_w"])
    assert over_seeds(runs.head(1)).equals(runs.head(1))
    assert sweep_columns(runs)["seed"].to_list() == [1, 2, 3]


def complaint(done: Done) -> str:
    assert done.status == 2, done.err
    return done.complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare", "alu", "-t", "power-save"), "halfwink router -t power-save"),
        (("compare", "alu", "-t", "hybrid"), "halfwink hybrid -t hybrid"),
        (("router", "-t", "tap"), "halfwink compare"),
        (("hybrid", "-t", "tap"), "halfwink compare"),
        (("compare", "alu", "--world", "chp"), "unknown world `chp`; did you mean `chip`?"),
        (("compare", "alu", "-t", "tap:wake=lst"), "did you mean `last`?"),
        (("compare", "alu", "-t", "tap:wakes=last"), "did you mean `wake`?"),
        (("compare", "alu", "-t", "oracle:wake=last"), "takes no parameters"),
        (("list", "machines", "--world", "chp"), "unknown world `chp`; there are: chip"),
        (("list", "studies", "--family", "gating"), "has no family"),
    ],
)
def test_a_name_of_another_world_says_what_takes_it(
    halfwink: Halfwink, words: tuple[str, ...], said: str
):
    assert said in complaint(halfwink(*words))


def test_another_world_can_be_compared(halfwink: Halfwink):
    words = ("-t", "idle-gate", "--set", "requests=2000")
    found = halfwink("compare", "exponential@20", "--world", "toy", *words, "--json")
    assert found.json()["facts"]["world"] == "toy"
    runs = found.rows("runs")
    assert [run["technique"] for run in runs] == ["always-on", "idle-gate"]
    assert runs[1]["energy_saving_pct"] > 0


OLD = [
    ("chip", '"os.threshold_instructions" = [100]', "technique.threshold"),
    ("router", '"power_save.c_up" = [2]', "power-save:c_up"),
    ("server", '"policy.threshold" = [8]', "technique.threshold"),
]


@pytest.mark.parametrize(("world", "sweep", "now"), OLD)
def test_an_old_study_is_told_what_to_write_now(
    halfwink: Halfwink, tmp_path: Path, world: str, sweep: str, now: str
):
    study = tmp_path / "old.toml"
    study.write_text(SMALL[world].text(world, sweep))
    said = complaint(halfwink("run", str(study)))
    assert f"`{now}" in said


@pytest.mark.parametrize(
    ("folder", "shipped", "section", "now"),
    [
        ("", "ev6", "[fupg]\nidle_ns = 1.0\n", "fupg:idle_ns"),
        ("router", "westmere", "[power_save]\nc_up = 2\n", "power-save:c_up"),
        ("server", "niccolini", "[policy]\nthreshold = 8\n", "technique.threshold"),
    ],
)
def test_an_old_machine_file_is_told_what_to_write_now(
    halfwink: Halfwink,
    tmp_path: Path,
    folder: str,
    shipped: str,
    section: str,
    now: str,
):
    text = (root() / "machines" / folder / f"{shipped}.toml").read_text()
    old = tmp_path / "old.toml"
    head, _, key = section.partition("\n")
    # Into the section that is left of it, or as one of its own.
    old.write_text(
        re.sub(rf"^{re.escape(head)}.*\n", section, text, count=1, flags=re.M)
        if head in text
        else f"{text}\n{section}"
    )
    assert key in old.read_text()
    words = {"": ("compare", "alu", "-m"), "router": ("router", "-m"), "server": ("hybrid", "-m")}
    said = complaint(halfwink(*words[folder], "old.toml"))
    assert said.startswith("old.toml:")
    assert f"leave it out and say {now}=" in said


def test_a_plot_of_a_column_that_is_not_there_is_one_line(halfwink: Halfwink, tmp_path: Path):
    study = written("toy", tmp_path)
    study.write_text(study.read_text().replace('"energy_saving_pct"', '"energy_savng_pct"'))
    done = halfwink("run", str(study), "-o", "out")
    assert "did you mean `energy_saving_pct`?" in complaint(done)
    assert hw.open(tmp_path / "out").runs.height == 4, "what was computed is kept"


def test_lists_are_of_all_worlds(halfwink: Halfwink):
    worlds = {w["name"] for w in halfwink("list", "worlds", "--json").rows("worlds")}
    assert worlds == set(WORLDS)
    for what in ("machines", "workloads"):
        entries = halfwink("list", what, "--json").rows(what)
        assert {entry["world"] for entry in entries} == worlds
    for world in WORLDS:
        listed = halfwink("list", "techniques", "--world", world, "--json").rows("techniques")
        played = (part for t in SMALL[world].techniques for part in t.split("+"))
        assert {t["name"] for t in listed} >= {part.split(":")[0] for part in played}
    parameters = {
        (t["name"], p["name"]) for t in _core.techniques() for p in t["parameters"] if p["title"]
    }
    assert ("tap", "wake") in parameters
    assert hw.experiments()

"""Studies in parts: arrays of jobs that share a folder, and are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import halfwink as hw
from halfwink.errors import HalfwinkError, RunError
from halfwink.jobs import Planned, plan
from halfwink.results.packs import LEAST
from halfwink.results.store import RunStore
from halfwink.runs import studies
from halfwink.runs.batch import run_jobs
from halfwink.runs.parts import deal
from halfwink.runs.sweep_plan import plan_study

STUDY = """
schema = 1
world = "server"
title = "parts"
workloads = ["count@30", "count@60"]
machines = ["niccolini"]
techniques = ["always-on", "hybrid", "power-nap"]
[options]
requests = 3000
[sweep]
seed = [1, 2, 3, 4]
"""
RUNS = 2 * 4 * 3


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "parts.toml"
    path.write_text(STUDY)
    return path


def kept(folder: Path) -> dict[str, bytes]:
    """Every byte of the results but what the host took, and the commit."""
    files = [*(folder / "runs").glob("*.json"), *folder.glob("*.parquet")]
    return {path.name: path.read_bytes() for path in files if path.name != "host.parquet"}


def planned(*work: int, pace: str | None = None) -> list[Planned]:
    """Jobs of so much work, all different."""
    return [Planned(f"{n:032x}", amount, "requests", pace) for n, amount in enumerate(work)]


def loads(jobs: list[Planned], parts: int) -> list[int]:
    """Work of each part."""
    dealt = deal(jobs, parts)
    every = sorted(number for part in dealt for number in part)
    assert every == list(range(len(jobs))), "each job is in one part"
    assert max(map(len, dealt)) <= -(-len(jobs) // parts)
    return [sum(jobs[n].work for n in part) for part in dealt]


@pytest.mark.parametrize(("count", "parts"), [(400, 200), (401, 200), (10, 3), (3, 10), (1, 1)])
def test_jobs_of_one_pace_reach_every_part(count: int, parts: int):
    work = loads(planned(*[5] * count, pace="one"), parts)
    assert sum(map(bool, work)) == min(count, parts)


def test_parts_have_equal_work_within_a_tenth():
    # Loads of a sweep: each ten times the one before.
    work = [10 ** (n % 3) * (100 + n % 7) for n in range(6000)]
    found = loads(planned(*work), 40)
    assert max(found) <= 1.1 * sum(work) / 40


def test_neighbours_in_pace_stay_in_one_part():
    jobs = [Planned(f"{n:032x}", 7, "requests", f"pace {n % 4}") for n in range(64)]
    for part in deal(jobs, 4):
        assert len({jobs[n].pace for n in part}) == 1


def test_jobs_of_unknown_work_count_as_the_usual_one():
    assert max(map(len, deal(planned(0, 0, 9, 9, 0, 9), 3))) == 2


def test_lost_parts_are_named_and_missing_ones_are_run(study: Path, tmp_path: Path, halfwink):
    for part in (1, 3):
        studies.run_part(str(study), (part, 4), out=tmp_path / "out")
    with pytest.raises(RunError, match=r"; parts 2/4, 4/4 have not run to the end: "):
        studies.collected(str(study), out=tmp_path / "out")
    done = halfwink("run", str(study), "-o", "out", "--part", "missing")
    assert done.status == 0, done.err
    assert f"{RUNS} results" in done.err
    assert studies.collected(str(study), out=tmp_path / "out").results.runs.height == RUNS


def test_a_plan_counts_and_plays_nothing(study: Path, tmp_path: Path, halfwink):
    words = ("run", str(study), "-o", "out", "--plan", "--part", "1/4")
    found = halfwink(*words, "--json").json()["facts"]
    assert not (tmp_path / "out").exists()
    assert (found["jobs"], found["results"], found["there"]) == (RUNS, RUNS, 0)
    assert (found["parts"], found["most_results"]) == (4, RUNS // 4)
    assert (found["work"], found["unit"], found["is_measured"]) == (RUNS * 3000, "requests", False)
    studies.run_part(str(study), (1, 4), out=tmp_path / "out")
    after = halfwink(*words, "--json").json()["facts"]
    assert (after["there"], after["is_measured"]) == (RUNS // 4, True)
    assert 0 < after["least_hours"] <= after["most_hours"]
    said = halfwink(*words)
    assert "in 4 parts: 6 results at most" in said.out
    assert "at the rates of what is kept" in said.out


def test_a_baseline_is_played_once_for_values_that_it_does_not_read(tmp_path: Path):
    path = tmp_path / "swept.toml"
    path.write_text(
        """
schema = 1
title = "swept"
workloads = ["gcc"]
machines = ["ev6-1"]
techniques = ["always-on", "tap"]
instructions = 20000
[sweep]
"gating.wake_up_ns" = [2, 4, 8, 16]
"""
    )
    found = plan_study(str(path))
    assert (found.jobs, found.results) == (8, 5)
    runs = studies.run(str(path), out=tmp_path / "out").results.runs
    baseline = runs.filter(technique="always-on")
    assert baseline["energy_j"].n_unique() == 1
    assert baseline["set"].to_list() == [f"gating.wake_up_ns={n}" for n in (2, 4, 8, 16)]
    # A wrong value is an error all the same.
    path.write_text(path.read_text().replace("[2, 4,", "[-2, 4,").replace(', "tap"', ""))
    with pytest.raises(HalfwinkError, match="gating"):
        plan_study(str(path))


def test_many_results_are_packed_and_read_from_packs(tmp_path: Path):
    jobs = [
        hw.Job("toy", "exponential@30", "machine", "always-on", options={"requests": 9, "seed": n})
        for n in range(1, 2 * LEAST)
    ]
    for folder, some in (("all", jobs), ("two", jobs[:LEAST]), ("two", jobs[LEAST - 1 :])):
        run_jobs(some, RunStore(tmp_path / folder))
    assert not list((tmp_path / "all").glob("*.json"))
    # Fewer than are packed stay files of their own.
    assert len(list((tmp_path / "two").glob("*.json"))) == LEAST - 1
    keys = [job.key for job in plan(jobs)]
    assert RunStore(tmp_path / "two").present(keys) == set(keys)
    one, two = (list(RunStore(tmp_path / folder).loaded(keys)) for folder in ("all", "two"))
    assert one == two


def test_a_damaged_line_of_a_pack_is_computed_again(tmp_path: Path, caplog):
    jobs = [
        hw.Job("toy", "exponential@30", "machine", "always-on", options={"requests": 9, "seed": n})
        for n in range(1, LEAST + 1)
    ]
    run_jobs(jobs, RunStore(tmp_path))
    (pack,) = tmp_path.glob("pack-*.jsonl")
    whole = pack.read_bytes()
    pack.write_bytes(whole[:200] + b"~" + whole[201:])
    key = whole.split(b" ", 1)[0].decode()
    planned = run_jobs(jobs, RunStore(tmp_path))
    assert f"{key}.json: is not what was written; computed again" in caplog.text
    assert [path.stem for path in tmp_path.glob("*.json")] == [key]
    assert len(list(RunStore(tmp_path).loaded(job.key for job in planned))) == LEAST


def test_parts_that_were_killed_end_with_the_bytes_of_an_undisturbed_run(
    study: Path, tmp_path: Path
):
    studies.run(str(study), out=tmp_path / "whole")
    words = [sys.executable, "-m", "halfwink", "run", str(study), "-q", "-o", "parts", "--part"]

    def start(part: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*words, f"{part}/3"], cwd=tmp_path)

    runs = tmp_path / "parts/runs"
    killed = [start(part) for part in (1, 2, 3)]
    while all(process.poll() is None for process in killed) and not list(runs.glob("*.json")):
        pass
    for process in killed:
        process.send_signal(signal.SIGKILL)
        process.wait()
    # What was cut off is run again; two at once may run the same part.
    again = [start(part) for part in (1, 2, 3, 3)]
    assert [process.wait() for process in again] == [0, 0, 0, 0]
    done = studies.collected(str(study), out=tmp_path / "parts")
    # A killed writer leaves a file of its own, never a result.
    assert kept(tmp_path / "parts") == kept(tmp_path / "whole")
    assert hw.open(tmp_path / "parts").runs.to_dicts() == done.results.runs.to_dicts()
    assert done.results.runs.height == RUNS


def test_every_run_is_in_one_part(study: Path, tmp_path: Path):
    counts = [
        studies.run_part(str(study), (part, 5), out=tmp_path / f"out{part}") for part in range(1, 6)
    ]
    assert sum(counts) == RUNS
    names = [path.name for path in tmp_path.glob("out*/runs/*.json")]
    assert len(names) == len(set(names)) == RUNS
    # A part that is there is not run again.
    assert studies.run_part(str(study), (2, 5), out=tmp_path / "out2") == counts[1]


def test_what_is_missing_is_counted_and_nothing_is_run(study: Path, tmp_path: Path, halfwink):
    first = studies.run_part(str(study), (1, 2), out=tmp_path / "out")
    with pytest.raises(RunError, match=rf"{RUNS - first} of {RUNS} runs are not there, first "):
        studies.collected(str(study), out=tmp_path / "out")
    done = halfwink("run", str(study), "-o", "out", "--collect")
    assert done.status == 1
    assert "runs are not there" in done.complaint
    said = halfwink("run", str(study), "-o", "out", "--part", "2/2")
    assert said.status == 0
    assert "--collect" in said.err
    done = halfwink("run", str(study), "-o", "out", "--collect")
    assert done.status == 0, done.err
    assert (tmp_path / "out/report.html").exists()


def test_there_are_no_other_parts(study: Path, tmp_path: Path, halfwink):
    for parts in (0, -1):
        with pytest.raises(HalfwinkError, match=f"{parts} parts: expected 1 or more"):
            hw.plan_study(str(study), parts=parts)
    for part in ((0, 3), (4, 3)):
        with pytest.raises(HalfwinkError, match="expected 1/"):
            studies.run_part(str(study), part, out=tmp_path / "out")
    for words in ("3", "a/b", "-1/3", "1/2/3"):
        done = halfwink("run", str(study), f"--part={words}")
        assert done.status == 2
        assert "as 3/200" in done.complaint
    for more in ((), ("--plan",)):
        # Each part is dealt in memory.
        done = halfwink("run", str(study), "--part=3/9999999999", *more)
        assert done.status == 2
        assert "at most 1,000,000 parts" in done.complaint

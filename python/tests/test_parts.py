"""Studies in parts: arrays of jobs that share a folder, and are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import halfwink as hw
from halfwink import studies
from halfwink.errors import HalfwinkError, RunError

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
    for part in ((0, 3), (4, 3), (1, 0)):
        with pytest.raises(HalfwinkError, match="expected 1/"):
            studies.run_part(str(study), part, out=tmp_path / "out")
    for words in ("3", "a/b", "-1/3", "1/2/3"):
        done = halfwink("run", str(study), f"--part={words}")
        assert done.status == 2
        assert "as 3/200" in done.complaint

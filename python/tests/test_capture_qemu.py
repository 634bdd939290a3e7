"""Captures for real: boots the guest under QEMU."""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import need_capture

from halfwink.capture import Result, build, capture, paths

pytestmark = pytest.mark.qemu

SLICE = 2_000_000
SOURCES = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    """Skips, with the line that adds it, where something is missing that cannot be installed."""
    need_capture()


def record(workload: str, out: Path, instructions: int = SLICE) -> Result:
    return capture(
        workload,
        None,
        out,
        instructions=instructions,
        seed=3,
        time_limit_s=600,
        rootfs=None,
        progress=lambda _: None,
    )


def checked(trace: Path) -> dict[str, Any]:
    """What `halfwink-capture-check` finds in the file alone."""
    program = build.tools().plugin.with_name("halfwink-capture-check")
    return json.loads(subprocess.run([program, trace], capture_output=True, check=True).stdout)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.full("captures")
@pytest.mark.parametrize("workload", ["gzip", "nginx", "nginx-10pct"])
def test_two_captures_are_identical_and_sound(tmp_path: Path, workload: str) -> None:
    first, second = tmp_path / "1.hwt", tmp_path / "2.hwt"
    result = record(workload, first)
    record(workload, second)
    assert digest(first) == digest(second)

    server = workload.startswith("nginx")
    assert SLICE * 0.9 < result.instructions <= SLICE * 1.01
    assert 0 < result.kernel_share < 1
    assert (result.requests > 0) == server
    assert result.unexplained == 0
    assert result.details["clock"]["worst_ns"] <= 64
    assert (result.idle_ns > 0) == (workload == "nginx-10pct") or workload == "nginx"

    found = checked(first)
    assert found["runs"] > 0
    assert found["unexplained"] == 0
    assert found["direct_map_wrong"] == 0
    assert found["kernel_text_wrong"] == 0
    assert found["idle_gap_worst_ns"] <= 64
    assert found["requests_ended_before_begun"] == 0
    # instructions + idle = time, on the recorded CPU
    busy = result.instructions + result.details["repeats"]
    assert abs(result.virtual_ns - result.idle_ns - busy) <= 1000


@pytest.mark.full("captures")
def test_a_program_of_ones_own(tmp_path: Path) -> None:
    result = capture(
        None,
        ["gzip", "--version"],
        tmp_path / "own.hwt",
        instructions=None,
        seed=1,
        time_limit_s=600,
        rootfs=None,
        progress=lambda _: None,
    )
    assert result.details["reason"] == "marker"
    assert result.instructions > 100_000


def test_a_script_that_fails_is_recorded_and_says_so(tmp_path: Path) -> None:
    script, given = tmp_path / "script", tmp_path / "given"
    script.write_text('#!/bin/sh\ncat "$1"\necho "cannot: $2" >&2\nexit 3\n')
    script.chmod(0o755)
    given.write_text("from here\n")
    out = tmp_path / "t.hwt"
    words = [sys.executable, "-m", "halfwink", "capture", "--json", "-o", str(out)]
    words += ["--", str(script), str(given), "it's"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1, done.stderr
    assert "script ended with status 3; the recording is kept; it said:" in done.stderr
    assert "from here\n" in done.stderr
    assert done.stderr.rstrip().endswith("cannot: it's")
    found = json.loads(done.stdout)
    assert (found["exit_status"], found["details"]["reason"]) == (3, "marker")
    assert found["instructions"] > 100_000
    assert checked(out)["unexplained"] == 0


@pytest.mark.full("captures")
def test_a_script_whose_interpreter_the_guest_lacks_fails_loudly(tmp_path: Path) -> None:
    script, out = tmp_path / "script", tmp_path / "t.hwt"
    script.write_text("#!/usr/bin/ocaml\n")
    script.chmod(0o755)
    words = [sys.executable, "-m", "halfwink", "capture", "-q", "-o", str(out), "--", str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1
    assert "needs /usr/bin/ocaml, which the guest lacks: add its --package" in done.stderr
    assert not out.exists()


@pytest.mark.full("captures")
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "t.hwt"
    # Of a run that was killed; what other runs hold now stays.
    left_over = paths.cache() / "capture-left-over"
    left_over.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "halfwink.capture", "gzip", "-o", str(out)],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("record"):
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(timeout=120) == 1
    assert "interrupted; nothing was kept" in rest
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []
    assert not [path for path in paths.cache().glob("capture-*") if not _is_held(path)]


def _is_held(folder: Path) -> bool:
    """Whether a capture that runs beside this test holds a folder, or has removed it meanwhile."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False

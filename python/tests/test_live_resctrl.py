"""``halfwink live resctrl`` on small trees: plan, apply, show, restore; what is refused."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Halfwink

FIXTURES = Path(__file__).parents[2] / "crates/resctrl/tests/fixtures"


def held(root: Path) -> dict[str, bytes | None]:
    """Every file of a tree with its bytes, every folder with none."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in sorted(root.rglob("*"))
    }


@pytest.fixture(params=["intel", "amd", "arm"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(FIXTURES / request.param, tmp_path / request.param)
    return tmp_path / request.param


def plan(halfwink: Halfwink, tree: Path, *more: str) -> Path:
    out = tree.parent / "plan.json"
    args = ["live", "resctrl", "plan", "apache", "--root", str(tree), "-o", str(out)]
    done = halfwink(*args, "--kernel-ways", "3", *more)
    assert done.status == 0, done.err
    assert all(len(line) <= 80 for line in done.out.splitlines())
    return out


def test_a_plan_is_applied_shown_and_taken_back(halfwink: Halfwink, tree: Path) -> None:
    before = held(tree)
    more = ["--class", "web=2", "--tasks", "web=101,202", "--class", "cache=1", "--cpus", "cache=1"]
    made = plan(halfwink, tree, *more)
    assert json.loads(made.read_text())["schema"] == "halfwink.resctrl.plan/1"
    at = ["--root", str(tree)]
    done = halfwink("live", "resctrl", "apply", str(made), *at, "--proc", str(FIXTURES / "proc"))
    assert done.status == 0, done.err
    assert (tree / "halfwink-kernel" / "schemata").exists()
    shown = halfwink("live", "resctrl", "show", *at)
    assert "halfwink-kernel" in shown.out
    assert all(len(line) <= 80 for line in shown.out.splitlines()), shown.out
    told = halfwink("live", "resctrl", "show", *at, "--json")
    assert told.rows("groups")[0]["name"] == ""
    assert told.json()["facts"]["applied"]
    assert (tree / "web" / "tasks").read_text() == "101\n202\n"
    assert halfwink("live", "resctrl", "restore", *at).status == 0
    assert held(tree) == before
    again = halfwink("live", "resctrl", "restore", *at)
    assert again.status == 0
    assert "nothing to restore" in again.err


def test_a_recording_says_how_many_ways(halfwink: Halfwink, tmp_path: Path) -> None:
    tree = tmp_path / "amd"
    shutil.copytree(FIXTURES / "amd", tree)
    words = ["live", "resctrl", "plan", "nginx", "--root", str(tree)]
    # Everything fits: nothing to gain.
    left = halfwink(*words, "--size", "2MB", "--json").json()
    assert left["leave_it"]
    assert left["classes"] == []
    # Nothing fits.
    done = halfwink(*words, "--size", "128KB", "--json")
    made = done.json()
    latency = made["advice"]["expected"]["latency"]
    assert latency["low_pct"] < latency["mean_pct"] < latency["high_pct"] < 0
    kernel = next(c for c in made["classes"] if c["role"] == "kernel")
    assert kernel["ways"] == made["advice"]["kernel_ways"] > made["ways"] / 2
    shown = halfwink(*words, "--size", "128KB").out
    assert "misses per 1000 instructions" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    for size in ("2", "0MB", "1XB", "64KB"):
        wrong = halfwink(*words, "--size", size)
        assert wrong.status == (0 if size == "64KB" else 2), size
    both = halfwink(*words, "--size", "2MB", "--kernel-ways", "3")
    assert "expected one" in both.complaint


def test_sigkill_while_applying_is_mended(halfwink: Halfwink, tree: Path) -> None:
    before = held(tree)
    made = plan(halfwink, tree)
    at = ["--root", str(tree)]
    journal = tree.with_name(f"{tree.name}.halfwink-resctrl.json")
    command = [sys.executable, "-m", "halfwink", "live", "resctrl", "apply", str(made), *at]
    child = subprocess.Popen([*command, "--proc", str(FIXTURES / "proc")])
    while not journal.exists() and child.poll() is None:
        time.sleep(0.0001)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert halfwink("live", "resctrl", "restore", *at).status == 0
    assert held(tree) == before


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], "--kernel-ways: expected how many of the"),
        (["--kernel-ways", "0"], "expected at least 1 of"),
        (["--kernel-ways", "16"], "expected at most"),
        (["--kernel-ways", "-1"], "expected a whole number"),
        (["--kernel-ways", "2", "--cache", "l4"], "--cache l4: expected one of l2, l3"),
        (["--kernel-ways", "2", "--route", "up"], "--route up: expected one of both"),
        (["--kernel-ways", "2", "--class", "web"], "expected NAME=WAYS"),
        (["--kernel-ways", "2", "--tasks", "web=1"], "expected --class web=WAYS too"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    halfwink: Halfwink, tree: Path, args: list[str], expected: str
) -> None:
    before = held(tree)
    done = halfwink("live", "resctrl", "plan", "apache", "--root", str(tree), *args)
    assert done.status == 2
    assert expected in done.err
    assert done.complaint
    assert held(tree) == before


def test_what_somebody_else_changed_needs_force(halfwink: Halfwink, tree: Path) -> None:
    before = held(tree)
    at = ["--root", str(tree)]
    made = plan(halfwink, tree)
    proc = ["--proc", str(FIXTURES / "proc")]
    assert halfwink("live", "resctrl", "apply", str(made), *at, *proc).status == 0
    schemata = tree / "halfwink-kernel" / "schemata"
    lines = schemata.read_text().splitlines()
    last = lines[-1]
    edited = last[: last.index("=") + 1] + "1;" + last.partition(";")[2]
    # The divided cache's own line: the last one of all small trees.
    schemata.write_text("\n".join([*lines[:-1], edited]) + "\n")
    refused = halfwink("live", "resctrl", "restore", *at)
    assert refused.status == 2
    assert "somebody changed it; --force" in refused.err
    assert halfwink("live", "resctrl", "restore", *at, "--force").status == 0
    assert held(tree) == before


def test_no_tree_and_no_workload_are_one_line(halfwink: Halfwink, tmp_path: Path) -> None:
    for args in (
        ["show", "--root", str(tmp_path)],
        ["plan", "no-such-workload", "--root", str(FIXTURES / "amd"), "--kernel-ways", "2"],
        ["apply", str(tmp_path / "none.json"), "--root", str(FIXTURES / "amd")],
    ):
        done = halfwink("live", "resctrl", *args)
        assert done.status == 2
        assert done.complaint

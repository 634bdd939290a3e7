"""Notebooks of docs/notebooks: each runs to its end on the public API, and shows what it says."""

from __future__ import annotations

import ast
import importlib.util
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import need

import halfwink as hw

FOLDER = Path(__file__).parents[2] / "docs/notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.py"))
#: Beside halfwink, whose parts are asked for by its own name.
MAY_IMPORT = {"altair", "json", "marimo", "pathlib", "tempfile"}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_uses_the_public_api(name: str):
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert node.value.id != "hw" or node.attr in hw.__all__, node.attr
    own = {name for name in found if name.partition(".")[0] == "halfwink"}
    assert "halfwink" in own
    assert found - own <= MAY_IMPORT


def played(name: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[str], Any]:
    """What a notebook's cells show, as HTML or text, and what they define."""
    need("marimo")
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outputs, defined = module.app.run()
    shown = [getattr(one, "_repr_html_", one.__repr__)() for one in outputs if one is not None]
    return shown, defined


def test_the_first_minute(monkeypatch: pytest.MonkeyPatch):
    shown, defined = played("first_minute", monkeypatch)
    results, states = defined["results"], defined["states"]
    assert any(results.verdict().sentences[0].split(":")[0] in text for text in shown)
    assert set(results.runs["technique"]) == set(states["technique"])
    # The ledger of the one core that works lasts as long as the run.
    for technique, length in results.runs.select("technique", "duration_s").rows():
        told = states.filter(technique=technique)["time_s"].sum()
        assert told == pytest.approx(length, rel=1e-6)


def test_a_sweep_and_its_front(monkeypatch: pytest.MonkeyPatch):
    shown, defined = played("pareto_front", monkeypatch)
    points, front = defined["points"], defined["front"]
    assert points.height == defined["design"].height > front.height > 1
    assert any(f"{points.height} runs were asked for" in text for text in shown)
    pairs = points.select("latency_mean_us", "energy_j_per_unit").rows()
    for delay, energy in front.select("latency_mean_us", "energy_j_per_unit").rows():
        assert math.isfinite(delay + energy)
        better = [
            (d, e) for d, e in pairs if d <= delay and e <= energy and (d, e) != (delay, energy)
        ]
        assert better == []


def test_your_own_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mine = tmp_path / "mine.hwt"
    shutil.copy(FOLDER.parents[1] / "workloads/memcached.hwt", mine)
    _, defined = played("own_trace", monkeypatch, "--trace", str(mine))
    assert set(defined["results"].runs["workload"]) == {str(mine)}
    slower = [defined["saved"][wake_up_ns]["slowdown_pct"] for wake_up_ns in (5, 50, 500)]
    assert slower == sorted(slower)
    assert slower[0] < slower[-1]


def test_python_alone_runs_one(tmp_path: Path):
    need("marimo")
    home = {"HOME": str(tmp_path), "HALFWINK_HOME": str(FOLDER.parents[1])}
    done = subprocess.run(
        [sys.executable, FOLDER / "own_trace.py"],
        cwd=tmp_path,
        env=os.environ | home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_learned_policy_is_judged_on_what_it_has_not_seen(monkeypatch: pytest.MonkeyPatch):
    shown, defined = played("learned_gate", monkeypatch)
    runs = {name: results.runs for name, results in defined["found"].items()}
    tuned = defined["tuned"]
    assert tuned.keeps
    saved = dict(runs["mcf"].select("technique", "energy_saving_pct").iter_rows())
    # It was chosen for what it saves here, and is told nothing that TAP is told.
    assert saved[tuned.technique] >= saved["always-on"]
    assert saved["tap"] > saved[tuned.technique]
    assert "Held out, lemon" in shown[-1]

"""What the power of a core goes into, beside what was published."""

from __future__ import annotations

import tomllib

import polars as pl
import pytest

import halfwink as hw
from halfwink.library import library, root

TARGET = "strong/BG-7/ev6"


def share(settings: dict[str, float]) -> float:
    """The target's own query, over shorter runs of the programs of its study."""
    target = next(t for t in library().targets() if t["id"] == TARGET)
    study = tomllib.loads((root() / "studies/power.toml").read_text())
    runs = hw.compare(
        study["workloads"],
        techniques=["always-on"],
        machine="ev6-1",
        instructions=100_000,
        set=settings,
    ).runs
    return pl.SQLContext(runs=runs, eager=True).execute(target["compute"]["sql"]).item()


def test_the_published_share_of_leakage_fails_when_dynamic_energy_is_tripled():
    core = tomllib.loads((root() / "machines/ev6.toml").read_text())["power"]["core"]
    tripled = {f"power.core.event_pj.{key}": 3 * pj for key, pj in core["event_pj"].items()}
    tripled |= {f"power.core.{key}": 3 * core[key] for key in ("clock_w", "stalled_clock_w")}
    mcpats = {"power.core.leakage_w": 1.66}
    shares = [share(mcpats), share(mcpats | tripled), share({})]
    verdicts = library().verdicts([(TARGET, value) for value in shares])
    assert verdicts[1:] == ["fails", "fails"], shares
    assert verdicts[0] in ("holds", "insensitive"), shares


def test_the_share_is_below_the_published_one_for_the_leakage_that_the_thesis_prints():
    ours, with_mcpats = share({}), share({"power.core.leakage_w": 1.66})
    assert ours < 36
    assert 36 < with_mcpats < 46


def test_what_clock_gating_saves_is_told_apart():
    compared = hw.compare(
        "chase",
        techniques=["always-on", "clock-gate", "tap"],
        machine="ev6-1",
        instructions=100_000,
    )
    rows = {row["technique"]: row for row in compared.runs.iter_rows(named=True)}
    gate, tap = rows["clock-gate"], rows["tap"]
    assert gate["slowdown_pct"] == 0
    assert gate["wakes"] == 0
    assert gate["core_energy_saving_pct"] > 0
    assert gate["core_clock_saving_pct"] == pytest.approx(gate["core_energy_saving_pct"])
    # Nobody who gates can save more of the clock than one who stops it in every stall.
    assert 0 < tap["core_clock_saving_pct"] < gate["core_clock_saving_pct"]
    assert tap["core_energy_saving_pct"] > tap["core_clock_saving_pct"]
    for row in rows.values():
        parts = ("leakage", "clock", "wake_up")
        known = sum(row[f"working_core_{part}_j"] for part in parts)
        assert 0 < known < row["working_core_energy_j"]

"""A real hybrid server beside the simulated one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from halfwink.bed.prediction import experiment, predict
from halfwink.bed.steer_day import steer_day
from halfwink.errors import HalfwinkError
from halfwink.library import root

SHIPPED = root() / "workloads/prototype"
#: Of the work: milliseconds, where a real experiment takes tens of them.
QUICK = {"small": 15.0, "big": 5.0}


def test_the_recorded_prototype_is_predicted_again(tmp_path: Path):
    found = predict(SHIPPED)
    assert found.rows.height == 12
    assert found.rows["failed"].sum() == 0
    assert sorted(found.errors["threshold"]) == [4, 8, 12]
    # Three times the time per byte, but for what the CPU adds.
    assert 2 < found.beta_ms["small"][3] / found.beta_ms["big"][3] < 4
    assert all(0.9 < gamma < 1.1 for gamma in found.gamma.values())
    # The comparison can fail: delays twice as long are not predicted.
    shutil.copytree(SHIPPED, tmp_path / "slow")
    summary = json.loads((tmp_path / "slow/prototype.json").read_text())
    for rows in summary["pools"].values():
        for row in rows:
            row[3] *= 2
    (tmp_path / "slow/prototype.json").write_text(json.dumps(summary))
    wrong = predict(tmp_path / "slow")
    worse = pl.col("mean_error_pct").mean()
    assert wrong.errors.select(worse).item() > 50 > found.errors.select(worse).item()


def test_an_experiment_on_this_machine(tmp_path: Path):
    found = experiment(
        tmp_path, thresholds=(4,), loads=(30,), requests=150, files=40, repeat=5, slow=QUICK
    )
    (row,) = found.rows.iter_rows(named=True)
    assert row["failed"] == 0
    assert row["requests"] == 150
    assert row["measured_mean_ms"] > 0
    assert row["simulated_mean_ms"] > 0
    # What was measured is kept, and simulated again.
    again = predict(tmp_path)
    assert again.rows.equals(found.rows)


def test_a_day_whose_big_pool_is_stopped_loses_nothing(tmp_path: Path):
    day = steer_day(
        tmp_path, seconds=4.0, peak_pct=60.0, files=40, slow=QUICK, requests=150, arrivals="poisson"
    )
    assert day.replayed
    assert day.live["failed"] == 0
    assert day.live["requests"] > 100
    assert day.live["wakes"] >= 1
    assert day.live["big_asleep_pct"] > 0
    assert day.live["requests"] == day.simulated["requests"]
    assert 0 < day.live["modelled_w"] < day.live["modelled_always_on_w"]
    assert day.slots.height >= 20


def test_wrong_use_is_one_line(tmp_path: Path):
    with pytest.raises(HalfwinkError, match=r"prototype\.json"):
        predict(tmp_path)
    for words in (
        ["predict", "x", "--thresholds", "four"],
        ["predict", "x", "--loads", "0,200"],
        ["predict", str(tmp_path / "none"), "--again"],
        ["steer-day", "x", "--policy", "nope"],
        ["steer-day", "x", "--seconds", "0"],
        ["steer-day", "x", "--peak-pct", "100"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "halfwink", "live", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 2, words
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        if said := {"--loads": "found 0, expected", "--policy": "`nope`"}.get(words[2]):
            assert said in done.stderr
    # All of it was refused before anything was measured.
    assert not (tmp_path / "x").exists()

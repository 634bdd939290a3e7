"""``halfwink preheat simulate``: requests of a recorded service, warm, cold and preheated."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import halfwink as hw
from halfwink.errors import HalfwinkError
from halfwink.models.preheat import simulate


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "halfwink", "preheat", "simulate", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_preheated_lies_between_warm_and_cold() -> None:
    found = simulate("nginx", requests=4, training=4)
    mean = dict(found.modes.select("mode", "response_mean_us").iter_rows())
    assert mean["warm"] < mean["preheated"] < mean["cold"]
    assert mean["engine"] < mean["wake-only"] <= mean["cold"]
    assert (found.training["evicted"] == 0).all()
    assert (found.training["dumped"] - found.training["touched"]).is_between(0, 1).all()
    assert set(found.requests["request"]) == {4, 5, 6, 7}


def test_the_table_fits_and_json_says_the_same() -> None:
    shown = _run("nginx", "--requests", "2", "--training", "2")
    assert shown.returncode == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    told = json.loads(_run("nginx", "--requests", "2", "--training", "2", "--json").stdout)
    assert [row["mode"] for row in told["tables"]["modes"]["rows"]][:2] == ["warm", "cold"]


def test_wrong_use_is_one_line() -> None:
    for words in (["gcc"], ["nginx", "--sleep-us", "5"], ["nginx", "--requests", "0"]):
        wrong = _run(*words)
        assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1), words
    with pytest.raises(HalfwinkError, match="expected 1 or more"):
        simulate("nginx", training=0)


def test_of_an_experiment_only_the_tables_that_are_named_are_played() -> None:
    found = hw.experiment("preheat/odroid-xu3", only=["preheat_steps", "preheat_facts"])
    assert list(found) == ["preheat_steps", "preheat_facts"]
    assert found["preheat_steps"]["step"].n_unique() > 3
    with pytest.raises(HalfwinkError, match="unknown table `preheat_step`"):
        hw.experiment("preheat/odroid-xu3", only=["preheat_step"])

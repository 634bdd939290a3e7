"""Idle states by name, governors over all of them, and what is said of runs that are too short."""

from __future__ import annotations

import polars as pl
import pytest

import halfwink as hw
from halfwink.results import idle_periods


class Fake:
    def __init__(self, rows: list[dict[str, object]]) -> None:
        self.runs = pl.DataFrame(rows)


def test_a_governor_with_few_idle_periods_is_warned_of_once_a_workload():
    rows = [
        {"workload": "a", "technique": "menu", "halts": 114},
        {"workload": "a", "technique": "teo:tick_us=400+package-sleep", "halts": 98},
        {"workload": "a", "technique": "c6a", "halts": 98},
        {"workload": "b", "technique": "menu", "halts": 1000},
        {"workload": "c", "technique": "menu", "halts": 0},
    ]
    (line,) = idle_periods.warnings(Fake(rows))  # type: ignore[arg-type]
    assert line.startswith("a: 98 idle periods: menu, teo choose by past ones")
    assert idle_periods.warnings(Fake([{"workload": "a"}])) == []  # type: ignore[arg-type]


WORDS = ("compare", "nginx-10pct", "-m", "golden-cove-4", "-i", "200000", "-q")


def test_a_state_is_set_by_its_name_and_a_wrong_name_meets_its_neighbour(halfwink):
    set_ = ("--set", "idle_states.c6.exit_us=170", "--set", "idle_states.c6.wake_us=[90,170]")
    done = halfwink(*WORDS, "-t", "menu,teo,ladder,c6a", *set_)
    assert done.status == 0, done.err
    assert "idle periods: " in done.err
    wrong = halfwink(*WORDS, "-t", "menu", "--set", "idle_states.c7.exit_us=170")
    assert wrong.status != 0
    assert "no `c7` in idle_states; did you mean `c" in wrong.err


@pytest.mark.parametrize("machine", ["golden-cove-4", "zen4", "neoverse-v2-4"])
def test_machines_of_today_say_that_their_watts_are_assumed(machine: str):
    runs = hw.compare("nginx", machine=machine, techniques=["menu"], instructions=20_000).runs
    assert set(runs["power_basis"]) == {"assumed"}
    assert (runs["power_low"] < 1).all()
    assert (runs["power_high"] > 1).all()


def test_published_machines_say_that_their_watts_are_published():
    runs = hw.compare("nginx", machine="ev6-4", techniques=["tap"], instructions=20_000).runs
    assert set(runs["power_basis"]) == {"published"}

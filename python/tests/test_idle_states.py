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


def test_a_table_of_the_kernel_plays_as_its_values_do_in_every_world_that_has_states(halfwink):
    worlds = (
        ("nginx", "golden-cove-4", {}, 20_000),
        ("exponential@30", None, {"requests": 2000}, None),
    )
    for workload, machine, sizes, short in worlds:
        world = "chip" if machine else "node"
        runs = [
            hw.compare(
                workload,
                machine=machine,
                world=world,
                techniques=["menu", "c1"] if world == "node" else ["menu", "always-on"],
                set=sizes | values,
                instructions=short,
            ).runs.select("technique", "energy_j", "latency_mean_us")
            for values in (
                {"intel_idle.table": "C6:150:50000"},
                {"idle_states.c6.exit_us": 150, "idle_states.c6.residency_us": 50000},
                {},
            )
        ]
        assert runs[0].equals(runs[1])
        # A governor that is told of a longer residency enters C6 less often.
        assert world == "chip" or not runs[0].equals(runs[2])
    wrong = halfwink(*WORDS, "-t", "menu", "--set", "intel_idle.table=C7:1:1")
    assert wrong.status != 0
    assert "no `c7` in idle_states; did you mean `c" in wrong.err
    unread = halfwink(*WORDS, "-t", "menu", "--set", "intel_idle.table=C6:1")
    assert unread.status == 2
    assert "`C6:1`: expected NAME:EXIT_US:RESIDENCY_US" in unread.err


STUDY = """
schema = 1
world = "node"
title = "What a governor is told of C6"
workloads = ["exponential@30%"]
machines = ["golden-cove-56"]
techniques = ["menu"]
options = { requests = 2000 }

[sweep]
"intel_idle.table" = ["C1:1:1,C6::50000", "C6::800"]
"""


def test_a_study_sweeps_tables_of_the_kernel(tmp_path):
    (tmp_path / "told.toml").write_text(STUDY)
    runs = hw.run(str(tmp_path / "told.toml")).results.runs
    told = dict(runs.select("set", "latency_mean_us").iter_rows())
    (usual,) = hw.compare(
        "exponential@30%", machine="golden-cove-56", techniques=["menu"], set={"requests": 2000}
    ).runs["latency_mean_us"]
    # 800 us is what the shipped table has.
    assert told["intel_idle.table=C6::800"] == usual
    # Nothing waits for a core to leave a state that the governor is told to leave out.
    assert told["intel_idle.table=C1:1:1,C6::50000"] < usual / 1.5


@pytest.mark.parametrize("machine", ["golden-cove-4", "zen4", "neoverse-v2-4"])
def test_machines_of_today_say_that_their_watts_are_assumed(machine: str):
    runs = hw.compare("nginx", machine=machine, techniques=["menu"], instructions=20_000).runs
    assert set(runs["power_basis"]) == {"assumed"}
    assert (runs["power_low"] < 1).all()
    assert (runs["power_high"] > 1).all()


def test_published_machines_say_that_their_watts_are_published():
    runs = hw.compare("nginx", machine="ev6-4", techniques=["tap"], instructions=20_000).runs
    assert set(runs["power_basis"]) == {"published"}

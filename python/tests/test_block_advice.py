"""Where completions should run: from topologies and times, made up and measured."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from conftest import Halfwink

from halfwink.live import block_advice
from halfwink.live.block_advice import Advice, Load
from halfwink.live.block_loads import simulate


def machine(*groups: list[int], line_ns: float = 60.0) -> dict[str, Any]:
    """A machine with these last-level caches, as it would be measured."""
    cpus = [{"cpu": c, "package": 0, "cache": g[0]} for g in groups for c in g]
    trips = [{"from": g[0], "to": g[1], "same_cache": True, "line_ns": line_ns} for g in groups]
    trips += [
        {"from": a[0], "to": b[0], "same_cache": False, "line_ns": 4 * line_ns}
        for a, b in itertools.combinations(groups, 2)
    ]
    wake = {"call_us": 2.0, "until_us": 5.0, "sleeper_us": 3.0}
    return {"machine": {"cpus": cpus}, "trips": trips, "wake": wake}


def _nothing(measured: Any, load: Load) -> dict[str, float]:
    return {}


def advise(measured: dict[str, Any], load: Load, simulate: Any = _nothing) -> Advice:
    return block_advice.advise(measured, load, simulate)


def test_queues_stay_in_one_cache_while_it_carries_them() -> None:
    two = machine([0, 1, 2, 3], [4, 5, 6, 7])
    few = advise(two, Load(iops=100_000, io_us=10))
    assert (few.cpus, few.queues, few.rq_affinity) == ([0, 1], 2, 1)
    many = advise(two, Load(iops=400_000, io_us=10))
    assert many.cpus == [0, 1, 2, 3, 4, 5]
    assert many.rq_affinity == 2
    # More than there is: all of it, and it says so.
    most = advise(two, Load(iops=4_000_000, io_us=10))
    assert most.queues == 8
    assert any("expect less" in why for why in most.why)


def test_it_polls_where_the_next_io_comes_before_it_would_be_awake() -> None:
    two = machine([0, 1])
    assert advise(two, Load(iops=400_000, io_us=1)).poll
    assert not advise(two, Load(iops=10_000, io_us=1)).poll
    alone = machine([0, 1]) | {"wake": None}
    assert not advise(alone, Load(iops=400_000, io_us=1)).poll


def test_the_simulated_stack_says_what_to_expect() -> None:
    load = Load(iops=50_000, io_us=10)
    near = advise(machine([0, 1, 2, 3]), load, simulate).expected
    # It keeps up, at the CPU time of each I/O and what a second phase adds.
    assert 49_000 < near["iops_low"] <= near["iops"] <= near["iops_high"] < 51_000
    assert 0.5 < near["cpus"] < 1.0
    # Lines that take longer cost CPU time, and a load above the machine is not kept up with.
    far = advise(machine([0, 1], [2, 3], line_ns=2000), load, simulate).expected
    assert far["cpus"] > near["cpus"]
    assert advise(machine([0, 1]), Load(iops=1e6, io_us=10), simulate).expected["iops"] < 300_000


def test_advice_from_the_command_line(tmp_path: Path, halfwink: Halfwink) -> None:
    done = halfwink("live", "block", "--advise", "--iops", "50000", "--json")
    assert done.status == 0, done.err
    facts = done.json()["facts"]
    cpus = [cpu["cpu"] for cpu in facts["machine"]["cpus"]]
    assert set(facts["advice"]["cpus"]) <= set(cpus)
    if len(cpus) > 1:
        assert done.rows("trips")[0]["line_ns"] > 0
        assert facts["wake"]["until_us"] > 0
    assert facts["advice"]["expected"]["uj_per_io"] > 0
    assert {line[0] for line in facts["advice"]["lines"]} >= {"ublk", "SPDK", "rq_affinity"}
    (tmp_path / "none").write_text("{}")
    done = halfwink("live", "block", "--advise", "--report", "none")
    assert done.status == 2
    assert "expected what halfwink live block -o writes" in done.complaint
    assert halfwink("live", "block", "--iops", "1").status == 2

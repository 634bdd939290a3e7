"""Kernel code on other cores, through the command line and the Python API."""

from __future__ import annotations

from pathlib import Path

import pytest

import halfwink as hw
from halfwink.results.placement import kernel_calls, placements

MACHINE = "ev6-1"
SMALL = 400_000


@pytest.fixture(scope="module")
def results():
    techniques = ["os-profile", "os-always", "os-offload", "os-static"]
    return hw.compare("nginx", techniques=techniques, machine=MACHINE, instructions=SMALL)


def test_watching_changes_nothing(results):
    rows = {row["technique"]: row for row in results.runs.to_dicts()}
    for column in ("duration_s", "energy_j", "latency_mean_us", "instructions"):
        assert rows["os-profile"][column] == rows["always-on"][column]
    assert rows["always-on"]["kernel_invocations"] == 0
    assert rows["os-profile"]["kernel_invocations"] > 50


def test_every_kernel_entry_is_counted_once_wherever_it_runs(results):
    rows = {row["technique"]: row for row in results.runs.to_dicts()}
    entries = {rows[t]["kernel_invocations"] for t in ("os-profile", "os-always", "os-offload")}
    assert len(entries) == 1
    assert rows["os-always"]["moved_invocations"] == rows["os-always"]["kernel_invocations"]
    assert 0 < rows["os-static"]["moved_invocations"] < rows["os-static"]["kernel_invocations"]
    instructions = results.calls.group_by("technique").agg(total="instructions").to_dicts()
    sums = {row["technique"]: sum(row["total"]) for row in instructions}
    assert sums["os-profile"] == sums["os-always"] == sums["os-offload"]


def test_the_kernel_is_slower_on_a_small_core(results):
    table = placements(results)
    rows = {row["technique"]: row for row in table.to_dicts()}
    assert rows["os-profile"]["os_core_ns"] is None
    assert rows["os-always"]["own_core_ns"] is None
    assert rows["os-always"]["os_core_ns"] > rows["os-profile"]["own_core_ns"]
    # Away is longer than running there: the way there is part of it.
    assert rows["os-always"]["away_pct"] > rows["os-always"]["os_core_time_pct"]
    calls = kernel_calls(results)
    assert {"writev", "openat"} <= set(calls["name"])
    slowdown = calls.filter(name="openat")["slowdown"].item()
    assert 1 < slowdown < 10


def test_moving_for_nothing_on_equal_cores_costs_only_the_caches():
    settings = {"os.like": "ev6", "os.power_down": False}
    runs = {}
    for cycles in ("0", "4000"):
        done = hw.compare(
            "nginx",
            techniques=["os-always"],
            machine=MACHINE,
            instructions=SMALL,
            set={**settings, "os.switch_cycles": cycles},
        )
        runs[cycles] = done.runs.filter(technique="os-always").row(0, named=True)
    switches = 2 * runs["4000"]["moved_invocations"]
    longer = runs["4000"]["run_s"] - runs["0"]["run_s"]
    # Two cores of 3.3 GHz share the 4000 cycles of each switch, one after the other.
    assert longer == pytest.approx(switches * 4000 / 3.3e9, rel=0.05)


def test_the_command_line_shows_where_the_kernel_ran(halfwink, tmp_path: Path):
    words = ("compare", "nginx", "-n", str(SMALL), "-m", MACHINE, "-t", "os-profile,os-always")
    done = halfwink(*words, "-o", "out")
    assert done.status == 0, done.err
    assert "OS core ns/1000 instr" in done.out
    assert "sendfile" in done.out
    report = (tmp_path / "out" / "report.html").read_text()
    assert "Where kernel code runs" in report
    told = halfwink(*words, "--json")
    off, _, always = told.rows("runs")
    assert always["technique"] == "os-always"
    assert always["moved_invocations"] == always["kernel_invocations"] > 0
    own = {
        table: [row for row in told.rows(table) if row["technique"] == "os-always"]
        for table in ("calls", "ledger")
    }
    assert {row["place"] for row in own["calls"]} == {"os-core"}
    assert {row["component"] for row in own["ledger"]} == {"core0", "os0", "l3", "memory"}
    assert not off["kernel_invocations"]


def test_wrong_use_is_one_line(halfwink):
    words = ("compare", "nginx", "-n", "1000", "-t", "os-always")
    for setting, complaint in (
        ("os.cores=0", "technique `os-always` needs OS cores"),
        ("os.like=in-ordr", "unknown machine `in-ordr`; did you mean `in-order`?"),
        ("os_core.l1d.size=3KB", "an impossible cache"),
        ("os.switch_cycles=99999999", "a switch of 0 to 1000000 cycles"),
    ):
        done = halfwink(*words, "--set", setting)
        assert done.status == 2
        assert complaint in done.complaint


def test_a_trace_tells_of_its_kernel(halfwink):
    from halfwink.library import root

    trace = root() / "workloads" / "nginx.hwt"
    shown = halfwink("trace", "info", str(trace), "--kernel").out
    assert "kernel invocations" in shown
    assert "evictions in invocations of" in shown


def test_threads_may_take_turns_and_use_the_core_that_another_left():
    settings = {"os.time_slice_us": 200, "os.like": "ev6", "os.switch_cycles": 100}
    done = hw.compare(
        "nginx*2",
        techniques=["os-always"],
        machine=MACHINE,
        instructions=SMALL,
        set=settings,
    )
    shared, helped = done.runs.to_dicts()
    assert shared["working_cores"] == helped["working_cores"] == 1
    assert (shared["os_cores"], helped["os_cores"]) == (0, 1)
    assert helped["run_s"] < shared["run_s"]

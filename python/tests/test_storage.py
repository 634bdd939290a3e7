"""Block I/Os: `halfwink storage simulate`, a view over `compare -w storage`, and from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink.cli.storage import around_sockets
from halfwink.live.block_advice import Load
from halfwink.live.block_loads import as_measured

#: Short, but past the first looks of the cache-aware policy; no messages.
SHORT = ("--set", "ios=20000", "--set", "warm_up=20000", "-q")
#: The technique with one look each millisecond.
OFTEN = "cache-aware:period_ms=1"


def document(halfwink: Halfwink, *words: str) -> dict[str, Any]:
    done = halfwink("storage", "simulate", *words, "--json")
    assert done.status == 0, done.err
    found: dict[str, Any] = done.json()
    return found


def rates(found: dict[str, Any]) -> dict[tuple[str, int], float]:
    """I/Os a second by technique and number of issuing CPUs."""
    runs = found["tables"]["runs"]["rows"]
    return {(run["technique"], run["issuers"]): run["iops"] for run in runs}


def test_the_saw_tooth_is_in_tables_and_words(halfwink: Halfwink) -> None:
    words = ("-t", f"single-thread,issuer,{OFTEN}", "--load", "1,5,10..12,20,21", *SHORT)
    found = document(halfwink, *words)
    at = rates(found)
    assert at["issuer", 1] < at["issuer", 5] < at["issuer", 10]
    assert at["issuer", 11] < 0.93 * at["issuer", 10]
    assert at["issuer", 11] < at["issuer", 20] < at["issuer", 10]
    assert at["issuer", 21] < 0.97 * at["issuer", 20]
    assert at["single-thread", 10] < 130_000
    assert at[OFTEN, 20] > at["issuer", 20]
    # Each number as the runs have it, wherever it stands.
    for peak in found["tables"]["peaks"]["rows"]:
        own = {n: iops for (technique, n), iops in at.items() if technique == peak["technique"]}
        assert (peak["issuers"], peak["iops"]) == max(own.items(), key=lambda item: item[1])
    steps = {
        step["socket_full_at"]: step["change_pct"]
        for step in found["tables"]["steps"]["rows"]
        if step["technique"] == "issuer"
    }
    assert list(steps) == [10, 20]
    assert steps[10] == pytest.approx(100 * (at["issuer", 11] / at["issuer", 10] - 1))
    naive = next(line for line in found["verdict"] if line.startswith("issuer does at most"))
    assert "with 10 CPUs issuing" in naive
    assert f"further socket issues: 11 ({steps[10]:+.0f} %)" in naive
    single = next(line for line in found["verdict"] if line.startswith("single-thread does"))
    assert "does not drop" in single


def test_a_view_shows_the_runs_of_compare(halfwink: Halfwink, tmp_path: Path) -> None:
    same = ("-t", "issuer", *SHORT, "-o", "same")
    shown = document(halfwink, "random-read@2", "random-read@3", *same)
    again = halfwink("compare", "-w", "storage", "--load", "2..3", *same, "--json").json()
    for told in (again, shown):
        del told["tables"]["host"]
    assert again == shown
    kept = hw.open(tmp_path / "same")
    assert kept.runs["workload"].to_list() == ["random-read@2", "random-read@3"]
    assert kept.peaks["issuers"].to_list() == [3]
    assert kept.runs["energy_j_per_unit"].min() > 0
    # The first socket is not full: nothing is known of its end.
    assert not kept.has("steps")


def test_loads_are_those_around_full_sockets() -> None:
    assert around_sockets("westmere-ep", None) == ",".join(map(str, range(1, 13)))
    assert around_sockets("nehalem-ex", None) == "1,2,3,8,9,11,16,17,19,24,25,27,32"
    assert around_sockets("westmere-ep", ["topology.cores_per_socket=2"]) == "1,2,3,4"


def test_a_report_has_the_chart_and_a_terminal_the_columns(
    halfwink: Halfwink, tmp_path: Path
) -> None:
    words = ("storage", "simulate", "-m", "westmere-ep", "-t", "same", *SHORT, "-o", "out")
    done = halfwink(*words)
    assert done.status == 0
    assert "same does at most" in done.out
    assert all(heading in done.out for heading in ("I/Os/s", "CPU us/I/O", "spinning %"))
    assert hw.open(tmp_path / "out").runs["issuers"].to_list() == list(range(1, 13))
    assert "CPUs that issue" in (tmp_path / "out/report.html").read_text()
    assert "change %" in halfwink(*words, "--table", "steps").out


def test_a_cpu_that_issues_first_moves_the_end_of_its_socket() -> None:
    runs = hw.compare(
        "random-read",
        world="storage",
        machine="westmere-ep",
        techniques="issuer",
        loads=["3", "4", "5"],
        set={"first_cpu": 2, "ios": 2_000, "warm_up": 0},
    )
    assert runs.runs["socket_full_at"].to_list() == [4, 4, 10]
    assert runs.steps["socket_full_at"].to_list() == [4]


def test_the_request_queue_is_what_drops() -> None:
    runs = hw.compare(
        "random-read",
        world="storage",
        machine="nehalem-ex",
        techniques="issuer",
        loads=["8", "9", "32"],
        set={"through": "queue", "ios": 20_000, "warm_up": 20_000},
    ).runs
    last, further, all_of_them = runs["iops"].to_list()
    assert further < 0.5 * last
    assert all_of_them == pytest.approx(125_000, rel=0.2)  # Nellans 2014, Sec 6.1.3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-m", "westmere-e"), "did you mean `westmere-ep`"),
        (("westmere-ex",), "unknown workload `westmere-ex`; it is a machine: write `-m"),
        (("-t", "cache-awar"), "did you mean `cache-aware`"),
        (("-t", "cache-aware:period=1"), "period"),
        (("--load", "0"), "expected `random-read@CPUS`"),
        (("--load", "81"), "westmere-ex has 80"),
        (("--load", "a..b"), "expected `random-read@CPUS`"),
        (("--load", "9..1"), "--load 9..1: expected FROM..TO"),
        (("--load", "1..1000000000"), "at most 10000 numbers"),
        (("--load", "30%"), "workload `random-read@30%`: expected `random-read@CPUS`"),
        (("random-read@3", "--load", "5"), "`random-read@3` has a load already"),
        (("--set", "depth=0"), "depth: `0`, expected"),
        (("--set", "rate_kiops=-1"), "rate_kiops"),
        (("--set", "through=pipe"), "through: `pipe`, expected driver"),
        (("--set", "coherence.one_hop_ns=1"), "coherence.one_hop_ns: found 1"),
        (("--policy", "issuer"), "unknown option `--policy`; write `--technique` now"),
        (("--issuers", "1..20"), "write `--load 1..20` now"),
        (("--through=queue",), "write `--set through=NAME` now"),
        (("--rate", "5"), "write `--set rate_kiops=K`"),
        (("--plot", "a.html"), "a.html: expected a name that ends in .pdf, .svg, .png"),
    ],
)
def test_mistakes_are_one_line(halfwink: Halfwink, words: tuple[str, ...], said: str) -> None:
    wrong = halfwink("storage", "simulate", *words)
    assert wrong.status == 2
    assert said in wrong.complaint


def test_a_seed_repeats_and_polling_costs_watts() -> None:
    def play() -> hw.Results:
        values = {"rate_kiops": 20, "ios": 5000, "warm_up": 5000}
        techniques = ["msi-x", "polled"]
        return hw.compare(
            "random-read@2",
            world="storage",
            machine="westmere-ep",
            techniques=techniques,
            set=values,
        )

    found, again = play(), play()
    assert found.runs.equals(again.runs)
    watts = dict(found.runs.select("technique", "power_w").iter_rows())
    assert watts["polled"] > watts["msi-x"] + 10  # two CPUs that never sleep
    assert not found.has("peaks")


def test_a_second_worker_pays_only_on_a_cpu_that_nobody_has() -> None:
    """What the page says of one and two workers beside the live device."""
    trips = [{"same_cache": True, "line_ns": 328.0}]
    cpus = [{"package": 0, "cache": 0}, {"package": 0, "cache": 0}]
    measured = {"machine": {"cpus": cpus}, "trips": trips}
    values = as_measured(measured, Load(io_us=3.5))
    # Who is given an I/O finds it in a line.
    assert values["driver.ipi_receive_us"] == pytest.approx(0.164)

    def gain(first: int) -> float:
        runs = hw.compare(
            "random-read@1",
            techniques=["single-thread", "round-robin-socket"],
            machine="westmere-ex",
            world="storage",
            set={**values, "first_cpu": first, "ios": 20_000, "warm_up": 5_000},
        ).runs
        alone, two = runs["iops"].to_list()
        return float(two / alone)

    assert gain(first=0) > 1.1
    assert gain(first=1) < 0.8


@pytest.mark.full("block")
@pytest.mark.parametrize(
    ("changed", "aware_k", "naive_k"),
    [
        ({}, 521, 476),
        ({"driver.spinning_is_use": False}, 441, 476),
        ({"driver.map.lines": 12}, 648, 670),
        ({"driver.batch": 4}, 696, 716),
    ],
)
def test_the_cache_aware_driver_with_one_thing_changed(
    changed: dict[str, float], aware_k: float, naive_k: float
) -> None:
    """Rows of the page's table; what takes time from the lock helps the naive driver more."""
    found = hw.compare(
        "random-read",
        world="storage",
        techniques=["cache-aware", "issuer"],
        loads=["10", "17", "19", "20"],
        set=changed,
    )
    peaks = {row["technique"]: row["iops"] / 1e3 for row in found.peaks.iter_rows(named=True)}
    assert peaks == pytest.approx({"cache-aware": aware_k, "issuer": naive_k}, abs=0.6)

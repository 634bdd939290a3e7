"""Block I/Os: policies of completion through the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import halfwink as hw
from halfwink.block_advice import Load
from halfwink.cli.main import _run  # pyright: ignore[reportPrivateUsage]
from halfwink.storage import as_measured

#: Small, but past the first looks of the cache-aware policy.
_SHORT = ["--ios", "20000"]


def test_the_saw_tooth_is_printed_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--policy", "single,issuer,cache-aware:period_ms=1", "--issuers", "1,5,10..12,20,21"]
    assert _run(["storage", "simulate", "westmere-ex", *asked, *_SHORT, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    at = {(run["policy"], run["issuers"]): run["iops"] for run in found["runs"]}
    assert at["issuer", 1] < at["issuer", 5] < at["issuer", 10]
    assert at["issuer", 11] < 0.93 * at["issuer", 10]
    assert at["issuer", 11] < at["issuer", 20] < at["issuer", 10]
    assert at["issuer", 21] < 0.97 * at["issuer", 20]
    assert at["single-thread", 10] < 130_000
    assert at["cache-aware:period_ms=1", 20] > at["issuer", 20]
    assert found["socket_full_at"] == [10, 20]
    naive = next(line for line in found["answer"] if line.startswith("issuer"))
    assert "with 10 CPUs issuing" in naive
    assert "drops where one CPU of a further socket issues: 11 (-" in naive


def test_a_page_holds_what_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chart = tmp_path / "saw-tooth.html"
    words = ["storage", "simulate", "westmere-ep", "--policy", "single,same", "--plot", str(chart)]
    assert _run([*words, "--ios", "2000"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "single-thread: at most" in printed
    assert "CPUs that issue" in chart.read_text()


def test_the_request_queue_is_what_drops(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["storage", "simulate", "nehalem-ex", "--policy", "issuer", "--through", "queue"]
    assert _run([*words, "--issuers", "8,9,32", *_SHORT, "--json"]) == 0
    at = {run["issuers"]: run["iops"] for run in json.loads(capsys.readouterr().out)["runs"]}
    assert at[9] < 0.5 * at[8]
    assert at[32] == pytest.approx(125_000, rel=0.2)  # Nellans 2014, Sec 6.1.3


def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in [
        (["westmere-e"], "did you mean `westmere-ep`"),
        (["--policy", "cache-awar"], "did you mean `cache-aware`"),
        (["--policy", "cache-aware:period=1"], "period"),
        (["--issuers", "0"], "expected 1 or more"),
        (["--issuers", "81"], "westmere-ex has 80"),
        (["--issuers", "a..b"], "expected numbers"),
        (["--depth", "0"], "expected 1 or more"),
        (["--through", "pipe"], "unknown path `pipe`"),
        (["--set", "coherence.one_hop_ns=1"], "coherence.one_hop_ns: found 1"),
    ]:
        assert _run(["storage", "simulate", *words]) == 2, words
        complaint = capsys.readouterr().err
        assert expected in complaint
        assert complaint.count("\n") == 1, complaint


def test_a_lone_name_and_a_lone_number_are_one():
    runs = hw.storage_runs("nehalem-ex", policies="cache-aware", issuers=3, ios=2000).runs
    assert runs.select("policy", "issuers").rows() == [("cache-aware", 3)]


def test_from_python_a_seed_repeats_and_polling_costs_watts() -> None:
    def play() -> hw.StorageRuns:
        policies = ["msi-x", "polled"]
        return hw.storage_runs("westmere-ep", policies=policies, issuers=[2], ios=5000, rate=20e3)

    found, again = play(), play()
    assert found.runs.equals(again.runs)
    watts = dict(found.runs.select("policy", "power_w").iter_rows())
    assert watts["polled"] > watts["msi-x"] + 10  # two CPUs that never sleep
    assert found.peaks().height == 2
    with pytest.raises(hw.HalfwinkError, match="rate"):
        hw.storage_runs("westmere-ep", rate=-1.0)


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
    runs = hw.storage_runs(
        "westmere-ex", policies=["cache-aware", "issuer"], issuers=[10, 17, 19, 20], set=changed
    ).runs
    peaks = {
        policy: max(runs.filter(policy=policy)["iops"].to_list()) / 1e3
        for policy in ("cache-aware", "issuer")
    }
    assert peaks == pytest.approx({"cache-aware": aware_k, "issuer": naive_k}, abs=0.6)

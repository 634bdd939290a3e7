"""The hybrid server: the command, the API, the targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink

import halfwink as hw

QUICK = ("--set", "requests=20000")
WORLD_CUP = "counts:workloads/worldcup98-1998-06-30.csv"


def runs(halfwink: Halfwink, *words: str) -> dict[str, dict[str, Any]]:
    """The runs of a command by technique and load."""
    done = halfwink("hybrid", *words, "--json")
    assert done.status == 0, done.err
    found = done.rows("runs")
    return {f"{r['technique']} {r['workload'].partition('@')[2]}": r for r in found}


def test_the_command_is_a_view_over_compare(halfwink: Halfwink, tmp_path: Path) -> None:
    words = ("-t", "always-on,hybrid", "--load", "10,90", *QUICK, "-q")
    here = ("-o", str(tmp_path / "here"))
    shown = halfwink("hybrid", *words, *here)
    assert shown.status == 0, shown.err
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "here/runs").iterdir()}
    compared = ("compare", "count", "-w", "server", "-m", "niccolini", *words)
    assert halfwink(*compared, *here).out.splitlines()[0] == shown.out.splitlines()[0]
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "here/runs").iterdir()}
    columns = ("all saved %", "p50 us", "p99 us", "power W", "keeps up", "refused %", "lost %")
    for heading in (*columns, "big share", "big asleep %", "wakes/s"):
        assert heading in shown.out
    assert "all energies and times are modelled" in shown.out
    assert (tmp_path / "here/report.html").exists()
    both = [halfwink(*line, "--json") for line in (("hybrid", *words), compared)]
    first, second = (json.loads(done.out) for done in both)
    for document in (first, second):
        del document["tables"]["host"]
    assert first == second


def test_it_saves_where_little_comes_and_not_where_much_does(halfwink: Halfwink) -> None:
    found = runs(halfwink, "-t", "always-on,hybrid", "--load", "10,90", *QUICK)
    on, on_full = found["always-on 10"], found["always-on 90"]
    hybrid = found["hybrid 10"]
    assert hybrid["power_w"] < 0.5 * on["power_w"]
    assert hybrid["latency_p99_us"] < 1.02 * on["latency_p99_us"]
    assert abs(found["hybrid 90"]["energy_saving_pct"]) < 1
    # A worker that is busy is paid for by a request: power is idle power and that.
    assert on["power_w"] > 172.1
    assert on_full["power_w"] < 340.4


def test_power_rises_with_the_wake_up_time() -> None:
    def power(wake_ms: float) -> float:
        values = {"big.wake_ms": wake_ms, "requests": 20_000}
        found = hw.compare("count@20", world="server", techniques="hybrid", set=values)
        return float(found.runs.filter(technique="hybrid")["power_w"][0])

    assert power(0) < power(5) < power(50)


def test_a_threshold_of_zero_leaves_all_to_the_big_machine() -> None:
    found = hw.compare(
        "count@30",
        world="server",
        techniques=["hybrid:threshold=0", "power-nap"],
        set={"small.sleep_share": 1.0, "requests": 20_000},
    ).runs
    hybrid, nap = (
        found.filter(technique=name).row(0, named=True)
        for name in ("hybrid:threshold=0", "power-nap")
    )
    assert hybrid["big_share"] == 1
    for column in ("latency_mean_us", "latency_p99_us", "big_asleep_pct"):
        assert hybrid[column] == nap[column]
    # A small machine that draws as much asleep as idle makes their watts the same.
    assert hybrid["power_w"] == pytest.approx(nap["power_w"], rel=1e-3)


def test_accuracy_is_reached_and_halves_stay_below_it(halfwink: Halfwink) -> None:
    def known(*words: str) -> dict[str, dict[str, Any]]:
        return runs(halfwink, "-t", "hybrid", *words)

    for run in known("count@30", "--set", "accuracy=0.03").values():
        assert run["known"] == "yes"
        for name in ("power_{}w", "latency_mean_{}us", "latency_p99_{}us"):
            low, high = run[name.format("low_")], run[name.format("high_")]
            assert 0 < (high - low) / 2 <= 0.03 * run[name.format("")]
    few = known("count@30", "--set", "accuracy=0.001", "--set", "requests=5000")
    assert [run["known"] for run in few.values()] == ["no", "no"]
    # A fleet has no intervals: nothing is claimed of it. Without requests nothing is to be known.
    fleet = ("--set", "servers=2", "--set", "accuracy=0.05", "--set", "requests=5000")
    told = known("--load", "0,30", *fleet)
    assert [told[f"hybrid {load}"]["known"] for load in (0, 30)] == [None, "no"]
    assert known("count@30", *QUICK)["hybrid 30"]["known"] is None


def test_proportionality_is_that_of_the_curve(halfwink: Halfwink) -> None:
    words = ("hybrid", "-t", "always-on,hybrid", "--load", "0,20,50,80", *QUICK)
    on, hybrid = halfwink(*words, "--json").rows("proportionality")
    assert (on["workload"], on["technique"]) == ("count", "always-on")
    assert hybrid["dynamic_range_pct"] > on["dynamic_range_pct"]
    assert hybrid["proportionality_gap"] < on["proportionality_gap"]
    shown = halfwink(*words, "--table", "proportionality").out.splitlines()
    assert "dynamic range %" in shown[0]
    assert len(shown) == 1 + 2 + 1


def test_a_line_has_the_closed_form_of_a_line() -> None:
    # The big machine alone, each request as long whatever else is in service: a straight line.
    found = hw.compare(
        "count",
        world="server",
        techniques="always-big",
        loads=["0", "20", "40", "60"],
        set={"workloads.count.big.beta_ms": [0.11], "requests": 100_000},
    )
    points = found.runs.filter(technique="always-big").sort("load_pct")
    idle, peak = points["power_w"][0], points["power_w"][-1]
    curve = found.proportionality.filter(technique="always-big").row(0, named=True)
    assert curve["dynamic_range_pct"] == pytest.approx(100 * (1 - idle / peak))
    assert abs(curve["linear_deviation"]) < 0.01
    # Ryckbosch 2011: one less the area between curve and ideal, over that below the ideal.
    assert curve["energy_proportionality"] == pytest.approx(1 - idle / peak, abs=0.01)


def test_files_are_written(halfwink: Halfwink, tmp_path: Path) -> None:
    words = ("-t", "hybrid", "--load", "0,10,30", "--set", "slot_s=20", "-o", "kept")
    done = halfwink("hybrid", *words, *QUICK)
    assert done.status == 0
    assert "report: kept/report.html" in done.err
    kept = hw.open(tmp_path / "kept")
    assert kept.runs.height == 6
    assert kept.slots.height > 6
    assert kept.proportionality.height == 2
    assert "vega" in (tmp_path / "kept/report.html").read_text()


def test_a_fleet_draws_as_many_servers_do(halfwink: Halfwink) -> None:
    def power(*words: str) -> float:
        own = ("count@20", "-t", "hybrid", "--set", "requests=50000")
        return float(runs(halfwink, *own, *words)["hybrid 20"]["power_w"])

    spread = power("--set", "servers=10")
    assert spread == pytest.approx(10 * power(), rel=0.05)
    assert power("--set", "servers=10", "--set", "dispatch=pack:6") != spread


def test_recorded_days_are_played_in_spans(halfwink: Halfwink) -> None:
    load = f"{WORLD_CUP}@30"
    words = ("-t", "always-on,hybrid", "--load", load, "--set", "slot_s=10", *QUICK)
    found = halfwink("hybrid", *words, "--json").rows("slots")
    for technique in ("always-on", "hybrid"):
        slots = [slot for slot in found if slot["technique"] == technique]
        starts = [slot["start_s"] for slot in slots]
        assert len(starts) > 5
        assert starts == sorted(starts)
        assert all(0 <= slot["big_asleep_pct"] <= 100 for slot in slots)
    gaps = "gaps:workloads/server/csedns.arrival.cdf@30"
    run = runs(halfwink, "-t", "hybrid", "--load", gaps, *QUICK)[f"hybrid {gaps}"]
    assert run["load_pct"] == pytest.approx(30)


def test_logs_are_read_and_bad_lines_said(halfwink: Halfwink, tmp_path: Path) -> None:
    line = '127.0.0.1 - - [10/Oct/2000:13:55:{:02} -0700] "GET / HTTP/1.0" 200 20000'
    lines = [line.format(second) for second in range(60)]
    (tmp_path / "a.log").write_text("\n".join([*lines[:9], "nonsense", *lines[9:]]) + "\n")
    rows = ["0.0,20000", "0.5,many", *(f"{half / 2},20000" for half in range(2, 120))]
    (tmp_path / "a.csv").write_text("\n".join(["time,bytes", *rows]) + "\n")
    for load, bad, where in (("log:a.log", 1, "line 10"), ("log:a.csv", 1, "line 3")):
        done = halfwink("hybrid", "-t", "hybrid", "--load", load, "--json")
        run = done.rows("runs")[1]
        assert run["bad_lines"] == bad
        # As many bytes each, and never two at a time: 1.5 ms and 0.2295 ms for each kilobyte.
        assert run["latency_p99_us"] == pytest.approx(1500 + 20 * 229.5, rel=0.01)
        told = done.err
        assert told.count(f"{load}: read as ") == 1
        assert f"; left out: bad lines ({where}: " in told
    (tmp_path / "b.log").write_text("nonsense\n" * 2000)
    wrong = halfwink("hybrid", "--load", "log:b.log")
    assert wrong.status == 2
    assert "b.log" in wrong.complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-t", "hybird"), "unknown technique `hybird`; did you mean `hybrid`?"),
        (("cuont",), "unknown workload `cuont`; did you mean `count`?"),
        (("--load", "many"), "unknown load `many`; expected per cent"),
        (("count@10", "--load", "20"), "`count@10` has a load already: leave out --load"),
        (
            ("--set", "servers=2", "--set", "dispatch=randm"),
            "unknown dispatch `randm`; expected random",
        ),
        (("-m", "nicolini"), "unknown hybrid server `nicolini`; did you mean `niccolini`?"),
        (("niccolini",), "unknown workload `niccolini`; it is a machine: write `-m niccolini`"),
        (("--set", "big.wake=3"), "unknown key `wake` in big; did you mean `wake_ms`?"),
        (("--set", "big.wake_ms=-1"), "big.wake_ms: -1, expected 0 to 10000000"),
        (("--load", "log:none.log"), "none.log: No such file"),
        (("--set", "accuracy=0.9"), "accuracy"),
        (("--policy", "hybrid"), "unknown option `--policy`; write `--technique` now"),
        (("--workload=dns",), "write the workload itself, as `count@30` now"),
        (("--accuracy", "1"), "write `--set accuracy=SHARE` (0.01 is one per cent) now"),
        (("--slot-s=60",), "write `--set slot_s=SECONDS --table slots` now"),
        (("--proportionality",), "write `--table proportionality` now"),
        (("--ignore", "bad-lines"), "write `--load log:ignore=bad-lines:FILE` now"),
        (("--servers", "2"), "write `--set servers=N` now"),
    ],
)
def test_mistakes_are_one_line(halfwink: Halfwink, words: tuple[str, ...], said: str) -> None:
    wrong = halfwink("hybrid", *words)
    assert wrong.status == 2
    assert said in wrong.complaint


def test_lists_know_hybrid_servers_and_their_techniques(halfwink: Halfwink) -> None:
    listed = halfwink("list", "machines", "--json").rows("machines")
    machines = {m["name"]: m for m in listed}
    assert machines["niccolini"]["world"] == "server"
    techniques = halfwink("list", "techniques", "--json").rows("techniques")
    steering = [f"{t['name']} 20" for t in techniques if t["family"] == "steering"]
    shown = runs(halfwink, "count@20", "--set", "requests=2000")
    assert sorted(shown) == sorted(steering)


@pytest.mark.full("long")
def test_every_target_has_a_verdict(halfwink: Halfwink) -> None:
    rows = halfwink("reproduce", "niccolini/A", "--json").rows("targets")
    assert len(rows) == 74
    # compare with a prototype that was measured.
    measured = ("niccolini/A-16", "niccolini/A-17/")
    # Beside hardware nobody has there may be nothing of ours that has its unit.
    computed = [r for r in rows if r["class"] != "hardware"]
    not_yet = [r["id"] for r in computed if r["verdict"] == "not-yet"]
    assert not [name for name in not_yet if not name.startswith(measured)]
    assert not [r["id"] for r in rows if r["verdict"] == "fails"]
    assert not [r["id"] for r in rows if r["held_out"] and r["verdict"] == "calibrated"]
    assert all(r["note"] for r in rows if r["verdict"] in ("miss", "undetermined"))


def test_a_set_of_machines_is_compared_logged_and_replayed(
    halfwink: Halfwink, tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    words = ("-m", "six", "--load", "10", *QUICK, "-o", str(tmp_path / "out"), "-q")
    done = halfwink("hybrid", *words, "--json")
    assert done.status == 0, done.err
    found = {r["technique"]: r for r in done.rows("runs")}
    # What decides for a pair is left out.
    assert list(found) == ["always-on", "split", "progressive"]
    assert found["progressive"]["power_w"] < 0.5 * found["always-on"]["power_w"]
    assert found["always-on"]["wakes_per_s"] == 0
    ledger = {r["component"] for r in done.rows("ledger")}
    assert ledger == {"small-1", "small-2", "small-3", "small-4", "big-1", "big-2"}
    assert halfwink("hybrid", *words, "-t", "progressive", "--log", str(log)).status == 0
    told = hw.replay(tmp_path / "run-progressive.log")
    assert told.is_equal
    assert '"place":5' in (tmp_path / "run-progressive.log").read_text()
    refused = halfwink("hybrid", *words, "-t", "hybrid")
    assert refused.status == 2
    assert "found a set of 6 machines, expected a pair for `hybrid`" in refused.err

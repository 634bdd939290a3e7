"""The software router: the command, the API, the targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Halfwink

import halfwink as hw


def test_power_save_saves_and_reorders_nothing_when_told_to(
    halfwink: Halfwink,
) -> None:
    found = halfwink("router", "--profile", "5,40,80,40,5", "--set", "order=all", "--json")
    runs = {run["technique"]: run for run in found.rows("runs")}
    assert runs["power-save"]["power_w"] < runs["napi"]["power_w"] < runs["polling"]["power_w"]
    assert runs["power-save-in-order"]["reordered"] == 0
    assert [s["second"] for s in found.rows("slots") if s["technique"] == "napi"] == [*range(5)]
    for run in runs.values():
        assert run["reordered_overall"] >= run["reordered"]
        assert run["latency_p50_us"] <= run["latency_p99_us"] <= run["latency_max_us"]


def test_the_command_is_a_view_over_compare(halfwink: Halfwink, tmp_path: Path) -> None:
    words = ("-t", "polling,power-save", "--set", "evaluation.point_ms=1", "-q")
    here = ("-o", str(tmp_path / "here"))
    shown = halfwink("router", "ipv4", "--profile", "5,50", *words, *here)
    assert shown.status == 0, shown.err
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "here/runs").iterdir()}
    compared = ("compare", "ipv4@5,50", "-w", "router", "-m", "westmere", *words)
    assert halfwink(*compared, *here).out.splitlines()[0] == shown.out.splitlines()[0]
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "here/runs").iterdir()}
    for heading in ("p50 us", "max us", "cores", "reordered", "changes", "lost %", "all saved %"):
        assert heading in shown.out
    assert (tmp_path / "here/report.html").exists()
    both = [halfwink(*line, "--json") for line in (("router", *compared[1:2], *words), compared)]
    first, second = (json.loads(done.out) for done in both)
    for document in (first, second):
        del document["tables"]["host"]
    assert first == second


def test_points_of_a_profile_are_a_table(halfwink: Halfwink, tmp_path: Path) -> None:
    words = ("ipv4@5,50", "-t", "polling", "--points", "-q", "-o", str(tmp_path / "out"))
    shown = halfwink("router", *words).out.splitlines()
    slots = hw.open(tmp_path / "out").slots
    assert slots["load"].to_list() == [0.05, 0.5]
    headings = " ".join(slots.drop("set").columns).replace("_", " ")
    assert shown[0].split() == headings.split()
    assert len(shown) == 1 + slots.height + 1
    there = ("ipv4@5,50", "-w", "router", "-t", "polling", "-q", "-o", str(tmp_path / "out"))
    assert halfwink("compare", *there, "--table", "slots").out.splitlines() == shown
    assert (
        "no table `slot`; there are: run,"
        in halfwink("compare", *there, "--table", "slot").complaint
    )


def test_mistakes_are_one_line(halfwink: Halfwink) -> None:
    told = {
        ("-m", "westmeer"): "did you mean `westmere`",
        ("-t", "nap"): "did you mean `napi`",
        ("-t", "polling,metronom"): "unknown technique `metronom`; did you mean `metronome`?",
        ("--profile", "x"): "expected `evaluation` or loads",
        ("--set", "nic.ring=1000"): "expected a power of two",
        ("ipv4@5", "--profile", "20"): "`ipv4@5` has a load already: leave out the profile",
        ("westmere",): "unknown application `westmere`; it is a machine: write `-m westmere`",
        ("--policy", "napi"): "unknown option `--policy`; write `--technique` now",
        ("--app", "ipsec"): "unknown option `--app`; write the workload itself, as `ipsec@30` now",
        ("--seed=3",): "unknown option `--seed`; write `--set seed=N` now",
    }
    for words, said in told.items():
        wrong = halfwink("router", *words)
        assert wrong.status == 2, words
        assert said in wrong.complaint, words


def test_rates_in_packets_per_second(halfwink: Halfwink, tmp_path: Path) -> None:
    def offered(*arguments: str) -> list[int]:
        short = ("-m", "linux", "-t", "napi", "--set", "evaluation.point_ms=50")
        run = halfwink("router", *short, *arguments, "--json").rows("runs")[0]
        return [run["offered"], run["lost"]]

    def near(count: int, expected: float) -> bool:
        return abs(count / expected - 1) < 0.05

    rates = tmp_path / "rates.txt"
    rates.write_text("100000 # calm\n\n300000\n")
    assert near(offered("--pps", "100000")[0], 5_000)
    assert near(offered("--profile-pps", str(rates))[0], 20_000)
    assert near(offered("--profile", "step:100kpps,0.3Mpps")[0], 20_000)
    assert near(offered("ipv4@ramp:100kpps,300kpps,50")[0], 30_000)
    # A packet costs a microsecond of one of two cores.
    assert offered("--pps", "3000000")[1] > 0
    # Range exports of monitoring systems are rates, too.
    rates.write_text("Time,Value\n1740996000000,100000\n1740996015000,300000\n")
    assert near(offered("--profile-pps", str(rates))[0], 20_000)
    rates.write_text(
        '{"data":{"resultType":"matrix","result":[{"values":[[1,"100000"],[2,"300000"]]}]}}'
    )
    assert near(offered("--profile-pps", str(rates))[0], 20_000)
    rates.write_text("Time,Value\n1740996000000,1.2 K\n")
    formatted = halfwink("router", "-m", "linux", "--profile-pps", str(rates))
    assert f"{rates}: line 2: found `1740996000000,1.2 K`" in formatted.complaint
    rates.write_text("100000\nmany\n")
    wrong = halfwink("router", "-m", "linux", "--profile-pps", str(rates))
    assert wrong.status == 2
    assert "rates.txt:2: `many`, expected packets per second" in wrong.complaint
    assert "expected one of" in halfwink("router", "--pps", "1", "--profile", "5").complaint


def test_lists_know_routers_and_their_techniques(halfwink: Halfwink) -> None:
    machines = {m["name"]: m for m in halfwink("list", "machines", "--json").rows("machines")}
    assert machines["westmere"]["world"] == "router"
    listed = halfwink("list", "techniques", "--json").rows("techniques")
    techniques = {t["name"]: t for t in listed}
    assert techniques["metronome"]["source"] == "Faltelli 2020"
    shown = halfwink("router", "--profile", "20", "--json").rows("runs")
    scaling = [name for name, t in techniques.items() if t["family"] == "scaling"]
    assert sorted(result["technique"] for result in shown) == sorted(scaling)


STUDY = """
schema = 1
world = "router"
title = "small"
workloads = ["ipv4@step:5,50"]
machines = ["westmere"]
techniques = ["polling", "power-save"]

[sweep]
"power-save:c_up" = [2, 10]
"seed" = [1, 2, 3]
"evaluation.point_ms" = [0.5]

[[plot]]
title = "lost"
mark = "point"
x = "power-save:c_up"
y = "lost_pct"
color = "technique"
"""


def test_a_study_of_routers_runs_and_goes_on(halfwink: Halfwink, tmp_path: Path) -> None:
    study, out = tmp_path / "small.toml", tmp_path / "out"
    study.write_text(STUDY)
    runs = halfwink("run", str(study), "-o", str(out), "--json").rows("runs")
    assert len(runs) == 2 * 2 * 3
    assert {run["seed"] for run in runs} == {1, 2, 3}
    assert all(run["energy_saving_pct"] == 0 for run in runs if run["technique"] == "polling")
    shown = halfwink("run", str(study), "-o", str(out)).out
    assert "power W" in shown
    assert "±" in shown, "means over seeds"
    assert (out / "report.html").stat().st_size > 100_000
    study.write_text(STUDY.replace("power-save", "power-safe"))
    wrong = halfwink("run", str(study), "-o", str(out))
    assert wrong.status == 2
    said = "small.toml:7: unknown technique `power-safe`; did you mean `power-save`"
    assert said in wrong.complaint


def test_a_router_that_steps_down_more_slowly_keeps_more_cores() -> None:
    found = hw.compare(
        "ipv4@60,10",
        world="router",
        techniques=["power-save:c_down=20", "power-save:c_down=5000"],
    )
    last = found.slots.group_by("technique", maintain_order=True).last()["cores"].to_list()
    assert last[0] < last[1]


@pytest.mark.full("long")
def test_every_target_has_a_verdict(halfwink: Halfwink) -> None:
    rows = halfwink("reproduce", "niccolini/B-", "--json").rows("targets")
    assert len(rows) == 117
    assert not [r["id"] for r in rows if r["verdict"] == "not-yet"]
    # What was held out of a fit was not fitted to.
    assert not [r["id"] for r in rows if r["held_out"] and r["verdict"] == "calibrated"]
    for row in rows:
        if row["verdict"] in ("miss", "fails", "undetermined"):
            assert row["note"], row["id"]

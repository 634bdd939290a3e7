"""Comparisons in every world: sentences agree with tables, and parts of runs are paired."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import polars as pl
import pytest
from test_verdict import WHOSE, related, row
from test_verdict_properties import agrees

import halfwink as hw
from halfwink.results.judgement import judge
from halfwink.results.paired import Pieces, Side, Taken, even, taken_by_work
from halfwink.results.relate import relate
from halfwink.results.results import Results
from halfwink.results.verdict import verdict

#: A small run of each world.
SMALL: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "toy": ("exponential@30", ["always-on", "idle-menu", "idle-gate"], {"requests": 2000}),
    "storage": (
        "random-read@17",
        ["single-thread", "round-robin-socket", "multi-queue"],
        {"ios": 3000, "warm_up": 1000},
    ),
    "server": ("www@30", ["always-on", "always-big", "hybrid"], {"requests": 3000}),
    "switching": ("web@1g", ["unmod", "bound", "v4"], {}),
    "preheat": ("nginx-2016", ["no-preheat", "preheat", "wake-only"], {"requests": 50}),
    "chip": ("nginx", ["always-on", "idle-menu", "tap"], {}),
    "router": ("ipv4@30", ["polling", "napi-menu", "power-save"], {}),
    "fabric": ("all-to-all", ["packet-switch", "round-robin"], {"duration_ms": 1}),
    "racks": ("data-mining@1", ["packet-switch", "opera"], {"duration_ms": 2}),
    "node": ("exponential@30", ["menu", "teo", "c6a", "oracle"], {"requests": 20_000}),
}


@cache
def small(world: str) -> Results:
    """Returns a small comparison of a world."""
    workload, techniques, values = SMALL[world]
    short = 1_000_000 if world == "chip" else None
    return hw.compare(workload, techniques=techniques, world=world, set=values, instructions=short)


def judged_again(found: Results, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Results:
    """Returns what a judgement finds after a change of the runs and their slices."""
    own = found.runs.columns
    bare = found.runs.select(own[: own.index("energy_saving_pct")])
    tables = dict(found.tables) | {"run": change(bare)}
    if found.has("slices"):
        tables["slices"] = change(found.tables["slices"])
    baseline = found.baseline
    related = relate(tables["run"], baseline)
    tables["run"] = judge(related, tables.get("slices"), found.world, baseline)
    return Results(found.world, tables, baseline)


@pytest.mark.parametrize("world", SMALL)
def test_scaling_all_runs_of_a_world_changes_no_sentence(world: str):
    found = small(world)

    def scaled(frame: pl.DataFrame) -> pl.DataFrame:
        names = ("units", "work", "duration_s", "time_s", "energy_j")
        return frame.with_columns(pl.col(n) * 4 for n in names if n in frame.columns)

    again = judged_again(found, scaled)
    assert again.verdict().winners.equals(judged_again(found, same).verdict().winners)
    before, after = (without_counts(one.verdict().sentences[:-1]) for one in (found, again))
    assert before == after


def same(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns a frame as it is."""
    return frame


def without_counts(sentences: Sequence[str]) -> list[str]:
    """Drops how long a run that can tell must be, and what so few requests leave unknown: both
    depend on the length of the run."""
    told = r"; a run that can tell has at least [^.;]*|, of which so short a run says little"
    return [re.sub(told, "", sentence) for sentence in sentences]


@pytest.mark.parametrize("world", SMALL)
def test_a_row_that_loses_changes_no_answer_in_any_world(world: str):
    found = small(world)

    def with_loser(frame: pl.DataFrame) -> pl.DataFrame:
        worst = frame.filter(technique=found.baseline)
        worst = worst.with_columns(technique=pl.lit("a-policy-of-my-own"))
        energies = [n for n in ("energy_j", "energy_j_per_unit", "idle_w") if n in frame.columns]
        worst = worst.with_columns(pl.col(n) * 10 for n in energies)
        return pl.concat([frame, worst])

    before, after = found.verdict(), judged_again(found, with_loser).verdict()
    assert before.winners.equals(after.winners)
    # It may be named as what comes nearest; nothing that was said is taken back.
    assert set(before.sentences) <= set(after.sentences)


@pytest.mark.parametrize("world", SMALL)
def test_saved_watts_have_the_sign_of_the_powers_at_equal_rates_in_any_world(world: str):
    found = small(world)
    base = found.runs.filter(technique=found.baseline).row(0, named=True)
    side = Side.of(base, pieces(found, base) if found.has("slices") else None)
    rates: set[str] = set()
    for run in found.runs.rows(named=True):
        ours = Side.of(run, pieces(found, run) if found.has("slices") else None)
        known = even(ours, side)
        if known is None or not known.is_same_rate:
            continue
        rates.add(run["technique"])
        whole = base["energy_j"] / base["duration_s"]
        power = whole - run["energy_j"] / run["duration_s"]
        # Runs of an open load end with their last request, up to some 0.1 % apart.
        assert known.saved_w == pytest.approx(power, abs=0.002 * whole)
        saved = run["equal_rate_saving_pct"]
        assert (saved > 0.2) <= (power > 0), run["technique"]
        assert (saved < -0.2) <= (power < 0), run["technique"]
    assert found.baseline in rates


@pytest.mark.parametrize("world", SMALL)
def test_each_world_gives_sentences_that_agree_with_its_table(world: str):
    found = small(world)
    agrees(found)
    # No machine takes more idle than at work.
    floors = found.runs.drop_nulls("idle_w")
    assert (floors["idle_w"] <= floors["energy_j"] / floors["duration_s"] * (1 + 1e-9)).all()
    assert set(found.runs["load"]) <= {"open", "closed"}
    if found.has("slices"):
        sums = found.tables["slices"].group_by("technique").agg(pl.col("energy_j", "time_s").sum())
        runs = found.runs.select("technique", total="energy_j", whole="duration_s")
        runs = runs.join(sums, on="technique")
        assert runs["energy_j"].to_list() == pytest.approx(runs["total"].to_list(), rel=1e-9)
        assert runs["time_s"].to_list() == pytest.approx(runs["whole"].to_list(), rel=1e-9)
    # Each difference has an interval, or nothing in it is by chance.
    assert "no interval of the difference is known" not in str(found.verdict())


@pytest.mark.parametrize("world", [name for name in SMALL if name != "chip"])
def test_a_technique_beside_itself_wins_nothing_in_any_world(world: str):
    workload, (base, twin, *_), values = SMALL[world]
    found = hw.compare(workload, techniques=[base], world=world, set=values)
    tables = {
        name: pl.concat([frame, frame.with_columns(technique=pl.lit(twin))])
        for name in ("run", "slices")
        if (frame := found.tables.get(name)) is not None
    }
    known = tables["run"]
    judged = known.columns[known.columns.index("energy_saving_pct") :]
    runs = judge(relate(known.drop(judged), base), tables.get("slices"), world, base)
    assert runs["energy_saving_pct"].to_list() == [0, 0]
    again = verdict(Results(world, tables | {"run": runs}, base))
    assert again.winners["technique"].to_list() == [base]


#: Worlds in which every technique has the same requests at the same times, and the share of an
#: unpaired interval that is left at most.
SAME_REQUESTS = {
    "toy": ("exponential@30", ["always-on", "idle-gate"], {"requests": 2000}, 0.9),
    "preheat": ("nginx-2016", ["no-preheat", "wake-only"], {"requests": 500}, 0.1),
    "server": ("www@30", ["always-on", "hybrid"], {"requests": 3000}, 0.8),
}


@pytest.mark.parametrize("world", SAME_REQUESTS)
def test_requests_that_techniques_share_leave_the_interval(world: str):
    workload, techniques, values, most = SAME_REQUESTS[world]
    base, technique = techniques
    sides: dict[tuple[str, int], Side] = {}
    for seed in (1, 2):
        own = values | {"seed": seed}
        found = hw.compare(workload, techniques=techniques, world=world, set=own)
        for run in found.runs.iter_rows(named=True):
            sides[run["technique"], seed] = Side.of(run, pieces(found, run))
    widths: dict[bool, list[float]] = {True: [], False: []}
    for ours in (1, 2):
        for theirs in (1, 2):
            took = taken_by_work(sides[technique, ours], sides[base, theirs])
            assert took is not None
            saved = took.saved_of(Taken(1.0, took.base, took.base, took.strata))
            assert saved.low is not None
            assert saved.high is not None
            widths[ours == theirs].append(saved.high - saved.low)
    # Requests of another seed are what an unpaired comparison would play.
    assert max(widths[True]) < most * min(widths[False]), widths


def pieces(found: Results, row: Mapping[str, Any]) -> Pieces:
    """Pieces of a run."""
    own = found.tables["slices"].filter(**{name: row[name] for name in WHOSE})
    time_s, work, energy_j = (
        tuple(own[name].cast(pl.Float64)) for name in ("time_s", "work", "energy_j")
    )
    return Pieces(time_s, work, energy_j, tuple(own["stratum"]))


def test_a_chip_without_work_draws_what_its_technique_leaves_on():
    techniques = ["always-on", "clock-gate", "idle-gate", "idle-menu", "tap", "dvfs-mean"]
    runs = hw.compare("perl", techniques=techniques, instructions=50_000).runs
    floor = dict(runs.select("technique", "idle_w").iter_rows())
    assert floor["idle-gate"] == floor["idle-menu"] < floor["always-on"] == floor["clock-gate"]
    # Three of four cores are off all the time; the fourth leaks 1.1 W or more until it is gated.
    assert floor["tap"] == floor["idle-gate"]
    assert 0 < floor["idle-gate"] < 0.9 * floor["always-on"]


def test_storage_at_full_speed_names_no_watts_saved_and_at_one_rate_those_of_the_table():
    techniques = ["single-thread", "round-robin-socket"]
    sizes = {"ios": 20000, "warm_up": 5000}
    full = hw.compare("random-read@17", techniques=techniques, world="storage", set=sizes)
    # By work alone it seems to save two thirds; at one rate it takes more.
    assert full.runs["energy_saving_pct"][1] > 60
    assert full.runs["equal_rate_saving_pct"].to_list() == [0.0, None]
    assert full.verdict().winners["saved_w"].to_list() == [None]
    assert "kWh" not in str(full.verdict())
    rate = {"rate_kiops": 50}
    same = hw.compare("random-read@17", techniques=techniques, world="storage", set=sizes | rate)
    before, after = same.runs["power_w"]
    assert (same.runs["equal_rate_saving_pct"][1] > 0) == (before > after)


@pytest.mark.parametrize(
    ("latencies", "said"),
    [((40.0, 45.0), "at least 10.00 % faster"), ((40.0, 51.0), "at most 2.00 % slower")],
)
def test_the_slowest_of_several_is_told(latencies: tuple[float, float], said: str):
    rows = [
        row(name, energy, latency, workload=workload)
        for workload, ours in zip("ab", latencies, strict=True)
        for name, energy, latency in (("single-thread", 100.0, 50.0), ("cache-aware", 60.0, ours))
    ]
    assert said in verdict(related("storage", rows)).sentences[0]

"""Designs: some points of a sweep instead of all, drawn or sought by what was found."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import polars as pl
import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink import HalfwinkError, RunError
from halfwink.jobs import plan
from halfwink.runs.designs import BESIDE, DRAWN, Search, front_of, is_better
from halfwink.runs.studies import study_jobs

#: Streaks and queue of PowerSave: 320 points, of which eleven are on the front.
GRID = """
schema = 1
world = "router"
title = "streaks and queue"
workloads = ["ipv4@step:1Mpps,10Mpps"]
machines = ["westmere"]
techniques = ["power-save"]

[sweep]
"power-save:c_up" = [1, 2, 3, 5, 8, 12, 20, 30]
"power-save:c_down" = [5, 10, 20, 35, 60, 100, 200, 500]
"power-save:q_high" = [8, 16, 32, 64, 128]
"evaluation.train" = [1]
"evaluation.point_ms" = [1.0]
"""
TWO = ("energy_j_per_unit", "latency_mean_us")


def designed(folder: Path, design: str, text: str = GRID) -> str:
    path = folder / "study.toml"
    path.write_text(f"{text}\n[design]\n{design}\n")
    return str(path)


def adaptive(folder: Path, seed: int = 1, points: int = 200, text: str = GRID) -> str:
    lines = f'kind = "adaptive"\npoints = {points}\nseed = {seed}\nminimize = {json.dumps(TWO)}'
    return designed(folder, lines, text)


def front(runs: pl.DataFrame) -> set[tuple[float, float]]:
    return front_of(zip(runs[TWO[0]], runs[TWO[1]], strict=True))


#: With packets of 64 bytes only: points beside each other do not lead to all of the front.
SMALL = f'{GRID}"apps.ipv4.bytes" = [64]\n'


@pytest.fixture(scope="module", params=[(GRID, 11), (SMALL, 8)], ids=["mix", "64 bytes"])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str, pl.DataFrame]:
    """All points; folder, study and runs."""
    text, points = request.param
    folder = tmp_path_factory.mktemp("whole")
    runs = hw.run(designed(folder, 'kind = "grid"', text), out=folder).results.runs
    assert len(front(runs)) == points
    return folder, text, runs


def test_a_front_is_what_nothing_dominates():
    pairs = [(a, b) for a, b in itertools.product(range(6), range(6)) if a * b >= 4]
    pairs += [(1, 4), (2.5, 2), (float("inf"), 0)]
    by_definition = {p for p in pairs if not any(is_better(other, p) for other in pairs)}
    assert front_of(pairs) == by_definition
    assert len(by_definition) == 4


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_true_front_is_found_with_less_than_half_of_the_runs(
    seed: int, whole: tuple[Path, str, pl.DataFrame], tmp_path: Path
):
    folder, text, runs = whole
    found = hw.run(adaptive(tmp_path, seed, text=text), out=folder).results
    assert front(found.runs) == front(runs)
    assert found.runs.height < runs.height / 2
    # As many that were drawn find less of it.
    lines = f'kind = "random"\npoints = {found.runs.height}\nseed = {seed}'
    drawn = hw.run(designed(tmp_path, lines, text), out=folder).results.runs
    assert drawn.height == found.runs.height
    assert front(drawn) & front(runs) < front(runs)


def test_what_was_chosen_and_why_is_kept(tmp_path: Path):
    results = hw.run(adaptive(tmp_path), out=tmp_path / "out").results
    again = hw.open(tmp_path / "out")
    design = again.design
    assert design.equals(results.design)
    assert design["set"].to_list() == results.runs["set"].to_list()
    assert design["set"].is_unique().all()
    on_front = results.runs.filter(design["on_front"])
    pairs = set(zip(on_front[TWO[0]], on_front[TWO[1]], strict=True))
    assert pairs == front(results.runs)
    assert set(design.filter(round=0)["chosen"]) == {DRAWN}
    assert set(design["chosen"]) == {DRAWN, BESIDE}
    assert design["round"].is_sorted()


def test_a_search_that_was_cut_short_goes_on_and_ends_the_same(tmp_path: Path):
    study = adaptive(tmp_path)
    calm = hw.run(study, out=tmp_path / "calm").results
    seen = 0

    def progress(told: hw.batch.Progress) -> None:
        nonlocal seen
        seen = told.jobs_done
        if told.jobs_done >= 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hw.run(study, out=tmp_path / "cut", progress=progress)
    there = len(list((tmp_path / "cut/runs").glob("*.json")))
    assert 25 <= there < calm.runs.height
    hw.run(study, out=tmp_path / "cut")
    for name in ("results", "design", "ledger"):
        one, two = ((tmp_path / f / f"{name}.parquet").read_bytes() for f in ("calm", "cut"))
        assert one == two
    # All there: nothing is run, the same is decided.
    lines = (tmp_path / "cut/runs/host.jsonl").read_text()
    hw.run(study, out=tmp_path / "cut")
    assert (tmp_path / "cut/runs/host.jsonl").read_text() == lines


def test_no_more_points_are_played_than_were_asked_for(tmp_path: Path):
    assert hw.run(adaptive(tmp_path, points=13), out=tmp_path).results.runs.height == 13


def test_words_are_all_beside_each_other_and_numbers_beside_the_next():
    axes = [["1", "2", "3", "4", "5"], ["a", "b", "c", "d"]]
    search = Search(axes, [(2, 0)], points=20)
    assert search.ask() == ([(2, 0)], DRAWN)
    search.tell({(2, 0): [(1.0, 1.0)]})
    asked, why = search.ask()
    assert (set(asked), why) == ({(1, 0), (3, 0), (2, 1), (2, 2), (2, 3)}, BESIDE)


def played(axes: list[list[str]], draws: list[tuple[int, ...]], points: int, of) -> Search:
    search = Search(axes, draws, points)
    while asked := search.ask()[0]:
        search.tell({point: [of(*point)] for point in asked})
    return search


@pytest.mark.parametrize(
    "draws",
    [
        [(3, 7), (20, 22)],
        # Those of the first round lie in one part; what is drawn when it is known, in the other.
        [(3, 7), (4, 6), (9, 2), (5, 5), (20, 22)],
    ],
)
def test_a_front_in_two_parts_is_found_from_draws_in_both(draws: list[tuple[int, int]]):
    axes = [[str(n) for n in range(30)]] * 2

    def valleys(x: int, y: int) -> tuple[float, float]:
        """Less of one for more of the other: half of it along a line, half along another one."""
        off = abs(y - 5) + 3 * max(0, x - 14) if y < 15 else abs(y - 25) + 3 * max(0, 15 - x)
        return (x + off, 30 - x + off)

    truth = front_of(valleys(x, y) for x, y in itertools.product(range(30), repeat=2))
    assert len(truth) == 30
    search = played(axes, draws, 400, valleys)
    assert search.front == truth


def test_a_worse_point_between_two_of_the_front_is_stepped_across():
    axes = [[str(n) for n in range(9)]]
    search = played(axes, [(0,)], 9, lambda x: (x, 9 - x) if x % 2 == 0 else (99, 99))
    assert search.front == {(x, 9 - x) for x in range(0, 9, 2)}


def test_a_point_without_a_value_is_no_end():
    axes = [[str(n) for n in range(9)]]
    search = Search(axes, [(4,), (8,)], points=9)
    asked, _ = search.ask()
    search.tell({point: [] for point in asked})
    assert search.front == set()
    assert search.ask()[0] == []


def test_a_random_design_is_a_list_of_runs_like_any(tmp_path: Path):
    study = designed(tmp_path, 'kind = "random"\npoints = 12')
    jobs = study_jobs(study)
    assert len({job.key for job in plan(jobs)}) == 12
    for part in ((1, 2), (2, 2)):
        hw.run_part(study, part, out=tmp_path)
    assert hw.collected(study, out=tmp_path).results.runs.height == 12


def test_an_adaptive_design_has_no_parts_and_no_logs(tmp_path: Path, halfwink: Halfwink):
    study = adaptive(tmp_path)
    for words in (["--part", "1/2"], ["--collect"]):
        done = halfwink("run", study, *words)
        assert done.status == 2
        assert "has no" in done.complaint or "there is no list" in done.complaint
    done = halfwink("run", study, "--log", "x.log")
    assert (done.status, "adaptive design" in done.complaint) == (2, True)


def test_a_mistake_in_a_design_is_one_line_with_its_place(tmp_path: Path, halfwink: Halfwink):
    study = designed(tmp_path, 'kind = "adaptive"\npoints = 5\nminimize = ["energy", "lost_pct"]')
    done = halfwink("run", study)
    assert done.status == 2
    assert done.complaint.startswith(
        f"{study}:19: runs of the world `router` have no number `energ"
    )


def test_the_command_names_the_front_and_where_it_stands(tmp_path: Path, halfwink: Halfwink):
    done = halfwink("run", adaptive(tmp_path, points=13), "-o", "out")
    assert done.status == 0, done.err
    table = pl.read_parquet(tmp_path / "out/design.parquet")
    front = f"{table['on_front'].sum()} of 13 runs trade less energy_j_per_unit"
    where = "against less latency_mean_us: halfwink query out 'select * from design where on_front'"
    assert f"{front} {where}\n" in done.err


def test_the_example_finds_its_front_and_is_listed_without_a_number_of_runs(
    tmp_path: Path, halfwink: Halfwink
):
    runs = hw.run(designed(tmp_path, 'kind = "grid"', SMALL), out=tmp_path).results.runs
    found = hw.run("power-save-front", out=tmp_path).results.runs
    assert front(found) == front(runs)
    rows = [line.split()[:3] for line in halfwink("list", "studies").out.splitlines()]
    assert ["power-save-front", "router", "westmere"] in rows


def test_two_workloads_are_searched_apart_and_each_has_its_front(tmp_path: Path):
    text = GRID.replace(
        '["ipv4@step:1Mpps,10Mpps"]', '["ipv4@step:1Mpps,10Mpps", "ipv4@step:1Mpps,25Mpps"]'
    )
    lines = f'kind = "adaptive"\npoints = 150\nminimize = {json.dumps(TWO)}'
    results = hw.run(designed(tmp_path, lines, text), out=tmp_path).results
    for workload in results.runs["workload"].unique():
        of = results.runs.filter(workload=workload)
        chosen = results.design.filter(workload=workload)
        marked = of.filter(chosen["on_front"])
        assert set(zip(marked[TWO[0]], marked[TWO[1]], strict=True)) == front(of)


def test_relative_columns_and_a_baseline_of_its_own_will_do(tmp_path: Path):
    text = GRID.replace('["power-save"]', '["power-save"]\nbaseline = "napi"').replace(
        "[sweep]", 'baseline_machine = "westmere"\n[sweep]'
    )
    lines = 'kind = "adaptive"\npoints = 10\nmaximize = ["energy_saving_pct"]\n'
    study = designed(tmp_path, lines + 'minimize = ["slowdown_pct"]', text)
    results = hw.run(study, out=tmp_path).results
    assert results.runs["technique"].to_list() == ["napi"] + ["power-save"] * 10
    assert results.design.height == 10
    saved = results.runs.slice(1)["energy_saving_pct"]
    assert saved.null_count() == 0
    assert saved.max() in saved.filter(results.design["on_front"])
    with pytest.raises((HalfwinkError, RunError), match="no column `core_energy_saving_pct`"):
        hw.run(
            designed(
                tmp_path,
                lines.replace("energy_s", "core_energy_s") + 'minimize = ["slowdown_pct"]',
                text,
            ),
            out=tmp_path,
        )

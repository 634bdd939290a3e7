"""Sweeps: what keeping, collecting and handing jobs out costs beside the jobs themselves.

Run by itself it takes turns of all ways and prints medians: ``benches/sweeps.py [TURNS]``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import halfwink as hw
from halfwink.jobs import Job, pairs
from halfwink.report import write_report
from halfwink.results.results import collect, open_results
from halfwink.results.store import RunStore
from halfwink.runs.batch import run_jobs
from halfwink.runs.executors import Executor, LocalExecutor, run_job
from halfwink.runs.pools import Dask

#: Workers of a sweep, and of the loop that it is measured beside.
WORKERS = 2
#: Jobs of a sweep of some hundred milliseconds each, and requests of each.
JOBS, REQUESTS = 40, 6_000_000
#: Points that are collected and asked for.
POINTS = 10_000
STUDY = f"""
schema = 1
world = "toy"
title = "points"
workloads = ["exponential@30"]
machines = ["machine"]
techniques = ["always-on", "idle-gate"]
[options]
requests = 10
[sweep]
seed = {list(range(POINTS // 2))}
"""
QUERY = """
    select technique, seed, energy_j_per_unit, latency_p99_us from runs
    where energy_saving_pct > 30 order by energy_j_per_unit limit 10
"""


def toys() -> list[Job]:
    """The jobs of a sweep: none is over before a worker has asked for the next."""
    options = pairs({"requests": REQUESTS})
    return [
        Job("toy", "exponential@30", "machine", technique, pairs({"seed": seed}), options)
        for seed in range(JOBS // 2)
        for technique in ("always-on", "idle-gate")
    ]


def bare(jobs: list[Job], pool: Pool) -> float:
    """Seconds of a loop of two threads or processes that runs the jobs and forgets what they
    find."""
    started = time.monotonic()
    for _ in pool.map(run_job, jobs):
        pass
    return time.monotonic() - started


def sweep(jobs: list[Job], executor: Executor) -> float:
    """Seconds of a sweep of the jobs, from names to data frames."""
    with tempfile.TemporaryDirectory() as name:
        started = time.monotonic()
        store = RunStore(Path(name))
        collect(jobs, run_jobs(jobs, store, executor=executor), store, "always-on")
        return time.monotonic() - started


def overheads(turns: int) -> dict[str, float]:
    """How much longer a sweep takes than the bare loop, in per cent: medians of so many turns, in
    each of which all are run one after the other."""
    import distributed

    jobs = toys()
    here: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.Client(n_workers=WORKERS, threads_per_worker=1, **here) as client,
        ThreadPoolExecutor(WORKERS) as threads,
        ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as processes,
    ):
        # Each beside a loop of what it has itself: jobs of two threads share an allocator.
        ways: dict[str, tuple[Executor, Pool]] = {
            f"local:{WORKERS}, two threads": (LocalExecutor(WORKERS), threads),
            f"dask, {WORKERS} processes": (Dask(client=client), processes),
        }
        for executor, pool in ways.values():
            # Workers have imported what they need.
            sweep(jobs[: 2 * WORKERS], executor)
            bare(jobs[: 2 * WORKERS], pool)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(turns):
            for name, (executor, pool) in ways.items():
                # What else the machine does changes slowly: between two of the same.
                before = bare(jobs, pool)
                seconds = sweep(jobs, executor)
                beside = (before + bare(jobs, pool)) / 2
                found[name].append(100 * (seconds / beside - 1))
    return {name: statistics.median(values) for name, values in found.items()}


def points(turns: int) -> dict[str, float]:
    """Seconds of collecting points that are stored and asking for some of them in SQL, of asking
    alone, and of collecting and drawing their report: medians of so many turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = folder / "points.toml"
        study.write_text(STUDY)
        hw.run(str(study), out=folder)

        def ask() -> None:
            found = open_results(folder).query(QUERY)
            assert found.height == 10

        def both() -> None:
            assert hw.collected(str(study), out=folder).results.runs.height == POINTS
            ask()

        def drawn() -> None:
            """From what is stored to the page with its charts."""
            found = hw.collected(str(study), out=folder).results
            write_report(folder / "report.html", "points", found)

        work: dict[str, Callable[[], None]] = {
            "collected and queried": both,
            "queried": ask,
            "collected and drawn": drawn,
        }
        taken: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(turns):
            for name, do in work.items():
                started = time.monotonic()
                do()
                taken[name].append(time.monotonic() - started)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    """Prints both."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for name, percent in overheads(turns).items():
        print(f"{name:<28} {percent:6.2f} % longer than the same runs in a loop of {WORKERS}")
    for name, seconds in points(turns).items():
        print(f"{POINTS:,} points {name:<22} {seconds:6.2f} s")


if __name__ == "__main__":
    main()

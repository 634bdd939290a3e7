"""Requests through a simulated hybrid server per second of one host core, next to drawing them.

.venv/bin/python benches/server.py [--requests N] [--json FILE]

Medians of five runs in user CPU time. The limit is the same arrivals and sizes, drawn in the same
run and thrown away: no simulator that draws them as they come can be faster.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from halfwink.jobs import Job, pairs
from halfwink.library import library
from halfwink.runs.executors import run_job

REPEATS = 5
REQUESTS = 4_000_000
#: Millions of requests per second of one host core.
GOAL = 10.0
LOAD = "30"
POLICIES = ("always-on", "hybrid", "always-big", "power-nap", "knight-shift", "dream-weaver")
#: Sizes of requests: as the thesis has them, and of the simplest law.
SIZES = {
    "power law": "",
    "exponential": '{ law = "exponential", mean = 40.0 }',
}


@dataclass(frozen=True)
class Speed:
    """Millions of requests per second: simulated, and only drawn."""

    what: str
    simulated: float
    drawn: float


def speed_of(work: Callable[[], object], requests: int) -> float:
    """Millions of requests per second of user CPU time, the median of all runs."""
    runs: list[float] = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        work()
        runs.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
    return requests / statistics.median(runs) / 1e6


def speeds(requests: int = REQUESTS) -> list[Speed]:
    """Workload `count` at 30 % of what both machines carry, Poisson, under several policies."""
    found: list[Speed] = []
    for size, law in SIZES.items():
        values = pairs({"workloads.count.size": law} if law else {})
        server = library().server("niccolini", values)
        draw = partial(server.draw, library(), "count", LOAD, requests, 1)
        drawn = speed_of(draw, requests)
        for policy in POLICIES if not law else POLICIES[:2]:
            job = Job(
                "server",
                f"count@{LOAD}",
                "niccolini",
                policy,
                values,
                pairs({"requests": requests}),
            )
            found.append(
                Speed(f"{policy}, {size}", speed_of(partial(run_job, job), requests), drawn)
            )
    return found


def main() -> int:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of each run")
    parser.add_argument("--json", type=Path, help="file for all results")
    told = parser.parse_args()
    found = speeds(told.requests)
    print(f"{'policy, sizes':<28} {'M requests/s':>12} {'of the goal':>12} {'of drawing':>12}")
    for row in found:
        goal, limit = row.simulated / GOAL, row.simulated / row.drawn
        print(f"{row.what:<28} {row.simulated:>12.2f} {goal:>12.2f} {limit:>12.2f}")
    if told.json:
        told.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

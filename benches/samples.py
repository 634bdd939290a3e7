"""How much faster samples of a long workload are than the whole of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from halfwink import _core
from halfwink.jobs import Job, pairs
from halfwink.runs.sampling import sample

#: Never out of its first level; and a bit of all.
WORKLOADS = ("alu", "mixed:mb=64")
INSTRUCTIONS = 50_000_000
GOAL = 2
TECHNIQUES = ("always-on", "tap")
REPEATS = 3


def speed_up(workload: str) -> float:
    """CPU time of whole runs in that of samples under the same techniques: the median of pairs, so
    that the machine's moods fall on both."""
    colon = "," if ":" in workload else ":"
    long = f"{workload}{colon}instructions={INSTRUCTIONS}"
    jobs = [Job("chip", long, "ev6-1", t, pairs(None), pairs(None)).prepare() for t in TECHNIQUES]

    def whole() -> None:
        for job in jobs:
            job.run(_core.RunControl())

    def windows() -> None:
        sample(long, techniques=TECHNIQUES)

    times = ((_seconds(whole), _seconds(windows)) for _ in range(REPEATS))
    return statistics.median(one / other for one, other in times)


def _seconds(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun

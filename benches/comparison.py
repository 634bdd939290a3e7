"""What a comparison of techniques takes, in runs of one of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from halfwink import Job, LocalExecutor
from halfwink.results.store import temporary_store
from halfwink.runs.batch import run_jobs

#: Never late, late after halts, late in stalls (docs/chip.md, "One run for several techniques").
COMPARED = ("always-on", "oracle", "idle-gate", "tap", "idle-adaptive", "mapg-counter")
#: Times one run that the comparison may take.
LIMIT = 2.5
PAIRS = [("in-order-1", "nginx"), ("in-order-1", "gcc"), ("ev6-1", "nginx"), ("ev6-1", "gcc")]
REPEATS = 3


def ratio(machine: str, workload: str) -> float:
    """CPU time of the comparison on one thread in that of its first technique alone: the median of
    pairs, so that the machine's moods fall on both."""
    jobs = [Job("chip", workload, machine, technique) for technique in COMPARED]
    pairs = ((_seconds(jobs), _seconds(jobs[:1])) for _ in range(REPEATS))
    return statistics.median(all_of_them / one for all_of_them, one in pairs)


def _seconds(jobs: Sequence[Job], clock: Callable[[], float] = time.process_time) -> float:
    with temporary_store() as store:
        begun = clock()
        run_jobs(jobs, store, executor=LocalExecutor(1))
        return clock() - begun

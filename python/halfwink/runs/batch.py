"""Running many jobs: each result is kept as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from halfwink.jobs import Job, Planned, plan
from halfwink.results.store import RunStore, temporary_store
from halfwink.runs.executors import Executor, Submits, executor_of
from halfwink.runs.logs import paths
from halfwink.runs.parts import deal, distinct

#: Jobs that share a run at most: beyond, a run that ends and the next worker matter more.
MOST_TOGETHER = 16


@dataclass(frozen=True)
class Progress:
    """Progress of a batch.

    Attributes:
        jobs_done: jobs whose results are there, those of earlier runs among them.
        jobs: all.
        work_done: work done for the jobs that had no result yet, in ``unit``.
        work: all of that.
        unit: the world's unit of work.
    """

    jobs_done: int
    jobs: int
    work_done: int
    work: int
    unit: str


def run_jobs(
    jobs: Sequence[Job],
    store: RunStore,
    *,
    fresh: bool = False,
    executor: Executor | Submits | None = None,
    log: Path | str | None = None,
    part: tuple[int, int] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Planned]:
    """Runs jobs, stores their results, and returns the keys of the results.

    Results already in the store are reused unless ``fresh``, or a ``log`` is wanted of how they
    come about (`halfwink.runs.logs.paths` says where each job's goes). Every result is stored as
    soon as it is there, so a run that is cut short goes on where it was; none is kept in memory.

    Raises:
        HalfwinkError: a name or value that cannot be, in one line.
        RunError: a job failed, the store's disk is full, or the server at its URL does not answer.
        Interrupted, KeyboardInterrupt: the run was stopped; what was finished is kept.
    """
    planned = plan(jobs)
    again = fresh or log is not None
    ours = distinct(planned) if part is None else deal(planned, part[1])[part[0] - 1]
    there = set[str]() if again else store.present([planned[number].key for number in ours])
    missing = [number for number in ours if planned[number].key not in there]
    state = _State(planned, missing, len(ours), progress)
    state.tell(0)
    where = executor_of(executor)
    if log is None:
        shares = (tuple((n, jobs[n]) for n in share) for share in _shares(planned, missing))
        runs = where.run(shares, state.tell)
    else:
        # A log tells one run of one job.
        alone = (((n, jobs[n]),) for n in missing)
        logs = dict(zip(missing, paths(log, [jobs[n] for n in missing]), strict=True))
        runs = where.run(alone, state.tell, logs)
    with closing(runs):
        for number, tables in runs:
            store.save(planned[number].key, tables)
            state.finish(number)
    store.pack()
    return planned


def _shares(planned: Sequence[Planned], missing: Sequence[int]) -> list[list[int]]:
    """Jobs that may share a run, together, in the order of the first of each."""
    shares: list[list[int]] = []
    open_shares: dict[str, list[int]] = {}
    for number in missing:
        pace = planned[number].pace
        share = open_shares.get(pace) if pace is not None else None
        if share is None or len(share) == MOST_TOGETHER:
            share = []
            shares.append(share)
            if pace is not None:
                open_shares[pace] = share
        share.append(number)
    return shares


def record(jobs: Sequence[Job], log: Path | str) -> None:
    """Plays jobs for their logs alone; for questions that are no jobs themselves.

    Raises:
        HalfwinkError, RunError: see `run_jobs`.
    """
    with temporary_store() as store:
        run_jobs(jobs, store, log=log)


class _State:
    """Progress of a batch, updated in a few steps per job."""

    def __init__(
        self,
        planned: Sequence[Planned],
        missing: Sequence[int],
        jobs: int,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._planned = planned
        self._jobs = jobs
        self._jobs_done = jobs - len(missing)
        self._work = sum(planned[number].work for number in missing)
        self._finished = 0
        self._unit = planned[0].unit if planned else ""
        self._progress = progress

    def finish(self, number: int) -> None:
        """A job's result is kept."""
        self._jobs_done += 1
        self._finished += self._planned[number].work
        self.tell(0)

    def tell(self, running: int) -> None:
        """Passes on how far things are; ``running``: what unfinished jobs have done."""
        if self._progress is not None:
            done = min(self._finished + running, self._work)
            told = Progress(self._jobs_done, self._jobs, done, self._work, self._unit)
            self._progress(told)

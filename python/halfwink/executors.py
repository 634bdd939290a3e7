"""Where jobs run: on this machine's cores, or on a cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job
from halfwink.store import Tables

#: Jobs that are handed out for each worker: the next is there when one is finished, and memory
#: does not grow with the number of jobs.
AHEAD = 2
#: Seconds between two looks at how far running jobs are, and so until Ctrl-C is seen.
TICK_S = 0.2

Numbered = Iterable[tuple[int, Job]]


class Executor(Protocol):
    """Runs jobs and yields their results as they finish, in any order.

    It takes jobs as they are, and prepares each where it runs. Closing the generator stops what is
    running.
    """

    def run(
        self,
        jobs: Numbered,
        progress: Callable[[int], None],
        logs: Mapping[int, Path] | None = None,
    ) -> Generator[tuple[int, Tables], None, None]:
        """Yields (number of the job, its tables).

        Calls ``progress`` several times a second with what unfinished jobs have done, in the
        world's unit of work, or 0 where that is not known. ``logs``: where the event log of which
        job goes, by its number.
        """
        ...


def run_job(job: Job) -> Tables:
    """Prepares a job and runs it to its end: what an executor calls where the job runs."""
    return job.prepare().run(_core.RunControl())


@dataclass
class LocalExecutor:
    """Threads on this machine: the native module lets go of the interpreter while it runs."""

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    def run(
        self,
        jobs: Numbered,
        progress: Callable[[int], None],
        logs: Mapping[int, Path] | None = None,
    ) -> Generator[tuple[int, Tables], None, None]:
        """See Executor."""
        logged = {number: str(path) for number, path in (logs or {}).items()}
        running: dict[int, _core.RunControl] = {}
        lock = threading.Lock()

        def work(number: int, job: Job) -> Tables:
            control = _core.RunControl(logged.get(number))
            with lock:
                running[number] = control
            try:
                return job.prepare().run(control)
            finally:
                with lock:
                    del running[number]

        def look() -> None:
            with lock:
                controls = list(running.values())
            progress(sum(control.done() for control in controls))

        pool = ThreadPoolExecutor(self.workers)
        pending: dict[Future[Tables], int] = {}
        numbered = iter(jobs)

        def hand_out(count: int) -> None:
            for number, job in islice(numbered, count):
                pending[pool.submit(work, number, job)] = number

        try:
            hand_out(AHEAD * self.workers)
            while pending:
                ready, _ = wait(pending, timeout=TICK_S, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield pending.pop(future), future.result()
                hand_out(len(ready))
                look()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            # A job that starts while others are stopped is stopped in the next round.
            while any(not future.done() for future in pending):
                with lock:
                    for control in running.values():
                        control.stop()
                wait(pending, timeout=0.1)


class Dask:
    """A Dask cluster whose workers have the same halfwink, and the same files at ``HALFWINK_HOME``.

    Only jobs and finished tables travel. Workloads and machines given as files are looked for where
    the job runs.
    """

    def __init__(self, address: str) -> None:
        """Connects to a scheduler, as ``tcp://HOST:PORT``.

        Raises:
            HalfwinkError: dask is not installed, or nobody answers at the address; one line.
        """
        try:
            import distributed  # pyright: ignore[reportMissingImports]
        except ImportError:
            line = "pip install 'dask[distributed]'"
            raise HalfwinkError(f"executor dask: dask is not installed; run: {line}") from None
        self._distributed: Any = distributed
        try:
            self._client: Any = distributed.Client(address)
        except (OSError, ValueError) as error:
            raise HalfwinkError(f"executor dask: {address}: {error}") from error

    def run(
        self,
        jobs: Numbered,
        progress: Callable[[int], None],
        logs: Mapping[int, Path] | None = None,
    ) -> Generator[tuple[int, Tables], None, None]:
        """See Executor. How far running jobs are is not known, and what a worker has begun when
        the generator is closed it plays to its end, for nobody."""
        if logs:
            raise HalfwinkError(
                "--log: logs are written where jobs run; use the executor `local` for them"
            )
        numbered: Iterator[tuple[int, Job]] = iter(jobs)
        threads = sum(self._client.nthreads().values()) or 1
        finished = self._distributed.as_completed(with_results=False)
        numbers: dict[str, int] = {}

        def hand_out(count: int) -> None:
            for number, job in islice(numbered, count):
                # Not pure: a job whose result is asked for again is run again.
                future = self._client.submit(run_job, job, pure=False)
                numbers[future.key] = number
                finished.add(future)

        try:
            hand_out(AHEAD * threads)
            for future in finished:
                yield numbers.pop(future.key), future.result()
                # What came back need not stay on the cluster.
                future.release()
                hand_out(1)
                progress(0)
        finally:
            self._client.cancel(list(finished.futures))


def executor_named(name: str) -> Executor:
    """The executor for ``local``, ``local:WORKERS`` or ``dask://HOST:PORT``.

    Raises:
        HalfwinkError: it is none of these, or cannot be had.
    """
    kind, colon, detail = name.partition(":")
    if kind == "local" and not colon:
        return LocalExecutor()
    if kind == "local" and detail.isdigit() and int(detail) > 0:
        return LocalExecutor(int(detail))
    if kind == "dask" and detail.removeprefix("//"):
        return Dask(f"tcp:{detail}")
    raise HalfwinkError(
        f"unknown executor `{name}`; expected local, local:WORKERS or dask://HOST:PORT"
    )

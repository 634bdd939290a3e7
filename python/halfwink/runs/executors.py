"""Executors of jobs: on this machine's cores, or in other processes (`halfwink.runs.pools`)."""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, cast

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job
from halfwink.results.store import Tables

#: Jobs that are handed out for each worker: the next is there when one is finished, and memory
#: does not grow with the number of jobs.
AHEAD = 2
#: Seconds between two looks at how far running jobs are, and so until Ctrl-C is seen.
TICK_S = 0.2

#: Jobs that may share a run, each with its number.
Share = Sequence[tuple[int, Job]]


#: What a job ends with where others shall not end with it.
Result = Tables | Exception


class Executor(Protocol):
    """Runs jobs and yields their results as they finish, in any order.

    It takes jobs as they are, and prepares each where it runs. Closing the generator stops what is
    running.
    """

    def run(
        self,
        shares: Iterable[Share],
        progress: Callable[[int], None],
        logs: Mapping[int, Path] | None = None,
    ) -> Generator[tuple[int, Tables], None, None]:
        """Yields (number of the job, its tables).

        Jobs of one share are handed out together, for `run_together`.

        Calls ``progress`` several times a second with what unfinished jobs have done, in the
        world's unit of work, or 0 where that is not known. ``logs``: where the event log of which
        job goes, by its number.
        """
        ...


def run_job(job: Job) -> Tables:
    """Prepares a job and runs it to its end: what an executor calls where the job runs."""
    return job.prepare().run(_core.RunControl())


def finished(share: Share, results: Sequence[Result]) -> Generator[tuple[int, Tables], None, None]:
    """Yields the finished results of a share, then raises the first failure."""
    failed = [result for result in results if isinstance(result, Exception)]
    for (number, _), result in zip(share, results, strict=True):
        if not isinstance(result, Exception):
            yield number, result
    if failed:
        raise failed[0]


@dataclass
class LocalExecutor:
    """Threads on this machine: the native module lets go of the interpreter while it runs."""

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        given: Any = self.workers
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise HalfwinkError(f"workers {given!r}: expected a whole number of 1 or more")

    def run(
        self,
        shares: Iterable[Share],
        progress: Callable[[int], None],
        logs: Mapping[int, Path] | None = None,
    ) -> Generator[tuple[int, Tables], None, None]:
        """Runs jobs, see Executor."""
        logged = {number: str(path) for number, path in (logs or {}).items()}
        running: dict[int, tuple[_core.RunControl, int]] = {}
        lock = threading.Lock()

        def work(share: Share) -> list[Result]:
            number = share[0][0]
            control = _core.RunControl(logged.get(number))
            with lock:
                running[number] = control, len(share)
            try:
                prepared = [job.prepare() for _, job in share]
                if len(prepared) == 1:
                    return [prepared[0].run(control)]
                return list(_core.run_together(prepared, control))
            finally:
                with lock:
                    del running[number]

        def look() -> None:
            with lock:
                controls = list(running.values())
            progress(sum(control.done() * jobs for control, jobs in controls))

        tasks: SimpleQueue[Share | None] = SimpleQueue()
        done: SimpleQueue[tuple[Share, list[Result] | BaseException]] = SimpleQueue()
        stopping = False
        working: set[int] = set()
        ended: SimpleQueue[None] = SimpleQueue()

        def serve(worker: int) -> None:
            working.add(worker)
            while (share := tasks.get()) is not None:
                if stopping:
                    continue
                try:
                    done.put((share, work(share)))
                except BaseException as error:
                    done.put((share, error))
            working.discard(worker)
            ended.put(None)

        # What it does may be done twice. A worker that has not begun yet takes no job any more.
        def stop() -> None:
            nonlocal stopping
            stopping = True
            for _ in range(self.workers):
                tasks.put(None)
            # A job that starts while others are stopped is stopped in the next round.
            while working:
                with lock:
                    for control, _ in running.values():
                        control.stop()
                # A policy in Python may never return.
                _core.leave_policies(Left)
                with suppress(Empty):
                    ended.get(timeout=0.1)

        # Neither `concurrent.futures` nor threads and events of `threading`: an interrupt inside
        # `wait`, `start` or `set` leaves locks taken that others then wait for, for ever. What is
        # used here is got, put and started in one step.
        waiting = iter(shares)
        pending = 0
        try:
            for worker in range(self.workers):
                _thread.start_new_thread(serve, (worker,))
            for share in islice(waiting, AHEAD * self.workers):
                tasks.put(share)
                pending += 1
            while pending:
                try:
                    share, results = done.get(timeout=TICK_S)
                except Empty:
                    look()
                    continue
                pending -= 1
                if isinstance(results, BaseException):
                    raise results
                yield from finished(share, results)
                for share in islice(waiting, 1):
                    tasks.put(share)
                    pending += 1
                look()
        finally:
            unless_interrupted(stop)


class Left(BaseException):
    """The run was stopped while a policy in Python decided."""


def unless_interrupted(end: Callable[[], None]) -> None:
    """Calls what ends something, again if an interrupt cuts it short, and passes that on then."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            end()
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


class Submits(Protocol):
    """A pool of workers, as `concurrent.futures` has them; so has Dask its client."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Has a function called somewhere; its future."""
        ...


def executor_of(given: Executor | Submits | None) -> Executor:
    """An executor from what a caller has: one of ours as it is, threads here for none; a Dask
    client, or a Dask cluster, whose client is asked for; else any pool with ``submit``.

    Raises:
        HalfwinkError: the object is none of these.
    """
    if given is None:
        return LocalExecutor()
    if isinstance(given, type):
        raise HalfwinkError(f"executor {given.__name__} is a class; expected {given.__name__}(...)")
    if not hasattr(given, "submit") and hasattr(given, "run"):
        return cast(Executor, given)
    from halfwink.runs.pools import Dask, Pool

    own: Any = given
    if not hasattr(own, "submit") and hasattr(own, "get_client"):
        own = own.get_client()
    if hasattr(own, "subscribe_topic") and hasattr(own, "nthreads"):
        return Dask(client=own)
    return Pool(own)


def executor_named(name: str) -> Executor:
    """The executor for ``local``, ``local:WORKERS``, ``dask`` or ``dask:ADDRESS``, which is
    ``//HOST:PORT``, ``HOST:PORT`` or as Dask writes it.

    Raises:
        HalfwinkError: the name is none of these, or the executor is not available.
    """
    kind, colon, detail = name.partition(":")
    if kind == "local" and not colon:
        return LocalExecutor()
    if kind == "local" and detail.isdigit() and int(detail) > 0:
        return LocalExecutor(int(detail))
    if kind == "dask" and (not colon or detail.removeprefix("//")):
        from halfwink.runs.pools import Dask

        at = detail if "://" in detail else f"tcp://{detail.removeprefix('//')}"
        return Dask(at if colon else None)
    raise HalfwinkError(
        f"unknown executor `{name}`; expected local, local:WORKERS, dask or dask://HOST:PORT"
    )

"""Jobs in other processes: any pool that has `submit`, or a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from halfwink import _core
from halfwink.checked import checked
from halfwink.errors import HalfwinkError, Interrupted, RunError
from halfwink.jobs import Job
from halfwink.results.store import Tables
from halfwink.runs.executors import AHEAD, TICK_S, Result, Share, finished

#: Seconds between two looks of a running job at whether it shall stop.
LOOK_S = 0.1
#: Seconds between two lines of a running job on how far it is, and as many for each of so many
#: workers: a thousand of them shall not keep a scheduler busy.
TELL_S, TELLERS = 0.5, 50
#: Seconds that a pool has, when it is closed, to let go of what it has begun.
LET_GO_S = 10.0
#: Seconds between two counts of a pool's workers.
COUNT_S = 1.0
#: What ends the line on a pool that failed.
GO_ON = "finished runs are kept, the same command goes on"


class Line(Protocol):
    """Connection between a job that runs elsewhere and its client. It travels with the job."""

    def attach(self) -> Attached:
        """Called where the job runs, in its thread, before it begins."""
        ...


class Attached(Protocol):
    """One end of a line: where the job runs."""

    def stopped(self) -> bool:
        """Returns whether the client no longer wants the result. It may be called from another
        thread.
        """
        ...

    def tell(self, ticket: str, done: int) -> None:
        """Passes on how far the job is, in the world's unit of work."""
        ...


class FolderLine:
    """A folder that client and workers see: a file that is gone when they shall stop, and one for
    each running job. Where it is not seen, a job that has begun is played to its end."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def attach(self) -> Attached:
        """Attaches in the worker, see Line."""
        return _Folder(Path(self.folder))


class _Folder:
    GO = "go"

    def __init__(self, folder: Path) -> None:
        self._folder, self._seen, self._parent = folder, folder.is_dir(), os.getppid()

    def stopped(self) -> bool:
        # Of a pool's process whose client was killed another one is the parent now.
        return os.getppid() != self._parent or (
            self._seen and not (self._folder / self.GO).exists()
        )

    def tell(self, ticket: str, done: int) -> None:
        if self._seen:
            with suppress(OSError):
                (self._folder / ticket).write_text(str(done))


class DaskLine:
    """The scheduler: what it cancels, because it is asked to or because the client is gone, its
    worker knows of; how far jobs are travels as events of a topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def attach(self) -> Attached:
        """Attaches in the worker, see Line."""
        return _Task(self.topic, import_module("distributed").get_worker())


class _Task:
    def __init__(self, topic: str, worker: Any) -> None:
        self._topic, self._worker, self._key = topic, worker, worker.get_current_task()

    def stopped(self) -> bool:
        # A worker whose scheduler is gone closes, and would wait for what it has begun.
        if self._worker.status.name in ("closing", "closed"):
            return True
        task = self._worker.state.tasks.get(self._key)
        return task is None or task.state in ("cancelled", "released", "forgotten")

    def tell(self, ticket: str, done: int) -> None:
        self._worker.log_event(self._topic, [ticket, done])


def play(
    jobs: Sequence[Job], line: Line, ticket: str, tell_s: float
) -> tuple[str, list[str], list[Result]]:
    """Jobs that may share a run, where they run: which process that is, their keys there, and of
    each its tables or what it ended with."""
    control, end = _core.RunControl(), line.attach()
    over = threading.Event()

    def watch() -> None:
        told, said_at = 0, time.monotonic()
        while not over.wait(LOOK_S):
            if end.stopped():
                control.stop()
            done, now = control.done(), time.monotonic()
            if done != told and now - said_at >= tell_s:
                end.tell(ticket, done)
                told, said_at = done, now

    # What was cancelled while it waited is not begun.
    if end.stopped():
        raise Interrupted("stopped")
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        prepared = [job.prepare() for job in jobs]
        keys = [job.key() for job in prepared]
        return _process(), keys, list(_core.run_together(prepared, control))
    finally:
        over.set()
        watcher.join()


def _process() -> str:
    return f"{os.uname().nodename} process {os.getpid()}"


class Pool:
    """Any object with ``submit(function, *arguments)`` that gives futures: a process pool of
    `concurrent.futures`, loky's, MPI's, a Dask client.

    Its workers have the same halfwink, and the same files at ``HALFWINK_HOME``. Only jobs and
    finished tables travel; the pool stays the caller's, who closes it.
    """

    @checked
    def __init__(self, pool: Any, workers: int | None = None) -> None:
        """Runs jobs on ``pool``, of which so many run at once: unless said, as many as it tells, or
        as this machine has processors.

        Raises:
            HalfwinkError: the object has no ``submit``.
        """
        if not callable(getattr(pool, "submit", None)):
            raise HalfwinkError(
                f"executor {type(pool).__name__}: expected an object with submit(function, ...)"
            )
        self._pool: Any = pool
        self._workers = workers
        self._counted: tuple[float, int] | None = None

    @property
    def name(self) -> str:
        """Returns the name for messages."""
        return f"executor {type(self._pool).__name__}"

    def count(self) -> int:
        """Workers that it has now."""
        told: Any = getattr(self._pool, "_max_workers", None)
        return told if isinstance(told, int) else os.cpu_count() or 1

    def _submit(self, *arguments: Any) -> Any:
        return self._pool.submit(play, *arguments)

    @contextmanager
    def _line(self) -> Generator[tuple[Line, Callable[[str], int]]]:
        """A line to running jobs, which stops them when this ends, and how far each of them is."""
        folder = Path(tempfile.mkdtemp(prefix="halfwink-"))
        (folder / _Folder.GO).touch()

        def done(ticket: str) -> int:
            try:
                return int((folder / ticket).read_text() or 0)
            except (OSError, ValueError):
                return 0

        try:
            yield FolderLine(str(folder)), done
        finally:
            # A job that sees the folder without this file stops.
            (folder / _Folder.GO).unlink()

    def _close(self, line: Line, pending: Sequence[Any]) -> None:
        """Gives what has begun the time to stop."""
        until = time.monotonic() + LET_GO_S
        while not all(f.done() for f in pending) and time.monotonic() < until:
            time.sleep(LOOK_S)
        if isinstance(line, FolderLine) and all(f.done() for f in pending):
            shutil.rmtree(line.folder, ignore_errors=True)

    def run(
        self,
        shares: Iterable[Share],
        progress: Callable[[int], None],
        logs: Mapping[int, Path] | None = None,
    ) -> Generator[tuple[int, Tables], None, None]:
        """See Executor. What a closed generator leaves is stopped, where the line reaches it."""
        if logs:
            raise HalfwinkError(
                "--log: logs are written where jobs run; use the executor `local` for them"
            )
        waiting = iter(shares)
        ready: SimpleQueue[str] = SimpleQueue()
        pending: dict[str, tuple[Any, Share]] = {}
        same = _Same()
        line: Line | None = None

        def hand_out(line: Line) -> None:
            workers = self._at_once()
            tell_s = TELL_S * max(1.0, workers / TELLERS)
            for share in islice(waiting, max(0, AHEAD * workers - len(pending))):
                ticket = secrets.token_hex(8)
                try:
                    future = self._submit([job for _, job in share], line, ticket, tell_s)
                except RuntimeError as error:
                    # A pool that was shut down, or whose processes have died.
                    raise RunError(f"{self.name}: {self._why(error)}; {GO_ON}") from error
                pending[ticket] = future, share
                future.add_done_callback(partial(_put, ready, ticket))

        try:
            with self._line() as (line, done):
                try:
                    hand_out(line)
                    while pending:
                        with suppress(Empty):
                            ticket = ready.get(timeout=TICK_S)
                            future, share = pending.pop(ticket)
                            where, keys, results = self._result(future)
                            same.check(where, share, keys)
                            # What came back need not stay on a cluster.
                            del future
                            yield from finished(share, results)
                        hand_out(line)
                        progress(sum(done(t) * len(share) for t, (_, share) in pending.items()))
                finally:
                    for future, _ in pending.values():
                        future.cancel()
        finally:
            if line is not None:
                self._close(line, [future for future, _ in pending.values()])

    def _at_once(self) -> int:
        """Jobs that run at once: of pools that grow and shrink, counted now and then."""
        if self._workers is not None:
            return self._workers
        now = time.monotonic()
        if self._counted is None or now - self._counted[0] > COUNT_S:
            self._counted = now, max(1, self.count())
        return self._counted[1]

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except (HalfwinkError, RunError, Interrupted):
            raise
        except (Exception, asyncio.CancelledError) as error:
            raise RunError(f"{self.name}: {self._why(error)}; {GO_ON}") from error

    def _why(self, error: BaseException) -> str:
        """Describes the failure of a job that neither ended nor was stopped from here."""
        if isinstance(error, CancelledError | asyncio.CancelledError):
            return f"it gave up a job: {error or 'cancelled'}"
        main = getattr(sys.modules["__main__"], "__file__", None)
        if isinstance(error, BrokenExecutor) and main is not None and not Path(main).is_file():
            return (
                f"its processes run the main program again, and {main} is no file; save it as one"
            )
        return f"{type(error).__name__}: {error}"


def _put(ready: SimpleQueue[str], ticket: str, future: Any) -> None:
    del future
    ready.put(ticket)


class _Same:
    """Check that workers compute what was requested: a result is stored under the key that was
    computed here, so a worker of another version, or with another file of the same name, must be
    rejected.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, str]] = set()

    def check(self, where: str, share: Share, theirs: Sequence[str]) -> None:
        """Raises RunError if a worker's key differs; asked once for each worker and name."""
        for (_, job), key in zip(share, theirs, strict=True):
            known = where, job.workload, job.machine
            if known in self._seen:
                continue
            if job.prepare().key() != key:
                raise RunError(
                    f"{where}: {job.workload} on {job.machine} is not what it is here; expected "
                    "the same halfwink and the same files there"
                )
            self._seen.add(known)


class Dask(Pool):
    """A Dask cluster. Stopping reaches running jobs, also when the client is killed: the scheduler
    then cancels jobs without a client.
    """

    @checked
    def __init__(self, address: str | None = None, *, client: Any = None) -> None:
        """Connects to a scheduler, as ``tcp://HOST:PORT``; without one, starts a cluster of a
        worker process for each processor of this machine, which ends with this process.

        Raises:
            HalfwinkError: dask is not installed, or the address does not answer; one line.
        """
        try:
            distributed: Any = import_module("distributed")
        except ImportError:
            line = "pip install 'dask[distributed]'"
            raise HalfwinkError(f"executor dask: dask is not installed; run: {line}") from None
        try:
            if client is None and address is None:
                here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
                count = os.cpu_count() or 1
                client = distributed.Client(n_workers=count, threads_per_worker=1, **here)
            super().__init__(client or distributed.Client(address))
            if client is None:
                # Of a scheduler that is gone they log tracebacks; one line says it.
                for part in ("batched", "client"):
                    logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)
        except (OSError, ValueError) as error:
            raise HalfwinkError(f"executor dask: {address}: {error}") from error
        except RuntimeError as error:
            line = f"executor dask: {error} A program that starts a cluster is a file, and does so"
            raise HalfwinkError(f'{line} under `if __name__ == "__main__":`') from error

    @property
    def name(self) -> str:
        """Returns the name for messages."""
        return "executor dask"

    def count(self) -> int:
        """See Pool: threads of all workers."""
        try:
            return sum(self._pool.nthreads().values())
        except OSError as error:
            raise RunError(f"{self.name}: {self._why(error)}; {GO_ON}") from error

    def _submit(self, *arguments: Any) -> Any:
        # Not pure: a job whose result is asked for again is run again.
        return self._pool.submit(play, *arguments, pure=False)

    def _why(self, error: BaseException) -> str:
        comm: Any = import_module("distributed.comm")
        if self._pool.status == "running" and not isinstance(error, comm.CommClosedError):
            return super()._why(error)
        return "the scheduler is gone"

    @contextmanager
    def _line(self) -> Generator[tuple[Line, Callable[[str], int]]]:
        topic = f"halfwink-{secrets.token_hex(8)}"
        told: dict[str, int] = {}

        def note(event: Any) -> None:
            ticket, done = event[1]
            told[ticket] = done

        self._pool.subscribe_topic(topic, note)
        try:
            yield DaskLine(topic), lambda ticket: told.get(ticket, 0)
        finally:
            with suppress(Exception):  # A scheduler that is gone needs no telling.
                self._pool.unsubscribe_topic(topic)

    def _close(self, line: Line, pending: Sequence[Any]) -> None:
        # The scheduler was told, and tells workers, which look several times a second.
        del line, pending

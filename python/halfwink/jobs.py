"""Running jobs: several at a time, each result kept as soon as it is there."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from halfwink import _core
from halfwink.errors import RunError
from halfwink.library import build_id, library

Tables = dict[str, dict[str, list[Any]]]


#: A job whose names were found.
Prepared = _core.PreparedJob | _core.PreparedRouterJob


@dataclass(frozen=True)
class Job:
    """One technique on one workload on one machine, by names.

    In the world of routers: a policy on an application (``ipv4@PROFILE``) on a router.
    """

    workload: str
    machine: str
    technique: str
    set: tuple[tuple[str, str], ...] = ()
    instructions: int | None = None
    timeline_ns: tuple[int, int] | None = None
    world: str = "chip"

    def prepare(self) -> Prepared:
        """Finds what the job names; raises HalfwinkError in one line if it cannot be."""
        if self.world == "router":
            return library().prepare_router(
                self.workload, self.machine, self.technique, list(self.set)
            )
        return library().prepare(
            self.workload,
            self.machine,
            self.technique,
            list(self.set),
            self.instructions,
            self.timeline_ns,
        )


@dataclass(frozen=True)
class Progress:
    """How far a batch is."""

    jobs_done: int
    jobs: int
    instructions_done: int
    instructions: int


class RunStore:
    """Finished runs in a folder, one file each. A file is there only when it is whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}-{build_id()}.json"

    def load(self, key: str) -> Tables | None:
        """The result with this key from this build, if there is one."""
        try:
            return json.loads(self._path(key).read_text())
        except (OSError, ValueError):
            return None

    def save(self, key: str, tables: Tables) -> None:
        """Keeps a result; raises RunError in one line if the disk refuses."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(key), json.dumps(tables))
        except OSError as error:
            raise RunError(f"{self.folder}: cannot keep a result: {error.strerror}") from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that it is either complete or not there; raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        # A device or a pipe is written to, not replaced.
        with path.open("wb", buffering=0) as out:
            out.write(data)
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            # A temporary file is private; what others may read is the user's umask to say.
            os.fchmod(out.fileno(), 0o666 & ~_umask())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class Executor(Protocol):
    """Runs prepared jobs and yields their results as they finish."""

    def run(
        self,
        jobs: Sequence[tuple[int, Prepared]],
        progress: Callable[[int, int], None],
    ) -> Iterator[tuple[int, Tables]]:
        """Yields (number of the job, its tables); calls progress(jobs done, instructions done)."""
        ...


@dataclass
class LocalExecutor:
    """Threads on this machine: the native module lets go of the interpreter while it runs."""

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    def run(
        self,
        jobs: Sequence[tuple[int, Prepared]],
        progress: Callable[[int, int], None],
    ) -> Iterator[tuple[int, Tables]]:
        """See Executor. If the consumer stops early, or on Ctrl-C, running jobs are stopped."""
        controls: dict[int, _core.RunControl] = {}
        lock = threading.Lock()
        finished_instructions = 0

        def work(number: int, job: Prepared) -> Tables:
            control = _core.RunControl()
            with lock:
                controls[number] = control
            try:
                return job.run(control)
            finally:
                with lock:
                    del controls[number]

        done = 0
        pool = ThreadPoolExecutor(self.workers)
        pending: dict[Future[Tables], tuple[int, int]] = {
            pool.submit(work, number, job): (number, job.instructions()) for number, job in jobs
        }
        try:
            while pending:
                ready, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in ready:
                    number, instructions = pending.pop(future)
                    done += 1
                    finished_instructions += instructions
                    yield number, future.result()
                with lock:
                    running = sum(control.done() for control in controls.values())
                progress(done, finished_instructions + running)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            # A job that starts while others are stopped is stopped in the next round.
            while any(not future.done() for future in pending):
                with lock:
                    for control in controls.values():
                        control.stop()
                wait(pending, timeout=0.1)


def run_jobs(
    jobs: Sequence[Job],
    *,
    store: RunStore | None = None,
    fresh: bool = False,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Tables]:
    """Runs jobs and returns their tables, in the order of the jobs.

    Results already in the store are reused unless ``fresh``. Every result is stored as soon as it
    is there, so a run that is cut short goes on where it was.
    """
    prepared = [job.prepare() for job in jobs]
    results: dict[int, Tables] = {}
    if store is not None and not fresh:
        for number, job in enumerate(prepared):
            if (known := store.load(job.key())) is not None:
                results[number] = known
    # Equal jobs (a workload named twice) are run once.
    first: dict[str, int] = {}
    for number, job in enumerate(prepared):
        first.setdefault(job.key(), number)
    missing = [(n, prepared[n]) for n in first.values() if n not in results]
    known_jobs = len(first) - len(missing)
    total = sum(job.instructions() for _, job in missing)

    def report(done: int, instructions: int) -> None:
        if progress is not None:
            progress(Progress(known_jobs + done, len(first), instructions, total))

    report(0, 0)
    for number, tables in (executor or LocalExecutor()).run(missing, report):
        results[number] = tables
        if store is not None:
            store.save(prepared[number].key(), tables)
    return [
        results[n] if n in results else results[first[prepared[n].key()]] for n in range(len(jobs))
    ]

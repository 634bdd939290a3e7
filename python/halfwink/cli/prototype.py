"""``halfwink live dataset`` and ``halfwink live serve``: the prototype of a hybrid server."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from halfwink.bed import prototype
from halfwink.cli.console import parted, print_table, print_tables, put_tables, say
from halfwink.cli.load import check_seed, milliseconds
from halfwink.errors import HalfwinkError, RunError

Flag = Annotated[bool, Parameter(negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Out = Annotated[Path | None, Parameter(name=["-o", "--out"])]


def dataset(
    folder: Path,
    /,
    *,
    files: int = 2000,
    min_bytes: Annotated[int, Parameter(name="--min-bytes")] = 6_000,
    max_bytes: Annotated[int, Parameter(name="--max-bytes")] = 1_400_000,
    mean_bytes: Annotated[float, Parameter(name="--mean-bytes")] = 40_000.0,
    seed: int = 1,
    threads: int | None = None,
    check: Flag = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write a data set of text files for the prototype: 40 kB in the mean, few of them large.

    The thesis has 250,000 files (10 GB). The same values make the same bytes; what is there
    already is kept, what was begun is finished.

    Parameters
    ----------
    folder
        A new or empty folder, or one made by this command.
    files
        Number of files.
    min_bytes
        Size of the smallest possible file.
    max_bytes
        Size of the largest possible file.
    mean_bytes
        Mean of the law (bounded Pareto); its shape is solved from it.
    seed
        Seed of sizes and text.
    threads
        Number of threads that write (default: as many as CPUs).
    check
        Read the existing data set and compare its checksum instead.
    json
        Print one JSON document.
    quiet
        Print no messages and no table.
    """
    if threads is not None and not 1 <= threads <= 64:
        raise HalfwinkError(f"--threads {threads}: expected 1 to 64")
    for name, value in (("files", files), ("min-bytes", min_bytes), ("max-bytes", max_bytes)):
        if not 1 <= value < 1 << 40:
            raise HalfwinkError(f"--{name} {value}: expected 1 or more")
    check_seed(seed)
    if check:
        found = prototype.check(folder)
    else:
        shown = 0

        def progress(written: int) -> None:
            nonlocal shown
            if written * 10 // files > shown:
                shown = written * 10 // files
                say(f"{written:,} of {files:,} files", quiet=quiet)

        with _signals_as_interrupt():
            found = prototype.dataset(
                folder,
                files=files,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                mean_bytes=mean_bytes,
                seed=seed,
                threads=threads,
                progress=progress,
            )
    if json:
        print_tables("live dataset", {}, found)
    elif not quiet:
        rows = [
            ["files", f"{found['options']['files']:,}"],
            ["bytes", f"{found['bytes']:,}"],
            ["shape", f"{found['shape']:.4f}"],
            ["sum (xxh3)", found["sum"]],
        ]
        print_table([("what", "left"), ("value", "right")], rows)
    return 0


def serve(
    folder: Path,
    /,
    *,
    listen: str = "127.0.0.1:8080",
    workers: int = 1,
    cpus: str = "",
    name: str = "pool",
    slow: float = 1.0,
    slow_by: Annotated[Literal["wait", "spin"], Parameter(name="--slow-by")] = "wait",
    repeat: int = 1,
    quota: float | None = None,
    seconds: float | None = None,
    json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
) -> int:
    """Answer /readfile/N, /ksort/N, /compress/N and /count/N on the files of a data set.

    One thread per worker stays on its CPU and serves one request at a time; all others wait in one
    queue. /health answers 204, /index lists files, /info says how the pool is set. Prints `ready`
    with its address on standard error. SIGTERM or Ctrl-C ends it with its report.

    Parameters
    ----------
    folder
        Data set that was made by `halfwink live dataset`.
    listen
        HOST:PORT (port 0 for any) or unix:PATH.
    workers
        Requests in service at once, at most.
    cpus
        CPUs of the workers, in turn, as 0,1 (default: all that are allowed).
    name
        Name of the pool in the X-Backend header of answers.
    slow
        Factor on the processor time of a request, for a slower machine.
    slow_by
        Way in which a slower machine takes longer: wait, which leaves the CPU to others and is
        right where pools share CPUs; or spin, which repeats the work and keeps the CPU busy.
    repeat
        Number of times that the work of a request is done, for service times of milliseconds.
    quota
        Per cent of one CPU that the process gets (a control group of its own).
    seconds
        Length of the run in seconds (default: until a signal).
    json
        Print the report as one JSON document.
    out
        Write that document to this file.
    quiet
        Print no messages and no table.
    """
    if seconds is not None and not 0 < seconds <= 30 * 86_400:
        raise HalfwinkError(f"--seconds {seconds}: expected above 0, at most 30 days")
    if not 1 <= workers <= 1024 or not 1 <= repeat <= 100_000:
        raise HalfwinkError("--workers, --repeat: expected 1 to 1024, 1 to 100000")
    asked: list[int] = []

    def end(number: int, _frame: Any) -> None:
        asked.append(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with prototype.Pool(
            folder,
            workers=workers,
            listen=listen,
            name=name,
            cpus=_cpus(cpus),
            slow=slow,
            slow_by=slow_by,
            repeat=repeat,
            quota=quota,
        ) as pool:
            say(f"ready {pool.url}", quiet=quiet)
            left = float("inf") if seconds is None else seconds
            while not asked and left > 0 and pool.is_running:
                time.sleep(min(left, prototype.TICK_S))
                left -= prototype.TICK_S
            alive = pool.is_running
            found = pool.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    put_tables("live serve", *parted(found, "workers"), out, json=json)
    if not json and not quiet:
        _show_pool(found)
    if not alive:
        raise RunError("a worker has died; what it said is above")
    return 0


def _cpus(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise HalfwinkError(f"--cpus {text}: expected numbers, as 0,1") from None


@contextmanager
def _signals_as_interrupt() -> Generator[None]:
    """SIGTERM ends the work as Ctrl-C does."""

    def end(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show_pool(found: dict[str, Any]) -> None:
    rows = [
        [
            str(n),
            str(worker["cpu"]),
            f"{worker['served']:,}",
            f"{worker['refused']:,}",
            f"{worker['busy_s']:.3f}",
            f"{worker['cpu_s']:.3f}",
        ]
        for n, worker in enumerate(found["workers"])
    ]
    heads = ["worker", "CPU", "served", "refused", "busy s", "CPU s"]
    print_table([(head, "right") for head in heads], rows)
    times = milliseconds(found["service_s"])
    say(f"{found['served']:,} served in {found['duration_s']:.3f} s; in service, ms: {times}")

"""The prototype of a hybrid server: data set, pools of workers, loads, calibration.

from halfwink.bed import prototype

prototype.dataset("pages", files=2000)
with prototype.Pool("pages", workers=2, slow=3.0) as small:
    found = prototype.load(small.url, rate=200.0, seconds=5.0, workload="count")
    found["latency_s"]["p99"]
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from halfwink.bed.arrivals import ARRIVALS, arrival_times
from halfwink.bed.worker_pool import Pool, info
from halfwink.errors import HalfwinkError, RunError
from halfwink.files import write_whole
from halfwink.live import native
from halfwink.models.delay_model import Calibration, fit_pool

__all__ = [
    "ARRIVALS",
    "TICK_S",
    "WORKLOADS",
    "Load",
    "Pool",
    "arrival_times",
    "calibrate",
    "check",
    "dataset",
    "info",
    "load",
]

#: What can be asked for, of each file.
WORKLOADS = ("readfile", "ksort", "compress", "count")
#: Files beside the pages: options and sum of a data set, paths and sizes.
DESCRIPTION, INDEX = "halfwink-dataset.toml", "index.csv"
#: How often a wish to stop is looked for.
TICK_S = 0.1
#: Of each run of a calibration, the share that is left out at its start.
WARM_UP = 0.1


def dataset(
    folder: Path | str,
    *,
    files: int = 2000,
    min_bytes: int = 6_000,
    max_bytes: int = 1_400_000,
    mean_bytes: float = 40_000.0,
    seed: int = 1,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Writes pages of text whose sizes follow a bounded Pareto law (Niccolini 2012, Fig 3.2).

    The same values make the same bytes. A folder that holds them already is left as it is; one that
    was begun, or has lost files, is finished.

    Args:
        folder: a new or empty folder, or one made by this.
        files: number of files; the thesis has 250,000 (10 GB).
        min_bytes: size of the smallest possible file.
        max_bytes: size of the largest possible file.
        mean_bytes: mean of the law; the shape is solved from it.
        seed: seed of sizes and text.
        threads: number of threads that write; by default as many as CPUs.
        progress: told of how many files are written.

    Returns:
        ``options``, ``shape``, ``bytes`` of all files, ``sum`` (XXH3 over all files' XXH3).

    Raises:
        HalfwinkError: the folder holds something else, or there is no room.
        RunError: the kernel refuses.
    """
    options: dict[str, Any] = {
        "files": files,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "mean_bytes": mean_bytes,
        "seed": seed,
    }
    _reopen(Path(folder), options)
    threads = threads or len(os.sched_getaffinity(0))
    writer = native.DatasetWriter(str(folder), **options, threads=threads)
    try:
        while not writer.wait(TICK_S):
            if progress is not None:
                progress(writer.written)
    except BaseException:
        writer.stop()
        raise
    return writer.result()


def _reopen(folder: Path, options: Mapping[str, Any]) -> None:
    """Marks a finished data set of these options that has lost files as one that was only begun:
    its description has no sum then."""
    try:
        text = (folder / DESCRIPTION).read_text()
        made = tomllib.loads(text)
        if made["options"] != options or not made["sum"] or _is_whole(folder):
            return
    except (OSError, ValueError, KeyError):
        # The folder is new, or the writer says what is wrong there.
        return
    try:
        write_whole(folder / DESCRIPTION, text.replace(f'sum = "{made["sum"]}"', 'sum = ""'))
    except OSError as error:
        raise RunError(f"{folder / DESCRIPTION}: {error.strerror}") from error


def _is_whole(folder: Path) -> bool:
    """Returns whether all files of the index are there, each with its size."""
    try:
        rows = [row.rpartition(",") for row in (folder / INDEX).read_text().splitlines()[1:]]
        return all((folder / path).stat().st_size == int(size) for path, _, size in rows)
    except FileNotFoundError:
        return False


def check(folder: Path | str) -> dict[str, Any]:
    """Reads all files of a data set again.

    Raises:
        HalfwinkError: a file is missing or differs.
    """
    return native.dataset_check(str(folder))


class Load:
    """Requests that are sent when they are due (see `load`)."""

    def __init__(
        self,
        url: str,
        *,
        rate: float | None = None,
        clients: int | None = None,
        arrivals: str = "poisson",
        seconds: float = 10.0,
        requests: int | None = None,
        seed: int = 1,
        **options: Any,
    ) -> None:
        """Begins to send; arguments as of `load`."""
        if clients is not None and (rate is not None or arrivals != "poisson"):
            raise HalfwinkError("clients send when they are answered: no rate and no arrivals")
        pace: dict[str, Any] = {}
        if clients is not None:
            pace = {"clients": clients, "seconds": seconds}
        else:
            pace = arrival_times(arrivals, rate, seconds, seed=seed)
        self._native = native.Load(url, requests=requests, seed=seed, **pace, **options)
        self._result: dict[str, Any] | None = None

    def wait(self, seconds: float) -> bool:
        """Waits for at most so many seconds, and returns whether it has ended."""
        return self._native.wait(seconds)

    def stop(self) -> None:
        """Asks it to end."""
        self._native.stop()

    def result(self) -> dict[str, Any]:
        """Waits for its end; what was found.

        Raises:
            HalfwinkError: the options or the server's files do not fit.
            RunError: the server cannot be reached.
        """
        if self._result is None:
            self._native.wait(math.inf)
            self._result = self._native.result()
        return self._result

    def records(self) -> dict[str, list[Any]]:
        """Columns ``at_s``, ``bytes``, ``latency_s``, ``service_s``, ``status``, ``backend``.

        Only with ``keep=True``.
        """
        self.result()
        names = ("at_s", "bytes", "latency_s", "service_s", "status", "backend")
        return dict(zip(names, self._native.records(), strict=True))

    def write_csv(self, path: Path | str) -> None:
        """Writes the same columns, times to the nanosecond. Only with ``keep=True``."""
        self.result()
        self._native.write_csv(str(path))

    def __enter__(self) -> Load:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()


def load(
    url: str,
    *,
    rate: float | None = None,
    clients: int | None = None,
    arrivals: str = "poisson",
    seconds: float = 10.0,
    requests: int | None = None,
    seed: int = 1,
    log: Path | str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Sends requests and measures how long they take.

    Args:
        url: ``http://HOST:PORT`` or ``unix:PATH``.
        rate: requests per second; of a profile its peak; scales a file of rates to this peak.
        clients: instead, so many that each ask again as soon as they are answered.
        arrivals: ``poisson``, ``constant``, ``world-cup``, ``evaluation`` (see `traffic.profile`),
            or a file (see `arrival_times`).
        seconds: length of the load, in seconds.
        requests: ends after so many.
        seed: seed of arrivals and files.
        log: file for every request, CSV ``at_s,bytes,latency_s,service_s,status,backend``.
        options: ``workload``, ``files``, ``path``, ``connections``, ``http2``, ``timeout_s``,
            ``warm_up_s``, ``backend_header``, ``spin_us``.

    Returns:
        Counts, rates and times in seconds: ``latency_s`` from when requests were due,
        ``service_s`` from when they were really sent, ``lateness_s`` between both.
    """
    options.setdefault("keep", log is not None)
    with Load(
        url,
        rate=rate,
        clients=clients,
        arrivals=arrivals,
        seconds=seconds,
        requests=requests,
        seed=seed,
        **options,
    ) as work:
        found = work.result()
        if log is not None:
            work.write_csv(log)
        return found


def calibrate(
    pools: Mapping[str, str],
    *,
    workload: str = "count",
    requests: int = 2000,
    rounds: int = 3,
    seconds: float = 60.0,
    threads: int | None = None,
    seed: int = 1,
    tell: Callable[[str], None] | None = None,
) -> Calibration:
    """Measures delay against size with 1 to T requests in service, and fits Niccolini's Eq 3.1.

    delay = alpha + beta[N] * size, where N requests are in service at once (a closed loop of N
    clients, so none waits). Runs of all N and pools take turns, so that a machine that is slow for
    a while is slow for all. Whatever the machine adds on one request in a few (interrupts, other
    programs) moves least squares, so the model is fitted on medians of requests of like size; the
    plain fit stands beside it.

    Args:
        pools: names with addresses, ``{"small": "http://...", "big": "unix:..."}``.
        workload: which.
        requests: number of requests of each N, over all rounds.
        rounds: turns.
        seconds: longest time of one run.
        threads: highest N; as many as the pool has workers if it is not said.
        seed: seed of the files that are picked.
        tell: told of each run.

    Raises:
        HalfwinkError: a server is no pool, or a request failed.
        RunError: a server cannot be reached.
    """
    if workload not in WORKLOADS:
        raise HalfwinkError(f"workload {workload}: expected one of {', '.join(WORKLOADS)}")
    if requests < 20 * rounds or rounds < 1:
        raise HalfwinkError(f"{requests} requests in {rounds} rounds: expected 20 or more in each")
    points: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for name, url in pools.items():
        most = threads or int(info(url)["workers"])
        points[name] = {n: [] for n in range(1, most + 1)}
    each = requests // rounds
    for turn in range(rounds):
        for name, url in pools.items():
            for n, rows in points[name].items():
                if tell is not None:
                    tell(f"{name}: {n} at once, round {turn + 1} of {rounds}")
                rows += _run(url, workload, n, each, seconds, seed * 7919 + turn * 64 + n)
    return Calibration(workload, {name: fit_pool(rows) for name, rows in points.items()})


def _run(
    url: str, workload: str, clients: int, requests: int, seconds: float, seed: int
) -> list[tuple[float, float]]:
    with Load(
        url,
        clients=clients,
        requests=requests,
        seconds=seconds,
        workload=workload,
        connections=clients,
        seed=seed,
        keep=True,
    ) as work:
        found = work.result()
        columns = work.records()
    if found["errors"]:
        raise HalfwinkError(f"{url}: requests failed: {found['errors']}")
    rows = list(zip(columns["bytes"], columns["service_s"], strict=True))
    return [(float(size), s) for size, s in rows[int(len(rows) * WARM_UP) :]]

"""A user's own block I/Os on a measured machine, as the storage world plays them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.jobs import Job, pairs
from halfwink.live.block_advice import Load
from halfwink.results.relate import IDENTITY
from halfwink.results.results import Results
from halfwink.results.seeds import student
from halfwink.runs.studies import run_all

#: Seeds of a load that is played to see what to expect: enough for an interval of their mean.
_SEEDS = (1, 2, 3, 4, 5)
#: I/Os that are counted in each of these; as many go before.
IOS = 20_000
#: Policies that a user's own load is played under: the shipped driver, two phases, where they
#: adapt, each CPU its own, and those that ask instead of sleeping.
LOAD_POLICIES = (
    "single-thread",
    "dynamic",
    "cache-aware",
    "issuer",
    "multi-queue",
    "polled",
    "hybrid-poll",
)
#: The policy whose figures advice has: the one that it names where there are several caches.
ADVISED = "cache-aware"
#: Lines between sockets.
_FAR = ("coherence.one_hop_ns", "coherence.two_hops_ns")
#: Stages of the described driver, in microseconds: their sum is what an I/O takes there.
_STAGES = {"driver.interrupt_us": 0.99, "driver.structures_us": 5.1, "driver.completion_us": 2.8}


def as_measured(measured: Mapping[str, Any], load: Load) -> dict[str, Any]:
    """Returns the values that make `westmere-ex` a measured machine: caches as sockets, its line
    times, and stages that together take the time of an I/O here.

    Args:
        measured: see :func:`halfwink.live.block_advice.measure`.
        load: load with the time of an I/O.
    """
    caches: dict[tuple[int, int], int] = {}
    for cpu in measured["machine"]["cpus"]:
        place = (cpu["package"], cpu["cache"])
        caches[place] = caches.get(place, 0) + 1
    # The described machines have as many CPUs in each socket, and eight sockets at most.
    sockets, cores = min(len(caches), 8), min(caches.values())
    values: dict[str, Any] = {"topology.sockets": sockets, "topology.cores_per_socket": cores}
    # The clock at which the stages were measured: they are set to this machine's own times.
    values["topology.ghz"] = 3.46
    scale = load.io_us / sum(_STAGES.values())
    values |= {path: us * scale for path, us in _STAGES.items()}
    for same, paths in (
        (True, ["coherence.same_socket_ns"]),
        (False, list(_FAR)),
    ):
        trips = [t["line_ns"] for t in measured["trips"] if t["same_cache"] is same]
        if trips:
            # There and back: two transfers.
            values |= dict.fromkeys(paths, sum(trips) / len(trips) / 2)
    # Who is given an I/O is not interrupted: it finds it in a line of the giver's.
    lines_ns = [values.get(path, 0.0) for path in ("coherence.same_socket_ns", *_FAR)]
    values |= dict.fromkeys(("driver.ipi_send_us", "driver.ipi_receive_us"), max(lines_ns) / 1e3)
    return values


def simulate(measured: Mapping[str, Any], load: Load) -> dict[str, float]:
    """Simulates a load on a measured machine: `westmere-ex` with its caches as sockets, its line
    times, and stages that together take the time of an I/O here.

    Args:
        measured: see :func:`halfwink.live.block_advice.measure`.
        load: load of the device.

    Returns:
        Modelled, of ``cache-aware``, the mean over five seeds with its 95 % interval: ``iops``,
        ``cpus`` (the driver's CPU time a second) and ``uj_per_io``, each with ``_low`` and
        ``_high``.
    """
    values = as_measured(measured, load)
    cpus = values["topology.sockets"] * values["topology.cores_per_socket"]
    values["rate_kiops"] = load.iops / 1e3
    rows = _play(f"random-read@{cpus}", [ADVISED], values).runs
    return _means(rows, ("iops", "cpus", "uj_per_io"))


def _play(workload: str, techniques: Sequence[str], values: Mapping[str, Any]) -> Results:
    """Plays a load under each technique and seed; of a long trace each seed has another part."""
    last, options = len(_SEEDS) - 1, pairs({"ios": IOS, "warm_up": IOS})
    parts = [{"seed": seed, "part": n / last} for n, seed in enumerate(_SEEDS)]
    jobs = [
        Job("storage", workload, "westmere-ex", technique, pairs({**values, **part}), options)
        for technique in techniques
        for part in parts
    ]
    return run_all(jobs, baseline=jobs[0].technique)


def _means(rows: pl.DataFrame, columns: Sequence[str]) -> dict[str, float]:
    """Means over seeds, and their 95 % intervals (Student's t); nothing of them is below zero."""
    found: dict[str, float] = {}
    rows = rows.with_columns(
        cpus="driver_cpus", awake_cpus="busy_cpus", uj_per_io=1e6 * pl.col("energy_j_per_unit")
    )
    for name in columns:
        values = [value for value in rows[name].to_list() if value is not None]
        mean = statistics.fmean(values)
        half = student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
        found |= {name: mean, f"{name}_low": max(mean - half, 0.0), f"{name}_high": mean + half}
    return found


@dataclass(frozen=True)
class LoadRuns:
    """A user's own load on a measured machine. Everything is modelled, also the energy.

    Attributes:
        load: properties of the load: ``kind`` (``fio``, ``blktrace``), ``issuers`` (CPUs that
            issue), ``depth`` (I/Os in flight of all jobs), ``bytes`` and ``reads_pct`` of an I/O,
            ``iops`` and ``peak_iops`` (of a trace, the latter in its busiest tenth of a second),
            ``traced_latency_us``, ``device_latency_us`` (played), ``phases``, ``left_out``,
            ``read_as``.
        runs: a row for each policy and seed, as `halfwink compare -w storage` has it.
    """

    load: dict[str, Any]
    runs: pl.DataFrame

    def expected(self) -> list[dict[str, Any]]:
        """A row for each policy: means over seeds with their 95 % intervals (``_low``, ``_high``)
        of ``iops``, ``latency_p50_us``, ``latency_p99_us``, ``cpus`` (the driver's CPU time a
        second), ``awake_cpus`` (CPUs that did not sleep) and ``uj_per_io``."""
        columns = ("iops", "latency_p50_us", "latency_p99_us", "cpus", "awake_cpus", "uj_per_io")
        return [
            {"policy": name, **_means(rows, columns)}
            for (name,), rows in self.runs.group_by(["technique"], maintain_order=True)
        ]


def load_runs(
    measured: Mapping[str, Any],
    path: str | PathLike[str],
    *,
    io_us: float,
    latency_us: float | None = None,
    policies: Sequence[str] = LOAD_POLICIES,
    ignore: Sequence[str] = (),
) -> LoadRuns:
    """Plays a user's own load on a measured machine.

    Args:
        measured: see :func:`halfwink.live.block_advice.measure`.
        path: a job file or an I/O log of fio; the text of blkparse, biosnoop or perf script; a CSV
            of MSR Cambridge or Alibaba; one of blktrace's files (then all of its CPUs), or a folder
            with these. Packed or not.
        io_us: CPU time that an I/O takes here.
        latency_us: the device's; of a trace what it says, else 1 us, as memory.
        policies: techniques of the world ``storage``.
        ignore: parts that are left out although they matter, by the word that the error has.

    Raises:
        HalfwinkError: the load cannot be read: with file and line.
    """
    if latency_us is not None and not 0 <= latency_us <= 1e6:
        raise HalfwinkError(f"--latency-us {latency_us:g}: expected 0 to 1000000")
    values = as_measured(measured, Load(io_us=io_us))
    # The bridges of that machine are not this one's.
    values["device.pcie_us"] = 0.0
    if latency_us is not None:
        values["device.latency_us"] = float(latency_us)
    if ignore:
        values["ignore"] = ",".join(ignore)
    found = _play(f"file@{fspath(path)}", policies, values)
    return LoadRuns(found.source.drop(IDENTITY).row(0, named=True), found.runs)


def asked_of(runs: LoadRuns, known: Load) -> tuple[Load, dict[str, float]]:
    """Returns the load of the device, and the expected results of the advised policy.

    Args:
        runs: runs with :data:`ADVISED` among the policies.
        known: load with the time of an I/O.
    """
    row = next(row for row in runs.expected() if row["policy"] == ADVISED)
    expected: dict[str, float] = {}
    for name in ("iops", "cpus", "uj_per_io"):
        expected |= {name + end: row[name + end] for end in ("", "_low", "_high")}
    peak = runs.load["peak_iops"]
    # Jobs that wait for what they issued ask for as much as there is.
    fastest = max(1.0, row["iops"] if peak is None else peak)
    mean = runs.load["iops"]
    return replace(known, iops=fastest, mean_iops=mean), expected

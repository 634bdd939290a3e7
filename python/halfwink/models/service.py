"""Service times of a recorded workload on two simulated chips, as a workload of a hybrid server.

profile = service_profile("nginx-1pct", small="in-order", big="ev6")
profile.toml()  # [workloads.nginx-1pct]
profile.write("mine.toml", server="niccolini")  # then: halfwink hybrid ... -m mine.toml
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.files import write_whole
from halfwink.jobs import Settings
from halfwink.library import root
from halfwink.results.results import Results
from halfwink.runs.comparison import compare

#: With more requests under way in the mean than this, latencies hold waits for others.
ALONE = 0.2


@dataclass(frozen=True)
class Side:
    """A workload on one chip with one core. Times and watts are modelled.

    Attributes:
        machine: the chip, with its number of cores.
        requests: requests that were played.
        in_flight: requests under way in the mean: rate x latency (Little's law).
        alone: tells whether ``points`` are latencies of requests that were alone, or all the mean
            time that the core worked for a request.
        points: (milliseconds, share of requests that take no longer), rising.
        mean_ms: mean of the points.
        idle_w: core, third-level cache and memory without requests; none if the core never idles.
        busy_w: power while the core works.
    """

    machine: str
    requests: int
    in_flight: float
    alone: bool
    points: list[tuple[float, float]]
    mean_ms: float
    idle_w: float | None
    busy_w: float


@dataclass(frozen=True)
class ServiceProfile:
    """Service times of a workload on a small and a big chip."""

    workload: str
    technique: str
    small: Side
    big: Side

    @property
    def name(self) -> str:
        """Name of the workload in a description: no folder, no suffix."""
        return re.sub(r"[^A-Za-z0-9_-]", "-", Path(self.workload).stem)

    def toml(self) -> str:
        """The workload, for ``machines/server/*.toml``; what is no part of it as comments."""
        lines = [f"# Service times of `{self.workload}` under `{self.technique}`, simulated."]
        for label, side in (("small", self.small), ("big", self.big)):
            lines += [f"# {label}: {text}" for text in _comments(side)]
        lines += [f"[workloads.{self.name}]", 'size = { law = "uniform", min = 0.0, max = 1.0 }']
        for label, side in (("small", self.small), ("big", self.big)):
            points = ", ".join(f"[{ms:.6g}, {share:.6g}]" for ms, share in side.points)
            lines.append(f"{label} = {{ profile_ms = [{points}] }}")
        return "\n".join(lines) + "\n"

    def write(self, file: Path | str, *, server: str | None = None) -> None:
        """Writes the workload, after all that a hybrid server's description says if one is named.

        Raises:
            HalfwinkError: there is no such server, or it has a workload of that name.
        """
        text = self.toml()
        if server is not None:
            own = server.endswith(".toml")
            source = Path(server) if own else root() / "machines" / "server" / f"{server}.toml"
            if not source.is_file():
                raise HalfwinkError(f"no hybrid server `{server}`")
            base = source.read_text()
            if f"[workloads.{self.name}]" in base:
                raise HalfwinkError(f"{source}: has a workload `{self.name}` already")
            text = f"{base.rstrip()}\n\n{text}"
        write_whole(Path(file), text.encode())


def service_profile(
    workload: str,
    *,
    small: str = "in-order",
    big: str = "ev6",
    technique: str = "always-on",
    instructions: int | None = None,
    set: Settings | None = None,
    out: Path | str | None = None,
) -> ServiceProfile:
    """Service times of one request alone on two chips, from simulations of one core each.

    Where at most a fifth of a request is under way in the mean (recordings of open loads at a few
    per cent, as ``nginx-1pct``), latencies are service times: the run's histogram of them, its
    buckets a fifth wide, with lines between its limits, scaled so that the mean is exact. Where
    requests overlap (recordings of closed loads keep about a dozen under way), latencies hold waits
    for other requests: then every request takes the mean time that the core was not idle for one.
    Client and network are no part of either.

    Args:
        workload: a recorded one with requests: ``nginx-1pct``, ``redis``, or a file.
        small: chip of the small machine; one core unless a number is named.
        big: chip of the big machine.
        technique: technique that both run under.
        instructions: largest number of instructions of each core.
        set: values of both chips to change, as ``{"l2.size": "512KB"}``.
        out: folder in which finished runs are kept.

    Raises:
        HalfwinkError: there is none of that name, or it has no requests.
        RunError: a run failed.
    """

    def side(machine: str) -> Side:
        one = machine if re.search(r"-\d+$|\.toml$", machine) else f"{machine}-1"
        found = compare(
            workload,
            techniques=[technique],
            machine=one,
            set=set,
            instructions=instructions,
            out=out,
        )
        return _side(found, workload, technique)

    return ServiceProfile(workload, technique, side(small), side(big))


def _side(found: Results, workload: str, technique: str) -> Side:
    run = found.runs.filter(technique=technique).row(0, named=True)
    count = run["requests"]
    if not count or run["latency_mean_us"] is None:
        raise HalfwinkError(f"`{workload}` has no whole requests: expected a recorded server")
    mean_ms = run["latency_mean_us"] * 1e-3
    in_flight = count * mean_ms * 1e-3 / run["duration_s"]
    alone = in_flight <= ALONE
    if alone:
        points = _points(found, technique, run["latency_max_us"] * 1e-3, mean_ms)
    else:
        mean_ms = 1e3 * run["run_s"] * (1 - run["idle_share"]) / count
        points = [(mean_ms, 0.0), (mean_ms, 1.0)]
    idle_w, busy_w = _watts(found, technique, run["duration_s"])
    return Side(run["machine"], count, in_flight, alone, points, mean_ms, idle_w, busy_w)


def cumulative(
    buckets: pl.DataFrame, unit_per_ns: float, longest: float
) -> list[tuple[float, float]]:
    """Returns the limits of a histogram's buckets, in another unit and up to the longest value
    that was seen, and the share of values below each."""
    total = int(buckets["count"].sum())
    points: list[tuple[float, float]] = []
    below = 0
    for row in buckets.iter_rows(named=True):
        start = (row["from_ns"] * unit_per_ns, below / total)
        if not points or points[-1][0] < start[0]:
            points.append(start)
        below += row["count"]
        points.append((min(row["to_ns"] * unit_per_ns, longest), below / total))
    return points


def _points(
    found: Results, technique: str, longest_ms: float, mean_ms: float
) -> list[tuple[float, float]]:
    """Limits of the histogram's buckets, and what lies below each."""
    buckets = found.histograms.filter(histogram="latency", technique=technique).sort("from_ns")
    points = cumulative(buckets, 1e-6, longest_ms)
    pairs = list(pairwise(points))
    mean = sum((high[1] - low[1]) * (low[0] + high[0]) / 2 for low, high in pairs)
    return [(ms * mean_ms / mean, share) for ms, share in points]


def _watts(found: Results, technique: str, duration_s: float) -> tuple[float | None, float]:
    """Without requests, and while the core works: the core's states, and what is shared."""
    idle_s = idle_j = busy_s = busy_j = shared_j = work_j = 0.0
    for row in found.ledger.filter(technique=technique).iter_rows(named=True):
        core, idle = row["component"].startswith("core"), row["mode"] == "idle"
        if core and idle:
            idle_s, idle_j = idle_s + row["time_s"], idle_j + row["energy_j"]
        elif core:
            busy_s, busy_j = busy_s + row["time_s"], busy_j + row["energy_j"]
        elif idle:
            shared_j += row["energy_j"]
        else:
            work_j += row["energy_j"]
    shared_w = shared_j / duration_s
    idle_w = idle_j / idle_s + shared_w if idle_s else None
    return idle_w, (busy_j + work_j) / busy_s + shared_w


def _comments(side: Side) -> list[str]:
    how = (
        "latencies of requests that were alone"
        if side.alone
        else "requests overlap: the mean time that the core worked for one"
    )
    idle = "-" if side.idle_w is None else f"{side.idle_w:.3f}"
    return [
        f"{side.machine}, {side.requests} requests, {side.in_flight:.3g} under way in the mean",
        f"{how}; mean {side.mean_ms:.4g} ms",
        f"idle {idle} W, busy {side.busy_w:.3f} W (core, third-level cache, memory; modelled)",
    ]

"""Hybrid servers: what a small machine beside a big one saves, and at what delay.

import halfwink as hw

run = hw.hybrid_server("niccolini", policies=["always-on", "hybrid"], loads=["10", "30", "90"])
run.runs  # power, energy per request, delays
run.proportionality()
hw.hybrid_year(policies=["hybrid"], load_pct=4)  # a year of the World Cup on 1000 servers
hw.hybrid_experiments().power  # power against load, as Niccolini 2012, Fig 3.5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.frames import Frames, frame, frames
from halfwink.jobs import Settings, names, pairs
from halfwink.library import library
from halfwink.service import ServiceProfile, service_profile

__all__ = [
    "HybridExperiments",
    "HybridRun",
    "ServiceProfile",
    "hybrid_experiments",
    "hybrid_server",
    "hybrid_year",
    "service_profile",
]

#: Loads that are shown unless others are asked for, in per cent of what both machines carry.
LOADS = ("0", "5", "10", "20", "30", "50", "70", "90")
#: Counts that are played unless others are named: the World Cup's web site, 1998.
COUNTS = "workloads/server/worldcup98-requests-per-minute.csv.xz"
#: How well each steady load is known, and requests of it at most.
ACCURACY_PCT, MOST_STEADY = 2.0, 4_000_000
#: Dispatch that leaves servers independent of each other.
DISPATCH = ("random", "round-robin")


@dataclass(frozen=True)
class HybridExperiments(Frames):
    """All experiments of Niccolini 2012, chapter 3. All watts and times are modelled.

    Attributes:
        facts: values of the description, by name; words in ``text``.
        peaks: workload x threshold: what is carried of more than both machines can.
        delays: workload x arrivals x threshold x load; neither machine sleeps.
        power: workload x wake-up time x sleep power x load.
        ratios: speed of the big machine x small over big workers.
        speeds: results x speed of the small machine.
    """

    facts: pl.DataFrame
    peaks: pl.DataFrame
    delays: pl.DataFrame
    power: pl.DataFrame
    ratios: pl.DataFrame
    speeds: pl.DataFrame


@dataclass(frozen=True)
class HybridRun(Frames):
    """Loads against a hybrid server, or many, under policies. All watts and times are modelled.

    Attributes:
        runs: a row for each workload, load and policy: power in watts (of all servers), energy in
            joules per request, delays in milliseconds, use of the big machine; ``saved_pct`` of the
            power of the first policy; half widths of 95 % confidence intervals in per cent of the
            value (``mean_half_pct``) and whether they are as narrow as was wanted (``known``).
        slots: a row for each span of time in it, if that was asked for.
    """

    runs: pl.DataFrame
    slots: pl.DataFrame

    def proportionality(self) -> pl.DataFrame:
        """Returns measures of how power follows load, for each workload and policy with load 0 and
        two more.

        Load is relative to the highest one shown, power to that at it. Columns as in Wong and
        Annavaram (MICRO 2012): ``dynamic_range_pct``, ``linear_deviation``,
        ``proportionality_gap`` (mean over loads), and ``energy_proportionality`` (Ryckbosch 2011).
        """
        rows: list[dict[str, Any]] = []
        for key, group in self.runs.group_by(["workload", "policy"], maintain_order=True):
            points = group.filter(pl.col("keeps_up") == 1).select("load_pct", "power_w")
            found = _core.proportionality([(load, watts) for load, watts in points.iter_rows()])
            if found is not None:
                rows.append({"workload": key[0], "policy": key[1], **found})
        return pl.DataFrame(rows)


def hybrid_server(
    name: str = "niccolini",
    *,
    workloads: str | Sequence[str] = ("count",),
    policies: str | Sequence[str] = (),
    loads: str | Sequence[str] = LOADS,
    accuracy_pct: float | None = None,
    requests: int | None = None,
    servers: int | None = None,
    dispatch: str = "random",
    slot_s: float | None = None,
    seed: int = 1,
    set: Settings | None = None,
) -> HybridRun:
    """Plays loads against a hybrid server under policies.

    Args:
        name: ``niccolini``, or a TOML file.
        workloads: which workloads; all if none.
        policies: which policies; all if none.
        loads: per cent of what both machines carry, or requests per second (``"200/s"``);
            ``constant:30``; ``mmpp:10,90,5,1`` (two loads, how many seconds each lasts);
            ``log:FILE``, ``counts:FILE``, ``gaps:FILE@30`` (``@``: the mean rate).
        accuracy_pct: a run ends when mean delay, 99th percentile and power have 95 % confidence
            intervals whose half width is this part of them, in per cent; not of fleets.
        requests: largest number of requests of each run (default 200,000, with an accuracy 20
            million, for logs and counts all); except for logs and counts the first tenth is left
            out.
        servers: a fleet of so many; loads are those of all.
        dispatch: ``random``, ``round-robin``, ``least:2``, ``pack:6``.
        slot_s: fill :attr:`HybridRun.slots` with spans of so many seconds.
        seed: seed of all random streams.
        set: values to change, as ``{"big.wake_ms": 50}``.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    found = library().server(name, pairs(set))
    runs, slots = found.query(
        library(),
        {
            "workloads": names(workloads),
            "policies": names(policies),
            "loads": names(loads),
            "requests": requests,
            "accuracy": _share(accuracy_pct),
            "servers": servers,
            "dispatch": dispatch,
            "slot_s": slot_s,
            "seed": seed,
        },
    )
    return HybridRun(saved(frame(runs)), frame(slots))


def hybrid_year(
    name: str = "niccolini",
    policies: str | Sequence[str] = (),
    *,
    counts: str = COUNTS,
    servers: int = 1000,
    load_pct: float | None = None,
    days: float | None = 365,
    workloads: str | Sequence[str] = ("count",),
    dispatch: str = "random",
    points: int = 33,
    accuracy_pct: float | None = ACCURACY_PCT,
    requests: int = MOST_STEADY,
    seed: int = 1,
    set: Settings | None = None,
) -> pl.DataFrame:
    """Plays a year of counts on a fleet of hybrid servers under policies.

    Quasi-stationary: one server is simulated at steady loads, and the counts (requests in each
    minute) are walked through: power between two loads lies on the line between theirs, delays are
    those of both, mixed. It holds where load changes much more slowly than servers settle, and not
    close to saturation; ``hybrid_server(loads=["counts:FILE"], servers=1000)`` plays every request.

    Args:
        name: ``niccolini``, or a TOML file.
        policies: which policies; all if none.
        counts: a file of requests in each minute, hour ..., of all servers.
        servers: number of servers that share them.
        load_pct: scales counts to this mean load, in per cent of what both machines of all servers
            carry; as counted if none. The World Cup's fullest minute is 21 times its mean.
        days: counts are repeated or cut off; once through them if none.
        workloads: which workloads; all if none.
        dispatch: ``random`` or ``round-robin``.
        points: steady loads that are simulated, from 0 to the highest, closer together at the low
            end.
        accuracy_pct: a steady load is played until mean delay, 99th percentile and power have 95 %
            confidence intervals whose half width is this part of them, in per cent; all requests if
            none.
        requests: largest number of requests of each steady load.
        seed: seed of all random streams.
        set: values to change, as ``{"big.wake_ms": 50}``.

    Returns:
        A row for each workload and policy: ``energy_j``, ``power_w`` (of all servers),
        ``j_per_request``, ``always_on_j`` (energy of the same year with both machines always on),
        ``saved_pct`` of it, delays in milliseconds, ``peak_pct`` (load of the fullest step),
        ``highest_pct`` (steps above it are served at it and counted: ``above_minutes``, and
        ``above_requests`` that no other column holds), ``simulated`` requests. All watts and times
        are modelled.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    limits: list[tuple[str, float | None, float, float]] = [
        ("servers", servers, 1, 1_000_000),
        ("load", load_pct, 1e-6, 1e6),
        ("days", days, 1e-3, 1e6),
        ("points", points, 2, 1000),
        ("accuracy_pct", accuracy_pct, 0.05, 50),
        ("requests", requests, 1000, 10**10),
    ]
    for what, value, low, high in limits:
        if value is not None and not low <= value <= high:
            raise HalfwinkError(f"{what} {value:g}: expected {low:g} to {high:g}")
    if dispatch not in DISPATCH:
        why = "servers whose requests depend on each other are played with `halfwink hybrid`"
        raise HalfwinkError(f"dispatch `{dispatch}`: expected {' or '.join(DISPATCH)}; {why}")
    question = {
        "workloads": names(workloads),
        "policies": names(policies),
        "counts": counts,
        "servers": servers,
        "dispatch": dispatch,
        "load_pct": load_pct,
        "days": days,
        "points": points,
        "requests": requests,
        "accuracy": _share(accuracy_pct),
        "seed": seed,
    }
    return frame(library().server(name, pairs(set)).year(library(), question))


def _share(per_cent: float | None) -> float | None:
    return None if per_cent is None else per_cent / 100


def saved(runs: pl.DataFrame) -> pl.DataFrame:
    """Adds ``saved_pct``: of the power of the first policy at the same load."""
    keys = ["workload", "load"]
    if runs.is_empty():
        return runs.with_columns(pl.lit(None, pl.Float64).alias("saved_pct"))
    base = runs.filter(policy=runs["policy"][0]).select(*keys, pl.col("power_w").alias("_base"))
    joined = runs.join(base.unique(keys), on=keys, how="left", maintain_order="left")
    share = 100 * (1 - pl.col("power_w") / pl.col("_base"))
    return joined.with_columns(share.alias("saved_pct")).drop("_base")


def hybrid_experiments(
    name: str = "niccolini", *, set: Settings | None = None
) -> HybridExperiments:
    """Runs all experiments on a hybrid server.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    tables = library().server(name, pairs(set)).tables()
    return HybridExperiments(**frames(tables))

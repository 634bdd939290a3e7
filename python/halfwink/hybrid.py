"""Hybrid servers: all experiments of a work on one of them, and a year of a fleet of them.

import halfwink as hw

hw.hybrid_year(policies=["hybrid"], load_pct=4)  # a year of the World Cup on 1000 servers
hw.hybrid_experiments().power  # power against load, as Niccolini 2012, Fig 3.5
hw.compare("count", world="server", loads=["0", "30", "90"])  # runs of any load
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.frames import Frames, frame, frames
from halfwink.jobs import Settings, names, pairs
from halfwink.library import library
from halfwink.service import ServiceProfile, service_profile

__all__ = [
    "HybridExperiments",
    "ServiceProfile",
    "hybrid_experiments",
    "hybrid_year",
    "service_profile",
]

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
    close to saturation; ``compare("count@counts:FILE", world="server", set={"servers": 1000})``
    plays every request.

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


def hybrid_experiments(
    name: str = "niccolini", *, set: Settings | None = None
) -> HybridExperiments:
    """Runs all experiments on a hybrid server.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    tables = library().server(name, pairs(set)).tables()
    return HybridExperiments(**frames(tables))

"""A year of a fleet of hybrid servers in seconds.

hybrid_year("niccolini", ["hybrid", "power-nap"], load_pct=4)  # a row for each policy

Quasi-stationary: one server is simulated at steady loads, and a year of counts (requests in each
minute) is walked through: power between two loads lies on the line between theirs, delays are those
of both, mixed. It holds where load changes much more slowly than servers settle, and not close to
saturation; ``hybrid_server(loads=["counts:FILE"], servers=1000)`` plays every request instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.hybrid import frame, values
from halfwink.library import library

#: Counts that are played unless others are named: the World Cup's web site, 1998.
COUNTS = "workloads/server/worldcup98-requests-per-minute.csv.xz"
#: How well each steady load is known, and requests of it at most.
ACCURACY, REQUESTS = 0.02, 4_000_000
#: Dispatch that leaves servers independent of each other.
DISPATCH = ("random", "round-robin")


def hybrid_year(
    name: str = "niccolini",
    policies: Sequence[str] = (),
    *,
    counts: str = COUNTS,
    servers: int = 1000,
    load_pct: float | None = None,
    days: float | None = 365,
    workloads: Sequence[str] = ("count",),
    dispatch: str = "random",
    points: int = 33,
    accuracy: float | None = ACCURACY,
    requests: int = REQUESTS,
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """Plays a year of counts on a fleet of hybrid servers under policies.

    Args:
        name: ``niccolini``, or a TOML file.
        policies: which policies; all if none.
        counts: a file of requests in each minute, hour ..., of all servers.
        servers: how many servers share them.
        load_pct: scales counts to this mean load, in per cent of what both machines of all servers
            carry; as counted if none. The World Cup's fullest minute is 21 times its mean.
        days: counts are repeated or cut off; once through them if none.
        workloads: which workloads; all if none.
        dispatch: ``random`` or ``round-robin``.
        points: steady loads that are simulated, from 0 to the highest, closer together at the low
            end.
        accuracy: a steady load is played until mean delay, 99th percentile and power have 95 %
            confidence intervals whose half width is this share of them; all requests if none.
        requests: of each steady load, at most.
        seed: of all random streams.
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
        ("accuracy", accuracy, 5e-4, 0.5),
        ("requests", requests, 1000, 10**10),
    ]
    for what, value, low, high in limits:
        if value is not None and not low <= value <= high:
            raise HalfwinkError(f"{what} {value:g}: expected {low:g} to {high:g}")
    if dispatch not in DISPATCH:
        why = "servers whose requests depend on each other are played with `halfwink hybrid`"
        raise HalfwinkError(f"dispatch `{dispatch}`: expected {' or '.join(DISPATCH)}; {why}")
    question = {
        "workloads": list(workloads),
        "policies": list(policies),
        "counts": counts,
        "servers": servers,
        "dispatch": dispatch,
        "load_pct": load_pct,
        "days": days,
        "points": points,
        "requests": requests,
        "accuracy": accuracy,
        "seed": seed,
    }
    return frame(library().server(name, values(set)).year(library(), question))

"""Servers under one power cap, as BigHouse plays them (Meisner and others, ISPASS 2012).

from halfwink.models import capping

capping.run("csedns", servers=100)  # BigHouse's reference experiment
capping.run("csedns", rule="slower")  # the same if a lower frequency made requests longer
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.library import root


def run(
    workload: str | Path = "csedns",
    servers: int = 100,
    seed: int = 1,
    accuracy: float = 0.05,
    *,
    confidence: float = 0.95,
    rule: Literal["published", "slower"] = "published",
    warm_up: int = 100,
    epochs: int | None = None,
) -> dict[str, Any]:
    """Plays until response and cap, mean and 0.95 quantile, are known as well as is wanted.

    Args:
        workload: a name in ``workloads/server``, or a path without ``.arrival.cdf`` and
            ``.service.cdf``; values in milliseconds.
        servers: number of servers, of four cores each.
        seed: seed of all random streams.
        accuracy: half width of the confidence intervals over what they are of.
        confidence: confidence of the intervals.
        rule: ``published``: a server at a lower frequency finishes sooner, as BigHouse's source has
            it; ``slower``: later.
        warm_up: epochs (seconds) left out at the start.
        epochs: number of epochs to play after those, instead of running until the accuracy is
            reached.

    Returns:
        ``response_s``, ``response_p95_s`` (seconds), ``cap_w``, ``cap_p95_w`` (watts that a server
        draws beyond its share), each with ``_half_width`` and ``_samples``; ``converged``;
        ``epochs``, ``requests``, ``events`` played; ``power_w`` of a server, ``budget_most_w``
        shared out for each, ``over_cap``: share of epochs above the cap. All modelled.

    Raises:
        HalfwinkError: there is no such workload, or a setting is out of range.
    """
    if rule not in ("published", "slower"):
        raise HalfwinkError(f"rule: expected published or slower, found {rule}")
    stem = str(workload) if "/" in str(workload) else str(root() / "workloads/server" / workload)
    return _core.run_capping(
        f"{stem}.arrival.cdf",
        f"{stem}.service.cdf",
        servers=servers,
        seed=seed,
        slower=rule == "slower",
        accuracy=accuracy,
        confidence=confidence,
        warm_up=warm_up,
        epochs=epochs,
    )

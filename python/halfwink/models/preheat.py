"""Caches that are loaded before the request arrives (Gottschlag 2016).

from halfwink.models.preheat import simulate

found = simulate("nginx", requests=50)
found.modes  # warm, cold, wake-only, preheated, engine, sham-request
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.jobs import Settings, pairs
from halfwink.library import library
from halfwink.results.frames import Frames, frames


@dataclass(frozen=True)
class PreheatSimulation(Frames):
    """Requests of a recorded service on a simulated chip. Times are simulated, energy is modelled.

    Attributes:
        facts: one row: how requests were cut, sizes of the set (lines of 64 bytes), and the watts
            that a sleep saves while it lasts.
        modes: a row for each mode: mean, median and 99th percentile of the response (us, from the
            arrival), what share of the penalty of ``cold`` is gone, misses and lines per request,
            energy of sleep and request together (uJ), and the sleep from which on it takes less
            energy than waiting with the supply on (us).
        requests: a row for each request in each mode.
        training: a row for each request whose lines were dumped.
        orders: time to load the set (us) by the order of its lines.
    """

    facts: pl.DataFrame
    modes: pl.DataFrame
    requests: pl.DataFrame
    training: pl.DataFrame
    orders: pl.DataFrame


def simulate(
    workload: str,
    *,
    machine: str = "ev6",
    requests: int = 200,
    training: int = 10,
    sleep_us: float = 3000.0,
    lead_us: float = 500.0,
    set: Settings | None = None,
) -> PreheatSimulation:
    """Plays requests of a recorded service warm, cold after a sleep, and preheated.

    Each request is played on its own from what the caches held when the recording came to it, in
    every mode. What sleep loses is ``gating.loses`` of the machine; all caches if it says nothing.

    Args:
        workload: a recorded service, or a trace (.hwt) that marks requests.
        machine: a chip; one core of it is used.
        requests: largest number of requests to measure; those before them serve for training.
        training: requests whose dumps are intersected.
        sleep_us: before each request.
        lead_us: time from the announcement of a request to its arrival.
        set: values of the machine to change, as ``{"gating.wake_up_ns": "35000"}``.

    Raises:
        HalfwinkError: a name is unknown, there are no requests, or a number is out of range.
        RunError: the trace is damaged.
    """
    if requests < 1 or training < 1:
        raise HalfwinkError("requests and training: expected 1 or more")
    asked = (requests, training, float(sleep_us), float(lead_us))
    found = library().preheat(workload, machine, asked, pairs(set))
    return PreheatSimulation(**frames(found))

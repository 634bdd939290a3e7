"""Hybrid servers: all experiments of a work on one of them.

import halfwink as hw

hw.hybrid_experiments().power  # power against load, as Niccolini 2012, Fig 3.5
hw.compare("count", world="server", loads=["0", "30", "90"])  # runs of any load
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from halfwink.frames import Frames, frames
from halfwink.jobs import Settings, pairs
from halfwink.library import library
from halfwink.service import ServiceProfile, service_profile

__all__ = [
    "HybridExperiments",
    "ServiceProfile",
    "hybrid_experiments",
    "service_profile",
]


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


def hybrid_experiments(
    name: str = "niccolini", *, set: Settings | None = None
) -> HybridExperiments:
    """Runs all experiments on a hybrid server.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    tables = library().server(name, pairs(set)).tables()
    return HybridExperiments(**frames(tables))

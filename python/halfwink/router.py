"""Software routers: all experiments of a work on one of them.

import halfwink as hw

hw.router_experiments().ladder  # PowerSave's operating points beside the best ones
hw.compare("ipv4@5,20,80", world="router")  # runs of any load, under any technique
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from halfwink.frames import Frames, frames
from halfwink.jobs import Settings, pairs
from halfwink.library import library


@dataclass(frozen=True)
class RouterExperiments(Frames):
    """All experiments of Niccolini 2012, chapter 4, on a router. All watts and times are modelled.

    Attributes:
        facts: values of the description, by name.
        parts: parts of the router in three scenarios, in watts.
        points: cores x P-state at the highest rate.
        partial: results below that load.
        ladder: the best operating point and PowerSave's for each rate.
        naps: cores x sleep state x rate.
        held: power and delay with all cores held in a state.
        rates: stacks against rate.
        runs: applications under policies over the evaluation's profile.
        slots: the seconds of those.
        bursts: stacks against burst length.
    """

    facts: pl.DataFrame
    parts: pl.DataFrame
    points: pl.DataFrame
    partial: pl.DataFrame
    ladder: pl.DataFrame
    naps: pl.DataFrame
    held: pl.DataFrame
    rates: pl.DataFrame
    runs: pl.DataFrame
    slots: pl.DataFrame
    bursts: pl.DataFrame


def router_experiments(name: str = "westmere", *, set: Settings | None = None) -> RouterExperiments:
    """Runs all experiments on a router.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    tables = library().router(name, pairs(set)).tables()
    return RouterExperiments(**frames(tables))

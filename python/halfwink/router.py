"""Software routers: what their power, latency and loss are under a load.

import halfwink as hw

run = hw.software_router("westmere", apps=["ipv4"], policies=["polling", "power-save"])
run.runs  # power, latency quantiles, loss, reordering
run.slots  # the same for each point of the load profile
hw.router_experiments().ladder  # PowerSave's operating points beside the best ones
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from halfwink.frames import Frames, frame, frames
from halfwink.jobs import Settings, names, pairs
from halfwink.library import library


@dataclass(frozen=True)
class RouterRun(Frames):
    """Applications under policies over a load profile. All watts and times are modelled.

    Attributes:
        runs: a row for each application and policy: power (watts), latency (microseconds), packets
            lost and reordered (of their flow; of all), interrupts, changes of operating point.
        slots: a row for each point of the profile in it.
    """

    runs: pl.DataFrame
    slots: pl.DataFrame


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


def software_router(
    name: str = "westmere",
    *,
    apps: str | Sequence[str] = (),
    policies: str | Sequence[str] = (),
    profile: str = "evaluation",
    seed: int = 1,
    set: Settings | None = None,
) -> RouterRun:
    """Runs applications under policies over a load profile.

    Args:
        name: ``westmere``, or a TOML file.
        apps: which applications; all if none.
        policies: which techniques, with parameters (``metronome:threads=2``); all if none.
        profile: ``evaluation``, or loads in per cent of the peak rate, as ``"5,20,80"``.
        seed: seed of all random streams.
        set: values to change, as ``{"nic.ring": 1024}``.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    found = library().router(name, pairs(set))
    runs, slots = found.query(names(apps), names(policies), profile, seed)
    return RouterRun(frame(runs), frame(slots))


def router_experiments(name: str = "westmere", *, set: Settings | None = None) -> RouterExperiments:
    """Runs all experiments on a router.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    tables = library().router(name, pairs(set)).tables()
    return RouterExperiments(**frames(tables))

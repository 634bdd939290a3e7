"""Software routers: what their power, latency and loss are under a load.

import halfwink as hw

run = hw.software_router("westmere", apps=["ipv4"], policies=["polling", "power-save"])
run.runs  # power, latency quantiles, loss, reordering
run.slots  # the same for each point of the load profile
hw.router_experiments().ladder  # PowerSave's rungs beside the best operating points
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from halfwink.frames import Frames
from halfwink.library import library

#: Columns that may hold nothing, or only nothing: their type cannot be read off the values.
TYPES = {
    "mean_us": pl.Float64,
    "p50_us": pl.Float64,
    "p99_us": pl.Float64,
    "max_us": pl.Float64,
    "min_us": pl.Float64,
    "reordered_overall": pl.Int64,
}


@dataclass(frozen=True)
class RouterRun:
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
        partial: the same below it.
        ladder: the best point and PowerSave's rung for each rate.
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
    apps: Sequence[str] = (),
    policies: Sequence[str] = (),
    profile: str = "evaluation",
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
) -> RouterRun:
    """Runs applications under policies over a load profile.

    Args:
        name: ``westmere``, or a TOML file.
        apps: which applications; all if none.
        policies: which policies; all if none.
        profile: ``evaluation``, or loads in per cent of the peak rate, as ``"5,20,80"``.
        seed: of all random streams.
        set: values to change, as ``{"power_save.c_down": 20}``.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    found = library().router(name, _values(set))
    runs, slots = found.ask(list(apps), list(policies), profile, seed)
    return RouterRun(_frame(runs), _frame(slots))


def router_experiments(
    name: str = "westmere", *, set: Mapping[str, Any] | None = None
) -> RouterExperiments:
    """Runs all experiments on a router.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    tables = library().router(name, _values(set)).tables()
    return RouterExperiments(**{table: _frame(columns) for table, columns in tables.items()})


def _values(set: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    return [(path, str(value)) for path, value in (set or {}).items()]


def _frame(columns: dict[str, list[Any]]) -> pl.DataFrame:
    series = [pl.Series(name, values, dtype=TYPES.get(name)) for name, values in columns.items()]
    return pl.DataFrame(series)

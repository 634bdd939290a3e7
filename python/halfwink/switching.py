"""Core switching: what moving a thread inside a system call costs, and what it saves.

import halfwink as hw

tables = hw.core_switching("alpha")
tables.costs  # an empty call by configuration, kernel and power-up delay, in nanoseconds
tables.runs  # whole programs: amount, power, work per joule
tables.accounts  # joules as published and otherwise (of "xeon-5160")
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from halfwink.frames import Frames, frames
from halfwink.jobs import Settings, pairs
from halfwink.library import library


@dataclass(frozen=True)
class Switching(Frames):
    """Results of a model of core switching. Times are modelled, watts and joules too.

    Attributes:
        costs: an empty call that switches twice, in nanoseconds, and the early wake-ups that came
            too late.
        runs: a workload on a configuration with a kernel: amount in the reported interval, power
            (watts), amount per joule.
        cores: each core of a run: percent of its time in user mode, calls, switching, interrupts,
            idle; idle as the kernel's instrument records it.
        calls: each call of a run: made and moved per second, percent of time on each side.
        accounts: runs on a single core and with an OS core under all accountings.
        printed: the rows that a work printed, accounted for again, with idle times as recorded and
            freed of the expected loss of the instrument.
        systems: effect of a printed row on a whole system, in joules.
        catalogue: kinds of cores by performance per watt and area.
        facts: other values, by name.
    """

    costs: pl.DataFrame
    runs: pl.DataFrame
    cores: pl.DataFrame
    calls: pl.DataFrame
    accounts: pl.DataFrame
    printed: pl.DataFrame
    systems: pl.DataFrame
    catalogue: pl.DataFrame
    facts: pl.DataFrame


def core_switching(name: str = "alpha", *, set: Settings | None = None) -> Switching:
    """Runs a model: ``alpha``, ``xeon-5160``, or a TOML file.

    Args:
        name: which.
        set: values to change, as ``{"mechanism.ipi_handler_ns": 80}``.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    return Switching(**frames(library().switching(name, pairs(set)).tables()))

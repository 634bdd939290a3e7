"""Servers that lose their caches: what the thesis on preheated caches measured, simulated.

import halfwink as hw
from halfwink.preheat_world import preheat_experiments

tables = preheat_experiments("odroid-xu3")
tables["services"]  # response times, misses, cycles per instruction: warm, cold, preheated
tables["steps"]  # what each step of the loader saves
tables["deadline"]  # what becomes of requests that come before their lines
preheat_experiments("odroid-xu3", set={"memory.channels": 2})["steps"]  # one thing changed
"""

from __future__ import annotations

import polars as pl

from halfwink.catalogue import experiment
from halfwink.errors import HalfwinkError
from halfwink.jobs import Settings, pairs

#: What tables are called in SQL, before their own names.
PREFIX = "preheat_"


def preheat_experiments(
    machine: str = "odroid-xu3", *, set: Settings | None = None
) -> dict[str, pl.DataFrame]:
    """Runs all experiments on a server that loses its caches (Gottschlag 2016). All is modelled.

    Args:
        machine: ``odroid-xu3``, ``i5-6500``, ``server-2024``, or a TOML file.
        set: values to change, as ``{"loader.cores": 1}``.

    Returns:
        Tables by name: ``services`` and ``cdf`` (response times in microseconds), ``loads`` (KiB,
        microseconds), ``flushes``, ``steps``, ``bandwidth`` (GiB/s), ``tail`` (percent), ``sets``,
        ``restart``, ``lengths``, ``shared``, ``deadline``, ``polled``, ``energy``, ``facts``.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    changed = "".join(f",{path}={value}" for path, value in pairs(set))
    if "," in machine:
        raise HalfwinkError(f"machine `{machine}`: expected a name or a file without commas")
    found = experiment(f"preheat/{machine}{changed}")
    return {name.removeprefix(PREFIX): table for name, table in found.items()}

"""Kernel work of a workload: frequency, causes, lengths, and effects on the caches.

from halfwink.models.profiles import os_profile, os_profiles

os_profile("nginx").entries  # one row per system call, interrupt, exception
os_profiles(["nginx", "redis"], caches="32KB:2 32KB:2 1MB:16").levels  # with a column `workload`
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial

import polars as pl

from halfwink.jobs import Settings, names, pairs
from halfwink.library import library
from halfwink.results.frames import Frames, frames


@dataclass(frozen=True)
class OsProfile(Frames):
    """The kernel's part in one or more workloads. Lengths are in retired instructions.

    Attributes:
        totals: facts and values; shares are of 1.
        entries: a row per cause of kernel entries: invocations, their lengths, user instructions
            before them, interrupts and halts inside.
        lengths: exact number of runs of each length, by cause and mode.
        thresholds: invocations and their instructions up to a length, and beyond it.
        levels: accesses, misses and evicted lines by cache and privilege; an evicted line is the
            user's or the kernel's by who brought it in.
        evictions: evictions by the kernel, by length of the invocation that caused them.
        footprint: distinct 64-byte lines touched by user code alone, the kernel alone, both.
        privileged_totals: values as ``totals``, on a machine with register windows and
            software-filled TLBs (``machines/entries/ultrasparc-iii.toml``): their traps are kernel
            entries too; and the share of handlers in the kernel's instructions, also inside other
            runs.
        privileged_entries: rows as ``entries``, on that machine; the traps are of kind ``trap``.
        privileged_lengths: rows as ``lengths``, on that machine.
        privileged_thresholds: rows as ``thresholds``, on that machine.
    """

    totals: pl.DataFrame
    entries: pl.DataFrame
    lengths: pl.DataFrame
    thresholds: pl.DataFrame
    levels: pl.DataFrame
    evictions: pl.DataFrame
    footprint: pl.DataFrame
    privileged_totals: pl.DataFrame
    privileged_entries: pl.DataFrame
    privileged_lengths: pl.DataFrame
    privileged_thresholds: pl.DataFrame


def os_profile(workload: str, *, caches: str = "ev6", set: Settings | None = None) -> OsProfile:
    """Profiles the kernel in a workload on one core, without time.

    Args:
        workload: a name, or a trace (.hwt).
        caches: a machine, or shapes of L1I, L1D and further levels (``32KB:8 32KB:8 256KB:8``).
        set: values of the machine to change, as ``{"l2.size": "512KB"}``.

    Raises:
        HalfwinkError: a name is unknown, or the workload needs more than one core.
        RunError: the trace is damaged.
    """
    return OsProfile(**frames(library().os_profile(workload, caches, pairs(set))))


def os_profiles(workloads: str | Sequence[str] | None = None, *, caches: str = "ev6") -> OsProfile:
    """Profiles several workloads, all recorded ones if none are named.

    Every table has a column ``workload``. Arguments and errors are those of `os_profile`.
    """
    named = names(library().names("workloads", "hwt") if workloads is None else workloads)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(partial(os_profile, caches=caches), named))
    return OsProfile(
        **{
            field.name: pl.concat(
                profile.frames()[field.name].select(pl.lit(name).alias("workload"), pl.all())
                for name, profile in zip(named, found, strict=True)
            )
            for field in fields(OsProfile)
        }
    )

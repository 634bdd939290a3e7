"""Advice on the ways of a cache that the kernel should have to itself, by a recording, and on its
benefit.

from halfwink.models.split_advice import split_advice

split_advice("apache", size="2MB", ways=16)["worth_it"]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfwink.errors import HalfwinkError
from halfwink.jobs import Settings, names, pairs
from halfwink.library import library

#: What a core of today is taken to have before the cache (assumption), and what its misses cost.
L1 = "32KB:8"
LATENCIES = {"l2": 14, "l3": 60}
MEMORY_CYCLES = 300
#: Whose watts count: a core that leaks, and DDR3 (modelled).
MACHINE = "ultrasparc"

_UNITS = {"KB": 10, "MB": 20, "GB": 30}
_LINE = 64


def split_advice(
    workload: str,
    *,
    size: str,
    ways: int,
    cache: str = "l2",
    routes: str | Sequence[str] = "both",
    set: Settings | None = None,
) -> dict[str, Any]:
    """The best split by ways, and what it brings over one LRU stack. All modelled.

    Args:
        workload: a recording of one core, by name or file.
        size: size of the cache (``2MB``). Sets are taken as the next lower power of two.
        ways: ways of the cache, 2 to 32.
        cache: ``l2`` or ``l3``: how long a look-up takes (14 or 60 cycles; ``whole_cycles``).
        routes: accesses that may be separated: ``both``, ``data``, ``instructions``.
        set: other values, as for `halfwink.models.segregation_sweep`.

    Returns:
        ``kernel_ways``, ``route``, ``mpki`` (one stack, split), ``time`` and ``energy`` (``mean``
        and ``interval``, per cent; below zero is less), ``worth_it``, and ``analysed``: the shape.

    Raises:
        HalfwinkError: a name is unknown, or a value is impossible.
    """
    shape = _shape(size, ways)
    assumed = {
        "l1": L1,
        "l2": shape,
        "whole_cycles": LATENCIES[cache],
        "bank_cycles": LATENCIES[cache],
        "memory_cycles": MEMORY_CYCLES,
        "write_backs": "true",
        "stores_stall": "false",
    }
    asked = pairs(assumed | dict(set or {}))
    found = library().split_advice(workload, MACHINE, names(routes), asked)
    return {**found, "analysed": shape}


def _shape(size: str, ways: int) -> str:
    unit = size[-2:].upper()
    number = size[:-2]
    if unit not in _UNITS or not (number.isascii() and number.isdecimal()) or int(number) < 1:
        raise HalfwinkError(f"--size {size}: expected a size, such as 2MB")
    sets = (int(number) << _UNITS[unit]) // (_LINE * ways)
    if sets < 2:
        raise HalfwinkError(f"--size {size}: expected two sets of {ways} ways at least")
    lower = 1 << (sets.bit_length() - 1)
    return f"{lower * _LINE * ways // 1024}KB:{ways}"


def sentence(found: dict[str, Any]) -> str:
    """Returns the advice in one line."""
    if not found["worth_it"]:
        return (
            f"leave it: {found['kernel_ways']} of {found['ways']} ways for the kernel would change "
            f"the time by {_change(found['time'])} (modelled)"
        )
    before, after = found["mpki"]
    return (
        f"{found['kernel_ways']} of {found['ways']} ways for the kernel ({found['route']}): "
        f"{before:.1f} to {after:.1f} misses per 1000 instructions, time {_change(found['time'])}, "
        f"energy {_change(found['energy'])} (modelled)"
    )


def _change(change: dict[str, Any]) -> str:
    if change["interval"] is None:
        return f"{change['mean']:+.1f} %"
    low, high = change["interval"]
    return f"{change['mean']:+.1f} % ({low:+.1f} to {high:+.1f})"


def document(found: dict[str, Any]) -> dict[str, Any]:
    """The advice as a plan of ``halfwink live resctrl`` keeps it."""

    def change(of: str) -> dict[str, float]:
        low, high = found[of]["interval"] or (found[of]["mean"], found[of]["mean"])
        return {"mean_pct": found[of]["mean"], "low_pct": low, "high_pct": high}

    return {
        "ways_of_cache": found["ways"],
        "kernel_ways": found["kernel_ways"] if found["worth_it"] else None,
        "routing": found["route"],
        "expected": {"latency": change("time"), "energy": change("energy")},
        "leave_it": not found["worth_it"],
        "why": sentence(found),
    }

"""Savings over all watts that a machine may have, where its watts are estimated or assumed.

A machine file says between which multiples of what it has the watts of each part lie. Cores, third
level, memory, uncore and the rest may each be at another multiple: a saving lies in a range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import polars as pl

from halfwink.results.relate import IDENTITY

#: Energy of a run's parts, as shares of all of it.
Shares = Mapping[str, float]


@dataclass(frozen=True)
class Watts:
    """Watts of a machine that are estimated or assumed.

    Attributes:
        shares: energy of each part of a run, as a share of all of it.
        low: the least multiple of what the machine file says, of any part.
        high: the greatest one.
    """

    shares: Shares
    low: float
    high: float


def assumed_watts(runs: pl.DataFrame, ledger: pl.DataFrame) -> dict[tuple[Any, ...], Watts]:
    """Parts of each run whose machine has uncertain watts, by what identifies it."""
    if "power_basis" not in runs.columns:
        return {}
    known = runs.filter(is_uncertain()).select(*IDENTITY, "power_low", "power_high")
    if known.is_empty():
        return {}
    part = pl.col("component").map_elements(_part, return_dtype=pl.String).alias("part")
    sums = ledger.group_by(*IDENTITY, part, maintain_order=True).agg(pl.col("energy_j").sum())
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for *whose, name, joules in sums.iter_rows():
        found.setdefault(tuple(whose), {})[name] = joules
    watts: dict[tuple[Any, ...], Watts] = {}
    for *whose, low, high in known.iter_rows():
        parts = found.get(tuple(whose), {})
        whole = sum(parts.values())
        if whole > 0:
            shares = {name: joules / whole for name, joules in parts.items()}
            watts[tuple(whose)] = Watts(shares, low, high)
    return watts


def is_uncertain() -> pl.Expr:
    """Runs whose machine has watts of which only a range is known."""
    return pl.col("power_basis").is_in(["estimated", "assumed"])


def _part(component: str) -> str:
    """The kind of a component: all of a kind (cores, third levels of dies) have one multiple, and
    cores for the kernel are cores."""
    # The 3 of `l3` is a part of the name.
    numbered = re.fullmatch(r"(.*[^l\d])\d+", component)
    kind = numbered[1] if numbered else component
    return "core" if kind == "os" else kind


def saving_over(ours: tuple[float, Watts], base: tuple[float, Watts]) -> tuple[float, float]:
    """The least and the greatest saving, in per cent, of two runs of the same work: of each its
    energy, in any unit that both have, and its parts.

    The saving is a quotient of sums that are linear in each multiple, so that its extremes are
    where every multiple is at one of its ends.
    """
    (ours_j, mine), (base_j, theirs) = ours, base
    names = sorted({*mine.shares, *theirs.shares})
    parts = [
        (ours_j * mine.shares.get(name, 0.0), base_j * theirs.shares.get(name, 0.0))
        for name in names
    ]
    savings: list[float] = []
    for multiples in product((theirs.low, theirs.high), repeat=len(parts)):
        taken = [
            sum(multiple * joules[side] for multiple, joules in zip(multiples, parts, strict=True))
            for side in (0, 1)
        ]
        if taken[1] > 0:
            savings.append(100 * (1 - taken[0] / taken[1]))
    return min(savings), max(savings)

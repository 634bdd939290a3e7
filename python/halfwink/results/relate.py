"""Savings and costs of a run, relative to the baseline's run of the same work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import polars as pl

from halfwink import _core

#: What a run is, beside its technique.
KEYS = ["workload", "machine", "set"]
#: A run of a comparison.
IDENTITY = (*KEYS, "technique")
#: What a column's name ends in, where that is its unit.
_UNIT = re.compile(r"(_j_per_unit|_[a-z]+)$")
#: Of the baseline's run.
_BASE = "_base_{}"


def relate(runs: pl.DataFrame, baseline: str, machine: str | None = None) -> pl.DataFrame:
    """Adds savings and slowdown relative to the baseline of the same workload, machine and values.

    If a ``machine`` is named, everything is relative to the baseline there, with nothing set.

    Adds, in per cent of the baseline (null where it has none):

    * ``energy_saving_pct``: of the energy for as much work as the baseline did; if that did none,
      for as long as it took.
    * ``core_energy_saving_pct``: the same of the cores that had work, where cores are told apart.
    * ``core_clock_saving_pct``: the part of that which is clock power; the rest is leakage, less
      what wake-ups cost.
    * ``slowdown_pct``: of the mean latency where work arrives on its own schedule, else of the time
      for as much work.
    * ``energy_delay_pct``: change of energy (of cores, where told apart) times that.

    Which of these there are follows from the columns of the runs alone, not from their world.
    """
    has_cores = "working_core_energy_j" in runs.columns
    time = "run_s" if "run_s" in runs.columns else "duration_s"
    needed = ["energy_j", "units", "duration_s", time, "latency_mean_us"]
    needed += ["working_core_energy_j"] if has_cores else []
    has_clock = "working_core_clock_j" in runs.columns
    needed += ["working_core_clock_j"] if has_clock else []
    keys = KEYS if machine is None else ["workload"]
    base = runs.filter(pl.col("technique") == baseline)
    if machine is not None:
        base = base.filter(machine=machine, set="")
    base = base.select(*keys, *(pl.col(c).alias(_BASE.format(c)) for c in dict.fromkeys(needed)))
    joined = runs.join(
        base.unique(keys), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    # Runs of equal work are compared as they are: the factor is exactly 1.
    same_work = (
        pl.when(_base("units") == 0)
        .then(_base("duration_s") / pl.col("duration_s"))
        .when(pl.col("units") > 0)
        .then(_base("units") / pl.col("units"))
    )
    waits = _base("latency_mean_us").is_not_null()
    if "run_s" in runs.columns:
        # The cores' own time says how long a batch of programs took.
        waits &= pl.col("load") != "closed"
    joined = joined.with_columns(
        _below(pl.col("energy_j") * same_work, _base("energy_j")).alias("energy_saving_pct"),
        pl.when(waits)
        .then(_above(pl.col("latency_mean_us"), _base("latency_mean_us")))
        .otherwise(_above(pl.col(time) * same_work, _base(time)))
        .alias("slowdown_pct"),
    )
    saving = "energy_saving_pct"
    if has_cores:
        cores = pl.col("working_core_energy_j") * same_work
        saving = "core_energy_saving_pct"
        joined = joined.with_columns(_below(cores, _base("working_core_energy_j")).alias(saving))
    if has_clock:
        saved = _base("working_core_clock_j") - pl.col("working_core_clock_j") * same_work
        part = (100 * saved / _base("working_core_energy_j")).alias("core_clock_saving_pct")
        joined = joined.with_columns(part)
    energy, delay = 1 - pl.col(saving) / 100, 1 + pl.col("slowdown_pct") / 100
    joined = joined.with_columns((100 * (energy * delay - 1)).alias("energy_delay_pct"))
    return joined.drop(pl.selectors.starts_with(_BASE.format("")))


def ends(column: str) -> tuple[str, str]:
    """Columns of a column's 95 % interval: of ``power_w`` ``power_low_w`` and ``power_high_w``.

    Of a column without a unit, as ``ipc``: ``ipc_low`` and ``ipc_high``.
    """
    if not _UNIT.search(column):
        return f"{column}_low", f"{column}_high"
    low, high = (_UNIT.sub(rf"_{end}\1", column) for end in ("low", "high"))
    return low, high


def half_width(row: Mapping[str, Any], column: str) -> float | None:
    """Half of a value's 95 % interval, where that is known."""
    low, high = (row.get(end) for end in ends(column))
    return None if row[column] is None or low is None or high is None else (high - low) / 2


def _base(column: str) -> pl.Expr:
    return pl.col(_BASE.format(column))


def _above(ours: pl.Expr, base: pl.Expr) -> pl.Expr:
    # Differences first: the baseline itself gets exactly 0.
    return 100 * (ours - base) / base


def _below(ours: pl.Expr, base: pl.Expr) -> pl.Expr:
    return 100 * (base - ours) / base


def parts_of(technique: str) -> list[str]:
    """Returns the names of what a technique is composed of (`tap:after_us=20+c6a`), without
    parameters."""
    return [part.split(":")[0] for part in technique.split("+")]


def described(techniques: Iterable[str], world: str) -> list[dict[str, str]]:
    """Returns what the list of techniques says of each part of these, once; it knows nothing of
    users' own policies."""
    known = {t["name"]: t for t in _core.techniques() if world in t["worlds"]}
    names = dict.fromkeys(part for technique in techniques for part in parts_of(technique))
    found = [known[name] for name in names if name in known]
    return [{key: str(t[key]) for key in ("name", "title", "source", "family")} for t in found]


def family_of(technique: str, world: str) -> str | None:
    """The family of a technique, with any parameters and modifiers; none if it has none there."""
    return _families(world).get(parts_of(technique)[0])


@lru_cache
def _families(world: str) -> dict[str, str]:
    return {t["name"]: t["family"] for t in _core.techniques() if world in t["worlds"]}

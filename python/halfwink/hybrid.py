"""Hybrid servers: what a small machine beside a big one saves, and at what delay.

import halfwink as hw

hw.hybrid_server("niccolini", policies=["always-on", "hybrid"], loads=["10", "30"])
hw.hybrid_experiments().power  # power against load, as Niccolini 2012, Fig 3.5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from halfwink.frames import Frames
from halfwink.library import library

#: Loads that are shown unless others are asked for, in per cent of what both machines carry.
LOADS = ("5", "10", "20", "30", "50", "70", "90")
#: Columns that may hold nothing: their type cannot be read off the values.
TYPES: dict[str, type[pl.DataType]] = {
    "text": pl.String,
    **dict.fromkeys(("mean_ms", "p50_ms", "p99_ms", "p999_ms", "max_ms"), pl.Float64),
    **dict.fromkeys(("value", "delay_units"), pl.Float64),
}


@dataclass(frozen=True)
class HybridExperiments(Frames):
    """All experiments of Niccolini 2012, chapter 3. All watts and times are modelled.

    Attributes:
        facts: values of the description, by name; words in ``text``.
        peaks: workload x threshold: what is carried of more than both machines can.
        delays: workload x arrivals x threshold x load; neither machine sleeps.
        power: workload x wake-up time x sleep power x load.
        ratios: speed of the big machine x small over big workers.
        speeds: the same x speed of the small machine.
    """

    facts: pl.DataFrame
    peaks: pl.DataFrame
    delays: pl.DataFrame
    power: pl.DataFrame
    ratios: pl.DataFrame
    speeds: pl.DataFrame


def hybrid_server(
    name: str = "niccolini",
    *,
    workloads: Sequence[str] = ("count",),
    policies: Sequence[str] = (),
    loads: Sequence[str] = LOADS,
    requests: int = 200_000,
    seed: int = 1,
    set: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """Plays loads against a hybrid server under policies.

    Args:
        name: ``niccolini``, or a TOML file.
        workloads: which workloads; all if none.
        policies: which policies; all if none.
        loads: per cent of what both machines carry, or requests per second (``"200/s"``);
            ``constant:30``; ``mmpp:10,90,5,1``.
        requests: of each run; the first tenth is left out.
        seed: of all random streams.
        set: values to change, as ``{"big.wake_ms": 50}``.

    Returns:
        A row for each workload, load and policy: power in watts, energy in joules per request,
        delays in milliseconds, use of the big machine; ``saved_pct`` of the power of the first
        policy. All modelled.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    found = library().server(name, _values(set))
    rows = found.ask(list(workloads), list(policies), list(loads), requests, seed)
    return saved(_frame(rows))


def saved(runs: pl.DataFrame) -> pl.DataFrame:
    """Adds ``saved_pct``: of the power of the first policy at the same load."""
    keys = ["workload", "load"]
    if runs.is_empty():
        return runs.with_columns(pl.lit(None, pl.Float64).alias("saved_pct"))
    base = runs.filter(policy=runs["policy"][0]).select(*keys, pl.col("power_w").alias("_base"))
    joined = runs.join(base.unique(keys), on=keys, how="left", maintain_order="left")
    share = 100 * (1 - pl.col("power_w") / pl.col("_base"))
    return joined.with_columns(share.alias("saved_pct")).drop("_base")


def hybrid_experiments(
    name: str = "niccolini", *, set: Mapping[str, Any] | None = None
) -> HybridExperiments:
    """Runs all experiments on a hybrid server.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    tables = library().server(name, _values(set)).tables()
    return HybridExperiments(**{table: _frame(columns) for table, columns in tables.items()})


def _values(set: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    return [(path, str(value)) for path, value in (set or {}).items()]


def _frame(columns: dict[str, list[Any]]) -> pl.DataFrame:
    series = [pl.Series(name, values, dtype=TYPES.get(name)) for name, values in columns.items()]
    return pl.DataFrame(series)

"""Misses per thousand instructions, of runs that count both."""

from __future__ import annotations

import polars as pl

#: Counters of misses, and the column of each. Those of the third level count for a component.
COUNTERS = {
    "l1i.misses": "l1i_mpki",
    "l1d.misses": "l1d_mpki",
    "l2.misses": "l2_mpki",
    "misses": "l3_mpki",
    "branches.mispredicted": "branch_mpki",
}
#: The component whose misses are the third level's.
SHARED = "l3"


def with_mpki(runs: pl.DataFrame, counters: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Adds ``l1i_mpki``, ``l1d_mpki``, ``l2_mpki``, ``l3_mpki`` and ``branch_mpki``: misses of user
    and kernel code, of all cores, per thousand instructions (of branches, mispredictions).

    Runs that count no instructions come back as they are.
    """
    if "instructions" not in runs.columns or "counter" not in counters.columns:
        return runs
    own = (pl.col("counter") != "misses") | (pl.col("component") == SHARED)
    misses = (
        counters.filter(pl.col("counter").is_in(list(COUNTERS)) & own)
        .with_columns(pl.col("counter").replace_strict(COUNTERS).alias("column"))
        .group_by(*keys, "column")
        .agg((pl.col("user") + pl.col("kernel")).sum().alias("count"))
    )
    for column in COUNTERS.values():
        found = misses.filter(column=column).select(*keys, pl.col("count").alias(column))
        runs = runs.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")
    thousands = pl.col("instructions").replace(0, None) / 1e3
    return runs.with_columns(pl.col(name) / thousands for name in COUNTERS.values())

"""Throughput of a storage stack by the number of CPUs that issue I/Os, and its drop at sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.results.relate import IDENTITY

if TYPE_CHECKING:
    from halfwink.results.results import Results

#: Names of the tables among results.
PEAKS, STEPS = "peaks", "steps"
#: The least change of throughput that a sentence calls a drop, in per cent.
_MOVES = 3.0
_COLUMNS = ("issuers", "iops", "driver_us_per_io", "latency_mean_us", "energy_j_per_unit")


def saw_tooth(runs: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Returns two tables of runs with several numbers of issuing CPUs; none of others.

    * ``peaks``: the run of each machine and technique with the most I/Os a second.
    * ``steps``: for each of these and each full socket with ``socket_full_at`` issuing CPUs,
      ``change_pct``, the change of I/Os a second with one CPU more.
    """
    if "socket_full_at" not in runs.columns or runs["issuers"].n_unique() < 2:
        return {}
    whose = list(IDENTITY)
    curves = runs.with_columns(pl.col("workload").str.replace("@.*$", ""))
    peaks = curves.sort("iops", descending=True, maintain_order=True)
    peaks = peaks.unique(whose, keep="first", maintain_order=True).select(*whose, *_COLUMNS)
    more = curves.select(*whose, pl.col("issuers") - 1, pl.col("iops").alias("more"))
    steps = (
        curves.filter(pl.col("issuers") == pl.col("socket_full_at"))
        .join(more, on=[*whose, "issuers"], nulls_equal=True, maintain_order="left")
        .sort(*whose, "issuers", maintain_order=True)
        .select(
            *whose,
            "socket_full_at",
            (100 * (pl.col("more") / pl.col("iops") - 1)).alias("change_pct"),
        )
    )
    return {PEAKS: peaks, STEPS: steps} if steps.height else {PEAKS: peaks}


def sentences(results: Results) -> list[str]:
    """Describes the throughput of each technique as more CPUs issue, the highest first."""
    if not results.has(PEAKS):
        return []
    peaks, steps = results.tables[PEAKS], results.tables.get(STEPS)
    several = [name for name in IDENTITY[:-1] if peaks[name].n_unique() > 1]
    lines: list[str] = []
    for peak in peaks.iter_rows(named=True):
        name = " ".join(str(peak[key]) for key in ("technique", *several) if peak[key])
        line = (
            f"{name} does at most {peak['iops'] / 1e3:.0f} k I/Os a second, with "
            f"{peak['issuers']} CPUs issuing and {peak['driver_us_per_io']:.1f} us of CPU for each"
        )
        if steps is not None:
            own = steps.filter(**{key: peak[key] for key in IDENTITY})
            line += _drops(own.select("socket_full_at", "change_pct").rows())
        lines.append(f"{line}.")
    return lines


def _drops(steps: list[tuple[int, float]]) -> str:
    """Describes the drops where one CPU of a further socket issues."""
    drops = [f"{full + 1} ({change:+.0f} %)" for full, change in steps if change <= -_MOVES]
    if drops:
        return f"; it drops where one CPU of a further socket issues: {', '.join(drops)}"
    return "; it does not drop where a further socket begins to issue" if steps else ""


def rules(results: Results) -> list[int]:
    """Returns the numbers of issuing CPUs at which a socket is full, as far as some were played."""
    runs = results.runs
    most: Any = runs["issuers"].max()
    return [full for full in runs["socket_full_at"].unique().sort() if full <= most]

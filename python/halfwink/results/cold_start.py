"""Runs that say more of their start than of their program: caches that began cold.

A recording that begins in the middle of a program without what its caches held (a warm set) finds
the third level empty, and fills it for its first millions of instructions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from halfwink import _core

if TYPE_CHECKING:
    from halfwink.results.results import Results

#: Share of the third level's misses that filled a way in which nothing had ever been, from which
#: on a run is of its start.
SHARE = 0.5
#: Such misses for each thousand instructions, below which they do not matter enough: a program
#: that hardly leaves its second level has few misses, and all of them are first ones. Of 31
#: recordings with their warm sets none has as many (x264, which writes new pictures all the time,
#: has 1.97); of their first 2 M instructions without, 22 have (docs/sampling.md).
PER_THOUSAND = 2.0


def share(instructions: int, misses: int, cold_fills: int) -> float | None:
    """The share of misses that a cold cache explains, if it is most of those that matter."""
    if misses == 0 or cold_fills < SHARE * misses:
        return None
    return cold_fills / misses if cold_fills >= PER_THOUSAND * instructions / 1000 else None


def warning(who: str, found: float, *, in_samples: bool = False) -> str:
    """Returns the warning for a run that began cold, or for a recording of samples too short to
    fill the caches."""
    help = (
        "record more or larger samples"
        if in_samples
        else "record longer, or use `halfwink sample --skip` from a later instruction"
    )
    return (
        f"{who}: {100 * found:.0f} % of the third level's misses filled a cache that began cold: "
        f"results say more of the start than of the program; {help}"
    )


def warnings(results: Results) -> list[str]:
    """One line for each workload of a comparison or study whose runs began cold."""
    if not results.has("counters"):
        return []
    runs = results.runs
    if "instructions" not in runs.columns:
        return []
    import polars as pl

    worst: dict[str, float] = {}
    l3 = results.counters.filter(component="l3").with_columns(
        (pl.col("user") + pl.col("kernel")).alias("count")
    )
    for row in runs.iter_rows(named=True):
        same = {name: row[name] for name in l3.columns if name in KEYS and row[name] is not None}
        counts = dict(l3.filter(**same).select("counter", "count").iter_rows())
        found = share(row["instructions"], counts.get("misses", 0), counts.get("cold_fills", 0))
        if found is not None:
            worst[row["workload"]] = max(found, worst.get(row["workload"], 0.0))
    return [warning(name, found) for name, found in worst.items()]


def sample_warnings(results: Results) -> list[str]:
    """One line for each workload that holds samples of a longer run, played as if they were it.

    What lay between two samples has changed the caches in truth, and has not in a comparison. Such
    a sample finds none of the third level's ways empty, so that `warnings` sees nothing.
    """
    runs = results.runs
    if "instructions" not in runs.columns:
        return []
    found: list[str] = []
    for name in runs["workload"].unique().sort():
        if name.endswith(".hwt") and Path(name).is_file():
            header = json.loads(_core.trace_info(name))["header"]
            if (samples := header.get("samples")) is not None:
                found.append(
                    f"{name}: {len(samples['begins'])} samples of a run of {samples['of']:,} "
                    "instructions are played as if nothing lay between; "
                    f"`halfwink sample {name}` fills the caches in each before it measures"
                )
    return found


def thread_warnings(results: Results) -> list[str]:
    """One line for each workload that was to play by threads and has a single one."""
    runs = results.runs
    if "working_cores" not in runs.columns:
        return []
    found: list[str] = []
    for name, cores in sorted(set(runs.select("workload", "working_cores").iter_rows())):
        file, colon, _ = name.partition(":threads=")
        if colon and cores == 1:
            found.append(f"{name}: the recording has one thread, and plays as {file} does")
    return found


#: What tells a run from others of its results.
KEYS = ("workload", "machine", "set", "technique")

"""Notes on files of arrivals: what each was read as, and what was left out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from halfwink.results.results import Results


def notes(results: Results) -> list[str]:
    """Returns one line for each file of arrivals that needs one."""
    runs = results.runs
    if "read_as" not in runs.columns:
        return []
    loads = runs.with_columns(pl.col("workload").str.replace("^[^@]*@", "")).unique(
        "workload", maintain_order=True
    )
    told = loads.select("workload", "read_as").iter_rows()
    return [f"{load}: {read_as}" for load, read_as in told if read_as]

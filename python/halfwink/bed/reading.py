"""Notes on files of arrivals: what each was read as, and what was left out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from halfwink.results.results import Results


#: Tables that say it, of one run each.
TABLES = ("run", "source")


def notes(results: Results) -> list[str]:
    """Returns one line for each file of arrivals that needs one."""
    lines: list[str] = []
    for table in (results.tables[name] for name in TABLES if results.has(name)):
        if "read_as" not in table.columns:
            continue
        loads = table.with_columns(pl.col("workload").str.replace("^[^@]*@", "")).unique(
            "workload", maintain_order=True
        )
        told = loads.select("workload", "read_as").iter_rows()
        lines += [f"{load}: {read_as}" for load, read_as in told if read_as]
    return lines

"""Notes on files of arrivals: what each was read as, and what was left out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from halfwink.results.results import Results


def notes(results: Results) -> list[str]:
    """Returns one line for each file of arrivals that needs one."""
    runs = results.runs
    if not {"read_as", "bad_lines", "bad_line"} <= set(runs.columns):
        return []
    loads = runs.with_columns(pl.col("workload").str.replace("^[^@]*@", "")).unique(
        "workload", maintain_order=True
    )
    lines: list[str] = []
    for load, read_as, count, example in loads.select(
        "workload", "read_as", "bad_lines", "bad_line"
    ).iter_rows():
        if read_as:
            lines.append(f"{load}: {read_as}")
        elif count:
            lines.append(f"{load}: {count} bad lines left out; {example}")
    return lines

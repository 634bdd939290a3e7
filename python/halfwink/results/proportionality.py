"""Measures of how power follows load."""

from __future__ import annotations

from typing import Any

import polars as pl

from halfwink import _core
from halfwink.results.relate import IDENTITY

#: The table's name among results.
PROPORTIONALITY = "proportionality"


def proportionality(runs: pl.DataFrame) -> pl.DataFrame | None:
    """Returns measures of how power follows load, for each service, machine and technique that was
    played at load 0 and at two more; none if there is none.

    Load is relative to the highest one that the server kept up with, power to that at it. Columns
    as in Wong and Annavaram (MICRO 2012): ``dynamic_range_pct``, ``linear_deviation``,
    ``proportionality_gap`` (mean over loads), and ``energy_proportionality`` (Ryckbosch 2011).
    """
    if not {"load_pct", "power_w", "keeps_up"} <= set(runs.columns):
        return None
    points = runs.filter(keeps_up="yes").with_columns(pl.col("workload").str.replace("@.*$", ""))
    rows: list[dict[str, Any]] = []
    for key, group in points.group_by(IDENTITY, maintain_order=True):
        found = _core.proportionality(list(group.select("load_pct", "power_w").iter_rows()))
        if found is not None:
            rows.append({**dict(zip(IDENTITY, key, strict=True)), **found})
    return pl.DataFrame(rows) if rows else None

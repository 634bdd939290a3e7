"""Writes the table of docs/techniques/segregation.md: what each way to keep kernel and user apart
brings to each recorded service, by size of the second level.

    python tools/segregation_table.py > table.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from halfwink.models import segregation_sweep

SERVICES = ("nginx", "apache", "apache-cgi", "memcached", "redis", "postgresql", "java-shop")
SIZES = ("128KB", "256KB", "512KB", "1MB", "2MB")
#: Kind and how banks are looked up, with the heading of its column.
COLUMNS = (
    ("bank-partition", "parallel", "banks"),
    ("way-partition", "", "ways"),
    ("way-allocator", "", "allocator"),
    ("ucp", "", "UCP"),
    ("insertion", "", "insertion"),
)


def cell(row: dict[str, Any]) -> str:
    """Gain and what is set, in a few characters."""
    gain = f"{row['equal_gain_pct']:+.1f}"
    short = {"both": "ID", "data": "DO", "instructions": "IO", "": ""}[row["route"]]
    if row["user_rank"] is not None:
        return f"{gain} ({row['user_rank']}, {row['kernel_rank']})"
    ways = row["kernel_ways"]
    return f"{gain} ({short}{'' if ways is None else f' {ways}'})" if short else gain


def lines() -> Iterator[str]:
    """The table, row by row."""
    columns = [head for _, _, head in COLUMNS]
    heads = ["service", "L2", "MPKI", "kernel", *columns, "blind insertion", "banks, 9 cycles"]
    yield "| " + " | ".join(heads) + " |"
    yield "|---|---|" + "---:|" * (len(heads) - 2)
    for service in SERVICES:
        for size in SIZES:
            found = segregation_sweep(service, l2=size)
            best = {(row["scheme"], row["look_up"]): row for row in found.best().to_dicts()}
            banks = found.schemes.filter(scheme="bank-partition", look_up="parallel")
            blind = found.schemes.filter(
                (pl.col("scheme") == "insertion") & (pl.col("user_rank") == pl.col("kernel_rank"))
            )
            cells = [
                service,
                size,
                f"{best['lru', '']['mpki']:.2f}",
                f"{100 * found.fact('kernel_share'):.0f} %",
                *(cell(best[kind, look_up]) for kind, look_up, _ in COLUMNS),
                f"{max(blind['equal_gain_pct'].to_list()):+.1f}",
                f"{max(banks['gain_pct'].to_list()):+.1f}",
            ]
            yield "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)

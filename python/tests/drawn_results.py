"""Results that figures are drawn from, made up or as printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
from test_verdict import CHIP, related, results, row

from halfwink.results import relate
from halfwink.results.results import Results

FEW = {"always-on": (626.9, 33.7), "hybrid": (497.5, 43.8), "hal": (493.7, 158.3)}


def spread() -> Any:
    return results("server", FEW, workload="count")


def two() -> Any:
    found = spread()
    tables = {
        name: pl.concat([table, table.with_columns(workload=pl.lit("other"))])
        for name, table in found.tables.items()
    }
    return replace(found, tables=tables)


#: Workload, technique -> mJ for a request, 99th percentile of latency in us: nginx of docs/gallery.
LOADS = (10, 30, 50, 70)
ALONG = {
    "menu": ((664, 287.3), (224.2, 278.9), (137.4, 232.8), (106.7, 124.3)),
    "teo": ((532.8, 53.5), (202.5, 61.1), (135.8, 78.1), (106.7, 118.5)),
    "teo+dvfs-mean": ((532.8, 53.5), (202.5, 61.1), (135.8, 78.1), (106.7, 118.5)),
    "c1": ((585.6, 52.7), (215.0, 60.3), (140.7, 77.6), (108.6, 118.0)),
    "teo+os-static": ((545.2, 70.3), (213.8, 154.1), (150.0, 170.0), (176.0, 180.0)),
    "teo+preheat": ((591.8, 52.7), (221.2, 61.3), (146.3, 84.9), (113.8, 188.7)),
    "teo+coalesce": ((531.8, 102.8), (201.3, 108.5), (134.9, 124.3), (106.2, 164.6)),
    "teo+packing": ((459.8, 61.6), (183.8, 62.1), (127.2, 62.4), (104.5, 62.4)),
    "c6a": ((473.6, 53.0), (186.6, 60.3), (128.7, 77.6), (103.6, 118.0)),
    "tap+c6a+package-sleep+packing": ((471.3, 60.8), (184.6, 61.6), (127.3, 61.9), (102.8, 62.1)),
}


def paired(found: Results, *columns: str) -> Results:
    """The results with paired intervals of the baseline's rivals, one per cent to either side."""
    others = pl.col("technique") != found.baseline
    ends = [
        (pl.col(column) + pl.when(others).then(way).otherwise(0.0)).alias(name)
        for column in columns
        for way, name in zip((-1.0, 1.0), relate.ends(column), strict=True)
    ]
    return replace(found, tables=found.tables | {"run": found.runs.with_columns(ends)})


def along(*services: str) -> Results:
    rows = [
        row(
            name,
            at[0],
            at[1] / 4,
            workload=f"{service}@{load}",
            load_pct=float(load),
            power_w=at[0] * load / 20,
        )
        for service in services or ("nginx",)
        for n, load in enumerate(LOADS)
        for name, at in ((name, values[n]) for name, values in ALONG.items())
    ]
    return paired(related("node", rows), "energy_saving_pct")


def saved(runs: Mapping[str, tuple[float, float]] | None = None) -> Results:
    more = {"tap": (76.0, 50.0), "mapg-counter": (80.0, 52.5)}
    chip = results("chip", CHIP | more if runs is None else runs)
    # Nothing waits for a request.
    found = chip.runs.with_columns(
        latency_p99_us=pl.lit(None, pl.Float64), core_energy_saving_pct=pl.col("energy_saving_pct")
    )
    chip = replace(chip, tables=chip.tables | {"run": found})
    return paired(chip, "core_energy_saving_pct")


def saved_of_many() -> Results:
    found = saved()
    many = [found.runs.with_columns(workload=pl.lit(f"program-{n}")) for n in range(1, 4)]
    return replace(found, tables=found.tables | {"run": pl.concat(many)})


def issued() -> Results:
    names = ("single-thread", "round-robin-socket", "cache-aware", "interleaved-tags", "msi-x")
    rows = [
        (n, 90_000.0 * n**0.5 * (1 + k), name)
        for k, name in enumerate(names)
        for n in (1, 2, 10, 40)
    ]
    table = pl.DataFrame(rows, ["issuers", "iops", "technique"], orient="row").with_columns(
        workload=pl.format("random-read@{}", "issuers"),
        machine=pl.lit("m"),
        set=pl.lit(""),
        driver_cpus=pl.lit(1.0),
        driver_us_per_io=pl.lit(1.0),
        socket_full_at=pl.lit(10),
    )
    return Results("storage", {"run": table, "peaks": table}, names[0])

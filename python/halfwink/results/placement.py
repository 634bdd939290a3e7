"""Places and costs of kernel work: tables over results whose techniques record it."""

from __future__ import annotations

import polars as pl

from halfwink.results.relate import KEYS
from halfwink.results.results import Results


def placements(results: Results) -> pl.DataFrame:
    """One row per run of a technique that watches the kernel.

    Columns beside workload, machine, set and technique: ``kernel_invocations``, ``moved_pct`` of
    them; ``kernel_time_pct`` (in which they ran), ``os_core_time_pct`` (of that on OS cores) and
    ``away_pct`` (the thread's own core was without it), all of the run time; ``own_core_ns`` and
    ``os_core_ns`` per thousand kernel instructions there; ``energy_delay_pct``, the change of core
    energy times run time (or mean latency). All modelled.
    """
    if results.calls.is_empty():
        return pl.DataFrame()
    identity = [*KEYS, "technique"]
    rate = 1e12 * pl.col("running_s").sum() / pl.col("instructions").sum()
    rates = results.calls.group_by(*identity, "place").agg(rate.alias("ns"))
    own = rates.filter(place="own-core").select(*identity, pl.col("ns").alias("own_core_ns"))
    moved = rates.filter(place="os-core").select(*identity, pl.col("ns").alias("os_core_ns"))
    runs = results.runs.filter(pl.col("kernel_invocations") > 0).select(
        *identity,
        "kernel_invocations",
        (100 * pl.col("moved_invocations") / pl.col("kernel_invocations")).alias("moved_pct"),
        (100 * pl.col("kernel_time_share")).alias("kernel_time_pct"),
        (100 * pl.col("os_core_time_share")).alias("os_core_time_pct"),
        (100 * pl.col("away_share")).alias("away_pct"),
        "energy_delay_pct",
    )
    joined = runs.join(own, on=identity, how="left", nulls_equal=True, maintain_order="left")
    return joined.join(moved, on=identity, how="left", nulls_equal=True, maintain_order="left")


def kernel_calls(results: Results) -> pl.DataFrame:
    """Returns the causes of kernel entries, and their duration on either kind of core.

    One row per workload, machine, set and cause, most time first: ``invocations`` and
    ``mean_instructions`` in one run, mean times ``own_core_us`` and ``os_core_us`` over all runs in
    which it ran there (null: in none), and their ratio ``slowdown``. Moving is not in these times.
    """
    if results.calls.is_empty():
        return pl.DataFrame()
    cause = [*KEYS, "kind", "number", "name"]
    by_run = results.calls.group_by(*cause, "technique").agg(
        pl.col("invocations").sum(), pl.col("instructions").sum()
    )
    counts = by_run.group_by(cause).agg(
        pl.col("invocations").max(),
        (pl.col("instructions").sum() / pl.col("invocations").sum()).alias("mean_instructions"),
    )

    def mean(place: str, name: str) -> pl.DataFrame:
        time = 1e6 * pl.col("running_s").sum() / pl.col("invocations").sum()
        return results.calls.filter(place=place).group_by(cause).agg(time.alias(name))

    table = counts.join(mean("own-core", "own_core_us"), on=cause, how="left", nulls_equal=True)
    table = table.join(mean("os-core", "os_core_us"), on=cause, how="left", nulls_equal=True)
    weight = pl.col("invocations") * pl.coalesce("own_core_us", "os_core_us")
    return (
        table.with_columns((pl.col("os_core_us") / pl.col("own_core_us")).alias("slowdown"))
        .sort(*KEYS, weight, descending=[False, False, False, True], maintain_order=True)
        .select(*cause, "invocations", "mean_instructions", "own_core_us", "os_core_us", "slowdown")
    )

"""Results as data frames, with everything relative to the baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.jobs import Job, Tables, write_whole

if TYPE_CHECKING:
    import altair as alt

KEYS = ["workload", "machine", "set"]


@dataclass(frozen=True)
class Results:
    """Runs of one or more techniques on one or more workloads.

    Attributes:
        runs: one row per run; units stand last in the names of columns; energies are modelled.
        ledger: time and energy by run, component, state, mode and cause.
        counters: caches, branches, memory by run, component and mode.
        histograms: lengths of stalls and latencies of requests, as buckets, by run.
        calls: kernel invocations by run, cause and place, of techniques that watch them.
        timeline: states of the cores over time, if they were asked for.
        baseline: the technique that others are compared with.
    """

    runs: pl.DataFrame
    ledger: pl.DataFrame
    counters: pl.DataFrame
    histograms: pl.DataFrame
    calls: pl.DataFrame
    timeline: pl.DataFrame
    baseline: str

    def table(self) -> pl.DataFrame:
        """What each technique saves and costs, one row per workload, machine and technique."""
        return self.runs.select(
            *KEYS,
            "technique",
            "unit_of_work",
            "energy_j_per_unit",
            "energy_saving_pct",
            "core_energy_saving_pct",
            "slowdown_pct",
            "energy_delay_pct",
            "latency_mean_us",
            "latency_p99_us",
            "gated_share",
        )

    def chart(self) -> alt.LayerChart | alt.FacetChart:
        """Saving against slowdown, a point per technique and workload."""
        from halfwink.report.charts import savings

        return savings(self)

    def write(self, folder: Path) -> None:
        """Writes results.parquet and ledger.parquet; raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        frames = {
            "results": self.runs,
            "ledger": self.ledger,
            "counters": self.counters,
            "histograms": self.histograms,
        }
        for name, frame in (("calls", self.calls), ("timeline", self.timeline)):
            if not frame.is_empty():
                frames[name] = frame
        for name, frame in frames.items():
            # Through memory, since the library's own complaint about a full disk is unreadable.
            content = BytesIO()
            frame.write_parquet(content)
            write_whole(folder / f"{name}.parquet", content.getvalue())

    @staticmethod
    def read(folder: Path, baseline: str) -> Results:
        """Reads what ``write`` wrote."""

        def part(name: str) -> pl.DataFrame:
            path = folder / f"{name}.parquet"
            return pl.read_parquet(path) if path.exists() else pl.DataFrame()

        names = ("results", "ledger", "counters", "histograms", "calls", "timeline")
        runs, ledger, counters, histograms, calls, timeline = map(part, names)
        return Results(runs, ledger, counters, histograms, calls, timeline, baseline)


def collect(
    jobs: Sequence[Job], tables: Sequence[Tables], baseline: str, machine: str | None = None
) -> Results:
    """Joins the tables of runs, and relates each run to its baseline (on `machine`, if named)."""
    runs = _frame([_named(t["run"], job) for t, job in zip(tables, jobs, strict=True)])
    identity = [*KEYS, "technique"]

    def detail(name: str) -> pl.DataFrame:
        parts: list[pl.DataFrame] = []
        for row, table in zip(runs.iter_rows(named=True), tables, strict=True):
            if table[name] and len(next(iter(table[name].values()))) > 0:
                who = [pl.lit(row[key]).alias(key) for key in identity]
                parts.append(pl.DataFrame(table[name], strict=False).select(*who, pl.all()))
        return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()

    return Results(
        runs=relate(runs, baseline, machine),
        ledger=detail("ledger"),
        counters=detail("counters"),
        histograms=detail("histograms"),
        calls=detail("calls"),
        timeline=detail("timeline"),
        baseline=baseline,
    )


def _named(run: dict[str, list[Any]], job: Job) -> dict[str, list[Any]]:
    # A file is known by the name that the user gave it.
    return {**run, "workload": [job.workload], "machine": [job.machine]}


def _frame(rows: Sequence[dict[str, list[Any]]]) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {name: [] for name in rows[0]}
    for row in rows:
        for name, values in row.items():
            columns[name].extend(values)
    frame = pl.DataFrame(columns, strict=False)
    # A column of nothing but missing numbers has no type of its own.
    return frame.with_columns(pl.col(pl.Null).cast(pl.Float64))


def relate(runs: pl.DataFrame, baseline: str, machine: str | None = None) -> pl.DataFrame:
    """Adds savings and slowdown relative to the baseline of the same workload and machine.

    If a `machine` is named, everything is relative to the baseline there, with nothing set.

    The slowdown is that of the mean latency where requests arrive on their own schedule, and of
    the run time otherwise; ``energy_delay_pct`` is the change of core energy times that.
    """
    keys = KEYS if machine is None else ["workload"]
    base = runs.filter(pl.col("technique") == baseline)
    if machine is not None:
        base = base.filter(machine=machine, set="")
    base = base.select(
        *keys,
        pl.col("energy_j").alias("_energy"),
        pl.col("working_core_energy_j").alias("_core"),
        pl.col("run_s").alias("_run"),
        pl.col("latency_mean_us").alias("_latency"),
    )
    joined = runs.join(base.unique(keys), on=keys, how="left", nulls_equal=True)

    # Differences first: the baseline itself gets exactly 0.
    def above(ours: str, base: str) -> pl.Expr:
        return 100 * (pl.col(ours) - pl.col(base)) / pl.col(base)

    def below(ours: str, base: str) -> pl.Expr:
        return 100 * (pl.col(base) - pl.col(ours)) / pl.col(base)

    open_load = (pl.col("load") == "open") & pl.col("_latency").is_not_null()
    joined = joined.with_columns(
        below("energy_j", "_energy").alias("energy_saving_pct"),
        below("working_core_energy_j", "_core").alias("core_energy_saving_pct"),
        pl.when(open_load)
        .then(above("latency_mean_us", "_latency"))
        .otherwise(above("run_s", "_run"))
        .alias("slowdown_pct"),
    )
    energy = 1 - pl.col("core_energy_saving_pct") / 100
    delay = 1 + pl.col("slowdown_pct") / 100
    return joined.with_columns((100 * (energy * delay - 1)).alias("energy_delay_pct")).drop(
        "_energy", "_core", "_run", "_latency"
    )


def sweep_columns(runs: pl.DataFrame) -> pl.DataFrame:
    """Makes the values that a sweep set into columns of their own."""
    paths: dict[str, None] = {}
    for text in runs["set"].unique(maintain_order=True):
        paths.update(dict.fromkeys(item.partition("=")[0] for item in text.split()))
    for path in paths:
        pattern = rf"(?:^| ){re.escape(path)}=(\S+)"
        value = pl.col("set").str.extract(pattern)
        number = value.cast(pl.Float64, strict=False)
        column = runs.select(number.alias("n"), value.alias("v"))
        kept = column["n"] if column["n"].null_count() == column["v"].null_count() else column["v"]
        runs = runs.with_columns(kept.alias(path))
    return runs

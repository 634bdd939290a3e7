"""Results of a study of routers as data frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import polars as pl

from halfwink.jobs import Job, Tables, write_whole
from halfwink.results import sweep_columns

#: What a run is, beside what was set for it.
KEYS = ["workload", "machine", "technique"]
#: What repeated runs differ in: their mean is shown, with what it is uncertain by.
MEASURED = ["mpps", "power_w", "lost_pct", "mean_us", "p99_us", "cores", "changes"]
#: Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom.
STUDENT = (
    "12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228 2.201 2.179 2.160 2.145 2.131 "
    "2.120 2.110 2.101 2.093 2.086 2.080 2.074 2.069 2.064 2.060 2.056 2.052 2.048 2.045 2.042"
)
POINTS = [float(point) for point in STUDENT.split()]


@dataclass(frozen=True)
class RouterResults:
    """Runs of policies on applications under load profiles. All watts and times are modelled.

    Attributes:
        runs: one row per run; values that were swept stand in ``set``.
        slots: points of the profiles, by run.
        ledger: time and energy by run, component, state and cause.
        baseline: the policy that others are compared with.
    """

    runs: pl.DataFrame
    slots: pl.DataFrame
    ledger: pl.DataFrame
    baseline: str

    def table(self) -> pl.DataFrame:
        """Means over seeds, each with half of its 95 % interval where there are several.

        One row per workload, machine, technique and point of the sweep; values that are the same in
        all runs are left out.
        """
        runs = sweep_columns(self.runs)
        swept = runs.columns[len(self.runs.columns) :]
        varied = [path for path in swept if path != "seed" and runs[path].n_unique() > 1]
        keys = [key for key in KEYS if key != "machine" or runs[key].n_unique() > 1] + varied
        measured = [name for name in (*MEASURED, "saved_pct") if name in runs.columns]
        several = runs.group_by(keys).len()["len"].max() != 1
        # A run without packets has no latency.
        numbers = [pl.col(name).cast(pl.Float64).alias(name) for name in measured]
        means: list[pl.Expr] = []
        for name in measured:
            means.append(pl.col(name).mean())
            if several and name in ("power_w", "lost_pct", "p99_us"):
                means.append(_half(name).alias(f"{name}_half"))
        return runs.with_columns(numbers).group_by(keys, maintain_order=True).agg(means)

    def write(self, folder: Path) -> None:
        """Writes results.parquet, slots.parquet and ledger.parquet; raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, frame in (
            ("results", self.runs),
            ("slots", self.slots),
            ("ledger", self.ledger),
        ):
            content = BytesIO()
            frame.write_parquet(content)
            write_whole(folder / f"{name}.parquet", content.getvalue())


def _half(name: str) -> pl.Expr:
    """Half of the 95 % interval of a mean (Student's t)."""
    count = pl.col(name).count()
    point = (count.cast(pl.Int64) - 1).replace_strict(
        dict(enumerate(POINTS, start=1)), default=1.96, return_dtype=pl.Float64
    )
    return point * pl.col(name).std() / count.sqrt()


def collect_router(jobs: Sequence[Job], tables: Sequence[Tables], baseline: str) -> RouterResults:
    """Joins the tables of runs; what each saves of the baseline's power under the same values."""
    runs = pl.concat([_frame(t["run"]) for t in tables], how="vertical_relaxed")
    names = pl.DataFrame(
        {"workload": [j.workload for j in jobs], "machine": [j.machine for j in jobs]}
    )
    runs = runs.with_columns(names["workload"], names["machine"])
    keys = ["workload", "machine", "set"]
    base = runs.filter(technique=baseline).select(*keys, pl.col("power_w").alias("_power"))
    saved = 100 * (1 - pl.col("power_w") / pl.col("_power"))
    runs = runs.join(base.unique(keys), on=keys, how="left", maintain_order="left")
    runs = runs.with_columns(saved.alias("saved_pct")).drop("_power")

    def detail(name: str) -> pl.DataFrame:
        parts: list[pl.DataFrame] = []
        for row, table in zip(runs.iter_rows(named=True), tables, strict=True):
            who = [pl.lit(row[key]).alias(key) for key in (*KEYS, "set")]
            parts.append(_frame(table[name]).select(*who, pl.all()))
        return pl.concat(parts, how="vertical_relaxed")

    return RouterResults(runs, detail("slots"), detail("ledger"), baseline)


def _frame(columns: dict[str, list[object]]) -> pl.DataFrame:
    frame = pl.DataFrame(columns, strict=False)
    return frame.with_columns(pl.col(pl.Null).cast(pl.Float64))

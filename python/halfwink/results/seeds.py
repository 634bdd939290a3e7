"""Means over seeds, with their intervals."""

from __future__ import annotations

import re

import polars as pl

from halfwink.results.relate import IDENTITY, ends

#: In the name of an end of an interval.
LIMIT = re.compile(r"_(low|high)(_|$)")
#: Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom.
STUDENT = (
    "12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228 2.201 2.179 2.160 2.145 2.131 "
    "2.120 2.110 2.101 2.093 2.086 2.080 2.074 2.069 2.064 2.060 2.056 2.052 2.048 2.045 2.042"
)
POINTS = dict(enumerate((float(point) for point in STUDENT.split()), start=1))
#: Beyond: the normal distribution's.
NORMAL = 1.96


def seedless() -> pl.Expr:
    """The values that were set, without the seed."""
    return pl.col("set").str.replace(r"(^| )seed=\S+", "").str.strip_chars_start()


def over_seeds(runs: pl.DataFrame) -> pl.DataFrame:
    """Means over the seeds that were swept, with their 95 % intervals (see `ends`).

    Runs without a sweep of seeds come back as they are.
    """
    grouped = runs.with_columns(seedless())
    if grouped.select(IDENTITY).is_unique().all():
        return runs
    first = [pl.col(name).first() for name, kind in grouped.schema.items() if not kind.is_numeric()]
    means: dict[str, pl.Expr] = {}
    for name in grouped.columns:
        if grouped.schema[name].is_numeric() and not LIMIT.search(name):
            (low, high), mean, half = ends(name), pl.col(name).mean(), _half(name)
            # Over seeds, not of each run's own slices.
            means |= {name: mean, low: (mean - half).alias(low), high: (mean + half).alias(high)}
    led = [expression for expression in first if expression.meta.output_name() not in IDENTITY]
    return grouped.group_by(IDENTITY, maintain_order=True).agg(*led, *means.values())


def student(freedom: int) -> float:
    """Two-sided 95 % point of Student's t."""
    return POINTS.get(freedom, NORMAL)


def _half(name: str) -> pl.Expr:
    """Half of the 95 % interval of a mean (Student's t)."""
    count = pl.col(name).count()
    point = (count.cast(pl.Int64) - 1).replace_strict(
        POINTS, default=NORMAL, return_dtype=pl.Float64
    )
    return point * pl.col(name).std() / count.sqrt()

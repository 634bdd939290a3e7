"""Kernel work of an I/O in a recorded program."""

from __future__ import annotations

import polars as pl

from halfwink.errors import RunError
from halfwink.library import library

_SUMS = (
    "submissions",
    "user_instructions",
    "kernel_instructions",
    "locked_instructions",
    "interrupts",
    "lines",
    "transfers",
)


def io_path(workload: str, beside: str | None = None) -> pl.DataFrame:
    """Returns the kernel work of an I/O: a row for the recorded CPU.

    Args:
        workload: a recorded workload by name, or a trace, of a program that submits I/Os by system
            calls.
        beside: another CPU of the same run; then a row for it too, and one for both, in which what
            both do is divided by the I/Os of either.

    Returns:
        Columns: `cpu`, `ios`; for each I/O `submissions`, `user_instructions`,
        `kernel_instructions`, `locked_instructions`, `interrupts`, `lines` of data that the kernel
        uses, and `transfers`, those that come from the other CPU (estimated; null without one).

    Raises:
        HalfwinkError: there is no such recording, the two are not of one run, or nothing submits.
    """
    sums = library().io_path(workload, beside)
    names = [workload] if beside is None else [workload, beside]
    frame = pl.DataFrame(sums, infer_schema_length=None).insert_column(0, pl.Series("cpu", names))
    idle = frame.filter(pl.col("ios") == 0)["cpu"]
    if len(idle):
        raise RunError(f"{idle[0]}: it submits no I/Os")
    if beside is not None:
        both = frame.select(pl.lit("both").alias("cpu"), pl.exclude("cpu").sum())
        frame = pl.concat([frame, both])
    return frame.with_columns(pl.col(_SUMS) / pl.col("ios"))

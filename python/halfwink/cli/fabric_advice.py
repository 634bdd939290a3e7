"""``halfwink circuits advise``: energy and time of a traffic on fabrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import Parameter

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_tables, progress_bar, save_chart
from halfwink.cli.settings import Setting, settings, split_techniques
from halfwink.models import fabric_advice

Flag = Annotated[bool, Parameter(negative="")]


def advise(
    workload: str,
    *,
    machine: Annotated[str, Parameter(name=["--machine", "-m"])] = "opera-648",
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    duration_ms: float | None = None,
    at_most_ms: float | None = None,
    seed: int | None = None,
    sensitivity: Flag = False,
    plot: Annotated[Path | None, Parameter(name="--plot")] = None,
    setting: Setting = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Compare schedules and fabrics for a traffic: energy against completion time (modelled).

    Parameters
    ----------
    workload
        A name with a load (data-mining@10), a training job (experts-training, or a TOML file), a
        file of flows (source destination bytes begin_ns) or of coflows, an execution trace (Chakra:
        trace.0.et, or its folder).
    machine
        Fabrics with racks, by commas: opera-648, hybrid-648, training-64, or TOML files.
    technique
        Which circuits come next, by commas; one of each kind if none are named.
    duration_ms
        Time during which flows of an open workload arrive, in simulated milliseconds.
    at_most_ms
        Time limit, in simulated milliseconds; flows that are open then stay unfinished.
    seed
        Seed of all random streams.
    sensitivity
        Also halve and double what the answer rests on.
    plot
        Write energy against time as a chart (.html, .svg, .png).
    setting
        Change a value: --set switch.reconfiguration_us=10000. May be repeated.
    json
        Print one JSON document.
    """
    with progress_bar("advise", quiet=json) as progress:
        found = fabric_advice.circuit_advice(
            workload,
            machines=machine.split(","),
            techniques=split_techniques(technique) or fabric_advice.TECHNIQUES,
            duration_ms=duration_ms,
            at_most_ms=at_most_ms,
            seed=seed,
            sensitivity=sensitivity,
            set=dict(settings(setting)),
            progress=progress,
        )
    if plot is not None:
        save_chart(found.chart(), plot)
    if json:
        best = [] if found.front.is_empty() else [found.best()]
        tables = {"best": best, "runs": found.runs, "sensitivity": found.sensitivity}
        print_tables("circuits advise", tables, {"workload": workload, "measure": found.measure})
        return 0
    _print(found)
    return 0


def _print(found: fabric_advice.CircuitAdvice) -> None:
    several = found.runs["machine"].n_unique() > 1
    head = ["machine"] if several else []
    rows = found.runs.sort(found.measure, nulls_last=True)
    shown = rows.select(
        *head,
        "technique",
        found.measure,
        # Of those that did not carry all, energy says nothing.
        pl.when(pl.col("ended_pct") >= 100).then("j_per_gb").alias("j_per_gb"),
        *([] if several else ["circuits_per_byte"]),
        "ended_pct",
        pl.when("is_front").then(pl.lit("*")).otherwise(pl.lit("")).alias("front"),
    )
    print_frame(shown)
    note = f"{fabric_advice.MEASURES[found.measure]}; * no other takes less of both; all modelled"
    stdout.print(f"[dim]{note}[/dim]")
    for line in found.answers():
        stdout.print(line)
    if not found.sensitivity.is_empty():
        stdout.print()
        print_frame(found.sensitivity)

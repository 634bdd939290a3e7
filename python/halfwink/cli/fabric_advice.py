"""``halfwink circuits advise``: energy and time of a traffic on fabrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import polars as pl
from cyclopts import Parameter

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_tables, progress_bar
from halfwink.cli.results import NO_FIGURE, FigureOptions, save
from halfwink.cli.settings import Setting, settings, split_techniques
from halfwink.models import fabric_advice

if TYPE_CHECKING:
    from halfwink.report.figures import Figure

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
    setting: Setting = None,
    figure: FigureOptions = NO_FIGURE,
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
    setting
        Change a value: --set switch.reconfiguration_us=10000. May be repeated.
    json
        Print one JSON document.
    """
    figure.check()
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
    if figure.plot is not None:
        save(_figure(found), figure)
    if json:
        best = [] if found.front.is_empty() else [found.best()]
        tables = {"best": best, "runs": found.runs, "sensitivity": found.sensitivity}
        print_tables("circuits advise", tables, {"workload": workload, "measure": found.measure})
        return 0
    _print(found)
    return 0


def _figure(found: fabric_advice.CircuitAdvice) -> Figure:
    """Returns energy against time for print; its caption is the answer."""
    from halfwink.report.figures import Figure, modelled

    on = ", ".join(found.runs["machine"].unique(maintain_order=True))
    answers = "; ".join(found.answers())
    line = "Dashed: techniques that no other beats in both."
    answers = f"{answers[0].upper()}{answers[1:]}. {line}"
    caption = modelled(f"{found.workload} on {on}. {answers}")
    return Figure(lambda size, font, _: found.drawn(size, font), caption)


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

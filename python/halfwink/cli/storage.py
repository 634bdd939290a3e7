"""``halfwink storage``: which CPU completes block I/Os on machines of several sockets."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import App, Parameter

from halfwink.cli.commands import RUN_OPTIONS, Json, RunOptions, compare
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_sentences, print_tables, say
from halfwink.cli.results import NO_FIGURE, FigureOptions
from halfwink.cli.settings import Setting, settings
from halfwink.files import write_whole
from halfwink.jobs import Job, pairs
from halfwink.library import declared
from halfwink.runs.comparison import default_machine, technique_names

WORLD = "storage"
#: CPUs of a machine of which all are numbers of issuing CPUs; of more, the ends of its sockets.
FEW = 24

app = App(name="storage", help="Block I/Os on machines of several sockets.")


@app.command
def simulate(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    load: Annotated[str | None, Parameter(name="--load")] = None,
    setting: Setting = None,
    table: str | None = None,
    figure: FigureOptions = NO_FIGURE,
    options: RunOptions = RUN_OPTIONS,
) -> int:
    """Show what techniques of completion do by the number of CPUs that issue I/Os (modelled).

    The runs, columns and report are those of `halfwink compare -w storage`; energy is modelled.

    Parameters
    ----------
    workloads
        random-read, or with its number of issuing CPUs, as random-read@17; or your own I/Os, jobs
        of fio or a block trace, as file@job.fio. Default: random-read.
    technique
        Techniques, separated by commas, with parameters: issuer, cache-aware:period_ms=1 ...
        (default: all; `halfwink list techniques --world storage` shows them).
    machine
        Machine (sandybridge-e, westmere-ep, nehalem-ex, westmere-ex, linux-6.1), or a TOML file.
        Default: westmere-ex.
    load
        Numbers of issuing CPUs: 1..80, or 1,10,11,20. Default: all of the machine; of more than 24,
        those around each full socket.
    setting
        Change a value: --set coherence.one_hop_ns=120, --set through=queue, --set depth=1, --set
        rate_kiops=20, --set ios=20000. May be repeated.
    table
        Table to print instead of the short one: peaks, steps (what one CPU of a further socket
        changes), ledger, host.
    """
    if load is None and not any("@" in workload for workload in workloads):
        load = around_sockets(machine or default_machine(WORLD), setting)
    return compare(
        *workloads,
        world=WORLD,
        technique=technique,
        machine=machine,
        load=load,
        setting=setting,
        table=table,
        figure=figure,
        options=options,
    )


@app.command
def calibrate(
    *,
    recordings: Annotated[str, Parameter(name="--from")] = "null-blk",
    chip: str = "ev6",
    out: Annotated[Path | None, Parameter(name=("-o", "--out"))] = None,
    json: Json = False,
) -> int:
    """Make a machine whose block layer is a recorded one, and say how well it predicts.

    The recordings are played on a chip: a CPU alone gives the times of stages, two CPUs of one run
    in one memory the lines that travel between them. What two take together is held out: the
    machine predicts it.

    Parameters
    ----------
    recordings
        Prefix of the recordings' names: for each of NAME-one and NAME-many (one queue, and a queue
        for each CPU) there are a CPU beside another, that other (-other), and a CPU alone (-alone).
    chip
        Machine of the world chip that plays them.
    out
        Write the machine here (.toml).
    json
        Print one JSON document.
    """
    from halfwink.calibrate import block as block_calibration

    found = block_calibration.calibrate_storage(recordings, chip)
    if out is not None:
        write_whole(out, found.text)
        say(f"machine: {out}")
    if json:
        tables = {
            name: [{"queues": queues, **asdict(costs)} for queues, costs in of.items()]
            for name, of in (("alone", found.alone), ("together", found.together))
        }
        print_tables("storage calibrate", {**tables, "predictions": found.predictions})
        return 0
    for kind, alone in found.alone.items():
        both = found.together[kind]
        line = (
            f"{kind} queue{'s' * (kind == 'many')}: alone {alone.us:.2f} us and "
            f"{alone.instructions:,.0f} instructions an I/O; beside another "
            f"{both.instructions:,.0f} instructions, {both.lines:.1f} lines from the other CPU, "
            f"{100 * both.halted:.0f} % of their time halted"
        )
        print_sentences([line], hang="  ")
    in_k = (pl.col("played", "predicted") / 1e3).round(1)
    # What the machine was made of it does not predict.
    error = pl.when("held_out").then(pl.col("error_pct").round(1)).alias("error_pct")
    print_frame(found.predictions.select("queues", "cpus", in_k, error))
    stdout.print("[dim]all modelled, rates in thousands of I/Os a second[/dim]")
    return 0


def around_sockets(machine: str, setting: list[str] | None) -> str:
    """Returns the numbers of issuing CPUs that show how throughput moves as sockets fill.

    Raises:
        HalfwinkError: there is no such machine, or a value is impossible.
    """
    workload = declared(WORLD)["workload"]
    technique = technique_names(None, WORLD)[0]
    job = Job(WORLD, workload, machine, technique, pairs(settings(setting)))
    topology = tomllib.loads(job.prepare().machine_text())["topology"]
    cores, cpus = topology["cores_per_socket"], topology["sockets"] * topology["cores_per_socket"]
    numbers = set(range(1, cpus + 1))
    if cpus > FEW:
        numbers &= {1, 2} | {n + more for n in range(cores, cpus + 1, cores) for more in (-5, 0, 1)}
    return ",".join(map(str, sorted(numbers)))

"""``halfwink switching``: the cost of core switching, and what it does to programs and energy."""

from __future__ import annotations

from typing import Annotated

import polars as pl
from cyclopts import Parameter

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_tables
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError
from halfwink.library import library
from halfwink.results.frames import frame
from halfwink.targets.catalogue import experiment

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]


def switching(
    model: str = "alpha",
    *,
    runs: Flag = False,
    cores: Flag = False,
    calls: Flag = False,
    accounts: Flag = False,
    printed: Flag = False,
    systems: Flag = False,
    facts: Flag = False,
    calibrate: Flag = False,
    workload: str | None = None,
    setting: Setting = None,
    json: Json = False,
) -> int:
    """Show what moving threads between cores inside system calls costs and saves.

    Without an option: an empty call that switches twice, by configuration and kernel.

    Parameters
    ----------
    model
        Name (alpha, xeon-5160), or a TOML file.
    runs
        Whole programs: how much they do, power, work per joule.
    cores
        The cores of those runs: where their time goes, idle time exact and as recorded.
    calls
        The system calls of those runs: how many are made and moved.
    accounts
        Joules with and without an OS core, as published and under other accountings.
    printed
        Printed runs, accounted for again: metered times, break-evens, idle times corrected.
    systems
        Show the effect of the printed runs on whole systems.
    facts
        Other values: break-even lengths of a call, misses of caches.
    calibrate
        The fitted values, fitted again.
    workload
        Show only this program.
    setting
        Change a value: --set mechanism.ipi_handler_ns=80. May be repeated.
    json
        Print one JSON document.
    """
    asked = {
        "runs": runs,
        "cores": cores,
        "calls": calls,
        "accounts": accounts,
        "printed": printed,
        "systems": systems,
        "facts": facts,
        "calibrate": calibrate,
    }
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise HalfwinkError(f"expected one of {', '.join(f'--{name}' for name in asked)}")
    values = settings(setting)
    view = chosen[0] if chosen else "costs"
    found = library().switching(model, values)
    if view == "calibrate":
        table = frame(found.calibrate())
    elif view == "costs":
        table = frame(found.costs())
    else:
        table = experiment(f"switching/{model}", set=dict(values))[f"switch_{view}"]
    if workload is not None:
        table = _of(table, workload)
    if json:
        print_tables("switching", {view: table})
        return 0
    if view == "costs":
        table = _matrix(table)
    print_frame(table)
    calibrated = found.spec()["calibrated"]
    stdout.print("all times, watts and joules are modelled")
    if calibrated:
        stdout.print(f"calibrated: {', '.join(calibrated)}", markup=False)
    return 0


def _of(table: pl.DataFrame, workload: str) -> pl.DataFrame:
    if "workload" not in table.columns:
        raise HalfwinkError(
            "--workload: expected --runs, --cores, --calls, --accounts or --printed with it"
        )
    known = table["workload"].unique(maintain_order=True).to_list()
    if workload not in known:
        raise HalfwinkError(f"unknown workload `{workload}`; there are: {', '.join(known)}")
    return table.filter(pl.col("workload") == workload)


def _matrix(costs: pl.DataFrame) -> pl.DataFrame:
    """Kernels side by side, in nanoseconds."""
    return costs.pivot("kernel", index=["configuration", "power_up_cycles"], values="ns")

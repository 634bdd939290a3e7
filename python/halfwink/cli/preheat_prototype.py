"""``halfwink preheat prototype``, ``breakdown``, ``deadline``: the thesis' prototype, simulated."""

from __future__ import annotations

from typing import Annotated

import polars as pl
from cyclopts import Parameter

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_tables
from halfwink.cli.results import NO_FIGURE, FigureOptions, save
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError
from halfwink.targets.catalogue import experiment

Json = Annotated[bool, Parameter(name="--json", negative="")]
Machine = Annotated[str, Parameter(name=["-m", "--machine"])]

#: The machine of the thesis.
MACHINE = "odroid-xu3"


def _tables(machine: str, setting: list[str] | None, *only: str) -> dict[str, pl.DataFrame]:
    """Plays the experiments on a server that loses its caches which give these tables."""
    return experiment(f"preheat/{machine}", only=only, set=dict(settings(setting)))


def prototype(
    machine: Machine = MACHINE,
    *,
    setting: Setting = None,
    figure: FigureOptions = NO_FIGURE,
    json: Json = False,
) -> int:
    """Show response times warm, cold and preheated, and what is loaded (Tables 6.1 and 6.2).

    Parameters
    ----------
    machine
        Name (odroid-xu3, i5-6500, server-2024), or a TOML file.
    setting
        Change a value: --set memory.port_ns=6. May be repeated.
    json
        Print one JSON document.
    """
    figure.check()
    tables = _tables(machine, setting, "preheat_services", "preheat_loads")
    columns = ["workload", "mode", "response_us", "p99_us", "misses", "cpi"]
    services = tables["preheat_services"].select(columns)
    shown = ["workload", "data_kib", "run_lines", "cost_us", "kib_per_us"]
    loads = tables["preheat_loads"].select(shown)
    if figure.plot is not None:
        from halfwink.report import preheat_charts

        save(preheat_charts.prototype(services, machine), figure)
    if json:
        print_tables("preheat prototype", {"services": services, "loads": loads})
        return 0
    print_frame(services)
    stdout.print()
    print_frame(loads)
    return 0


def breakdown(
    machine: Machine = MACHINE,
    *,
    setting: Setting = None,
    figure: FigureOptions = NO_FIGURE,
    json: Json = False,
) -> int:
    """Show what each step of the loader saves: one after the other, alone, left out (Fig 6.2).

    Parameters
    ----------
    machine
        Name (odroid-xu3, i5-6500, server-2024), or a TOML file.
    setting
        Change a value: --set memory.channels=2. May be repeated.
    json
        Print one JSON document.
    """
    figure.check()
    steps = _tables(machine, setting, "preheat_steps")["preheat_steps"]
    columns = ["how", "step", "time_us", "factor", "reduction_pct", "data_kib"]
    if figure.plot is not None:
        from halfwink.report import preheat_charts

        save(preheat_charts.steps(steps, machine), figure)
    if json:
        print_tables("preheat breakdown", {"steps": steps.select(columns)})
    else:
        print_frame(steps.select(columns))
    return 0


def deadline(
    machine: Machine = MACHINE,
    *,
    workload: Annotated[str | None, Parameter(name=["-w", "--workload"])] = None,
    setting: Setting = None,
    figure: FigureOptions = NO_FIGURE,
    json: Json = False,
) -> int:
    """Show what becomes of requests whose lines are not there in time (Sec 6.6).

    By lead of the announcement, wake-up time and bandwidth; waiting for the load (wait), cutting it
    (skip), or both at once (concurrent). The gain is against cold caches.

    Parameters
    ----------
    machine
        Name (odroid-xu3, i5-6500, server-2024), or a TOML file.
    workload
        Only this one (nginx-2016).
    setting
        Change a value: --set network.lead_us=100. May be repeated.
    json
        Print one JSON document.
    """
    figure.check()
    table = _tables(machine, setting, "preheat_deadline")["preheat_deadline"]
    known = table["workload"].unique(maintain_order=True).to_list()
    if workload is not None and workload not in known:
        raise HalfwinkError(f"workload `{workload}`: expected one of {', '.join(known)}")
    if workload is not None:
        table = table.filter(pl.col("workload") == workload)
    columns = ["workload", "late", "lead_us", "wake_us", "bandwidth", "load_us", "net_gain_us"]
    if figure.plot is not None:
        from halfwink.report import preheat_charts

        save(preheat_charts.deadline(table, machine), figure)
    if json:
        print_tables("preheat deadline", {"requests": table})
    else:
        print_frame(table.select(columns))
    return 0

"""``halfwink hybrid``: power and delay of a small machine beside a big one."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from halfwink.cli.commands import RUN_OPTIONS, RunOptions, compare
from halfwink.cli.results import NO_FIGURE, FigureOptions
from halfwink.cli.settings import Setting


def hybrid(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    load: Annotated[str | None, Parameter(name="--load")] = None,
    setting: Setting = None,
    table: str | None = None,
    figure: FigureOptions = NO_FIGURE,
    options: RunOptions = RUN_OPTIONS,
) -> int:
    """Show what a hybrid server draws and delays under each technique.

    The runs, columns and report are those of `halfwink compare -w server`.

    Parameters
    ----------
    workloads
        Services: count, readfile, ksort, compress, dns, mail ...; each may have its load behind it,
        as count@30 or count@log:access.log. Default: count.
    technique
        Techniques, separated by commas, with parameters: always-on, hybrid:threshold=8 ...
        (default: all; `halfwink list techniques --world server` shows them).
    machine
        Hybrid server (niccolini, six), or a TOML file. Default: niccolini.
    load
        Load of every workload: per cent of what both machines carry or requests per second, several
        separated by commas (10,30,50% or 200/s); constant:30; mmpp:10,90,5,1 (two loads, seconds of
        each); log:FILE (logs of servers and proxies, CSV); counts:FILE (requests in each minute, or
        rates of Prometheus and Grafana); gaps:FILE@30 (BigHouse's distributions); @30 after a file:
        at this mean rate. Before a file's name: time-column=NAME: (or its number from 1),
        time-unit=ms:, values=rates:, ignore=bad-lines:.
        Default: 10,30,50,70%.
    setting
        Change a value: --set big.wake_ms=50, --set accuracy=0.01, --set servers=100. May be
        repeated.
    table
        Table to print instead of the short one: proportionality (of loads with 0 and two more),
        slots (with --set slot_s=60), ledger, host.
    """
    return compare(
        *workloads,
        world="server",
        technique=technique,
        machine=machine,
        load=load,
        setting=setting,
        table=table,
        figure=figure,
        options=options,
    )

"""``halfwink hybrid``: power and delay of a small machine beside a big one."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from halfwink.cli.commands import Fresh, Json, OutFolder, Quiet, Wide, compare
from halfwink.cli.settings import Log, Setting


def hybrid(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    load: Annotated[str | None, Parameter(name="--load")] = None,
    setting: Setting = None,
    executor: str = "local",
    table: str | None = None,
    log: Log = None,
    out: OutFolder = None,
    fresh: Fresh = False,
    wide: Wide = False,
    json: Json = False,
    quiet: Quiet = False,
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
        Hybrid server (niccolini), or a TOML file. Default: niccolini.
    load
        Load of every workload: per cent of what both machines carry or requests per second, several
        separated by commas (10,30,50% or 200/s); constant:30; mmpp:10,90,5,1 (two loads, seconds of
        each); log:FILE (logs of servers and proxies, CSV); counts:FILE (requests in each minute);
        gaps:FILE@30 (BigHouse's distributions); @30 after a file: at this mean rate. Before a
        file's name: time-column=NAME: (or its number from 1), time-unit=ms:, ignore=bad-lines:.
        Default: 10,30,50,70%.
    setting
        Change a value: --set big.wake_ms=50, --set accuracy=0.01, --set servers=100. May be
        repeated.
    executor
        local, local:WORKERS, dask (a cluster of this machine's processors), or dask://HOST:PORT.
    table
        Table to print instead of the short one: proportionality (of loads with 0 and two more),
        slots (with --set slot_s=60), ledger, host.
    log
        Event log for `halfwink replay`; of several runs FILE-WHICH beside it, or all in a folder/.
        Logged runs are played even if their results are there.
    out
        Folder of the results, or a URL of fsspec's: s3://BUCKET/NAME.
    fresh
        Run again what is already there.
    wide
        All columns, on a narrow terminal too.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """
    return compare(
        *workloads,
        world="server",
        technique=technique,
        machine=machine,
        load=load,
        setting=setting,
        executor=executor,
        table=table,
        log=log,
        out=out,
        fresh=fresh,
        wide=wide,
        json=json,
        quiet=quiet,
    )

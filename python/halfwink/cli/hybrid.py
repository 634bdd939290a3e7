"""``halfwink hybrid``: power and delay of a small machine beside a big one."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from halfwink.cli.commands import Fresh, Json, OutFolder, Quiet, Wide, compare
from halfwink.cli.settings import Log, Setting
from halfwink.errors import HalfwinkError

#: Loads that are files.
FILES = ("log:", "counts:", "gaps:")


def hybrid(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    load: Annotated[str | None, Parameter(name="--load")] = None,
    time_column: Annotated[str | None, Parameter(name="--time-column")] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, Parameter(name="--time-unit")
    ] = None,
    ignore: str = "",
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
        gaps:FILE@30 (BigHouse's distributions); @30 after a file: at this mean rate. Default:
        10,30,50,70%.
    time_column
        Of a CSV of requests, the column of times: its name, or its number from 1.
    time_unit
        The unit of times that are numbers.
    ignore
        What is left out although it matters: bad-lines.
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
    reading = _reading(time_column, time_unit, ignore)
    return compare(
        *(_read_by(workload, reading, after="@") for workload in workloads),
        world="server",
        technique=technique,
        machine=machine,
        load=_read_by(load, reading) if load else None,
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


def _reading(column: str | None, unit: str | None, ignore: str) -> str:
    """Returns how to read a file, as loads have it before the file's name.

    Raises:
        HalfwinkError: something is to be ignored that cannot be.
    """
    words = [word for word in ignore.split(",") if word]
    if unknown := [word for word in words if word != "bad-lines"]:
        raise HalfwinkError(f"--ignore {unknown[0]}: expected bad-lines")
    options = {"time-unit": unit, "time-column": column, "ignore": "bad-lines" if words else None}
    return "".join(f"{name}={value}:" for name, value in options.items() if value)


def _read_by(text: str, reading: str, after: str = "") -> str:
    """Adds how to read a file to a load that is one, which stands behind ``after``."""
    before, mark, load = text.partition(after) if after else ("", "", text)
    kind = next((kind for kind in FILES if load.startswith(kind)), None)
    return text if kind is None else f"{before}{mark}{kind}{reading}{load.removeprefix(kind)}"

"""``halfwink hybrid-year``: a year of a fleet of hybrid servers in seconds."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from halfwink.cli.commands import RUN_OPTIONS, RunOptions, compare
from halfwink.cli.results import NO_FIGURE, FigureOptions
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError

#: Counts that are played unless others are named: the World Cup's web site, 1998.
COUNTS = "workloads/server/worldcup98-requests-per-minute.csv.xz"
#: Options of the world, unless they are set otherwise.
OPTIONS = {"servers": "1000", "days": "365", "steady_loads": "33", "accuracy": "0.02"}


def year(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    counts: str = COUNTS,
    load: str | None = None,
    setting: Setting = None,
    figure: FigureOptions = NO_FIGURE,
    options: RunOptions = RUN_OPTIONS,
) -> int:
    """Show what a fleet of hybrid servers draws and delays over a year of counts.

    Quasi-stationary: one server at steady loads, then every minute of the year from them. The runs,
    columns and report are those of `halfwink hybrid --load counts:FILE --set steady_loads=33`;
    without steady_loads every request is played.

    Parameters
    ----------
    workloads
        Services: count, readfile, ksort, compress, dns, mail ... Default: count.
    technique
        Techniques, separated by commas, with parameters: always-on, hybrid:threshold=8 ...
        (default: all).
    machine
        Hybrid server (niccolini, six), or a TOML file. Default: niccolini.
    counts
        File of requests in each minute, hour ..., of all servers.
    load
        Scale counts to this mean load, in per cent of what both machines of all servers carry, or
        several separated by commas (default: as counted). The World Cup's fullest minute is 21
        times its mean.
    setting
        Change a value: --set big.wake_ms=50, or how the year is played: --set servers=1000,
        --set days=365 (counts are repeated or cut off), --set steady_loads=33,
        --set accuracy=0.02 (of each load), --set dispatch=round-robin. May be repeated.
    """
    values = OPTIONS | dict(settings(setting))
    services = workloads or ("count",)
    if wrong := [name for name in services if "@" in name]:
        raise HalfwinkError(f"workload `{wrong[0]}`: expected a service; its load is --counts")
    means = [""] if load is None else [f"@{mean}" for mean in load.split(",")]
    return compare(
        *(f"{name}@counts:{counts}{mean}" for name in services for mean in means),
        world="server",
        technique=technique,
        machine=machine,
        setting=[f"{path}={value}" for path, value in values.items()],
        figure=figure,
        options=options,
    )

"""``halfwink hybrid-year``: a year of a fleet of hybrid servers in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import Parameter

from halfwink.cli.console import formula_safe, print_frame, print_json, say
from halfwink.cli.console import out as stdout
from halfwink.cli.settings import Setting, settings, split_techniques
from halfwink.errors import HalfwinkError
from halfwink.hybrid import ACCURACY_PCT, COUNTS, MOST_STEADY, hybrid_year

#: Columns of the table, in order.
COLUMNS = [
    "workload",
    "policy",
    "power_w",
    "saved_pct",
    "gwh",
    "j_per_request",
    "mean_ms",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "highest_pct",
    "above_minutes",
]
#: A gigawatt hour, in joules.
GWH = 3.6e12


def year(
    name: str = "niccolini",
    *,
    workload: str = "count",
    policy: str = "",
    counts: str = COUNTS,
    servers: int = 1000,
    load: Annotated[float | None, Parameter(name="--load")] = None,
    days: float = 365,
    dispatch: str = "random",
    points: int = 33,
    accuracy: float = ACCURACY_PCT,
    requests: int = MOST_STEADY,
    seed: int = 1,
    setting: Setting = None,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Show what a fleet of hybrid servers draws and delays over a year of counts.

    Quasi-stationary: one server at steady loads, then every minute of the year from them. To play
    every request instead: `halfwink hybrid --load counts:FILE --set servers=1000`.

    Parameters
    ----------
    name
        Name (niccolini), or a TOML file.
    workload
        Workloads, comma-separated: count, readfile, ksort, compress, dns, mail ...; or all.
    policy
        Policies, comma-separated: always-on, hybrid, power-nap ... (default: all). Savings are
        against always-on.
    counts
        File of requests in each minute, hour ..., of all servers.
    servers
        Number of servers that share the requests.
    load
        Scale counts to this mean load, in per cent of what both machines of all servers carry
        (default: as counted). The World Cup's fullest minute is 21 times its mean.
    days
        Length in days: counts are repeated or cut off.
    dispatch
        Dispatch of requests: random or round-robin.
    points
        Steady loads that are simulated.
    accuracy
        Each is known within so many per cent (95 % confidence).
    requests
        Requests of each, at most.
    seed
        Seed of all random streams.
    setting
        Change a value: --set big.wake_ms=50. May be repeated.
    out
        File for the table: FILE.parquet or FILE.csv.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise HalfwinkError(f"--out {out}: expected a name that ends in .parquet or .csv")
    if not 0.05 <= accuracy <= 50:
        raise HalfwinkError(f"--accuracy {accuracy:g}: expected 0.05 to 50 per cent")
    found = hybrid_year(
        name,
        split_techniques(policy) or [],
        counts=counts,
        servers=servers,
        load_pct=load,
        days=days,
        workloads=[] if workload == "all" else workload.split(","),
        dispatch=dispatch,
        points=points,
        accuracy_pct=accuracy,
        requests=requests,
        seed=seed,
        set=dict(settings(setting)),
    )
    if out is not None:
        if out.suffix == ".parquet":
            found.write_parquet(out)
        else:
            formula_safe(found).write_csv(out)
    if json:
        print_json("hybrid-year", {"year": found.to_dicts()})
        return 0
    print_frame(found.with_columns((pl.col("energy_j") / GWH).alias("gwh")).select(COLUMNS))
    _tell(found, quiet)
    return 0


def _tell(found: pl.DataFrame, quiet: bool) -> None:
    first = found.row(0, named=True)
    stdout.print(
        f"{first['servers']} servers, {first['days']:g} days, load {first['load_pct']:.3g} % in "
        f"the mean, {first['peak_pct']:.3g} % at most; power of all; saved: against always-on"
    )
    stdout.print("all watts and times are modelled; quasi-stationary: from steady loads")
    for row in found.filter(pl.col("above_minutes") > 0).iter_rows(named=True):
        stdout.print(
            f"{row['policy']}: {row['above_minutes']:,.0f} minutes above {row['highest_pct']:.3g} "
            f"% were served at that, {row['above_requests']:,.0f} requests left out"
        )
    if first["bad_lines"]:
        say(f"{first['bad_lines']} bad lines left out; {first['bad_line']}", quiet=quiet)

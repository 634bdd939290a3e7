"""``halfwink router``: power, latency, loss and reordering of a software router against load."""

from __future__ import annotations

from typing import Annotated

import polars as pl
from cyclopts import Parameter

from halfwink.cli.commands import Setting, settings
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_json
from halfwink.library import library
from halfwink.router import software_router

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]

#: Columns of each view, in order.
RUNS = [
    "app",
    "policy",
    "mpps",
    "power_w",
    "saved_pct",
    "mean_us",
    "p50_us",
    "p99_us",
    "max_us",
    "lost",
    "reordered",
    "cores",
    "changes",
]
SLOTS = ["app", "policy", "second", "load", "power_w", "mean_us", "p99_us", "cores", "ghz", "lost"]


def router(
    name: str = "westmere",
    *,
    app: Annotated[str, Parameter(name="--app")] = "ipv4",
    policy: Annotated[str, Parameter(name="--policy")] = "",
    profile: str = "evaluation",
    points: Flag = False,
    seed: int = 1,
    setting: Setting = None,
    json: Json = False,
) -> int:
    """Show what a software router draws, delays, loses and reorders under each policy.

    Parameters
    ----------
    name
        Name (westmere), or a TOML file.
    app
        Applications, comma-separated: ipv4, netflow, ipsec, redundancy; or all.
    policy
        Policies, comma-separated: polling, napi, power-save ... (default: all).
    profile
        evaluation, or loads in per cent of the peak rate: 5,20,80.
    points
        Each point of the profile.
    seed
        Seed of all random streams.
    setting
        Change a value: --set power_save.c_down=20. May be repeated.
    json
        Print one JSON document.
    """
    values = settings(setting)
    apps = [] if app == "all" else app.split(",")
    policies = policy.split(",") if policy else []
    found = software_router(
        name, apps=apps, policies=policies, profile=profile, seed=seed, set=dict(values)
    )
    runs = _saved(found.runs)
    if json:
        print_json({"runs": runs.to_dicts(), "slots": found.slots.to_dicts()})
        return 0
    print_frame(found.slots.select(SLOTS) if points else runs.select(RUNS))
    stdout.print("all watts and times are modelled; saved: against the first policy shown")
    calibrated = library().router(name, values).spec()["calibrated"]
    if calibrated:
        stdout.print(f"calibrated: {', '.join(calibrated)}", markup=False)
    return 0


def _saved(runs: pl.DataFrame) -> pl.DataFrame:
    """With what each saves of the power under the first policy, in per cent."""
    first = pl.col("power_w").first().over("app")
    return runs.with_columns((100 * (1 - pl.col("power_w") / first)).alias("saved_pct"))

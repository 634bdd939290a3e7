"""``halfwink router``: power, latency, loss and reordering of a software router against load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import Parameter

from halfwink.batch import record
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_json
from halfwink.cli.settings import Log, Setting, settings, split_techniques
from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text
from halfwink.jobs import Job, pairs
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
    profile: str | None = None,
    pps: float | None = None,
    profile_pps: Path | None = None,
    points: Flag = False,
    seed: int = 1,
    setting: Setting = None,
    log: Log = None,
    json: Json = False,
) -> int:
    """Show what a software router draws, delays, loses and reorders under each policy.

    Parameters
    ----------
    name
        Name (westmere, linux), or a TOML file.
    app
        Applications, comma-separated: ipv4, netflow, ipsec, redundancy; or all.
    policy
        Techniques, comma-separated, with parameters: polling, napi, metronome:threads=2 ...
        (default: all; `halfwink list techniques --world router` shows them).
    profile
        evaluation; loads in per cent of the peak rate or in packets per second, with lines between
        them: 5,20,80 or 100kpps,1Mpps; the same at once, step:5,80; in so many milliseconds,
        ramp:5,80,2. Each load lasts evaluation.point_ms.
    pps
        One rate, in packets per second.
    profile_pps
        File of rates in packets per second, one on each line.
    points
        Each point of the profile.
    seed
        Seed of all random streams.
    setting
        Change a value: --set nic.ring=1024. May be repeated.
    log
        Event log for `halfwink replay`; of several runs FILE-WHICH beside it, or all in a folder/.
        The runs are played once more for it.
    json
        Print one JSON document.
    """
    values = settings(setting)
    shape = _profile(profile, pps, profile_pps)
    apps = [] if app == "all" else app.split(",")
    policies = split_techniques(policy) or []
    found = software_router(
        name, apps=apps, policies=policies, profile=shape, seed=seed, set=dict(values)
    )
    if log is not None:
        asked = found.runs.select("app", "policy").iter_rows()
        options = {"seed": seed}
        record(
            [
                Job("router", f"{app}@{shape}", name, policy, pairs(values), pairs(options))
                for app, policy in asked
            ],
            log,
        )
    runs = _saved(found.runs)
    if json:
        print_json("router", {"runs": runs.to_dicts(), "slots": found.slots.to_dicts()})
        return 0
    print_frame(found.slots.select(SLOTS) if points else runs.select(RUNS))
    stdout.print("all watts and times are modelled; saved: against the first policy shown")
    calibrated = library().router(name, values).spec()["calibrated"]
    if calibrated:
        stdout.print(f"calibrated: {', '.join(calibrated)}", markup=False)
    return 0


def _profile(profile: str | None, pps: float | None, file: Path | None) -> str:
    """The one profile that was asked for, as a text."""
    given = [part for part in (profile, pps, file) if part is not None]
    if len(given) > 1:
        raise HalfwinkError("expected one of --profile, --pps, --profile-pps, not several")
    if pps is not None:
        return f"{pps:f}pps"
    if file is None:
        return profile or "evaluation"
    lines = read_text(file).splitlines()
    rates: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            rate = float(text)
        except ValueError:
            rate = -1.0
        if not 0 <= rate <= 1e12:
            raise HalfwinkError(
                f"{file}:{number}: `{text}`, expected packets per second, 0 to 1e12"
            )
        rates.append(f"{rate:f}pps")
    if not rates:
        raise HalfwinkError(f"{file}: no rates; expected one on each line")
    return ",".join(rates)


def _saved(runs: pl.DataFrame) -> pl.DataFrame:
    """Adds the power that each run saves against the first policy, in per cent."""
    first = pl.col("power_w").first().over("app")
    return runs.with_columns((100 * (1 - pl.col("power_w") / first)).alias("saved_pct"))

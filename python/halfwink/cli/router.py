"""``halfwink router``: power, latency, loss and reordering of a software router against load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

from cyclopts import Parameter

from halfwink import _core
from halfwink.cli.commands import RUN_OPTIONS, RunOptions, compare
from halfwink.cli.console import say
from halfwink.cli.results import NO_FIGURE, FigureOptions
from halfwink.cli.settings import Setting
from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text
from halfwink.library import declared, library

WORLD = "router"


def router(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    profile: str | None = None,
    pps: float | None = None,
    profile_pps: Path | None = None,
    points: Annotated[bool, Parameter(negative="")] = False,
    setting: Setting = None,
    figure: FigureOptions = NO_FIGURE,
    options: RunOptions = RUN_OPTIONS,
) -> int:
    """Show what a software router draws, delays, loses and reorders under each technique.

    The runs, columns and report are those of `halfwink compare -w router`.

    Parameters
    ----------
    workloads
        Applications: ipv4, netflow, ipsec, redundancy; each may have its load behind it, as
        ipv4@5,20,80. Default: ipv4.
    technique
        Techniques, separated by commas, with parameters: polling, napi, metronome:threads=2 ...
        (default: all; `halfwink list techniques --world router` shows them).
    machine
        Router (westmere, linux), or a TOML file. Default: westmere.
    profile
        Load of every workload: evaluation; loads in per cent of the peak rate or in packets per
        second, with lines between them: 5,20,80 or 100kpps,1Mpps; the same at once, step:5,80; in
        so many milliseconds, ramp:5,80,2. Each load lasts evaluation.point_ms.
    pps
        One rate, in packets per second.
    profile_pps
        File of rates in packets per second, one on each line, or a range export of Prometheus or
        Grafana (Time,Value).
    points
        Each point of the profile.
    setting
        Change a value: --set nic.ring=1024, --set seed=3. May be repeated.
    """
    return compare(
        *_loaded(workloads, _profile(profile, pps, profile_pps, quiet=options.quiet)),
        world=WORLD,
        technique=technique,
        machine=machine,
        setting=setting,
        table="slots" if points else None,
        figure=figure,
        options=options,
    )


def _loaded(workloads: Sequence[str], profile: str | None) -> list[str]:
    """Returns each workload under the profile."""
    if profile is None:
        return list(workloads)
    for workload in workloads:
        if "@" in workload:
            raise HalfwinkError(f"`{workload}` has a load already: leave out the profile")
    return [f"{workload}@{profile}" for workload in workloads or [declared(WORLD)["workload"]]]


def _profile(
    profile: str | None, pps: float | None, file: Path | None, *, quiet: bool
) -> str | None:
    """Returns the one profile that was given, as a text."""
    given = [part for part in (profile, pps, file) if part is not None]
    if len(given) > 1:
        raise HalfwinkError("expected one of --profile, --pps, --profile-pps, not several")
    if pps is not None:
        return f"{pps:.15g}pps"
    if file is None:
        return profile
    content = read_text(file)
    if _is_export(content):
        return ",".join(f"{rate:.15g}pps" for rate in _exported(content, file, quiet=quiet))
    rates: list[str] = []
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            rate = float(text)
        except ValueError:
            rate = -1.0
        if not 0 <= rate <= 1e12:
            raise HalfwinkError(
                f"{file}:{number}: `{text[:60]}`, expected packets per second, 0 to 1e12"
            )
        rates.append(f"{rate:.15g}pps")
    if not rates:
        raise HalfwinkError(f"{file}: no rates; expected one on each line")
    return ",".join(rates)


def _is_export(content: str) -> bool:
    """Returns true for JSON, and for a table with a header."""
    first = content.lstrip().partition("\n")[0]
    return first.startswith("{") or ("," in first or ";" in first)


def _exported(content: str, file: Path, *, quiet: bool) -> list[float]:
    """Rates of a range export of Prometheus, of Grafana's CSV, or counts by their step; says what
    the file was read as.

    Raises:
        HalfwinkError: the file has another format.
    """
    # Standard input is read once.
    with NamedTemporaryFile("w", suffix=".csv") as copy:
        copy.write(content)
        copy.flush()
        try:
            found = _core.day_load(library(), f"counts:{copy.name}", 1.0)
        except HalfwinkError as error:
            raise HalfwinkError(str(error).replace(copy.name, str(file))) from None
    say(f"{file}: {found['read_as']}", quiet=quiet)
    rates: list[float] = found["per_s"]
    return rates

"""The command ``halfwink live predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_table, print_tables, say
from halfwink.errors import HalfwinkError

if TYPE_CHECKING:
    from halfwink.bed.prediction import Prediction


def predict(
    folder: Path,
    *,
    workload: str = "count",
    thresholds: str = "4,8,12",
    loads: str = "20,40,60,80",
    requests: int = 3000,
    files: int = 2000,
    again: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Measure a hybrid server of two pools on this machine, and simulate it: are they the same?

    The simulator's delay model is fitted in closed loops; then open loads go through the steering
    proxy, and the simulator plays the same arrivals and sizes. Takes minutes; let nothing else run.

    Parameters
    ----------
    folder
        Folder to make; it keeps the data set and the measurements.
    workload
        count, readfile, ksort or compress.
    thresholds
        Concurrent requests from which on the big pool serves, comma-separated.
    loads
        Per cent of what both pools carry, comma-separated.
    requests
        Number of requests of each load, and of the calibration with each number in service.
    files
        Number of files in the data set.
    again
        Measure nothing: simulate what the folder holds.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    from halfwink.bed import prediction

    if again:
        found = prediction.predict(folder)
    else:
        found = prediction.experiment(
            folder,
            workload=workload,
            thresholds=[int(n) for n in _numbers("--thresholds", thresholds, 0, 10_000)],
            loads=_numbers("--loads", loads, 1, 99),
            requests=requests,
            files=files,
            tell=lambda line: say(line, quiet=quiet),
        )
    if json:
        _print(found)
        return 0
    print_frame(found.rows)
    print_frame(found.errors)
    for name in found.gamma:
        betas = ", ".join(f"{b:.4g}" for b in found.beta_ms[name])
        stdout.print(
            f"{name}: alpha {found.alpha_ms[name]:.4g} ms, beta {betas} ms per kB with 1, 2 ... in "
            f"service; exponent of size, fitted freely: {found.gamma[name]:.3f}"
        )
    stdout.print("measured: on this machine; simulated: the same arrivals, sizes and policy")
    return 0


def steer_day(
    folder: Path,
    *,
    policy: str = "hybrid",
    workload: str = "count",
    arrivals: str = "world-cup",
    seconds: float = 120.0,
    peak_pct: Annotated[float, Parameter(name="--peak-pct")] = 70.0,
    files: int = 2000,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Play a day of load through a real hybrid server, whose big pool is stopped and continued.

    The simulator plays the same arrivals and sizes, with delays fitted in closed loops. Watts are
    modelled, in both.

    Parameters
    ----------
    folder
        Folder to make; it keeps the data set and the measurements.
    policy
        Policy of the proxy and of the simulator.
    workload
        count, readfile, ksort or compress.
    arrivals
        world-cup (30 June 1998), evaluation or poisson.
    seconds
        Length of the day, in seconds.
    peak_pct
        Load at its busiest, in per cent of what both pools carry.
    files
        Number of files in the data set.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    from halfwink.bed import steer_day as days

    days.check(seconds, peak_pct)
    found = days.steer_day(
        folder,
        policy=policy,
        workload=workload,
        arrivals=arrivals,
        seconds=seconds,
        peak_pct=peak_pct,
        files=files,
        tell=lambda line: say(line, quiet=quiet),
    )
    if json:
        servers = [
            {"server": "live", **found.live},
            {"server": "simulated", **found.simulated},
        ]
        tables = {"slots": found.slots, "servers": servers}
        print_tables("live steer-day", tables, {"replayed": found.replayed})
        return 0
    print_frame(found.slots)
    rows = [
        [name, f"{value:.5g}", f"{found.simulated[name]:.5g}" if name in found.simulated else "-"]
        for name, value in found.live.items()
    ]
    print_table([("", "left"), ("live", "right"), ("simulated", "right")], rows)
    again = "the same" if found.replayed else "something else"
    stdout.print(f"watts are modelled; the policy, told its log again, asks for {again}")
    return 0 if found.replayed and found.live["failed"] == 0 else 1


def _print(found: Prediction) -> None:
    """Prints the prediction as JSON."""
    pools = [
        {
            "name": name,
            "gamma": found.gamma[name],
            "alpha_ms": found.alpha_ms[name],
            "beta_ms": found.beta_ms[name],
        }
        for name in found.gamma
    ]
    print_tables("live predict", {"rows": found.rows, "errors": found.errors, "pools": pools})


def _numbers(option: str, text: str, least: float, most: float) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    wrong = [f"found {number:g}, " for number in found if not least <= number <= most]
    if not found or wrong:
        said = f"{''.join(wrong[:1])}expected numbers from {least:g} to {most:g}, as 4,8,12"
        raise HalfwinkError(f"{option} {text}: {said}")
    return found

"""The command ``halfwink sample``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_table, print_tables, say
from halfwink.cli.settings import Setting, settings, split_techniques
from halfwink.errors import HalfwinkError
from halfwink.runs import sampling


def sample(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str, Parameter(name=["-m", "--machine"])] = sampling.MACHINE,
    setting: Setting = None,
    windows: int | None = None,
    period: int | None = None,
    unit: int = sampling.UNIT,
    warm_up: int = sampling.WARM_UP,
    instructions: Annotated[int | None, Parameter(name=["-n", "-i", "--instructions"])] = None,
    skip: int | None = None,
    seed: int = 1,
    precision: float | None = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Sample a long workload: windows of it in detail, each figure with its 95 % interval.

    Parameters
    ----------
    workloads
        One: a name (gcc), a file (my.hwt), or mixed:instructions=1000000000.
    technique
        Techniques, separated by commas, with parameters (tap:wake=last). Default: tap.
    machine
        Machine, or a file. One core of it is used.
    setting
        Change a value of the machine: --set gating.wake_up_ns=16. May be repeated.
    windows
        Number of windows. Default: as many as fit, at most 200; at least 32 have intervals.
    period
        Instructions from one window to the next, instead of their number.
    unit
        Instructions that are measured of each window.
    warm_up
        Instructions played in detail before them: queues, rows of memory, policies.
    instructions
        Instructions of the workload, at most.
    skip
        Instructions before which no window begins: they only warm caches and predictor. Of a
        recording of samples, those of each (half of it).
    seed
        Chooses where the first window begins.
    precision
        Tell how many windows it takes for half widths of so many per cent.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    if len(workloads) != 1:
        raise HalfwinkError(f"{len(workloads)} workloads, expected one, as gcc or my.hwt")
    begun = time.monotonic()
    found = sampling.sample(
        workloads[0],
        techniques=split_techniques(technique),
        machine=machine,
        set=dict(settings(setting)),
        windows=windows,
        period=period,
        unit=unit,
        warm_up=warm_up,
        instructions=instructions,
        skip=skip,
        seed=seed,
        precision_pct=precision,
    )
    seconds = time.monotonic() - begun
    if json:
        facts = found.facts | {"baseline": found.results[0]["technique"]}
        facts["modelled"] = ["energy", "time"]
        print_tables("sample", {"techniques": found.results}, facts, found.warnings())
    else:
        _show(found)
    for line in found.warnings():
        say(f"warning: {line}")
    if precision is not None and (count := found.facts["windows"]) < 32:
        say(f"warning: --precision {precision:g}: {count} windows do not tell how many it takes")
    speed = found.facts["instructions"] / 1e6
    say(f"{speed:.3g} M instructions in {seconds:.1f} s", quiet=quiet)
    return 0


def _show(found: sampling.Sample) -> None:
    facts = found.facts
    windows = facts["windows"]
    where = f"one every {facts['period']:,}"
    if facts["samples"]:
        where = f"in {facts['samples']} samples of a run of {facts['of']:,}"
    stdout.print(
        f"{Path(facts['workload']).name} on {facts['machine']}: {windows} windows of "
        f"{facts['unit']:,} instructions,\n{where}; 95 % intervals"
    )
    heads = ["IPC", "core pJ/instr", "all pJ/instr"]
    rows = [
        [
            row["technique"],
            _figure(row["ipc"], 1, 3),
            _figure(row["core_energy_j_per_instruction"], 1e12, 1),
            _figure(row["energy_j_per_instruction"], 1e12, 1),
        ]
        for row in found.results
    ]
    print_table([("technique", "left"), *((h, "right") for h in heads)], rows)
    stdout.print()
    heads = ["core saved %", "all saved %", "slowdown %", "p99 stall ns"]
    paired = ("core_energy_saving_pct", "energy_saving_pct", "slowdown_pct")
    rows = [
        [
            row["technique"],
            *(_figure(row[name], 1, 2) for name in paired),
            _figure(row["memory_stall_p99_ns"], 1, 0),
        ]
        for row in found.results
    ]
    print_table([("technique", "left"), *((h, "right") for h in heads)], rows)
    stdout.print()
    if windows < 32:
        stdout.print("no intervals: fewer than 32 windows")
    for row in found.results:
        if row["windows_needed"] is not None:
            stdout.print(
                f"{row['technique']}: {row['windows_needed']:,} windows for that precision"
            )
    stdout.print("energies and times: modelled; savings: of the same windows")
    stdout.print("p99 stall: of memory; latencies: not given, windows hold no whole request")
    if facts["load"] == "open":
        stdout.print("open load: a halt in a window has its recorded length")


def _figure(figure: dict[str, Any] | None, scale: float, digits: int) -> str:
    """A value with the half width of its interval, or with both ends if it is off the middle."""
    if figure is None or figure["value"] is None:
        return "-"
    # What rounds to nothing has no sign.
    text = f"{round(scale * figure['value'], digits) + 0.0:.{digits}f}"
    if figure["low"] is None:
        return text
    if figure["high"] is None:
        return f"{text}, {scale * figure['low']:.{digits}f} or more"
    low, high = scale * figure["low"], scale * figure["high"]
    half = (high - low) / 2
    # Intervals of ratios may reach further to one side: half of their width says neither end.
    if f"{(low + high) / 2:.{digits}f}" != f"{scale * figure['value']:.{digits}f}":
        return f"{text} ({low:.{digits}f} to {high:.{digits}f})"
    return f"{text} ±{half:.{digits}f}"

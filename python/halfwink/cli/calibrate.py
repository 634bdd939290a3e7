"""``halfwink calibrate``: machines made of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import App, Parameter

from halfwink.cli.console import print_frame, print_sentences, print_tables, say
from halfwink.files import write_whole

Json = Annotated[bool, Parameter(name="--json", negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]

app = App(name="calibrate", help="Make a machine of what was measured.")


@app.command
def host(
    *,
    out: Annotated[Path | None, Parameter(name=("-o", "--out"))] = None,
    quick: Annotated[bool, Parameter(name="--quick", negative="")] = False,
    cpu: int | None = None,
    max_spread: float = 5.0,
    programs: str | None = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure the machine this runs on, and say how well it is simulated.

    Small kernels run many times on one CPU, in user mode and without counters. What comes of them
    is a machine of the world chip, with the evidence beside each number. Then recorded programs
    are timed here and played on it; nothing is tuned to the difference.

    Parameters
    ----------
    out
        Write the machine here (.toml).
    quick
        Fewer runs, coarser ladders, three programs: some 15 seconds.
    cpu
        CPU to measure on (default: the last one allowed).
    max_spread
        Largest spread of a core's numbers over repetitions, in percent; nothing is written if one
        spreads more.
    programs
        Programs to time and play, separated by commas (default: all; none: none).
    json
        Print one JSON document.
    quiet
        No messages.
    """
    from halfwink.calibrate import host as host_calibration

    def progress(what: str) -> None:
        say(f"{what} ...", quiet=quiet)

    named = None if programs is None else [w for w in programs.split(",") if w not in ("", "none")]
    found = host_calibration.calibrate_host(
        cpu=cpu,
        quick=quick,
        max_spread_pct=max_spread,
        programs=named,
        progress=progress,
    )
    if out is not None:
        write_whole(out, found.text)
        say(f"machine: {out}", quiet=quiet)
    for note in found.notes:
        say(note, quiet=quiet)
    mean, worst = found.errors()
    huge = found.errors("error_huge_pct")
    if json:
        print_tables(
            "calibrate host",
            {"numbers": found.numbers, "curves": found.curves, "programs": found.programs},
            {
                "machine": found.text,
                "mean_error_pct": mean,
                "worst_error_pct": worst,
                "mean_error_huge_pct": huge[0],
                "worst_error_huge_pct": huge[1],
                "notes": found.notes,
            },
        )
        return 0
    print_frame(found.numbers.with_columns(pl.col("value").round(2), pl.col("spread_pct").round(1)))
    if found.programs.is_empty():
        return 0
    ns = pl.col("native_ns", "native_huge_ns", "simulated_ns").round(3)
    print_frame(
        found.programs.with_columns(ns, pl.col("error_pct", "error_huge_pct").round(0)),
        spared=["native_huge_ns", "error_huge_pct"],
    )
    goals = host_calibration.GOAL_MEAN_PCT, host_calibration.GOAL_WORST_PCT
    lines = (
        f"mean absolute error {mean:.0f} %, worst {worst:.0f} % (goals: {goals[0]:g} and "
        f"{goals[1]:g} %)",
        f"with its memory in huge pages {huge[0]:.0f} %, worst {huge[1]:.0f} %: the difference is "
        "translation",
        "native: measured here; simulated: modelled, nothing tuned to the difference",
    )
    print_sentences(lines, hang="  ")
    return 0

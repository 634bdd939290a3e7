"""``halfwink calibrate``: machines made of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
from cyclopts import App, Parameter

from halfwink.cli.console import print_frame, print_sentences, print_tables, say
from halfwink.files import write_whole

if TYPE_CHECKING:
    from halfwink.calibrate.host import HostCalibration

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
        Fewer runs, coarser ladders, six programs: some 15 seconds.
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
    if json:
        print_tables(
            "calibrate host",
            {"numbers": found.numbers, "curves": found.curves, "programs": found.programs},
            {
                "machine": found.text,
                **_error_facts(found),
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
        spared=["native_huge_ns", "error_huge_pct", "held_out"],
    )
    print_sentences(_error_lines(found), hang="  ")
    return 0


def _error_facts(found: HostCalibration) -> dict[str, float | None]:
    facts = dict[str, float | None]()
    for ending, held_out in (("", False), ("_held_out", True)):
        for kind in ("error", "error_huge"):
            errors = found.errors(f"{kind}_pct", held_out=held_out) or (None, None)
            facts[f"mean_{kind}{ending}_pct"], facts[f"worst_{kind}{ending}_pct"] = errors
    return facts


def _error_lines(found: HostCalibration) -> list[str]:
    from halfwink.calibrate.host import GOALS_PCT, HELD_OUT_GOALS_PCT

    lines = list[str]()
    for which, held_out, goals in (
        ("programs", False, GOALS_PCT),
        ("programs held out", True, HELD_OUT_GOALS_PCT),
    ):
        errors = found.errors(held_out=held_out)
        huge = found.errors("error_huge_pct", held_out=held_out)
        if errors is not None and huge is not None:
            lines.append(
                f"{which}: mean absolute error {errors[0]:.0f} %, worst {errors[1]:.0f} % (goals: "
                f"{goals[0]:g} and {goals[1]:g} %); with memory in huge pages {huge[0]:.0f} and "
                f"{huge[1]:.0f} %"
            )
            if held_out:
                lines.append("held out: no mechanism of the chip was chosen by their errors")
    lines.append("native: measured here; simulated: modelled, nothing tuned to the difference")
    return lines

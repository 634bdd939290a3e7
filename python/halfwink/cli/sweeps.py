"""Options of `halfwink run` for sweeps: what they cost, and parts of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_tables, progress_bar, say
from halfwink.errors import HalfwinkError
from halfwink.files import Place
from halfwink.runs import studies
from halfwink.runs.sweep_plan import StudyPlan, plan_study

#: The part that is what other parts did not do.
MISSING = "missing"


def show_plan(study: str, part: str | None, folder: Place, *, json: bool) -> int:
    """Prints what a study will cost, for so many parts as ``part`` says."""
    found = plan_study(study, out=folder, parts=part_of(part)[1] if part is not None else None)
    if json:
        print_tables("run --plan", {}, asdict(found))
        return 0
    for line in _lines(found):
        stdout.print(line, markup=False, highlight=False)
    return 0


def _lines(plan: StudyPlan) -> list[str]:
    left = plan.results - plan.there
    shared = plan.jobs - plan.results
    again = f"; {shared:,} more have the result of another, since a run does not read all values"
    work = f": {plan.work:,} {plan.unit}" if plan.work else ""
    basis = "at the rates of what is kept" if plan.is_measured else "at typical rates"
    advice = "" if plan.is_measured else "; after a first part it is measured"
    longest, shortest = _time(plan.most_hours), _time(plan.least_hours)
    spread = f"{longest} each" if longest == shortest else f"{shortest} to {longest} each"
    parts = f"{plan.parts:,} part{'s' if plan.parts > 1 else ''}"
    return [
        f"{plan.study}: {plan.jobs:,} jobs, {plan.results:,} results{again if shared else ''}",
        f"kept: {plan.there:,}; to play: {left:,}{work}",
        f"estimate: {plan.cpu_hours:.3g} CPU hours, {basis}{advice}",
        f"in {parts}: {plan.most_results:,} results at most, {spread}",
    ]


def _time(hours: float) -> str:
    for limit, factor, unit in ((1 / 60, 3600, "s"), (1.0, 60, "min")):
        if hours < limit:
            return f"{factor * hours:.2g} {unit}"
    return f"{hours:.3g} h"


def run_part(study: str, part: str, folder: Place, how: dict[str, Any], *, quiet: bool) -> int:
    """Runs a part of a study, or what is missing of it."""
    dealt = None if part == MISSING else part_of(part)
    name = f"{Path(study).stem} {part}"
    with progress_bar(f"run {name}", quiet=quiet) as progress:
        count = studies.run_part(study, dealt, out=folder, progress=progress, **how)
    more = f"when all are: halfwink run {study} -o {folder} --collect"
    say(f"{name}: {count} results in {folder / 'runs'}; {more}", quiet=quiet)
    return 0


def part_of(text: str) -> tuple[int, int]:
    """Reads a part and how many there are: ``3/200``.

    Raises:
        HalfwinkError: the text is something else.
    """
    which, slash, of = text.partition("/")
    if not (slash and which.isdecimal() and of.isdecimal()):
        raise HalfwinkError(
            f"--part {text}: expected a part and how many there are, as 3/200, or {MISSING}"
        )
    return int(which), int(of)

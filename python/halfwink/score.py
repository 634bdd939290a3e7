"""Share of published results that is predicted: counts by work and area, and their table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: Verdicts on predictions from runs: nothing was fitted to them, and they could have been missed.
GOOD = ("match", "holds")
BAD = ("miss", "fails")
#: Classes whose values a model computes, and that are judged.
PREDICTED = ("exact", "quantitative", "shape")
#: Counted apart, never as reproduced.
APART: tuple[str, ...] = ("insensitive", "calibrated", "arithmetic", "input", "contradicted")
UNJUDGED: tuple[str, ...] = ("analogue", "undetermined", "not-yet")


@dataclass(frozen=True)
class Score:
    """Sums of the verdicts of some targets.

    Attributes:
        name: name of the group of targets.
        good: predictions from runs that are as published.
        judged: number of these and of those that are not as published.
        held_out_good, held_out_judged: counts of targets that were set apart beforehand.
        median_error_pct: median error of predicted numbers, relative to the published ones; None
            without any.
        killed, met: predictions that a mutant of the models breaks, of those that are met.
        apart: counts of each other verdict.
    """

    name: str
    good: int
    judged: int
    held_out_good: int
    held_out_judged: int
    median_error_pct: float | None
    killed: int
    met: int
    apart: dict[str, int]

    @property
    def mutation_score_pct(self) -> float | None:
        """Predictions that are met and break under a mutant, of all that are met."""
        return 100 * self.killed / self.met if self.met else None


def row_of(entry: dict[str, Any]) -> str:
    """The row that a target counts for: its work and area."""
    return f"{entry['id'].split('/')[0]} {entry['area']}"


def score(name: str, entries: Iterable[dict[str, Any]]) -> Score:
    """Counts entries of `halfwink.targets.reproduce`."""
    good = judged = held_good = held_judged = insensitive = 0
    errors: list[float] = []
    apart = dict.fromkeys((*APART, *UNJUDGED), 0)
    for entry in entries:
        verdict = entry["verdict"]
        if verdict in apart:
            apart[verdict] += 1
        if entry["class"] not in PREDICTED or verdict not in (*GOOD, *BAD, "insensitive"):
            continue
        error = _relative_error(entry)
        errors += [] if error is None else [error]
        if verdict == "insensitive":
            insensitive += 1
            continue
        judged += 1
        good += verdict in GOOD
        if entry["held_out"]:
            held_judged += 1
            held_good += verdict in GOOD
    median = 100 * statistics.median(errors) if errors else None
    return Score(
        name, good, judged, held_good, held_judged, median, good, good + insensitive, apart
    )


def _relative_error(entry: dict[str, Any]) -> float | None:
    published, ours = entry["published"], entry["ours"]
    if isinstance(published, bool | str) or isinstance(ours, bool) or ours is None:
        return None
    return abs(ours - published) / abs(published) if published else None


def scores(entries: Sequence[dict[str, Any]]) -> list[Score]:
    """A score for each work and area, in the order of the entries, and that of all."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        rows.setdefault(row_of(entry), []).append(entry)
    found = [score(name, those) for name, those in rows.items()]
    return [*found, score("all", entries)] if len(found) > 1 else found


def headline(total: Score) -> str:
    """The line that a reader may trust."""
    said = (
        f"predictions from runs: {total.good} of {total.judged} good; "
        f"held out {total.held_out_good} of {total.held_out_judged}"
    )
    if total.median_error_pct is not None:
        said += f"; median error {total.median_error_pct:.0f} %"
    return said


#: Headings of `cells`.
HEADINGS = (
    "row",
    "good of judged",
    "held out",
    "median error",
    "mutation score",
    *APART,
    *UNJUDGED,
)


def cells(found: Score) -> list[str]:
    """A score as a row of a table, under `HEADINGS`."""
    error, mutation = found.median_error_pct, found.mutation_score_pct
    counts = [found.apart[verdict] for verdict in (*APART, *UNJUDGED)]
    return [
        found.name,
        f"{found.good} of {found.judged}",
        f"{found.held_out_good} of {found.held_out_judged}",
        "-" if error is None else f"{error:.0f} %",
        "-" if mutation is None else f"{mutation:.0f} %",
        *(str(count) if count else "-" for count in counts),
    ]

"""Skill: predictions that are met and that a model without the mechanism does not meet, by row."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from halfwink.library import library

#: Verdicts on predictions from runs: nothing was fitted to them, and they could have been missed.
GOOD = ("match", "holds")
BAD = ("miss", "fails")
#: Counted apart, never as predicted. `given but missed`: was fitted, taken from print or calculated
#: from it, and is not as printed all the same.
APART: tuple[str, ...] = (
    "insensitive",
    "calibrated",
    "arithmetic",
    "input",
    "given but missed",
    "contradicted",
)
UNJUDGED: tuple[str, ...] = ("analogue", "undetermined", "not-yet")


@dataclass(frozen=True)
class Score:
    """Sums of the verdicts of some targets.

    Attributes:
        name: name of the group of targets.
        judged: number of predictions: targets with a null that are as published, or are not.
        good: predictions that are as published.
        null_good: predictions whose null is as published.
        beyond: predictions that are as published and whose null is not.
        facts, facts_good: predictions in which one value of ours counts once, however many targets
            print it, and those of which every target is as published.
        error_ratio: median over predicted numbers of our error over the null's; 1 is no skill.
        held_out_good, held_out_judged, held_out_null: counts of those that were set apart
            beforehand.
        median_error_pct: median error of predicted numbers, relative to the published ones; None
            without any.
        killed, met: predictions that break when a technique is undone, of those that are met.
        apart: counts of each other verdict.
    """

    name: str
    judged: int
    good: int
    null_good: int
    beyond: int
    facts: int
    facts_good: int
    error_ratio: float | None
    held_out_good: int
    held_out_judged: int
    held_out_null: int
    median_error_pct: float | None
    killed: int
    met: int
    apart: dict[str, int]

    @property
    def skill_pct(self) -> float | None:
        """Predictions that we meet, of those that the null misses."""
        missed = self.judged - self.null_good
        return 100 * self.beyond / missed if missed else None

    @property
    def mutation_score_pct(self) -> float | None:
        """Predictions that are met and break when a technique is undone, of all that are met."""
        return 100 * self.killed / self.met if self.met else None


def row_of(entry: dict[str, Any]) -> str:
    """The row that a target counts for: its work and area."""
    return f"{entry['id'].split('/')[0]} {entry['area']}"


def score(name: str, entries: Iterable[dict[str, Any]]) -> Score:
    """Counts entries of `halfwink.targets.targets.reproduce`."""
    every = list(entries)
    techniques = {m["name"] for m in library().mutants() if m["breaks"] == "technique"}
    predicted = [e for e in every if e["null"] and e["verdict"] in (*GOOD, *BAD)]
    good = [e for e in predicted if e["verdict"] in GOOD]
    facts: dict[tuple[Any, ...], bool] = {}
    for entry in predicted:
        fact = _fact(entry)
        facts[fact] = facts.get(fact, True) and entry["verdict"] in GOOD
    held = [e for e in predicted if e["held_out"]]
    insensitive = [e for e in every if e["null"] and e["verdict"] == "insensitive"]
    apart = {v: sum(e["verdict"] == v for e in every) for v in (*APART, *UNJUDGED)}
    apart["given but missed"] = sum(e["verdict"] in BAD and not e["null"] for e in every)
    numbers = [e for e in [*predicted, *insensitive] if _is_number(e)]
    errors = [_error(e, e["ours"]) / abs(e["published"]) for e in numbers if e["published"]]
    ratios = [_ratio(e) for e in predicted if _is_number(e)]
    return Score(
        name,
        judged=len(predicted),
        good=len(good),
        null_good=sum(e["null"]["met"] for e in predicted),
        beyond=sum(not e["null"]["met"] for e in good),
        facts=len(facts),
        facts_good=sum(facts.values()),
        error_ratio=statistics.median(ratios) if ratios else None,
        held_out_good=sum(e["verdict"] in GOOD for e in held),
        held_out_judged=len(held),
        held_out_null=sum(e["null"]["met"] for e in held),
        median_error_pct=100 * statistics.median(errors) if errors else None,
        killed=sum(bool(techniques.intersection(e["killed_by"])) for e in good),
        met=len(good) + len(insensitive),
        apart=apart,
    )


def _fact(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the key of a fact: a work, a unit and a value of ours, to what `ours.csv` keeps."""
    if not _is_number(entry):
        return (entry["id"],)
    return (entry["id"].partition("/")[0], entry["unit"], f"{entry['ours']:.9g}")


def _is_number(entry: dict[str, Any]) -> bool:
    values = (entry["published"], entry["ours"])
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _error(entry: dict[str, Any], value: float) -> float:
    return abs(value - entry["published"])


def _ratio(entry: dict[str, Any]) -> float:
    """Returns our error over the null's; 1 where both are exact."""
    ours, null = _error(entry, entry["ours"]), _error(entry, entry["null"]["value"])
    if null:
        return ours / null
    return math.inf if ours else 1.0


def scores(entries: Sequence[dict[str, Any]]) -> list[Score]:
    """A score for each work and area, in the order of the entries, and that of all."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        rows.setdefault(row_of(entry), []).append(entry)
    found = [score(name, those) for name, those in rows.items()]
    return [*found, score("all", entries)] if len(found) > 1 else found


def headline(total: Score) -> str:
    """The line that a reader may trust."""
    missed = total.judged - total.null_good
    said = (
        f"{total.judged} predictions: {total.good} met, {total.null_good} by a model without the "
        f"mechanism"
    )
    if missed:
        said += f"; of the {missed} that it misses {total.beyond} met"
    said += f"; {total.facts} facts: {total.facts_good} met"
    if total.error_ratio is not None:
        said += f"; median error {total.error_ratio:.2f} of its own"
    return said


#: Headings of `cells`.
HEADINGS = (
    "row",
    "predictions",
    "met",
    "met by the null",
    "skill",
    "facts met",
    "error over the null's",
    "held out, and by the null",
    "technique undone",
    *APART,
    *UNJUDGED,
)


def cells(found: Score) -> list[str]:
    """A score as a row of a table, under `HEADINGS`."""
    counts = [found.apart[verdict] for verdict in (*APART, *UNJUDGED)]
    missed, ratio = found.judged - found.null_good, found.error_ratio
    held = f"{found.held_out_good} of {found.held_out_judged}, {found.held_out_null}"
    return [
        found.name,
        str(found.judged),
        str(found.good),
        str(found.null_good),
        f"{found.beyond} of {missed} ({found.skill_pct:.0f} %)" if missed else "-",
        f"{found.facts_good} of {found.facts}",
        "-" if ratio is None else f"{ratio:.2f}",
        held if found.held_out_judged else "-",
        "-" if found.mutation_score_pct is None else f"{found.mutation_score_pct:.0f} %",
        *(str(count) if count else "-" for count in counts),
    ]

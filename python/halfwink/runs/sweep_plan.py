"""Estimates of the cost of a sweep, before anything of it is played."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from halfwink.files import Place, place
from halfwink.jobs import Job, Planned, plan
from halfwink.library import library
from halfwink.results.store import Columns, RunStore
from halfwink.runs.parts import check_part, deal, distinct
from halfwink.runs.studies import study_jobs

#: Work in a second of one core where nothing was measured yet, by unit. On a core of 2023, rounded
#: down: an estimate that is replaced by rates of the first results.
USUAL_RATES = {
    "instructions": 2e6,
    "packets": 5e5,
    "requests": 2e5,
    "I/Os": 2e5,
    "programs": 20.0,
    "flows": 1e4,
}
#: Seconds of a job whose amount of work is not known before it runs.
UNKNOWN_S = 1.0
#: Hours that a part should take, where the user names no number of parts.
PART_HOURS = 1.0


@dataclass(frozen=True)
class StudyPlan:
    """The estimated cost of a study, before anything of it runs.

    Attributes:
        study: title of the study.
        jobs: combinations of the study.
        results: distinct results of them: a technique that does not read a swept value is played
            once for all of its values.
        there: results that are kept already.
        work: work of the results that are not there, in ``unit``; 0 where no world knows it before.
        unit: unit of work.
        cpu_hours: estimated hours of one core for what is not there.
        is_measured: true if the estimate is from rates of results that are there; else it is from
            typical ones, and may be wrong by a factor of five.
        parts: number of parts.
        most_results: most results in a part.
        least_hours: estimated hours of the shortest part, of all its results.
        most_hours: estimated hours of the longest part, of all its results.
    """

    study: str
    jobs: int
    results: int
    there: int
    work: int
    unit: str
    cpu_hours: float
    is_measured: bool
    parts: int
    most_results: int
    least_hours: float
    most_hours: float


def plan_study(name: str, *, out: Place | str | None = None, parts: int | None = None) -> StudyPlan:
    """Counts what a study will play and estimates what it costs; nothing is played.

    Args:
        name: name of a study, or a file.
        out: folder or URL of its results, whose measured rates are used.
        parts: number of parts; if None, so many that each takes about an hour.

    Raises:
        HalfwinkError: the study, or something it names, cannot be, or its design is adaptive; one
            line.
        RunError: the URL does not answer.
    """
    study = library().study(name)
    if parts is not None:
        check_part((1, parts))
    jobs = study_jobs(name)
    planned = plan(jobs)
    store = RunStore(place(out) / "runs") if out is not None else None
    first = {planned[number].key: number for number in distinct(planned)}
    there = store.present(list(first)) if store is not None else set[str]()
    hosts = store.hosts() if store is not None and there else {}
    seconds, is_measured = _seconds(jobs, planned, first, hosts)
    missing = [number for key, number in first.items() if key not in there]
    hours = sum(seconds[number] for number in missing) / 3600
    count = parts or min(max(1, round(hours / PART_HOURS)), max(1, len(first)))
    dealt = deal(planned, count)
    each = [sum(seconds[number] for number in part) / 3600 for part in dealt]
    return StudyPlan(
        study=study["title"],
        jobs=len(jobs),
        results=len(first),
        there=len(there),
        work=sum(planned[number].work for number in missing),
        unit=planned[0].unit if planned else "",
        cpu_hours=hours,
        is_measured=is_measured,
        parts=count,
        most_results=max(map(len, dealt)),
        least_hours=min(each),
        most_hours=max(each),
    )


def _seconds(
    jobs: Sequence[Job],
    planned: Sequence[Planned],
    first: Mapping[str, int],
    hosts: Mapping[str, Columns],
) -> tuple[dict[int, float], bool]:
    """Estimates seconds of each distinct result: its own as measured, else of its technique's
    rate, else of the mean rate; and whether anything was measured."""
    own = {key: _host_s(columns) for key, columns in hosts.items() if key in first}
    taken: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for key, host_s in own.items():
        number = first[key]
        for name in ("", jobs[number].technique):
            taken[name][0] += planned[number].work or 1
            taken[name][1] += host_s
    rates = {name: work / spent for name, (work, spent) in taken.items() if spent > 0}
    found: dict[int, float] = {}
    for key, number in first.items():
        work = planned[number].work
        rate = rates.get(jobs[number].technique) or rates.get("")
        if key in own:
            found[number] = own[key]
        elif rate:
            found[number] = (work or 1) / rate
        else:
            usual = USUAL_RATES.get(planned[number].unit)
            found[number] = work / usual if work and usual else UNKNOWN_S
    return found, bool(rates)


def _host_s(columns: Columns) -> float:
    values: Any = {name: cells for name, _, cells in columns}
    return float((values.get("host_s") or [0.0])[0])

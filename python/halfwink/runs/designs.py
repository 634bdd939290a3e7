"""Studies whose runs are chosen by their results: rounds towards the best trade-off of two columns.

Pareto local search (Paquete, Chiarandini, Stützle, "Pareto local optimum sets in the biobjective
traveling salesman problem", 2004) from points that were drawn at random, and again from further
ones until those change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.jobs import Job, Planned
from halfwink.results.results import Results, collect, said
from halfwink.results.store import RunStore
from halfwink.runs.batch import Progress, run_jobs
from halfwink.runs.executors import Executor, Submits

#: The place of a value in the list of each axis.
Point = tuple[int, ...]
#: What a run is judged by: less is better, of each.
Pair = tuple[float, float]
#: Points that are drawn at once: so many for each axis, and at least so many.
DRAWN_PER_AXIS, DRAWN_LEAST = 2, 4
#: Why a point is played.
DRAWN, BESIDE = "drawn", "beside"
#: The table of what was chosen, why, and what is on the front.
TABLE = "design"


def is_better(one: Pair, other: Pair) -> bool:
    """Returns whether one pair dominates the other: as good in both, and better in one."""
    return one != other and one[0] <= other[0] and one[1] <= other[1]


def front_of(pairs: Iterable[Pair]) -> set[Pair]:
    """Returns the pairs that no other pair dominates."""
    front: set[Pair] = set()
    least = math.inf
    for pair in sorted(set(pairs)):
        if pair[1] < least:
            front.add(pair)
            least = pair[1]
    return front


def is_ordered(values: Sequence[str]) -> bool:
    """Returns whether neighbouring values are similar: numbers are, words are all neighbours."""
    try:
        return all(math.isfinite(float(value)) for value in values)
    except ValueError:
        return False


class Search:
    """The search over one workload on one machine: it asks for points and is told what they gave.

    It has no other knowledge, so equal answers make equal questions: a search that was cut short
    asks for the same points again, whose results are there.
    """

    def __init__(
        self, axes: Sequence[Sequence[str]], draws: Sequence[Sequence[int]], points: int
    ) -> None:
        """Over the product of ``axes``, of which at most so many points are asked for; ``draws``
        are as many of them in random order."""
        self._axes = axes
        self._ordered = [is_ordered(values) for values in axes]
        self._draws = iter(tuple(point) for point in draws)
        self._left = points
        self._batch = max(DRAWN_LEAST, DRAWN_PER_AXIS * len(axes))
        self._found: dict[Point, list[Pair]] = {}
        self._before: set[Pair] | None = None

    @property
    def front(self) -> set[Pair]:
        """The best trade-offs so far."""
        return front_of(pair for pairs in self._found.values() for pair in pairs)

    def ask(self) -> tuple[list[Point], str]:
        """Points of the next round, and why them; none when it is over."""
        front = self.front
        asked, why = self._beside(front), BESIDE
        if not asked and front != self._before:
            self._before = front
            new = (point for point in self._draws if point not in self._found)
            asked, why = list(islice(new, self._batch)), DRAWN
        asked = asked[: self._left]
        self._left -= len(asked)
        return asked, why

    def tell(self, found: Mapping[Point, Sequence[Pair]]) -> None:
        """Records the results of requested points, a pair for each technique."""
        for point, pairs in found.items():
            self._found[point] = list(pairs)

    def _beside(self, front: set[Pair]) -> list[Point]:
        """Returns new neighbours of points of the front: of the first point with a result, of the
        others with the same result if that leaves none, and then points two steps from the first,
        across a worse one.
        """
        first: dict[Pair, Point] = {}
        others: list[Point] = []
        for point, pairs in self._found.items():
            best = front.intersection(pairs)
            for pair in best:
                first.setdefault(pair, point)
            if best and point not in first.values():
                others.append(point)
        return (
            self._not_asked_for(first.values(), 1)
            or self._not_asked_for(others, 1)
            or self._not_asked_for(first.values(), 2)
        )

    def _not_asked_for(self, points: Iterable[Point], steps: int) -> list[Point]:
        beside = dict.fromkeys(near for point in points for near in self._neighbours(point, steps))
        return [point for point in beside if point not in self._found]

    def _neighbours(self, point: Point, steps: int) -> Iterable[Point]:
        for axis, (values, at) in enumerate(zip(self._axes, point, strict=True)):
            others = (at - steps, at + steps) if self._ordered[axis] else range(len(values))
            for other in others:
                if 0 <= other < len(values) and other != at:
                    yield (*point[:axis], other, *point[axis + 1 :])


@dataclass(frozen=True)
class _Asked:
    machine: str
    workload: str
    point: Point
    round: int
    why: str


def run_adaptive(
    study: Mapping[str, Any],
    store: RunStore,
    *,
    executor: Executor | Submits | None = None,
    fresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Runs a study of an adaptive design; all of it in ``store`` makes the same again without a
    run. The table ``design`` says of each run in which round and why it was chosen (``drawn``, or
    ``beside`` the front of that time), and whether it is on the front in the end.

    Raises:
        HalfwinkError, RunError: see `halfwink.runs.batch.run_jobs`.
    """
    axes = [values for _, values in study["sweep"]]
    points = study["design"]["points"]
    searches = {
        (machine, workload): Search(axes, study["draws"], points)
        for machine in study["machines"]
        for workload in study["workloads"]
    }
    base = _base(study)
    jobs, planned, asked = list(base), [], list[_Asked]()
    at: dict[tuple[str, str, str], Point] = {}
    known: list[Planned] = []
    done = 0
    for number in range(points + 1):
        now = _ask(searches, number)
        new = [job for one in now for job in _jobs(study, one)]
        if not new:
            break
        for one, job in zip(now, new[:: len(study["techniques"])], strict=True):
            at[job.machine, job.workload, said(job.set)] = one.point
        # The baseline's own machine is played with the first round.
        before = base if number == 0 else []
        shown = _shifted(progress, done)
        found = run_jobs([*before, *new], store, executor=executor, fresh=fresh, progress=shown)
        known = known or found[: len(base)]
        planned += found
        done += len(before) + len(new)
        jobs += new
        asked += now
        _tell(searches, study, _round(study, [*base, *new], known, found, store), at)
    results = collect(jobs, planned, store, study["baseline"], study["baseline_machine"])
    tables = results.tables | {TABLE: _table(study, results, asked)}
    return replace(results, tables=tables)


def _round(
    study: Mapping[str, Any],
    jobs: Sequence[Job],
    base: Sequence[Planned],
    found: Sequence[Planned],
    store: RunStore,
) -> pl.DataFrame:
    """Runs of a round, related to the baseline."""
    new = found[len(found) - (len(jobs) - len(base)) :]
    baseline, machine = study["baseline"], study["baseline_machine"]
    return collect(jobs, [*base, *new], store, baseline, machine).runs.slice(len(base))


def _base(study: Mapping[str, Any]) -> list[Job]:
    machine = study["baseline_machine"]
    if machine is None:
        return []
    return [_job(study, machine, w, (), study["baseline"]) for w in study["workloads"]]


def _job(
    study: Mapping[str, Any],
    machine: str,
    workload: str,
    values: Iterable[tuple[str, str]],
    technique: str,
) -> Job:
    options = tuple((name, value) for name, value in study["options"])
    return Job(study["world"], workload, machine, technique, tuple(values), options)


def _jobs(study: Mapping[str, Any], one: _Asked) -> list[Job]:
    sweep = study["sweep"]
    values = [(path, of[n]) for (path, of), n in zip(sweep, one.point, strict=True)]
    return [_job(study, one.machine, one.workload, values, t) for t in study["techniques"]]


def _ask(searches: Mapping[tuple[str, str], Search], number: int) -> list[_Asked]:
    asked: list[_Asked] = []
    for (machine, workload), search in searches.items():
        points, why = search.ask()
        asked += [_Asked(machine, workload, point, number, why) for point in points]
    return asked


def _pairs(study: Mapping[str, Any], runs: pl.DataFrame) -> list[Pair | None]:
    """Returns the pair by which each run is judged; None for a run that lacks a value."""
    design = study["design"]
    for name in (*design["minimize"], *design["maximize"]):
        if name not in runs.columns:
            raise HalfwinkError(
                f"{study['name']}: runs of the world `{study['world']}` have no column `{name}`"
            )
    columns = [runs[name].cast(pl.Float64) for name in design["minimize"]]
    columns += [-runs[name].cast(pl.Float64) for name in design["maximize"]]
    one, other = columns
    return [
        (a, b) if a is not None and b is not None and math.isfinite(a + b) else None
        for a, b in zip(one, other, strict=True)
    ]


def _tell(
    searches: Mapping[tuple[str, str], Search],
    study: Mapping[str, Any],
    runs: pl.DataFrame,
    at: Mapping[tuple[str, str, str], Point],
) -> None:
    found: dict[tuple[str, str], dict[Point, list[Pair]]] = {}
    whose = runs.select("machine", "workload", "set").rows()
    for (machine, workload, values), pair in zip(whose, _pairs(study, runs), strict=True):
        of = found.setdefault((machine, workload), {})
        pairs = of.setdefault(at[machine, workload, values], [])
        if pair is not None:
            pairs.append(pair)
    for where, of in found.items():
        searches[where].tell(of)


def _table(study: Mapping[str, Any], results: Results, asked: Sequence[_Asked]) -> pl.DataFrame:
    techniques = len(study["techniques"])
    chosen = [one for one in asked for _ in range(techniques)]
    runs = results.runs.slice(results.runs.height - len(chosen))
    pairs = _pairs(study, runs)
    whose = [(one.machine, one.workload) for one in chosen]
    fronts = {
        where: front_of(p for w, p in zip(whose, pairs, strict=True) if w == where and p)
        for where in dict.fromkeys(whose)
    }
    return runs.select("workload", "machine", "set", "technique").with_columns(
        pl.Series("round", [one.round for one in chosen], dtype=pl.Int64),
        pl.Series("chosen", [one.why for one in chosen], dtype=pl.String),
        pl.Series(
            "on_front",
            [pair in fronts[where] for where, pair in zip(whose, pairs, strict=True)],
            dtype=pl.Boolean,
        ),
    )


def _shifted(
    progress: Callable[[Progress], None] | None, done: int
) -> Callable[[Progress], None] | None:
    """Counts jobs of earlier rounds as well: their final number is not known in advance."""
    if progress is None:
        return None

    def tell(told: Progress) -> None:
        progress(replace(told, jobs_done=told.jobs_done + done, jobs=told.jobs + done))

    return tell

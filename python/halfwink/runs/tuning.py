"""Values of a technique's parameters that save most on a workload, and what they save elsewhere."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.files import Place, place
from halfwink.jobs import Job, Settings, counted, names, pairs, technique_text
from halfwink.results.results import Results, collect
from halfwink.results.store import RunStore, temporary_store
from halfwink.runs.batch import Progress, run_jobs
from halfwink.runs.comparison import default_world, technique_names, usual_machine
from halfwink.runs.designs import Pair, Point, Search
from halfwink.runs.executors import Executor, Submits
from halfwink.runs.studies import run_all

if TYPE_CHECKING:
    from halfwink.policies.finding import Technique

#: A range of a parameter: its least and largest value. Of two whole numbers all values are whole.
Range = tuple[float, float]
#: Values of a parameter that are tried at once; the next lie between the neighbours of the best.
TRIED = 9
#: Times that a range is narrowed.
LEVELS = 4
#: A range from its least to so many times that is divided by ratios, not by differences.
WIDE = 50.0
#: Runs that are played in all, unless said.
POINTS = 60


@dataclass(frozen=True)
class Tuned:
    """Values that tuning found, and the runs that it played.

    Attributes:
        own: technique with its own values.
        technique: technique with the values found, for ``hw.compare``.
        values: the values found, by parameter.
        keeps: the values keep all limits. If none do they are those that miss them by least.
        minimized: column that was made small.
        limits: largest value of each column that was limited.
        results: all runs that were played: the technique with its own values first, then as they
            were tried.
        held_out: the technique with its own values and with those found on what it was not tuned
            on; None if nothing was held out.
    """

    own: str
    technique: str
    values: dict[str, float]
    keeps: bool
    minimized: str
    limits: dict[str, float]
    results: Results
    held_out: Results | None

    def table(self) -> pl.DataFrame:
        """Returns the runs with the technique's own values and those found, tuned and held out."""
        every = [self.results] if self.held_out is None else [self.results, self.held_out]
        runs = pl.concat([each.runs for each in every], how="diagonal_relaxed")
        columns = ["workload", "set", "technique", self.minimized, *self.limits]
        shown = list(dict.fromkeys(columns))
        return runs.filter(pl.col("technique").is_in([self.own, self.technique])).select(shown)

    def __str__(self) -> str:
        """Returns what the values change on the work that was tuned, and on that held out."""
        told = [f"{self.technique} instead of {self.own}"]
        for name, of in (("tuned", self.results), ("held out", self.held_out)):
            if of is None:
                continue
            for workload, there in of.runs.group_by("workload", maintain_order=True):
                value = dict(there.select("technique", self.minimized).iter_rows())
                before, after = value[self.own], value[self.technique]
                # What was held out may have no value, as the p99 of no requests.
                change = "is not known" if after is None else f"{after:g}"
                if before and after is not None:
                    change = f"{100 * (after / before - 1):+.2f} %"
                told.append(f"{name} on {workload[0]}: {self.minimized} {change}")
        if self.limits and not self.keeps:
            told.append("no values keep the limits; these miss them by least")
        return "; ".join(told)


def tune(
    technique: Technique,
    ranges: Mapping[str, Range],
    *,
    workload: str,
    minimize: str = "energy_j_per_unit",
    keep: Mapping[str, float] | None = None,
    machine: str | None = None,
    world: str | None = None,
    set: Settings | None = None,
    instructions: int | None = None,
    points: int = POINTS,
    seed: int = 1,
    held_out: str | Sequence[str] | None = None,
    held_out_set: Settings | None = None,
    out: Place | str | None = None,
    executor: Executor | Submits | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Tuned:
    """Searches values of parameters that make a column of the runs small and keep limits of others.

    Nine values of each range are tried by Pareto local search over the column and the limits
    (`halfwink.runs.designs`), then values between the neighbours of the best, four times. All runs
    play the same work, so that what differs is the values.

    What was tuned on some work may be good there alone: name work that is held out, other workloads
    or the same with another seed, and read what the values save there.

    Args:
        technique: name, or a policy of your own, with values for parameters that stay as they are.
        ranges: least and largest value of each parameter to tune; in a composition it is one of the
            last part, or of the part before a point (``packing.limit``).
        workload: workload on which it is tuned.
        minimize: column of ``Results.runs`` that is made small.
        keep: largest value of other columns: ``{"slowdown_pct": 1}``.
        machine, world, set, instructions: see `compare`.
        points: most combinations of values that are played.
        seed: draws those that are tried first.
        held_out: workloads on which the values found are played beside the technique's own.
        held_out_set: values of the machine or options for these: ``{"seed": 2}``. With it alone the
            same workload is played.
        out: folder or URL in which finished runs are kept, and from which they are reused.

    Raises:
        HalfwinkError: a name or value that cannot be, in one line.
        RunError: a run failed.
    """
    text = technique_text(technique)
    _check(text, ranges, points)
    limits = dict(keep or {})
    world = world or default_world(
        [workload], [text], machine, None, set, on_a_chip=instructions is not None
    )
    machine = machine or usual_machine(world, [text])
    baseline = technique_names([text], world)[0]

    options = counted(set, instructions=instructions)

    def job(of: str) -> Job:
        return Job(world, workload, machine, of, pairs(set), pairs(options))

    jobs = [job(baseline), job(text)]
    with nullcontext(RunStore(place(out) / "runs")) if out else temporary_store() as store:

        def played(asked: Sequence[Job]) -> pl.DataFrame:
            all_of = [*jobs, *asked]
            found = run_jobs(all_of, store, executor=executor, progress=progress)
            return collect(all_of, found, store, baseline).runs.slice(len(jobs))

        best, tried = _search(text, ranges, job, played, minimize, limits, points, seed)
        jobs += tried
        planned = run_jobs(jobs, store, executor=executor)
        results = collect(jobs, planned, store, baseline)
        found = _with(text, best) if best else text
        runs = results.runs.filter(pl.col("technique") == found)
        keeps = _violation(runs.row(0, named=True), limits) == 0
        other = None
        if held_out is not None or held_out_set is not None:
            values = pairs({**dict(set or {}), **dict(held_out_set or {})})
            elsewhere = [
                Job(world, each, machine, of, values, pairs(options))
                for each in names(held_out) or [workload]
                for of in dict.fromkeys((baseline, text, found))
            ]
            other = run_all(elsewhere, baseline=baseline, store=store, executor=executor)
    return Tuned(text, found, best, keeps, minimize, limits, results, other)


def _check(text: str, ranges: Mapping[str, Range], points: int) -> None:
    if not ranges:
        raise HalfwinkError("ranges: expected a parameter or more, {'after_us': (1, 1000)}")
    if points < 1:
        raise HalfwinkError(f"points {points}: expected 1 or more")
    parts = text.split("+")
    for name, (low, high) in ranges.items():
        at, parameter = _place(parts, name)
        fixed = {one.partition("=")[0] for one in parts[at].partition(":")[2].split(",")}
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise HalfwinkError(f"`{name}` from {low} to {high}: expected a smaller and a larger")
        if parameter in fixed:
            raise HalfwinkError(
                f"`{name}` has a value in `{text}` and a range: expected one of them"
            )


def _search(
    text: str,
    ranges: Mapping[str, Range],
    job: Callable[[str], Job],
    played: Callable[[Sequence[Job]], pl.DataFrame],
    minimize: str,
    limits: Mapping[str, float],
    points: int,
    seed: int,
) -> tuple[dict[str, float], list[Job]]:
    """Returns the best values, none if the technique's own are the best, and the jobs played."""
    draw = random.Random(seed)
    narrowed = dict(ranges)
    jobs: list[Job] = []
    row = played([job(text)]).row(0, named=True)
    for name in (minimize, *limits):
        # Others without a value are worse than this one; without its own nothing can be said.
        if not math.isfinite(_number(row, name)):
            raise HalfwinkError(f"column `{name}` has no value in these runs; expected a number")
    own = _pair(row, minimize, limits)
    # Of values that are as good the first that were found count, and the technique's own before.
    best: tuple[tuple[float, float], dict[str, float]] = ((own[1], own[0]), {})
    known: dict[str, Pair] = {}
    for _ in range(LEVELS):
        axes = {name: _values(ranges[name], narrowed[name]) for name in ranges}
        search = Search(list(axes.values()), _drawn(draw, axes, points), points - len(jobs))
        while asked := search.ask()[0]:
            values = [dict(zip(axes, _of(axes, point), strict=True)) for point in asked]
            texts = [_with(text, each) for each in values]
            new = [job(each) for each in dict.fromkeys(texts) if each not in known]
            if new:
                found = played(new).rows(named=True)
                known |= {
                    each.technique: _pair(row, minimize, limits)
                    for each, row in zip(new, found, strict=True)
                }
                jobs += new
            search.tell({point: [known[t]] for point, t in zip(asked, texts, strict=True)})
            for each, said in zip(values, texts, strict=True):
                rank = (known[said][1], known[said][0])
                if rank < best[0]:
                    best = (rank, each)
        if len(jobs) >= points:
            break
        narrowed = {name: _around(axes[name], best[1].get(name), ranges[name]) for name in ranges}
    return best[1], jobs


def _drawn(draw: random.Random, axes: Mapping[str, Sequence[str]], points: int) -> list[Point]:
    """Returns combinations in random order: as many as could be asked for."""
    sizes = [len(values) for values in axes.values()]
    total = math.prod(sizes)
    drawn: list[Point] = []
    for number in draw.sample(range(total), min(points, total)):
        point: list[int] = []
        for size in sizes:
            number, at = divmod(number, size)
            point.append(at)
        drawn.append(tuple(point))
    return drawn


def _of(axes: Mapping[str, Sequence[str]], point: Point) -> list[float]:
    return [float(values[at]) for values, at in zip(axes.values(), point, strict=True)]


def _is_whole(whole: Range) -> bool:
    return all(isinstance(end, int) for end in whole)


def _values(whole: Range, part: Range) -> list[str]:
    """Returns values of a part of a range, its ends among them, in ascending order."""
    low, high = part
    steps = [n / (TRIED - 1) for n in range(TRIED)]
    if whole[0] > 0 and whole[1] / whole[0] >= WIDE:
        values = [low * (high / low) ** step for step in steps]
    else:
        values = [low + (high - low) * step for step in steps]
    if _is_whole(whole):
        return list(dict.fromkeys(str(round(value)) for value in values))
    # Four digits are read; the ends stay in the range.
    inside = [min(max(float(f"{value:.4g}"), whole[0]), whole[1]) for value in values]
    return list(dict.fromkeys(f"{value:.10g}" for value in inside))


def _around(values: Sequence[str], best: float | None, whole: Range) -> Range:
    """Returns the part of a range between the neighbours of the best value."""
    if best is None:
        return whole
    at = [float(value) for value in values]
    below = [value for value in at if value < best]
    above = [value for value in at if value > best]
    low, high = max(below, default=best), min(above, default=best)
    return (low, high) if low < high else whole


def _with(text: str, values: Mapping[str, float]) -> str:
    """Returns a technique with further values: ``MyGate():after_us=5``; of a composition in the
    part that each is of."""
    parts = text.split("+")
    for name, value in values.items():
        at, parameter = _place(parts, name)
        parts[at] += f"{',' if ':' in parts[at] else ':'}{parameter}={value:.10g}"
    return "+".join(parts)


def _place(parts: Sequence[str], name: str) -> tuple[int, str]:
    """Returns which part of a composition a parameter is of, and its name there:
    ``packing.limit``; without a part's name it is of the last one.

    Raises:
        HalfwinkError: no part has that name.
    """
    part, _, parameter = name.rpartition(".")
    known = [each.partition(":")[0] for each in parts]
    if part and part not in known:
        raise HalfwinkError(f"`{name}`: expected a parameter of one of {', '.join(known)}")
    return known.index(part) if part else len(parts) - 1, parameter


def _violation(row: Mapping[str, object], limits: Mapping[str, float]) -> float:
    """Returns by how much a run breaks the limits, each relative to itself."""
    broken = 0.0
    for name, most in limits.items():
        broken += max(_number(row, name) - most, 0.0) / (abs(most) or 1.0)
    return broken


def _pair(row: Mapping[str, object], minimize: str, limits: Mapping[str, float]) -> Pair:
    return _number(row, minimize), _violation(row, limits)


def _number(row: Mapping[str, object], name: str) -> float:
    if name not in row:
        known = ", ".join(name for name, value in row.items() if isinstance(value, int | float))
        raise HalfwinkError(f"runs have no column `{name}`; expected one of {known}")
    value = row[name]
    if isinstance(value, str):
        raise HalfwinkError(f"column `{name}` is no number: `{value}`; expected one of numbers")
    # A run without the value, as the p99 of no requests, is worse than all.
    return float(value) if isinstance(value, int | float) else math.inf

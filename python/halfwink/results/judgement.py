"""Judges each run of a comparison: the columns from which tables and sentences are made.

A comparison has one reference for each workload, machine and values set: the technique with the
least energy of those that an operator can have today and that keep the limits. What needs a changed
kernel or other hardware is measured against that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import inf
from typing import Any

import polars as pl

from halfwink import _core
from halfwink.results.assumed_watts import Watts, assumed_watts, saving_over
from halfwink.results.paired import (
    Even,
    Pieces,
    Saving,
    Side,
    Taken,
    even,
    over,
    saving_of,
    taken,
    taken_by_work,
)
from halfwink.results.relate import IDENTITY, KEYS, ends, parts_of
from halfwink.results.seeds import over_seeds, seedless

Row = dict[str, Any]

#: Slower than this in the mean, in per cent of the baseline, breaks a limit.
SLOWER_PCT = 5.0
#: So does a 99th percentile of latency that is longer by this, in per cent,
P99_PCT = 10.0
#: work that is lost beyond the baseline's, in per cent of all of it,
LOST_PCT = 0.1
#: and work that is not done in the time of an open load, in per cent of the baseline's.
UNDONE_PCT = 1.0
#: What the machine usually does may be slower than that; others may then be as slow, and by this
#: factor more.
AS_SLOW = 1.01
#: What is slower by this factor, or its tail longer, is overloaded, and no measure of others.
OVERLOADED = 10.0
#: Less than this, in per cent, is no saving.
LEAST_PCT = 0.005
#: A saving below this, in per cent of what the other technique takes, does not win: models and
#: meters do not tell so little apart, and no operator changes a setting for it.
WORTH_PCT = 1.0
#: Techniques that take more than the least by less than this, in per cent, and whose savings differ
#: by less than this share of the larger one, are as good: the sooner answer decides.
AS_GOOD_PCT = 1.0
AS_GOOD = 0.1
#: Answers that come sooner by less than this factor come at the same time.
AS_SOON = 1.01
#: What a technique may need, from nothing to what no machine has.
NEEDS = ("today", "kernel", "silicon", "bound")
#: What a policy of the user's own needs in most worlds, and how it is had.
OF_ONES_OWN = ("kernel", "the policy built into a kernel", False)

#: Columns of savings, each followed by the ends of its interval.
SAVED = ("energy_saving_pct", "equal_rate_saving_pct", "beyond_today_pct")


def needs(technique: str, world: str) -> str:
    """Returns what a technique needs, with any parameters and modifiers: the most of its parts.

    A policy of the user's own is a change of a kernel, but for worlds of one family of which most
    need silicon.
    """
    known, own = _available(world), _of_ones_own(world)
    said = (known.get(part, own)[0] for part in parts_of(technique))
    return max(said, key=NEEDS.index)


def how(technique: str, world: str) -> str:
    """Returns the way to get what a technique needs, in one line; empty where none is known."""
    known, own = _available(world), _of_ones_own(world)
    most = needs(technique, world)
    parts = [known.get(part, own) for part in parts_of(technique)]
    return " and ".join(dict.fromkeys(told for need, told, _ in parts if need == most and told))


def usual(world: str) -> str | None:
    """The technique that a world's machines play unless their operator chooses something else."""
    return next((name for name, (_, _, is_usual) in _available(world).items() if is_usual), None)


@lru_cache
def _of_ones_own(world: str) -> tuple[str, str, bool]:
    if len({t["family"] for t in _core.techniques() if world in t["worlds"]}) != 1:
        return OF_ONES_OWN
    most, _ = Counter(_available(world).values()).most_common(1)[0]
    return most if most[0] == "silicon" else OF_ONES_OWN


@lru_cache
def _available(world: str) -> dict[str, tuple[str, str, bool]]:
    return {
        t["name"]: (t["available"], t["how"], t["is_usual"])
        for t in _core.techniques()
        if world in t["worlds"]
    }


def judge(
    runs: pl.DataFrame,
    slices: pl.DataFrame | None,
    world: str,
    baseline: str,
    machine: str | None = None,
) -> pl.DataFrame:
    """Adds to related runs, in per cent and each with the ends of its 95 % interval:

    * ``energy_saving_pct``: the interval alone; the saving was there.
    * ``equal_rate_saving_pct``: energy saved at equal work and equal time.
    * ``beyond_today_pct``: the same against the best of today that keeps the limits.

    And in words: ``available``, what the technique needs (today, kernel, silicon, bound);
    ``breaks``, the limits that it breaks, empty if none; ``today``, the reference.
    """
    if "equal_rate_saving_pct" in runs.columns:
        return runs
    added: dict[int, Row] = {}
    for group in groups(runs, slices, world, baseline, machine):
        added |= group.columns()
    rows = [added[n] for n in range(runs.height)]
    return runs.hstack(pl.DataFrame(rows, schema=_schema()).get_columns())


def _schema() -> dict[str, Any]:
    numbers = [name for saved in SAVED for name in (saved, *ends(saved))][1:]
    return dict.fromkeys(numbers, pl.Float64) | dict.fromkeys(
        ("available", "breaks", "today"), pl.String
    )


def groups(
    runs: pl.DataFrame,
    slices: pl.DataFrame | None,
    world: str,
    baseline: str,
    machine: str | None,
    ledger: pl.DataFrame | None = None,
) -> list[Group]:
    """Related runs by workload, machine and values set, in their order. With the ledger, savings
    have their range over the watts of machines that are assumed."""
    pieces = pieces_of(slices)
    watts = {} if ledger is None else assumed_watts(runs, ledger)
    means = over_seeds(runs).with_columns(seedless())
    means = means.partition_by(KEYS, maintain_order=True, as_dict=True)
    found: dict[tuple[Any, ...], Group] = {}
    bases: dict[tuple[str, str], Side] = {}
    numbered = list(enumerate(runs.with_columns(seedless().alias("_set")).iter_rows(named=True)))
    sides = {n: Side.of(row, pieces.get(_identity(row))) for n, row in numbered}
    if machine is not None:
        for n, row in numbered:
            if row["technique"] == baseline and (row["machine"], row["set"]) == (machine, ""):
                bases[row["workload"], ""] = sides[n]
    for n, row in numbered:
        key = (row["workload"], row["machine"], row["_set"])
        if key not in found:
            rows = {mean["technique"]: mean for mean in means[key].to_dicts()}
            found[key] = Group(world, baseline, rows)
        run = Run(n, row["technique"], row["set"], sides[n], watts=watts.get(_identity(row)))
        run.base = bases.get((row["workload"], ""))
        found[key].add(run)
    return list(found.values())


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in IDENTITY)


def pieces_of(slices: pl.DataFrame | None) -> dict[tuple[Any, ...], Pieces]:
    """Parts of each run, by what identifies it; none where no table of them was kept."""
    if slices is None or slices.is_empty():
        return {}
    found: dict[tuple[Any, ...], Pieces] = {}
    for whose, frame in slices.partition_by(
        IDENTITY, maintain_order=True, as_dict=True, include_key=False
    ).items():
        time_s, work, energy_j = (
            tuple(map(float, frame[name])) for name in ("time_s", "work", "energy_j")
        )
        found[whose] = Pieces(time_s, work, energy_j, tuple(frame["stratum"]))
    return found


@dataclass
class Run:
    """A run of a group: its place in the table, and what it is compared by."""

    number: int
    technique: str
    seed: str
    side: Side
    #: The run that it is related to, if that is of another machine.
    base: Side | None = None
    #: What its parts took, if the watts of its machine are assumed.
    watts: Watts | None = None


@dataclass
class Group:
    """Techniques on one workload, one machine and one set of values, over all seeds.

    Attributes:
        rows: the row of each technique, a mean over seeds.
        goal_us: longest 99th percentile, in place of limits that are relative to the baseline.
    """

    world: str
    baseline: str
    rows: dict[str, Row]
    runs: dict[str, list[Run]] = field(default_factory=dict[str, list[Run]])
    goal_us: float | None = None
    known: dict[tuple[str, str], Saving | None] = field(
        default_factory=dict[tuple[str, str], "Saving | None"]
    )

    def add(self, run: Run) -> None:
        """Adds a run of one seed."""
        self.runs.setdefault(run.technique, []).append(run)

    def saving(self, ours: str, base: str) -> Saving | None:
        """Energy that one technique saves of another's, at equal work and equal time; where a floor
        is missing for that, of each unit of work."""
        if (ours, base) not in self.known:
            pairs = [(self.takes[a], self.takes[b]) for a, b in self.pairs(ours, base)]
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            found = [a.saved_of(b) for a, b in known] if len(known) == len(pairs) else []
            saved = over(found) if found else None
            if saved is not None:
                saved = replace(saved, over_watts=self._over_watts(ours, base))
            self.known[ours, base] = saved
        return self.known[ours, base]

    def _over_watts(self, ours: str, base: str) -> tuple[float, float] | None:
        """The range of a saving over the watts that are assumed, a mean over seeds; none where they
        are known, or where one idles for a part of the time, at a floor that is one number."""
        found: list[tuple[float, float]] = []
        for pair in self.pairs(ours, base):
            (a, mine), (b, theirs) = ((self.takes[n], self.run(n).watts) for n in pair)
            if a is None or b is None or mine is None or theirs is None:
                return None
            found.append(saving_over((a.ratio, mine), (b.ratio, theirs)))
        if not found or not (self.is_same_rate(ours) and self.is_same_rate(base)):
            return None
        low, high = (sum(ends) / len(found) for ends in zip(*found, strict=True))
        return low, high

    def is_same_rate(self, technique: str) -> bool:
        """Returns whether a technique does the same work in the baseline's time, as it is."""
        known = self.evens(technique)
        return known is not None and all(one.is_same_rate for one in known)

    @cached_property
    def takes(self) -> dict[int, Taken | None]:
        """Returns what each run takes of the baseline's energy, by its number."""
        base = {run.seed: run.side for run in self.runs.get(self.baseline, [])}
        found: dict[int, Taken | None] = {}
        for run in (run for runs in self.runs.values() for run in runs):
            theirs = base.get(run.seed)
            found[run.number] = None
            if theirs is not None:
                at_rate = taken(run.side, theirs)
                found[run.number] = at_rate or taken_by_work(run.side, theirs)
        return found

    def evens(self, technique: str) -> list[Even] | None:
        """A technique and the baseline at equal work and equal time, seed by seed; none where that
        is not known."""
        pairs = self.pairs(technique, self.baseline)
        found = [even(self.run(a).side, self.run(b).side) for a, b in pairs]
        known = [one for one in found if one is not None]
        return known if known and len(known) == len(found) else None

    def pairs(self, ours: str, base: str) -> list[tuple[int, int]]:
        """Numbers of runs of two techniques, seed by seed."""
        theirs = {run.seed: run.number for run in self.runs.get(base, [])}
        return [
            (run.number, theirs[run.seed]) for run in self.runs.get(ours, []) if run.seed in theirs
        ]

    def time(self, name: str) -> float:
        """Returns a technique's mean time as a share of the baseline's; 1 where none is known."""
        return 1 + (self.rows[name].get("slowdown_pct") or 0) / 100

    def run(self, number: int) -> Run:
        """A run by its number."""
        return next(r for runs in self.runs.values() for r in runs if r.number == number)

    @cached_property
    def limit(self) -> tuple[float, float]:
        """Returns how long a mean latency and a 99th percentile may be, over the baseline's."""
        if self.goal_us is not None:
            known = self.rows[self.baseline]["latency_p99_us"]
            return inf, self.goal_us / known if known else inf
        mean, p99 = 1 + SLOWER_PCT / 100, 1 + P99_PCT / 100
        default = usual(self.world)
        if default not in self.rows or default == self.baseline:
            return mean, p99
        found = self.saving(default, self.baseline)
        if found is None or found.value <= 0:
            return mean, p99
        row, base = self.rows[default], self.rows[self.baseline]
        if max(self.time(default), _p99(row, base)) > OVERLOADED:
            return mean, p99
        return max(mean, AS_SLOW * self.time(default)), max(p99, AS_SLOW * _p99(row, base))

    def breaks(self, technique: str) -> list[str]:
        """The limits that a technique breaks, in words."""
        base, row = self.rows.get(self.baseline), self.rows[technique]
        if base is None or technique == self.baseline:
            return []
        found: list[str] = []
        mean, p99 = self.limit
        if not row["units"] and base["units"]:
            return ["does nothing"]
        if row.get("keeps_up") == "no" != base.get("keeps_up") or _undone(row, base):
            found.append("does not keep up")
        if self.time(technique) > mean:
            found.append("slower")
        if _p99(row, base) > p99:
            found.append("longer p99")
        if (row.get("lost_pct") or 0) - (base.get("lost_pct") or 0) > LOST_PCT:
            found.append("loses work")
        return found

    @cached_property
    def kept(self) -> list[str]:
        """Techniques that keep the limits and know no future."""
        return [name for name in self.rows if not self.breaks(name) and self.needs(name) != "bound"]

    def needs(self, technique: str) -> str:
        """Returns what a technique needs."""
        return needs(technique, self.world)

    @cached_property
    def is_of_today(self) -> bool:
        """Returns whether the reference runs today; it does not where no technique does."""
        return self.needs(self.today) == "today"

    @cached_property
    def today(self) -> str:
        """The reference: the best of today that keeps the limits, or the baseline."""
        found = self.baseline
        default = usual(self.world)
        here = [name for name in self.kept if self.needs(name) == "today"]
        if self.needs(found) != "today" and here:
            # What the baseline needs is more than that: anything of today goes before it.
            found = here[0] if default not in here else str(default)
        if default in here and self.beats(default, found):
            found = default
        best = self.best(here, self.baseline)
        if best is None:
            return found
        # What is usual gives way to what saves more, or about as much and answers sooner.
        is_sooner = AS_SOON * self.time(best) < self.time(found)
        if self.beats(best, found) or (is_sooner and self.beats(best, self.baseline)):
            return best
        # The one that saves most may do so by chance; the next one may save less, and surely.
        better = self.best(here, found)
        return better if better is not None and self.beats(better, found) else found

    def best(self, names: Sequence[str], against: str) -> str | None:
        """The one that saves most against another, and surely if any does; of those that save about
        as much, the one that answers soonest; of equals the first."""
        saved = {n: s.value for n in names if n != against and (s := self.saving(n, against))}
        if not saved:
            return None
        saved = {n: value for n, value in saved.items() if self.beats(n, against)} or saved
        most = max(saved.values())
        # Of what the leanest takes: where much is saved, that is little of the other's energy.
        least = most - min(AS_GOOD_PCT * max(0.0, 1 - most / 100), AS_GOOD * abs(most))
        good = {name: value for name, value in saved.items() if value >= least}
        soon = AS_SOON * min(self.time(name) for name in good)
        return max((n for n in good if self.time(n) <= soon), key=lambda name: good[name])

    @cached_property
    def has_leaner(self) -> bool:
        """Returns whether a technique of today that keeps the limits uses less than the reference,
        which then answers sooner."""
        here = (n for n in self.kept if self.needs(n) == "today")
        return any(self.beats(n, self.today, LEAST_PCT) for n in here)

    def beats(self, ours: str, other: str, least: float = WORTH_PCT) -> bool:
        """Returns whether one takes less energy than another by ``least`` per cent or more, beyond
        what chance may do."""
        found = self.saving(ours, other)
        return found is not None and found.beats(least)

    def columns(self) -> dict[int, Row]:
        """The columns of each run, by its number."""
        found: dict[int, Row] = {}
        today = {run.seed: self.takes[run.number] for run in self.runs.get(self.today, [])}
        base = {run.seed: run.side for run in self.runs.get(self.baseline, [])}
        for technique, runs in self.runs.items():
            words = {
                "available": self.needs(technique),
                "breaks": ", ".join(self.breaks(technique)),
                "today": self.today,
            }
            for run in runs:
                theirs = run.base or base.get(run.seed)
                of_work = saving_of(taken_by_work(run.side, theirs)) if theirs else None
                at_rate = saving_of(taken(run.side, theirs)) if theirs else None
                mine, best = self.takes[run.number], today.get(run.seed)
                beyond = mine.saved_of(best) if mine is not None and best is not None else None
                cells = dict.fromkeys(_schema())
                cells |= dict(zip(ends("energy_saving_pct"), _ends(of_work), strict=True))
                cells |= _cells("equal_rate_saving_pct", at_rate)
                cells |= _cells("beyond_today_pct", beyond)
                found[run.number] = cells | words
        return found


def _ends(found: Saving | None) -> tuple[float | None, float | None]:
    return (found.low, found.high) if found else (None, None)


def _cells(name: str, found: Saving | None) -> Row:
    low, high = ends(name)
    value = found.value if found else None
    return {name: value, low: _ends(found)[0], high: _ends(found)[1]}


def _p99(row: Row, base: Row) -> float:
    ours, theirs = row.get("latency_p99_us"), base.get("latency_p99_us")
    return ours / theirs if ours and theirs else 1.0


def _undone(row: Row, base: Row) -> bool:
    if base.get("load") == "closed" or not base["units"]:
        return False
    # Of a short run a good part is under way at its end, more of it by chance.
    by_chance = 3 * base["units"] ** 0.5
    return row["units"] < (1 - UNDONE_PCT / 100) * base["units"] - by_chance

"""Savings between runs of the same work, like with like, with intervals of the difference.

Energy is compared at equal work and equal time: a run that is done earlier idles for the time left,
at the idle floor that its world states. All techniques of a comparison play the same work, so the
difference is taken part by part, and what both have in common leaves its interval.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import sqrt
from typing import Any

from halfwink.results.seeds import student

#: Batches of a run from whose differences an interval comes.
BATCHES = 16
#: Pieces that a run must have for an interval.
LEAST_PIECES = 32
#: Correlation of neighbouring batches that is corrected for, at most.
CORRELATED = 0.9
#: Runs of the same work whose durations differ by less than this share take the same time: what is
#: under way when an open load ends differs by a few units.
SAME_TIME = 2e-3
#: A machine draws the same power all the time if its energy is that of its idle floor, but for
#: rounding.
CONSTANT = 1e-9


@dataclass(frozen=True)
class Saving:
    """Energy saved, in per cent; ``low`` and ``high`` are its 95 % interval, where known.

    ``over_watts`` is the range of it over all watts that the machine may have, where these are
    assumed. It ``is_exact`` if nothing in it was sampled.
    """

    value: float
    low: float | None = None
    high: float | None = None
    over_watts: tuple[float, float] | None = None
    is_exact: bool = False

    @property
    def is_known(self) -> bool:
        """Returns whether an interval is known."""
        return self.low is not None and self.high is not None

    @property
    def opposite(self) -> Saving:
        """The energy that is taken more, where a saving is negative."""
        low, high, watts = self.low, self.high, self.over_watts
        return replace(
            self,
            value=-self.value,
            low=None if high is None else -high,
            high=None if low is None else -low,
            over_watts=None if watts is None else (-watts[1], -watts[0]),
        )

    def beats(self, least: float) -> bool:
        """Returns whether it is more than ``least``, and not by chance as far as is known."""
        return self.value >= least and (self.low is None or self.low > 0)


@dataclass(frozen=True)
class Pieces:
    """Parts of a run in their order: time in seconds, work, energy in joules. ``strata`` are the
    numbers of the loads that they had, where the run follows a plan of several."""

    time_s: tuple[float, ...]
    work: tuple[float, ...]
    energy_j: tuple[float, ...]
    strata: tuple[int, ...] = ()

    @property
    def is_planned(self) -> bool:
        """Returns whether it follows a plan of several loads: its parts are then the same spans of
        time under every technique."""
        return len(set(self.strata)) > 1

    @cached_property
    def by_time(self) -> list[tuple[float, float]] | None:
        """Seconds and joules of batches of equal time; none if there are too few pieces."""
        return self._batches(self.time_s)

    @cached_property
    def by_work(self) -> list[tuple[float, float]] | None:
        """Returns the same of batches of equal work."""
        return self._batches(self.work)

    def _batches(self, along: tuple[float, ...]) -> list[tuple[float, float]] | None:
        if self.is_planned:
            return list(zip(self.time_s, self.energy_j, strict=True))
        axis = _sums(along)
        if len(along) < LEAST_PIECES or axis[-1] <= 0:
            return None
        marks = [axis[-1] * n / BATCHES for n in range(BATCHES + 1)]
        seconds, joules = (
            [_at(axis, sums, mark) for mark in marks]
            for sums in (_sums(self.time_s), _sums(self.energy_j))
        )
        return [
            (b - a, d - c)
            for (a, b), (c, d) in zip(pairwise(seconds), pairwise(joules), strict=True)
        ]


def _sums(values: Iterable[float]) -> list[float]:
    return list(accumulate(values, initial=0.0))


def _at(axis: Sequence[float], values: Sequence[float], mark: float) -> float:
    """The sum at a place of the axis, between those at the ends of pieces."""
    after = min(max(bisect_left(axis, mark), 1), len(axis) - 1)
    width = axis[after] - axis[after - 1]
    share = (mark - axis[after - 1]) / width if width > 0 else 1.0
    return values[after - 1] + share * (values[after] - values[after - 1])


@dataclass(frozen=True)
class Side:
    """A run as comparisons need it."""

    units: float
    duration_s: float
    energy_j: float
    is_closed: bool
    idle_w: float | None
    pieces: Pieces | None

    @property
    def is_constant(self) -> bool:
        """Returns whether the machine drew its idle floor all the time, whatever it did."""
        if self.idle_w is None:
            return False
        return abs(self.energy_j - self.idle_w * self.duration_s) <= CONSTANT * self.energy_j

    @staticmethod
    def of(row: Mapping[str, Any], pieces: Pieces | None) -> Side:
        """Makes one from a row of the table of runs."""
        return Side(
            units=float(row["units"] or 0),
            duration_s=float(row["duration_s"] or 0),
            energy_j=float(row["energy_j"] or 0),
            is_closed=row.get("load") == "closed",
            idle_w=row.get("idle_w"),
            pieces=pieces,
        )


@dataclass(frozen=True)
class Even:
    """Two runs at equal work: ours is ``scale`` of what was run, and either may idle, at
    ``idle_w``, until ``duration_s``."""

    scale: float
    duration_s: float
    ours_j: float
    base_j: float
    ours_idle_w: float
    base_idle_w: float
    #: Time for which one of them waits, over the other's.
    left: float = 0.0

    @property
    def is_same_rate(self) -> bool:
        """Returns whether both took the same time as they are."""
        return self.left <= SAME_TIME

    @property
    def saved_w(self) -> float:
        """Watts saved at the same rate of work."""
        return (self.base_j - self.ours_j) / self.duration_s


def even(ours: Side, base: Side) -> Even | None:
    """Both at equal work and equal time; none if one did nothing, or must idle at a floor that
    is not known."""
    scale = _same_work(ours, base)
    if scale is None or not base.energy_j or not base.duration_s:
        return None
    ours_j, ours_s = scale * ours.energy_j, scale * ours.duration_s
    left = base.duration_s - ours_s
    floor = ours.idle_w if left > 0 else base.idle_w
    if floor is None and abs(left) > SAME_TIME * base.duration_s:
        return None
    floor = floor or 0.0
    share = abs(left) / base.duration_s
    if left > 0:
        return Even(scale, base.duration_s, ours_j + floor * left, base.energy_j, floor, 0.0, share)
    return Even(scale, ours_s, ours_j, base.energy_j - floor * left, 0.0, floor, share)


def _same_work(ours: Side, base: Side) -> float | None:
    if base.units == 0:
        return base.duration_s / ours.duration_s if ours.duration_s else None
    return base.units / ours.units if ours.units > 0 else None


@dataclass(frozen=True)
class Taken:
    """Energy of a run over the baseline's for the same work, whole and by batches: ``ours`` over
    ``base``, in joules. Savings between any two techniques of a comparison come from these alone,
    so that they agree with the table."""

    ratio: float
    ours: tuple[float, ...] = ()
    base: tuple[float, ...] = ()
    #: Numbers of the batches' loads; empty where all have one.
    strata: tuple[int, ...] = ()
    #: True if the machine draws the same power under both, whatever it does: nothing is sampled.
    is_exact: bool = False

    def saved_of(self, other: Taken) -> Saving:
        """Energy that this one saves of another's, with the interval where both have batches."""
        quotient = self.ratio / other.ratio
        value = 100 * (1 - quotient)
        if self.is_exact and other.is_exact:
            return Saving(value, value, value, is_exact=True)
        if not self.ours or not other.ours:
            return Saving(value)
        rests = [a - b for a, b in zip(self._rests(), other._rests(), strict=True)]
        half = 100 * abs(quotient) * half_width(rests, self.strata)
        return Saving(value, value - half, value + half)

    def _rests(self) -> list[float]:
        """Returns by how much each batch takes more than its share, over all that is taken."""
        whole = sum(self.ours)
        ratio = whole / sum(self.base)
        return [(a - ratio * b) / whole for a, b in zip(self.ours, self.base, strict=True)]


def saving_of(found: Taken | None) -> Saving | None:
    """Returns the saving of the baseline's energy."""
    return None if found is None else found.saved_of(replace(found, ratio=1.0, ours=found.base))


def taken(ours: Side, base: Side) -> Taken | None:
    """At equal work and equal time; none where that is not known."""
    found = even(ours, base)
    if found is None:
        return None
    took = _taken(ours, base, found)
    is_exact = ours.is_constant and base.is_constant
    return None if took is None else replace(took, is_exact=is_exact)


def taken_by_work(ours: Side, base: Side) -> Taken | None:
    """Compares each unit of work, however long it took."""
    scale = _same_work(ours, base)
    if scale is None or base.energy_j <= 0:
        return None
    joules = scale * ours.energy_j
    return _taken(ours, base, Even(scale, base.duration_s, joules, base.energy_j, 0.0, 0.0))


def _taken(ours: Side, base: Side, found: Even) -> Taken | None:
    if found.base_j <= 0 or found.ours_j <= 0:
        return None
    ratio = found.ours_j / found.base_j
    of_base, of_ours = (_batches(side, is_closed=base.is_closed) for side in (base, ours))
    if of_base is None or of_ours is None or len(of_base) != len(of_ours):
        return Taken(ratio)
    mine: list[float] = []
    theirs: list[float] = []
    for (base_s, base_j), (ours_s, ours_j) in zip(of_base, of_ours, strict=True):
        left = base_s - found.scale * ours_s
        mine.append(found.scale * ours_j + found.ours_idle_w * left)
        theirs.append(base_j - found.base_idle_w * left)
    if sum(mine) <= 0 or sum(theirs) <= 0:
        return Taken(ratio)
    pieces = base.pieces
    strata = pieces.strata if pieces is not None and pieces.is_planned else ()
    return Taken(ratio, tuple(mine), tuple(theirs), strata)


def _batches(side: Side, *, is_closed: bool) -> list[tuple[float, float]] | None:
    if side.pieces is None:
        return None
    return side.pieces.by_work if is_closed else side.pieces.by_time


def half_width(rests: Sequence[float], strata: Sequence[int] = ()) -> float:
    """Half of the 95 % interval of a quotient of sums over batches, as a share of it, from what is
    left of each batch (delta method, Student's t), widened for correlation between neighbours.

    That loads of a plan differ is no uncertainty: only how batches differ from those of the same
    load counts (stratified sampling; Cochran, "Sampling Techniques", 1977, Sec 5.6).
    """
    groups: dict[int, list[float]] = {}
    for rest, stratum in zip(rests, strata or (0,) * len(rests), strict=True):
        groups.setdefault(stratum, []).append(rest)
    squares = plain = products = 0.0
    freedom = 0
    for group in (g for g in groups.values() if len(g) > 1):
        mean, count = sum(group) / len(group), len(group)
        left = [rest - mean for rest in group]
        square = sum(r * r for r in left)
        squares += square * count / (count - 1)
        plain += square
        products += sum(a * b for a, b in pairwise(left))
        freedom += count - 1
    if plain == 0 or freedom == 0:
        return 0.0
    r = min(max(products / plain, 0.0), CORRELATED)
    return student(freedom) * sqrt(squares) * sqrt((1 + r) / (1 - r))


def over(savings: Sequence[Saving]) -> Saving:
    """The mean of savings of several seeds, with the interval over them; of one, itself."""
    if len(savings) == 1:
        return savings[0]
    values = [s.value for s in savings]
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
    half = student(len(values) - 1) * sqrt(variance / len(values))
    return Saving(mean, mean - half, mean + half)

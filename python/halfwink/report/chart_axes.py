"""Axes of charts: domains that leave room for marks, the pixels of values, and plain numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, exp, expm1, floor, log, log1p, log10
from typing import Any, Literal

import altair as alt

Kind = Literal["linear", "log", "symlog"]
#: From this ratio of the values on, an axis is logarithmic: else most points would be one.
RATIO = 3.0
#: A symlog axis is linear up to this value.
CONSTANT = 0.02
#: Numbers of a logarithmic axis within a decade, from the fewest to the most.
LADDERS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9))
#: Fewest numbers of an axis, where it has room.
FEWEST = 3
#: Units of an axis of microseconds: from such a value on, its factor and name.
TIMES = ((1e7, 1e6, "s"), (1e4, 1e3, "ms"), (0.0, 1.0, "us"))


@dataclass(frozen=True)
class Axis:
    """An axis whose ends leave room for the marks there.

    Attributes:
        low, high: ends of its domain.
        length: length in pixels.
        kind: type of its scale.
    """

    low: float
    high: float
    length: int
    kind: Kind = "linear"

    @staticmethod
    def over(
        values: Iterable[float], length: int, least: float, free: float, kind: Kind | None = None
    ) -> Axis:
        """Returns the axis of values. Values that differ by less than a share are not drawn as if
        that mattered.

        Args:
            values: the values, one at least.
            length: length in pixels.
            least: share by which the domain extends beyond the values.
            free: pixels that are free at either end.
            kind: type of the scale; without it, logarithmic if values are far apart.
        """
        known = list(values)
        low, high = min(known), max(known)
        low, high = low - least * abs(low), high + least * abs(high)
        if kind is None:
            kind = "log" if low > 0 and high / low > RATIO else "linear"
        start, end = _forth(low, kind), _forth(high, kind)
        more = (end - start or 1.0) * free / max(1.0, length - 2 * free)
        return Axis(_back(start - more, kind), _back(end + more, kind), length, kind)

    @property
    def is_log(self) -> bool:
        """Returns whether the axis is logarithmic."""
        return self.kind == "log"

    def pixel(self, value: float) -> float:
        """Returns the distance of a value from the axis' lower end, in pixels."""
        low, high, at = (_forth(v, self.kind) for v in (self.low, self.high, value))
        return self.length * (at - low) / (high - low)

    def scale(self) -> alt.Scale:
        """Returns the scale, with this domain."""
        constant = CONSTANT if self.kind == "symlog" else alt.Undefined
        domain = [self.low, self.high]
        return alt.Scale(type=self.kind, domain=domain, nice=False, constant=constant)

    def ticks(self, apart: float) -> list[float]:
        """Returns the numbers of the axis, so many pixels apart at least."""
        most = max(2, int(self.length / apart))
        if self.kind == "log":
            return log_ticks(self.low, self.high, most)
        if self.kind == "linear":
            return linear_ticks(self.low, self.high, most)
        # From zero outwards: there values are close.
        kept = [0.0] if self.low <= 0 <= self.high else []
        reach = max(abs(self.low), abs(self.high), CONSTANT)
        sizes = log_ticks(CONSTANT, reach, 100)
        for size in sorted(sizes, reverse=True):
            for value in (size, -size):
                is_inside = self.low <= value <= self.high
                if is_inside and all(abs(self.pixel(value) - self.pixel(k)) > apart for k in kept):
                    kept.append(value)
        return sorted(kept)


def _forth(value: float, kind: Kind) -> float:
    if kind == "symlog":
        return log1p(abs(value) / CONSTANT) * (1 if value >= 0 else -1)
    return log(value) if kind == "log" else value


def _back(value: float, kind: Kind) -> float:
    if kind == "symlog":
        return CONSTANT * expm1(abs(value)) * (1 if value >= 0 else -1)
    return exp(value) if kind == "log" else value


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Returns round numbers between two values, not more than so many."""
    power = 10.0 ** (floor(log10((high - low) or 1.0)) - 2)
    steps = (power * 10.0**decade * step for decade in range(6) for step in (1, 2, 5))
    step = next(s for s in steps if floor(high / s) - ceil(low / s) + 1 <= max(2, most))
    digits = max(0, 1 - floor(log10(step)))
    return [round(n * step, digits) for n in range(ceil(low / step), floor(high / step) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Returns numbers of a logarithmic axis between two values, not more than so many."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    best: list[float] = []
    for ladder in LADDERS:
        values = [float(f"{step}e{decade}") for decade in decades for step in ladder]
        inside = [value for value in values if low <= value <= high]
        if len(inside) > most and ladder == LADDERS[0]:
            # More decades than there is room for: linear numbers would all stand in the last one.
            return inside[:: ceil(len(inside) / most)]
        if len(inside) > most and len(best) >= FEWEST - 1:
            break
        if len(inside) <= most:
            best = inside
    return best if len(best) >= FEWEST else max(best, linear_ticks(low, high, most), key=len)


def time_unit(longest_us: float) -> tuple[float, str]:
    """Returns the microseconds of the unit in which an axis of times has plain numbers, and its
    name."""
    return next((factor, name) for least, factor, name in TIMES if longest_us >= least)


def numbered(values: Iterable[float], factor: float = 1.0, **more: Any) -> alt.Axis:
    """Returns an axis with these numbers, in a unit of so many of the data's."""
    value = "datum.value" if factor == 1 else f"datum.value / {factor:g}"
    return alt.Axis(values=list(values), labelExpr=f"format({value}, ',~r')", **more)

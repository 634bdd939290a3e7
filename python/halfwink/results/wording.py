"""Numbers as sentences have them."""

from __future__ import annotations

from halfwink.results.summary import fixed


def percent(value: float) -> str:
    """Per cent, with the digits that matter."""
    return f"{fixed(value, 2 if abs(value) < 10 else 1)} %"


def span(values: list[float]) -> str:
    """Formats a range of per cent, from the least to the most."""
    low, high = min(values), max(values)
    return percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"


def span_of(values: list[float], positive: str, negative: str) -> str:
    """Formats a range of per cent with a word in place of a sign: ``3.0 % to 5.0 % less``,
    ``0.44 % to 11.0 % more``, ``11.0 % more to 3.0 % less``."""
    low, high = min(values), max(values)
    if low >= 0:
        return f"{span(values)} {positive}"
    if high <= 0:
        return f"{span([-value for value in values])} {negative}"
    return f"{percent(-low)} {negative} to {percent(high)} {positive}"


def duration(value: float) -> str:
    """Microseconds, in a fitting unit."""
    for limit, factor, unit in ((1e3, 1.0, "us"), (1e6, 1e-3, "ms")):
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value / 1e6:.3g} s"


def si(value: float) -> str:
    """Formats a value with a fitting prefix, without the unit's sign."""
    for limit, factor, prefix in ((1e-3, 1e6, "u"), (1.0, 1e3, "m"), (1e3, 1.0, "")):
        if abs(value) < limit:
            return f"{value * factor:.3g} {prefix}"
    return f"{value / 1e3:.3g} k"


def count(value: float) -> str:
    """Formats a count with a fitting prefix, without the noun."""
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= limit:
            return f"{value / limit:.3g} {prefix}"
    return figure(value)


def figure(value: float) -> str:
    """A number for people, thousands apart."""
    if abs(value) < 0.005:
        return "0"
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 else f"{value:.2g}"


def number(value: float, digits: int = 3) -> str:
    """Formats a number with so many digits, thousands apart."""
    if abs(value) >= 1e7 or 0 < abs(value) < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def possessive(noun: str) -> str:
    """The possessive of a noun: ``chip's``, ``pair of servers'``."""
    return f"{noun}'" if noun.endswith("s") else f"{noun}'s"


def time_of(hours: float) -> str:
    """Formats a length of time in the unit that fits: ``24 s``, ``30 min``, ``7 days``."""
    for limit, unit_hours, unit in (
        (1 / 30, 1 / 3600, "s"),
        (2.0, 1 / 60, "min"),
        (72.0, 1.0, "h"),
    ):
        if hours < limit:
            return f"{hours / unit_hours:.3g} {unit}"
    return f"{hours / 24:.3g} days"


def energy(kwh: float) -> str:
    """Formats energy in the unit that fits."""
    for limit, unit_kwh, unit in ((1.0, 1e-3, "Wh"), (1e3, 1.0, "kWh"), (1e6, 1e3, "MWh")):
        if kwh < limit:
            return f"{kwh / unit_kwh:.3g} {unit}"
    return f"{kwh / 1e6:.3g} GWh"

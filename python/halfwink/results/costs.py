"""Words for savings, and for what a technique costs beside another."""

from __future__ import annotations

from collections.abc import Collection
from math import hypot
from typing import Any

from halfwink.results import wording
from halfwink.results.judgement import LEAST_PCT, SLOWER_PCT, WORTH_PCT, Group, usual
from halfwink.results.paired import Saving
from halfwink.results.relate import half_width
from halfwink.results.summary import fixed

Row = dict[str, Any]

#: Fewer requests tell nothing.
FEW = 100
#: Of so many requests the 99th percentile is known well, where it has no interval, too.
MANY = 100_000
#: Worlds that know an interval of each 99th percentile.
KNOW_TAILS = ("node",)


def limits(group: Group) -> str:
    """The limits of a comparison, in words."""
    mean, p99 = (100 * (limit - 1) for limit in group.limit)
    text = f"{fixed(mean, 0)} % slower, {fixed(p99, 0)} % longer p99"
    return text if mean <= SLOWER_PCT * 1.001 else f"those of {usual(group.world)}: {text}"


def percents(saved: Saving) -> str:
    """A saving with its interval, and its range over watts that are assumed:
    ``4.2 % (3.9 to 4.5; 2.8 to 5.1 over the watts assumed)``."""
    ranges: list[str] = []
    is_sampled = saved.low is not None and saved.high is not None and not saved.is_exact
    if is_sampled and fixed(saved.low) != fixed(saved.high):
        ranges.append(f"{fixed(saved.low)} to {fixed(saved.high)}")
    if saved.over_watts is not None:
        low, high = saved.over_watts
        ranges.append(f"{fixed(low, 1)} to {fixed(high, 1)} over the watts assumed")
    return f"{fixed(saved.value)} %" + (f" ({'; '.join(ranges)})" if ranges else "")


def compared(saved: Saving) -> str:
    """``saves 0.01 %``, ``uses 3.1 % more`` or ``uses as much``, with the interval."""
    if saved.is_known and saved.value >= LEAST_PCT and not saved.beats(LEAST_PCT):
        return f"saves {percents(saved)}, which may be chance"
    if abs(saved.value) < LEAST_PCT:
        return "uses as much"
    if saved.value > 0:
        return f"saves {percents(saved)}"
    return f"uses {percents(saved.opposite)} more"


def less(saved: Saving) -> str:
    """``4.2 % less``, or more of what saves nothing, with the interval."""
    if saved.value < 0:
        return f"{percents(saved.opposite)} more"
    return f"{percents(saved)} less"


def no_less(nearest: Collection[Saving], energy: str = "") -> str:
    """Returns what none of the nearest techniques does, none of which wins: ``uses less``, ``uses
    1 % less`` or ``surely uses less``. ``energy`` follows the last word."""
    if not any(saved.value >= LEAST_PCT for saved in nearest):
        return f"uses less{energy}"
    if any(saved.value >= WORTH_PCT for saved in nearest):
        return f"surely uses {WORTH_PCT:g} % less{energy}"
    return f"uses {WORTH_PCT:g} % less{energy}"


def cost_of(group: Group, name: str, beside: str) -> str:
    """Returns the costs of a technique in time, tail and loss beside another."""
    row, other = group.rows[name], group.rows[beside]
    slower = row.get("slowdown_pct")
    parts: list[str] = []
    if slower is not None:
        parts.append(_slower(100 * (group.time(name) / group.time(beside) - 1)))
    parts += _tail(group, row, other)
    lost = row.get("lost_pct")
    if lost is not None and lost > 0.0005:
        parts.append(f"{fixed(lost, 3)} % lost")
    return ", ".join(parts) or "at a cost that is not known"


def _tail(group: Group, row: Row, other: Row) -> list[str]:
    """The 99th percentile beside another's, and whether intervals tell it from that and from its
    limit, which is a multiple of the baseline's."""
    p99 = "latency_p99_us"
    base = group.rows[group.baseline]
    ours, theirs, bases = (one.get(p99) for one in (row, other, base))
    if not ours or not theirs or not bases:
        return []
    before, now = wording.duration(theirs), wording.duration(ours)
    if before == now:
        return [f"p99 {now}"]
    told = f"p99 {before} -> {now}"
    # The 99th percentile of fewer than a hundred is the longest of all; and worlds that know
    # intervals of 99th percentiles know none where too few requests came.
    halves = [half_width(one, p99) for one in (row, other, base)]
    units = min(row["units"], other["units"])
    if units < FEW or (units < MANY and group.world in KNOW_TAILS and None in halves):
        return [f"{told}, of which so short a run says little"]
    mine, his, its = (
        (half or 0.0) / one for half, one in zip(halves, (ours, theirs, bases), strict=True)
    )
    times, limit = ours / bases, group.limit[1]
    if row is not base and abs(times - limit) < times * hypot(mine, its):
        return [f"{told}, perhaps {'beyond' if times <= limit else 'within'} its limit"]
    by_chance = mine and his and abs(ours / theirs - 1) < ours / theirs * hypot(mine, his)
    return [f"{told}, which may be chance" if by_chance else told]


def _slower(slower: float) -> str:
    if fixed(slower) == fixed(0.0):
        return "as fast"
    if slower >= 100:
        times = 1 + slower / 100
        return (
            f"{times:.1f} times as slow"
            if times < 100
            else f"{wording.figure(times)} times as slow"
        )
    return f"{fixed(abs(slower))} % {'slower' if slower > 0 else 'faster'}"


def too_short(saved: Saving, base: Row) -> str:
    """Tells how long a run must be that can tell, if this one cannot and it may be worth it."""
    if saved.low is None or saved.high is None or not saved.low <= 0 < WORTH_PCT < saved.high:
        return ""
    half = (saved.high - saved.low) / 2
    if abs(saved.value) < LEAST_PCT or half <= abs(saved.value):
        return ""
    units = base["units"] * (half / saved.value) ** 2
    return f"; a run that can tell has at least {wording.count(units)} {base['unit_of_work']}s"

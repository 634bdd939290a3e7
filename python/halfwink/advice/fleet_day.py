"""A day of a fleet: watts and latencies of servers that share its load, or of which some sleep.

Each step of the day is taken as steady at its load. Watts and latencies between two loads that were
played lie on a line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, inf
from typing import Any

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.library import library
from halfwink.results.judgement import P99_PCT, SLOWER_PCT

#: Steps of a log, in seconds; counts have their own.
STEP_S = 60.0
#: Loads that servers which stay awake are filled to, in per cent.
FILLED = tuple(range(5, 81, 5))
#: Of a server that sleeps: watts, and seconds from off to the first request. Assumptions: a board
#: controller and the standby supply; firmware, kernel and service.
SLEEP_W, WAKE_S = 12.0, 120.0


@dataclass(frozen=True)
class Day:
    """Load of a fleet: requests per second in steps.

    Attributes:
        name: the text that names it.
        step_s: length of a step, in seconds.
        per_s: requests per second of the whole fleet in each step.
        read_as: format of the file, and what was played and left out.
        bad_lines: lines that were left out.
        missing: steps that are not in the file, and hold no requests.
        scaled_by: factor by which the counts of the file were multiplied.
    """

    name: str
    step_s: float
    per_s: tuple[float, ...]
    read_as: str = ""
    bad_lines: int = 0
    missing: int = 0
    scaled_by: float = 1.0

    @staticmethod
    def read(text: str) -> Day:
        """Reads ``counts:FILE`` or ``log:FILE``; a name alone is a file of counts.

        Raises:
            HalfwinkError: the file cannot be read, or has fewer than two steps or no requests.
        """
        load = text if text.startswith(("counts:", "log:")) else f"counts:{text}"
        found = _core.day_load(library(), load, STEP_S)
        rates = tuple(found["per_s"])
        left_out = (found["bad_lines"], found["missing"])
        day = Day(load, found["step_s"], rates, found["read_as"], *left_out)
        if len(day.per_s) < 2 or not any(day.per_s):
            steps = f"{len(day.per_s)} steps of {day.step_s:g} s"
            raise HalfwinkError(f"{load}: {steps}, expected two or more, with requests in them")
        return day

    @property
    def file(self) -> str:
        """The file's name, without its folder."""
        return re.split(r"[:/]", self.name)[-1]

    @property
    def hours(self) -> float:
        return len(self.per_s) * self.step_s / 3600

    @property
    def mean(self) -> float:
        return sum(self.per_s) / len(self.per_s)


@dataclass(frozen=True)
class Curve:
    """Watts and latencies of a server by load, under one composition.

    Between loads that were played values lie on a line. A load above the highest one that the
    server keeps up with has none.

    Attributes:
        loads: loads that it keeps up with, in per cent, rising.
        watts: watts at each.
        p99_us, mean_us: latencies at each; those at no load are those at the least load.
    """

    loads: tuple[float, ...]
    watts: tuple[float, ...]
    p99_us: tuple[float, ...]
    mean_us: tuple[float, ...]

    @staticmethod
    def of(rows: Iterable[Mapping[str, Any]]) -> Curve:
        """Makes it of runs at several loads."""
        kept: list[Mapping[str, Any]] = []
        for row in sorted(rows, key=lambda row: row["load_pct"]):
            if row["keeps_up"] == "no":
                break
            kept.append(row)
        busy = [row for row in kept if row["latency_p99_us"] is not None]
        first = busy[0] if busy else {"latency_p99_us": inf, "latency_mean_us": inf}

        def column(name: str) -> tuple[float, ...]:
            return tuple(first[name] if row[name] is None else row[name] for row in kept)

        return Curve(
            tuple(row["load_pct"] for row in kept),
            tuple(row["power_w"] for row in kept),
            column("latency_p99_us"),
            column("latency_mean_us"),
        )

    def at(self, load: float) -> tuple[float, float, float] | None:
        """Returns watts, 99th percentile and mean latency at a load; none above the highest."""
        if not self.loads or load > self.loads[-1] * (1 + 1e-9):
            return None
        columns = (self.watts, self.p99_us, self.mean_us)
        watts, p99, mean = (on_line(self.loads, column, load) for column in columns)
        return watts, p99, mean


def on_line(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """Returns a value on the line between the two places beside it, or that of the nearest one."""
    n = bisect_right(places, place)
    if n == 0 or n == len(places):
        return values[n and -1]
    share = (place - places[n - 1]) / (places[n] - places[n - 1])
    return values[n - 1] + share * (values[n] - values[n - 1])


@dataclass(frozen=True)
class Step:
    """A step of the day: servers awake, the load of each, watts of the fleet, and its latency."""

    awake: int
    load_pct: float
    fleet_w: float
    p99_us: float
    keeps_goal: bool


@dataclass(frozen=True)
class Plan:
    """A day under one composition."""

    technique: str
    sleeps: bool
    steps: tuple[Step, ...]

    @cached_property
    def watts(self) -> float:
        """Mean watts of the fleet."""
        return sum(step.fleet_w for step in self.steps) / len(self.steps)

    @cached_property
    def over_pct(self) -> float:
        """Steps that break the goal, in per cent."""
        return 100 * sum(not step.keeps_goal for step in self.steps) / len(self.steps)

    @cached_property
    def worst(self) -> int:
        """The number of the step with the longest 99th percentile."""
        return max(range(len(self.steps)), key=lambda n: self.steps[n].p99_us)

    @property
    def awake(self) -> tuple[int, float, int]:
        """Servers awake: fewest, mean, most."""
        counts = [step.awake for step in self.steps]
        return min(counts), sum(counts) / len(counts), max(counts)

    @property
    def wakes(self) -> int:
        """Servers that are woken, counted each time, until the day begins again."""
        counts = [step.awake for step in self.steps]
        return sum(max(b - a, 0) for a, b in pairwise([*counts, counts[0]]))


@dataclass(frozen=True)
class Fleet:
    """Servers that share the load evenly, or of which some sleep.

    Attributes:
        day: requests per second.
        servers: number of them.
        capacity: requests per second that one carries.
        goal_us: longest 99th percentile; without it, limits relative to the usual policy on all
            servers.
        sleep_w: watts of a server that sleeps.
        wake_s: time from there to the first request, in seconds, in which it draws what an idle
            server draws.
    """

    day: Day
    servers: int
    capacity: float
    goal_us: float | None
    sleep_w: float = SLEEP_W
    wake_s: float = WAKE_S

    def load(self, rate: float, servers: int) -> float:
        """Load of each of so many servers, in per cent."""
        return 100 * rate / (servers * self.capacity)

    def plan(self, technique: str, curve: Curve, usual: Curve, *, sleeps: bool = False) -> Plan:
        """Plays the day. Servers sleep if fewer keep the goal, and wake up early enough for the
        steps that come: the day is known ahead, and the same day follows it."""
        limits = [self._limit(usual, rate) for rate in self.day.per_s]
        counts = [self.servers] * len(limits)
        if sleeps:
            needed = [
                self._fewest(curve, rate, limit)
                for rate, limit in zip(self.day.per_s, limits, strict=True)
            ]
            ahead = ceil(self.wake_s / self.day.step_s)
            whole = len(needed)
            # Beyond one day nothing new comes.
            spans = [range(n, n + min(ahead, whole - 1) + 1) for n in range(whole)]
            counts = [max(needed[at % whole] for at in span) for span in spans]
        steps = [
            self._step(curve, rate, count, limit)
            for rate, count, limit in zip(self.day.per_s, counts, limits, strict=True)
        ]
        return Plan(technique, sleeps, tuple(steps))

    def _limit(self, usual: Curve, rate: float) -> tuple[float, float]:
        """The longest 99th percentile and mean of a step."""
        if self.goal_us is not None:
            return self.goal_us, inf
        found = usual.at(self.load(rate, self.servers))
        if found is None:
            return 0.0, 0.0
        return found[1] * (1 + P99_PCT / 100), found[2] * (1 + SLOWER_PCT / 100)

    def _fewest(self, curve: Curve, rate: float, limit: tuple[float, float]) -> int:
        """The number of servers awake that takes least and keeps the limit; all if none does."""
        best, least = self.servers, inf
        counts = {ceil(100 * rate / (load * self.capacity)) for load in FILLED}
        for count in sorted({min(max(count, 1), self.servers) for count in counts}):
            step = self._step(curve, rate, count, limit)
            if step.keeps_goal and step.fleet_w < least:
                best, least = count, step.fleet_w
        return best

    def _step(self, curve: Curve, rate: float, count: int, limit: tuple[float, float]) -> Step:
        load = self.load(rate, count)
        found = curve.at(load)
        if found is None:
            return Step(count, load, inf, inf, False)
        watts, p99, mean = found
        fleet_w = count * watts + (self.servers - count) * self.sleep_w
        return Step(count, load, fleet_w, p99, p99 <= limit[0] and mean <= limit[1])

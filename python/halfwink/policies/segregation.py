"""Family `segregation`: whose lines a second-level cache keeps where. One policy decides for the
second level of one core, by its registers: a fill is too frequent to ask anyone. Its timer never
rings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from halfwink.policies.policy import Family, Policy

#: Value of ``Set.split`` where nothing is split: both sides compete for the whole cache.
SHARED = 0
#: Value of ``Set.split`` where one of two banks is the kernel's.
BANKS = 255


class Route(IntEnum):
    """Fills of the kernel that go to its side; all others go to the user's (Nellans 2014,
    Sec 5.2.2)."""

    #: Both instructions and data go to it.
    BOTH = 0
    #: Only data goes to it.
    DATA = 1
    #: Only instructions go to it.
    INSTRUCTIONS = 2


class LookUp(IntEnum):
    """Orders in which two banks are looked up (Nellans 2014, Sec 5.2.3)."""

    #: Both banks at once.
    PARALLEL = 0
    #: The bank of the reference's side first, then the other.
    SERIAL = 1


class Unit(IntEnum):
    """Units of the time until a sample."""

    #: Instructions that were retired.
    INSTRUCTIONS = 0
    #: Cycles of the core's clock.
    CYCLES = 1


class Start(NamedTuple):
    """Properties of a policy's cache.

    Attributes:
        ways: ways of each set.
    """

    ways: int


class Begin(NamedTuple):
    """The run begins, with a cache of so many ways."""

    ways: int


class Sample(NamedTuple):
    """The time asked for with `SampleAfter` is over: counters since the last sample.

    Attributes:
        user, kernel: retired instructions.
        user_accesses, kernel_accesses: reads of the cache.
        user_misses, kernel_misses: reads that missed.
        cycles: cycles of the core's clock.
    """

    user: int
    kernel: int
    user_accesses: int
    kernel_accesses: int
    user_misses: int
    kernel_misses: int
    cycles: int


class Utility(NamedTuple):
    """Counts of the monitors, which only a policy has that names this event; they come before their
    sample, one for each rank that has hits.

    Attributes:
        rank: rank of recency in a set: 0 is the most recent line.
        user, kernel: hits that the side would have had there in a cache of its own.
    """

    rank: int
    user: int
    kernel: int


@dataclass(slots=True)
class Set:
    """Sets the registers of the cache.

    Attributes:
        split: ways of each set that are the kernel's, from 1 to all but one; `SHARED`, or `BANKS`.
        route: fills of the kernel that go to its side (`Route`).
        look_up: order in which two banks are looked up (`LookUp`).
        user_rank, kernel_rank: rank of recency at which fills come in: 0 as the most recent.
    """

    split: int = SHARED
    route: int = Route.BOTH
    look_up: int = LookUp.PARALLEL
    user_rank: int = 0
    kernel_rank: int = 0

    #: Words of its record: route and look-up share one, and so do the ranks.
    __match_args__ = ("how", "split", "ranks")

    @property
    def how(self) -> int:
        """The route, and 256 for serial look-ups."""
        return self.route + 256 * self.look_up

    @property
    def ranks(self) -> int:
        """The user's rank, and 256 for each of the kernel's."""
        return self.user_rank + 256 * self.kernel_rank


@dataclass(slots=True)
class SampleAfter:
    """Wants a sample after so long, counted from the last one.

    Attributes:
        count: number of instructions or cycles, 1 at least.
        unit: unit of the count (`Unit`).
    """

    count: int
    unit: int = Unit.INSTRUCTIONS


Event = Begin | Sample | Utility
Action = Set | SampleAfter

FAMILY = Family(
    "segregation",
    Start,
    {"begin": Begin, "sample": Sample, "utility": Utility},
    {"set": Set, "sample-after": SampleAfter},
)


class Segregation(Policy[Start, Event, Action]):
    """A policy that decides whose lines a second-level cache keeps where."""

    family = FAMILY

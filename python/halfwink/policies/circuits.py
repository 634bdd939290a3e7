"""Family `circuits`: which circuits an optical switch sets up next, and for how long. One policy
decides for a switch; planes of it are joined alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from halfwink.policies.policy import Family, Policy

#: Length of a day that does not end.
NEVER = 2**64 - 1


class Start(NamedTuple):
    """Properties of a policy's fabric; times in picoseconds.

    Attributes:
        hosts: number of hosts, or racks.
        night: time from the end of one day to the begin of the next.
        shortest: length of the shortest day.
        bytes_per_ms: bytes that a circuit carries in a millisecond.
    """

    hosts: int
    night: int
    shortest: int
    bytes_per_ms: int


class Demand(NamedTuple):
    """Tells how many bytes wait at one host for another; it replaces what was told before."""

    sender: int
    to: int
    bytes: int


class Next(NamedTuple):
    """The switch asks for the next day of a plane, which had ``slot`` days before. The answer is
    a list of `Join`, and one `Day` at its end; it is asked of every policy."""

    plane: int
    slot: int


class Lost(NamedTuple):
    """A host answers no more: it gets no circuits."""

    host: int


class Back(NamedTuple):
    """A lost host is there again."""

    host: int


@dataclass(slots=True)
class Join:
    """One host sends to another in the next day. Each sends to one, and receives from one."""

    plane: int
    sender: int
    to: int


@dataclass(slots=True)
class Day:
    """The next day is so long, in picoseconds."""

    plane: int
    length: int


Event = Demand | Next | Lost | Back
Action = Join | Day

FAMILY = Family(
    "circuits",
    Start,
    {"demand": Demand, "next": Next, "lost": Lost, "back": Back},
    {"join": Join, "day": Day},
)


class Circuits(Policy[Start, Event, Action]):
    """A policy that decides which circuits a switch sets up next, and for how long."""

    family = FAMILY

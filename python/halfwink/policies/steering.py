"""Family `steering`: which of two machines serves a request, and which sleeps. One policy decides
for a pair. A machine is the number of its place: 0 the small one, 1 the big one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from halfwink.policies.policy import Family, Policy


class Start(NamedTuple):
    """Properties of the small and the big machine of a policy; times in picoseconds.

    Attributes:
        small_workers, big_workers: requests in service at a time.
        small_alone, big_alone: mean time of a request that is alone.
        small_busy, big_busy: mean time with all workers busy.
        small_wake, big_wake: time to wake.
        small_down, big_down: time to go down.
    """

    small_workers: int
    big_workers: int
    small_alone: int
    big_alone: int
    small_busy: int
    big_busy: int
    small_wake: int
    big_wake: int
    small_down: int
    big_down: int


class Arrive(NamedTuple):
    """A request came. The answer is one `Send`; it is asked of every policy."""


class Finish(NamedTuple):
    """A machine is done with a request that came ``latency`` ago, or gave it up."""

    machine: int
    latency: int


class Awake(NamedTuple):
    """A machine that was asked to wake serves now."""

    machine: int


class Asleep(NamedTuple):
    """A machine that was asked to sleep sleeps now."""

    machine: int


class Lost(NamedTuple):
    """A machine cannot be reached; what it had finishes, and comes anew."""

    machine: int


class Back(NamedTuple):
    """A lost machine is back, and on."""

    machine: int


@dataclass(slots=True)
class Send:
    """The request that came goes to this machine."""

    machine: int


@dataclass(slots=True)
class Wake:
    """A machine wakes up, which takes a while."""

    machine: int


@dataclass(slots=True)
class Sleep:
    """A machine sleeps; what it has in service stands still until it is awake again. One that
    sleeps goes a level deeper, if it has one."""

    machine: int


Event = Arrive | Finish | Awake | Asleep | Lost | Back
Action = Send | Wake | Sleep

FAMILY = Family(
    "steering",
    Start,
    {
        "arrive": Arrive,
        "finish": Finish,
        "awake": Awake,
        "asleep": Asleep,
        "lost": Lost,
        "back": Back,
    },
    {"send": Send, "wake": Wake, "sleep": Sleep},
)


class Steering(Policy[Start, Event, Action]):
    """A policy that decides which of two machines serves a request, and which sleeps."""

    family = FAMILY

"""Family `scaling`: how many cores of a router forward, and how they wait. One policy decides for
all cores of a router."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from halfwink.policies.policy import Family, Policy


class Kind(IntEnum):
    """Ways in which a core rests. One that ends in C1, C3 or C6 sleeps in that state."""

    #: It asks its queue again and again.
    SPIN = 0
    #: It asks ``number`` times more, then sends `Empty`.
    AGAIN = 1
    #: It is awake for ``number`` picoseconds and does not look at its queue.
    PAUSE = 2
    #: It halts until its queue interrupts it.
    HALT_C1 = 3
    HALT_C3 = 4
    HALT_C6 = 5
    #: It halts likewise, for ``number`` picoseconds at most.
    HALT_FOR_C1 = 6
    HALT_FOR_C3 = 7
    HALT_FOR_C6 = 8
    #: It halts in C1 at first, and in the state after a while.
    NAP_C1 = 9
    NAP_C3 = 10
    NAP_C6 = 11
    #: It sleeps for ``number`` picoseconds and does not look at its queue.
    SLEEP_C1 = 12
    SLEEP_C3 = 13
    SLEEP_C6 = 14


class Start(NamedTuple):
    """Properties of a policy's router; times in picoseconds.

    Attributes:
        cores: number of cores.
        steps: number of P-states.
        batch: most packets of a poll.
        ring: packets of a receive queue.
        empty_poll: time of a poll that finds nothing.
        interrupt: time from an interrupt until its core polls.
        leave_c1, leave_c3, leave_c6: times to leave the states.
        pay_c1, pay_c3, pay_c6: times in the states that pay for entering them.
    """

    cores: int
    steps: int
    batch: int
    ring: int
    empty_poll: int
    interrupt: int
    leave_c1: int
    leave_c3: int
    leave_c6: int
    pay_c1: int
    pay_c3: int
    pay_c6: int


class Poll(NamedTuple):
    """A core took ``taken`` packets of the ``waiting`` ones in its queue, or none."""

    core: int
    taken: int
    waiting: int


class Empty(NamedTuple):
    """A core found nothing. The answer is one `Rest` of it; it is asked of every policy."""

    core: int


@dataclass(slots=True)
class Wake:
    """A core takes part."""

    core: int


@dataclass(slots=True)
class Park:
    """A core drains its queue, then sleeps as deep as it can."""

    core: int


@dataclass(slots=True)
class SetStep:
    """All cores run at this P-state, 0 the slowest."""

    step: int


@dataclass(slots=True)
class Wish:
    """A core wishes for a P-state. Where cores share a rail, the fastest wish counts."""

    core: int
    step: int


@dataclass(slots=True)
class Move:
    """One of the 128 entries of the redirect table names the queue of another core. ``in_order``:
    its packets wait for the queue that they left."""

    entry: int
    to: int
    in_order: bool


@dataclass(slots=True)
class Rest:
    """A core rests in this way, for ``number`` polls or picoseconds."""

    core: int
    kind: int
    number: int = 0


Event = Poll | Empty
Action = Wake | Park | SetStep | Wish | Move | Rest

FAMILY = Family(
    "scaling",
    Start,
    {"poll": Poll, "empty": Empty},
    {
        "wake": Wake,
        "park": Park,
        "set-step": SetStep,
        "wish": Wish,
        "move": Move,
        "rest": Rest,
    },
)


class Scaling(Policy[Start, Event, Action]):
    """A policy that decides how many cores of a router forward, how fast, and how they wait."""

    family = FAMILY

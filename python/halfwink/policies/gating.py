"""Family `gating`: when a core sleeps. One policy decides for one core."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from halfwink.policies.policy import Family, Policy


class Bound(IntEnum):
    """Promises that a token makes of the response."""

    #: It missed in a cache: no response before ``span`` from when the token was made.
    NOT_BEFORE = 0
    #: It missed in the last cache; memory will tell more.
    UNKNOWN = 1
    #: Memory knows when its bank is done: after ``span`` from when the token was made, or later.
    ETA = 2


class Depth(IntEnum):
    """Kinds of idle states."""

    #: The core spins.
    POLL = 0
    #: The clock stands still; the core leaves the state by itself.
    CLOCK_STOPPED = 1
    #: The core loses its clock and more; it leaves the state by `Wake`.
    DEEP = 2


class Start(NamedTuple):
    """Properties of a policy's core; times in picoseconds.

    Attributes:
        entry: time from the decision until the supply is off.
        break_even: time off that pays for waking.
        wake_up: time until the supply is stable again.
        restore: time from there until the pipeline is refilled.
        slot_period, slot_offset: period and first time of the slots in which waking may begin;
            a period of 0 is at any time.
        loads: loads that may wait for memory at once.
        cache: time to miss the last cache.
        memory: time of memory from there.
        tick: time between ticks of the kernel.
        timer: time until the next timer that a governor sees on an idle core.
    """

    entry: int
    break_even: int
    wake_up: int
    restore: int
    slot_period: int
    slot_offset: int
    loads: int
    cache: int
    memory: int
    tick: int
    timer: int


class StallBegin(NamedTuple):
    """The pipeline cannot move before memory answers."""


class StallEnd(NamedTuple):
    """The pipeline moves again, after a stall that began at ``began``."""

    began: int


class Token(NamedTuple):
    """A cache or the memory says how far an access to ``line`` is; see `Bound`."""

    line: int
    created: int
    bound: int
    span: int


class Response(NamedTuple):
    """An access to ``line`` was answered."""

    line: int


class IdleBegin(NamedTuple):
    """The operating system halted the core."""


class IdleEnd(NamedTuple):
    """An interrupt ends the halt that began at ``began``."""

    began: int


class Awake(NamedTuple):
    """The core is restored, and runs or waits with its clock on."""


class Granted(NamedTuple):
    """A faster wake-up is granted, once: it takes ``wake_up``."""

    wake_up: int


class IdleState(NamedTuple):
    """An idle state that the machine may use, in the order of its table: told before all other
    events, at time zero, to a policy whose ``events`` have it.

    Attributes:
        state: place in the table, for `Rest`.
        exit: time to leave it that governors are told.
        residency: shortest stay worth the state that governors are told.
        depth: see `Depth`.
    """

    state: int
    exit: int
    residency: int
    depth: int


@dataclass(slots=True)
class Gate:
    """Cuts the supply of the core, which is stalled or halted."""


@dataclass(slots=True)
class Rest:
    """Enters an idle state of the machine, by its place in the table. The core is halted."""

    state: int


@dataclass(slots=True)
class Wake:
    """Wakes the core, which is gated."""


@dataclass(slots=True)
class Hindsight:
    """Accounts as if the core had been gated at ``gate`` and woken at ``wake``: for bounds that
    know the future."""

    gate: int
    wake: int


Event = StallBegin | StallEnd | Token | Response | IdleBegin | IdleEnd | Awake | Granted | IdleState
Action = Gate | Rest | Wake | Hindsight

FAMILY = Family(
    "gating",
    Start,
    {
        "stall-begin": StallBegin,
        "stall-end": StallEnd,
        "token": Token,
        "response": Response,
        "idle-begin": IdleBegin,
        "idle-end": IdleEnd,
        "awake": Awake,
        "granted": Granted,
        "idle-state": IdleState,
    },
    {"gate": Gate, "rest": Rest, "wake": Wake, "hindsight": Hindsight},
)


class Gating(Policy[Start, Event, Action]):
    """A policy that decides when a core sleeps, in memory stalls or in halts."""

    family = FAMILY

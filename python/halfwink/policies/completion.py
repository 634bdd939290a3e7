"""Family `completion`: which CPU completes a block I/O. One policy decides for a device. Its timer
rings only if `Poll` is among its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from halfwink.policies.policy import Family, Policy
from halfwink.policies.scaling import Kind as Kind


class Start(NamedTuple):
    """Properties of a policy's machine.

    Attributes:
        cpus: number of CPUs.
        hears: CPU that takes the device's interrupts.
        per_socket: CPUs of a socket, which have numbers in a row.
        per_cache: CPUs of a last-level cache, which have numbers in a row.
    """

    cpus: int
    hears: int
    per_socket: int
    per_cache: int


class Done(NamedTuple):
    """The device is done with an I/O. The answer is one `Here` or `Give` of it; it is asked of
    every policy.

    Attributes:
        io: tag of the I/O; no other one in flight has it.
        issuer: CPU that issued it.
        heard: CPU that hears of it.
        waiting: I/Os of which that CPU hears next.
        took: time since it was issued, in picoseconds.
    """

    io: int
    issuer: int
    heard: int
    waiting: int
    took: int


class Used(NamedTuple):
    """A CPU was busy for ``busy`` of ``of`` units of time since this was last told, each 10 ms."""

    cpu: int
    busy: int
    of: int


class Poll(NamedTuple):
    """A CPU takes ``taken`` of the ``waiting`` I/Os that were given to it. It is told only to
    policies that have it among their events."""

    cpu: int
    taken: int
    waiting: int


class Empty(NamedTuple):
    """A CPU found nothing. The answer is one `Rest` of it; it is asked of every policy."""

    cpu: int


@dataclass(slots=True)
class Here:
    """The CPU that hears of an I/O completes it."""

    io: int


@dataclass(slots=True)
class Give:
    """Another CPU completes an I/O, by an interrupt from the one that hears."""

    io: int
    cpu: int


@dataclass(slots=True)
class Rest:
    """A CPU rests in this way (`Kind`), for ``number`` polls or picoseconds."""

    cpu: int
    kind: int
    number: int = 0


Event = Done | Used | Poll | Empty
Action = Here | Give | Rest

FAMILY = Family(
    "completion",
    Start,
    {"done": Done, "used": Used, "poll": Poll, "empty": Empty},
    {"here": Here, "give": Give, "rest": Rest},
)


class Completion(Policy[Start, Event, Action]):
    """A policy that decides which CPU completes a block I/O."""

    family = FAMILY

"""Family `offload`: which kernel entries of a core move to a core that is set aside for them. One
policy decides for one core. Its timer never rings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from halfwink.policies.policy import Family, Policy


class Cause(IntEnum):
    """Causes of a kernel entry."""

    #: ``number`` is that of the call.
    SYSTEM_CALL = 0
    #: ``number`` is the vector.
    INTERRUPT = 1
    #: ``number`` is the vector.
    EXCEPTION = 2


#: Value of ``Enter.bytes`` if it is not known.
UNKNOWN = 2**64 - 1


class Start(NamedTuple):
    """Properties of a policy's machine.

    Attributes:
        move_cycles: clock cycles of a move to another core.
    """

    move_cycles: int


class Enter(NamedTuple):
    """The core enters the kernel. The answer is one place; it is asked of every policy.

    Attributes:
        cause: see `Cause`.
        number: number of the system call or the vector.
        a0, a1, a2, a3, a4, a5: arguments of a system call, in the order of the kernel.
        bytes: bytes that the call asks for, if they stand in memory and are known, else
            `UNKNOWN`.
        astate: registers as a predictor hashes them (Nellans 2014, Sec 4.6.2).
    """

    cause: int
    number: int
    a0: int
    a1: int
    a2: int
    a3: int
    a4: int
    a5: int
    bytes: int
    astate: int


class Exit(NamedTuple):
    """The core is back in user mode, after so many kernel instructions."""

    instructions: int


class Sample(NamedTuple):
    """Counters since the last sample.

    Attributes:
        user, kernel: instructions.
        accesses, hits: counts of the user core's second-level cache.
        os_accesses, os_hits: counts of the OS core's.
        fp: floating-point operations of user code.
        mispredicted: branches of it that were mispredicted.
        l1d_misses: misses of its first-level data cache.
    """

    user: int
    kernel: int
    accesses: int
    hits: int
    os_accesses: int
    os_hits: int
    fp: int
    mispredicted: int
    l1d_misses: int


@dataclass(slots=True)
class Here:
    """The kernel code runs on the core that entered, which decided in so many of its cycles."""

    decision_cycles: int = 0


@dataclass(slots=True)
class OsCore:
    """The kernel code runs on the OS core; user code stays there, in answer to other events."""

    decision_cycles: int = 0


@dataclass(slots=True)
class Beside:
    """An interrupt runs on the OS core, while its thread goes on where it is."""

    decision_cycles: int = 0


Event = Enter | Exit | Sample
Action = Here | OsCore | Beside

FAMILY = Family(
    "offload",
    Start,
    {"enter": Enter, "exit": Exit, "sample": Sample},
    {"here": Here, "os-core": OsCore, "beside": Beside},
)


class Offload(Policy[Start, Event, Action]):
    """A policy that decides which kernel entries of a core move to an OS core."""

    family = FAMILY

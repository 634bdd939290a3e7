"""Family `preheat`: what is loaded into cold caches before a request comes. One policy decides for
a machine. A service is the port of its server; sets of lines stay in the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from halfwink.policies.policy import Family, Policy

#: Value of ``Load.until`` where nothing cuts the load.
NEVER = 2**64 - 1


class Order(IntEnum):
    """Orders in which a set is loaded."""

    #: Order of addresses.
    ADDRESS = 0
    #: Order of first use by requests.
    FIRST_USE = 1
    #: Order of tags by cache set.
    TAGS = 2


class Recorded(IntEnum):
    """Contents of a recording."""

    #: Lines of code that missed.
    CODE_MISSES = 0
    #: All lines that missed.
    MISSES = 1
    #: Pages that were touched.
    PAGES = 2


class Start(NamedTuple):
    """The start, which has no properties of the machine."""


class Announced(NamedTuple):
    """A request will come; its first packet is due at ``due``, in picoseconds."""

    service: int
    due: int


class Arrived(NamedTuple):
    """The first packet of a request came. Its server has not run yet."""

    port: int


class Idle(NamedTuple):
    """The processor has nothing to do: all requests are answered."""


class Lost(NamedTuple):
    """Caches lost what they held, in a deep sleep or a flush."""


class Dumped(NamedTuple):
    """The answer to `Dump`: the dump ``set`` with so many lines. The machine keeps it until it is
    intersected, united or discarded."""

    service: int
    set: int
    lines: int


class Built(NamedTuple):
    """The answer to `Subtract` and `Build`: a set of so many lines, which can be loaded."""

    service: int
    lines: int


class Loaded(NamedTuple):
    """A load is over: done, stopped, or cut at its time. Likewise of a sham request."""

    service: int


class Closed(NamedTuple):
    """A listening socket is gone: its server stopped, or restarts."""

    port: int


class Missed(NamedTuple):
    """An access missed the last level of cache. The answer may be a `Fetch`, nothing else.

    Attributes:
        line: line that missed.
        site: address of the instruction.
        is_code: 1 if it is an instruction fetch.
    """

    line: int
    site: int
    is_code: int


class Received(NamedTuple):
    """The network card has a packet for memory. The answer may be a `Place`, nothing else.

    Attributes:
        first: first line of the packet in memory.
        lines: number of lines.
    """

    first: int
    lines: int


@dataclass(slots=True)
class Wake:
    """The machine wakes, if it sleeps."""


@dataclass(slots=True)
class Estimate:
    """Opens a window of estimation, with flushed caches and no prefetchers. There is one at a
    time."""

    service: int


@dataclass(slots=True)
class Dump:
    """Ends the window: reads all tags. It is answered by `Dumped`."""

    service: int


@dataclass(slots=True)
class Abandon:
    """Ends the window without a dump."""

    service: int


@dataclass(slots=True)
class Intersect:
    """The estimate of the service keeps what is in this dump, too; all of it if it is the first."""

    service: int
    set: int


@dataclass(slots=True)
class Unite:
    """The estimate of the service gets what is in this dump."""

    service: int
    set: int


@dataclass(slots=True)
class Discard:
    """The dump is of no use."""

    set: int


@dataclass(slots=True)
class Subtract:
    """Takes what is cached now off the estimate, and builds the set. It is answered by `Built`."""

    service: int


@dataclass(slots=True)
class Build:
    """Builds the set of the estimate, or of the recording. It is answered by `Built`."""

    service: int


@dataclass(slots=True, match_args=False)
class Load:
    """Loads the set of a service. It is answered by `Loaded`.

    Attributes:
        service: service of the set.
        until: time at which the load is cut, in picoseconds.
        cores: number of cores that load, up to 255; 0 where hardware does.
        order: order of the lines (`Order`).
    """

    service: int
    until: int = NEVER
    cores: int = 1
    order: int = Order.ADDRESS

    #: Words of its record: cores and order share one.
    __match_args__ = ("service", "until", "how")

    @property
    def how(self) -> int:
        """The cores, and 256 for each place of the order."""
        return self.cores + 256 * self.order


@dataclass(slots=True)
class Stop:
    """Stops a load. It is answered by `Loaded`."""

    service: int


@dataclass(slots=True)
class Hold:
    """The server of a request that arrived does not run before its load is over."""

    service: int


@dataclass(slots=True)
class Forget:
    """Drops the set and the estimate of a service, with what is being loaded or recorded."""

    service: int


@dataclass(slots=True)
class Sham:
    """Plays a request of no effect to the server on this port. It is answered by `Loaded`."""

    service: int


@dataclass(slots=True)
class Record:
    """Records what the service uses from now on (`Recorded`), until `Build`."""

    service: int
    what: int


@dataclass(slots=True)
class Fetch:
    """Loads lines that may be wanted soon."""

    first: int
    lines: int


@dataclass(slots=True)
class Place:
    """The network card writes these lines of its packet into the last level of cache."""

    first: int
    lines: int


Event = Announced | Arrived | Idle | Lost | Dumped | Built | Loaded | Closed | Missed | Received
Action = (
    Wake
    | Estimate
    | Dump
    | Abandon
    | Intersect
    | Unite
    | Discard
    | Subtract
    | Build
    | Load
    | Stop
    | Hold
    | Forget
    | Sham
    | Record
    | Fetch
    | Place
)


def _named(*classes: type) -> dict[str, type]:
    """Returns classes by their names in event logs."""
    return {of.__name__.lower(): of for of in classes}


FAMILY = Family(
    "preheat",
    Start,
    _named(Announced, Arrived, Idle, Lost, Dumped, Built, Loaded, Closed, Missed, Received),
    _named(
        *(Wake, Estimate, Dump, Abandon, Intersect, Unite, Discard, Subtract, Build, Load),
        *(Stop, Hold, Forget, Sham, Record, Fetch, Place),
    ),
)


class Preheat(Policy[Start, Event, Action]):
    """A policy that decides what is loaded into cold caches before a request comes."""

    family = FAMILY

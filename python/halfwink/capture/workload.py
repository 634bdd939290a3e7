"""Properties of workloads that can be captured by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .guest import SERVERS

Kind = Literal["closed", "open", "program"]


@dataclass(frozen=True)
class Workload:
    """A workload that can be captured."""

    name: str
    description: str
    kind: Kind
    """`closed` and `open`: a server, and how its requests arrive; `program`: runs by itself."""
    script: str
    """Which file of `capture/guest/workloads` starts it."""
    command: tuple[str, ...] = ()
    """The recorded program's own command line, for the trace's header."""
    guest: str = SERVERS
    """Which guest has it."""
    layers: tuple[str, ...] = ()
    """Parts of the guest it needs beside the base."""
    protocol: str = ""
    """What the load generator speaks."""
    connections: int = 0
    rate_per_s: int | None = None
    warmup: int = 0
    """Requests, or runs of the program, before recording starts."""
    items: int | None = None
    """Keys, or files of each size, if not the load generator's own number."""
    record_after_s: float | None = None
    """Virtual seconds (10^9 instructions each) that the program runs before recording starts."""
    source: str = ""
    """C file of `workloads/programs` that the guest compiles; a program marks its own start."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else its script reads."""
    issuers: tuple[int, ...] = ()
    """CPUs on which it has work, of two; the last is recorded. Of a program that is in one place
    there are none."""
    instructions: int = 100_000_000
    """Recorded unless told otherwise."""

    @property
    def is_server(self) -> bool:
        """Tells whether it answers requests."""
        return self.kind != "program"

    @property
    def marks_start(self) -> bool:
        """Tells whether the program itself executes the start marker, in its main phase."""
        return self.source != "" and not self.is_server

    @property
    def unit_of_work(self) -> str:
        """Unit by which energy and time are divided."""
        return "request" if self.is_server else "instruction"

    @property
    def cpus(self) -> int:
        """CPUs of the recorded machine: a server's clients have one of their own."""
        return 2 if self.is_server or self.issuers else 1

    @property
    def recorded(self) -> int:
        """The CPU that is recorded."""
        return self.issuers[-1] if self.issuers else self.cpus - 1

"""Whether the machine has other work than these tests, and who may run beside whom.

A test that measures time or CPU time says nothing about the program while something else has the
CPUs. `conftest.quiet` waits until they are free, and skips the test if they do not become free, or
if the test fails while they were not.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: Share of one CPU that others may have beside a measurement.
OTHERS = 0.05
#: Share of time in which a runnable thread may wait for a CPU while this test sleeps.
PRESSURE = 0.05
#: Share of one CPU that the host may give to other guests, or a quota may hold back.
STOLEN = 0.02
#: Longest wait for a quiet machine: the first time, and after the first one was in vain.
PATIENCE_S, IMPATIENCE_S = 60.0, 5.0
#: One look at the machine. The kernel counts CPU time in hundredths of a second.
LOOK_S = 1.0


@dataclass(frozen=True)
class Usage:
    """CPU time since the machine or the process began, in seconds.

    Attributes:
        at: the monotonic clock.
        busy: of all processes.
        own: of this process, what it started and the kernel's threads.
        stolen: that the host gave to other guests.
        waited: in which a runnable thread had no CPU.
        throttled: in which a quota held this process's group back.
    """

    at: float
    busy: float
    own: float
    stolen: float
    waited: float
    throttled: float

    def since(self, before: Usage, *, asleep: bool) -> str | None:
        """Names what disturbed a measurement between two looks, if anything did.

        Args:
            before: the earlier look.
            asleep: nothing of this test ran in between, so that pressure is others' doing.
        """
        took = max(self.at - before.at, 1e-9)
        others = self.busy - before.busy - (self.own - before.own)
        shares = (
            ("other processes had", others, OTHERS),
            ("the host gave other guests", self.stolen - before.stolen, STOLEN),
            ("a CPU quota held back", self.throttled - before.throttled, STOLEN),
        )
        for what, seconds, limit in shares:
            # Below a few of the kernel's ticks it is rounding.
            if seconds > max(limit * took, 0.05):
                return f"{what} {100 * seconds / took:.0f} % of a CPU"
        waited = (self.waited - before.waited) / took
        if asleep and waited > PRESSURE:
            return f"threads waited for a CPU {100 * waited:.0f} % of the time"
        return None


def look() -> Usage:
    """Reads the counters of now."""
    tick = float(os.sysconf("SC_CLK_TCK"))
    fields = [float(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system = fields[:3]
    stolen = fields[7] if len(fields) > 7 else 0.0
    return Usage(
        at=time.monotonic(),
        busy=(user + nice + system) / tick,
        own=tree_ticks(processes(), os.getpid()) / tick,
        stolen=stolen / tick,
        waited=pressure_s(_read("/proc/pressure/cpu")),
        throttled=throttled_s(_read(f"/sys/fs/cgroup{_group()}/cpu.stat")),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _group() -> str:
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            return line[3:].rstrip("/")
    return ""


def pressure_s(text: str) -> float:
    """The total of the line `some` of a file of `/proc/pressure`; 0 without one."""
    for line in text.splitlines():
        if line.startswith("some "):
            return float(line.rpartition("total=")[2]) / 1e6
    return 0.0


def throttled_s(text: str) -> float:
    """Time that a group was held back by its quota, from its `cpu.stat`; 0 without one."""
    for line in text.splitlines():
        if line.startswith("throttled_usec "):
            return float(line.split()[1]) / 1e6
    return 0.0


@dataclass(frozen=True)
class Known:
    """A process: its parent, and the ticks of it and of its children that ended."""

    parent: int
    ticks: int


def processes() -> dict[int, Known]:
    """All processes that can be seen."""
    found: dict[int, Known] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # The name may hold blanks and brackets.
            words = _read(f"{entry}/stat").rpartition(")")[2].split()
            if len(words) > 14:
                found[int(entry.name)] = Known(int(words[1]), sum(map(int, words[11:15])))
    return found


def tree_ticks(known: dict[int, Known], root: int) -> int:
    """Ticks of a process and all below it, and of the kernel's threads, which work for all."""

    def is_own(pid: int) -> bool:
        seen: set[int] = set()
        while pid not in seen:
            if pid in (root, 2):
                return True
            seen.add(pid)
            if pid not in known:
                return False
            pid = known[pid].parent
        return False

    return sum(one.ticks for pid, one in known.items() if is_own(pid))


@dataclass
class Waiting:
    """Waits for a quiet machine; less patient after a wait in vain.

    Attributes:
        look: reads the counters.
        sleep: passes time.
        patience_s: longest wait.
    """

    look: Callable[[], Usage] = look
    sleep: Callable[[float], None] = time.sleep
    patience_s: float = field(default=PATIENCE_S)

    def disturbed(self) -> str | None:
        """What goes on disturbing the machine, after a bounded wait; none if it is quiet."""
        before = self.look()
        end = before.at + self.patience_s
        while True:
            self.sleep(LOOK_S)
            now = self.look()
            found = now.since(before, asleep=True)
            if found is None:
                self.patience_s = PATIENCE_S
                return None
            if now.at >= end:
                self.patience_s = IMPATIENCE_S
                return found
            before = now


class Room:
    """Lets the tests of one run's workers run side by side, and one of them alone on demand.

    Each test of a worker holds the room together with others. One that measures waits until it has
    the room alone; at the gate it stops those that would begin meanwhile.
    """

    def __init__(self, name: str) -> None:
        """Opens the locks of a run; without a name (no workers) there are none."""
        self._room = self._gate = -1
        self._files: list[Path] = []
        if name:
            base = Path(tempfile.gettempdir()) / f"halfwink-tests-{name}"
            self._files = [base.with_suffix(f".{what}") for what in ("room", "gate")]
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._room, self._gate = (os.open(file, flags, 0o600) for file in self._files)

    def enter(self, *, alone: bool = False) -> None:
        """Takes a place in the room, beside others or alone. A place that is held is given up."""
        if self._room < 0:
            return
        # Whoever waits at the gate must not hold the room that another waits for behind it.
        fcntl.flock(self._room, fcntl.LOCK_UN)
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._gate, fcntl.LOCK_UN)

    def leave(self) -> None:
        """Gives the place up."""
        if self._room >= 0:
            fcntl.flock(self._room, fcntl.LOCK_UN)

    def close(self) -> None:
        """Removes the files. Other workers have them open, and go on."""
        for file in self._files:
            file.unlink(missing_ok=True)

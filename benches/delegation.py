"""What delegation costs: hand-off, decision, and a program whose calls all stay."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from halfwink.errors import HalfwinkError
from halfwink.live import delegate as live

PROGRAM = Path(__file__).parent / "programs" / "calls.c"
#: Pairs of runs, with and without the library, one after the other.
PAIRS = 15
CALLS = 200_000


@dataclass(frozen=True)
class Cost:
    """A cost next to what bounds it; both in the same unit."""

    what: str
    measured: float
    unit: str
    against: str
    reference: float


def hand_off() -> list[Cost]:
    """The mailbox next to a cache line's own round trip, and a decision next to its goal."""
    found = live.measure(only=["cache-line", "mailbox", "decision", "learning"])
    p50 = {row["name"]: row.get("p50_ns") for row in found["rows"]}
    costs: list[Cost] = []
    if p50["mailbox"] is None:
        print("delegation: needs two CPUs", file=sys.stderr)
    else:
        lines = 1.5 * p50["cache-line"]
        costs.append(Cost("hand-off", p50["mailbox"], "ns", "1.5 lines, this run", lines))
    costs.append(Cost("decision", p50["decision"] or 0.0, "ns", "goal", 20))
    costs.append(Cost("decision and learning", p50["learning"] or 0.0, "ns", "goal", 20))
    return costs


def staying() -> list[Cost]:
    """Programs that do little but system calls, all decided to stay, next to themselves alone."""
    try:
        live.preload_library()
    except HalfwinkError as error:
        print(error, file=sys.stderr)
        return []
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(dir=_memory()) as name:
        folder = Path(name)
        program, data = folder / "calls", folder / "data"
        data.write_bytes(bytes(64))
        subprocess.run(["gcc", "-O2", str(PROGRAM), "-o", str(program)], check=True)
        loop = [str(program), str(data), str(CALLS)]
        dd = ["dd", f"if={data}", f"of={folder / 'out'}", "bs=1", "status=none"]
        data_dd = folder / "many"
        data_dd.write_bytes(bytes(CALLS))
        dd[1] = f"if={data_dd}"
        for what, words in (("pread of 1 byte", loop), ("dd bs=1", dd)):
            for policy in ("os-profile", "os-dynamic:threshold=1000000000"):
                costs.append(_pairs(f"{what}, {policy}", words, policy))
    return costs


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _pairs(what: str, words: list[str], policy: str) -> Cost:
    """CPU time of a program with the library over that without.

    The least of each: what other work on the machine adds is larger than what is looked for.
    """
    least = [float("inf"), float("inf")]
    allowed = os.sched_getaffinity(0)
    silent = ["sh", "-c", 'exec "$@" > /dev/null', "sh", *words]
    # The same CPU for the program in both runs; the other one is for calls that move, and none do.
    os.sched_setaffinity(0, {min(allowed), max(allowed)})
    try:
        for number in range(PAIRS):
            both = [partial(_with, silent, policy), partial(_without, silent)]
            # Each goes first in every other pair.
            order = (0, 1) if number % 2 else (1, 0)
            times = {which: _cpu_s(both[which]) for which in order}
            least = [min(least[which], times[which]) for which in (0, 1)]
    finally:
        os.sched_setaffinity(0, allowed)
    return Cost(what, least[0] / least[1], "of its own CPU time", "limit", 1.03)


def _with(words: list[str], policy: str) -> None:
    done = live.delegate(words, policy=policy)
    assert done.status == 0
    assert not any(call["delegated"] for call in done.report["calls"])


def _without(words: list[str]) -> None:
    cpus = os.sched_getaffinity(0)
    subprocess.run(words, check=True, preexec_fn=lambda: os.sched_setaffinity(0, {min(cpus)}))


def _cpu_s(run: Callable[[], None]) -> float:
    """User and system time of the program that a function runs, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

"""Processor time of a trial, in two ways.

``attributed``: the run time of the processes and kernel threads that can have had to do with it:
generator and sink (without the time that the generator waited awake, which the router did not
cause), the router's processes, ksoftirqd, NAPI threads of the router's ports, and cpumap threads.
Exact to the nanosecond where the kernel says so. What the kernel does for a frame, it does in one
of these: on a veth pair, in whoever sends. Work of others on the machine does not count, unless the
kernel forwards in the middle of it, during an interrupt.

``machine``: busy time of all CPUs from /proc/stat, without the generator's waiting. Complete, in
steps of a clock tick (10 ms), and it counts whatever else the machine does: for quiet machines.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink.bed.places import Process
from halfwink.bed.routers import kernel_threads

#: Threads of the kernel that forward: softirqs, NAPI of the router's ports, rings of CPUs of XDP.
THREADS = ("ksoftirqd/", "napi/rt", "cpumap/")


@dataclass(frozen=True)
class Reading:
    """Clocks at one moment, in seconds."""

    wall_s: float
    router_s: float
    kernel_s: float
    machine_s: float


@dataclass(frozen=True)
class Cost:
    """Processor seconds of a trial."""

    wall_s: float
    router_s: float
    kernel_threads_s: float
    generator_s: float
    sink_s: float
    attributed_s: float
    machine_s: float


def read(processes: Sequence[Process]) -> Reading:
    """Reads the clocks of a router's processes, and the machine's."""
    threads = [pid for name in THREADS for pid in kernel_threads(name)]
    return Reading(
        wall_s=time.monotonic(),
        router_s=sum(_process_s(process.pid) for process in processes),
        kernel_s=sum(_thread_s(pid) for pid in threads),
        machine_s=_machine_s(),
    )


def between(before: Reading, after: Reading, found: dict[str, Any] | None) -> Cost:
    """Returns the cost between two readings; ``found`` is the trial's result, if any."""
    sent = found["generator"] if found else {"cpu_s": 0.0, "spin_s": 0.0}
    generator = sent["cpu_s"] - sent["spin_s"]
    sink = found["sink"]["cpu_s"] if found else 0.0
    router = after.router_s - before.router_s
    kernel = after.kernel_s - before.kernel_s
    return Cost(
        wall_s=after.wall_s - before.wall_s,
        router_s=router,
        kernel_threads_s=kernel,
        generator_s=generator,
        sink_s=sink,
        attributed_s=router + kernel + generator + sink,
        machine_s=after.machine_s - before.machine_s - sent["spin_s"],
    )


def _process_s(pid: int) -> float:
    # The clock of another process, as clock_getcpuclockid(3) makes it: CPUCLOCK_SCHED is 2.
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _thread_s(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _machine_s() -> float:
    """Busy time of all CPUs: user, nice, system, interrupts; not what the host took away."""
    fields = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:8]]
    user, nice, system, _idle, _iowait, irq, softirq = fields
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")

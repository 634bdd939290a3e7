"""Advice on CPUs for completions and queue threads of a block device on this host: from its
topology, measured times between its CPUs, and a load.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text
from halfwink.live import native

#: assumption: a queue's CPU is used for so much of its time at most, so that bursts find room.
FULL = 0.7
#: assumption: CPU time of one I/O in a server of memory, until a report of `halfwink live block`
#: says (`--report`): what docs/techniques/live-block.md measured at depth 32.
IO_US = 2.7


@dataclass(frozen=True)
class Load:
    """Load of a device.

    Attributes:
        iops: I/Os each second, where they come fastest.
        io_us: CPU time that one takes, in microseconds.
        mean_iops: I/Os each second in the mean, if that is less.
    """

    iops: float = 100_000.0
    io_us: float = IO_US
    mean_iops: float | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        if not 1 <= self.iops <= 1e9:
            raise HalfwinkError(f"--iops {self.iops:g}: expected 1 to 1000000000")
        if not 0.01 <= self.io_us <= 1e6:
            raise HalfwinkError(f"--io-us {self.io_us:g}: expected 0.01 to 1000000")


@dataclass(frozen=True)
class Advice:
    """Advised setting of a device.

    Attributes:
        queues: number of queues.
        cpus: one for each.
        poll: tells whether a queue's thread should poll rather than sleep.
        poll_below_us: time to the next I/O below which polling is better.
        gap_us: between two I/Os of a queue, in the mean.
        rq_affinity: setting of the kernel's block queue: 1 completes in the issuer's cache, 2 on
            its CPU.
        why: reasons, one each.
        lines: advice in words, a line each.
        expected: IOPS, CPUs and microjoules per I/O, modelled: see
            :func:`halfwink.live.block_loads.simulate`.
    """

    queues: int
    cpus: list[int]
    poll: bool
    poll_below_us: float | None
    gap_us: float
    rq_affinity: int
    why: list[str]
    lines: list[tuple[str, str]]
    expected: dict[str, float]


def measure(cpus: str | None = None) -> dict[str, Any]:
    """Topology of this machine, a cache line's round trips, and what sleep and wake-up cost.

    Returns:
        ``machine`` (``cpus``: number, package, cache), ``trips`` (``from``, ``to``, ``line_ns``),
        ``wake`` (``call_us``, ``until_us``, ``sleeper_us``; none on a machine of one CPU).

    Raises:
        HalfwinkError: a CPU that is none.
        RunError: the machine could not be measured.
    """
    return native.block_costs(cpus)


def load_of(path: Path) -> Load:
    """The load that a device had, by its report (``halfwink live block -o``).

    Raises:
        HalfwinkError: the file is not a report, or holds no I/Os.
    """
    try:
        report = json.loads(read_text(path))
        done = sum(worker["here"] + worker["given"] for worker in report["workers"])
        busy = sum(worker["working_s"] for worker in report["workers"])
        return Load(iops=done / report["duration_s"], io_us=1e6 * busy / done)
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise HalfwinkError(
            f"--report {path}: expected what halfwink live block -o writes, of a run with I/Os"
        ) from error


#: What plays a load on a measured machine: IOPS, CPU and joules per I/O by name.
Simulate = Callable[[Mapping[str, Any], Load], dict[str, float]]


def known(expected: dict[str, float]) -> Simulate:
    """Returns a simulation that gives a known result for any load."""

    def simulate(_measured: Mapping[str, Any], _load: Load) -> dict[str, float]:
        return expected

    return simulate


def advise(measured: Mapping[str, Any], load: Load, simulate: Simulate) -> Advice:
    """Derives the advice from a measurement.

    Args:
        measured: see :func:`measure`.
        load: load of the device.
        simulate: simulation of a load: :func:`halfwink.live.block_loads.simulate`.
    """
    groups = _groups(measured)
    needed = max(1, math.ceil(load.iops * load.io_us * 1e-6 / FULL))
    many = f"{needed} CPU" if needed == 1 else f"{needed} CPUs"
    why = [f"{load.iops:,.0f} I/Os of {load.io_us:g} us need {many} at {100 * FULL:.0f} %"]
    cpus = _fill(groups, needed)
    if len(cpus) < needed:
        why.append(f"there are {len(cpus)}: expect less")
    used = [group for group in groups if set(group) & set(cpus)]
    if len(groups) == 1:
        why.append("all CPUs share one last-level cache: which of them completes costs the same")
    else:
        why.append(f"queues lie in {len(used)} of {len(groups)} last-level caches")
    inside, across = _trips(measured)
    if inside is not None and across is not None:
        why.append(f"a line takes {inside:.0f} ns inside a cache, {across:.0f} ns between them")
    # Who polls does so all of the time, also while little comes.
    gap_us = 1e6 * len(cpus) / (load.mean_iops or load.iops)
    threshold = _threshold(measured)
    poll = threshold is not None and gap_us < threshold
    if threshold is None:
        why.append("one CPU: who polls keeps out whom it waits for")
    else:
        word = "sooner" if poll else "later"
        why.append(
            f"the next I/O comes {word} ({gap_us:.1f} us) than sleep and wake-up are over "
            f"({threshold:.1f} us)"
        )
    # The first CPU of a cache is overrun where its I/Os take more than a CPU: then each its own.
    overrun = load.iops * load.io_us * 1e-6 / max(len(groups), 1) > FULL
    affinity = 2 if overrun and len(groups) > 1 else 1
    return Advice(
        queues=len(cpus),
        cpus=cpus,
        poll=poll,
        poll_below_us=threshold,
        gap_us=gap_us,
        rq_affinity=affinity,
        why=why,
        lines=_lines(cpus, groups, poll, affinity),
        expected=simulate(measured, load),
    )


def _groups(measured: Mapping[str, Any]) -> list[list[int]]:
    """CPUs by last-level cache, in order."""
    groups: dict[tuple[int, int], list[int]] = {}
    for cpu in measured["machine"]["cpus"]:
        groups.setdefault((cpu["package"], cpu["cache"]), []).append(cpu["cpu"])
    return list(groups.values())


def _fill(groups: list[list[int]], needed: int) -> list[int]:
    """Chooses the CPUs that are needed from the fewest caches, so that lines stay inside."""
    fits = [group for group in groups if len(group) >= needed]
    if fits:
        return min(fits, key=len)[:needed]
    chosen: list[int] = []
    for group in sorted(groups, key=len, reverse=True):
        chosen += group[: needed - len(chosen)]
    return sorted(chosen)


def _trips(measured: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Mean times inside a cache and between caches."""

    def mean(same: bool) -> float | None:
        times = [trip["line_ns"] for trip in measured["trips"] if trip["same_cache"] is same]
        return sum(times) / len(times) if times else None

    return mean(True), mean(False)


def _threshold(measured: Mapping[str, Any]) -> float | None:
    """CPU time of the call that wakes and of the one that sleeps: while the next I/O comes sooner
    than that, asking for it takes less."""
    wake = measured["wake"]
    return None if wake is None else wake["call_us"] + wake["sleeper_us"]


def _list(cpus: list[int]) -> str:
    return ",".join(str(cpu) for cpu in cpus)


def _lines(
    cpus: list[int], groups: list[list[int]], poll: bool, affinity: int
) -> list[tuple[str, str]]:
    mask = f"{sum(1 << cpu for cpu in cpus):#x}"
    here = [group for group in groups if set(group) & set(cpus)]
    threads = "; ".join(f"queue {n} on CPU {cpu}" for n, cpu in enumerate(cpus))
    policy = "cache-aware:by=cache" if len(here) > 1 else "dynamic:by=cache"
    rest = " --rest polling" if poll else ""
    return [
        ("halfwink", f"halfwink live block --cpus {_list(cpus)} -t {policy}{rest}"),
        ("ublk", f"ublk add -t loop -q {len(cpus)} -d 128; {threads}"),
        ("SPDK", f"-m {mask}" + ("" if poll else " (reactors poll: --interrupt-mode)")),
        ("virtio-blk", f"num-queues={len(cpus)}; an iothread for each, on CPUs {_list(cpus)}"),
        ("rq_affinity", f"echo {affinity} > /sys/block/DEVICE/queue/rq_affinity"),
    ]


def document(
    measured: Mapping[str, Any],
    load: Load,
    advice: Advice,
    played: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """All of it, for programs. `played` is a user's own load: what it is, and what to expect of it
    by policy."""
    facts = {name: value for name, value in measured.items() if name != "trips"}
    told = {"load": asdict(load), "advice": asdict(advice), "trips": measured["trips"]}
    if played is not None:
        told |= {"traced": played["load"], "policies": played["policies"]}
    return facts | told

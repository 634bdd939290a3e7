"""A day of load through the live router and through the simulated one.

The simulated router is told what a run of the live one cost: time per frame and per wake-up, fitted
at constant rates. The day itself is not used for that.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from halfwink.bed import traffic
from halfwink.bed.live import Live, description
from halfwink.bed.topology import GENERATOR_PORT, ROUTER_PORTS, SINK_PORT, Bed
from halfwink.library import library
from halfwink.live.router import MEAN_BYTES, STATES
from halfwink.runs.comparison import compare

#: Rates at which costs are fitted, in frames per second: from one wake-up for each frame to hardly
#: any.
FIT_PPS = (2_000.0, 20_000.0, 100_000.0, 200_000.0)
#: Length of a trial of the fit.
FIT_S = 1.5
#: The router whose watts both sides take.
WATTS = "westmere"
#: Frames at a time, and in a queue, of the live router.
BATCH, QUEUE = 8, 1024
#: From the last frame sent until all have come.
DRAIN_S = 0.2


@dataclass(frozen=True)
class Day:
    """Results of a day.

    Attributes:
        slots: a row for each slot: offered frames per second; of the live and the simulated router
            the share of busy core time, modelled watts, p99 of latency (microseconds), frames lost.
        costs: fitted costs: microseconds per frame and per wake-up.
        live: the live router's report.
        lost: frames lost by the live router.
        reordered: frames reordered in their flows by the live router.
        policy: which decided, in both.
    """

    slots: pl.DataFrame
    costs: dict[str, float]
    live: dict[str, Any]
    lost: int
    reordered: int
    policy: str


def fit(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Least squares of busy = a * frames + b * wakes, both costs at least zero.

    Args:
        points: (frames, wakes, busy), each with a weight of one over its busy time.

    Returns:
        a and b, in the unit of busy.
    """
    rows = [(f / busy, w / busy) for f, w, busy in points if busy > 0]
    ff, fw, ww = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    f1, w1 = (sum(r[i] for r in rows) for i in (0, 1))
    det = ff * ww - fw * fw
    if det > 1e-9 * ff * ww:
        a, b = (f1 * ww - w1 * fw) / det, (w1 * ff - f1 * fw) / det
        if a >= 0 and b >= 0:
            return a, b
    return (f1 / ff, 0.0) if f1 * f1 / ff >= w1 * w1 / ww else (0.0, w1 / ww)


def day(
    *,
    profile: str = "world-cup",
    seconds: float = 60.0,
    peak_pps: float = 60_000.0,
    io: str = "af-xdp",
    policy: str = "power-save-in-order",
    workers: int = 2,
    slot_s: float = 1.0,
    say: Callable[[str], None] = lambda line: None,
) -> Day:
    """Plays a profile through a live router in a bed, then through the simulated one.

    Args:
        profile: name or file, see `traffic.profile`.
        seconds: length of the day, in seconds.
        peak_pps: frames per second at its busiest.
        io: interface to the kernel for the live router's frames.
        policy: name of the policy of both.
        workers: number of workers of each router.
        slot_s: length of a row.
        say: told what is done.

    Raises:
        HalfwinkError: the machine does not allow it.
    """
    rates = traffic.profile(profile, seconds, peak_pps)
    with Bed() as bed:
        say("costs at constant rates")
        costs = _costs(bed, io, policy, workers)
        say(f"the day, live: {seconds:.0f} s")
        found = _live(bed, io, policy, workers, rates, slot_s)
    say("the day, simulated")
    slots = _simulated(found, costs, policy, workers, slot_s)
    return Day(slots, costs, found["report"], found["lost"], found["reordered"], policy)


def _costs(bed: Bed, io: str, policy: str, workers: int) -> dict[str, float]:
    points: list[tuple[float, float, float]] = []
    first: dict[str, float] = {}
    for pps in FIT_PPS:
        with Live(bed, description(io=io, policy=policy, workers=workers)) as live:
            bed.trial(pps=100, seconds=0.1)
            trial = bed.trial(pps=pps, seconds=FIT_S, random_gaps=True)
            report = live.result()
        busy = sum(w["residency"]["busy_s"] for w in report["workers"])
        wakes = sum(w["sleeps"] for w in report["workers"])
        points.append((report["received"], wakes, busy))
        if not first:
            first = {
                "latency_p50_us": trial["latency_us"]["p50"],
                "in_router_p50_us": report["latency"]["p50_us"],
            }
    frame_s, wake_s = fit(points)
    return {"frame_us": frame_s * 1e6, "wake_us": wake_s * 1e6, **first}


def _live(
    bed: Bed,
    io: str,
    policy: str,
    workers: int,
    rates: Sequence[Any],
    slot_s: float,
) -> dict[str, Any]:
    text = description(io=io, policy=policy, workers=workers, machine=WATTS)
    slot_ms = round(slot_s * 1000)
    with Live(bed, text, samples_s=slot_s / 4) as live:
        bed.trial(pps=100, seconds=0.1)
        generator, sink = bed.worker("generator"), bed.worker("sink")
        sink.begin("sink", interfaces=SINK_PORT, slot_ms=slot_ms)
        generator.begin(
            "generator",
            interfaces=GENERATOR_PORT,
            rates=[list(line) for line in rates],
            random_gaps=True,
            slot_ms=slot_ms,
            macs=[bed.mac(bed.router, ROUTER_PORTS[0])],
        )
        sent = generator.result()
        time.sleep(DRAIN_S)
        sink.stop()
        received = sink.result()
        report = live.result()
        samples = live.samples()
    compared = traffic.compare(sent, received)
    return {
        "sent": sent,
        "received": received,
        "report": report,
        "samples": samples,
        "lost": compared["lost"],
        "reordered": compared["reordered"],
    }


def interpolated(samples: Sequence[tuple[float, float]], at: float) -> float:
    """A growing count at a time, from samples of (time, count): on the line between two."""
    for (t0, y0), (t1, y1) in itertools.pairwise(samples):
        if t0 <= at <= t1:
            return y0 + (y1 - y0) * (at - t0) / (t1 - t0) if t1 > t0 else y0
    return samples[-1][1] if at > samples[-1][0] else samples[0][1]


def _simulated(
    found: dict[str, Any], costs: dict[str, float], policy: str, workers: int, slot_s: float
) -> pl.DataFrame:
    offered = [slot["frames"] / slot_s for slot in found["sent"]["slots"]]
    values = _values(costs, workers, slot_s)
    profile = ",".join(f"{max(pps, 1):.0f}pps" for pps in offered)
    simulated, busy = (
        compare(
            f"ipv4@{profile}",
            world="router",
            machine="linux",
            techniques=policy,
            set={**values, **watts},
        ).slots.to_dicts()
        for watts in (_watts(), ONE_WATT_BUSY)
    )
    begin_ns, counts = found["sent"]["start_ns"], _counts(found["samples"])
    received = found["received"]["slots"]
    rows: list[dict[str, Any]] = []
    for number, pps in enumerate(offered[: len(simulated)]):
        times = [begin_ns + (number + end) * slot_s * 1e9 for end in (0, 1)]
        spent = {
            name: (interpolated(count, times[1]) - interpolated(count, times[0])) / slot_s
            for name, count in counts.items()
        }
        latency = received[number]["latency_us"] if number < len(received) else {"count": 0}
        rows.append(
            {
                "second": number * slot_s,
                "offered_pps": pps,
                "live_busy_cores": spent["busy_s"],
                "simulated_busy_cores": busy[number]["power_w"],
                "live_modelled_w": spent["energy_j"],
                "simulated_modelled_w": simulated[number]["power_w"],
                "live_p99_us": latency["p99"] if latency["count"] else None,
                "simulated_p99_us": simulated[number]["p99_us"],
                "live_parked_cores": workers - spent["unparked_s"],
                "simulated_parked_cores": workers - simulated[number]["cores"],
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


#: Watts with which a run's power is the number of busy cores: the same run, since watts decide
#: nothing.
ONE_WATT_BUSY = {
    **{f"power.{name}_w": 0.0 for name in ("package", "board", "memory", "memory_idle", "nic")},
    **{f"power.{name}_w": 0.0 for name in ("nic_idle", "fans", "fans_per_core", "c1", "c3")},
    **{f"power.{name}_w": 1.0 for name in ("busy", "spin")},
}


def _watts() -> dict[str, float]:
    """Returns the powers of the described machine at its fastest, which the live virtual meter
    uses.
    """
    spec = library().router(WATTS, []).spec()
    power, cores = spec["power"], spec["cores"]
    faster = cores["fastest"] / cores["slowest"]
    at_full_speed = {
        "power.busy_w": power["busy_w"] * faster ** power["busy_exponent"],
        "power.spin_w": power["spin_w"] * faster ** power["spin_exponent"],
        "power.busy_exponent": 0.0,
        "power.spin_exponent": 0.0,
        # The live meter assumes frames of one length; so does this.
        "apps.ipv4.bytes": round(MEAN_BYTES),
    }
    return {f"power.{name}": value for name, value in power.items()} | at_full_speed


def _values(costs: dict[str, float], workers: int, slot_s: float) -> dict[str, float]:
    """Returns the values of the simulated router that follow from the live one."""
    # From a frame's arrival until its worker is on the way: what its own work does not explain.
    delivery_us = max(costs["latency_p50_us"] - costs["wake_us"] - costs["frame_us"], 0.1)
    return {
        "cores.count": workers,
        "apps.ipv4.cycles_us": costs["frame_us"],
        "wake.handler_us": costs["wake_us"],
        "wake.delivery_us": delivery_us,
        "sleep.c1_exit_us": 0.0,
        "path.unloaded_us": costs["frame_us"],
        "loop.batch": BATCH,
        "nic.ring": QUEUE,
        "evaluation.point_ms": slot_s * 1e3,
    }


def _counts(samples: Sequence[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Growing sums over all workers, by name, as (time in nanoseconds, sum)."""
    counts: dict[str, list[tuple[float, float]]] = {"busy_s": [], "energy_j": [], "unparked_s": []}
    for sample in samples:
        at = sample["at_ns"]
        workers = sample["workers"]
        counts["busy_s"].append((at, sum(w["residency"]["busy_s"] for w in workers)))
        counts["energy_j"].append((at, sample["modelled"]["energy_j"]))
        light = (s for s in STATES if s != "c6_s")
        counts["unparked_s"].append(
            (at, sum(w["residency"][state] for state in light for w in workers))
        )
    return counts


def summary(day: Day) -> dict[str, float]:
    """Sums over the day: busy core seconds, modelled joules; live, and as simulated."""
    slots = day.slots
    step = float(slots["second"][1] - slots["second"][0]) if len(slots) > 1 else 1.0
    total = {name: float(slots[name].sum()) * step for name in slots.columns if name != "second"}
    p99 = {
        f"{side}_p99_us": statistics.median(
            value for value in slots[f"{side}_p99_us"].to_list() if value is not None
        )
        for side in ("live", "simulated")
    }
    return {
        "frames": total["offered_pps"],
        "live_busy_s": total["live_busy_cores"],
        "simulated_busy_s": total["simulated_busy_cores"],
        "live_modelled_j": total["live_modelled_w"],
        "simulated_modelled_j": total["simulated_modelled_w"],
        **p99,
    }

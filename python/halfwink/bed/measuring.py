"""Routers side by side: the highest rate without loss, and what lower rates cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from halfwink.bed import costs
from halfwink.bed.routers import Kind, Router, next_mac
from halfwink.bed.topology import Bed
from halfwink.errors import HalfwinkError, RunError

#: Shares of the common maximum at which costs are measured.
SHARES = (0.1, 0.35, 1.0)
#: A low rate, in frames per second.
LOW_PPS = 1000.0
#: The generator counts as having kept a rate down to this share of it.
KEPT = 0.98
#: A rate that is kept in short trials and not in a longer one goes back by this.
BACK = 0.9
#: Lowest rate that is looked at.
LEAST_PPS = 1000.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Plan of a measurement.

    Attributes:
        repeats: number of repetitions; results are medians.
        trial_s: length of a trial in the search for the highest rate.
        load_s: length of a trial at a given rate.
        steps: halvings of the search, each of the remaining factor.
        loss: largest share of lost frames at which a rate is kept. A rate fails if it fails twice,
            since the first failure may be due to other work on the machine.
        size: size of frames, in bytes without check sequence.
        flows: number of flows.
        queues: number of queues of the router's ports.
        to: destinations; of routers that know no others, their own.
        generator_cpus: CPUs of generator and sink; default: the first CPU.
        common_pps: the rate that loads are shares of; default: the lowest of the kinds' maxima.
    """

    repeats: int = 5
    trial_s: float = 0.5
    load_s: float = 2.0
    steps: int = 7
    loss: float = 1e-4
    size: str = "60"
    flows: int = 64
    queues: int = 1
    to: str = "198.18.0.0/24"
    generator_cpus: tuple[int, ...] = ()
    common_pps: float = 0.0

    def bed_options(self) -> dict[str, Any]:
        """Options of the beds."""
        cpus = self.generator_cpus or (min(os.sched_getaffinity(0)),)
        return {"queues": self.queues, "generator_cpus": cpus, "sink_cpus": cpus}


QUICK = Plan(repeats=2, trial_s=0.2, load_s=0.5, steps=5)


@dataclass
class Report:
    """Results of a measurement.

    Attributes:
        plan: plan of the measurement.
        generator_pps: highest rate of the generator; a maximum as high as that is the generator's,
            not the router's.
        maxima: highest rate of each repetition of each kind, in frames per second.
        common_pps: the plan's, or the lowest of the kinds' medians: what the shares are of.
        rows: medians over the repetitions, for each kind and load.
        trials: all single results.
        failed: kinds that could not be measured, and why.
    """

    plan: dict[str, Any]
    generator_pps: float = 0.0
    maxima: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    common_pps: float = 0.0
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    trials: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    failed: dict[str, str] = field(default_factory=dict[str, str])


class Bench:
    """One kind of router in a bed of its own."""

    def __init__(self, kind: Kind, bed: Bed, router: Router, plan: Plan) -> None:
        """Measures a router that is forwarding."""
        self.kind, self.bed, self.router, self.plan = kind, bed, router, plan
        self._macs = [next_mac(bed)]

    def trial(self, pps: float, seconds: float) -> dict[str, Any]:
        """One trial, with its cost."""
        found = self.bed.trial(
            pps=pps,
            seconds=seconds,
            sizes=self.plan.size,
            flows=self.plan.flows,
            to=[self.kind.to or self.plan.to],
            macs=self._macs,
            sink={"ring_mib": 32},
            mark=lambda: costs.read(self.router.processes),
        )
        # A router that polls costs as long as there is traffic, not until the sink is done.
        before, after = found.pop("marks")
        cost = costs.between(before, after, found)
        kept = found["generator"]["pps"] >= KEPT * pps and found["sink_drops"] == 0
        return found | {"cost": asdict(cost), "offered_pps": pps, "kept": kept}

    def idle(self, seconds: float) -> dict[str, Any]:
        """The cost of no traffic at all."""
        before = costs.read(self.router.processes)
        time.sleep(seconds)
        return asdict(costs.between(before, costs.read(self.router.processes), None))

    def forwards(self, pps: float, seconds: float | None = None) -> bool:
        """Returns whether a rate is kept without loss, at the first or the second try."""
        for _ in range(2):
            found = self.trial(pps, seconds or self.plan.trial_s)
            if found["kept"] and found["loss"] <= self.plan.loss:
                return True
        return False

    def highest(self, most_pps: float) -> float:
        """The highest rate that is kept without loss, by halving a factor; 0 if there is none."""
        if self.forwards(most_pps) and self.forwards(most_pps, self.plan.load_s):
            return most_pps
        low, high = 0.0, most_pps
        # Down by factors of four to the first that is kept.
        while low == 0.0 and high > LEAST_PPS:
            if self.forwards(high / 4):
                low = high / 4
            else:
                high /= 4
        for _ in range(self.plan.steps if low else 0):
            middle = (low * high) ** 0.5
            if self.forwards(middle):
                low = middle
            else:
                high = middle
        # What buffers take in for a short trial may be lost in a longer one.
        while low > LEAST_PPS and not self.forwards(low, self.plan.load_s):
            low *= BACK
        return low if low > LEAST_PPS else 0.0


@contextmanager
def bench(kind: Kind, plan: Plan) -> Generator[Bench]:
    """A kind of router that forwards in a bed of its own."""
    with kind.bed(**plan.bed_options()) as bed, kind.begin(bed) as router:
        yield Bench(kind, bed, router, plan)


def measure(kinds: Sequence[Kind], plan: Plan | None = None, say: Say | None = None) -> Report:
    """Measures kinds of routers side by side.

    Each repeat takes all kinds in turn, so that what else the machine does meets all of them. The
    generator straight into the sink (``none``) is always measured too: it is the zero.

    Args:
        kinds: kinds of routers.
        plan: plan of the measurement.
        say: is told how far it is.

    Returns:
        Rows with rates in frames per second, times in microseconds, and processor seconds per
        million packets. ``cpu_s_per_mpkt`` is the attributed cost (see `halfwink.bed.costs`) less
        that of ``none`` at the same rate; ``machine_cpu_s_per_mpkt`` the whole machine's, likewise.

    Raises:
        HalfwinkError: no kind can run here.
    """
    plan, say = plan or Plan(), say or (lambda _: None)
    report = Report(plan=asdict(plan))
    kinds = [Kind("none"), *(kind for kind in kinds if kind.name != "none")]
    for kind in list(kinds):
        why = kind.missing()
        if why:
            report.failed[kind.name] = why
            kinds.remove(kind)
    if len(kinds) < 2:
        reasons = "; ".join(f"{name}: {why}" for name, why in report.failed.items())
        raise HalfwinkError(f"nothing to measure: {reasons or 'name a kind of router'}")
    _find_maxima(kinds, plan, report, say)
    kinds = [kind for kind in kinds if kind.name not in report.failed]
    forwarding = [median(report.maxima[k.name]) for k in kinds if k.name != "none"]
    report.common_pps = plan.common_pps or min(forwarding, default=0.0)
    if report.common_pps > 0:
        _measure_loads(kinds, plan, report, say)
    return report


def _find_maxima(kinds: Sequence[Kind], plan: Plan, report: Report, say: Say) -> None:
    for repeat in range(plan.repeats):
        for kind in kinds:
            if kind.name in report.failed:
                continue
            try:
                with bench(kind, plan) as one:
                    if kind.name == "none" and report.generator_pps == 0.0:
                        # What the generator can do at all bounds the search.
                        flood = one.bed.trial(
                            pps="max", seconds=plan.trial_s, sizes=plan.size, flows=plan.flows,
                            to=[plan.to], macs=[next_mac(one.bed)],
                        )  # fmt: skip
                        report.generator_pps = flood["generator"]["pps"]
                    found = one.highest(report.generator_pps)
            except RunError as error:
                report.failed[kind.name] = str(error)
                continue
            report.maxima.setdefault(kind.name, []).append(found)
            say(f"{repeat + 1}/{plan.repeats} {kind.name}: {found / 1e3:,.1f} kpps without loss")


def _measure_loads(kinds: Sequence[Kind], plan: Plan, report: Report, say: Say) -> None:
    loads = [("1 kpps", LOW_PPS)]
    loads += [(f"{share:.0%}", share * report.common_pps) for share in SHARES]
    for repeat in range(plan.repeats):
        for kind in kinds:
            try:
                with bench(kind, plan) as one:
                    report.trials.append(
                        {"kind": kind.name, "load": "idle", "cost": one.idle(plan.load_s)}
                    )
                    for name, pps in loads:
                        found = one.trial(pps, plan.load_s)
                        found["generator"].pop("slots")
                        found["sink"].pop("slots")
                        report.trials.append({"kind": kind.name, "load": name} | found)
            except RunError as error:
                report.failed[kind.name] = str(error)
                continue
            say(f"{repeat + 1}/{plan.repeats} {kind.name}: costs")
    for name in ("idle", *(name for name, _ in loads)):
        zero = _of(report, "none", name)
        for kind in kinds:
            rows = _of(report, kind.name, name)
            if rows:
                report.rows.append(_row(kind.name, name, rows, zero))


def _of(report: Report, kind: str, load: str) -> list[dict[str, Any]]:
    return [t for t in report.trials if t["kind"] == kind and t["load"] == load]


def _row(
    kind: str, load: str, trials: list[dict[str, Any]], zero: list[dict[str, Any]]
) -> dict[str, Any]:
    if load == "idle":
        return {
            "kind": kind,
            "load": load,
            "idle_cpu_pct": median(
                100 * (t["cost"]["router_s"] + t["cost"]["kernel_threads_s"]) / t["cost"]["wall_s"]
                for t in trials
            ),
        }

    def per_mpkt(trial: dict[str, Any], what: str) -> float:
        return trial["cost"][what] / max(trial["sent"], 1) * 1e6

    def above_zero(what: str) -> float:
        base = median(per_mpkt(t, what) for t in zero) if zero else 0.0
        return median(per_mpkt(t, what) for t in trials) - (0.0 if kind == "none" else base)

    def middle(name: str) -> float | None:
        found = [t["latency_us"][name] for t in trials if t["latency_us"][name] is not None]
        return median(found) if found else None

    costs_here = sorted(per_mpkt(t, "attributed_s") for t in zero)
    return {
        "kind": kind,
        "load": load,
        "offered_pps": median(t["offered_pps"] for t in trials),
        "sent_pps": median(t["generator"]["pps"] for t in trials),
        "cpu_s_per_mpkt": above_zero("attributed_s"),
        # Half the spread of what is taken away: nothing below this means anything.
        "cpu_error_s_per_mpkt": (costs_here[-1] - costs_here[0]) / 2 if costs_here else None,
        "machine_cpu_s_per_mpkt": above_zero("machine_s"),
        "router_cpu_s_per_mpkt": median(per_mpkt(t, "router_s") for t in trials),
        "p50_us": middle("p50"),
        "p99_us": middle("p99"),
        "loss": median(t["loss"] for t in trials),
        "worst_loss": max(t["loss"] for t in trials),
        "reordered": median(t["reordered"] for t in trials),
        "bad_headers": sum(t["bad_headers"] for t in trials),
        "sink_drops": sum(t["sink_drops"] for t in trials),
    }

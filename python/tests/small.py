"""A study of each world that takes a moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Small:
    """A small study of a world, and one that would never end.

    Attributes:
        workload, machine: names.
        techniques: two, the baseline first.
        head: more lines at the top of the study.
        sweep: two values of something.
        endless: what makes a short and an endless run of it: lines of a sweep.
    """

    workload: str
    machine: str
    techniques: tuple[str, str]
    sweep: str
    head: str = ""
    endless: str = ""

    def text(self, world: str, sweep: str) -> str:
        one, other = self.techniques
        return (
            f'schema = 1\nworld = "{world}"\ntitle = "small"\n{self.head}\n'
            f'workloads = ["{self.workload}"]\nmachines = ["{self.machine}"]\n'
            f'techniques = ["{one}", "{other}"]\n[sweep]\n{sweep}\n'
            '[[plot]]\ntitle = "saved"\nmark = "point"\nx = "slowdown_pct"\n'
            'y = "energy_saving_pct"\ncolor = "technique"\n'
        )


SMALL = {
    "chip": Small(
        "alu",
        "in-order-1",
        ("always-on", "tap"),
        '"gating.wake_up_ns" = [2.0, 16.0]\ninstructions = [20000]',
        endless="instructions = [1000, 20000000000]",
    ),
    "fabric": Small(
        "all-to-all",
        "mordia",
        ("packet-switch", "round-robin"),
        '"round-robin:day_us" = [61, 123.5]\nduration_ms = [20]',
        endless="duration_ms = [1, 10000000]",
    ),
    "preheat": Small(
        "nginx-2016@100",
        "odroid-xu3",
        ("no-preheat", "preheat"),
        "lead_us = [65, 500]\nrequests = [30]",
        endless="requests = [10, 100000000]",
    ),
    "racks": Small(
        "data-mining@1",
        "opera-648",
        ("packet-switch", "opera"),
        '"switch.reconfiguration_us" = [10, 20]\nduration_ms = [2]',
        endless="duration_ms = [1, 1000000]",
    ),
    "storage": Small(
        "random-read@4",
        "westmere-ep",
        ("single-thread", "cache-aware"),
        '"cache-aware:period_ms" = [1, 10]\nios = [2000]\nwarm_up = [500]',
        endless="ios = [100, 1000000000]",
    ),
    "router": Small(
        "ipv4@step:5,50",
        "westmere",
        ("polling", "power-save"),
        '"power-save:c_up" = [2, 10]\n"evaluation.point_ms" = [0.5]',
        endless='"evaluation.point_ms" = [0.5, 100000]',
    ),
    "node": Small(
        "exponential@30",
        "golden-cove-56",
        ("menu", "c6a+package-sleep"),
        "rest_w = [100, 150]\nrequests = [5000]",
        endless="requests = [1000, 100000000000]",
    ),
    "server": Small(
        "count@30",
        "niccolini",
        ("always-on", "hybrid"),
        '"big.wake_ms" = [5, 50]\nrequests = [5000]',
        endless="requests = [1000, 1000000000000]",
    ),
    "switching": Small(
        "web@1g", "alpha@sim-cs", ("bound", "v4"), '"mechanism.ipi_handler_ns" = [40, 80]'
    ),
    "toy": Small(
        "exponential@30",
        "machine",
        ("always-on", "idle-gate"),
        "wake_up_us = [1, 5]\nrequests = [1000]",
        endless="requests = [1000, 1000000000000]",
    ),
}


def written(world: str, folder: Path) -> Path:
    """The study of a world, as a file."""
    path = folder / f"{world}.toml"
    path.write_text(SMALL[world].text(world, SMALL[world].sweep))
    return path

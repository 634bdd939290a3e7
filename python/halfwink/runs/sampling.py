"""Long workloads by samples: functional warming and windows in detail.

from halfwink.runs.sampling import sample

sample("long.hwt", techniques=["tap", "oracle"]).table()  # figures with their 95 % intervals
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Settings, pairs, technique_list
from halfwink.library import library
from halfwink.native import stoppable
from halfwink.results import cold_start
from halfwink.runs.comparison import technique_names

if TYPE_CHECKING:
    import polars as pl

    from halfwink.policies.finding import Technique

#: One core: others are not sampled.
MACHINE = "ev6-1"
#: Instructions measured of each window, and played in detail before them.
UNIT, WARM_UP = 10_000, 2_000
#: Sampled if none is named.
TECHNIQUES = ("tap",)
#: Figures of a technique that have an interval.
FIGURES = (
    "cpi",
    "ipc",
    "core_energy_j_per_instruction",
    "energy_j_per_instruction",
    "memory_stall_p99_ns",
    "core_energy_saving_pct",
    "energy_saving_pct",
    "slowdown_pct",
)


@dataclass(frozen=True)
class Sample:
    """Estimates from samples of a workload. Times and energies are modelled.

    Attributes:
        facts: workload, machine, load, and in instructions: how long the stream is, ``period``,
            ``warm_up``, ``unit`` and ``first``; ``windows`` measured; third-level misses; number of
            ``samples`` that the stream holds of a run ``of`` so many instructions (0 of itself).
        results: a row for each technique, the baseline first; a figure is a ``value`` with ``low``
            and ``high``, the ends of its 95 % interval, or null where there are too few windows.
    """

    facts: dict[str, Any]
    results: list[dict[str, Any]]

    def _repr_html_(self) -> str:
        from halfwink.results.frames import titled

        return titled(f"{self.facts['workload']} on {self.facts['machine']}", self.table())

    def table(self) -> pl.DataFrame:
        """One row per technique; ``NAME``, ``NAME_low`` and ``NAME_high`` for each figure."""
        import polars as pl

        rows: list[dict[str, Any]] = []
        for result in self.results:
            row = {name: value for name, value in result.items() if name not in FIGURES}
            for name in FIGURES:
                figure = result[name] or {}
                row |= {name: figure.get("value")}
                row |= {f"{name}_{end}": figure.get(end) for end in ("low", "high")}
            rows.append(row)
        return pl.DataFrame(rows, infer_schema_length=None)

    def warnings(self) -> list[str]:
        """Returns warnings that make the figures less reliable, a line each."""
        facts = self.facts
        left = facts["instructions"] - facts["first"]
        found = cold_start.share(left, facts["l3_misses"], facts["l3_cold_fills"])
        if found is None:
            return []
        in_samples = facts["samples"] > 0
        return [cold_start.warning(facts["workload"], found, in_samples=in_samples)]


def sample(
    workload: str,
    *,
    techniques: Technique | Sequence[Technique] | None = None,
    machine: str = MACHINE,
    set: Settings | None = None,
    windows: int | None = None,
    period: int | None = None,
    unit: int = UNIT,
    warm_up: int = WARM_UP,
    instructions: int | None = None,
    skip: int | None = None,
    seed: int = 1,
    precision_pct: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Sample:
    """Samples a long workload: all of it through caches and predictor without time, windows of it
    in detail under each technique, on the same instructions.

    Args:
        workload: a name, or a trace (.hwt): one program, on one core.
        techniques: names (``tap`` if none is given); ``always-on``, with which they are compared,
            is always among them.
        machine: a machine, or a file.
        set: values of the machine to change.
        windows: number of windows; by default as many as fit, up to 200, if no period is given
            either.
        period: instructions from one window to the next.
        unit: instructions measured of each window.
        warm_up: instructions played in detail before them.
        instructions: largest number of instructions of the workload.
        skip: instructions before which no window begins (0 if none are given); where the workload
            is a recording of samples, of each of them (half of each).
        seed: chooses where the first window begins.
        precision_pct: a wanted half width of the intervals, to be told how many windows it takes.
        progress: told every now and then how many instructions the pass has seen.

    Raises:
        HalfwinkError: a name or value that cannot be, in one line.
        RunError: the trace is damaged, or a run failed.
    """
    if windows is not None and period is not None:
        raise HalfwinkError("both windows and period: expected one of them")
    for name, value, least in (
        ("windows", windows, 1),
        ("period", period, 1),
        ("unit", unit, 1),
        ("warm_up", warm_up, 0),
        ("instructions", instructions, 1),
        ("skip", skip, 0),
        ("seed", seed, 0),
    ):
        if value is not None and not least <= value < 2**63:
            limit = f"{least} or more" if value < least else f"at most {2**63 - 1}"
            raise HalfwinkError(f"{name} {value}: expected {limit}")
    if precision_pct is not None and not 0 < precision_pct <= 100:
        raise HalfwinkError(f"precision {precision_pct:g} %: expected more than 0, at most 100")

    wanted = technique_list(techniques)

    def work(control: _core.RunControl) -> dict[str, Any]:
        return _core.sample(
            library(),
            control,
            workload,
            machine,
            pairs(set),
            technique_names(wanted or TECHNIQUES),
            unit=unit,
            warm_up=warm_up,
            windows=windows,
            period=period,
            instructions=instructions,
            skip=skip,
            seed=seed,
            precision_pct=precision_pct,
        )

    found = stoppable(work, progress)
    results = found.pop("results")
    return Sample(found, results)

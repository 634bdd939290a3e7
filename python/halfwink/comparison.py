"""The main job: every technique on a workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Executor, Job, Progress, RunStore, run_jobs
from halfwink.results import Results, collect

BASELINE = "always-on"
DEFAULT_MACHINE = "ev6-4"


def technique_names(wanted: Sequence[str] | None) -> list[str]:
    """The techniques to run, baseline first; ``all`` and ``all-FAMILY`` stand for many."""
    known = _core.techniques()
    if not wanted:
        return [t["name"] for t in known]
    names = [BASELINE]
    for name in wanted:
        family = name.removeprefix("all-") if name.startswith("all-") else None
        members = [t["name"] for t in known if name == "all" or t["family"] == family]
        if family is not None and not members:
            families = sorted({t["family"] for t in known})
            raise HalfwinkError(f"unknown family `{family}`; there are: {', '.join(families)}")
        names.extend(members or [name])
    return list(dict.fromkeys(names))


def compare(
    workloads: str | Sequence[str],
    *,
    techniques: Sequence[str] | None = None,
    machine: str = DEFAULT_MACHINE,
    set: Sequence[tuple[str, str]] = (),
    instructions: int | None = None,
    timeline_ns: tuple[int, int] | None = None,
    out: Path | None = None,
    fresh: bool = False,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Runs techniques on workloads and relates them to the always-on baseline.

    Args:
        workloads: names (``nginx``), files (``my.hwt``), copies (``nginx*4``), mixes (``a+b``).
        techniques: names; all if none are given. The baseline always runs.
        machine: name, with a number of cores (``ev6-16``), or a file.
        set: values of the machine to change, by path: ``("gating.wake_up_ns", "16")``.
        instructions: of each core, at most.
        timeline_ns: part of the run whose states are recorded, in nanoseconds from its start.
        out: folder in which finished runs are kept, and from which they are reused.
        fresh: run again what is already there.

    Raises:
        HalfwinkError: a name or value that cannot be, in one line.
        RunError: a run failed.
    """
    names = [workloads] if isinstance(workloads, str) else list(workloads)
    if not names:
        raise HalfwinkError("no workload was named")
    jobs = [
        Job(workload, machine, technique, tuple(set), instructions, timeline_ns)
        for workload in names
        for technique in technique_names(techniques)
    ]
    store = RunStore(out / "runs") if out is not None else None
    tables = run_jobs(jobs, store=store, fresh=fresh, executor=executor, progress=progress)
    return collect(jobs, tables, BASELINE)


def as_json(results: Results) -> dict[str, Any] | list[dict[str, Any]]:
    """The JSON document of ``halfwink compare``: an object, or a list for several workloads."""
    documents: list[dict[str, Any]] = []
    for workload in results.runs["workload"].unique(maintain_order=True):
        runs = results.runs.filter(workload=workload)
        head = runs.row(0, named=True)
        documents.append(
            {
                "workload": workload,
                "machine": head["machine"],
                "set": head["set"],
                "unit_of_work": head["unit_of_work"],
                "baseline": results.baseline,
                "results": [_run_json(results, row) for row in runs.iter_rows(named=True)],
            }
        )
    return documents[0] if len(documents) == 1 else documents


def _kernel_json(results: Results, row: dict[str, Any]) -> dict[str, Any]:
    """What became of the kernel, if the technique watched it."""
    if not row["kernel_invocations"]:
        return {}
    who = {key: row[key] for key in ("workload", "machine", "set", "technique")}
    columns = ["kind", "number", "name", "place"]
    counts = ["invocations", "instructions", "running_s", "taken_s"]
    shares = ("kernel_time_share", "os_core_time_share", "away_share")
    return {
        "kernel": {
            "invocations": row["kernel_invocations"],
            "moved_invocations": row["moved_invocations"],
            **{name: row[name] for name in shares},
            "calls": results.calls.filter(**who).select(columns + counts).to_dicts(),
        }
    }


def _run_json(results: Results, row: dict[str, Any]) -> dict[str, Any]:
    ledger = results.ledger.filter(workload=row["workload"], technique=row["technique"])
    columns = ["component", "state", "mode", "cause", "time_s", "energy_j"]
    return {
        "technique": row["technique"],
        "energy_j_per_unit": row["energy_j_per_unit"],
        "core_energy_j_per_unit": row["core_energy_j_per_unit"],
        "energy_saving_pct": row["energy_saving_pct"],
        "core_energy_saving_pct": row["core_energy_saving_pct"],
        "latency_us": {
            name: row[f"latency_{name}_us"] for name in ("mean", "p50", "p90", "p99", "max")
        },
        "slowdown_pct": row["slowdown_pct"],
        "energy_delay_pct": row["energy_delay_pct"],
        "units": row["units"],
        "residency": {
            state: row[f"{state}_share"]
            for state in ("active", "stalled", "idle", "gating", "gated", "charging", "restoring")
        },
        "ledger": ledger.select(columns).to_dicts(),
        **_kernel_json(results, row),
        "modelled": ["energy", "time"],
        "sim": {
            name: row[name]
            for name in (
                "instructions",
                "kernel_instructions",
                "ipc",
                "duration_s",
                "host_s",
                "mips",
            )
        },
    }

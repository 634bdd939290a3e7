"""Running studies: many jobs that a file describes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Executor, Job, LocalExecutor, Progress, RunStore, run_jobs
from halfwink.library import build_id, library, root
from halfwink.results import Results, collect
from halfwink.router_results import RouterResults, collect_router


@dataclass(frozen=True)
class StudyRun:
    """A study and what it found."""

    study: dict[str, Any]
    results: Results | RouterResults


def study_jobs(study: dict[str, Any]) -> list[Job]:
    """Every run of a study: machines, then workloads, then the sweep, then techniques.

    Before them come those of the baseline on a machine of its own, if it has one.
    """
    points: list[tuple[tuple[str, str], ...]] = [()]
    for path, values in study["sweep"]:
        points = [(*point, (path, value)) for point in points for value in values]
    instructions, alone = study["instructions"], study["baseline_machine"]
    world = study["world"]
    baseline = [
        Job(workload, alone, study["baseline"], (), instructions)
        for workload in (study["workloads"] if alone else ())
    ]
    return baseline + [
        Job(workload, machine, technique, point, instructions, world=world)
        for machine in study["machines"]
        for workload in study["workloads"]
        for point in points
        for technique in study["techniques"]
    ]


def executor_named(name: str) -> Executor:
    """The executor for ``local`` or ``local:WORKERS``."""
    kind, _, detail = name.partition(":")
    if kind == "local" and (not detail or (detail.isdigit() and int(detail) > 0)):
        return LocalExecutor(int(detail)) if detail else LocalExecutor()
    raise HalfwinkError(f"unknown executor `{name}`; expected `local` or `local:WORKERS`")


def run(
    name: str,
    *,
    out: Path | None = None,
    executor: Executor | None = None,
    fresh: bool = False,
    store: RunStore | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> StudyRun:
    """Runs a study, by name or file.

    Finished runs are kept in ``out/runs`` (or in ``store``) and reused, so that a study that was
    cut short goes on where it was.

    Raises:
        HalfwinkError: the study, or something it names, cannot be; one line.
        RunError: a run failed.
    """
    study = library().study(name)
    jobs = study_jobs(study)
    if store is None and out is not None:
        store = RunStore(out / "runs")
    tables = run_jobs(jobs, store=store, fresh=fresh, executor=executor, progress=progress)
    if study["world"] == "router":
        return StudyRun(study, collect_router(jobs, tables, study["baseline"]))
    return StudyRun(study, collect(jobs, tables, study["baseline"], study["baseline_machine"]))


def provenance() -> list[tuple[str, str]]:
    """What made a result: version, build and, in a repository, the commit."""
    facts = [("halfwink", _core.__version__), ("build", build_id())]
    try:
        asked = subprocess.run(
            ["git", "-C", str(root()), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=True,
        )
        facts.append(("commit", asked.stdout.strip()))
    except (OSError, subprocess.CalledProcessError):
        pass
    return facts


def as_run(study: dict[str, Any]) -> str:
    """The study's text with what made the result, for ``study.toml``."""
    head = "".join(f"# {name}: {value}\n" for name, value in provenance())
    return f"# as run\n{head}{study['text']}"

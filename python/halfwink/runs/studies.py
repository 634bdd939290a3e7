"""Running studies: many jobs that a file describes."""

from __future__ import annotations

import logging
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from halfwink import _core, installed
from halfwink.errors import HalfwinkError, RunError
from halfwink.files import Place, place, write_whole
from halfwink.jobs import Job, Planned, pairs, plan
from halfwink.library import build_id, library
from halfwink.results.results import STUDY_FILE, Results, check_mark, collect
from halfwink.results.store import RunStore, temporary_store
from halfwink.results.timeline import write_timeline
from halfwink.runs.batch import Progress, run_jobs
from halfwink.runs.designs import run_adaptive
from halfwink.runs.executors import Executor, Submits
from halfwink.runs.parts import check_part, lost_parts, note_parts, noted_parts

#: Lost parts that are named.
NAMED = 20
_log = logging.getLogger("halfwink")


@dataclass(frozen=True)
class StudyRun:
    """A study and what it found."""

    study: dict[str, Any]
    results: Results

    def _repr_html_(self) -> str:
        shown: Any = self.results
        return f"<h3>{escape(self.study['title'])}</h3>{shown._repr_html_()}"


def checked_study(name: str) -> dict[str, Any]:
    """Reads a study, by name or file, that can be run and drawn.

    Raises:
        HalfwinkError: there is none, or it is wrong; one line.
    """
    study = library().study(name)
    for path, values in study["sweep"]:
        # Rows of equal values would be taken for runs of several seeds.
        for value, count in Counter(values).items():
            if count > 1:
                raise HalfwinkError(f"{name}: sweep.{path}: `{value}` stands twice; expected once")
    for plot in study["plots"]:
        try:
            check_mark(plot)
        except HalfwinkError as error:
            raise HalfwinkError(f"{name}: {error}") from None
    return study


def study_jobs(name: str, mutant: str | None = None) -> list[Job]:
    """Every run of a study, by name or file: machines, then workloads, then the sweep, then
    techniques; before them those of the baseline on a machine of its own, if it has one. All of
    them under a mutant, if one is named.

    Raises:
        HalfwinkError: there is none, or it is wrong; one line.
    """
    checked_study(name)
    return [
        Job(world, workload, machine, technique, pairs(set), pairs(options), mutant)
        for world, workload, machine, technique, set, options in library().study_jobs(name)
    ]


def run(
    name: str,
    *,
    out: Place | str | None = None,
    executor: Executor | Submits | None = None,
    fresh: bool = False,
    store: RunStore | None = None,
    log: Path | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> StudyRun:
    """Runs a study of any world, by name or file.

    Finished runs are kept in ``out/runs`` (or in ``store``) and reused, so that a study that was
    cut short goes on where it was. When all are finished their tables are written to ``out``, a
    folder or a URL, from where ``hw.open`` reads them. With a ``log`` every run is played, and
    leaves an event log there or beside it (`halfwink.runs.logs.paths`).

    Raises:
        HalfwinkError: the study, or something it names, cannot be; one line.
        RunError: a run failed.
    """
    study = checked_study(name)
    folder = place(out) if out is not None else None
    store = store or (RunStore(folder / "runs") if folder is not None else None)
    how: dict[str, Any] = {"executor": executor, "fresh": fresh, "progress": progress}
    if study["design"]["kind"] == "adaptive":
        if log is not None:
            line = "expected none of an adaptive design, whose runs nobody knows beforehand"
            raise HalfwinkError(f"--log: {line}")
        with nullcontext(store) if store is not None else temporary_store() as kept:
            results = run_adaptive(study, kept, **how)
    else:
        results = run_all(
            study_jobs(name),
            baseline=study["baseline"],
            baseline_machine=study["baseline_machine"],
            store=store,
            log=log,
            **how,
        )
    if folder is not None:
        keep(folder, results, study["text"])
    return StudyRun(study, results)


def run_part(
    name: str,
    part: tuple[int, int] | None,
    *,
    out: Place | str,
    executor: Executor | Submits | None = None,
    fresh: bool = False,
    log: Path | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> int:
    """Runs one part of a study, for arrays of jobs on a cluster: the third of 200 is ``(3, 200)``.

    Parts are equal in expected work, as far as jobs allow. Results are kept in ``out/runs``, which
    all parts may share; when all are there `collected` makes tables of them. Without a part it runs
    all that is missing.

    Returns:
        Number of results of this part that are there now.

    Raises:
        HalfwinkError, RunError: see `run`; or there is no such part.
    """
    if part is not None:
        check_part(part)
        note_parts(place(out), part[1])
    last = [0]

    def count(told: Progress) -> None:
        last[0] = told.jobs_done
        if progress is not None:
            progress(told)

    store = RunStore(place(out) / "runs")
    jobs = study_jobs(name)
    run_jobs(jobs, store, fresh=fresh, executor=executor, log=log, part=part, progress=count)
    return last[0]


def collected(name: str, *, out: Place | str) -> StudyRun:
    """A study of which all parts have run, in ``out``; nothing is run.

    Raises:
        HalfwinkError: the study, or something it names, cannot be; one line.
        RunError: a result is not there, with how many are not, and which parts they are of.
    """
    study = library().study(name)
    store, jobs = RunStore(place(out) / "runs"), study_jobs(name)
    planned = plan(jobs)
    keys = {known.key: job for job, known in zip(jobs, planned, strict=True)}
    there = store.present(list(keys))
    missing = [job for key, job in keys.items() if key not in there]
    if missing:
        first = missing[0]
        where = f"{first.technique} on {first.workload} ({first.machine})"
        lost = _lost(planned, there, noted_parts(place(out)))
        count = f"{len(missing)} of {len(keys)} runs"
        raise RunError(f"{out}: {count} are not there, first {where}{lost}")
    results = collect(jobs, planned, store, study["baseline"], study["baseline_machine"])
    keep(place(out), results, study["text"])
    return StudyRun(study, results)


def _lost(planned: Sequence[Planned], there: set[str], parts: int | None) -> str:
    """Names the lost parts, and what runs them."""
    if parts is None:
        return ""
    lost = lost_parts(planned, there, parts)
    named = ", ".join(f"{which}/{parts}" for which in lost[:NAMED])
    more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    many = len(lost) > 1
    which = f"parts {named}{more} have not run" if many else f"part {named} has not run"
    return f"; {which} to the end: `--part missing` does what is left"


def keep(folder: Place, results: Results, study: str) -> None:
    """Writes tables, states over time if they were recorded, and the study as it was run; tells of
    tables of another study that these replace.

    Raises:
        RunError: the disk refuses, in one line.
    """
    is_another = False
    try:
        if (folder / STUDY_FILE).exists():
            before = (folder / STUDY_FILE).read_bytes().decode(errors="replace")
            is_another = _without_comments(before) != _without_comments(study)
        results.write(folder)
        write_whole(folder / STUDY_FILE, as_run(study))
        if results.has("timeline"):
            write_timeline(folder / "timeline.json", results.timeline)
    except OSError as error:
        where = error.filename or folder
        raise RunError(f"{where}: cannot keep the results: {error.strerror}") from error
    if is_another:
        _log.warning("%s: held another study's tables, which are replaced", folder)


def _without_comments(study: str) -> list[str]:
    """Returns the lines of a study except comments, which include the provenance of a result."""
    return [line for line in study.splitlines() if line.strip() and not line.startswith("#")]


def run_all(
    jobs: Sequence[Job],
    *,
    baseline: str,
    baseline_machine: str | None = None,
    store: RunStore | None = None,
    executor: Executor | Submits | None = None,
    fresh: bool = False,
    log: Path | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Runs jobs of one world and relates each to the baseline; see `run`."""
    with nullcontext(store) if store is not None else temporary_store() as kept:
        planned = run_jobs(jobs, kept, fresh=fresh, executor=executor, log=log, progress=progress)
        return collect(jobs, planned, kept, baseline, baseline_machine)


def provenance() -> list[tuple[str, str]]:
    """Returns the provenance of a result: version, build and, in a repository, the commit."""
    facts = [("halfwink", _core.__version__), ("build", build_id())]
    # An installed package may stand in somebody else's repository.
    clone = installed.clone()
    if clone is None:
        return facts
    try:
        told = subprocess.run(
            ["git", "-C", str(clone), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=True,
        )
        facts.append(("commit", told.stdout.strip()))
    except (OSError, subprocess.CalledProcessError):
        pass
    return facts


def as_run(study: str) -> str:
    """A study's text with what made the result, for ``study.toml``."""
    head = "".join(f"# {name}: {value}\n" for name, value in provenance())
    return f"# as run\n{head}{study}"

"""Published numbers beside ours."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from halfwink.errors import HalfwinkError, RunError
from halfwink.jobs import Job, names
from halfwink.library import cache_dir, library, root
from halfwink.results.results import Results, sql_tables
from halfwink.results.store import RunStore
from halfwink.runs.batch import Progress
from halfwink.runs.executors import Executor, Submits
from halfwink.runs.studies import run_all, study_jobs
from halfwink.targets import nulls
from halfwink.targets.catalogue import experiment
from halfwink.targets.published_figures import home, mentioned, near

AREAS = (
    "gating",
    "switching",
    "offload",
    "segregation",
    "preheat",
    "router",
    "hybrid",
    "circuits",
    "storage",
)
WORKS = ("strong", "niccolini", "mogul", "gottschlag", "nellans")
#: What an entry is judged, as a reader of a tally wants them.
VERDICTS = (
    "match",
    "holds",
    "miss",
    "fails",
    "insensitive",
    "calibrated",
    "arithmetic",
    "input",
    "contradicted",
    "analogue",
    "undetermined",
    "not-yet",
)
#: Verdicts that ``--check`` takes for failure.
FAILURES = ("miss", "fails")
#: A published value and ours, or none.
Values = dict[str, float | None]


def select(targets: Sequence[dict[str, Any]], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Targets of the areas, works, figures, tables or id prefixes named; all if none are."""
    if not wanted:
        return list(targets)
    figures = {t["id"]: [*mentioned(t), home(t)] for t in targets}

    def is_of(target: dict[str, Any], name: str) -> bool:
        id = target["id"]
        groups = (target["area"], id.split("/")[0], *figures[id])
        return name in groups or begins(id, name)

    known = [*AREAS, *WORKS, *dict.fromkeys(n for those in figures.values() for n in those)]
    for name in wanted:
        if name not in known and not any(begins(t["id"], name) for t in targets):
            raise HalfwinkError(
                f"no target, figure, area or work `{name}`{near(name, [*known, *figures])}; "
                f"areas: {', '.join(AREAS)}; works: {', '.join(WORKS)}; ids: "
                f"`halfwink list targets`"
            )
    return [target for target in targets if any(is_of(target, name) for name in wanted)]


def begins(id: str, name: str) -> bool:
    """Returns whether a name is the beginning of an id, and more of it than the work's."""
    return "/" in name and id.startswith(name)


def reproduce(
    wanted: str | Sequence[str] = (),
    *,
    fresh: bool = False,
    executor: Executor | Submits | None = None,
    progress: Callable[[str, Progress], None] | None = None,
) -> list[dict[str, Any]]:
    """Computes the targets that can be, and judges each: one dict per target, as the JSON.

    Args:
        wanted: areas (``gating``), works (``strong``), figures and tables (``strong/F2.13``,
            ``strong/Table3.8``) or beginnings of ids; all if none.
        fresh: compute again what is already there.

    Raises:
        HalfwinkError: a name is unknown.
        RunError: a study failed, or a target's SQL does.
    """
    targets = select(library().targets(), names(wanted))
    ours = compute(targets, fresh=fresh, executor=executor, progress=progress)
    return judged(targets, ours)


def kept(wanted: str | Sequence[str] = ()) -> list[dict[str, Any]]:
    """Judges the targets by the values in `targets/ours.csv`, without computing any.

    Raises:
        HalfwinkError: a name is unknown, or the file cannot be read or lacks a target.
    """
    return judged(select(library().targets(), names(wanted)), kept_values())


def kept_values() -> Values:
    """Returns our value of every target as `targets/ours.csv` keeps it.

    Raises:
        HalfwinkError: the file cannot be read, or lacks a target.
    """
    path = root() / "targets" / "ours.csv"
    try:
        with path.open() as file:
            ours = {
                row["id"]: float(row["ours"]) if row["ours"] else None
                for row in csv.DictReader(file)
            }
    except (OSError, KeyError, ValueError) as error:
        raise HalfwinkError(f"{path}: {error}") from error
    missing = [target["id"] for target in library().targets() if target["id"] not in ours]
    if missing:
        more = f" and of {len(missing) - 1} more" if len(missing) > 1 else ""
        raise HalfwinkError(f"{path}: no value of {missing[0]}{more}; `make scores` computes them")
    return ours


def judged(targets: Sequence[dict[str, Any]], ours: Values) -> list[dict[str, Any]]:
    """Returns one dict per target, as the JSON has it, with the verdict on our value."""
    known = judged_nulls()
    verdicts = library().verdicts([(target["id"], ours[target["id"]]) for target in targets])
    return [
        _entry(target, ours[target["id"]], verdict, known.get(target["id"]))
        for target, verdict in zip(targets, verdicts, strict=True)
    ]


def judged_nulls() -> dict[str, dict[str, Any]]:
    """Returns the null of each predicted target by its id: ``text``, ``value``, ``met``.

    Raises:
        HalfwinkError: a file of `targets/nulls` is wrong.
    """
    found = nulls.load(root() / "targets" / "nulls", library().targets())
    return nulls.judged(found, lambda values: library().verdicts(values, on_its_own=True))


def compute(
    targets: Sequence[dict[str, Any]],
    *,
    mutant: str | None = None,
    instructions: Callable[[int], int] | None = None,
    fresh: bool = False,
    executor: Executor | Submits | None = None,
    progress: Callable[[str, Progress], None] | None = None,
) -> Values:
    """Our value of each target by its id; None where nothing computes it, or it is not finite.

    Args:
        targets: which.
        mutant: change that breaks the machines (`halfwink.targets.mutation`).
        instructions: number of instructions to play where a study gives a number.
        fresh: compute again what is already there.

    Raises:
        RunError: a study failed, or a target's SQL does.
    """
    store = RunStore(cache_dir() / "runs")

    def results(name: str) -> Results:
        def report(p: Progress) -> None:
            if progress is not None:
                progress(name, p)

        study = library().study(name)
        jobs = [_shortened(job, instructions) for job in study_jobs(name, mutant)]
        return run_all(
            jobs,
            baseline=study["baseline"],
            baseline_machine=study["baseline_machine"],
            store=store,
            fresh=fresh,
            executor=executor,
            progress=report,
        )

    def tables(name: str) -> TableSet:
        kept = RunStore(cache_dir() / "experiments")
        return experiment(_broken(name, mutant), mutant=mutant, store=kept, fresh=fresh)

    known = _Tables(results, tables, mutant)
    values: Values = {}
    for target in targets:
        context = known.context(target["compute"]) if target["compute"] else None
        values[target["id"]] = None if context is None else _value(context, target, mutant)
    return values


def _broken(experiment: str, mutant: str | None) -> str:
    """Returns the experiment to use instead under a mutant."""
    name, _, argument = experiment.partition("/")
    for known in library().mutants():
        if known["name"] == mutant:
            other = known["experiments"].get(name, argument)
            argument = argument + other if other.startswith(",") else other
    return f"{name}/{argument}" if argument else name


def _shortened(job: Job, instructions: Callable[[int], int] | None) -> Job:
    """Returns the job over a changed number of instructions, if it counts them."""
    options = dict(job.options)
    if instructions is None or "instructions" not in options:
        return job
    options["instructions"] = str(instructions(int(options["instructions"])))
    pairs = tuple(options.items())
    return Job(job.world, job.workload, job.machine, job.technique, job.set, pairs, job.mutant)


def sources(compute: dict[str, Any]) -> tuple[str, ...]:
    """Returns the sources of a target's value: ``study NAME``, ``experiment NAME``, or several of
    them.
    """
    return tuple(names(compute["from"]))


TableSet = dict[str, pl.DataFrame]


class _Tables:
    """Tables that the targets' SQL may query. Each source is computed once, when it is first
    needed.
    """

    def __init__(
        self,
        results: Callable[[str], Results],
        experiments: Callable[[str], TableSet],
        mutant: str | None,
    ) -> None:
        self._results = results
        self._experiments = experiments
        self._mutant = mutant
        self._loaded: dict[str, TableSet | None] = {}
        self._contexts: dict[tuple[str, ...], pl.SQLContext[pl.DataFrame]] = {}
        self._always = _facts_and_numbers(mutant)

    def context(self, compute: dict[str, Any]) -> pl.SQLContext[pl.DataFrame] | None:
        """The tables of a target; none if under a mutant they cannot be computed any more."""
        named = sources(compute)
        if named not in self._contexts:
            tables = dict(self._always)
            for source in named:
                if source not in self._loaded:
                    self._loaded[source] = self._load(source)
                found = self._loaded[source]
                if found is None:
                    return None
                tables |= found
            self._contexts[named] = pl.SQLContext(tables, eager=True)
        return self._contexts[named]

    def _load(self, source: str) -> TableSet | None:
        kind, _, name = source.partition(" ")
        try:
            if kind == "study":
                return sql_tables(self._results(name))
            return self._experiments(name)
        except (HalfwinkError, RunError):
            if self._mutant is None:
                raise
            # Such as a network that droops too far however slowly cores wake.
            return None


def _facts_and_numbers(mutant: str | None) -> TableSet:
    """Facts of machines, and what is printed."""
    facts = [
        {"machine": name, "fact": fact, "value": value}
        for name in library().names("machines", "toml")
        for fact, value in library(mutant).machine(name, [])["facts"].items()
    ]
    numbers = [
        {"id": target["id"], "value": float(target["published"])}
        for target in library().targets()
        if isinstance(target["published"], int | float)
    ]
    return {"facts": pl.DataFrame(facts), "published": pl.DataFrame(numbers)}


def _value(
    context: pl.SQLContext[pl.DataFrame], target: dict[str, Any], mutant: str | None
) -> float | None:
    try:
        frame = context.execute(target["compute"]["sql"])
        value = frame.item()
    except (pl.exceptions.PolarsError, ValueError) as error:
        if mutant is not None:
            # Such as a share of evictions where nothing is evicted any more.
            return None
        first = str(error).splitlines()[0]
        raise RunError(
            f"target {target['id']}: its SQL does not yield one value: {first}"
        ) from error
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _entry(
    target: dict[str, Any], ours: float | None, verdict: str, null: dict[str, Any] | None
) -> dict[str, Any]:
    compute = target["compute"] or {}
    notes = [target["note"], target["anomaly"], compute.get("remark", "")]
    claim = target["unit"] == "claim"
    how = ""
    if target["compute"] is not None:
        where = ", ".join(sources(compute)) or "closed form"
        how = f"{where}: {compute['sql']}"
    return {
        "id": target["id"],
        "area": target["area"],
        "source": target["source"],
        "quantity": target["quantity"],
        "unit": target["unit"],
        "published": target["published"],
        "ours": (ours >= 0.5 if claim else ours) if ours is not None else None,
        "class": target["class"],
        "verdict": verdict,
        "held_out": target["held_out"],
        "null": null,
        "killed_by": target["killed_by"],
        "how": how,
        "note": " ".join(note for note in notes if note),
    }

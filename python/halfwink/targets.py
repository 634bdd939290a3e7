"""Published numbers beside ours."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from halfwink.batch import Progress
from halfwink.catalogue import experiment
from halfwink.errors import HalfwinkError, RunError
from halfwink.executors import Executor
from halfwink.jobs import names
from halfwink.library import cache_dir, library
from halfwink.results import Results, sweep_columns
from halfwink.store import RunStore
from halfwink.studies import run

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
#: Verdicts that ``--check`` takes for failure.
FAILURES = ("miss", "fails")


def select(targets: Sequence[dict[str, Any]], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Targets of the areas, works or id prefixes named; all if none are."""
    if not wanted:
        return list(targets)
    chosen: list[dict[str, Any]] = []
    for target in targets:
        for name in wanted:
            if name in (target["area"], target["id"].split("/")[0]) or _has_prefix(target, name):
                chosen.append(target)
                break
    for name in wanted:
        known = name in AREAS or name in WORKS or any(_has_prefix(t, name) for t in targets)
        if not known:
            raise HalfwinkError(
                f"no target, area or work `{name}`; areas: {', '.join(AREAS)}; "
                f"works: {', '.join(WORKS)}; ids: `halfwink list targets`"
            )
    return chosen


def _has_prefix(target: dict[str, Any], name: str) -> bool:
    return "/" in name and target["id"].startswith(name)


def reproduce(
    wanted: str | Sequence[str] = (),
    *,
    fresh: bool = False,
    executor: Executor | None = None,
    progress: Callable[[str, Progress], None] | None = None,
) -> list[dict[str, Any]]:
    """Computes the targets that can be, and judges each: one dict per target, as the JSON.

    Args:
        wanted: areas (``gating``), works (``strong``) or beginnings of ids; all if none.
        fresh: compute again what is already there.

    Raises:
        HalfwinkError: nothing is named so.
        RunError: a study failed, or a target's SQL does.
    """
    targets = select(library().targets(), names(wanted))
    store = RunStore(cache_dir() / "runs")

    def results(study: str) -> Results:
        def report(p: Progress) -> None:
            if progress is not None:
                progress(study, p)

        return run(study, store=store, fresh=fresh, executor=executor, progress=report).results

    tables = _Tables(results)
    ours = [
        None if target["compute"] is None else _value(tables.context(target["compute"]), target)
        for target in targets
    ]
    verdicts = library().verdicts(
        [(t["id"], value) for t, value in zip(targets, ours, strict=True)]
    )
    return [
        _entry(target, value, verdict)
        for target, value, verdict in zip(targets, ours, verdicts, strict=True)
    ]


def _sources(compute: dict[str, Any]) -> tuple[str, ...]:
    """What holds a target's value: ``study NAME``, ``experiment NAME``, or several of them."""
    return tuple(names(compute["from"]))


TableSet = dict[str, pl.DataFrame]


class _Tables:
    """What the targets' SQL may query. Each source is computed once, when it is first needed."""

    def __init__(self, results: Callable[[str], Results]) -> None:
        self._results = results
        self._loaded: dict[str, TableSet] = {}
        self._contexts: dict[tuple[str, ...], pl.SQLContext[pl.DataFrame]] = {}
        self._always = _facts_and_numbers()

    def context(self, compute: dict[str, Any]) -> pl.SQLContext[pl.DataFrame]:
        """The tables of a target."""
        sources = _sources(compute)
        if sources not in self._contexts:
            tables = dict(self._always)
            for source in sources:
                if source not in self._loaded:
                    self._loaded[source] = self._load(source)
                tables |= self._loaded[source]
            self._contexts[sources] = pl.SQLContext(tables, eager=True)
        return self._contexts[sources]

    def _load(self, source: str) -> TableSet:
        kind, _, name = source.partition(" ")
        if kind == "study":
            return _of_study(self._results(name))
        return experiment(name)


def _of_study(results: Results) -> TableSet:
    """A study's tables; of the runs, columns whose names SQL cannot spell without quotes."""
    runs = sweep_columns(results.runs)
    safe = {name: re.sub(r"\W", "_", name) for name in runs.columns}
    return results.tables | {"runs": runs.rename(safe)}


def _facts_and_numbers() -> TableSet:
    """Facts of machines, and what is printed."""
    facts = [
        {"machine": name, "fact": fact, "value": value}
        for name in library().names("machines", "toml")
        for fact, value in library().machine(name, [])["facts"].items()
    ]
    numbers = [
        {"id": target["id"], "value": float(target["published"])}
        for target in library().targets()
        if isinstance(target["published"], int | float)
    ]
    return {"facts": pl.DataFrame(facts), "published": pl.DataFrame(numbers)}


def _value(context: pl.SQLContext[pl.DataFrame], target: dict[str, Any]) -> float | None:
    try:
        frame = context.execute(target["compute"]["sql"])
        value = frame.item()
    except (pl.exceptions.PolarsError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise RunError(
            f"target {target['id']}: its SQL does not yield one value: {first}"
        ) from error
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _entry(target: dict[str, Any], ours: float | None, verdict: str) -> dict[str, Any]:
    compute = target["compute"] or {}
    notes = [target["note"], target["anomaly"], compute.get("remark", "")]
    claim = target["unit"] == "claim"
    how = ""
    if target["compute"] is not None:
        where = ", ".join(_sources(compute)) or "closed form"
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
        "how": how,
        "note": " ".join(note for note in notes if note),
    }

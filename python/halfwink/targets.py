"""Published numbers beside ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from halfwink.errors import HalfwinkError, RunError
from halfwink.hybrid import hybrid_experiments
from halfwink.jobs import Executor, Progress, RunStore
from halfwink.library import cache_dir, library, root
from halfwink.prediction import foreseen
from halfwink.profiles import foresights, os_profiles
from halfwink.results import Results, sweep_columns
from halfwink.router import router_experiments
from halfwink.studies import run
from halfwink.switching import core_switching

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
    wanted: Sequence[str] = (),
    *,
    fresh: bool = False,
    executor: Executor | None = None,
    progress: Callable[[str, Progress], None] | None = None,
) -> list[dict[str, Any]]:
    """Computes the targets that can be, and judges each: one dict per target, as the JSON.

    Raises:
        HalfwinkError: nothing is named so.
        RunError: a study failed, or a target's SQL does.
    """
    targets = select(library().targets(), wanted)
    store = RunStore(cache_dir() / "runs")

    def results(study: str) -> Results:
        def report(p: Progress) -> None:
            if progress is not None:
                progress(study, p)

        found = run(study, store=store, fresh=fresh, executor=executor, progress=report).results
        if not isinstance(found, Results):
            raise HalfwinkError(f"study `{study}` is of routers; a target reads a chip's")
        return found

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


#: What may hold a target's value: a study, a delivery network, caches of kernel profiles, a model
#: of core switching, a router, a hybrid server, the run-length predictor.
SOURCES = ("study", "network", "os_profile", "switching", "router", "hybrid", "predict")


def _sources(compute: dict[str, Any]) -> tuple[str | bool | None, ...]:
    """What holds a target's value, in the order of `SOURCES`."""
    return tuple(compute[kind] for kind in SOURCES)


Frames = dict[str, pl.DataFrame]


class _Tables:
    """What the targets' SQL may ask. Each source is computed once, when the first target asks."""

    def __init__(self, results: Callable[[str], Results]) -> None:
        self._load: dict[str, Callable[[Any], Frames]] = {
            "study": lambda name: _of_study(results(name)),
            "network": _of_network,
            "os_profile": lambda caches: _prefixed("os", os_profiles(caches=caches).frames()),
            "switching": lambda name: _prefixed("switch", core_switching(name).frames()),
            "router": lambda name: _prefixed("router", router_experiments(name).frames()),
            "hybrid": lambda name: _prefixed("hybrid", _of_hybrid(name)),
            "predict": lambda _: foresights(),
        }
        self._loaded: dict[tuple[str, str | bool], Frames] = {}
        self._contexts: dict[tuple[str | bool | None, ...], pl.SQLContext[pl.DataFrame]] = {}
        self._always = _facts_and_numbers()

    def context(self, compute: dict[str, Any]) -> pl.SQLContext[pl.DataFrame]:
        """The tables of a target."""
        key = _sources(compute)
        if key not in self._contexts:
            frames = dict(self._always)
            for kind, name in zip(SOURCES, key, strict=True):
                if name:
                    frames |= self._frames(kind, name)
            self._contexts[key] = pl.SQLContext(frames, eager=True)
        return self._contexts[key]

    def _frames(self, kind: str, name: str | bool) -> Frames:
        if (kind, name) not in self._loaded:
            self._loaded[kind, name] = self._load[kind](name)
        return self._loaded[kind, name]


def _of_hybrid(name: str) -> Frames:
    """Experiments on a hybrid server; and what the simulator foresees of the recorded prototype."""
    found = foreseen(root() / "workloads/prototype")
    gamma = pl.DataFrame({"pool": list(found.gamma), "gamma": list(found.gamma.values())})
    shipped = {"predictions": found.rows, "errors": found.errors, "gamma": gamma}
    return hybrid_experiments(name).frames() | shipped


def _prefixed(prefix: str, frames: Frames) -> Frames:
    return {f"{prefix}_{name}": frame for name, frame in frames.items()}


def _facts_and_numbers() -> Frames:
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


def _of_network(name: str) -> Frames:
    schema = {"fact": pl.String, "value": pl.Float64}
    return {"network": pl.DataFrame(library().network(name, []).facts(), schema=schema)}


def _of_study(results: Results) -> Frames:
    runs = sweep_columns(results.runs)
    safe = {name: name.replace(".", "_") for name in runs.columns}
    return {
        "runs": runs.rename(safe),
        "ledger": results.ledger,
        "counters": results.counters,
        "histograms": results.histograms,
        "calls": results.calls,
    }


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
        named = zip(SOURCES, _sources(compute), strict=True)
        parts = [kind if name is True else f"{kind} {name}" for kind, name in named if name]
        where = ", ".join(parts) or "closed form"
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

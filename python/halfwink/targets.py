"""Published numbers beside ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from halfwink.errors import HalfwinkError, RunError
from halfwink.jobs import Executor, Progress, RunStore
from halfwink.library import cache_dir, library
from halfwink.profiles import foresights, os_profiles
from halfwink.results import Results, sweep_columns
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
    tables: dict[tuple[str | bool | None, ...], pl.SQLContext[pl.DataFrame]] = {}
    ours: list[float | None] = []
    for target in targets:
        compute = target["compute"]
        if compute is None:
            ours.append(None)
            continue
        key = _sources(compute)
        if key not in tables:
            name = compute["study"]

            def report(p: Progress, name: str | None = name) -> None:
                if progress is not None:
                    progress(name or "", p)

            results = (
                run(name, store=store, fresh=fresh, executor=executor, progress=report).results
                if name
                else None
            )
            tables[key] = _context(results, compute)
        ours.append(_value(tables[key], target))
    verdicts = library().verdicts(
        [(t["id"], value) for t, value in zip(targets, ours, strict=True)]
    )
    return [
        _entry(target, value, verdict)
        for target, value, verdict in zip(targets, ours, verdicts, strict=True)
    ]


#: What may hold a target's value: a study, a delivery network, caches of kernel profiles, a model
#: of core switching, the run-length predictor.
SOURCES = ("study", "network", "os_profile", "switching", "predict")


def _sources(compute: dict[str, Any]) -> tuple[str | bool | None, ...]:
    """What holds a target's value, in the order of `SOURCES`."""
    return tuple(compute[kind] for kind in SOURCES)


def _context(results: Results | None, compute: dict[str, Any]) -> pl.SQLContext[pl.DataFrame]:
    """The tables that a target's SQL may ask."""
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
    frames: dict[str, pl.DataFrame] = {
        "facts": pl.DataFrame(facts),
        "published": pl.DataFrame(numbers),
    }
    network, caches, switches = (compute[kind] for kind in ("network", "os_profile", "switching"))
    if network is not None:
        schema = {"fact": pl.String, "value": pl.Float64}
        frames["network"] = pl.DataFrame(library().network(network, []).facts(), schema=schema)
    if caches is not None:
        profiles = os_profiles(caches=caches)
        frames |= {f"os_{name}": frame for name, frame in profiles.frames().items()}
    if switches is not None:
        tables = core_switching(switches)
        frames |= {f"switch_{name}": frame for name, frame in tables.frames().items()}
    if compute["predict"]:
        frames |= foresights()
    if results is not None:
        runs = sweep_columns(results.runs)
        safe = {name: name.replace(".", "_") for name in runs.columns}
        frames["runs"] = runs.rename(safe)
        frames["ledger"] = results.ledger
        frames["counters"] = results.counters
        frames["histograms"] = results.histograms
        frames["calls"] = results.calls
    return pl.SQLContext(frames, eager=True)


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

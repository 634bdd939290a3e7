"""Experiments by name: tables that answer a work's questions and are no study."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Settings, pairs
from halfwink.library import build_id, library, root
from halfwink.library import machines as machines_of
from halfwink.library import workloads as workloads_of
from halfwink.results.frames import frames
from halfwink.results.store import RunStore


def _recorded_prototype() -> dict[str, pl.DataFrame]:
    from halfwink.bed.prediction import recorded_prototype

    return recorded_prototype()


#: Those that are made of frames: what they are, and how to make them.
_OURS: dict[str, tuple[str, Callable[[], dict[str, pl.DataFrame]]]] = {
    "prototype": (
        "what the simulator predicts of a recorded prototype: `hybrid_predictions`, ...",
        _recorded_prototype,
    )
}


def _native() -> list[dict[str, Any]]:
    """Returns the experiments of the native module, with the values of their arguments."""
    known = {
        "fabric": library().fabrics(),
        "network": library().networks(),
        "router": library().routers(),
        "hybrid": library().servers(),
        "switching": library().switchings(),
    }
    found: list[dict[str, Any]] = []
    for entry in _core.experiments():
        what = entry["argument"]
        if entry["name"] in known:
            names = [f"{entry['name']}/{argument}" for argument in known[entry["name"]]]
        else:
            names = [f"{entry['name']}/..." if what else entry["name"]]
        title = f"{entry['title']} (...: {what})" if names[0].endswith("...") else entry["title"]
        found += [{"name": name, "title": title} for name in names]
    return found


def experiments() -> list[dict[str, Any]]:
    """Every experiment: ``name`` (``NAME/...`` where the argument is free), ``title``."""
    ours = [{"name": name, "title": title} for name, (title, _) in _OURS.items()]
    return [*_native(), *ours]


def experiment(
    name: str,
    *,
    only: Sequence[str] = (),
    set: Settings | None = None,
    mutant: str | None = None,
    store: RunStore | None = None,
    fresh: bool = False,
) -> dict[str, pl.DataFrame]:
    """Runs an experiment: its tables by name, as targets query them.

    Args:
        name: name such as ``router/westmere``; `halfwink list experiments`.
        only: tables to return, all if none is named. Where tables are made one by one, as those of
            ``preheat``, that takes less time.
        set: values of its machine to change, as ``{"power.c1_w": 9}``.
        mutant: change that breaks the machines (`halfwink.targets.mutation`).
        store: folder in which the tables are kept, and found again by the same build with the same
            machines and workloads.
        fresh: compute again what is there.

    Raises:
        HalfwinkError: there is none of that name, no such table, or a value is impossible.
        RunError: the experiment failed, or the store's disk is full.
    """
    values = pairs(set)
    if name in _OURS:
        if values:
            raise HalfwinkError(f"experiment `{name}`: expected no values to set")
        return _chosen(_OURS[name][1](), only)
    if store is None:
        return frames(library(mutant).experiment(name, values, list(only)))
    key = _key([name, *map("=".join, values)], mutant)
    if fresh or not store.has(key):
        store.save(key, library(mutant).experiment(name, values, []))
    return _chosen(frames(store.load(key)), only)


def _chosen(tables: dict[str, pl.DataFrame], only: Sequence[str]) -> dict[str, pl.DataFrame]:
    if missing := [name for name in only if name not in tables]:
        raise HalfwinkError(f"no table `{missing[0]}`; there are {', '.join(tables)}")
    return {name: tables[name] for name in only or tables}


def _key(asked: list[str], mutant: str | None) -> str:
    """Returns a key of all inputs that an experiment may read, since it does not declare them."""
    broken = [m for m in library().mutants() if m["name"] == mutant]
    text = json.dumps([asked, build_id(), _inputs(), broken], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=1)
def _inputs() -> str:
    """All machines and workloads."""
    digest = hashlib.blake2b(digest_size=16)
    for folder in ("machines", "workloads"):
        for path in sorted((root() / folder).rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(root())} {path.stat().st_size}\n".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def workloads(world: str | None = None) -> list[dict[str, Any]]:
    """Every workload, or those of one world: ``name``, ``world``, ``title``; of recorded ones what
    is in the recording, too.

    Raises:
        HalfwinkError: there is no such world.
    """
    return workloads_of(*_names(world))


def machines(world: str | None = None) -> list[dict[str, Any]]:
    """Every machine, or those of one world: ``name``, ``world``, ``title``.

    Raises:
        HalfwinkError: there is no such world.
    """
    return [{"world": name, **entry} for name in _names(world) for entry in machines_of(name)]


def _names(world: str | None) -> list[str]:
    """Returns the world, or all if it is none."""
    return [w["name"] for w in _core.worlds()] if world is None else [world]

"""Experiments by name: tables that answer a work's questions and are no study."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from halfwink import _core
from halfwink.frames import frames
from halfwink.library import library


def _recorded_prototype() -> dict[str, pl.DataFrame]:
    from halfwink.prediction import recorded_prototype

    return recorded_prototype()


#: Those that are made of frames: what they are, and how to make them.
_OURS: dict[str, tuple[str, Callable[[], dict[str, pl.DataFrame]]]] = {
    "prototype": (
        "what the simulator predicts of a recorded prototype: `hybrid_predictions`, ...",
        _recorded_prototype,
    )
}


def _native() -> list[dict[str, Any]]:
    """Those of the native module, with what their arguments can be."""
    known = {
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


def experiment(name: str) -> dict[str, pl.DataFrame]:
    """Runs an experiment: its tables by name, as targets query them.

    Args:
        name: as ``router/westmere``; `halfwink list experiments`.

    Raises:
        HalfwinkError: there is none of that name.
        RunError: it failed.
    """
    if name in _OURS:
        return _OURS[name][1]()
    return frames(library().experiment(name))

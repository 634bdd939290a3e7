"""Access to machines, workloads, studies and targets."""

from __future__ import annotations

import hashlib
import os
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from halfwink import _core, installed
from halfwink.errors import HalfwinkError

_MEND = "install the package again, or set HALFWINK_HOME to a clone"


@lru_cache(maxsize=1)
def root() -> Path:
    """The folder that holds them: see `halfwink.installed.data`."""
    folder = installed.data()
    if folder is None:
        named = os.environ.get("HALFWINK_HOME")
        where = f"$HALFWINK_HOME ({named})" if named else f"{Path(__file__).parent / 'data'}"
        raise HalfwinkError(f"no machines, workloads, studies and targets in {where}; {_MEND}")
    return folder


@lru_cache(maxsize=16)
def library(mutant: str | None = None) -> _core.Library:
    """Everything that can be named; under a mutant with machines broken as it says.

    Raises:
        HalfwinkError: there is no such mutant.
    """
    if mutant is not None:
        return library().mutated(mutant)
    return _core.Library(str(root()))


@lru_cache
def declared(world: str) -> dict[str, Any]:
    """Returns what `halfwink._core.worlds` has of a world; empty if there is no such world."""
    return next((known for known in _core.worlds() if known["name"] == world), {})


def workloads(*worlds: str) -> list[dict[str, Any]]:
    """Workloads of worlds: ``world``, ``name``, ``title``; of recorded ones what is in the
    recording, too.

    Raises:
        HalfwinkError: there is no such world.
    """
    # Read once for all worlds: it parses the header of every recording.
    known = {(info["name"], info["description"]): info for info in library().workloads()}
    return [
        {"world": world, **known.get((name, title), {}), "name": name, "title": title}
        for world in worlds
        for name, title in library().workloads_of(world)
    ]


def workload_names(world: str) -> list[str]:
    """Returns the names of a world's workloads.

    Raises:
        HalfwinkError: there is no such world.
    """
    return [name for name, _ in library().workloads_of(world)]


def trace_file(given: Path) -> Path:
    """A trace by its path, or that of a recorded workload by its name; a file comes first.

    Raises:
        HalfwinkError: the name is neither.
    """
    if given.exists() or given.suffix or len(given.parts) != 1:
        return given
    folder = root() / "workloads"
    recorded = folder / f"{given}.hwt"
    if recorded.exists():
        return recorded
    known = sorted(path.stem for path in folder.glob("*.hwt"))
    near = get_close_matches(str(given), known, 1)
    hint = f"did you mean `{near[0]}`?" if near else "`halfwink list workloads` shows those"
    if installed.clone() is None:
        hint += f"; there are more in: {installed.fix('workloads')}"
    raise HalfwinkError(f"{given}: neither a file nor a recorded workload; {hint}")


def machines(world: str) -> list[dict[str, Any]]:
    """Machines of a world: ``name``, ``title``; raises HalfwinkError if there is no such world."""
    return [{"name": name, "title": title} for name, title in library().machines_of(world)]


@lru_cache(maxsize=1)
def build_id() -> str:
    """Identifies the native module: results of another build are not reused."""
    return hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()[:16]


def cache_dir() -> Path:
    """Returns the folder in which results of ``reproduce`` and guests of ``capture`` are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "halfwink"

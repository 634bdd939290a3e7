"""Location of this package, in a clone or installed, and the ways to add missing parts.

A clone holds everything. An installed package holds ``halfwink/data``, laid out like a clone, to
which ``halfwink-workloads`` and ``halfwink-capture`` add; ``halfwink-live`` adds programs and their
native module.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Literal

from halfwink.errors import HalfwinkError

Part = Literal["live", "workloads", "capture"]

FOLDERS = ("machines", "workloads", "studies", "targets")
_PACKAGE = Path(__file__).resolve().parent
_looking = ContextVar("looking", default=False)


def _holds(folder: Path) -> bool:
    return all((folder / name).is_dir() for name in FOLDERS)


def clone() -> Path | None:
    """The repository of which this package is ``python/halfwink``, if it is of one."""
    folder = _PACKAGE.parents[1]
    return folder if _PACKAGE.parent.name == "python" and _holds(folder) else None


def data() -> Path | None:
    """Returns the folder of machines, workloads, studies and targets: ``$HALFWINK_HOME``, the
    clone, or this package, in this order; None if it has none.
    """
    named = os.environ.get("HALFWINK_HOME")
    folder = Path(named) if named else clone() or _PACKAGE / "data"
    return folder if _holds(folder) else None


def program(name: str) -> Path | None:
    """Returns a program of ``halfwink-live``, beside this Python or on the path; builds it in a
    clone that has not built its live programs yet."""
    found = _program(name)
    if found is None and name.startswith("halfwink-") and _make_live():
        found = _program(name)
    return found


def _program(name: str) -> Path | None:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return Path(found) if found is not None else None


@contextmanager
def only_looking() -> Generator[None]:
    """Builds nothing in here: for `halfwink doctor`, which says what is missing."""
    token = _looking.set(True)
    try:
        yield
    finally:
        _looking.reset(token)


def _make_live() -> bool:
    """Builds the live programs of a clone, which `make demo` leaves out; returns whether it did."""
    folder = None if _looking.get() else clone()
    made = folder is not None and any((folder / ".venv").glob(".native.*"))
    if folder is None or not made or shutil.which("cargo") is None or shutil.which("make") is None:
        return False
    print("halfwink: building the live programs (once, some minutes)", file=sys.stderr)
    make = ["make", "--no-print-directory", "--silent", "live"]
    return subprocess.run(make, cwd=folder, stdout=sys.stderr, check=False).returncode == 0


@cache
def live_module() -> ModuleType:
    """The native module of ``halfwink-live``.

    Raises:
        HalfwinkError: the module is missing, with the line that adds it.
    """
    if find_spec("halfwink._live") is None and not _make_live():
        raise HalfwinkError(missing("the native module of the live parts"))
    invalidate_caches()
    module = import_module("halfwink._live")
    # Loaded when a description names a module, which few do.
    module.play_modules(_PACKAGE / "_native" / "libhalfwink_wasm.so")
    return module


def preload_library(name: str) -> Path:
    """A library of ``halfwink-live``.

    Raises:
        HalfwinkError: the library is missing, with the line that adds it.
    """
    path = _PACKAGE / "_native" / name
    if not path.exists() and not _make_live():
        raise HalfwinkError(missing(str(path)))
    return path


def missing(what: str) -> str:
    """Returns the message that a part of ``halfwink-live`` is missing, with the way to add it."""
    return f"{what} is missing; run: {fix('live')}"


def fix(part: Part) -> str:
    """The line that adds a part: a clone builds it, a package has it from another one."""
    if clone() is None:
        return f"pip install halfwink-{part}"
    return "make live" if part == "live" else "git restore capture workloads"

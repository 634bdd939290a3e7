"""Folders in the cache that last as long as who made them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from . import paths

_PREFIXES = ("building-", "capture-", "record-", "run-")
_MOUNTS = Path("/proc/self/mountinfo")


@contextmanager
def folder(prefix: str) -> Generator[Path]:
    """A folder in the cache, removed at the end; leftovers of killed runs are removed first.

    Its maker holds a lock on it, which ends with its process: a folder nobody holds is left over.

    Args:
        prefix: prefix of the folder's name, one of `building-`, `capture-`, `record-`, `run-`.
    """
    assert prefix in _PREFIXES
    paths.make_cache()
    with contextlib.ExitStack() as held:
        with _locked(paths.cache()):
            _sweep()
            made = held.enter_context(tempfile.TemporaryDirectory(dir=paths.cache(), prefix=prefix))
            held.enter_context(_locked(Path(made)))
        yield Path(made)


@contextmanager
def alone(name: str) -> Generator[None]:
    """Holds the lock of something in the cache that is built once: a process that comes meanwhile
    waits, and finds it built.

    Args:
        name: of what is built.
    """
    paths.make_cache()
    # Readable by all: the one who holds it may be root, working for another user.
    flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC
    handle = os.open(paths.cache() / f"{name}.lock", flags, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _locked(path: Path, *, wait: bool = True) -> Generator[None]:
    """Holds the lock of a folder; raises BlockingIOError where another holds it and ``wait`` is
    not set."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(handle)


def _sweep() -> None:
    mounted = [Path(line.split()[4]) for line in _MOUNTS.read_text().splitlines()]
    for path in paths.cache().iterdir():
        if path.name.startswith(_PREFIXES) and path.is_dir():
            # Held by another run, or gone meanwhile: let be.
            with contextlib.suppress(OSError), _locked(path, wait=False):
                # A guest's root has its own /proc while it is built. What is mounted is never
                # removed file by file.
                within = [point for point in mounted if point.is_relative_to(path.resolve())]
                if all(_unmount(point) for point in reversed(within)):
                    shutil.rmtree(path, ignore_errors=True)


def _unmount(point: Path) -> bool:
    done = subprocess.run(["umount", str(point)], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0

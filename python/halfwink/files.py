"""Files that are whole or not there, and the folders that they are in."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from halfwink.errors import HalfwinkError
from halfwink.remote import URL, Remote

#: A file or a folder of results: of this machine, or at a URL.
Place: TypeAlias = "Path | Remote"


def place(given: Place | str) -> Place:
    """Returns a path unchanged, and for a text the path or URL that it names; ``file:///FOLDER`` is
    a path.

    Raises:
        HalfwinkError: the URL is of a kind that cannot be reached, in one line.
        RunError: the server does not answer, where that is checked at once.
    """
    if not isinstance(given, str):
        return given
    if given.startswith("file://"):
        path = Path(given.removeprefix("file://"))
        if not path.is_absolute():
            raise HalfwinkError(f"{given}: expected a whole path, as file:///FOLDER")
        return path
    return Remote.at(given) if URL.match(given) else Path(given).expanduser()


def check_drawing(path: Path, kinds: Iterable[str]) -> None:
    """Checks that a drawing can go into a file of this name, before anything is played.

    Raises:
        HalfwinkError: drawings are of no such kind, or the folder is not there.
    """
    if path.suffix not in kinds:
        raise HalfwinkError(f"{path}: expected a name that ends in {', '.join(kinds)}")
    if not path.expanduser().parent.is_dir():
        raise HalfwinkError(f"{path}: there is no folder {path.parent}")


def make_folder(folder: Place) -> None:
    """Makes a folder and those above it, if they are not there; raises OSError."""
    if isinstance(folder, Remote):
        folder.mkdir()
    else:
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Names this file in errors of the system: a full disk names none, other errors a partial
    file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def append_line(path: Path, line: str) -> None:
    """Appends a line in one write, so that lines of several processes do not mix; raises OSError
    with the name of the file."""
    with naming(path), path.open("ab", buffering=0) as out:
        out.write(line.encode())


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Gives a file beside another that takes its place at the end, or goes away on an error. What
    stands there keeps its permissions, and a symbolic link to it stays one."""
    target = Path(os.path.realpath(path))
    before = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    # Its name is known before it is made: wherever a signal interrupts this, it is taken away.
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        # Until it has the permissions, nobody else reads it.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600))
        yield partial
        if before is not None:
            partial.chmod(before)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Place, content: str | bytes) -> None:
    """Writes a file so that it is either complete or as it was; raises OSError with its name."""
    data = content.encode() if isinstance(content, str) else content
    if isinstance(path, Remote):
        path.write_whole(data)
        return
    if path.exists() and not path.is_file():
        # A device or a pipe is written to, not replaced.
        with naming(path), path.open("wb", buffering=0) as out:
            out.write(data)
        return
    with naming(path), replacing(path) as partial:
        partial.write_bytes(data)

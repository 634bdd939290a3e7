"""The user's own program: what has to be copied into the guest for it to run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from .errors import WrongUseError

_ELF = b"\x7fELF"
_START_MARKER = b"\x0f\x1f\x80\x01HWT"
#: Where a command runs in the guest.
_HOME = "root"
#: From where the guest copies files to their places once its own file systems are mounted.
_FILES = "halfwink/files"
#: Not files of this machine.
_NOT_COPIED = ("/dev/", "/proc/", "/sys/", "/run/")
#: Bytes of files that may come along: the guest's memory holds them twice while it boots.
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Program:
    """A command, and the host's files that go with it."""

    command: list[str]
    """As it is started in the guest."""
    files: dict[str, Path] = field(default_factory=dict[str, Path])
    """Files to copy: where to, from where."""
    starts_itself: bool = False
    """It executes the start marker itself: recording must not begin before."""


def locate(command: list[str], *, own_root: bool) -> Program:
    """Decides whether the command is a program of this machine or one that the guest has.

    A path (with a slash) that exists here is copied with its libraries; a bare name is looked up in
    the guest. Files of this machine that arguments name are copied to where the program looks for
    them. With a root file system of the user's own, everything is in the guest.

    Raises:
        WrongUseError: there is no such program, or files are too large; one line.
    """
    if not command or not command[0]:
        raise WrongUseError("no command given: expected `-- COMMAND [ARGUMENT...]`")
    if own_root:
        return Program(command)
    named = arguments(command[1:])
    if "/" not in command[0]:
        return Program(command, named)
    path = Path(command[0])
    if not path.is_file():
        raise WrongUseError(
            f"{command[0]}: no such file here; for a program of the guest give its bare name"
        )
    if not os.access(path, os.X_OK):
        raise WrongUseError(f"{command[0]}: not executable")
    place = f"halfwink/own/{path.name}"
    files = named | {place: path.resolve()}
    content = path.read_bytes()
    if content.startswith(_ELF):
        files |= libraries(path)
    return Program([f"/{place}", *command[1:]], files, _START_MARKER in content)


def arguments(words: list[str]) -> dict[str, Path]:
    """Files of this machine that words of a command line name: where to, from where."""
    files: dict[str, Path] = {}
    for word in words:
        path = Path(word)
        if ".." in path.parts or word.startswith(_NOT_COPIED) or not path.is_file():
            continue
        place = word.lstrip("/") if path.is_absolute() else f"{_HOME}/{path}"
        files[f"{_FILES}/{place}"] = path.resolve()
    count = sum(path.stat().st_size for path in files.values())
    if count > MOST_BYTES:
        raise WrongUseError(
            f"files that the command names have {count / (1 << 20):.0f} MB: expected at most "
            f"{MOST_BYTES >> 20} MB, for the guest's memory"
        )
    return files


def libraries(path: Path) -> dict[str, Path]:
    """The libraries and the loader of a dynamic program, by `ldd`."""
    ldd = shutil.which("ldd")
    if ldd is None:
        raise WrongUseError("ldd is missing: link the program statically")
    done = subprocess.run([ldd, str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {}  # static
    return parse_ldd(done.stdout)


def parse_ldd(output: str) -> dict[str, Path]:
    """Returns the libraries that `ldd` lists: paths in the guest and on this machine."""
    files: dict[str, Path] = {}
    for line in output.splitlines():
        if "not found" in line:
            raise WrongUseError(f"a library of the program is missing: {line.split()[0]}")
        match = re.search(r"(/\S+) \(0x", line)
        if match:
            path = Path(match.group(1))
            files[str(path).removeprefix("/")] = path.resolve()
    return files

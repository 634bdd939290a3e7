"""The one way in for files that a user hands over: regular files or standard input, unpacked by
what they hold, within a budget.

from halfwink import inputs

text = inputs.read_text("~/day.csv.xz")
"""

from __future__ import annotations

import os
from typing import TypeAlias

from halfwink import _core
from halfwink.errors import HalfwinkError

#: What names a file; ``-`` is standard input, ``~`` the home folder.
Name: TypeAlias = "str | os.PathLike[str]"
#: Bytes of an input, unpacked, at most.
MOST_BYTES = 1 << 30


def read_bytes(path: Name, most: int = MOST_BYTES) -> bytes:
    """All of a file, unpacked: gzip, xz, Zstandard, bzip2, and a tar of one file.

    Raises:
        HalfwinkError: it is not there, no regular file, damaged, or has more than ``most`` bytes.
    """
    return _core.read_input(os.fspath(path), most, text=False)


def read_text(path: Name, most: int = MOST_BYTES) -> str:
    """The same as text: UTF-8, or UTF-16 with a byte order mark.

    Raises:
        HalfwinkError: as of :func:`read_bytes`, or it is no text.
    """
    content = _core.read_input(os.fspath(path), most, text=True)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise HalfwinkError(
            f"{os.fspath(path)}: byte {error.start} is no text, expected UTF-8"
        ) from None

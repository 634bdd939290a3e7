"""``--set PATH=VALUE``: values of a description to change for one run."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from halfwink.errors import HalfwinkError

#: A second setting in what should be one value.
_FURTHER = re.compile(r",\s*[a-z_][a-z0-9_.]*=")

Setting = Annotated[list[str] | None, Parameter(name="--set", negative="", consume_multiple=False)]

#: Text, not a path: a `/` at its end says that it is a folder.
Log = Annotated[str | None, Parameter(name="--log")]


def settings(given: list[str] | None) -> list[tuple[str, str]]:
    """Paths and values; raises HalfwinkError in one line if something is neither."""
    pairs: list[tuple[str, str]] = []
    for item in given or []:
        path, equals, value = item.partition("=")
        if not equals or not path or not value:
            raise HalfwinkError(f"--set {item}: expected PATH=VALUE, as gating.wake_up_ns=16")
        if value[0] not in "[{\"'" and _FURTHER.search(value):
            raise HalfwinkError(f"--set {item}: expected one value; give --set once for each")
        if before := dict(pairs).get(path):
            twice = f"--set {path}={before} and --set {path}={value}"
            raise HalfwinkError(f"given twice: {twice}; expected it once")
        pairs.append((path, value))
    return pairs


def split_techniques(text: str | None) -> list[str] | None:
    """Techniques separated by commas, each with its parameters: ``tap:wake=last,oracle``.

    A part that is `NAME=VALUE` goes on with the parameters of the technique before it.
    """
    if not text:
        return None
    names: list[str] = []
    for part in text.split(","):
        if names and ":" in names[-1] and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names

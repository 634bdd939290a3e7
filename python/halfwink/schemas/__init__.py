"""Schemas of the command line's JSON documents: a JSON Schema of each kind.

A document names its kind and version itself, as ``{"schema": "halfwink.compare/1", ...}``. Within a
version keys may come, and none goes or changes its meaning; a reader passes over what it does not
know. The schemas are files beside this one, one for each kind.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from halfwink.errors import HalfwinkError


def kinds() -> list[str]:
    """Kinds of documents, as ``compare`` or ``trace.info``, sorted."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))


@cache
def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind.

    Raises:
        HalfwinkError: there is no such kind.
    """
    file = resources.files(__name__).joinpath(f"{kind}.json")
    if not file.is_file():
        raise HalfwinkError(f"no JSON document `{kind}`: expected one of {', '.join(kinds())}")
    return json.loads(file.read_text())


def kind_of(document: Any) -> str | None:
    """The kind that a document names; None if it names none of ours."""
    named = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(named, str) or not named.startswith("halfwink."):
        return None
    return named.removeprefix("halfwink.").rpartition("/")[0]

"""Schemas of the command line's JSON documents: a JSON Schema of each kind.

A document names its kind and version itself, as ``{"schema": "halfwink.compare/1", ...}``. Within a
version keys may come, and none goes or changes its meaning; a reader passes over what it does not
know. The schemas are made from the declarations in the modules of this package; each key has a
description with its unit, in ``words.toml``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from halfwink.errors import HalfwinkError

if TYPE_CHECKING:
    from halfwink.schemas.parts import Node

#: Version of all documents: it changes when a key goes or changes its meaning.
VERSION = 1
#: Modules that declare documents.
_AREAS = (
    "advising",
    "studying",
    "listing",
    "tracing",
    "modelling",
    "storing",
    "switching_circuits",
    "routing",
    "steering",
    "placing",
)


@cache
def _documents() -> dict[str, Node]:
    found: dict[str, Node] = {}
    for area in _AREAS:
        found |= import_module(f"{__name__}.{area}").DOCUMENTS
    return found


def kinds() -> list[str]:
    """Kinds of documents, as ``compare`` or ``trace.info``, sorted."""
    return sorted(_documents())


@cache
def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind.

    Raises:
        HalfwinkError: there is no such kind.
    """
    if kind not in _documents():
        raise HalfwinkError(f"no JSON document `{kind}`: expected one of {', '.join(kinds())}")
    document = _documents()[kind]
    held = document.shape
    name = f"halfwink.{kind}/{VERSION}"
    const = {"description": "Kind and version of the document.", "const": name}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": document.about,
        **held,
        "properties": {"schema": const, **held["properties"]},
        "required": ["schema", *held["required"]],
    }


def kind_of(document: Any) -> str | None:
    """The kind that a document names; None if it names none of ours."""
    named = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(named, str) or not named.startswith("halfwink."):
        return None
    return named.removeprefix("halfwink.").rpartition("/")[0]

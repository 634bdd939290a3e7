"""Schemas of the command line's JSON documents: a JSON Schema of each kind.

Most commands print ``halfwink.tables/1``: tables with the name, unit, kind and description of each
column, single values and a verdict. Others have kinds of their own.

A document names its kind and version itself, as ``{"schema": "halfwink.compare/1", ...}``. Within a
version keys may come, and none goes or changes its meaning; a reader passes over what it does not
know. The schemas are made from the declarations in the modules of this package; each key has a
description with its unit, in ``words.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from halfwink.errors import HalfwinkError

if TYPE_CHECKING:
    from halfwink.schemas.parts import Node
    from halfwink.schemas.tables import Rows, Tables

#: Version of all documents: it changes when a key goes or changes its meaning.
VERSION = 1
#: Modules that declare documents.
_AREAS = (
    "tables",
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
        found |= getattr(import_module(f"{__name__}.{area}"), "DOCUMENTS", {})
    return found


@cache
def _tables() -> dict[str, Tables]:
    found: dict[str, Tables] = {}
    for area in _AREAS:
        found |= getattr(import_module(f"{__name__}.{area}"), "TABLES", {})
    return found


def kinds() -> list[str]:
    """Kinds of documents, as ``compare`` or ``trace.info``, sorted."""
    return sorted(_documents())


def commands() -> list[str]:
    """Commands that print a document ``tables``, sorted."""
    return sorted(_tables())


def of_command(command: str) -> str:
    """The name of the schema of what a command prints: ``tables.trace.caches``."""
    return "tables." + command.replace(" --", " ").replace(" ", ".")


@cache
def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind, or of what a command prints as ``tables``:
    ``tables.`` and the command as its document has it, or as :func:`of_command` writes it.

    Raises:
        HalfwinkError: there is no such kind.
    """
    known = {of_command(command): command for command in commands()}
    asked = kind.removeprefix("tables.")
    command = known.get(kind if asked == kind else of_command(asked))
    if command is None and kind not in _documents():
        others = ", ".join((*kinds(), *known))
        raise HalfwinkError(f"no JSON document `{kind}`: expected one of {others}")
    document = _documents()[kind] if command is None else _declared(command).node(command)
    kind = kind if command is None else "tables"
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


def filled(
    command: str, tables: Mapping[str, Rows], facts: Mapping[str, Any], verdict: Sequence[str] = ()
) -> dict[str, Any]:
    """The content of a document ``tables``: columns come from the command's declaration."""
    from halfwink.schemas.tables import filled

    return filled(command, _declared(command), tables, facts, verdict)


def _declared(command: str) -> Tables:
    if command not in _tables():
        raise HalfwinkError(
            f"`{command}` prints no tables as JSON: expected one of {', '.join(commands())}"
        )
    return _tables()[command]

"""Notation in which documents are declared: members by name, with their types.

A name has one type and one description wherever it stands, in ``words.toml``; its ending is its
unit. A member that differs from that is declared where it stands.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

#: JSON types by the sections of ``words.toml`` that hold the names of such members.
TYPES: dict[str, dict[str, Any]] = {
    "number": {"type": ["number", "null"]},
    "real": {"type": "number"},
    "integer": {"type": "integer"},
    "integer_or_null": {"type": ["integer", "null"]},
    "text": {"type": "string"},
    "text_or_null": {"type": ["string", "null"]},
    "flag": {"type": "boolean"},
    "any_scalar": {"type": ["boolean", "number", "string"]},
    "part": {},
}
#: Section of names of tables.
TABLE = "table"
#: Units by the endings of names.
UNITS = {
    "j_per_unit": "joules",
    "j_per_instruction": "joules",
    "j_per_gb": "joules per gigabyte",
    "uj_per_io": "microjoules",
    "per_s": "per second",
    "pct": "per cent",
    "percent": "per cent",
    "ps": "picoseconds",
    "ns": "nanoseconds",
    "us": "microseconds",
    "ms": "milliseconds",
    "s": "seconds",
    "hours": "hours",
    "uj": "microjoules",
    "j": "joules",
    "kwh": "kilowatt-hours",
    "kw": "kilowatts",
    "w": "watts",
    "kib": "KiB",
    "gb": "gigabytes",
    "bytes": "bytes",
    "gbps": "gigabits per second",
    "pps": "packets per second",
    "ghz": "gigahertz",
}
#: What stands before a unit where the other numbers of an interval have it too.
_ENDS = re.compile(r"_(low|high)(?=_|$)")


@dataclass(frozen=True)
class Node:
    """A value of a document.

    Attributes:
        shape: JSON Schema of it, without its description.
        about: description; that of its name if empty.
        is_optional: true if documents may lack it.
    """

    shape: dict[str, Any] = field(default_factory=dict[str, Any])
    about: str = ""
    is_optional: bool = False

    def called(self, about: str) -> Node:
        """Returns the same value under a description of its own."""
        return replace(self, about=about)

    def optional(self) -> Node:
        """Returns the same value for documents that may lack it."""
        return replace(self, is_optional=True)

    def or_null(self) -> Node:
        """Returns the same value, or null."""
        return replace(self, shape={**self.shape, "type": [self.shape["type"], "null"]})

    def closed(self) -> Node:
        """Returns the same object without any member beside those that are declared."""
        return replace(self, shape={**self.shape, "additionalProperties": False})

    def with_columns(self) -> Node:
        """Returns the same row with whatever further columns a world or a question has."""
        return replace(self, shape={**self.shape, "additionalProperties": {}})

    def listed(self) -> Node:
        """Returns a list of such values."""
        return Node({"type": "array", "items": self.shape})

    def by_name(self) -> Node:
        """Returns an object whose keys are names and whose values are such values."""
        return Node({"type": "object", "additionalProperties": self.shape})


NUMBER, REAL, INTEGER, COUNT, TEXT, NOTE, FLAG, SCALAR = (
    Node(TYPES[name])
    for name in (
        "number",
        "real",
        "integer",
        "integer_or_null",
        "text",
        "text_or_null",
        "flag",
        "any_scalar",
    )
)
LIST, OBJECT = Node({"type": "array"}), Node({"type": "object"})


@cache
def _sections() -> dict[str, dict[str, str]]:
    text = resources.files(__package__ or __name__).joinpath("words.toml").read_text()
    return tomllib.loads(text)


@cache
def words() -> dict[str, tuple[str, str]]:
    """Type and description of each name."""
    held = {kind: names for kind, names in _sections().items() if kind != TABLE}
    return {name: (kind, about) for kind, names in held.items() for name, about in names.items()}


def table_words() -> dict[str, str]:
    """Description of each name of a table."""
    return _sections()[TABLE]


def unit(name: str) -> str:
    """Returns the unit that a name ends in; empty if it has none."""
    bare = _ENDS.sub("", name)
    return next((u for end, u in UNITS.items() if bare == end or bare.endswith(f"_{end}")), "")


def described(name: str, about: str = "") -> str:
    """Returns a description with its unit.

    Raises:
        KeyError: the name has no description.
    """
    text = about or words().get(name, ("", ""))[1]
    if not text:
        base = _ENDS.sub("", name)
        if base == name or base not in words():
            raise KeyError(f"`{name}` has no description: expected a line of it in words.toml")
        end = "Lower" if "_low" in name else "Upper"
        text = f"{end} end of the interval of `{base}`."
    of = unit(name)
    if not of or re.search(rf"\b{re.escape(of)}\b", text, re.IGNORECASE):
        return text
    first, mark, rest = text.partition(";")
    with_unit = f"{first.rstrip('.')}, {of if of == 'per second' else f'in {of}'}"
    return with_unit + (mark + rest if mark else ".")


def member(name: str, node: Node | None = None) -> dict[str, Any]:
    """Returns the schema of a member, with its description."""
    if node is None:
        kind = words().get(name) or words()[_ENDS.sub("", name)]
        node = Node(TYPES[kind[0]])
    return {"description": described(name, node.about), **node.shape}


def part(names: str = "", /, **nodes: Node) -> Node:
    """An object: members whose type is that of their name, and others. A question mark follows
    names that it may lack; an underscore is stripped from the end of Python's own words."""
    inner: dict[str, dict[str, Any]] = {}
    needed: list[str] = []
    for word in names.split():
        name = word.removesuffix("?")
        inner[name] = member(name)
        needed += [name] if name == word else []
    for word, node in nodes.items():
        name = word.removesuffix("_")
        inner[name] = member(name, node)
        needed += [] if node.is_optional else [name]
    return Node({"type": "object", "properties": inner, "required": needed})


def choice(*values: str | None) -> Node:
    """One of some texts."""
    return Node({"enum": list(values)})


def document(about: str, names: str = "", /, **nodes: Node) -> Node:
    """A document: the command that prints it with what it holds, then as of :func:`part`."""
    return part(names, **nodes).called(about)

"""The document ``tables``: tables of results and single values, whatever command prints them.

What a command prints is declared once, in the area of its documents; columns of a printed document,
its schema and the reference of the site follow from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from halfwink.schemas.parts import (
    NOTE,
    OBJECT,
    TEXT,
    Node,
    choice,
    described,
    document,
    part,
    table_words,
    unit,
)

if TYPE_CHECKING:
    import polars as pl

    #: Rows of a table.
    Rows = pl.DataFrame | Sequence[Mapping[str, Any]]

#: Kinds of columns by the JSON types of their values.
KINDS = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "flag",
    "array": "list",
    "object": "object",
}
#: JSON types by the beginnings of types of data frames' columns.
FRAMES = {
    "Str": "string",
    "Int": "integer",
    "UInt": "integer",
    "Float": "number",
    "Bool": "boolean",
}
COLUMN = part(
    "name about",
    unit=NOTE.called("Unit of the values; null if they have none or it differs by row."),
    kind=choice(*KINDS.values(), "any").called("Kind of the values; each of them may be null."),
)
#: Rows whose columns the reader chooses.
FREE = part().with_columns()


def _table(row: Node, about: str = "") -> Node:
    """Returns a table of such rows."""
    return part(columns=COLUMN.listed(), rows=row.listed()).called(about)


def _document(about: str, names: Node, tables: Node, facts: Node) -> Node:
    """Returns a document of these tables and facts."""
    return document(about, command=names, tables=tables, facts=facts, verdict=TEXT.listed())


DOCUMENTS = {
    "tables": _document(
        "halfwink COMMAND --json, of each command below: its tables, single values and verdict",
        TEXT,
        _table(OBJECT).by_name(),
        OBJECT,
    )
}


@dataclass(frozen=True)
class Tables:
    """Output of a command as a document ``tables``.

    Attributes:
        about: description of the output.
        facts: single values.
        rows: a row of each table.
    """

    about: str
    facts: Node
    rows: dict[str, Node]

    def node(self, command: str) -> Node:
        """Returns the document as this command prints it: no other table, column or fact."""
        inner: dict[str, Node] = {}
        for name, row in self.rows.items():
            is_open = "additionalProperties" in row.shape
            table = _table(row if is_open else row.closed(), table_words()[name])
            inner[name] = table.optional() if row.is_optional else table
        facts = self.facts
        facts = facts if "additionalProperties" in facts.shape else facts.closed()
        about = f"halfwink {command}: {self.about}"
        return _document(about, choice(command), part(**inner).closed(), facts)

    def columns(self, table: str, seen: Mapping[str, str], names: Sequence[str]) -> Any:
        """Returns name, unit, kind and description of each column: of these, or of those that every
        row has if there are none."""
        row = self.rows[table].shape
        held = {name: row["properties"].get(name) for name in names or row["required"]}
        return [column(name, shape or {"type": seen.get(name, ())}) for name, shape in held.items()]


def tables(about: str, facts: str | Node = "", /, **rows: Node) -> Tables:
    """Output of a command: what it is, its facts, and a row of each table."""
    return Tables(about, facts if isinstance(facts, Node) else part(facts), rows)


def column(name: str, shape: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns name, unit, kind and description of a column."""
    types = shape.get("type", "string" if "enum" in shape else ())
    held = [types] if isinstance(types, str) else [word for word in types if word != "null"]
    try:
        about = shape.get("description") or described(name)
    except KeyError:
        about = "Column that was asked for."
    kind = KINDS[held[0]] if len(held) == 1 else "any"
    return {"name": name, "unit": unit(name) or None, "kind": kind, "about": about}


def filled(
    command: str,
    declared: Tables,
    found: Mapping[str, Rows],
    facts: Mapping[str, Any],
    verdict: Sequence[str],
) -> dict[str, Any]:
    """Returns the document of a command, with columns from its declaration."""
    held: dict[str, Any] = {}
    for table, given in found.items():
        seen: dict[str, str] = {}
        if isinstance(given, Sequence):
            rows = [dict(row) for row in given]
            names = list(dict.fromkeys(name for row in rows for name in row))
        else:
            rows, names = given.to_dicts(), given.columns
            kinds = {name: str(kind) for name, kind in given.schema.items()}
            for begin, word in FRAMES.items():
                seen |= {name: word for name, kind in kinds.items() if kind.startswith(begin)}
        held[table] = {"columns": declared.columns(table, seen, names), "rows": rows}
    return {"command": command, "tables": held, "facts": dict(facts), "verdict": list(verdict)}

"""Tables of the native module as data frames. Their columns have types: nothing is guessed here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import Any

import polars as pl

from halfwink.results.store import Columns, Tables

#: The data frame's type for each kind of column. A missing value is null in any of them.
KINDS: dict[str, type[pl.DataType]] = {
    "text": pl.String,
    "integer": pl.Int64,
    "real": pl.Float64,
}


def frame(columns: Columns) -> pl.DataFrame:
    """A table of the native module; without rows it still has its columns and their types."""
    return pl.DataFrame(
        [pl.Series(name, values, dtype=KINDS[kind]) for name, kind, values in columns]
    )


def frames(tables: Tables) -> dict[str, pl.DataFrame]:
    """All tables by name."""
    return {name: frame(columns) for name, columns in tables.items()}


class Stack:
    """Tables of the same columns, one upon the other, each row led by whose it is."""

    def __init__(self, identity: tuple[str, ...]) -> None:
        self._identity = identity
        self._whose: list[tuple[str, ...]] = []
        self._heights: list[int] = []
        self._columns: dict[tuple[str, str], list[Any]] = {}

    def push(self, whose: tuple[str, ...], columns: Columns) -> None:
        """Adds a table; its own columns of the identity's names give way to what is said here."""
        self._whose.append(whose)
        self._heights.append(len(columns[0][2]) if columns else 0)
        for name, kind, values in columns:
            if name not in self._identity:
                self._columns.setdefault((name, kind), []).extend(values)

    def frame(self) -> pl.DataFrame:
        """Returns all rows of the table."""
        heights = pl.Series(self._heights, dtype=pl.Int64)
        who = [
            pl.Series(name, [w[n] for w in self._whose], dtype=pl.String)
            for n, name in enumerate(self._identity)
        ]
        led = pl.DataFrame(who).select(pl.all().repeat_by(heights).explode())
        if not any(self._heights):
            led = led.clear()
        body = frame([(name, kind, values) for (name, kind), values in self._columns.items()])
        return led.hstack(body)


def titled(name: str, frame: pl.DataFrame) -> str:
    """A table for notebooks, under its name; nothing if it has no rows."""
    if frame.is_empty():
        return ""
    shown: Any = frame
    return f"<h4>{escape(name)}</h4>{shown._repr_html_()}"


@dataclass(frozen=True)
class Frames:
    """A dataclass whose fields are all tables."""

    def frames(self) -> dict[str, pl.DataFrame]:
        """All tables by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _repr_html_(self) -> str:
        return "".join(titled(name, frame) for name, frame in self.frames().items())

"""Data of a page's charts: columns in place of rows, and each run's values once for all charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfwink.results.relate import IDENTITY

Row = dict[str, Any]
Spec = dict[str, Any]

#: Rows of a chart's data above which it is drawn as pixels: each mark of a vector image is an
#: element of the page, and thousands of them take seconds.
CANVAS_ROWS = 600


def renderer(spec: Spec) -> str:
    """Returns vega-embed's renderer of a chart, by the rows of its data."""
    rows = sum(len(data) for data in spec.get("datasets", {}).values())
    return "canvas" if rows > CANVAS_ROWS else "svg"


def packed(specs: Sequence[Spec]) -> tuple[list[Spec], Row]:
    """Takes the data sets out of charts.

    Returns:
        The charts with names of data sets, and ``shared``, columns of values of runs, with
        ``sets``. A data set has, by its name, the ``count`` of its rows, the ``rows`` and ``names``
        that it takes of the shared columns, and its ``own`` columns. Charts of the same runs have
        most values in common.
    """
    shared = _Shared()
    sets: dict[str, Row] = {}
    bare: list[Spec] = []
    for spec in specs:
        own = spec.get("datasets", {})
        bare.append({**spec, "datasets": list(own)})
        for name, rows in own.items():
            if name not in sets:
                sets[name] = shared.add(rows)
    columns = {name: _coded(values) for name, values in shared.columns().items()}
    return bare, {"shared": columns, "sets": sets}


class _Shared:
    """Values of runs by workload, machine, set and technique."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Any, ...], Row] = {}

    def add(self, rows: list[Row]) -> Row:
        """Adds the values of a data set; returns which rows and columns it is made of."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        keys = [tuple(row.get(name) for name in IDENTITY) for row in rows]
        if not set(IDENTITY) <= set(names) or len(set(keys)) < len(keys):
            own = {name: _coded([row.get(name) for row in rows]) for name in names}
            return {"count": len(rows), "own": own}
        targets = [self._rows.setdefault(key, {}) for key in keys]
        pairs = list(zip(targets, rows, strict=True))
        # A column that other charts hold with other values stays with this one.
        common = [
            name for name in names if all(t.get(name, r.get(name)) == r.get(name) for t, r in pairs)
        ]
        for target, row in pairs:
            target.update((name, row.get(name)) for name in common)
        number = {key: at for at, key in enumerate(self._rows)}
        own = {
            name: _coded([row.get(name) for row in rows]) for name in names if name not in common
        }
        places = [number[key] for key in keys]
        return {"count": len(rows), "rows": places, "names": common, "own": own}

    def columns(self) -> dict[str, list[Any]]:
        names = dict.fromkeys(name for row in self._rows.values() for name in row)
        return {name: [row.get(name) for row in self._rows.values()] for name in names}


def _coded(values: list[Any]) -> list[Any] | Row:
    """Returns a column; of texts that repeat, each once with the places of all."""
    if not all(isinstance(value, str) for value in values):
        return values
    numbers: dict[str, int] = {}
    places = [numbers.setdefault(value, len(numbers)) for value in values]
    return {"of": list(numbers), "at": places} if len(numbers) < len(values) else values

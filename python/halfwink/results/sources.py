"""The origin of each number of the short table: measured, modelled or assumed."""

from __future__ import annotations

import re
from typing import Any

Row = dict[str, Any]

#: Words of a machine file's `power.basis`, and what they say of its watts.
BASES = {
    "published": "its watts are published",
    "measured": "its watts were metered on that machine",
    "estimated": "its watts are estimated so that the whole agrees with a published machine",
    "assumed": "its watts are assumed",
}
#: Parts of names of columns that hang on watts.
WATTS = re.compile("energy|power|saving|beyond_today|_k?wh?(_|$)|_j(_|$)")
#: Columns that are words.
WORDS = ("available", "breaks")


def is_assumed(row: Row) -> bool:
    """Returns whether a machine's watts are assumed: then only per cent mean something."""
    return row.get("power_basis") == "assumed"


def source_of(column: str, row: Row) -> str:
    """Returns the origin of a run's number in one line, the kind first; empty for words."""
    value = row.get(column)
    if column in WORDS or value is None or (isinstance(value, str) and column != "power_basis"):
        return ""
    if column == "rate":
        return "measured: speed of the simulation on the host that played the run"
    if WATTS.search(column) is None:
        return "modelled: from the simulated run"
    kind = "assumed" if is_assumed(row) else "modelled"
    known = BASES.get(row.get("power_basis") or "", "its watts are those of its description")
    return f"{kind}: energy of the simulated run on {row['machine']}; {known}"

"""Tables on terminals narrower than they are: what a reader misses least goes, nothing is cut."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

#: Between two columns.
GAP = 2


class Fitted(NamedTuple):
    """A table that fits, and what is said beside it."""

    #: What all rows share: heading, value.
    shared: list[tuple[str, str]]
    columns: dict[str, list[str]]
    #: Headings of what there was no room for.
    left_out: list[str]


def least(heading: str, cells: Sequence[str]) -> int:
    """The width of a column whose heading has a word a line."""
    return max(len(text) for text in (*heading.split(), *cells, ""))


def needed(columns: dict[str, list[str]]) -> int:
    """The width of such a table."""
    widths = [least(heading, cells) for heading, cells in columns.items()]
    return sum(widths) + GAP * (len(widths) - 1)


def folded(heading: str, cells: Sequence[str]) -> str:
    """The heading in as few lines as a column no wider than `least` has room for."""
    return "\n".join(wrap(heading, least(heading, cells), break_long_words=False)) or heading


def fit(columns: dict[str, list[str]], width: int, spared: Sequence[str]) -> Fitted:
    """If it does not fit so many columns: what all of several rows share is said once, and, while
    that is not enough, the columns ``spared`` go, in this order."""
    left = dict(columns)
    shared: list[tuple[str, str]] = []
    if needed(left) > width:
        for heading, cells in columns.items():
            if len(cells) > 1 and len(set(cells)) == 1:
                shared.append((heading, cells[0]))
                del left[heading]
    left_out: list[str] = []
    for heading in spared:
        if needed(left) <= width:
            break
        if left.pop(heading, None) is not None:
            left_out.append(heading)
    return Fitted(shared, left, left_out)

"""Tables on terminals narrower than they are: what a reader misses least goes, nothing is cut."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

#: Between two columns.
GAP = 2
#: What a column of sentences keeps when it gives way.
SENTENCE = 16


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
    """Fits columns into a width. Cells that all of several rows share are shown once above; while
    that is not enough, the columns ``spared`` are dropped, in this order.
    """
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


class Narrowed(NamedTuple):
    """Which columns of a table a terminal shows, and how."""

    #: Numbers of the columns that are left.
    kept: list[int]
    #: Those of them whose text goes on in the next line.
    wrapped: set[int]
    #: Those that all rows share: said once.
    shared: list[int]
    #: Those there was no room for.
    left_out: list[int]
    #: Whether headings have a word a line.
    folds: bool


def narrowed(
    headings: Sequence[str], sides: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Narrowed:
    """Fits a table into a width: sentences wrap; then cells that all of several rows share move
    above; then numbers are dropped, from the right. The first column stays whole, as it holds
    names. Of a list of names and values the values wrap, on whichever side they stand: without them
    the names say nothing.
    """
    cells = [[row[number] for row in rows] for number in range(len(headings))]
    kept = list(range(len(headings)))

    def whole(number: int) -> int:
        lines = [line for text in cells[number] for line in text.splitlines()]
        return max(map(len, (*headings[number].splitlines(), *lines, "")))

    if sum(map(whole, kept)) + GAP * (len(kept) - 1) <= width:
        return Narrowed(kept, set(), [], [], folds=False)
    wrapped = {
        number
        for number in kept[1:]
        if (sides[number] != "right" or len(headings) == 2)
        and max(map(len, cells[number]), default=0) > SENTENCE
        and any(" " in text for text in cells[number])
    }

    def missing() -> bool:
        widths = [
            SENTENCE if number in wrapped else least(headings[number], cells[number])
            for number in kept
        ]
        return sum(widths) + GAP * (len(widths) - 1) > width

    shared: list[int] = []
    if missing() and len(rows) > 1:
        shared = [n for n in kept if sides[n] != "right" and len(set(cells[n])) == 1]
        kept = [number for number in kept if number not in shared]
    left_out: list[int] = []
    for number in reversed(kept[1:]):
        if not missing():
            break
        if sides[number] == "right":
            kept.remove(number)
            left_out.insert(0, number)
    return Narrowed(kept, wrapped & set(kept), shared, left_out, folds=True)

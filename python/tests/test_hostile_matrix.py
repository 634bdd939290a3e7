"""Every command that reads a file on every kind of input with every damage: each case ends in
success or in one line, in bounded memory and time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hostile import (
    CHANGES,
    COMMANDS,
    KINDS,
    SPECIAL,
    Answer,
    answers,
    cases,
    part_of,
    sample,
    table,
)

#: All cases are played in so many parts.
PARTS = 8
PAGE = Path(__file__).parents[2] / "docs/inputs.md"
BEGIN, END = "<!-- hostile -->\n", "<!-- end of hostile -->"


def told(found: list[Answer]) -> str:
    return "\n".join(f"{it.case.name}: {it.fault}" for it in found if it.fault is not None)


def test_a_sample_of_hostile_cases_ends_in_success_or_one_line():
    found = answers(sample())
    assert not told(found), told(found)
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    now, _, after = rest.partition(END)
    if "HALFWINK_WRITE_TABLES" in os.environ:
        PAGE.write_text(f"{before}{BEGIN}{table(found)}{END}{after}")
        return
    assert now == table(found), "HALFWINK_WRITE_TABLES=1 pytest test_hostile_matrix.py writes it"


def test_the_cases_are_ten_thousand_and_their_parts_are_all_of_them():
    count = len(list(cases()))
    assert count == len(COMMANDS) * (len(SPECIAL) + len(KINDS) * len(CHANGES))
    assert count >= 10_000
    assert sum(len(part_of(PARTS, part)) for part in range(PARTS)) == count


@pytest.mark.full("hostile")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_hostile_case_ends_in_success_or_one_line(part: int):
    found = answers(part_of(PARTS, part))
    assert not told(found), told(found)

"""Tables on terminals narrower than they are."""

from __future__ import annotations

import random

from halfwink.cli.fitting import fit, folded, needed

TABLE = {
    "workload": ["count", "count"],
    "policy": ["always-on", "hybrid"],
    "power w": ["200.6", "159.2"],
    "joules per request": ["0.6", "0.5"],
    "p99 ms": ["134", "135"],
}


def test_what_fits_stays_as_it_is():
    found = fit(TABLE, needed(TABLE), spared=["p99 ms"])
    assert (found.shared, found.columns, found.left_out) == ([], TABLE, [])


def test_what_all_rows_share_goes_first_then_what_is_spared():
    # policy, power, joules, p99 under headings of a word a line: 9 + 5 + 7 + 3, and gaps.
    assert needed(TABLE) == 8 + 9 + 5 + 7 + 3 + 4 * 2
    found = fit(TABLE, 30, spared=["p99 ms"])
    assert found.shared == [("workload", "count")]
    assert (next(iter(found.columns)), found.left_out) == ("policy", [])
    found = fit(TABLE, 29, spared=["joules per request", "p99 ms"])
    assert list(found.columns) == ["policy", "power w", "p99 ms"]
    assert found.left_out == ["joules per request"]


def test_one_row_shares_nothing_with_itself():
    one = {heading: cells[:1] for heading, cells in TABLE.items()}
    assert fit(one, 10, spared=[]).columns == one


def test_headings_take_the_lines_that_they_need():
    assert folded("joules per request", ["0.5"]) == "joules\nper\nrequest"
    assert folded("power w", ["200.6"]) == "power\nw"
    assert folded("power w", ["1234567"]) == "power w"
    assert folded("", ["1"]) == ""


def test_every_column_is_shown_once_or_named():
    draw = random.Random(7)

    def text() -> str:
        return "".join(draw.choices("abc ", k=draw.randrange(10)))

    for _ in range(2000):
        table = {text(): [text(), text()] for _ in range(draw.randint(1, 8))}
        width = draw.randint(1, 60)
        found = fit(table, width, spared=list(table)[:0:-1])
        said = [heading for heading, _ in found.shared] + found.left_out + list(found.columns)
        assert sorted(said) == sorted(table)
        for heading, cells in found.columns.items():
            assert table[heading] == cells
        if found.left_out:
            # The last that went had to.
            last = found.left_out[-1]
            assert needed(found.columns | {last: table[last]}) > width

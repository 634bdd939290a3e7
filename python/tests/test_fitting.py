"""Tables on terminals narrower than they are."""

from __future__ import annotations

import random

from halfwink.cli.fitting import GAP, SENTENCE, fit, folded, least, narrowed, needed

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


def test_sentences_wrap_before_anything_goes():
    headings, sides = ["item", "ns", "what it is"], ["left", "right", "left"]
    rows = [["wake-up", "120", "an empty call through the mailbox"], ["call", "7", "none"]]
    wide = narrowed(headings, sides, rows, 7 + 3 + 33 + 2 * GAP)
    assert (wide.kept, wide.wrapped, wide.folds) == ([0, 1, 2], set(), False)
    tight = narrowed(headings, sides, rows, 7 + 3 + SENTENCE + 2 * GAP)
    assert (tight.kept, tight.wrapped, tight.left_out) == ([0, 1, 2], {2}, [])
    tighter = narrowed(headings, sides, rows, 7 + SENTENCE + GAP)
    assert (tighter.kept, tighter.left_out) == ([0, 2], [1])


def test_a_narrowed_table_fits_and_says_what_it_lacks():
    draw = random.Random(11)

    def text(letters: str) -> str:
        return "".join(draw.choices(letters, k=draw.randint(1, 12)))

    for _ in range(2000):
        count = draw.randint(1, 9)
        headings = [text("ab ") for _ in range(count)]
        sides = ["left", *draw.choices(["left", "right"], k=count - 1)]
        rows = [[text("ab") for _ in range(count)] for _ in range(draw.randint(1, 4))]
        found = narrowed(headings, sides, rows, 60)
        assert sorted(found.kept + found.shared + found.left_out) == list(range(count))
        assert all(sides[number] == "right" for number in found.left_out)
        cells = [[row[number] for row in rows] for number in found.kept]
        widths = [least(headings[n], c) for n, c in zip(found.kept, cells, strict=True)]
        fits = sum(widths) + GAP * (len(widths) - 1) <= 60
        assert fits or all(sides[number] == "left" for number in found.kept[1:])
        if found.left_out or found.shared:
            assert found.folds


def test_values_of_a_list_wrap_and_are_never_left_out():
    rows = [["requests", "74"], ["latency ms", "mean 1.2, p50 0.9, p99 4.5, max 6.2, of 74"]]
    found = narrowed(["what", "value"], ["left", "right"], rows, 30)
    assert (found.kept, found.wrapped, found.left_out) == ([0, 1], {1}, [])

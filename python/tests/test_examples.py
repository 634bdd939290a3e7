"""Examples of ``--help``: every command has some, and each is a line that the command takes."""

from __future__ import annotations

import shlex

import pytest
from conftest import Halfwink

from halfwink.cli.examples import EXAMPLES
from halfwink.cli.main import _before_and_after_dashes, build, commands

LINES = [(name, words) for name, lines in EXAMPLES.items() for words, _ in lines]


def test_every_command_has_examples() -> None:
    there = {" ".join(path) for path, _ in commands(build())}
    assert there <= set(EXAMPLES)
    # A command may have commands of its own.
    assert {name for name in EXAMPLES if name not in there} == {"live preheat"}


@pytest.mark.parametrize(("name", "words"), LINES)
def test_each_is_taken(name: str, words: str) -> None:
    line, _ = _before_and_after_dashes([*name.split(), *shlex.split(words)])
    _, bound, unused, *_ = build(line[0]).parse_known_args(line)
    assert not unused, (bound, unused)


def test_help_ends_with_them(halfwink: Halfwink) -> None:
    told = halfwink("trace", "info", "--help").out
    assert told.endswith(
        "Examples:\n  halfwink trace info nginx.hwt\n      what was recorded, and from what\n"
    )
    assert "halfwink live block --advise" in halfwink("live", "block", "-h").out
    assert "Examples" not in halfwink("--help").out
    widest = max(len(f"  halfwink {name} {words}") for name, words in LINES)
    assert widest <= 80, widest

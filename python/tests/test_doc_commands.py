"""Commands of README and docs: the command line takes each as it is written, comments aside."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from halfwink.cli.main import _before_and_after_dashes, build

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: What may stand before the program: another program, variables, the path of the environment.
COMMAND = re.compile(r"(?:sudo |exec |\S+=\S+ )*(?:\.venv/bin/)?halfwink (?!-)(.*)")
#: Between two commands of a line.
BETWEEN = re.compile(r"\s(?:&&|\|\|?|;|&)(?:\s|$)")
#: A synopsis has brackets; the head of a file of numbers begins with the program's name.
NONE = re.compile(r" \[-|^halfwink esp numbers ")


def code(text: str) -> Iterator[str]:
    """Yields the lines of code of a page, those that a backslash joins as one."""
    fenced, before = False, ""
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    ") or before:
            whole = before + line.strip().removeprefix("$ ")
            before = whole[:-1] if whole.endswith("\\") else ""
            if not before:
                yield whole


def commands(text: str) -> Iterator[list[str]]:
    """Yields the words of each command of halfwink."""
    for line in code(text):
        if NONE.search(line):
            continue
        for part in BETWEEN.split(line):
            if found := COMMAND.match(part.strip()):
                words = shlex.split(found[1], comments=True)
                ends = (n for n, word in enumerate(words) if word.startswith((">", "2>", "<")))
                yield words[: next(ends, len(words))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_command_of_page_is_taken(page: Path):
    for words in commands(page.read_text()):
        line, _ = _before_and_after_dashes(words)
        _, bound, unused, *_ = build(line[0]).parse_known_args(line)
        assert not unused, f"halfwink {' '.join(words)}: {unused} of {bound}"


def test_commands_are_found():
    text = "    halfwink list \\\n      worlds   # all\n\n"
    text += "```console\n$ halfwink doctor && x | y\n```\n"
    assert list(commands(text)) == [["list", "worlds"], ["doctor"]]
    assert sum(1 for page in PAGES for _ in commands(page.read_text())) > 200

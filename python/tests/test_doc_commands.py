"""Commands of README and docs: the command line takes each; those of how-to guides are played."""

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

#: How-to pages with commands that are parsed and not played yet: how many, and why. Numbers fall.
NOT_PLAYED = {
    "advise.md": (9, "a search for each takes up to a minute; `verify` measures for ten"),
    "calibrate.md": (3, "measures this machine, and refuses one that others use"),
    "capture.md": (6, "boots a guest, which takes minutes"),
    "own-policy.md": (6, "the tutorial of that name plays the same commands"),
    "prototype.md": (8, "minutes with nothing else running"),
    "techniques/delegate.md": (7, "live: gives a CPU away"),
    "techniques/live-block.md": (11, "live: runs until Ctrl-C, for clients"),
    "techniques/live-circuits.md": (12, "live: needs namespaces, and a minute for each"),
    "techniques/live-preheat.md": (6, "live: needs root, BPF and a server"),
    "techniques/live-router.md": (5, "live: runs until Ctrl-C, between interfaces"),
    "techniques/live-steer.md": (5, "live: runs until Ctrl-C, before servers; the tutorial does"),
}


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


def how_to_pages() -> list[str]:
    """Returns the how-to guides of the site, relative to ``docs``."""
    nav = (ROOT / "mkdocs.yml").read_text().split("  - How-to guides:\n")[1]
    section = re.split(r"(?m)^  - ", nav)[0]
    pages = re.findall(r"([\w/-]+\.md)$", section, flags=re.MULTILINE)
    return [page for page in pages if (ROOT / "docs" / page).exists()]


def indented(text: str) -> int:
    """Returns the number of commands of halfwink in indented blocks, which no test plays."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    # A synopsis is no command.
    lines = [line for line in text.splitlines() if line.startswith("    ")]
    return sum(1 for line in lines if not NONE.search(line) for _ in commands(f"{line}\n"))


def complaint(page: str, count: int, allowed: int) -> str | None:
    """Returns what is wrong with a page's number of indented commands, if anything."""
    if count > allowed:
        return (
            f"docs/{page}: {count} indented commands of halfwink, {allowed} allowed: write a new "
            "one in a block of `console`, which test_tutorials plays"
        )
    if count < allowed:
        return f"docs/{page}: {count} indented commands left: lower its {allowed} in NOT_PLAYED"
    return None


@pytest.mark.parametrize("page", how_to_pages())
def test_commands_of_how_to_page_are_played(page: str):
    allowed, _ = NOT_PLAYED.get(page, (0, ""))
    found = complaint(page, indented((ROOT / "docs" / page).read_text()), allowed)
    assert found is None, found


def test_pages_not_played_are_how_to_pages_with_a_reason():
    assert set(NOT_PLAYED) <= set(how_to_pages())
    assert all(count > 0 and reason for count, reason in NOT_PLAYED.values())


def test_new_indented_command_is_refused():
    text = "    halfwink list worlds\n\n```console\n$ halfwink doctor\n```\n    halfwink run [-q]\n"
    assert indented(text) == 1
    assert "1 indented commands of halfwink, 0 allowed" in str(complaint("a.md", 1, 0))
    assert "lower its 2" in str(complaint("a.md", 1, 2))
    assert complaint("a.md", 1, 1) is None

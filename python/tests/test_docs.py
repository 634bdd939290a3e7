"""Pages that list what is in files: nothing is missing, no link leads nowhere."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from halfwink.results import references
from halfwink.results.results import SHORT

ROOT = Path(__file__).parents[2]
#: Pages of the site that are generated (tools/site/reference.py).
GENERATED = [ROOT / "docs/reference" / name for name in ("cli", "python.md", "schemas")]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def machine_files() -> list[Path]:
    return sorted((ROOT / "machines").rglob("*.toml"))


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict) for item in value)
    )


def test_every_table_of_a_machine_has_a_line():
    page = (ROOT / "docs/machines.md").read_text()
    named = set(re.findall(r"`([a-z0-9_]+)`", page))
    for path in machine_files():
        held = tomllib.loads(path.read_text())
        tables = {key for key, value in held.items() if _is_table(value)}
        assert tables <= named, f"{path}: {tables - named}"


def test_every_column_of_the_short_table_is_explained():
    page = (ROOT / "docs/glossary.md").read_text()
    assert set(SHORT) <= set(re.findall(r"`([a-z0-9_]+)`", page))


#: Those that a page may be for. "For operation" and "for an experiment" name nobody.
READERS = (
    "anyone|those who|people|readers|users|operators|designers|authors|contributors|an engineer"
)


def names_its_readers(sentence: str) -> bool:
    """Returns whether a page's first sentence says for whom it is."""
    return re.search(rf"\b[Ff]or (?:{READERS})\b", sentence) is not None


def test_first_sentence_without_readers_is_refused():
    assert names_its_readers("This page is for operators who serve block devices.")
    assert names_its_readers("For an engineer who has a server.")
    assert not names_its_readers("For operation (`halfwink live --help` says what it promises)")
    assert not names_its_readers("For an experiment, not for operation")


@pytest.mark.parametrize("page", DOCS[1:], ids=lambda page: str(page.relative_to(ROOT)))
def test_page_says_first_for_whom_it_is(page: Path):
    _, first, *_ = page.read_text().split("\n\n")
    sentence = first.replace("\n", " ").split(". ")[0]
    assert names_its_readers(sentence), f"{page}: for whom is it? {sentence}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_do_not_turn_back(page: Path):
    assert not re.findall(r"\]\(([^)#]*\w/\.\./[^)#]*)", page.read_text())


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            to = (page.parent / target).resolve()
            made = any(to == place or place in to.parents for place in GENERATED)
            assert made or to.exists(), f"{page}: {target}"


def test_the_paper_cites_what_its_references_hold():
    cited = set(re.findall(r"@(\w+)", (ROOT / "paper.md").read_text()))
    assert cited <= set(references.entries())
    file = re.search("^bibliography: (.*)$", (ROOT / "paper.md").read_text(), flags=re.MULTILINE)
    assert file is not None
    assert (ROOT / file[1]).read_text().count("\n@") + 1 == len(references.entries())


def test_descriptions_for_archives_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    archive = json.loads((ROOT / ".zenodo.json").read_text())
    title = f'title: "{archive["title"]}"'
    assert title in citation
    assert title in (ROOT / "paper.md").read_text()
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert f"version: {version}\n" in citation

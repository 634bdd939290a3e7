"""Publications of techniques as BibTeX."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink import _core
from halfwink.results.references import bibtex, entries, keys_of


def keys(text: str) -> list[str]:
    return re.findall(r"^@\w+\{(\w+),", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Strong 2013, Sec 2.4; Dhiman and Rosing 2007", ["strong2013", "dhiman2007"]),
        ("Al-Fares 2010, Hedera", ["alfares2010"]),
        ("Linux 3.13, blk-mq; Nellans 2014, Sec 6.5", ["nellans2014"]),
        ("Linux, cpuidle/governors/menu.c", []),
    ],
)
def test_a_source_names_its_publications(source: str, found: list[str]):
    assert keys_of(source) == found


def test_every_publication_that_a_technique_names_has_an_entry():
    held = entries()
    named = {key for row in _core.techniques() for key in keys_of(str(row["source"]))}
    assert named <= set(held)
    for key, entry in held.items():
        assert entry.count("{") == entry.count("}"), key
        assert {"author", "title"} <= set(re.findall(r"^  (\w+) = \{", entry, re.MULTILINE)), key
        # A key is made of the first author and the year, or is a program's name.
        if digits := re.search(r"\d{4}$", key):
            assert f"year = {{{digits[0]}}}" in entry, key
            author = re.search(r"author = \{([\w-]+),", entry)
            assert author is not None, key
            assert author[1].replace("-", "").lower() + digits[0] == key


def test_each_part_of_a_composition_is_cited_once_and_programs_are_comments():
    text = bibtex(["tap:after=20+c6a", "tap", "menu", "no-such"], "chip")
    assert keys(text) == ["strong2013", "yahya2022", "halfwink"]
    assert text.startswith("% menu: Linux, cpuidle/governors/menu.c\n")


def test_a_run_gives_its_references_as_a_file(tmp_path: Path, halfwink: Halfwink):
    run = tmp_path / "run"
    hw.compare("count@30", world="server", techniques=["hybrid"], out=run, set={"seed": 1})
    done = halfwink("query", "run", "-o", "refs.bib")
    assert done.status == 0
    assert "references: refs.bib" in done.err
    assert keys((tmp_path / "refs.bib").read_text()) == ["niccolini2012", "halfwink"]
    refused = halfwink("query", "run", "select 1", "-o", "refs.bib")
    assert "expected a name that ends in .parquet, .csv, .md, .tex" in refused.complaint
    refused = halfwink("query", "run", "-o", "refs.txt")
    assert "expected a name that ends in .bib" in refused.complaint

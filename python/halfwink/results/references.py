"""BibTeX of what a comparison shows: its techniques' publications, and halfwink."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from halfwink.results.relate import described

_FILE = Path(__file__).with_name("references.bib")
#: A publication as sources of techniques name it: `Strong 2013, Sec 2.4`, `Dhiman and Rosing 2007`.
_CITED = re.compile(r"\b([A-Z][\w-]+)(?: and [A-Z][\w-]+)? ((?:19|20)\d\d)\b")


def entries() -> dict[str, str]:
    """Returns each known publication as BibTeX, by its key."""
    found = _FILE.read_text().strip().split("\n\n")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in found}


def keys_of(source: str) -> list[str]:
    """Returns the keys of the publications that a technique's source names; none for programs."""
    return [f"{author.replace('-', '').lower()}{year}" for author, year in _CITED.findall(source)]


def bibtex(techniques: Iterable[str], world: str) -> str:
    """Returns BibTeX of techniques as a comparison names them (`tap:after=20+c6a`), each once,
    and of halfwink. Where there is no publication, a comment names the source."""
    rows = described(techniques, world)
    cited = dict.fromkeys(key for row in rows for key in keys_of(row["source"]))
    others = [
        f"% {row['name']}: {row['source']}\n"
        for row in rows
        if row["source"] != "-" and not keys_of(row["source"])
    ]
    held = entries()
    shown = [f"{held[key]}\n" for key in (*cited, "halfwink")]
    return "\n".join(["".join(others), *shown] if others else shown)

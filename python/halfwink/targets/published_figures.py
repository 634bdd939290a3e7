"""Figures and tables of the five works, and the targets that each of them prints.

A target belongs to the first figure or table that its source names. Targets that stand in the text
alone belong to a group for each chapter.
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from halfwink.errors import FileError, HalfwinkError

Target = Mapping[str, Any]
SCHEMA = 1
KEYS = ("name", "title", "known")
#: A figure or table in a source, or several in a row: ``Fig 4.9 to 4.11``.
DRAWN = re.compile(r"\b(Fig|Table) (\d+(?:\.\d+)?)(?: to (\d+(?:\.\d+)?))?")
#: A section or chapter in a source; the group is its chapter.
CHAPTER = re.compile(r"\b(?:Sec|Ch\.) (\d+)")
#: Groups of targets outside figures, tables and chapters.
ABSTRACT, PAPERS = "Abstract", "Papers"
PAGES = {
    "gottschlag": "Gottschlag 2016, preheated caches",
    "mogul": "Mogul et al. 2007, cores for the operating system",
    "nellans": "Nellans 2014, operating system and hardware",
    "niccolini": "Niccolini 2012, hybrid servers and a router",
    "strong": "Strong 2013, power gating, core switching and circuits",
}


class FigureError(FileError):
    """A file of figures is wrong."""


@dataclass(frozen=True)
class Figure:
    """A figure, a table, or the numbers in the text of a chapter.

    Attributes:
        id: the work and a name, such as ``strong/F2.13``, ``strong/Table3.8``, ``strong/Text2``.
        label: name as the work has it: ``Fig 2.13``.
        title: quantity that is shown, in plain words.
        known: points, ends or orders of a figure that its text gives; empty for tables, which are
            printed whole.
        targets: ids of its targets, in their order.
    """

    id: str
    label: str
    title: str
    known: str
    targets: tuple[str, ...]

    @property
    def work(self) -> str:
        """The name of the work."""
        return self.id.split("/")[0]

    @property
    def anchor(self) -> str:
        """The name without the work, unique on the work's page."""
        return self.id.split("/")[1]


@dataclass(frozen=True)
class Work:
    """A work and its figures.

    Attributes:
        name: name in ids.
        title: author, year and subject.
        lost: figures of which the text gives no number; empty if there are none.
        figures: figures and tables in the order of their numbers, then groups of the text.
    """

    name: str
    title: str
    lost: str
    figures: tuple[Figure, ...]


def mentioned(target: Target) -> list[str]:
    """Returns the ids of all figures and tables that a target's source names."""
    work = target["id"].split("/")[0]
    found: list[str] = []
    for kind, first, last in DRAWN.findall(target["source"]):
        found += [f"{work}/{_short(kind)}{number}" for number in _between(first, last)]
    return found


def _short(kind: str) -> str:
    return "F" if kind == "Fig" else "Table"


def _between(first: str, last: str) -> list[str]:
    """Returns the numbers from ``4.9`` to ``4.11``."""
    if not last:
        return [first]
    chapter, _, low = first.rpartition(".")
    return [f"{chapter}.{n}" for n in range(int(low), int(last.rpartition(".")[2]) + 1)]


def home(target: Target) -> str:
    """Returns the id of the one figure, table or group of the text that a target belongs to."""
    drawn = mentioned(target)
    if drawn:
        return drawn[0]
    work = target["id"].split("/")[0]
    source = target["source"].partition(", ")[2]
    if source.startswith("abstract"):
        return f"{work}/{ABSTRACT}"
    chapter = CHAPTER.search(source)
    return f"{work}/Text{chapter[1]}" if chapter else f"{work}/{PAPERS}"


def load(folder: Path, targets: Sequence[Target]) -> list[Work]:
    """Loads the figures of all works.

    Raises:
        FigureError: the first thing that is wrong: an unknown key, a figure without targets, or
            targets whose figure is not listed.
    """
    by_home: dict[str, list[Target]] = {}
    for target in targets:
        by_home.setdefault(home(target), []).append(target)
    works = list(dict.fromkeys(target["id"].split("/")[0] for target in targets))
    return [_work(folder / f"{name}.toml", name, by_home) for name in works]


def _work(path: Path, name: str, by_home: dict[str, list[Target]]) -> Work:
    try:
        text = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise HalfwinkError(f"{path}: {error}") from error
    own = {id: those for id, those in by_home.items() if id.startswith(f"{name}/")}
    _refuse(path, "the file", text, ("schema", "work", "lost", "figure"))
    if text.get("schema") != SCHEMA or text.get("work") != name:
        raise FigureError(path, "schema and work", str(text.get("work")), f"{SCHEMA} and {name}")
    described: dict[str, dict[str, Any]] = {}
    for entry in text.get("figure", []):
        where = f"{name}/{entry.get('name')}"
        _refuse(path, where, entry, KEYS)
        if where not in own:
            raise FigureError(path, where, "no target of it", "a figure or table of a source")
        if where in described or not entry.get("title"):
            raise FigureError(path, where, "it twice or untitled", "one entry with a title")
        described[where] = entry
    figures: list[Figure] = []
    for id, those in own.items():
        entry = described.get(id) or _group(id)
        if entry is None:
            raise FigureError(path, id, "no entry", f"a title, as {those[0]['id']} stands in it")
        ids = tuple(target["id"] for target in those)
        label = _label(those[0], id)
        figures.append(Figure(id, label, entry["title"], entry.get("known", ""), ids))
    ordered = tuple(sorted(figures, key=_order))
    return Work(name, PAGES.get(name, name), text.get("lost", ""), ordered)


def _refuse(path: Path, where: str, entry: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in entry:
        if key not in known:
            raise FigureError(path, where, f"`{key}`", ", ".join(known))


def _group(id: str) -> dict[str, str] | None:
    """Returns the entry of a group of the text; None for figures and tables."""
    name = id.split("/")[1]
    if name == ABSTRACT:
        return {"title": "Numbers of the abstract and of what repeats them"}
    if name == PAPERS:
        return {"title": "Numbers of other papers on the same work"}
    if name.startswith("Text"):
        return {"title": "Numbers and statements outside figures and tables"}
    return None


def _label(target: Target, id: str) -> str:
    found = DRAWN.search(target["source"])
    return found[0] if found else id.split("/")[1].replace("Text", "Chapter ")


def _order(figure: Figure) -> tuple[Any, ...]:
    """Returns the place on the page: figures and tables by chapter, each chapter's text last."""
    name = figure.anchor
    numbers = [int(part) for part in re.findall(r"\d+", name)]
    if not numbers:
        return (1, name)
    kind = next(n for n, k in enumerate(("F", "Table", "Text")) if name.startswith(k))
    chapter = numbers[0] if len(numbers) > 1 or kind == 2 else 0
    return (0, chapter, kind, *numbers)


@dataclass(frozen=True)
class Cost:
    """Time and disk that a figure takes when nothing is kept.

    Attributes:
        seconds: seconds on two processors.
        size: bytes of kept results.
    """

    seconds: float
    size: float

    @property
    def said(self) -> str:
        """Time and disk in words, as coarse as the measurement is."""
        time = f"about {max(1, round(self.seconds / 60))} min"
        if self.seconds < 45:
            steps = (5, 10, 20, 30, 45)
            time = f"under {next(step for step in steps if self.seconds <= step)} s"
        disk = "under 1 MB" if self.size < 1e6 else f"about {self.size / 1e6:.0f} MB"
        return f"{time}, {disk}"


def costs(path: Path, works: Sequence[Work], targets: Sequence[Target]) -> dict[str, Cost]:
    """Returns the cost of each figure by its id: the sum over what its targets are computed from.

    Raises:
        HalfwinkError: the file cannot be read.
    """
    try:
        with path.open() as file:
            known = {
                row["source"]: (float(row["seconds"]), float(row["bytes"]))
                for row in csv.DictReader(file)
            }
    except (OSError, KeyError, ValueError) as error:
        raise HalfwinkError(f"{path}: {error}") from error
    used = {t["id"]: t["compute"]["from"] if t["compute"] else () for t in targets}
    found: dict[str, Cost] = {}
    for figure in (figure for work in works for figure in work.figures):
        sources = {source for id in figure.targets for source in used[id]}
        if sources <= known.keys():
            pairs = [known[source] for source in sources]
            found[figure.id] = Cost(sum(p[0] for p in pairs), sum(p[1] for p in pairs))
    return found


def near(name: str, names: Sequence[str]) -> str:
    """Returns the nearest names as the end of an error, empty if none is near."""
    found = get_close_matches(name, names, 3, 0.7)
    return f"; did you mean {', '.join(f'`{one}`' for one in found)}?" if found else ""

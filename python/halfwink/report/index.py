"""One page that links the reports of all runs below a folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.files import write_whole
from halfwink.results.results import RUN_FILE, STUDY_FILE, open_results, study_of

#: The page's file.
INDEX = "index.html"
REPORT = "report.html"
#: Folders that hold no finished run: results of single runs lie in one, by the thousand.
PASSED_BY = {"runs"}


@dataclass(frozen=True)
class Entry:
    """A finished run.

    Attributes:
        folder: path relative to the page's own, as a link has it.
        written: time at which its tables were written.
        title: title of its study.
        verdict: the first sentence of it; of a run that cannot be read, why.
        counts: counts such as ``5 techniques``.
        has_report: tells whether there is a page to link to.
        command: command that runs it again, in the page's folder: stored results are reused.
    """

    folder: str
    written: datetime
    title: str
    verdict: str
    counts: tuple[str, ...]
    has_report: bool
    command: str


def entries(folder: Path) -> list[Entry]:
    """Every finished run in a folder and below, latest first."""
    found = [_entry(folder, path) for path in _finished(folder)]
    return sorted(found, key=lambda entry: (entry.written, entry.folder), reverse=True)


def write_index(folder: Path) -> int:
    """Writes the page; how many runs it lists.

    Raises:
        HalfwinkError: there is no finished run, in one line.
        OSError: the index cannot be written.
    """
    found = entries(folder)
    if not found:
        expected = "expected folders of finished runs in it"
        raise HalfwinkError(f"{folder}: no {RUN_FILE}.parquet in it or below; {expected}")
    environment = Environment(
        loader=PackageLoader("halfwink.report"), autoescape=select_autoescape(["html", "j2"])
    )
    page = environment.get_template("index.html.j2").render(
        title=folder.resolve().name or "runs", version=_core.__version__, entries=found
    )
    write_whole(folder / INDEX, page)
    return len(found)


def _finished(folder: Path) -> Generator[Path]:
    """Folders that hold a finished run."""
    for here, below, files in os.walk(folder):
        below[:] = [name for name in below if name not in PASSED_BY and not name.startswith(".")]
        if f"{RUN_FILE}.parquet" in files:
            yield Path(here)


def _entry(root: Path, folder: Path) -> Entry:
    name = folder.relative_to(root).as_posix()
    written = datetime.fromtimestamp((folder / f"{RUN_FILE}.parquet").stat().st_mtime, UTC)
    # A name that begins with a dash is no option.
    own = name if not name.startswith("-") else f"./{name}"
    command = shlex.join(["halfwink", "run", f"{own}/{STUDY_FILE}", "-o", own])
    has_report = (folder / REPORT).exists()
    try:
        title, verdict, counts = _told(folder)
    # Whatever is wrong with one folder, the others are listed.
    except Exception as error:
        why = f"cannot be read: {' '.join(str(error).split()) or type(error).__name__}"
        return Entry(name, written, name, why, (), has_report, command)
    return Entry(name, written, title or name, verdict, counts, has_report, command)


def _told(folder: Path) -> tuple[str, str, tuple[str, ...]]:
    """Title, first sentence of the verdict, and how many of what."""
    title = study_of(folder)["title"]
    results = open_results(folder)
    runs = results.runs
    counts = (
        _count(runs["technique"].n_unique(), "technique"),
        _count(runs["workload"].n_unique(), "workload"),
        _count(runs["machine"].n_unique(), "machine"),
        _count(runs.height, "run"),
    )
    return title, results.verdict().sentences[0], counts


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"

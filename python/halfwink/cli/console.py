"""Output to the terminal: tables and JSON on standard output, all else on standard error."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from halfwink.cli.fitting import fit, folded, least, narrowed
from halfwink.errors import HalfwinkError
from halfwink.files import write_whole
from halfwink.schemas import VERSION, filled

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from halfwink.runs import batch
    from halfwink.schemas.tables import Rows

#: A chart in the page that Altair writes.
SPEC = re.compile(r"(?m)^\s*(?:var|const|let) spec = .*$")
#: Texts that spreadsheets compute, but for numbers.
FORMULA = r"^[=+\-@\t\r]"
NUMBER = r"^[+-]?[0-9.]"
#: Wide enough for any table of ours when the output is a file or a pipe.
PIPE_WIDTH = 10_000

out = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)
#: For tables of all columns, on a terminal too.
wide_out = Console(width=PIPE_WIDTH, highlight=False)
#: For tables that must not mix with another program's standard output.
err_table = Console(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH, highlight=False)


#: Of the characters that command a terminal: all but the line's end and the tabulator; and of those
#: that turn the direction of writing, so that a line reads as it is not.
_COMMANDS = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
} | {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def plain(text: str) -> str:
    """A text whose characters command no terminal: names in files are foreign."""
    return text.translate(_COMMANDS)


def say(message: str, *, quiet: bool = False) -> None:
    """A line for people, on standard error."""
    if not quiet:
        err.print(plain(message), markup=False)


def complain(line: str) -> None:
    """A line on what is not as it should be, on standard error."""
    say(f"halfwink: {line}")


def print_sentences(lines: Iterable[str], *, hang: str = "") -> None:
    """Prints sentences of an answer, each from a new line on and at most 80 columns wide;
    ``hang`` begins their further lines. A line of a shell, which begins with two blanks, stays
    whole."""
    # Sentences are for reading, wherever they go.
    width = min(out.width, 80)
    for line in lines:
        is_shell = line.startswith("  ")
        # A blank between thousands is no place to break.
        whole = re.sub(r"(?<=\d) (?=\d{3}\b)", "\N{NO-BREAK SPACE}", line)
        text = textwrap.fill(whole, width, subsequent_indent=hang, break_on_hyphens=False)
        text = text.replace("\N{NO-BREAK SPACE}", " ")
        out.print(line if is_shell else text, markup=False, soft_wrap=is_shell)


@contextmanager
def claimed(out: Path | None, default: Path, *, quiet: bool = False) -> Generator[Path]:
    """The file that a command writes within: the one that was named, of which is told at the end if
    it was replaced; else the default one, which never is.

    Raises:
        HalfwinkError: there is a file of the default name.
    """
    path = out or default
    is_there = path.is_file()
    if is_there and out is None:
        raise HalfwinkError(f"{path} is there: expected -o FILE; -o {path} replaces it")
    yield path
    if is_there:
        say(f"{path}: replaced", quiet=quiet)


def has_place(out: Path | None) -> None:
    """Checks before a run, which may be long, that its file will have a folder.

    Raises:
        HalfwinkError: the folder is not there, or the file is a folder.
    """
    if out is not None and out.is_dir():
        raise HalfwinkError(f"-o {out}: found a folder, expected a file")
    if out is not None and not out.parent.is_dir():
        raise HalfwinkError(f"-o {out}: expected a folder that is there")


def draw_chart(chart: Any, path: Path) -> None:
    """Writes a chart as a page; names cannot end or open its script. Raises OSError."""
    # Altair writes the chart as one line of its page's script, and keeps `<` of names as it is.
    page = SPEC.sub(lambda found: found[0].replace("<", "\\u003c"), chart.to_html(inline=True))
    write_whole(path, page)


def formula_safe(frame: pl.DataFrame) -> pl.DataFrame:
    """A table whose texts no spreadsheet takes for formulas: a quote stands before those that begin
    as one (OWASP, CSV injection)."""
    import polars as pl
    import polars.selectors as cs

    names = frame.select(cs.string()).columns
    return frame.with_columns(
        pl.when(pl.col(name).str.contains(FORMULA) & ~pl.col(name).str.contains(NUMBER))
        .then(pl.lit("'") + pl.col(name))
        .otherwise(pl.col(name))
        .alias(name)
        for name in names
    )


def json_text(kind: str, document: Mapping[str, Any]) -> str:
    """A JSON document; its ``schema`` names its kind and version, which `halfwink.schemas`
    describes."""
    named = {"schema": f"halfwink.{kind}/{VERSION}"} | dict(document)
    return json.dumps(named, indent=2, ensure_ascii=False) + "\n"


def print_json(kind: str, document: Mapping[str, Any]) -> None:
    """The one JSON document on standard output."""
    sys.stdout.write(json_text(kind, document))


def print_tables(
    command: str,
    tables: Mapping[str, Rows],
    facts: Mapping[str, Any] | None = None,
    verdict: Sequence[str] = (),
) -> None:
    """Tables, single values and sentences as the one JSON document on standard output; columns and
    facts are declared in `halfwink.schemas`."""
    print_json("tables", filled(command, tables, facts or {}, verdict))


def put_tables(
    command: str,
    tables: Mapping[str, Rows],
    facts: Mapping[str, Any],
    out: Path | None,
    *,
    json: bool,
) -> None:
    """Tables and single values as a JSON document where it was asked for, as :func:`put_json`."""
    put_json("tables", filled(command, tables, facts), out, json=json)


def parted(
    found: Mapping[str, Any], *tables: str
) -> tuple[dict[str, Sequence[Mapping[str, Any]]], dict[str, Any]]:
    """Returns those tables that a result has of these names, and all else as its single values."""
    facts = {name: value for name, value in found.items() if name not in tables}
    return {name: found[name] for name in tables if name in found}, facts


def put_json(
    kind: str, document: Mapping[str, Any], out: Path | None, *, json: bool, quiet: bool = False
) -> None:
    """A JSON document where it was asked for: in a file, on standard output."""
    if out is not None:
        with claimed(out, out, quiet=quiet) as path:
            write_whole(path, json_text(kind, document))
    if json:
        print_json(kind, document)


def print_table(
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[str]],
    *,
    ruled: Sequence[int] = (),
    to: Console | None = None,
) -> None:
    """A table; columns are (heading, "left" or "right"); a line follows each row in ``ruled``. On a
    terminal that is too narrow nothing is cut: see :func:`halfwink.cli.fitting.narrowed`."""
    console = to or out
    headings, sides = [h for h, _ in columns], [side for _, side in columns]
    width = console.width if console.is_terminal else PIPE_WIDTH
    how = narrowed(headings, sides, rows, width)
    if how.shared:
        said = ", ".join(f"{headings[n]} {rows[0][n]}" for n in how.shared)
        console.print(_text(said))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for n in how.kept:
        cells = [row[n] for row in rows]
        wraps = n in how.wrapped
        table.add_column(
            folded(headings[n], cells) if how.folds and not wraps else headings[n],
            justify="right" if sides[n] == "right" else "left",
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
            min_width=None if wraps or not how.folds else min(least(headings[n], cells), width),
        )
    for number, row in enumerate(rows):
        table.add_row(*(_text(row[n]) for n in how.kept), end_section=number in ruled)
    console.print(table)
    if how.left_out:
        console.print(_text(f"no room for: {', '.join(headings[n] for n in how.left_out)}"))


def print_listing(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, to: Console | None = None
) -> None:
    """A table whose last columns give way on a narrow terminal. The first one, names, never does:
    what is typed again must be readable whole."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    last = len(headings) - 1
    for number, heading in enumerate(headings):
        widest = max([len(heading), *(len(row[number]) for row in rows)])
        if number == 0:
            table.add_column(heading, no_wrap=True, min_width=widest)
        else:
            # Words of what is chosen from (worlds, parameters) stay whole; sentences wrap first.
            word = max((len(w) for row in rows for w in row[number].split()), default=1)
            least = 12 if number == last else max(min(word, 14), len(heading))
            table.add_column(heading, overflow="fold", min_width=min(widest, least))
    for row in rows:
        table.add_row(*map(_text, row))
    (to or out).print(table)


def _text(cell: str) -> Text:
    """Without markup: brackets in a name are the name's."""
    return Text(plain(cell))


def print_frame(table: pl.DataFrame, *, spared: Sequence[str] = ()) -> None:
    """A table with the frame's own columns; text to the left, numbers to the right. On a terminal
    that is too narrow what all rows share is a line above, and columns go: those ``spared`` first,
    in this order, then numbers from the right. Files and pipes get everything."""
    import polars as pl

    titles = {name: name.replace("_pct", " %").replace("_", " ") for name in table.columns}
    sides = {
        titles[name]: "left" if kind == pl.String else "right"
        for name, kind in table.schema.items()
    }
    columns = {titles[name]: [_cell(value) for value in table[name]] for name in table.columns}
    left_out: list[str] = []
    if out.is_terminal:
        numbers = [title for title, side in sides.items() if side == "right"]
        order = [titles[name] for name in spared if name in titles] + numbers[:0:-1]
        shared, columns, left_out = fit(columns, out.width, order)
        if shared:
            said = ", ".join(f"{title} {value}" for title, value in shared)
            out.print(_text(said))
    heads = [(folded(title, cells), sides[title]) for title, cells in columns.items()]
    if not out.is_terminal:
        heads = [(title, sides[title]) for title in columns]
    print_table(heads, list(zip(*columns.values(), strict=True)))
    if left_out:
        out.print(_text(f"no room for: {', '.join(left_out)}"))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


class _ProgressLines:
    """Progress as lines, for a pipe or the log of a batch system: one each half a minute."""

    EVERY_S = 30.0

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self._said = time.monotonic()

    def __call__(self, p: batch.Progress) -> None:
        now = time.monotonic()
        if now - self._said >= self.EVERY_S:
            self._said = now
            say(f"{self._title}: {p.jobs_done} of {p.jobs} runs, {now - self._begun:.0f} s")


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Generator[Callable[[batch.Progress], None]]:
    """A bar on a terminal, a line now and then elsewhere."""
    if quiet:
        yield lambda _: None
        return
    if not err.is_terminal:
        yield _ProgressLines(title)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(title, total=None, speed="")

        def report(p: batch.Progress) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = p.work_done / elapsed if elapsed > 1 else 0.0
            pace = f"{rate / 1e6:.3g} M" if rate >= 1e4 else f"{rate:,.0f}"
            speed = f"{pace} {p.unit}/s" if rate > 0 else ""
            bar.update(task, total=p.jobs, completed=p.jobs_done, speed=speed)

        yield report

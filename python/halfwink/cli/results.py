"""Output of results of any world: tables and charts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from halfwink.cli import placement, sides
from halfwink.cli.console import claimed, plain, print_sentences, print_table, say, wide_out
from halfwink.cli.console import out as stdout
from halfwink.errors import HalfwinkError
from halfwink.files import Place
from halfwink.results.against import Changes
from halfwink.results.results import STUDY_FILE, Results, open_results
from halfwink.results.summary import summarize
from halfwink.runs import studies

if TYPE_CHECKING:
    from halfwink.report.figures import Figure


@Parameter(name="*")
@dataclass(frozen=True)
class FigureOptions:
    """Options of every command that draws a figure for print.

    Attributes
    ----------
    plot
        Figure for print: FILE.pdf, .svg or .png.
    style
        paper, talk or dark.
    width
        Of the figure: column (84 mm) or page (174 mm).
    """

    plot: Path | None = None
    style: str = "paper"
    width: str = "column"

    def check(self) -> None:
        """Checks them before anything is played; raises HalfwinkError."""
        if self.plot is not None:
            from halfwink.report.figures import check

            check(self.plot, self.style, self.width)


#: A user who wants no figure.
NO_FIGURE = FigureOptions()

#: Columns of words.
LEFT = ("workload", "machine", "technique", "needs", "breaks")
#: Intervals: the second that a narrow terminal goes without.
INTERVAL = re.compile(r" ±\S+( %)?$| \(.*\)$")


def print_results(results: Results, *, wide: bool = False) -> None:
    """Prints the verdict, the short table, where kernel code ran if that was recorded, and what is
    modelled. On a terminal the table has the columns that fit, unless ``wide`` is set.
    """
    for sentence in results.verdict().sentences:
        stdout.print(plain(sentence), markup=False)
    stdout.print()
    summary = summarize(results)
    headings = ["workload", "machine", "technique", *summary.headings]
    rows = [[*line.whose, *line.cells] for line in summary.lines]
    if stdout.is_terminal and rows and not wide:
        shared, headings, rows = _narrowed(headings, rows, summary.spared, stdout.width)
        if shared:
            stdout.print(plain(shared), markup=False)
    columns = [(h, "left" if h in LEFT else "right") for h in headings]
    ruled = [
        number - 1
        for number, line in enumerate(summary.lines)
        if number and (line.is_first or line.is_unranked > summary.lines[number - 1].is_unranked)
    ]
    print_table(columns, rows, ruled=ruled, to=wide_out if wide else None)
    if results.has("calls"):
        placement.show(results)
    if results.has("segregation"):
        sides.show(results)
    text = f"all energies and times are modelled; saved: against {results.baseline}"
    if "core_energy_saving_pct" in results.runs.columns:
        text += "; core: with its first and second caches"
    if any(line.is_unranked for line in summary.lines):
        text += "; last, unranked: what breaks a limit or knows the future"
    if any("±" in cell or " to " in cell for row in rows for cell in row):
        text += "; ± and brackets: 95 % intervals"
    stdout.print(text, markup=False)


def _narrowed(
    headings: list[str], rows: list[list[str]], spared: Sequence[str], width: int
) -> tuple[str, list[str], list[list[str]]]:
    """Fits a table into the terminal: cells that all rows share move to a line above, headings take
    two lines, and ``spared`` columns are dropped. Files and pipes get all columns.
    """
    columns = dict(zip(headings, zip(*rows, strict=True), strict=True))
    shared = [
        columns.pop(name)[0] for name in ("workload", "machine") if len(set(columns[name])) == 1
    ]

    def needed() -> int:
        cells = [
            max(len(text) for text in (*heading.split(" ", 1), *below))
            for heading, below in columns.items()
        ]
        return sum(cells) + 2 * (len(cells) - 1)

    for number, heading in enumerate(spared):
        if needed() > width:
            columns.pop(heading, None)
        if number == 0 and needed() > width:
            columns = {h: tuple(INTERVAL.sub("", cell) for cell in of) for h, of in columns.items()}
    folded = [_folded(heading, max(map(len, of))) for heading, of in columns.items()]
    narrowed = [list(row) for row in zip(*columns.values(), strict=True)]
    return " on ".join(shared), folded, narrowed


def _folded(heading: str, width: int) -> str:
    """The heading in two lines where one is wider than what stands below."""
    return heading if len(heading) <= width else heading.replace(" ", "\n", 1)


def print_figure(
    results: Results, plots: Sequence[dict[str, Any]], ask: FigureOptions, *, quiet: bool
) -> None:
    """Draws the figure that answers into a file, if one was named, and prints its caption.

    Raises:
        HalfwinkError: the file cannot be written.
    """
    if ask.plot is None:
        return
    from halfwink.report.figures import figure_of

    save(figure_of(results, list(plots)), ask, quiet=quiet)


def save(figure: Figure, ask: FigureOptions, *, quiet: bool = False) -> None:
    """Draws a figure into the file that was named, and prints its caption.

    Raises:
        HalfwinkError: the file cannot be written.
    """
    from halfwink.report.figures import save_figure

    assert ask.plot is not None
    with claimed(ask.plot, ask.plot, quiet=quiet) as path:
        try:
            save_figure(figure, path, ask.style, ask.width)
        except OSError as error:
            raise HalfwinkError(f"{path}: {error.strerror}") from error
    say(f"figure: {ask.plot}; caption: {figure.caption}", quiet=quiet)


def changed(here: Place, results: Results, before: Place) -> Changes:
    """Returns what changed in a run against the one in another folder.

    Raises:
        HalfwinkError: both are the same folder, it is no run, or the two share nothing; one line.
        OSError: a URL does not answer.
    """
    one, other = (p.resolve() if isinstance(p, Path) else p for p in (here, before))
    if str(one) == str(other):
        raise HalfwinkError(f"--against {before}: is the same run; expected another one")
    return results.against(open_results(before))


def print_changes(changes: Changes) -> None:
    """Prints what changed against another run, the verdicts of both, and all values side by
    side."""
    print_sentences(changes.sentences)
    print_sentences([f"Verdict: {changes.verdict[0]}", f"Before: {changes.verdict_before[0]}"])
    stdout.print()
    headings, rows = changes.lines()
    print_table([(h, "left" if h in LEFT else "right") for h in headings], rows)


def draw(
    folder: Place,
    title: str,
    results: Results,
    plots: Sequence[dict[str, Any]] = (),
    changes: Changes | None = None,
) -> None:
    """Writes the report, with a study's own plots first, and what changed against another run;
    raises OSError."""
    # Drawing costs a second of imports, which most commands need not wait for.
    from halfwink.report import Section, write_report
    from halfwink.report.charts import study_plot

    extra = [Section(p["title"], "From the study.", study_plot(results, p)) for p in plots]
    made = studies.provenance()
    kept = folder / STUDY_FILE
    study = kept.read_bytes().decode() if kept.exists() else ""
    write_report(
        folder / "report.html",
        title,
        results,
        extra=extra,
        provenance=made,
        study=study,
        changes=changes,
    )

"""``halfwink reproduce gallery`` and ``--plot``: published figures with ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from halfwink.cli.console import claimed, say
from halfwink.cli.results import FigureOptions
from halfwink.errors import HalfwinkError
from halfwink.library import library, root
from halfwink.targets import targets as published
from halfwink.targets.published_figures import Work, costs, load

#: The word in the place of areas, works and ids.
GALLERY = "gallery"
#: Numbers of a picture up to which it can be read.
MOST = 120


def works() -> list[Work]:
    """Returns the works with their figures.

    Raises:
        HalfwinkError: a file of figures is wrong.
    """
    return load(root() / "targets" / "figures", library().targets())


def write(wanted: Sequence[str], out: Path | None, *, quiet: bool) -> None:
    """Writes the gallery of what is wanted, from the values that are kept.

    Raises:
        HalfwinkError: no folder is named, a name is unknown, or the folder cannot be written.
    """
    from halfwink.report.gallery import write_gallery

    if out is None:
        raise HalfwinkError(
            "reproduce gallery: expected a folder for the pages, such as -o gallery"
        )
    known = works()
    entries = published.kept(wanted)
    prices = costs(root() / "targets" / "costs.csv", known, library().targets())
    with claimed(out / "index.html", out / "index.html", quiet=quiet):
        try:
            pages = write_gallery(out, known, entries, prices)
        except OSError as error:
            where = error.filename or out
            raise HalfwinkError(f"{where}: {error.strerror or error}") from error
    say(f"{len(pages)} pages; open {pages[-1]}", quiet=quiet)


def draw(
    wanted: Sequence[str],
    entries: Sequence[Mapping[str, Any]],
    ask: FigureOptions,
    *,
    quiet: bool,
) -> None:
    """Draws the chart of what is wanted into a file, and prints its caption.

    Raises:
        HalfwinkError: the file cannot be written.
    """
    import altair as alt

    from halfwink.report.figures import Figure, save_figure
    from halfwink.report.gallery import sentences
    from halfwink.report.gallery_chart import LABELS, specification

    assert ask.plot is not None
    named = " ".join(wanted)

    def chart(size: tuple[int, int], font: float, _: int) -> alt.TopLevelMixin:
        return alt.Chart.from_dict(specification(entries, size[0], font) or {})

    titles = {f.id: f"{f.label}, {f.title}" for work in works() for f in work.figures}
    title = titles.get(named, named)
    caption = f"{title}. Rings: published; filled: halfwink. {' '.join(sentences(entries))}"
    with claimed(ask.plot, ask.plot, quiet=quiet) as path:
        try:
            save_figure(Figure(chart, caption, 1 + LABELS), path, ask.style, ask.width)
        except OSError as error:
            raise HalfwinkError(f"{path}: {error.strerror}") from error
    say(f"figure: {ask.plot}; caption: {caption}", quiet=quiet)


def check(wanted: Sequence[str], ask: FigureOptions) -> None:
    """Checks that a figure can be drawn before anything is computed.

    Raises:
        HalfwinkError: the file, style or width is wrong, or nothing is named that can be drawn, or
            more than one picture holds.
    """
    from halfwink.report.gallery_chart import is_number

    ask.check()
    chosen = published.select(library().targets(), wanted)
    numbers = sum(is_number(target["published"]) for target in chosen)
    if not numbers:
        raise HalfwinkError(
            f"--plot: {' '.join(wanted)}: its targets are statements without a number to draw"
        )
    if numbers > MOST:
        raise HalfwinkError(
            f"--plot: {' '.join(wanted) or 'all works'} has {numbers:,} numbers, more than the "
            f"{MOST} that one picture holds; expected a figure or table, such as strong/F2.13"
        )

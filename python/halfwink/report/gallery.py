"""Gallery: every figure and table of the five works from its printed numbers, with ours beside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from halfwink import _core
from halfwink.files import write_whole
from halfwink.report.figures import FONT as FAMILIES
from halfwink.report.gallery_chart import COLOURS, INK, OURS, is_number, kind_of, specification
from halfwink.results.wording import number
from halfwink.targets import score
from halfwink.targets.published_figures import Cost, Figure, Work

Entry = Mapping[str, Any]
#: Width of a panel and size of letters on a page, in pixels.
WIDTH, FONT = 330, 12
#: Least width of a chart in a narrow window, which then scrolls.
NARROW = 420
#: Missed predictions that the sentence names, and rows of a table that is shown unfolded.
NAMED, UNFOLDED = 3, 12
#: Stands for a value that nothing computes.
NEVER = "never computed"
#: Letters of a quantity in a sentence.
LETTERS = 110
CONFIG = {
    "background": "transparent",
    # Widths of letters are known before a browser draws them: its own font may be wider.
    "font": FAMILIES,
    "padding": {"left": 10, "right": 10, "top": 2, "bottom": 2},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": FONT,
        "titleFontSize": FONT,
        "titleFontWeight": "normal",
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.14,
        "labelOverlap": "greedy",
    },
    "legend": {"orient": "bottom", "columns": 3, "labelColor": INK, "labelFontSize": FONT}
    | {"labelLimit": 300, "symbolSize": 60},
    "title": {"color": INK, "fontSize": FONT, "fontWeight": 600},
    "view": {"stroke": None},
}


#: Meaning of each kind of mark.
MEANINGS = {
    "ours, met": "within the tolerance; a prediction, to which nothing was fitted",
    "ours, missed": "outside the tolerance, or the statement does not hold here",
    "ours, given": "used to set a model, taken from print, or calculated from it",
    "ours, insensitive": "met, but by broken models, too: it shows nothing",
    "ours, not judged": "nothing computes it, print contradicts itself, or it is tied to hardware",
}


@dataclass(frozen=True)
class Section:
    """A figure on its page.

    Attributes:
        figure: the figure.
        svg: chart of the figure; empty without numbers.
        said: sentences on what holds and what does not.
        counts: number of targets by kind of mark.
        entries: rows of its table.
        cost: time and disk from nothing, in words.
    """

    figure: Figure
    svg: str
    said: tuple[str, ...]
    counts: dict[str, int]
    entries: tuple[dict[str, str], ...]
    cost: str


def write_gallery(
    folder: Path, works: Sequence[Work], entries: Sequence[Entry], costs: Mapping[str, Cost]
) -> list[Path]:
    """Writes the pages: one for each work of which there are entries, and one that lists all.

    Raises:
        OSError: a page cannot be written.
    """
    by_id = {entry["id"]: entry for entry in entries}
    environment = Environment(
        loader=PackageLoader("halfwink.report"),
        autoescape=select_autoescape(["html", "j2"]),
        trim_blocks=True,
    )
    shared = {
        "version": _core.__version__,
        "colours": dict(zip(OURS, COLOURS[-len(OURS) :], strict=True)),
        "meanings": MEANINGS,
        "classes": dict(zip(OURS, ("met", "missed", "given", "numb", "open"), strict=True)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    pages: list[tuple[Work, list[Section], str]] = []
    for work in works:
        own = [section(figure, by_id, costs) for figure in work.figures if _is_there(figure, by_id)]
        if own:
            pages.append((work, own, headline(_of(work.figures, by_id))))
    written: list[Path] = []
    for work, own, line in pages:
        html = environment.get_template("gallery_work.html.j2").render(
            shared, work=work, sections=own, line=line, unfolded=UNFOLDED
        )
        written.append(folder / f"{work.name}.html")
        write_whole(written[-1], html)
    total = headline([dict(entry) for entry in by_id.values()])
    html = environment.get_template("gallery_index.html.j2").render(
        shared, pages=pages, line=total, count=sum(len(own) for _, own, _ in pages)
    )
    written.append(folder / "index.html")
    write_whole(written[-1], html)
    return written


def _is_there(figure: Figure, by_id: Mapping[str, Entry]) -> bool:
    return any(id in by_id for id in figure.targets)


def _of(figures: Sequence[Figure], by_id: Mapping[str, Entry]) -> list[dict[str, Any]]:
    found = (by_id.get(id) for figure in figures for id in figure.targets)
    return [dict(entry) for entry in found if entry is not None]


def section(figure: Figure, by_id: Mapping[str, Entry], costs: Mapping[str, Cost]) -> Section:
    """Returns a figure as its page has it."""
    entries = _of([figure], by_id)
    counts = {kind: sum(kind_of(e) == kind for e in entries) for kind in OURS}
    return Section(
        figure,
        _svg(entries, f"{figure.label}: {figure.title}"),
        sentences(entries),
        {kind: count for kind, count in counts.items() if count},
        tuple(_row(entry) for entry in entries),
        cost_of(figure, costs),
    )


def headline(entries: Sequence[dict[str, Any]]) -> str:
    """Says how many predictions of a work, or of all, are met."""
    found = score.score("", entries)
    missed = found.judged - found.null_good
    return (
        f"{found.judged:,} of the {len(entries):,} published values and statements are "
        f"predictions: {found.good:,} are met here. A model without the published mechanism meets "
        f"{found.null_good:,}; of the {missed:,} that it misses, {found.beyond:,} are met here."
    )


def cost_of(figure: Figure, costs: Mapping[str, Cost]) -> str:
    """Returns time and disk that the figure takes from nothing, in words."""
    known = costs.get(figure.id)
    return known.said if known else "time not measured"


def sentences(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Says how many predictions hold, which do not, and what else is no prediction."""
    found = score.score("", [dict(entry) for entry in entries])
    said: list[str] = []
    null = "a model without the mechanism"
    if found.judged == 1:
        ours = "met" if found.good else "missed"
        theirs = "meets" if found.null_good else "misses"
        said.append(f"The one prediction is {ours}; {null} {theirs} it.")
    elif found.judged:
        said.append(
            f"{found.good} of {found.judged} predictions are met; {null} meets "
            f"{found.null_good or 'none'}."
        )
    largest: dict[str, float] = {}
    for entry in entries:
        if is_number(entry["published"]):
            unit, size = entry["unit"], abs(entry["published"])
            largest[unit] = max(size, largest.get(unit, 0.0))
    missed = [entry for entry in entries if entry["verdict"] in score.BAD]
    missed.sort(key=lambda entry: _distance(entry, largest), reverse=True)
    if missed:
        more = len(missed) - NAMED
        named = "; ".join(_missed(entry) for entry in missed[:NAMED])
        said.append(f"Not met: {named}{f'; and {more} more' if more > 0 else ''}.")
    apart = {v: sum(e["verdict"] == v for e in entries) for v in (*score.APART, *score.UNJUDGED)}
    rest = ", ".join(f"{count} {verdict}" for verdict, count in apart.items() if count)
    if rest:
        said.append(f"Not counted: {rest}." if found.judged else f"No prediction: {rest}.")
    if never := sum(entry["ours"] is None for entry in entries):
        said.append(f"{never} of {len(entries)} {'has' if never == 1 else 'have'} no value here.")
    return tuple(said)


def _distance(entry: Entry, largest: Mapping[str, float]) -> float:
    """Returns how far a missed value is from the printed one, as a share of the largest printed
    value of the figure in that unit; statements last."""
    published, ours = entry["published"], entry["ours"]
    if not is_number(published) or not is_number(ours):
        return -1.0
    return abs(ours - published) / (largest[entry["unit"]] or 1.0)


def _missed(entry: Entry) -> str:
    quantity = entry["quantity"]
    if len(quantity) > LETTERS:
        quantity = f"{quantity[: LETTERS - 1]}…"
    if isinstance(entry["published"], bool):
        return f"the statement that {quantity}"
    unit = f" {entry['unit']}" if entry["unit"] not in ("x", "1", "count", "text") else ""
    printed = cell(entry["published"]) + (unit if is_number(entry["published"]) else "")
    return f"{quantity} (printed {printed}, here {cell(entry['ours'])}{unit})"


def cell(value: object) -> str:
    """Returns a value as tables show it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number(value, 4) if isinstance(value, int | float) else str(value)


def _row(entry: Entry) -> dict[str, str]:
    unit = "" if entry["unit"] in ("claim", "text", "1", "count") else f" {entry['unit']}"
    ours = entry["ours"]
    if entry["unit"] == "text" and ours is not None:
        ours = "the same" if ours == 1 else "another" if ours == 0 else ours
    return {
        "id": entry["id"],
        "quantity": entry["quantity"],
        "published": f"{cell(entry['published'])}{unit if is_number(entry['published']) else ''}",
        "ours": f"{cell(ours)}{unit if is_number(ours) else ''}" if ours is not None else NEVER,
        "verdict": entry["verdict"] + (", held out" if entry["held_out"] else ""),
        "kind": kind_of(entry),
        "note": entry["note"],
    }


def _svg(entries: Sequence[Entry], label: str) -> str:
    """Returns the chart as an element of a page, with the page's ink."""
    import vl_convert

    spec = specification(entries, WIDTH, FONT)
    if spec is None:
        return ""
    svg: str = vl_convert.vegalite_to_svg(spec | {"config": CONFIG})
    head, end, rest = svg.partition(">")
    wide = re.search(r'\bwidth="([\d.]+)"', head)
    head = re.sub(r' (role|aria-[\w-]+)="[^"]*"', "", head)
    rest = re.sub(r' (role|aria-[\w-]+)="[^"]*"', "", rest)
    safe = re.sub(r'[<>&"]', " ", label)
    style = f' style="min-width: {min(NARROW, float(wide[1]) if wide else NARROW):.0f}px"'
    return (
        f'{head} role="img" aria-label="{safe}; its numbers stand in the table"{style}{end}{rest}'
    )

"""``halfwink reproduce``: published numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.cli import gallery
from halfwink.cli.claims import show_claims
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_table, print_tables, progress_bar
from halfwink.cli.gallery import GALLERY
from halfwink.cli.results import NO_FIGURE, FigureOptions
from halfwink.errors import HalfwinkError, RunError
from halfwink.targets import claim_mutants, score
from halfwink.targets import mutation as broken
from halfwink.targets import targets as published
from halfwink.targets.claim_verdicts import claims as judged_claims
from halfwink.targets.claim_verdicts import with_turned

Flag = Annotated[bool, Parameter(negative="")]


def reproduce(
    *wanted: str,
    fresh: Flag = False,
    check: Flag = False,
    scores: Flag = False,
    claims: Flag = False,
    mutants: Flag = False,
    only: Annotated[list[str] | None, Parameter(name="--mutant")] = None,
    record: Flag = False,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    figure: FigureOptions = NO_FIGURE,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Show published numbers beside ours.

    Parameters
    ----------
    wanted
        Areas (gating), works (strong), figures and tables (strong/F2.13, strong/Table3.8), or
        beginnings of ids (strong/PT-2.1). All, if none is given. With --claims works or beginnings
        of claims' ids. The word gallery, before them or alone, writes web pages of all figures and
        tables, from kept values: nothing is computed.
    fresh
        Compute again what is already there.
    check
        Fail if a target is missed.
    scores
        Counts alone, a row for each work and area.
    claims
        Headline claims of the works, with a verdict on each that is computed from the targets.
    mutants
        Break the models in every way that is listed (targets/mutants), and say which targets that
        are met are not met then; with --claims which of these changes turn claims that fail.
    only
        Use only this mutant, with --mutants; may be given several times.
    record
        Store the results of --mutants in targets/killed.
    out
        Folder for the pages of gallery.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """
    if (only or record) and not mutants:
        raise HalfwinkError("--mutant and --record go with --mutants")
    if claims and (check or scores):
        raise HalfwinkError("--claims goes without --check and --scores")
    if claims and only:
        raise HalfwinkError("--mutant goes without --claims, which tries every mutant")
    if GALLERY in wanted:
        if fresh or check or scores or claims or mutants or json or figure.plot is not None:
            raise HalfwinkError("gallery goes with works, areas, figures, ids, -o and -q alone")
        gallery.write([name for name in wanted if name != GALLERY], out, quiet=quiet)
        return 0
    if out is not None:
        raise HalfwinkError("-o goes with gallery: `halfwink reproduce gallery -o DIR`")
    if figure.plot is not None:
        if claims or scores or mutants:
            raise HalfwinkError("--plot goes without --claims, --scores and --mutants")
        gallery.check(wanted, figure)
    if claims and mutants:
        with progress_bar("mutants", quiet=quiet) as progress:
            turned = claim_mutants.turn(wanted, progress=lambda _, p: progress(p))
        if record:
            claim_mutants.record(turned)
        judged = judged_claims(wanted)
        show_claims(with_turned([c for c in judged if c["id"] in turned], turned), json=json)
        return 0
    if mutants:
        with progress_bar("mutants", quiet=quiet) as progress:
            found = broken.mutants(wanted, only=only or (), progress=lambda _, p: progress(p))
        if record:
            broken.record(found)
        _show_mutants(found, json=json)
        broken.refuse_idle(found)
        return 0
    if claims:
        with progress_bar("claims", quiet=quiet) as progress:
            judged = judged_claims(wanted, fresh=fresh, progress=lambda _, p: progress(p))
        show_claims(judged, json=json)
        return 0
    with progress_bar("reproduce", quiet=quiet) as progress:
        entries = published.reproduce(wanted, fresh=fresh, progress=lambda _, p: progress(p))
    _show(entries, json=json, only_scores=scores)
    if figure.plot is not None:
        gallery.draw(wanted, entries, figure, quiet=quiet)
    missed = [e["id"] for e in entries if e["verdict"] in published.FAILURES]
    if check and missed:
        raise RunError(f"{len(missed)} targets are missed: {', '.join(missed[:8])}")
    return 0


def _show(entries: list[dict[str, Any]], *, json: bool, only_scores: bool) -> None:
    rows = score.scores(entries)
    if json:
        if only_scores:
            print_tables("reproduce --scores", {"scores": [vars(row) for row in rows]})
        else:
            print_tables("reproduce", {"targets": entries})
        return
    if only_scores:
        _print_scores(rows)
    else:
        _print_entries([e for e in entries if e["verdict"] != "not-yet"])
        stdout.print(_tally(entries))
    stdout.print(score.headline(rows[-1]))


def _print_scores(rows: list[score.Score]) -> None:
    table = [score.cells(row) for row in rows]
    # What no row has needs no column.
    shown = [n for n in range(len(score.HEADINGS)) if any(row[n] != "-" for row in table)]
    widths = [max(len(row[n]) for row in [list(score.HEADINGS), *table]) for n in shown]
    if sum(widths) + 2 * len(widths) > stdout.width:
        # What is counted apart has a line below, for all rows together.
        shown = [n for n in shown if score.HEADINGS[n] not in rows[-1].apart]
    print_table(
        [(score.HEADINGS[n], "left" if n == 0 else "right") for n in shown],
        [[row[n] for n in shown] for row in table],
    )
    if len(shown) < len(widths):
        apart = [f"{count} {verdict}" for verdict, count in rows[-1].apart.items() if count]
        stdout.print(f"apart: {', '.join(apart)}")


def _print_entries(entries: list[dict[str, Any]]) -> None:
    head = [("id", "left"), ("published", "right"), ("ours", "right"), ("verdict", "left")]
    mark = "*" if any(e["held_out"] for e in entries) else ""
    values = [
        [
            e["id"],
            _plain(e["published"]),
            _plain(e["ours"]),
            e["verdict"] + ("*" if e["held_out"] else ""),
        ]
        for e in entries
    ]
    # Names, numbers and verdicts are never cut: what does not fit behind them is not shown.
    left = stdout.width - _width(head, values)
    if left >= 20:
        head += [("unit", "left"), ("quantity", "left")]
        unit = max((len(e["unit"]) for e in entries), default=0)
        for row, e in zip(values, entries, strict=True):
            row += [e["unit"], _shorten(e["quantity"], min(max(left - unit - 4, 8), 72))]
    if left < 0:
        for name, published, ours, verdict in values:
            stdout.print(name)
            stdout.print(f"  published {published}, ours {ours}: {verdict}")
    else:
        print_table(head, values)
    if mark:
        stdout.print("* held out before anything was fitted")


def _width(head: list[tuple[str, str]], rows: list[list[str]]) -> int:
    """Returns the width of a table, with two blanks behind each column."""
    widest = [max([len(name), *(len(row[n]) for row in rows)]) for n, (name, _) in enumerate(head)]
    return sum(widest) + 2 * len(widest)


def _show_mutants(found: broken.Mutants, *, json: bool) -> None:
    undone = len(found.undone)
    if json:
        print_tables(
            "reproduce --mutants",
            {"mutants": [{**m, "killed": found.killed[m["name"]]} for m in found.mutants]},
            {
                "met": found.met,
                "insensitive": found.insensitive,
                "idle": found.idle,
                "score_pct": 100 * undone / len(found.met) if found.met else None,
            },
        )
        return
    head = [("mutant", "left"), ("breaks", "left"), ("kills", "right")]
    rows = [[m["name"], m["breaks"], str(len(found.killed[m["name"]]))] for m in found.mutants]
    left = max(stdout.width - _width(head, rows), 12)
    for row, m in zip(rows, found.mutants, strict=True):
        row.append(_shorten(m["what"], left))
    print_table([*head, ("what is not so any more", "left")], rows)
    more = len(found.met) - len(found.insensitive) - undone
    stdout.print(
        f"{len(found.met)} targets are met; {undone} of them break when a technique is undone, "
        f"{more} more when an input is changed"
    )
    if found.insensitive:
        stdout.print("insensitive, whatever is broken:")
        for id in found.insensitive:
            stdout.print(f"  {id}")


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return f"{value:.5g}"
    return str(value)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _tally(entries: list[dict[str, Any]]) -> str:
    counts = {v: sum(e["verdict"] == v for e in entries) for v in published.VERDICTS}
    parts = [f"{n} {verdict}" for verdict, n in counts.items() if n]
    return f"{len(entries)} targets: {', '.join(parts)}"

"""``halfwink reproduce``: published numbers beside ours."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from halfwink import targets as published
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_json, print_table, progress_bar
from halfwink.errors import RunError

Flag = Annotated[bool, Parameter(negative="")]


def reproduce(
    *wanted: str,
    fresh: Flag = False,
    check: Flag = False,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Show published numbers beside ours.

    Parameters
    ----------
    wanted
        Areas (gating), works (strong), or beginnings of ids (strong/PT-2.1). All, if none is given.
    fresh
        Compute again what is already there.
    check
        Fail if a target is missed.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """
    with progress_bar("reproduce", quiet=quiet) as progress:
        entries = published.reproduce(wanted, fresh=fresh, progress=lambda _, p: progress(p))
    if json:
        print_json(entries)
    else:
        computed = [e for e in entries if e["verdict"] != "not-yet"]
        print_table(
            [
                ("id", "left"),
                ("quantity", "left"),
                ("unit", "left"),
                ("published", "right"),
                ("ours", "right"),
                ("class", "left"),
                ("verdict", "left"),
            ],
            [
                [
                    e["id"],
                    _shorten(e["quantity"], 72),
                    e["unit"],
                    _plain(e["published"]),
                    _plain(e["ours"]),
                    e["class"],
                    e["verdict"],
                ]
                for e in computed
            ],
        )
        for line in _tally(entries):
            stdout.print(line)
    missed = [e["id"] for e in entries if e["verdict"] in published.FAILURES]
    if check and missed:
        raise RunError(f"{len(missed)} targets are missed: {', '.join(missed[:8])}")
    return 0


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


def _tally(entries: list[dict[str, Any]]) -> list[str]:
    order = ["match", "holds", "calibrated", "analogue", "miss", "fails"]
    order += ["undetermined", "not-yet"]
    counts = {v: sum(e["verdict"] == v for e in entries) for v in order}
    parts = [f"{n} {verdict}" for verdict, n in counts.items() if n]
    return [f"{len(entries)} targets: {', '.join(parts)}"]

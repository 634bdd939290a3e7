"""``halfwink replay``: event logs, told to fresh policies and laid side by side."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.cli.console import out, print_table, print_tables
from halfwink.runs import logs

#: Columns of a terminal that no line of ours exceeds.
WIDTH = 80

EXIT_DIFFERS = 1


def replay(
    log: Path,
    *,
    beside: Annotated[Path | None, Parameter(name="--beside")] = None,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Tell fresh policies what an event log says: the same actions, or where they differ.

    Exit status 1 if a decision differs.

    Parameters
    ----------
    log
        A log of a simulated run (`halfwink compare ... --log FILE`) or of a live program.
    beside
        Another log, to lay beside it: where they first decide differently, and why.
    technique
        Another technique than the log's: where would it have decided otherwise?
    json
        Print one JSON document.
    """
    told = logs.replay(log, technique=technique)
    compared = logs.beside(log, beside) if beside is not None else None
    if json:
        document: dict[str, Any] = dataclasses.asdict(told)
        if compared is not None:
            document["beside"] = {"log": str(beside), **dataclasses.asdict(compared)}
        print_tables("replay", {}, document)
    else:
        _print_replay(told, technique)
        if compared is not None and beside is not None:
            out.print()
            _print_beside(compared, log, beside)
    equal = told.is_equal and (compared is None or compared.is_equal)
    return 0 if equal else EXIT_DIFFERS


def _line(text: str) -> None:
    """A line that is no wider than a terminal; what does not fit is in the JSON document."""
    shown = text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
    out.print(shown, markup=False)


def _seconds(ps: int) -> str:
    """Formats a time to the last picosecond: two logs may differ by one."""
    whole, rest = divmod(ps, 10**12)
    return f"{whole}.{rest:012}".rstrip("0").rstrip(".") + " s"


def _end(name: str, room: int) -> str:
    """A file's name, or as much of its end as fits."""
    return name if len(name) <= room else "..." + name[3 - room :]


def _print_replay(told: logs.Replay, technique: str | None) -> None:
    header = told.header
    who = technique or header["technique"]
    if told.first_difference is None:
        part = "" if told.unheard == 0 else " up to the first gap"
        _line(f"equal{part}: {who} decides as {told.log} says")
    else:
        _line(f"differs at line {told.first_difference['line']} of {told.log}")
    rows = [
        ["world", header["world"]],
        ["technique", who],
        ["machine", header["machine"]],
        ["workload", header["workload"]],
        ["policies", f"{told.policies:,}"],
        ["lines", f"{told.lines:,}"],
        ["events", f"{told.events:,}"],
        ["timers", f"{told.timers:,}"],
        ["actions equal", f"{told.actions:,}"],
        ["ended", _ended(told.ended)],
    ]
    if told.unheard:
        rows.append(["not told", f"{told.unheard:,} lines after a gap"])
    columns = [("log", "left"), (_end(told.log, WIDTH - 16), "left")]
    print_table(columns, [[a, b[: WIDTH - 16]] for a, b in rows])
    found = told.first_difference
    if found is None:
        return
    _line(f"{_place(found['place'])}, at {_seconds(found['now_ps'])}")
    _line(f"  told      {_data(found['event'])}")
    _line(f"  expected  {_actions(found['expected'])}")
    _line(f"  found     {_actions(found['found'])}")
    if (not_due := found.get("not_due")) is not None:
        due = not_due["due_ps"]
        _line("  its timer is " + ("not set" if due is None else f"due at {_seconds(due)}"))


#: Why two logs decide differently, in words.
WHY = {
    "action": "another decision on the same events at the same times",
    "time": "the same events, but at other times",
    "event": "another event came before",
    "end": "one of them is over",
}


def _print_beside(found: logs.Beside, a: Path, b: Path) -> None:
    if found.first is None:
        _line(f"alike: both logs have the same {found.alike:,} decisions")
    else:
        _line(f"after {found.alike:,} equal decisions: {WHY[found.first['why']]}")
    names = [str(a), str(b)]
    rows: list[list[str]] = []
    for key in ("world", "technique", "machine", "workload"):
        mark = " *" if key in found.headers_differ else ""
        rows.append([key + mark, *(side["header"][key] for side in found.logs)])
    for key in ("lines", "decisions"):
        rows.append([key, *(f"{side[key]:,}" for side in found.logs)])
    rows.append(["ended", *(_ended(side["ended"]) for side in found.logs)])
    room = (WIDTH - 16) // 2
    columns = [("log", "left"), *((_end(name, room), "left") for name in names)]
    print_table(columns, [[row[0], *(cell[:room] for cell in row[1:])] for row in rows])
    for log, place in found.alone:
        _line(f"only in {names[log]}: {_place(place)}")
    if found.first is None:
        return
    _line(_place(found.first["place"]))
    for what in ("cause", "decisions"):
        for name, shown in zip(names, found.first[what], strict=True):
            _line(f"  {name}{_shown(shown)}")


def _shown(shown: dict[str, Any] | None) -> str:
    if shown is None:
        return ": nothing more"
    actions = f" -> {_actions(shown['actions'])}" if shown["actions"] else ""
    return f":{shown['line']}: at {_seconds(shown['now_ps'])} {_data(shown['event'])}{actions}"


def _ended(ended: dict[str, Any]) -> str:
    if (footer := ended.get("whole")) is not None:
        dropped = f", {footer['dropped']:,} lines dropped" if footer["dropped"] else ""
        return f"whole, at {_seconds(footer['end_ps'])}{dropped}"
    return "cut in the middle of a line" if ended["cut"]["torn"] else "cut: no footer"


def _place(place: dict[str, Any]) -> str:
    return f"{place['family']} policy {place['stream']}"


def _actions(actions: list[Any]) -> str:
    return ", ".join(_data(action) for action in actions) or "nothing"


def _data(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))

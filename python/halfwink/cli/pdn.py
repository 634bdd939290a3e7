"""``halfwink pdn``: the power-delivery network of a chip."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink import _core
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_table, print_tables, say
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError
from halfwink.files import write_whole
from halfwink.library import library

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]
Rows = list[dict[str, Any]]

#: Columns of each table, in order.
FIT = [
    "fit",
    "t0_ns",
    "alpha",
    "beta",
    "gamma",
    "delta",
    "error_mean_pct",
    "error_max_pct",
    "error_max_ns",
]
TABLE = ["case", "sets", "w", "x", "y", "z", "wake_up_ns", "staggered_ns"]
STAGGER = ["waking", "at_once_ns", "staggered_ns", "cut_pct"]
SENSITIVITY = ["element", "scale", "t0_ns"]


def pdn(
    network: str = "ev6",
    *,
    table: Flag = False,
    fit: Flag = False,
    sensitivity: Flag = False,
    stagger: Flag = False,
    calibrate: Flag = False,
    case: str | None = None,
    deck: str | None = None,
    wake_up: Annotated[float | None, Parameter(name="--wake-up")] = None,
    apart: float = 0.0,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    setting: Setting = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find the shortest wake-ups that a chip's power delivery allows.

    A CASE draws the cores row by row, with / between rows: a active, w waking, . asleep.

    Parameters
    ----------
    network
        Name (ev6), name and grid (ev6-2x4), or a TOML file.
    table
        Every set of waking cores, as every active core sees it.
    fit
        The coefficients of the wake-up equation, with errors (if nothing else is asked for).
    sensitivity
        The shortest wake-up with elements scaled from 0.1x to 2x.
    stagger
        The worst wake-up by number of waking cores, at once and staggered.
    calibrate
        The values of the calibrated elements, fitted again.
    case
        Shortest safe wake-up of a CASE, and the droop of each core.
    deck
        Write a CASE as a SPICE deck.
    wake_up
        Nanoseconds of each wake-up of a CASE, instead of the shortest safe ones.
    apart
        Nanoseconds between the starts of the waking cores of a CASE.
    out
        File of the deck (default: standard output).
    setting
        Change an element: --set mesh.bump.l_ph=80. May be repeated.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    asked = [table, fit, sensitivity, stagger, calibrate, case is not None, deck is not None]
    if sum(asked) > 1:
        raise HalfwinkError(
            "expected one of --table, --fit, --sensitivity, --stagger, --calibrate, --case, --deck"
        )
    if case is None and deck is None and (wake_up is not None or apart or out is not None):
        raise HalfwinkError("--wake-up, --apart and --out are of a --case or a --deck")
    found = library().network(network, settings(setting))
    if deck is not None:
        return _deck(found.deck(deck, wake_up, apart), out, quiet)
    if case is not None:
        return _case(found.case(case, wake_up, apart), json)
    if calibrate:
        return _show("calibrate", found.calibrate(), ["element", "value"], json)
    if table:
        return _show("table", found.table(), TABLE, json)
    if sensitivity:
        return _show("sensitivity", found.sensitivity(), SENSITIVITY, json)
    if stagger:
        return _show("stagger", found.stagger(), STAGGER, json)
    status = _show("fit", found.fit(), FIT, json)
    if not json:
        _provenance(found)
    return status


def _show(view: str, rows: Rows, keys: list[str], as_json: bool) -> int:
    if as_json:
        print_tables("pdn", {view: rows})
        return 0
    columns = [
        (_heading(key), "left" if key in ("fit", "case", "element") else "right") for key in keys
    ]
    print_table(columns, [[_cell(row[key]) for key in keys] for row in rows])
    return 0


def _heading(key: str) -> str:
    return key.replace("_pct", " %").replace("_", " ")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _provenance(found: _core.Network) -> None:
    spec = found.spec()
    stdout.print(
        "T = T0 (w + beta x + gamma y + delta z)^alpha; times are modelled, in nanoseconds"
    )
    if spec["calibrated"]:
        stdout.print(f"calibrated: {', '.join(spec['calibrated'])}")


def _case(answer: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print_tables("pdn --case", {}, answer)
        return 0
    rows = answer["case"].split("/")
    droops = iter(answer["droop"])
    stdout.print(
        f"shortest safe wake-up {answer['shortest_ns']:.2f} ns; "
        f"droop with {answer['wake_up_ns']:.2f} ns, % of the supply:"
    )
    for row in rows:
        stdout.print("  ".join(f"{mark} {100 * next(droops):5.2f}" for mark in row), markup=False)
    return 0


def _deck(text: str, out: Path | None, quiet: bool) -> int:
    if out is None:
        stdout.out(text, end="")
        return 0
    write_whole(out, text)
    say(f"{out}; run: ngspice -b {out}", quiet=quiet)
    return 0

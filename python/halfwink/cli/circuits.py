"""``halfwink circuits``: optical circuits instead of packet switches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import App, Parameter

from halfwink import circuits
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_json, say
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]

app = App(name="circuits", help="Optical circuits that racks use by turns.")


@app.command
def model(
    fabric: str = "optical-core",
    *,
    days: Flag = False,
    savings: Flag = False,
    trees: Flag = False,
    facts: Flag = False,
    plot: Annotated[Path | None, Parameter(name="--plot")] = None,
    setting: Setting = None,
    json: Json = False,
) -> int:
    """Show what circuits cost in throughput and round trips, and what they save in power.

    Without an option: duty, bandwidth and round trip by length of day, with the circuits that
    share a port in FABRIC; then what a data centre saves at 30 % utilisation. All are closed forms.

    Parameters
    ----------
    fabric
        Name (optical-core, mordia), or a TOML file.
    days
        By length of day and number of circuits that share a port.
    savings
        Power of a data centre with either core, by demand and utilisation of its servers.
    trees
        Servers and switches of scale-out networks.
    facts
        Values of the switch.
    plot
        Write what is saved as a chart (.html, .svg, .png).
    setting
        Change a value: --set switch.reconfiguration_us=20. May be repeated.
    json
        Print one JSON document.
    """
    asked = {"days": days, "savings": savings, "trees": trees, "facts": facts}
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise HalfwinkError(f"expected one of {', '.join(f'--{name}' for name in asked)}")
    found = circuits.fabric(fabric, set=dict(settings(setting)))
    tables = found.frames()
    if plot is not None:
        found.chart().save(str(plot))
        say(f"chart: {plot}")
    if json:
        wanted = {name: tables[name].to_dicts() for name in chosen or tables}
        print_json({"fabric": fabric, **wanted})
    elif chosen:
        _print(tables[chosen[0]], chosen[0])
    else:
        _overview(tables)
    return 0


def _print(table: pl.DataFrame, name: str) -> None:
    if table.is_empty():
        raise HalfwinkError(f"no {name}: the fabric has no [data_centre]")
    print_frame(table)


def _overview(tables: dict[str, pl.DataFrame]) -> None:
    days, savings = tables["days"], tables["savings"]
    sharers = days["sharers"].unique().sort()
    shown = 22.0 if 22.0 in sharers else sharers[0]
    print_frame(days.filter(sharers=shown).drop("sharers"))
    stdout.print(f"[dim]{shown:g} circuits share a port; round trip of a short message[/dim]")
    if savings.is_empty():
        return
    stdout.print()
    print_frame(savings.filter(utilisation_pct=30.0).drop("utilisation_pct", "port_ratio"))
    stdout.print(
        "[dim]power for each server at 30 % utilisation, with a core of packet switches and\n"
        "of circuits (modelled)[/dim]"
    )

"""``halfwink circuits``: optical circuits instead of packet switches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import App, Parameter

from halfwink.cli.commands import RUN_OPTIONS, Json, RunOptions, compare
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_sentences, print_tables
from halfwink.cli.fabric_advice import advise
from halfwink.cli.results import NO_FIGURE, FigureOptions, save
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError
from halfwink.models import circuits

Flag = Annotated[bool, Parameter(negative="")]

app = App(name="circuits", help="Optical circuits that racks use by turns.")
app.command(advise)


@app.command
def model(
    fabric: str = "optical-core",
    *,
    days: Flag = False,
    savings: Flag = False,
    trees: Flag = False,
    facts: Flag = False,
    setting: Setting = None,
    figure: FigureOptions = NO_FIGURE,
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
        Show results by length of day and number of circuits that share a port.
    savings
        Power of a data centre with either core, by demand and utilisation of its servers.
    trees
        Servers and switches of scale-out networks.
    facts
        Values of the switch.
    setting
        Change a value: --set switch.reconfiguration_us=20. May be repeated.
    json
        Print one JSON document.
    """
    figure.check()
    asked = {"days": days, "savings": savings, "trees": trees, "facts": facts}
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise HalfwinkError(f"expected one of {', '.join(f'--{name}' for name in asked)}")
    found = circuits.fabric(fabric, set=dict(settings(setting)))
    tables = found.frames()
    if figure.plot is not None:
        from halfwink.report.figures import of_chart

        save(of_chart(found.chart(), f"{found.answer()}; {fabric}, closed forms."), figure)
    if json:
        wanted = {name: tables[name] for name in chosen or tables}
        print_tables("circuits model", wanted, {"fabric": fabric})
    elif chosen:
        _print(tables[chosen[0]], chosen[0])
    else:
        _overview(tables)
    return 0


@app.command
def simulate(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    setting: Setting = None,
    table: str | None = None,
    figure: FigureOptions = NO_FIGURE,
    options: RunOptions = RUN_OPTIONS,
) -> int:
    """Show what hosts send, lose and draw under each schedule of circuits (modelled).

    The runs, columns and report are those of `halfwink compare -w fabric`.

    Parameters
    ----------
    workloads
        all-to-all: each host sends as much as it can to every other one. Default: all-to-all.
    technique
        Techniques, separated by commas, with parameters: packet-switch, round-robin:day_us=61 ...
        (default: all; `halfwink list techniques --world fabric` shows them).
    machine
        Fabric with hosts (mordia), or a TOML file. Default: mordia.
    setting
        Change a value: --set tokens=naive (aging, pacing), --set transport=tcp, --set
        duration_ms=200, --set hosts.frame_bytes=1500. May be repeated.
    table
        Table to print instead of the short one: ledger, host.
    """
    return compare(
        *workloads,
        world="fabric",
        technique=technique,
        machine=machine,
        setting=setting,
        table=table,
        figure=figure,
        options=options,
    )


@app.command
def schedule(
    demand: Path,
    *,
    scheduler: str = "traffic-matrix",
    week_us: float = 3000.0,
    night_us: float = 11.5,
    shortest_us: float = 61.0,
    gbps: float = 10.0,
    figure: FigureOptions = NO_FIGURE,
    json: Json = False,
) -> int:
    """Plan a week of circuits for a demand: the receiver of each sender on each day.

    Parameters
    ----------
    demand
        A file with a line for each sender: bytes for each receiver, by commas.
    scheduler
        traffic-matrix (shares of the week) or solstice (long days until all is served).
    week_us
        Length of a week, nights included, in microseconds; of solstice the most.
    night_us
        Length of a night, in microseconds.
    shortest_us
        Shortest day, in microseconds.
    gbps
        Rate of a circuit, in gigabits per second.
    json
        Print one JSON document.
    """
    figure.check()
    found = circuits.circuit_schedule(
        demand,
        scheduler=scheduler,
        week_us=week_us,
        night_us=night_us,
        shortest_us=shortest_us,
        gbps=gbps,
    )
    facts = dict(found.facts.iter_rows())
    if figure.plot is not None:
        from halfwink.report.figures import Figure, modelled

        caption = modelled(f"{found.answer()}; {scheduler}, for {demand.name}.")
        save(Figure(lambda size, _font, _columns: found.drawn(size), caption), figure)
    if json:
        print_tables("circuits schedule", {"week": found.week}, facts)
        return 0
    print_frame(found.week.with_columns(_cut(pl.col("circuits"))))
    stdout.print()
    print_sentences([f"{found.answer()}. All circuits: --json"])
    return 0


#: What fits beside two numbers into 80 columns.
_WIDTH = 56


def _cut(column: pl.Expr) -> pl.Expr:
    short = column.str.slice(0, _WIDTH - 4) + " ..."
    return pl.when(column.str.len_chars() > _WIDTH).then(short).otherwise(column)


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

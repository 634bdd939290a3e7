"""``halfwink circuits``: optical circuits instead of packet switches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import App, Parameter

from halfwink import circuits
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_json, save_chart
from halfwink.cli.fabric_advice import advise
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]

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
        Show results by length of day and number of circuits that share a port.
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
        save_chart(found.chart(), plot)
    if json:
        wanted = {name: tables[name].to_dicts() for name in chosen or tables}
        print_json("circuits.model", {"fabric": fabric, **wanted})
    elif chosen:
        _print(tables[chosen[0]], chosen[0])
    else:
        _overview(tables)
    return 0


@app.command
def simulate(
    fabric: str = "mordia",
    *,
    day: str = "61,123.5,300",
    tokens: str = "naive,aging,pacing",
    mtu: str = "",
    transport: str = "udp",
    congestion: str = "cubic",
    offload: str = "off",
    duration_ms: float = 1000.0,
    seed: int = 1,
    setting: Setting = None,
    json: Json = False,
) -> int:
    """Play hosts that send to all others, circuit after circuit (modelled).

    Parameters
    ----------
    fabric
        Name of a fabric with hosts (mordia), or a TOML file.
    day
        Lengths of days in microseconds, by commas.
    tokens
        Schemes that limit a host's frames while its circuit is up: naive, aging, pacing, by commas.
    mtu
        Sizes of frames in bytes, by commas; the fabric's own if not given.
    transport
        Transport of data: udp or tcp.
    congestion
        Congestion control of TCP: cubic, reno or dctcp.
    offload
        Segmentation and coalescing of TCP by network cards: on or off.
    duration_ms
        Length of each run, in simulated milliseconds.
    seed
        Seed of all random streams.
    setting
        Change a value: --set hosts.margin_us=20. May be repeated.
    json
        Print one JSON document.
    """
    runs = circuits.circuit_runs(
        fabric,
        days_us=_numbers(day, "--day"),
        tokens=tokens.split(","),
        mtu=_sizes(mtu) if mtu else (),
        transport=transport,
        congestion=congestion,
        offload=offload,
        duration_ms=duration_ms,
        seed=seed,
        set=dict(settings(setting)),
    )
    if json:
        print_json("circuits.simulate", {"fabric": fabric, "runs": runs.to_dicts()})
        return 0
    sizes = ["mtu_bytes"] if mtu else []
    shown = ["tokens", "day_us", "loss_pct", "host_gbps", "fairness_pct"]
    last = ["resent_pct", "timeouts"] if transport == "tcp" else ["first_arrival_us"]
    print_frame(runs.select(*sizes, *shown, *last))
    if transport == "tcp":
        stdout.print(
            "[dim]all modelled; what arrives in order at a host; fairness: spread over senders\n"
            "as share of the mean; resent: of all segments sent[/dim]"
        )
        return 0
    stdout.print(
        "[dim]all modelled; fairness: spread over senders as share of the mean; first\n"
        "packet of a circuit at its receiver, from the begin of its day[/dim]"
    )
    return 0


@app.command
def schedule(
    demand: Path,
    *,
    scheduler: str = "traffic-matrix",
    week_us: float = 3000.0,
    night_us: float = 11.5,
    shortest_us: float = 61.0,
    gbps: float = 10.0,
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
    found = circuits.circuit_schedule(
        demand,
        scheduler=scheduler,
        week_us=week_us,
        night_us=night_us,
        shortest_us=shortest_us,
        gbps=gbps,
    )
    facts = dict(found.facts.iter_rows())
    if json:
        print_json("circuits.schedule", {"facts": facts, "week": found.week.to_dicts()})
        return 0
    print_frame(found.week.with_columns(_cut(pl.col("circuits"))))
    stdout.print(
        f"[dim]{facts['slots']:.0f} days of {facts['hosts']:.0f} hosts in "
        f"{facts['week_us']:.1f} us, {facts['duty_pct']:.1f} % of it day; "
        "all circuits: --json[/dim]"
    )
    return 0


#: What fits beside two numbers into 80 columns.
_WIDTH = 56


def _cut(column: pl.Expr) -> pl.Expr:
    short = column.str.slice(0, _WIDTH - 4) + " ..."
    return pl.when(column.str.len_chars() > _WIDTH).then(short).otherwise(column)


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise HalfwinkError(f"{option} {text}: expected numbers, by commas") from None


def _sizes(text: str) -> list[int]:
    sizes = _numbers(text, "--mtu")
    if not all(size.is_integer() and 64 <= size <= 65_535 for size in sizes):
        raise HalfwinkError(f"--mtu {text}: expected whole bytes from 64 to 65535")
    return [int(size) for size in sizes]


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

"""``halfwink preheat``: caches that are loaded before the request arrives."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from halfwink.cli import preheat_prototype
from halfwink.cli.console import out, print_table, print_tables
from halfwink.cli.results import NO_FIGURE, FigureOptions, save
from halfwink.cli.settings import Setting, settings
from halfwink.models.preheat import PreheatSimulation
from halfwink.models.preheat import simulate as run

app = App(
    name="preheat", help="Load caches before the request arrives, simulated.", help_on_error=False
)
app.command(preheat_prototype.prototype)
app.command(preheat_prototype.breakdown)
app.command(preheat_prototype.deadline)


@app.command
def simulate(
    workload: str,
    *,
    machine: Annotated[str, Parameter(name=["-m", "--machine"])] = "ev6",
    requests: int = 200,
    training: int = 10,
    sleep_us: Annotated[float, Parameter(name="--sleep-us")] = 3000.0,
    lead_us: Annotated[float, Parameter(name="--lead-us")] = 500.0,
    set: Setting = None,
    figure: FigureOptions = NO_FIGURE,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Play requests of a recorded service warm, cold after a sleep, and preheated.

    Parameters
    ----------
    workload
        A recorded service, or a trace (.hwt) that marks requests.
    machine
        A chip; one core of it is used.
    requests
        Largest number of requests to measure.
    training
        Requests before them, whose dumps are intersected.
    sleep_us
        Sleep before each request, in microseconds.
    lead_us
        Time from the announcement of a request to its arrival, in microseconds.
    set
        Change a value of the machine: --set gating.wake_up_ns=35000. May be repeated.
    json
        Print JSON.
    """
    figure.check()
    found = run(
        workload,
        machine=machine,
        requests=requests,
        training=training,
        sleep_us=sleep_us,
        lead_us=lead_us,
        set=dict(settings(set)),
    )
    if figure.plot is not None:
        from halfwink.report.preheat_charts import simulation

        save(simulation(found.modes, workload, machine), figure)
    if json:
        tables = found.frames()
        facts = tables.pop("facts").row(0, named=True)
        print_tables(
            "preheat simulate", tables, {"workload": workload, "machine": machine, **facts}
        )
    else:
        _show(found)
    return 0


def _heads(first: str, *others: str) -> list[tuple[str, str]]:
    return [(first, "left"), *((name, "right") for name in others)]


def _show(found: PreheatSimulation) -> None:
    fact: dict[str, Any] = found.facts.row(0, named=True)
    out.print(
        f"{fact['measured_requests']} requests, cut at {fact['cut']}; sleep loses {fact['loses']}"
    )
    out.print(
        f"set: {fact['set_lines']} lines ({fact['set_kib']:.0f} KiB) in {fact['set_words']} runs, "
        f"of {fact['training_requests']} dumps of the {fact['dumped_level']}"
    )
    rows = found.modes.to_dicts()
    print_table(
        _heads("mode", "mean us", "p99 us", "gone %", "L2 miss", "L3 miss", "loaded", "load us"),
        [
            [
                row["mode"],
                f"{row['response_mean_us']:.2f}",
                f"{row['response_p99_us']:.2f}",
                f"{100 * row['reduction']:.0f}",
                f"{row['l2_misses']:.0f}",
                f"{row['l3_misses']:.0f}",
                f"{row['loaded']:.0f}",
                f"{row['preheat_us']:.1f}",
            ]
            for row in rows
        ],
    )
    print_table(
        _heads("mode", "uJ, sleep and request", "more than warm", "pays from, us asleep"),
        [
            [
                row["mode"],
                f"{row['energy_uj']:.0f}",
                f"{row['excess_uj']:+.0f}",
                "-" if row["break_even_us"] is None else f"{row['break_even_us']:.0f}",
            ]
            for row in rows
        ],
    )
    useful = next(row for row in rows if row["mode"] == "preheated")
    out.print(
        f"of the set, {useful['useful']:.0f} lines are touched, "
        f"of {useful['touched']:.0f} that a request touches"
    )
    orders = ", ".join(f"{o['order']} {o['preheat_us']:.1f}" for o in found.orders.to_dicts())
    out.print(f"us to load the set: {orders}")
    out.print("times are simulated, energy is modelled; all books are closed")

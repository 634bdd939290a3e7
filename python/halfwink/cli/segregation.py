"""``halfwink segregation``: what keeping kernel and user apart in the second level would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_table, print_tables
from halfwink.cli.results import NO_FIGURE, FigureOptions, save
from halfwink.cli.settings import Setting, settings

if TYPE_CHECKING:
    from halfwink.models.segregation import SegregationSweep

app = App(name="segregation", help="Keep kernel and user apart in the second-level cache.")

Json = Annotated[bool, Parameter(name="--json", negative="")]


@app.command
def sweep(
    workload: str,
    *,
    l2: str = "1MB",
    l1: str = "16KB:2",
    only: str = "",
    setting: Setting = None,
    figure: FigureOptions = NO_FIGURE,
    json: Json = False,
) -> int:
    """Play every split, every insertion rank and every adaptive policy over one workload.

    What misses in the first level is recorded once, and played through each second level. Time is
    modelled: an instruction a cycle, each look-up and each miss waited for.

    Parameters
    ----------
    workload
        A workload that runs on one core, by name, or a trace (.hwt).
    l2
        Size of the second level, with its ways if they are not 16 (256KB, 2MB:8).
    l1
        Size and ways of each first-level cache.
    only
        Kinds to play beside lru, with commas: bank-partition, bank-choice, way-partition,
        way-allocator, ucp, insertion; drrip, ship (blind to privilege).
    setting
        Values to change: whole_cycles (12), bank_cycles (9), memory_cycles (350), write_backs
        (false), stores_stall (true), sides (privilege; page, as a control), l1_split (none),
        epochs_shortened_by (25).
    json
        Print one JSON document, with every scheme.
    """
    from halfwink.models.segregation import segregation_sweep

    figure.check()
    found = segregation_sweep(workload, l1=l1, l2=l2, only=only, set=dict(settings(setting)))
    if figure.plot is not None:
        from halfwink.report.figures import of_chart

        answer = " ".join(_verdict(workload, l2, found).split())
        caption = f"{answer} Gain: over one LRU stack, at equal latency."
        save(of_chart(found.chart(), caption), figure)
    if json:
        facts = {"workload": workload, "l1": l1, "l2": l2, **dict(found.facts.iter_rows())}
        tables = {"best": found.best(), "schemes": found.schemes, "curves": found.curves}
        print_tables("segregation sweep", tables, facts)
    else:
        _show(workload, l2, found)
    return 0


def rule_text(row: dict[str, Any]) -> str:
    """Describes the setting of a scheme in a few words."""
    if row["user_rank"] is not None:
        return f"user {row['user_rank']}, kernel {row['kernel_rank']}"
    if row["kernel_ways"] is not None:
        return f"{row['route']}, {row['kernel_ways']} ways"
    if row["final_kernel_ways"] is not None:
        return f"at last {row['final_kernel_ways']} ways"
    return row["route"]


def _show(workload: str, l2: str, found: SegregationSweep) -> None:
    best = found.best().to_dicts()
    stdout.print(_verdict(workload, l2, found), markup=False)
    stdout.print()
    rows = [
        [
            row["scheme"],
            ", ".join(part for part in (row["look_up"], rule_text(row)) if part),
            f"{row['mpki']:.2f}",
            f"{row['equal_gain_pct']:+.1f}",
            f"{row['gain_pct']:+.1f}",
            "-" if row["predicted_pct"] is None else f"{row['predicted_pct']:.1f}",
            f"{row['banks_per_access']:.2f}",
        ]
        for row in best
    ]
    heads = ["MPKI", "gain %", "with 9", "right %", "banks"]
    columns = [("best of each", "left"), ("sets", "left"), *((h, "right") for h in heads)]
    print_table(columns, rows, ruled=[0])
    stdout.print(
        "gain: throughput over one LRU stack, all look-ups alike; with 9: banks answer\n"
        "in 9 of 12 cycles, as published; right: hits found in the bank asked first;\n"
        "banks: read for each access. Time is modelled.",
        markup=False,
    )


def _verdict(workload: str, l2: str, found: SegregationSweep) -> str:
    """Returns a sentence on the largest gain and the scheme that brings it."""
    lru = found.schemes.row(0, named=True)
    best = max(found.best().to_dicts(), key=lambda row: row["equal_gain_pct"])
    told = (
        f"{workload}, {l2} of second level: {lru['mpki']:.2f} misses per 1000 instructions,\n"
        f"{100 * found.fact('kernel_share'):.0f} % of instructions the kernel's. "
    )
    if best["equal_gain_pct"] < 0.5:
        return told + "No rule gains half a per cent: leave it."
    rule = rule_text(best)
    how = f"{best['scheme']} ({rule})" if rule else best["scheme"]
    return told + f"Best: {how}, {best['equal_gain_pct']:+.1f} %."

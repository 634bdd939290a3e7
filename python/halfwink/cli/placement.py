"""Output of ``halfwink compare`` on kernel work."""

from __future__ import annotations

from halfwink.cli.console import out, print_table
from halfwink.results.placement import kernel_calls, placements
from halfwink.results.relate import KEYS
from halfwink.results.results import Results

#: Causes listed for each workload.
CAUSES = 10


def show(results: Results) -> None:
    """Prints where kernel code ran and why it was entered, if that was recorded."""
    if results.calls.is_empty():
        return
    out.print()
    _placements(results)
    out.print()
    _calls(results)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _placements(results: Results) -> None:
    columns = [
        ("workload", "left"),
        ("machine", "left"),
        ("technique", "left"),
        ("kernel entries", "right"),
        ("moved %", "right"),
        ("kernel time %", "right"),
        ("on OS cores %", "right"),
        ("thread away %", "right"),
        ("own core ns/1000 instr", "right"),
        ("OS core ns/1000 instr", "right"),
        ("energy x delay %", "right"),
    ]
    rows = [
        [
            row["workload"],
            f"{row['machine']} {row['set']}".strip(),
            row["technique"],
            f"{row['kernel_invocations']:,}",
            _number(row["moved_pct"], 1),
            _number(row["kernel_time_pct"], 1),
            _number(row["os_core_time_pct"], 1),
            _number(row["away_pct"], 1),
            _number(row["own_core_ns"], 0),
            _number(row["os_core_ns"], 0),
            f"{row['energy_delay_pct']:+.1f}",
        ]
        for row in placements(results).iter_rows(named=True)
    ]
    print_table(columns, rows)


def _calls(results: Results) -> None:
    columns = [
        ("workload", "left"),
        ("machine", "left"),
        ("entered for", "left"),
        ("invocations", "right"),
        ("mean length", "right"),
        ("own core us", "right"),
        ("OS core us", "right"),
        ("slower", "right"),
    ]
    rows: list[list[str]] = []
    for _, group in kernel_calls(results).group_by(*KEYS, maintain_order=True):
        for row in group.head(CAUSES).iter_rows(named=True):
            slower = row["slowdown"]
            rows.append(
                [
                    row["workload"],
                    f"{row['machine']} {row['set']}".strip(),
                    row["name"] or f"{row['kind']} {row['number']}",
                    f"{row['invocations']:,}",
                    _number(row["mean_instructions"], 0),
                    _number(row["own_core_us"], 2),
                    _number(row["os_core_us"], 2),
                    "-" if slower is None else f"{slower:.2f} x",
                ]
            )
    print_table(columns, rows)

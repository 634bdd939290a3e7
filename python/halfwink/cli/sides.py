"""Output of ``halfwink compare`` on second-level caches that kernel and user share by a rule."""

from __future__ import annotations

from typing import Any

from halfwink.cli.console import out, print_table
from halfwink.results.results import Results

#: Shown of the table, in this order, with what it says and its digits.
COLUMNS = [
    ("user_misses", "user misses", 0),
    ("kernel_misses", "kernel misses", 0),
    ("user_mpki", "user MPKI", 2),
    ("kernel_mpki", "kernel MPKI", 2),
    ("whole_look_ups", "look-ups of all", 0),
    ("bank_look_ups", "of a bank", 0),
    ("prediction_accuracy", "right bank first %", 1),
    ("kernel_ways", "kernel ways", 0),
]


def _cell(row: dict[str, Any], name: str, digits: int) -> str:
    value = row[name]
    if value is None or (name == "kernel_ways" and row["split"] != "ways"):
        return "-"
    return f"{100 * value if name == 'prediction_accuracy' else value:,.{digits}f}"


def show(results: Results) -> None:
    """Prints misses of the second level by side, look-ups and the rule in the end."""
    table = results.tables["segregation"]
    many = table["core"].n_unique() > 1 or table["workload"].n_unique() > 1
    whose = ["workload", "core"] if many else []
    heads = [(name, "left") for name in (*whose, "technique")]
    heads += [(title.replace(" ", "\n", 1), "right") for _, title, _ in COLUMNS]
    rows = [
        [*(row[name] for name in (*whose, "technique")), *(_cell(row, n, d) for n, _, d in COLUMNS)]
        for row in table.iter_rows(named=True)
    ]
    out.print()
    print_table(heads, rows)
    out.print("second levels, by the side of a line: the kernel's as routed", markup=False)

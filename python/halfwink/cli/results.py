"""What commands do with results of any world: print them, draw them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from halfwink import studies
from halfwink.cli import placement
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_table
from halfwink.results import Results
from halfwink.summary import summarize


def print_results(results: Results) -> None:
    """The short table; where kernel code ran, if somebody watched it; what is modelled."""
    summary = summarize(results)
    columns = [("workload", "left"), ("machine", "left"), ("technique", "left")]
    columns += [(heading, "right") for heading in summary.headings]
    ruled = [number - 1 for number, line in enumerate(summary.lines) if line.is_first and number]
    print_table(columns, [[*line.whose, *line.cells] for line in summary.lines], ruled=ruled)
    if results.has("calls"):
        placement.show(results)
    text = f"all energies and times are modelled; saved: against {results.baseline}"
    if "core_energy_saving_pct" in results.runs.columns:
        text += "; core: with its first and second caches"
    if any("±" in cell for line in summary.lines for cell in line.cells):
        text += "; ±: half of the 95 % interval"
    stdout.print(text, markup=False)


def draw(folder: Path, title: str, results: Results, plots: Sequence[dict[str, Any]] = ()) -> None:
    """Writes the report, with a study's own plots first; raises OSError."""
    # Drawing costs a second of imports, which most commands need not wait for.
    from halfwink.report import Section, write_report
    from halfwink.report.charts import study_plot

    extra = [Section(p["title"], "From the study.", study_plot(results, p)) for p in plots]
    made = studies.provenance()
    write_report(folder / "report.html", title, results, extra=extra, provenance=made)

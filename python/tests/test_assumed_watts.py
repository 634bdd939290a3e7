"""Machines whose watts are assumed: energy is told in per cent, with its range."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

from test_verdict import CHIP, related, results, row

from halfwink.summary import summarize

ASSUMED: dict[str, Any] = {"power_basis": "assumed", "power_low": 0.5, "power_high": 1.3}


def test_where_watts_are_assumed_tables_have_energy_relative_to_the_baseline():
    shown = summarize(results(**ASSUMED))
    assert "energy/unit" not in shown.headings
    column = shown.headings.index("energy, % of baseline")
    assert [line.cells[column] for line in shown.lines][:2] == ["100.00", "76.00"]
    # Beside a machine whose watts are known, each has its own column.
    known = [row(name, *values, machine="k") for name, values in CHIP.items()]
    both = [*known, *(row(name, *values, **ASSUMED) for name, values in CHIP.items())]
    shown = summarize(related("chip", both))
    columns = [shown.headings.index(name) for name in ("energy/unit", "energy, % of baseline")]
    cells = [[line.cells[n] for n in columns] for line in shown.lines if line.is_baseline]
    assert cells == [["100 mJ/request", "-"], ["-", "100.00"]]


#: Joules, watts and kilowatt hours as pages and terminals print them.
AMOUNTS = re.compile(r"\d\s?[pnumk]?[JW]\b|kWh")


def test_a_machine_whose_watts_are_assumed_shows_no_joules(halfwink: Any, tmp_path: Path):
    words = ("compare", "nginx-10pct", "-m", "golden-cove-4", "-t", "c6a", "-n", "500000")
    done = halfwink(*words, "-o", "out")
    assert not AMOUNTS.search(done.out), done.out
    page = (tmp_path / "out/report.html").read_text()
    assert "energy per request (% of baseline), modelled" in page, "the axis of the chart"
    page = page.partition('<div class="note">')[2].partition("<h2>Methods")[0]
    shown = re.sub(r"<script.*?</script>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert not AMOUNTS.search(shown), AMOUNTS.search(shown)
    assert "% of the baseline's energy" in unescape(shown)
    document = json.loads(halfwink(*words, "--json").out)
    told = {"basis": "assumed", "factor": [0.5, 1.3]}
    assert [r["watts"] for r in document["results"]] == [told, told]

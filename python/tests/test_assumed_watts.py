"""Machines whose watts are assumed: energy is told in per cent, with its range."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from test_verdict import CHIP, related, results, row

from halfwink.results.judgement import groups
from halfwink.results.results import Results
from halfwink.results.summary import summarize
from halfwink.results.verdict import verdict

ASSUMED: dict[str, Any] = {"power_basis": "assumed", "power_low": 0.5, "power_high": 1.3}


def test_where_watts_are_assumed_only_per_cent_are_told():
    found = verdict(results(**ASSUMED))
    text = " ".join(found.sentences)
    assert "20.00 % less than always-on, as fast" in text
    assert "whose watts are assumed (those of each part lie" in text
    assert "between 0.5 and 1.3 times what its file says)" in text
    assert not re.search(r"kWh|\d m?[WJ]\b", text), text
    winner = found.winners.row(0, named=True)
    assert (winner["saved_w"], winner["saved_kwh_a_year"]) == (None, None)


def with_parts(joules: Mapping[str, Mapping[str, float]]) -> Results:
    """Of techniques whose components take so much, on a machine whose watts are assumed."""
    rows = [row(name, sum(parts.values()), 50.0, **ASSUMED) for name, parts in joules.items()]
    found = related("chip", rows)
    whose = {"workload": "web", "machine": "m", "set": ""}
    ledger = [
        whose | {"technique": name, "component": component, "energy_j": value}
        for name, parts in joules.items()
        for component, value in parts.items()
    ]
    return Results("chip", found.tables | {"ledger": pl.DataFrame(ledger)}, found.baseline)


def test_saving_has_its_range_over_the_watts_that_are_assumed():
    parts = {
        "always-on": {"core0": 30.0, "core1": 30.0, "uncore": 40.0},
        "idle-menu": {"core0": 10.0, "core1": 30.0, "uncore": 40.0},
    }
    # 20 m of 60 m + 40 n, where m and n are 0.5 or 1.3.
    low, high = 100 * 10 / (30 + 52), 100 * 26 / (78 + 20)
    first = verdict(with_parts(parts)).sentences[0]
    said = f"20.00 % ({low:.1f} to {high:.1f} over the watts assumed) less than always-on"
    assert said in first
    # What takes more is told by how much more.
    more = {"always-on": parts["idle-menu"], "idle-menu": parts["always-on"]}
    low, high = 100 * 10 / (20 + 52), 100 * 26 / (52 + 20)
    assert f"uses 25.00 % ({low:.1f} to {high:.1f} over the watts assumed) more" in str(
        verdict(with_parts(more))
    )


def test_parts_of_a_kind_are_at_one_multiple():
    dies = {f"l3-{n}": 5.0 for n in range(12)}
    parts = {
        "always-on": {"core0": 2.0, "core10": 28.0, "rest": 10.0, **dies},
        "idle-menu": {"core0": 8.0, "core10": 2.0, "rest": 10.0, **dies},
    }
    # 20 m of 30 m + 60 n + 10 o, as if the twelve were one.
    low, high = 100 * 10 / (15 + 78 + 13), 100 * 26 / (39 + 30 + 5)
    said = f"20.00 % ({low:.1f} to {high:.1f} over the watts assumed) less than always-on"
    assert said in verdict(with_parts(parts)).sentences[0]


def test_estimated_watts_are_told_as_about_so_much():
    known = verdict(results())
    found = verdict(results(power_basis="estimated", power_low=0.5, power_high=1.3))
    assert "saves 2 W of the chip's 10 W" in str(known)
    assert "saves about 2 W of the chip's 10 W" in str(found)
    assert "whose watts are estimated (those of each part lie between 0.5 and 1.3" in str(found)
    assert "only per cent mean something" not in str(found)
    assert (
        "energy/unit"
        in summarize(results(power_basis="estimated", power_low=0.5, power_high=1.3)).headings
    )


@pytest.mark.parametrize("seed", range(30))
def test_no_multiples_of_the_watts_lead_out_of_the_range(seed: int):
    source = random.Random(seed)
    names = ("core0", "os0", "l3", "memory", "uncore")
    parts = {
        name: {component: source.uniform(1, 50) for component in names}
        for name in ("always-on", "idle-menu")
    }
    (group,) = groups(
        with_parts(parts).runs, None, "chip", "always-on", None, with_parts(parts).ledger
    )
    found = group.saving("idle-menu", "always-on")
    assert found is not None
    assert found.over_watts is not None
    low, high = found.over_watts
    assert low <= found.value <= high
    for _ in range(200):
        # All cores are at one multiple.
        core = source.uniform(0.5, 1.3)
        multiples = {n: source.uniform(0.5, 1.3) for n in names} | {"core0": core, "os0": core}
        ours, base = (
            sum(multiples[n] * parts[technique][n] for n in names)
            for technique in ("idle-menu", "always-on")
        )
        assert low - 1e-9 <= 100 * (1 - ours / base) <= high + 1e-9


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


def test_seeds_on_a_machine_whose_watts_are_assumed():
    rows = [
        row(name, energy, 50.0, set=f"seed={seed}", **ASSUMED)
        for seed, more in ((1, 0.0), (2, 1.0), (3, 2.0))
        for name, energy in (("always-on", 100.0), ("idle-menu", 80.0 + more))
    ]
    found = verdict(related("chip", rows))
    assert "whose watts are assumed" in found.sentences[-1]


#: Joules, watts and kilowatt hours as pages and terminals print them.
AMOUNTS = re.compile(r"\d\s?[pnumk]?[JW]\b|kWh")


def test_a_machine_whose_watts_are_assumed_shows_no_joules(halfwink: Any, tmp_path: Path):
    words = ("compare", "nginx-10pct", "-m", "golden-cove-4", "-t", "c6a", "-n", "500000")
    done = halfwink(*words, "-o", "out")
    assert not AMOUNTS.search(done.out), done.out
    page = (tmp_path / "out/report.html").read_text()
    assert "energy per request (% of baseline), modelled" in page, "the axis of the chart"
    page = page.partition('<div class="note">')[2].partition('<h2 id="methods">')[0]
    shown = re.sub(r"<script.*?</script>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert not AMOUNTS.search(shown), AMOUNTS.search(shown)
    assert "% of the baseline's energy" in unescape(shown)
    runs = halfwink(*words, "--json").rows("runs")
    watts = [(run["power_basis"], run["power_low"], run["power_high"]) for run in runs]
    assert watts == 2 * [("assumed", 0.5, 1.3)]

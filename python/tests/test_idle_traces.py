"""The traces of idle times that come along: the table of docs/idle.md is what they give."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink.advice.idle_gaps import IdleGaps
from halfwink.results import wording
from halfwink.results.summary import fixed

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "workloads/idle"
#: Server that each trace is played on, and its states by their numbers in the recorded kernel.
PLAYED = {
    "nginx-300.csv.xz": ("golden-cove-56", ()),
    "nginx-5000.csv.xz": ("golden-cove-56", ()),
    "nginx-15000.csv.xz": ("golden-cove-56", ()),
    "juno.txt.xz": ("neoverse-v2-96", ("c1", "c6", "c6")),
}
POLICIES = ("teo", "haltpoll", "c6a")


def played(name: str) -> IdleGaps:
    machine, states = PLAYED[name]
    return hw.idle(TRACES / name, machine=machine, techniques=POLICIES, states=states)


def line(name: str, found: IdleGaps) -> str:
    """The trace's row of the table."""
    of, menu = found.recording, found.row("menu")
    limit = 100 * (1 - found.limits[-2]["energy_j"] / found.limits[-1]["energy_j"])
    cells = [
        f"`{name}`",
        f"{of['gaps']:,}",
        fixed(of["idle_pct"], 1),
        wording.duration(of["gap_us"][0]),
        f"{fixed(menu['right_pct'], 0)}, {fixed(menu['deep_pct'], 0)}",
        *(fixed(found.saving(policy).value, 1) for policy in POLICIES),
        f"{fixed(limit, 1)}",
        fixed(found.saving("best").value, 1),
        ", ".join(wording.duration(found.row(p)["latency_p99_us"]) for p in ("menu", "teo")),
    ]
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("name", PLAYED)
def test_table_of_the_page_is_what_the_trace_gives(name: str):
    text = line(name, played(name))
    assert text in (ROOT / "docs/idle.md").read_text(), f"docs/idle.md lacks\n{text}"


def test_every_trace_is_in_the_table():
    assert {path.name for path in TRACES.iterdir()} == set(PLAYED)


def test_kernel_of_the_public_trace_stands_beside(halfwink: Halfwink):
    machine, states = PLAYED["juno.txt.xz"]
    words = ["-m", machine, "--states", ",".join(states), "-t", "teo"]
    done = halfwink("idle", str(TRACES / "juno.txt.xz"), *words)
    text = " ".join(done.out.split())
    assert "231 idle times in 0.428 s say little" in text
    page = " ".join((ROOT / "docs/idle.md").read_text().split())
    agrees = "menu begins as they did in 57 % of the gaps"
    assert agrees in text
    assert agrees in page


def test_menu_is_as_good_as_teo_if_its_next_timer_is_near():
    near = {"kernel.next_timer_us": "4000"}
    found = hw.idle(TRACES / "nginx-15000.csv.xz", machine="golden-cove-56", set=near)
    assert abs(found.saving("teo").value) < 0.5
    assert (
        "| 4 ms | 0.482, 0.343 | 0.908, 0.905 | 0.939, 0.937 |"
        in (ROOT / "docs/idle.md").read_text()
    )
    assert [round(found.row(name)["idle_w"], 3) for name in ("menu", "teo")] == [0.939, 0.937]

"""A server that serves a model, and its levels of sleep: from the command to saved joules."""

from __future__ import annotations

import re
from pathlib import Path

import halfwink as hw

TECHNIQUES = ["always-big", "sleep-timer:timer_ms=300000,level=2", "break-even", "ladder"]


def test_ladder_draws_less_than_timers_of_one_level_and_wakes_as_late():
    results = hw.compare(
        "chat@0.5",
        world="server",
        machine="models",
        techniques=TECHNIQUES,
        set={"requests": 8000},
    )
    watts = dict(results.runs.select("technique", "power_w").iter_rows())
    always, timer, light, ladder = (watts[name] for name in TECHNIQUES)
    assert ladder < min(timer, light) < always
    ledger = results.ledger
    states = {
        technique: set(
            ledger.filter((ledger["technique"] == technique) & (ledger["component"] == "big"))[
                "state"
            ]
        )
        for technique in TECHNIQUES
    }
    assert {"asleep", "asleep-2"} <= states["ladder"]
    assert "asleep-2" not in states["break-even"]


def test_level_out_of_order_is_refused_by_name(halfwink):
    done = halfwink(
        "compare",
        "chat@0.5",
        "-w",
        "server",
        "-m",
        "models",
        "--set",
        "big.levels.off.sleep_share=0.9",
    )
    assert done.status == 2
    assert "levels.off.sleep_share: 0.9, expected 0 to 0.765" in done.err


def test_server_ends_before_end_of_time(halfwink):
    words = ["compare", "chat@0.3", "-w", "server", "-m", "models", "-t", "ladder"]
    done = halfwink(*words)
    assert done.status != 0
    found = re.search(r"expected fewer requests: `(--set) (requests=\d+)`", done.err)
    assert found is not None, done.err
    # What it names works.
    assert halfwink(*words, *found.groups()).status == 0
    # Where chance decides how many come, it names none.
    words[1] = "chat@0.001"
    done = halfwink(*words, "--set", "requests=1000000")
    assert done.err.rstrip().endswith("expected fewer requests")


def test_first_token_waits_for_a_load_or_a_boot():
    results = hw.compare(
        "chat@0.1", world="server", machine="models", techniques=TECHNIQUES, set={"requests": 8000}
    )
    rows = {row["technique"]: row for row in results.runs.iter_rows(named=True)}
    waits_s = {name: row["queued_p99_us"] / 1e6 for name, row in rows.items()}
    assert waits_s["always-big"] == 0
    # 34 s to load; 214 s to boot and load, for some also the 20 s of switching off.
    assert abs(waits_s["break-even"] - 34) < 0.4
    assert 214 < waits_s["ladder"] <= 234
    page = (Path(__file__).parents[2] / "docs/techniques/hybrid.md").read_text()
    lines = {
        line.split("|")[1].split(":")[0].strip(): line for line in page.splitlines() if "|" in line
    }
    for name in ("break-even", "ladder"):
        # The first token comes 0.2 s after service begins.
        told = lines[f"`{name}`"].split("|")[-3].split(",")[-1]
        assert int(told) == round(waits_s[name] + 0.2), name

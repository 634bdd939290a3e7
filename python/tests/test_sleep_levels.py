"""A server that serves a model, and its levels of sleep: from the command to saved joules."""

from __future__ import annotations

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
    done = halfwink(
        "compare",
        "chat@0.001",
        "-w",
        "server",
        "-m",
        "models",
        "-t",
        "ladder",
        "--set",
        "requests=1000000",
    )
    assert done.status != 0
    assert "expected fewer requests" in done.err

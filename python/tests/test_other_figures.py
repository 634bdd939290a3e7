"""Figures for print of commands that keep no results, and figures that leave something out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from drawn_results import saved
from test_figures import PROFILE, TRACE, idle_times

from halfwink.report.figures import figure_of
from halfwink.report.idle_chart import idle_figure
from halfwink.report.profile_chart import profile_figure


def test_points_of_idle_policies_are_the_rows_and_the_ring_is_what_to_set():
    found = idle_times()
    drawn = found.chart().to_dict()
    sets = drawn["datasets"].values()
    (points,) = (rows for rows in sets if any("is_advised" in row for row in rows))
    whole = found.row("menu")["energy_j"]
    assert [point["policy"] for point in points] == [row["technique"] for row in found.rows[:-1]]
    for point in points:
        row = found.row(point["policy"])
        assert point["power_pct"] == pytest.approx(100 * row["energy_j"] / whole)
        assert point["low_pct"] <= point["power_pct"] <= point["high_pct"]
        assert point["is_advised"] == (point["policy"] == "teo")
    caption = idle_figure(found).caption
    assert caption.startswith(found.sentences()[0])
    assert "Ring: teo, the one to set." in caption
    assert "Upright: the goal, 20 us." in caption


def test_bars_of_a_profile_end_where_the_request_does():
    rows = [
        row
        for table in profile_figure(PROFILE).draw((200, 100), 7, 1).to_dict()["datasets"].values()
        for row in table
    ]
    ends = {
        name: sum(r["time_us"] for r in rows if r["sleep"] == name)
        for name in {row["sleep"] for row in rows}
    }
    assert ends == {"nothing": 11.5, "l1i, l1d": 12, "and l2": 16.5, "and branch": 41.5}
    left = [row["time_us"] for row in rows if row["part"] == "gone by preheating"]
    assert left == [4.5, 19]


def test_commands_that_keep_no_results_draw_theirs(tmp_path: Path, halfwink: Any):
    done = halfwink("idle", str(TRACE), "-t", "teo", "--json", "--plot", "idle.svg")
    assert done.status == 0, done.err
    assert "caption: Set teo" in done.err
    assert "</svg>" in (tmp_path / "idle.svg").read_text()
    assert '"schema"' in done.out
    (tmp_path / "metrics").write_text('node_cpu_seconds_total{cpu="0",mode="idle"} 5.0\n')
    for words, said in (
        (("idle", "metrics"), "counters hold no idle times"),
        (("profile", "--service-mean", "1ms"), "for profiles of a recording"),
    ):
        done = halfwink(*words, "--plot", "none.svg")
        assert done.status == 2
        assert said in done.complaint
    assert not (tmp_path / "none.svg").exists()


def test_a_workload_without_waits_is_drawn_beside_one_that_has_them():
    found = saved()
    waits = found.runs.with_columns(workload=pl.lit("waits"), latency_p99_us=pl.lit(5.0))
    both = replace(found, tables=found.tables | {"run": pl.concat([found.runs, waits])})
    drawn = figure_of(both).draw((200, 120), 7, 1).to_dict()
    rows = [row for table in drawn["datasets"].values() for row in table]
    workloads = set(found.runs["workload"])
    assert {row["workload"] for row in rows if "workload" in row} == {"waits", *workloads}


def test_no_ring_is_promised_around_a_baseline_that_wins():
    assert "Ring" in figure_of(saved()).caption
    worse = saved({"always-on": (100.0, 50.0), "tap": (140.0, 50.0)})
    assert "Ring" not in figure_of(worse).caption

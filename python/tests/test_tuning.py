"""Tuning finds what playing all values finds, keeps limits, and says what holds elsewhere."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import halfwink as hw
from halfwink.policies import Parameter, Steering, steering

WHERE: dict[str, Any] = {"world": "server", "set": {"requests": 3000}}


def test_values_are_those_that_playing_all_finds():
    every = [f"hybrid:threshold={n}" for n in range(1, 33)]
    runs = hw.compare("count@30", techniques=every, **WHERE).runs.to_dicts()[1:]
    for most, is_tight in ((20.0, True), (1e9, False)):
        kept = [run for run in runs if run["slowdown_pct"] <= most]
        best = min(kept, key=lambda run: run["energy_j_per_unit"])
        found = hw.tune(
            "hybrid",
            {"threshold": (1, 32)},
            workload="count@30",
            keep={"slowdown_pct": most},
            **WHERE,
        )
        assert found.keeps
        of = found.results.runs.filter(pl.col("technique") == found.technique)
        assert of["energy_j_per_unit"][0] == best["energy_j_per_unit"]
        assert (len(kept) < len(runs)) == is_tight
        # Far fewer were played than there are.
        assert found.results.runs.height < 30


def test_a_composition_is_tuned_in_the_part_that_is_named():
    where: dict[str, Any] = {"world": "node", "set": {"requests": 20000}}
    tuned = [
        hw.tune(composed, {name: (1, 64)}, workload="exponential@30", points=9, **where).technique
        for composed, name in (
            ("teo+packing", "limit"),
            ("packing+teo", "packing.limit"),
        )
    ]
    for technique in tuned:
        assert technique.startswith("packing:limit=") or technique.startswith("teo+packing:limit=")
    assert tuned[0].rpartition("=")[2] == tuned[1].partition("+")[0].rpartition("=")[2]
    with pytest.raises(hw.HalfwinkError, match="expected a parameter of one of teo, packing"):
        hw.tune("teo+packing", {"napi.limit": (1, 2)}, workload="exponential@30", **where)


class Threshold(Steering):
    """The big machine from a threshold on, and both always on."""

    threshold = Parameter(4, least=0, most=100, title="requests of the small machine")
    unread = Parameter(1, least=0.001, most=1000, title="nothing reads it")

    def on_start(self, start: steering.Start) -> None:
        self.small = 0

    def on_event(self, now: int, event: steering.Event) -> steering.Action | None:
        if isinstance(event, steering.Finish):
            self.small -= event.machine == 0
        if not isinstance(event, steering.Arrive):
            return None
        is_small = self.small < self.threshold
        self.small += is_small
        return steering.Send(0 if is_small else 1)


def test_class_is_tuned_and_held_out_work_is_told():
    found = hw.tune(
        Threshold,
        {"threshold": (0, 64), "unread": (0.001, 1000.0)},
        workload="count@30",
        minimize="latency_mean_us",
        points=30,
        held_out=["count@50", "count@10"],
        held_out_set={"seed": 2},
        **WHERE,
    )
    # The big machine is the faster one: it should serve all.
    assert found.values["threshold"] == 0
    assert found.held_out is not None
    assert found.held_out.runs["set"].unique().to_list() == ["requests=3000 seed=2"]
    table = found.table()
    assert table["workload"].to_list() == ["count@30"] * 2 + ["count@50"] * 2 + ["count@10"] * 2
    changed = table["latency_mean_us"].to_list()
    assert all(after < before for before, after in zip(changed[::2], changed[1::2], strict=True))
    assert str(found).count("held out on") == 2


def test_limits_that_nothing_keeps_are_missed_by_least():
    found = hw.tune(
        "hybrid",
        {"threshold": (1, 8)},
        workload="count@30",
        keep={"latency_p99_us": 1e-3},
        **WHERE,
    )
    assert not found.keeps
    assert "no values keep the limits" in str(found)
    tried = found.results.runs.filter(pl.col("technique") != "always-on")
    best = tried.filter(pl.col("technique") == found.technique)["latency_p99_us"][0]
    assert best == tried["latency_p99_us"].min()


@pytest.mark.parametrize(
    ("technique", "ranges", "more", "line"),
    [
        ("hybrid", {}, {}, "expected a parameter or more"),
        ("hybrid", {"threshold": (8, 1)}, {}, "expected a smaller and a larger"),
        ("hybrid", {"thresh": (1, 8)}, {}, "thresh"),
        ("hybrid:threshold=3", {"threshold": (1, 8)}, {}, "has a value in `hybrid:threshold=3`"),
        ("hybrid", {"threshold": (1, 8)}, {"points": 0}, "points 0: expected 1 or more"),
        ("hybrid", {"threshold": (1, 8)}, {"minimize": "joules"}, "no column `joules`"),
        ("hybrid", {"threshold": (1, 8)}, {"keep": {"p99": 1}}, "no column `p99`"),
        ("hybrid", {"threshold": (-5, 8)}, {}, "threshold"),
        ("hybrid", {"threshold": (1, 8)}, {"minimize": "technique"}, "`technique` is no number"),
        ("hybrid", {"threshold": (1, 8)}, {"minimize": "workload"}, "`workload` is no number"),
        ("hybrid", {"threshold": (1, 8)}, {"keep": {"technique": 1}}, "`technique` is no number"),
        ("hybrid", {"threshold": (1, 8)}, {"minimize": "idle_w"}, "`idle_w` has no value"),
    ],
)
def test_wrong_question_is_one_line(technique: str, ranges: Any, more: Any, line: str):
    with pytest.raises(hw.HalfwinkError) as error:
        hw.tune(technique, ranges, workload="count@30", **WHERE, **more)
    assert line in str(error.value)
    assert "\n" not in str(error.value)

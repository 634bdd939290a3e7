"""``halfwink trace predict``: the run-length predictor on recorded kernel entries."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink

from halfwink.library import root

TABLES = ["associative-200", "direct-1500", "unbounded"]
RECORDED = ["all", "without-interrupts"]
PRIVILEGED = ["all-privileged", "without-window-traps", "all-privileged-by-site"]


def prediction(halfwink: Halfwink, *words: str) -> dict[str, Any]:
    """Facts and rows of the command, by name."""
    found = halfwink("trace", "predict", *words, "--json").json()
    return found["facts"] | {name: table["rows"] for name, table in found["tables"].items()}


def test_a_server_is_prediction(halfwink: Halfwink) -> None:
    found = prediction(halfwink, "nginx")
    told = halfwink("trace", "info", str(root() / "workloads" / "nginx.hwt"), "--json").json()
    totals = told["facts"]
    assert sum(found["instructions"]) == totals["instructions"]
    assert found["instructions"][1] == totals["kernel_instructions"]
    # All but those that the ends of the trace cut.
    assert totals["events"]["syscall"] - 2 <= found["system_calls"] <= totals["events"]["syscall"]
    assert found["unexplained"] == 0
    rows = {(row["entries"], row["table"]): row for row in found["predictors"]}
    assert [table for entries, table in rows if entries == "all"] == TABLES
    unbounded = rows["all", "unbounded"]
    predicted = found["system_calls"] + found["interrupts"] + found["exceptions"]
    assert unbounded["predictions"] == predicted
    without = rows["without-interrupts", "unbounded"]
    assert without["predictions"] == predicted - found["interrupts"]
    for row in rows.values():
        assert row["exact_percent"] <= row["within_5_percent"] <= 100
    # Where short and long entries mix most it decides better than always or never moving would.
    decision = next(d for d in unbounded["decisions"] if d["threshold"] == 5000)
    one_sided = max(decision["longer_percent"], 100 - decision["longer_percent"])
    assert 50 <= one_sided < decision["right_percent"] < 100


def test_a_file_is_as_good_as_a_name(halfwink: Halfwink, tmp_path: Path) -> None:
    shutil.copy(root() / "workloads" / "redis.hwt", tmp_path / "mine.hwt")
    done = halfwink("trace", "predict", "mine.hwt")
    assert done.status == 0
    lines = [line.split() for line in done.out.splitlines()]
    rows = [[reading, table] for reading in RECORDED + PRIVILEGED for table in TABLES]
    middle = 1 + len(rows)
    assert [line[:2] for line in lines[1:middle]] == rows
    assert [line[:2] for line in lines[middle + 2 :]] == rows
    assert max(map(len, done.out.splitlines())) <= 80
    assert "system calls" in done.err
    assert "window spill" in done.err
    named = halfwink("trace", "predict", "redis")
    assert named.out == done.out


def test_window_traps_and_tlb_misses_are_another_reading(halfwink: Halfwink) -> None:
    found = prediction(halfwink, "gcc")
    rows = {(row["entries"], row["table"]): row for row in found["predictors"]}
    traps = {trap["trap"]: trap["user"] for trap in found["traps"]}
    assert found["privileged_instructions"][0] == found["instructions"][0]
    assert found["privileged_instructions"][1] > found["instructions"][1]
    recorded = rows["all", "unbounded"]["predictions"]
    every = rows["all-privileged", "unbounded"]["predictions"]
    # Two traps of one instruction are two entries; only what the trace's ends cut is missing.
    assert recorded + sum(traps.values()) - 3 <= every <= recorded + sum(traps.values())
    without = rows["without-window-traps", "unbounded"]["predictions"]
    windows = sum(n for trap, n in traps.items() if "window" in trap)
    assert every - without == pytest.approx(windows, abs=2)
    again = prediction(halfwink, "gcc")
    assert again == found


def test_the_description_decides(halfwink: Halfwink) -> None:
    def asked(*settings: str) -> dict[tuple[str, str], dict[str, float]]:
        flags = [flag for setting in settings for flag in ("--set", setting)]
        found = prediction(halfwink, "gcc", *flags)
        return {(row["entries"], row["table"]): row for row in found["predictors"]}

    usual, one = asked(), asked("predictor.associative_entries=1")
    key = ("all-privileged", "associative-200")
    assert one[key]["exact_percent"] < usual[key]["exact_percent"]
    assert one["all-privileged", "unbounded"] == usual["all-privileged", "unbounded"]
    many = asked("windows.windows=32")
    assert many[key]["predictions"] < usual[key]["predictions"]
    assert many["all", "associative-200"] == usual["all", "associative-200"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ("windows.windows=2", "windows.windows: 2, expected 3 to 32"),
        ("windows.window=8", "did you mean `windows`"),
        ("predictor", "expected PATH=VALUE"),
    ],
)
def test_an_impossible_description_is_one_line(
    halfwink: Halfwink, settings: str, complaint: str
) -> None:
    done = halfwink("trace", "predict", "nginx", "--set", settings)
    assert done.status == 2
    assert complaint in done.complaint


@pytest.mark.parametrize(
    ("workload", "complaint"),
    [
        ("nginy", "did you mean `nginx`"),
        ("nginx+redis", "2 cores, expected one trace"),
        ("alu:instructions=1000", "no whole kernel invocation"),
        ("missing.hwt", "missing.hwt"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(
    halfwink: Halfwink, workload: str, complaint: str
) -> None:
    done = halfwink("trace", "predict", workload)
    assert done.status == 2
    assert complaint in done.complaint

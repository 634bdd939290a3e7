"""``halfwink sample``: long workloads by windows; and warnings of caches that began cold."""

from pathlib import Path

import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink import _core
from halfwink.library import root
from halfwink.results import cold_start

LONG = "mixed:instructions=3000000"


def test_techniques_are_sampled_in_the_same_windows(halfwink: Halfwink) -> None:
    found = halfwink("sample", "gcc", "-t", "tap,oracle", "--precision", "2", "--json").json()
    facts = found["facts"]
    assert (found["command"], facts["baseline"]) == ("sample", "always-on")
    assert (facts["unit"], facts["warm_up"], facts["windows"]) == (10_000, 2_000, 200)
    assert facts["modelled"] == ["energy", "time"]
    assert found["verdict"] == []
    rows = {row["technique"]: row for row in found["tables"]["techniques"]["rows"]}
    assert list(rows) == ["always-on", "tap", "oracle"]
    assert rows["always-on"]["core_energy_saving_pct"] is None
    for row in rows.values():
        assert row["ipc"]["low"] < row["ipc"]["value"] < row["ipc"]["high"]
        assert row["windows_needed"] >= 32
    # The oracle loses no time, and saves at least what others do.
    oracle, tap = (rows[name]["core_energy_saving_pct"]["value"] for name in ("oracle", "tap"))
    assert oracle >= tap - 0.1
    assert abs(rows["oracle"]["slowdown_pct"]["value"]) < 0.2


def test_an_interval_whose_value_is_off_its_middle_is_printed_with_both_ends(
    halfwink: Halfwink,
) -> None:
    words = ("sample", "gcc", "--windows", "32", "-t", "tap", "-q")
    row = halfwink(*words, "--json").json()["tables"]["techniques"]["rows"][0]
    value, low, high = (row["ipc"][name] for name in ("value", "low", "high"))
    assert f"{(low + high) / 2:.3f}" != f"{value:.3f}"
    assert f" {value:.3f} ({low:.3f} to {high:.3f})" in halfwink(*words).out


def test_a_sample_is_a_table_too() -> None:
    table = hw.sample(LONG, techniques="tap", windows=40).table()
    assert table["technique"].to_list() == ["always-on", "tap"]
    low, value, high = (table[f"ipc{end}"][0] for end in ("_low", "", "_high"))
    assert low <= value <= high
    with pytest.raises(hw.HalfwinkError, match="both windows and period"):
        hw.sample(LONG, windows=40, period=40_000)


def test_the_command_fits_and_says_what_is_modelled(halfwink: Halfwink) -> None:
    done = halfwink("sample", "nginx", "-n", "600000", "--windows", "40")
    assert all(len(line) <= 80 for line in done.out.splitlines()), done.out
    assert "energies and times: modelled" in done.out
    assert "40 windows of 10,000 instructions" in done.out
    few = halfwink("sample", LONG, "--windows", "4", "--precision", "2")
    assert "no intervals: fewer than 32 windows" in few.out
    assert "--precision 2: 4 windows do not tell how many it takes" in few.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "0 workloads, expected one"),
        (["gcc", "gzip"], "2 workloads, expected one"),
        (["gcc*2"], "2 cores, expected one"),
        (["gcc", "-t", "os-always"], "uses several cores"),
        (["gcc", "-t", "dvfs-mean"], "decides by whole runs"),
        (["gcc", "--windows", "0"], "windows 0: expected 1 or more"),
        (["gcc", "--unit", "-1"], "unit -1: expected 1 or more"),
        (["gcc", "--windows", "100000000"], "do not fit into"),
        (["gcc", "--period", "100"], "windows would overlap"),
        (["gcc", "--windows", "9", "--period", "99999"], "both windows and period"),
        (["gcc", "--skip", "99999999999"], "no window of"),
        (["gcc", "--precision", "0"], "precision 0 %: expected more than 0"),
        (["gcc", "-m", "ev7"], "unknown machine"),
    ],
)
def test_what_cannot_be_sampled_is_one_line(
    halfwink: Halfwink, words: list[str], complaint: str
) -> None:
    done = halfwink("sample", *words)
    assert done.status == 2
    assert complaint in done.complaint


def test_a_recording_without_its_warm_set_is_warned_of(halfwink: Halfwink, tmp_path: Path) -> None:
    """The first instructions of a cut with its warm set, and the same without."""
    whole, cold = root() / "workloads" / "minisat.hwt", tmp_path / "cold.hwt"
    _core.trace_slice(str(whole), str(cold), (0, 1_000_000), 0, True, 3)
    words = ("-t", "tap", "-n", "1000000", "-q", "-o", str(tmp_path / "out"))
    assert "began cold" not in halfwink("compare", str(whole), *words).err
    warned = halfwink("compare", str(cold), *words).err
    assert warned.count("began cold") == 1
    assert "cold.hwt: " in warned
    sampled = halfwink("sample", str(cold), "--windows", "32", "-q").err
    assert sampled.count("began cold") == 1


def test_few_cold_fills_are_nothing_to_be_warned_of() -> None:
    assert cold_start.share(1_000_000, 4000, 1999) is None
    assert cold_start.share(1_000_000, 4000, 2000) == 0.5
    # Most of few.
    assert cold_start.share(10_000_000, 4000, 4000) is None
    assert cold_start.share(0, 0, 0) is None

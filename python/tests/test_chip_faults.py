"""What goes wrong on a chip is asked for on the command line, and repeats by its seed.

What it must not break is in crates/study/src/worlds/chip/fault_tests.rs."""

from __future__ import annotations

import pytest
from conftest import Halfwink

from halfwink import compare

LATE = {"faults.wake_late": 0.5, "faults.late_ns": 500}


def _seconds(**settings: object) -> float:
    found = compare(
        "gcc", techniques="tap", machine="ev6-1", instructions=300_000, set=settings
    ).runs
    return float(found.filter(found["technique"] == "tap")["duration_s"][0])


def test_late_wake_ups_cost_time_and_repeat_by_their_seed() -> None:
    sound, late = _seconds(), _seconds(**LATE)
    assert late > 1.01 * sound
    assert _seconds(**LATE) == late
    assert _seconds(**LATE, seed=2) != late
    # What does not come changes nothing.
    assert _seconds(**{"faults.late_ns": 500}) == sound


def test_what_came_is_counted() -> None:
    found = compare("gcc", techniques="tap", machine="ev6-1", instructions=300_000, set=LATE)
    counters = found.tables["counters"]
    rows = counters.filter(counters["counter"] == "faults.wakes_late")
    assert rows["user"].sum() > 10
    sound = compare("gcc", techniques="tap", machine="ev6-1", instructions=300_000)
    names = sound.tables["counters"]["counter"]
    assert not names.str.starts_with("faults.").any()


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ("faults.wake_late=1.5", "expected 0 to 1"),
        ("faults.wake_latte=0.5", "wake_latte"),
        ("faults.late_ns=-1", "-1"),
    ],
)
def test_impossible_faults_are_refused(halfwink: Halfwink, asked: str, complaint: str) -> None:
    done = halfwink("compare", "gcc", "-m", "ev6-1", "-t", "tap", "--set", asked)
    assert done.status != 0
    assert complaint in done.complaint

"""``halfwink measure``, ``halfwink live idle``, and what ``halfwink doctor`` says of them."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, document, undisturbed

from halfwink import doctor
from halfwink.live import native


def test_measure_gives_times_or_says_what_is_missing(halfwink: Halfwink) -> None:
    done = halfwink("measure", "--json", "--seconds", "0.05")
    assert done.status == 0
    assert done.err == ""
    rows = done.rows("items")
    assert [row["name"] for row in rows] == native.measure_names()
    for row in rows:
        if "missing" in row:
            assert row["missing"], row
            continue
        ordered = [row[f"{name}_ns"] for name in ("min", "p50", "p90", "p99", "max")]
        assert ordered == sorted(ordered), row
        assert row["repetitions"] > 0
        assert math.isfinite(row["mean_ns"])
    if len(os.sched_getaffinity(0)) > 1:
        assert {tuple(ratio["of"]) for ratio in done.rows("ratios")} >= {("mailbox", "cache-line")}


def test_what_takes_longer_is_measured_so(halfwink: Halfwink) -> None:
    def times() -> dict[str, float | None]:
        rows = halfwink("measure", "--json", "--seconds", "0.05").rows("items")
        return {row["name"]: row.get("p50_ns") for row in rows}

    def wrong(times: dict[str, Any]) -> str | None:
        in_order = times["system-call"] > times["decision"] > 0
        if len(os.sched_getaffinity(0)) > 1:
            # Spinning is faster than waking, whatever the machine.
            in_order = in_order and times["mailbox"] < times["futex"]
        return None if in_order else f"{times}"

    undisturbed(times, wrong)


def test_measure_prints_a_table(halfwink: Halfwink) -> None:
    done = halfwink("measure", "--only", "system-call,monitor-wait", "--seconds", "0.05")
    assert done.status == 0
    assert done.out.splitlines()[1].startswith("system-call")
    assert "monitor-wait" in done.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["measure", "--only", "nothing"], "--only nothing: expected some of counter, "),
        (["measure", "--cpus", "0"], "--cpus 0: expected two different CPUs, such as 0,1"),
        (["measure", "--cpus", "0,4000"], "--cpus: CPU 4000 is not one of "),
        (["measure", "--seconds", "0"], "--seconds 0.0: expected above 0, at most 60"),
        (["live", "idle", "--seconds", "-1"], "--seconds -1.0: expected above 0"),
        (["live", "idle", "--by", "magic"], "--by magic: expected switch-records or spinners"),
        (["live", "idle", "--json", "--", "true"], "--json with a command: "),
        (["live", "idle", "--", "no-such-program"], "no-such-program: no such program"),
        (["live", "nothing"], "unknown command `nothing`"),
    ],
)
def test_wrong_use_is_refused_with_its_reason(
    halfwink: Halfwink, words: list[str], complaint: str
) -> None:
    done = halfwink(*words)
    assert done.status == 2
    assert done.complaint.startswith(complaint)


@pytest.mark.parametrize("by", [None, "spinners"])
def test_idle_time_both_ways(halfwink: Halfwink, by: str | None) -> None:
    done = halfwink("live", "idle", "--json", "--seconds", "0.3", *(["--by", by] if by else []))
    assert done.status == 0
    found = done.json()["facts"]
    assert found["watched_s"] >= 0.3
    assert (found["fallback"] is None) or found["mechanism"] == "spinners"
    for cpu in done.rows("cpus"):
        assert 0 <= cpu["log2_s"] <= cpu["exact_s"] <= found["watched_s"] * 1.05
        assert cpu["periods"] == sum(n for _, n in cpu["histogram"])
        if cpu["periods"]:
            assert 0.5 <= cpu["log2_over_exact"] <= 1
            lower_s = sum(n * 2**k for k, n in cpu["histogram"]) * 1e-9
            assert lower_s == pytest.approx(cpu["log2_s"])


def test_idle_time_of_a_command(halfwink: Halfwink, tmp_path: Path) -> None:
    done = halfwink("live", "idle", "-o", "idle.json", "--", "sh", "-c", "echo out; exit 3")
    assert done.status == 3
    assert done.out == "out\n"
    assert "log2 / exact" in done.err
    assert document((tmp_path / "idle.json").read_text())["tables"]["cpus"]["rows"]


def test_doctor_has_a_line_for_all_that_a_machine_may_lack() -> None:
    assert {name for name, _ in native.live_features()} <= set(doctor.LIVE_FIXES)


def test_doctor_knows_the_live_parts(halfwink: Halfwink) -> None:
    found = {f["what"]: f for f in halfwink("doctor", "--json").rows("findings")}
    assert found["live: preload library"]["present"]
    for what in ("a CPU for system calls", "io_uring", "switch records", "waiting in hardware"):
        finding = found[f"live: {what}"]
        assert finding["present"] or finding["fix"]

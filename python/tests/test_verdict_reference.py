"""Sentences of a verdict by their reference: what runs today, in its own energy."""

from __future__ import annotations

from typing import Any

from test_verdict import related, results, row

from halfwink.results.verdict import verdict


def test_hardware_that_adds_nothing_is_not_named_over_all():
    rows: list[dict[str, Any]] = []
    for name in ("a", "b"):
        runs = {"always-on": (100.0, 50.0), "idle-menu": (94.9, 50.0), "tap": (94.85, 50.0)}
        rows += [row(technique, *v, workload=name) for technique, v in runs.items()]
    over, today, *_ = verdict(related("chip", rows)).sentences
    assert over.startswith("Over all 2, idle-menu saves most of what runs today: 5.10 %")
    assert today.startswith("idle-menu uses")


def test_as_good_is_a_share_of_the_least_and_not_of_the_baseline():
    runs = {"single-thread": (100.0, 50.0), "polled": (36.0, 5.0), "multi-queue": (35.0, 10.0)}
    found = verdict(results("storage", runs))
    assert found.sentences[0].startswith("multi-queue uses the least energy"), found.sentences
    runs["polled"] = (35.2, 5.0)
    found = verdict(results("storage", runs))
    assert found.sentences[0].startswith("polled uses within 1 % of the least"), found.sentences


def test_what_needs_more_than_today_is_no_reference_of_today():
    runs = {"rotor": (100.0, 50.0), "opera": (99.0, 50.0)}
    said = verdict(results("racks", runs)).sentences
    assert said[0] == "Nothing that runs today was compared: add packet-switch."
    # Beside something of today that uses more, the first one is not called today's either.
    runs = {"round-robin-socket": (80.0, 9.0), "polled": (100.0, 9.0)}
    said = verdict(results("storage", runs)).sentences
    assert said[0].startswith("polled uses the least energy of what runs today: 25.00 % more than")
    assert any(
        line.startswith("With a changed kernel or firmware, round-robin-socket uses 20.00 % less")
        for line in said
    )
    assert not any("saves -" in line for line in said)


def test_a_usual_technique_that_is_overloaded_sets_no_limit():
    runs = {"always-on": (100.0, 10.0), "napi-menu": (90.0, 600.0), "napi": (99.0, 10.0)}
    found = verdict(results("router", runs))
    assert "the usual" not in str(found)
    assert "napi-menu would save 10.00 % and breaks a limit (slower, longer p99)" in str(found)


def test_a_bound_that_is_beaten_is_none():
    runs = {"always-on": (100.0, 50.0), "idle-menu": (80.0, 50.0), "oracle": (70.0, 50.0)}
    found = verdict(results("chip", runs | {"tap": (60.0, 50.0)}))
    assert "a bound" not in str(found)
    assert "a bound" in str(verdict(results("chip", runs)))


def test_a_fleet_is_not_told_as_one_pair():
    runs = {"always-on": (1000.0, 50.0), "always-small": (500.0, 50.0)}
    said = str(verdict(related("server", [row(n, *v, servers=10) for n, v in runs.items()])))
    assert "of the 10 pairs of servers'" in said
    assert "kWh a year" in said
    assert "per pair" not in said

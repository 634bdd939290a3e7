"""A day of load, live and simulated; and the arithmetic behind it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, lacking, need_bed, undisturbed

from halfwink.bed.day import fit, interpolated
from halfwink.live.router import costs


def test_costs_are_fitted_by_least_squares():
    frames_and_wakes = [(1000.0, 900.0), (10_000.0, 3000.0), (100_000.0, 50.0)]
    exact = [(f, w, 2e-6 * f + 5e-6 * w) for f, w in frames_and_wakes]
    assert fit(exact) == pytest.approx((2e-6, 5e-6))
    # Where both say the same, or one would be negative, the better one explains all.
    assert fit([(100.0, 100.0, 1.0), (200.0, 200.0, 2.0)]) == pytest.approx((0.01, 0.0))
    alone = fit([(100.0, 10.0, 10.0), (1000.0, 20.0, 20.0)])
    assert alone == pytest.approx((0.0, 1.0))


def test_counts_between_samples_are_on_a_line():
    samples = [(10.0, 0.0), (20.0, 5.0), (40.0, 5.0)]
    found = [interpolated(samples, at) for at in (0.0, 10.0, 15.0, 30.0, 99.0)]
    assert found == [0.0, 0.0, 2.5, 5.0, 5.0]


def test_elements_cost_what_they_do():
    def measured() -> dict[tuple[str, int], float]:
        found = costs(5).to_dicts()
        rows = {(r["element"], r["frame_bytes"]): r["ns_per_packet"] for r in found}
        assert all(ns > 0 for ns in rows.values())
        return rows

    def wrong(rows: dict[tuple[str, int], float]) -> str | None:
        # What the published order rests on: more is done to a packet, more it costs.
        ns = [rows[element, 700] for element in ("route", "netflow", "redundancy")]
        return None if ns == sorted(ns) else f"{rows}"

    undisturbed(measured, wrong)


def test_a_short_day(halfwink: Halfwink, tmp_path: Path):
    need_bed()
    if os.geteuid() != 0:
        lacking("AF_XDP: run as root", kernel=True)
    words = ["--seconds", "4", "--peak-pps", "8000", "-o", str(tmp_path), "--json"]

    def day() -> dict[str, Any]:
        done = halfwink("live", "day", *words)
        assert done.status == 0, done.err
        found = done.json()
        assert found["facts"]["reordered"] == 0
        return found["facts"] | {"slots": done.rows("slots")}

    found = undisturbed(day, lambda f: f"{f['lost']} lost" if f["lost"] else None)
    assert len(found["slots"]) == 4
    assert found["frames"] == pytest.approx(sum(s["offered_pps"] for s in found["slots"]))
    assert found["live_busy_s"] > 0
    assert found["simulated_busy_s"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"day.parquet", "day.html", "day.png"}
    assert "--seconds" in halfwink("live", "day", "--seconds", "1").complaint

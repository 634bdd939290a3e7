"""Servers under a power cap: BigHouse's figures, and what cannot be."""

from __future__ import annotations

import pytest

from halfwink.errors import HalfwinkError
from halfwink.models import capping


def test_the_reference_run_gives_what_bighouse_gives() -> None:
    # As its program prints them with its own seed; the cap is known to 5 %.
    ours = capping.run("csedns", servers=100, accuracy=0.01)
    assert ours["converged"]
    assert ours["response_s"] == pytest.approx(0.10644, rel=0.01)
    assert ours["response_p95_s"] == pytest.approx(0.33489, rel=0.01)
    assert ours["cap_w"] == pytest.approx(4.6347, rel=0.05)
    for name in ("response_s", "response_p95_s", "cap_w", "cap_p95_w"):
        assert ours[f"{name}_half_width"] <= 0.01 * ours[name]


def test_a_lower_frequency_that_makes_requests_longer_is_far_slower() -> None:
    published = capping.run(servers=20, epochs=200)
    slower = capping.run(servers=20, epochs=200, rule="slower")
    assert slower["response_s"] > 5 * published["response_s"]
    assert slower["power_w"] > published["power_w"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workload": "nowhere"}, "nowhere.arrival.cdf: No such file"),
        ({"servers": 0}, "servers: expected a number above 0, found 0"),
        ({"accuracy": 0.0}, "accuracy: expected a number above 0, found 0"),
        ({"rule": "faster"}, "rule: expected published or slower, found faster"),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, object], words: str) -> None:
    with pytest.raises(HalfwinkError, match=words):
        capping.run(**settings)  # type: ignore[arg-type]

"""Nulls: rules for many targets, values computed from given ones, and the skill that follows."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import test_claims as claims

from halfwink import HalfwinkError
from halfwink.library import library, root
from halfwink.targets import nulls, score


def target(name: str, published: Any, **changes: Any) -> dict[str, Any]:
    """A target of a work `tap`."""
    return claims.target(name, published, area="gating", **changes)


#: A table with a calibrated column, two predicted ones and a claim.
TARGETS = [
    target("T1/mcf/base", 20.0, calibrated=True),
    target("T1/lbm/base", 10.0, calibrated=True),
    target("T1/mcf/tap", 15.0),
    target("T1/lbm/tap", 9.0, unit="x"),
    target("T1/lbm/tap-2", 8.0),
    target("T1/helps", True),
    target("T1/old", 3.0, **{"class": "hardware"}),
]
GOOD = """
schema = 1
[[null]]
text = "half of the base, and the number of the column"
targets = ["T1/*/tap-*"]
value = "[T1/$1/base] / 2 + $2"
[[null]]
text = "the base"
targets = ["T1/{mcf}/tap"]
value = "[T1/$1/base]"
[[null]]
text = "it does nothing"
targets = ["T1/helps"]
value = "[T1/lbm/base] > 15"
[[null]]
text = "it does nothing"
targets = ["**"]
value = "unchanged"
"""


def load(folder: Path, text: str) -> dict[str, nulls.Null]:
    (folder / "tap.toml").write_text(text)
    return nulls.load(folder, TARGETS)


def test_first_rule_that_fits_gives_the_value(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD)
    assert {id: null.value for id, null in found.items()} == {
        "tap/T1/mcf/tap": 20.0,
        "tap/T1/lbm/tap": 1.0,
        "tap/T1/lbm/tap-2": 7.0,
        "tap/T1/helps": 0.0,
    }
    assert found["tap/T1/lbm/tap"].text == "it does nothing"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"[T1/$1/base]"', '"[T1/$1/tap-2]"', "T1/mcf/tap-2`, expected a target such as"),
        ('"[T1/$1/base]"', '"[zzzzzz]"', "`zzzzzz`, expected a target of this work"),
        ('"[T1/$1/base]"', '"[T1/lbm/tap]"', "expected a number that is calibrated, input or"),
        ('["**"]', '["T2/**"]', "it does nothing`: found no predicted target"),
        ('"T1/helps"', '"T1/help"', "`unchanged` for a claim, expected true or false"),
        ('"T1/*/tap-*"', '"T1/*/tip-*"', "half of the base, and the number of the column`"),
        ("[T1/lbm/base] > 15", "[T1/lbm/base] >", "`10.0 >`, expected SQL of one number"),
        ('value = "unchanged"', "values = 0", "found text, targets, values, expected text,"),
        ("schema = 1", "schema = 2", "expected schema = 1 and [[null]]"),
    ],
)
def test_wrong_rule_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(HalfwinkError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert said in str(caught.value)
    assert str(tmp_path / "tap.toml") in str(caught.value)


def test_target_without_a_null_is_named(tmp_path: Path) -> None:
    rules = GOOD.split("[[null]]")
    with pytest.raises(HalfwinkError) as caught:
        load(tmp_path, "[[null]]".join([rules[0], rules[1], rules[2]]))
    assert "found no null for tap/T1/lbm/tap (2 targets), expected a rule" in str(caught.value)


def test_every_prediction_of_the_works_has_a_null() -> None:
    targets = library().targets()
    found = nulls.load(root() / "targets/nulls", targets)
    assert found.keys() == {t["id"] for t in targets if nulls.is_prediction(t)}
    assert all(math.isfinite(null.value) for null in found.values())


def test_nulls_say_what_an_independent_reader_computed() -> None:
    """Powering up costs nothing: 29 of 30 cells, of which 10 are given. One constant for all
    machines and kernels: 142 of 311 program cells that a mutant broke then, 148 of all 317."""
    found = nulls.load(root() / "targets/nulls", library().targets())
    assert found["strong/PT-3.12/sim-cs/delay-1000/v1"].value == 8651.0
    # 1538 octets on the wire carry 1448.
    assert found["mogul/T6.1/rate-single"].value == pytest.approx(941.48, abs=0.01)
    # 27 W for 22.76 of 60.1 s, 1 W for all: 0.4157 of one core's.
    merit = 1 / (1 - 37.34 / 60.1 + 1 / 27)
    assert found["mogul/T6.1/gain-1-w"].value == pytest.approx(merit)
    judged = nulls.judged(found, lambda v: library().verdicts(v, on_its_own=True))
    powered = [id for id in judged if re.match("strong/PT-3.12/sim.*delay.*v[1235]", id)]
    assert (len(powered), sum(judged[id]["met"] for id in powered)) == (20, 19)
    tables = [id for id in judged if re.match(r"strong/PT-3\.(13|16|17|21|23)/.*sim-", id)]
    assert (len(tables), sum(judged[id]["met"] for id in tables)) == (317, 148)


def entry(verdict: str, ours: float, null: float | None, met: bool = False) -> dict[str, Any]:
    """A target of which 10 is published."""
    told = None if null is None else {"text": "nothing", "value": null, "met": met}
    made = {"id": "strong/X", "area": "gating", "unit": "%", "held_out": False, "killed_by": []}
    return {**made, "published": 10.0, "ours": ours, "verdict": verdict, "null": told}


def test_skill_is_what_the_null_misses_and_we_meet() -> None:
    entries = [
        entry("holds", 11.0, 0.0),  # a tenth of the null's error
        entry("holds", 11.0, 11.0, met=True),  # as far off
        entry("fails", 30.0, 12.0, met=True),  # ten times as far off
        entry("fails", 15.0, 0.0),  # half as far off
        entry("insensitive", 10.0, 0.0),
        entry("calibrated", 10.0, None),
        entry("miss", 20.0, None),
    ]
    found = score.score("x", entries)
    assert (found.judged, found.good, found.null_good, found.beyond) == (4, 2, 2, 1)
    assert found.skill_pct == 50.0
    assert found.error_ratio == pytest.approx(0.75)
    assert found.apart["given but missed"] == 1
    # 11 is one value.
    assert (found.facts, found.facts_good) == (3, 1)
    assert score.headline(found) == (
        "4 predictions: 2 met, 2 by a model without the mechanism; of the 2 that it misses 1 met; "
        "3 facts: 1 met; median error 0.75 of its own"
    )


def test_fact_is_met_where_all_its_targets_are() -> None:
    entries = [{**entry("fails", 11.0, 0.0), "published": 20.0}, entry("holds", 11.0, 0.0)]
    found = score.score("x", entries)
    assert (found.judged, found.good, found.facts, found.facts_good) == (2, 1, 1, 0)


def test_null_that_is_exact_leaves_no_skill() -> None:
    both, worse = entry("holds", 10.0, 10.0, met=True), entry("holds", 11.0, 10.0, met=True)
    assert score.score("x", [both]).error_ratio == 1.0
    assert score.score("x", [worse]).error_ratio == math.inf
    assert score.score("x", [both]).skill_pct is None

"""Colours of charts, as eyes with and without deficiencies see them."""

from __future__ import annotations

from itertools import combinations

import pytest
from colour_vision import DEFICIENCIES, ciede2000, contrast, lab, least
from test_verdict import related, row

from halfwink.report import charts, palette
from halfwink.report.charts import ENERGY_GROUPS
from halfwink.report.core_charts import CAUSES, STATES

#: CIEDE2000 that tells two colours apart at a glance.
APART = 12.0
LISTS = {
    "techniques": palette.TECHNIQUES,
    "parts": palette.PARTS,
    "many parts": palette.MANY_PARTS,
    "energy": tuple(ENERGY_GROUPS.values()),
    "causes": tuple(CAUSES.values()),
    "states": tuple(STATES.values()),
}


def too_near(colours: tuple[str, ...]) -> list[tuple[str, str, float, str]]:
    """Pairs that some eyes do not tell apart."""
    pairs = ((one, two, *least(one, two)) for one, two in combinations(colours, 2))
    return [pair for pair in pairs if pair[2] < APART]


@pytest.mark.parametrize("name", LISTS)
def test_any_two_colours_are_apart_for_all_eyes(name: str):
    assert too_near(LISTS[name]) == []


@pytest.mark.parametrize("name", LISTS)
def test_every_colour_stands_out_from_white_and_from_a_dark_page(name: str):
    for colour in LISTS[name]:
        assert contrast(colour, "#ffffff") >= 1.9, colour
        assert contrast(colour, "#333333") >= 1.9, colour


def test_colours_that_deuteranopes_and_protanopes_confuse_are_found():
    # The first palette of these charts.
    old = ("#2f6db3", "#7fb0dd", "#d1603d", "#e3b23c", "#5aa469", "#9b59b6", "#c9ccd1", "#8d99a6")
    found = {(one, two): (apart, how) for one, two, apart, how in too_near(old)}
    apart, how = found["#2f6db3", "#9b59b6"]
    assert (how, apart < 4) == ("protanopia", True)
    assert ("#d1603d", "#5aa469") in found


def test_the_distance_is_that_of_its_authors():
    # Sharma, Wu, Dalal, "The CIEDE2000 color-difference formula", 2005, Table 1: pairs 1, 17, 25.
    for one, two, apart in (
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ):
        assert ciede2000(one, two) == pytest.approx(apart, abs=5e-5)


def test_grey_is_grey_to_all_eyes():
    for how in DEFICIENCIES:
        _, a, b = lab("#808080", how)
        assert abs(a) < 0.5
        assert abs(b) < 0.5


@pytest.mark.parametrize("kinds", [len(palette.SHAPES), len(palette.DASHES)])
def test_techniques_of_one_colour_differ_in_their_mark(kinds: int):
    names = ["always-on", "tap", *(f"technique {n}" for n in range(30))]
    colours = palette.colours_of(names)
    assert colours["tap"] == palette.NAMED["tap"]
    marks = palette.numbers_of(names, kinds)
    seen = {(colours[name], mark) for name, mark in zip(names, marks, strict=True)}
    assert len(seen) == len(names)


@pytest.mark.parametrize("first", ["always-on", "technique"])
def test_techniques_of_one_chart_of_several_workloads_differ_in_colour_or_shape(first: str):
    """Shapes are of workloads as long as there are colours for all techniques."""
    names = [first, *(f"technique-{n}" for n in range(13))]
    rows = [
        row(name, 100.0 - n, 50.0 + n, workload=workload)
        for workload in ("a", "b")
        for n, name in enumerate(names)
    ]
    chart = charts.savings(related("chip", rows)).to_dict()
    layers = [layer["encoding"] for layer in chart["layer"]]
    points = next(layer for layer in layers if "shape" in layer)
    of = [points[channel]["scale"] for channel in ("color", "shape")]
    assert of[0]["domain"] == of[1]["domain"] == names[1:]
    assert len(set(zip(of[0]["range"], of[1]["range"], strict=True))) == len(names) - 1
    (dash,) = (
        e["strokeDash"] for e in (la["encoding"] for la in chart["layer"]) if "strokeDash" in e
    )
    assert dash["field"] == "workload"


def test_up_to_eight_techniques_have_a_colour_each():
    names = ["oracle", *(f"technique {n}" for n in range(6)), "always-on"]
    assert len(set(palette.colours_of(names).values())) == len(names)


def test_up_to_twelve_techniques_that_have_no_colour_of_their_own_differ_in_colour():
    for count in (9, 12):
        names = [f"technique-{n}" for n in range(count)]
        assert len(set(palette.colours_of(names).values())) == count
    many = [f"technique-{n}" for n in range(30)]
    assert len(set(palette.colours_of(many).values())) == len(palette.MANY_PARTS)

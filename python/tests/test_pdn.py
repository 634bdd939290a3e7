"""The power-delivery network: the command, and ngspice as the referee."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Halfwink, need

from halfwink.models import pdn

#: Network, case, wake-up (ns; none: the shortest safe), nanoseconds between starts.
CASES = [
    ("ev6", "awa./..../..../....", None, 0.0),
    ("ev6", "wwww/waww/wwww/wwww", None, 0.0),
    ("ev6", "wawa/awww/..a./waaw", 9.3, 0.9),
    ("ev6", "...w/.a../..../w...", 5.0, 0.3),
    ("ev6-2x2", "aw/ww", 13.37, 0.0),
    ("ev6-2x3", "waw/aaa", 7.0, 0.6),
    ("ev6-2x4", "awaw/waaa", None, 0.9),
    ("in-order-22-lop", "wa/a.", None, 0.0),
    ("ev6-lumped", "awa./..../..../....", None, 0.0),
    ("ev6-lumped-2x3", "waw/aaa", 7.0, 0.6),
]

#: What a mesh may be without: elements, case.
BARE = [
    ({"mesh.plane.c_nf": 0}, "aw/.w"),
    ({"mesh.plane.l_ph": 0, "mesh.plane.c_nf": 15}, "aw/.w"),
    ({"mesh.bump.l_ph": 0, "mesh.board.esl_ph": 0}, "wa/aa"),
    ({"mesh.regulator.l_ph": 1, "mesh.board.c_uf": 0.05}, "wa/aw"),
]


@pytest.mark.parametrize(("name", "case", "wake_up", "apart"), CASES)
def test_ngspice_agrees(name: str, case: str, wake_up: float | None, apart: float) -> None:
    need("ngspice")
    network = pdn.network(name)
    ours = network.case(case, wake_up, apart)
    supply_v = network.spec()["core"]["supply_v"]
    theirs = [v / supply_v for v in pdn.ngspice(network.deck(case, wake_up, apart))]
    assert len(theirs) == len(ours["droop"])
    for a, b in zip(ours["droop"], theirs, strict=True):
        assert a == pytest.approx(b, rel=0.01)


@pytest.mark.parametrize(("values", "case"), BARE)
def test_ngspice_agrees_on_meshes_with_less(values: dict[str, float], case: str) -> None:
    need("ngspice")
    network = pdn.network("ev6-2x2", set=values)
    ours = network.droop(case, 8.3, 0.3)
    theirs = pdn.ngspice(network.deck(case, 8.3, 0.3))
    assert ours == pytest.approx(theirs, rel=0.01)


def test_the_shortest_safe_wake_up_uses_up_the_limit() -> None:
    answer = pdn.network("ev6").case("awa./..../..../....")
    active = [d for d, mark in zip(answer["droop"], "awa.", strict=False) if mark == "a"]
    assert max(active) == pytest.approx(0.05, rel=1e-3)


def test_the_calibrated_elements_of_ev6_are_a_minimum() -> None:
    network = pdn.network("ev6")
    spec = network.spec()
    fitted = {row["element"]: row["value"] for row in network.calibrate()}
    assert list(fitted) == spec["calibrated"]
    for element, value in fitted.items():
        part = spec
        for key in element.split("."):
            part = part[key]
        assert part == pytest.approx(value, rel=0.02), element


def test_a_lumped_package_is_calibrated_alike() -> None:
    fitted = pdn.network("ev6-lumped").calibrate()
    assert [row["element"] for row in fitted] == ["package.l_ph", "package.r_shared_mohm"]


def test_the_printed_package_alone_hardly_droops() -> None:
    # Strong 2013, Table 2.1, 32 nm HP, against the limit of 5 %.
    printed = {
        "core.c_core_nf": 7.53,
        "core.c_decap_nf": 1.51,
        "core.r_pdn_mohm": 70,
        "package.l_ph": 0.769,
        "package.r_mohm": 0.0154,
        "package.r_shared_mohm": 10,
    }
    answer = pdn.network("ev6-lumped-2x2", set=printed).case("aw/ww", 10.0)
    assert answer["droop"][0] < 0.05 / 100


def test_a_fit_and_a_table(halfwink: Halfwink) -> None:
    rows = halfwink("pdn", "ev6-2x2", "--json").rows("fit")
    assert [row["fit"] for row in rows] == ["staged", "staggered"]
    assert rows[0]["gamma"] is None
    table = halfwink("pdn", "ev6-2x2", "--table", "--json").rows("table")
    # Each set of waking cores up to symmetry, as each other core sees it.
    assert sum(row["sets"] for row in table if row["w"] + row["x"] == 3) == 4
    assert "t0 ns" in halfwink("pdn", "ev6-2x2").out


def test_stagger_and_sensitivity(halfwink: Halfwink) -> None:
    stagger = halfwink("pdn", "ev6-2x2", "--stagger", "--json").rows("stagger")
    assert [row["waking"] for row in stagger] == [1, 2, 3]
    assert all(row["staggered_ns"] <= row["at_once_ns"] for row in stagger)
    rows = halfwink("pdn", "ev6-2x2", "--sensitivity", "--json").rows("sensitivity")
    supply = [row["t0_ns"] for row in rows if row["element"] == "core.supply_v"]
    # In a linear network charge and limit grow with the supply alike.
    assert supply == pytest.approx([supply[0]] * len(supply), rel=1e-6)


def test_a_deck_is_written(halfwink: Halfwink, tmp_path: Path) -> None:
    deck = tmp_path / "x.cir"
    done = halfwink("pdn", "ev6-2x2", "--deck", "aw/..", "-o", str(deck))
    assert done.status == 0
    assert deck.read_text() == halfwink("pdn", "ev6-2x2", "--deck", "aw/..").out


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("mesh.ball.r_mohm=-1", "mesh.ball.r_mohm: -1, expected 0 to"),
        ("mesh.plane.c_nf=nan", "mesh.plane.c_nf: NaN, expected"),
        ("core.c_decap_nf=nan", "core.c_decap_nf: NaN, expected"),
        ("grid.rows=0", "grid.rows: 0, expected 1 to 64"),
        ("limits.active_droop=0.0001", "cannot be kept: with a core waking"),
    ],
)
def test_bad_elements_are_named_with_their_line(
    halfwink: Halfwink, setting: str, says: str
) -> None:
    done = halfwink("pdn", "ev6-2x2", "--set", setting)
    assert done.status == 2
    assert "ev6.toml" in done.complaint
    assert says in done.complaint
    assert done.complaint.split(": ")[0].rsplit(":", 1)[1].isdigit()


def test_a_chip_without_supply_is_refused(halfwink: Halfwink, tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "machines" / "pdn" / "in-order-32-hp.toml"
    text = shipped.read_text().replace("[core]", 'supply = ["..", ".."]\n\n[core]')
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    complaint = halfwink("pdn", str(mine)).complaint
    line = 1 + text[: text.index("supply = ")].count("\n")
    assert complaint == f"{mine}:{line}: grid.supply: no core has a path to the regulator"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ev7"], "unknown network `ev7`; did you mean `ev6`?"),
        (["--case", "aw"], "expected 4 rows of 4 cores"),
        (["--case", "aaaa/aaaa/aaaa/aaaa"], "expected a core `w` that wakes"),
        (["--fit", "--table"], "expected one of --table, --fit"),
        (["ev6-5x5", "--table"], "too many sets to search"),
        (["--case", "aw../..../..../....", "--wake-up", "0"], "wake-up: 0 ns, expected 0.5 to 40"),
        (["--case", "aw../..../..../....", "--apart", "-1"], "stagger: -1 ns, expected 0 to 0.9"),
    ],
)
def test_mistakes_are_one_line(halfwink: Halfwink, words: list[str], says: str) -> None:
    done = halfwink("pdn", *words)
    assert done.status == 2
    assert says in done.complaint

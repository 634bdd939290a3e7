"""Flows between racks through the command line: advice, files, training jobs, wrong input."""

from __future__ import annotations

from pathlib import Path

import pytest
from colour_vision import colour_alone
from conftest import Halfwink

from halfwink.models import circuit_advice

SMALL = {
    "switch.ports": 12,
    "switch.usable_ports": 12,
    "racks.count": 12,
    "racks.servers": 2,
}


def set_of(values: dict[str, object]) -> list[str]:
    return [word for path, value in values.items() for word in ("--set", f"{path}={value}")]


SET = set_of(SMALL)


def test_flows_of_a_file_take_their_time(tmp_path: Path) -> None:
    flows = tmp_path / "three.flows"
    flows.write_text(
        "# source destination bytes begin_ns\n0 3 1000 0\n0 23 2000000 5e5\n4 5 1500 0\n"
    )
    found = circuit_advice(
        str(flows), techniques=["packet-switch", "opera", "round-robin"], set=SMALL
    )
    assert found.measure == "latency_p99_us"
    assert found.runs["flows"].to_list() == [3, 3, 3]
    assert found.runs["ended_pct"].to_list() == [100.0] * 3
    packets, opera, turns = found.runs["latency_p99_us"]
    # 2 MB at 0.957 of 10 Gb/s, and six hops.
    assert packets == pytest.approx(2e6 / (1250 * 0.957) + 6 * 0.5 + 5 * 1.2, abs=0.1)
    # A path of circuits may have fewer hops than the layers of a packet network.
    assert packets - 6 < opera < turns
    assert found.best()["technique"] in found.front["technique"]


def test_advice_says_what_takes_least(halfwink: Halfwink) -> None:
    done = halfwink(
        "circuits", "advise", "web-search@5", *SET, "--duration-ms", "20",
        "--technique", "packet-switch,opera,round-robin",
    )  # fmt: skip
    assert done.status == 0
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert "J/GB" in done.out.splitlines()[-1]
    told = halfwink(
        "circuits", "advise", "web-search@5", *SET, "--duration-ms", "20",
        "--technique", "packet-switch,opera,round-robin", "--json",
    )  # fmt: skip
    rows = {row["technique"]: row for row in told.rows("runs")}
    # Circuits take less energy, and turns more time.
    assert rows["opera"]["j_per_gb"] < rows["packet-switch"]["j_per_gb"]
    assert rows["round-robin"]["fct_p50_us"] > 5 * rows["packet-switch"]["fct_p50_us"]
    assert told.rows("best")[0]["technique"] in rows


def test_iterations_of_a_job_are_groups(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        'schema = 1\nkind = "job"\ntitle = "two steps"\niterations = 3\n'
        "[[step]]\ncompute_ms = 2.0\n"
        '[[step]]\nwhat = "ring-all-reduce"\nmb = 12.0\n'
    )
    one = {**SMALL, "racks.servers": 1, "racks.hop_us": 0, "racks.frame_bytes": 0}
    found = circuit_advice(str(job), techniques=["packet-switch", "static-circuits"], set=one)
    assert found.measure == "group_mean_ms"
    packets, ring = found.runs["group_mean_ms"]
    # A ring of 12 sends 22 twelfths of 12 MB; its neighbours are what static circuits join.
    expected = 2.0 + 22 / 12 * 12e6 / (1250e3 * 0.957)
    assert packets == pytest.approx(expected, rel=1e-6)
    assert ring == pytest.approx(expected, rel=2e-3)
    assert found.best()["technique"] == "static-circuits"


def test_sensitivity_moves_what_it_should() -> None:
    found = circuit_advice(
        "web-search@5", techniques="opera", duration_ms=5, sensitivity=True, set=SMALL
    )
    moved = {(value, factor): j for value, factor, _, _, j, *_ in found.sensitivity.rows()}
    base = found.runs["j_per_gb"].item()
    assert (
        moved["racks.power.circuit_port_w", 2.0] > base > moved["racks.power.circuit_port_w", 0.5]
    )
    assert moved["racks.power.packet_w_per_gbps", 2.0] == pytest.approx(base)


def test_charts_show_the_front(tmp_path: Path) -> None:
    found = circuit_advice("permutation", techniques=["packet-switch", "rotor"], set=SMALL)
    assert colour_alone(found.chart().to_dict()) == []
    drawn = str(found.chart().to_dict())
    assert "packet-switch" in drawn
    assert "J/GB" in drawn


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 1 1500 0\n0 24 1500 0\n", ":2: destination: found `24`, expected 0 to 23"),
        ("0 1 9223372036854775808 0\n", ":1: bytes: found `9223372036854775808`"),
        ("0 1 1500\n", ":1: begin is missing"),
        ("", ":1: found no flows"),
        ("40 1\n1 0 1 3 1 2:1.0\n", ":1: racks: found `40`, expected 1 to 12"),
    ],
)
def test_wrong_files_are_one_line(halfwink: Halfwink, tmp_path: Path, text: str, said: str) -> None:
    wrong = tmp_path / "wrong.flows"
    wrong.write_text(text)
    done = halfwink("circuits", "advise", str(wrong), *SET)
    assert done.status == 2
    assert f"{wrong}{said}" in done.complaint


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("web-serch",), "unknown workload `web-serch`; did you mean `web-search`?"),
        (("web-search@0",), "load `0`, expected above 0 to 200 percent"),
        (("shuffle@5",), "shuffle has no load"),
        (("shuffle", "-m", "mordia"), "mordia: no [racks]"),
        (("shuffle", "--technique", "rotr"), "did you mean `rotor`?"),
        (("shuffle", "--technique", "round-robin:day_us=3"), "has days of 50 us or more"),
        (
            ("dense-training", *set_of(SMALL | {"racks.count": 10})),
            "among: found 8, expected a divisor",
        ),
        (("shuffle", "--set", "racks.planes=0"), "racks.planes: found 0, expected 1 to 64"),
    ],
)
def test_wrong_questions_are_one_line(
    halfwink: Halfwink, arguments: tuple[str, ...], said: str
) -> None:
    done = halfwink("circuits", "advise", *arguments)
    assert done.status == 2
    assert said in done.complaint

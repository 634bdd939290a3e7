"""Circuits: closed forms, and `halfwink circuits simulate`, a view over `compare -w fabric`."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import polars as pl
import pytest
from conftest import Halfwink
from test_figures import marks, overlap

import halfwink as hw
from halfwink.cli.main import _run  # pyright: ignore[reportPrivateUsage]
from halfwink.models import circuit_schedule, fabric
from halfwink.models.circuits import Schedule
from halfwink.report.figures import POINTS, STYLES, WIDTHS, Figure, scene, specification

ROOT = Path(__file__).parents[2]


def test_the_model_prints_what_the_work_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["circuits", "model", "--json"]) == 0
    days = json.loads(capsys.readouterr().out)["tables"]["days"]["rows"]
    long = next(row for row in days if row["day_us"] == 1000 and row["sharers"] == 22)
    assert round(long["bandwidth_gbps"]) == 9901  # Strong 2013, Fig 4.3
    assert _run(["circuits", "model", "mordia"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "84.14" in printed


def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in [
        (["mordi"], "did you mean `mordia`"),
        (["--set", "switch.ports=0"], "found 0, expected 1 or more"),
        (["mordia", "--savings"], "no [data_centre]"),
        (["--days", "--trees"], "expected one of"),
    ]:
        assert _run(["circuits", "model", *words]) == 2
        complaint = capsys.readouterr().err
        assert expected in complaint
        assert complaint.count("\n") == 1


def test_a_chart_of_what_is_saved(tmp_path: Path) -> None:
    saved = tmp_path / "saved.svg"
    fabric().chart().save(str(saved))
    assert "power saved" in saved.read_text()
    with pytest.raises(hw.HalfwinkError, match="nothing to draw"):
        fabric("mordia").chart()


def test_hosts_take_turns_as_the_work_has_it(tmp_path: Path) -> None:
    text = (ROOT / "studies/circuits.toml").read_text()
    (tmp_path / "turns.toml").write_text(f"{text}\n[options]\nduration_ms = 200\n")
    runs = hw.run(str(tmp_path / "turns.toml"), out=tmp_path / "out").results.runs
    turns = runs.filter(pl.col("technique") != "packet-switch").iter_rows(named=True)
    at = {(run["tokens"], run["day_us"]): run for run in turns}
    assert len(at) == 9
    for day in [61, 123.5, 300]:
        duty = 100 * day / (day + 11.5)
        assert at["pacing", day]["up_pct"] == pytest.approx(duty)
        assert at["pacing", day]["host_gbps"] < duty / 10
    losses = [at[tokens, 300]["loss_pct"] for tokens in ["pacing", "aging", "naive"]]
    assert losses == sorted(losses)
    assert losses[0] < losses[1] / 2
    assert at["pacing", 123.5]["first_arrival_us"] == pytest.approx(33.2, rel=0.1)


def test_a_view_shows_the_runs_of_compare(halfwink: Halfwink, tmp_path: Path) -> None:
    same = ("-t", "packet-switch,round-robin", "--set", "duration_ms=10", "-q", "-o", "same")
    shown = halfwink("circuits", "simulate", *same, "--json").json()
    again = halfwink("compare", "-w", "fabric", *same, "--json").json()
    for told in (again, shown):
        del told["tables"]["host"]
    assert again == shown
    assert [run["day_us"] for run in shown["tables"]["runs"]["rows"]] == [None, 123.5]
    kept = hw.open(tmp_path / "same")
    assert kept.runs["host_gbps"].min() > 6
    printed = halfwink("circuits", "simulate", *same).out
    assert all(
        heading in printed for heading in ("Gb/s a host", "loss %", "fairness %", "first us")
    )


def test_a_demand_becomes_a_week(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demand = tmp_path / "demand.csv"
    hosts = 40
    lines = (
        ",".join(str(0 if a == b else 1000 + (7 * a + 3 * b) % 50) for b in range(hosts))
        for a in range(hosts)
    )
    demand.write_text("\n".join(lines))
    assert _run(["circuits", "schedule", str(demand), "--week-us", "6000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["facts"]["sum_error"] < 1e-9
    week = found["tables"]["week"]["rows"]
    assert sum(slot["day_us"] + 11.5 for slot in week) <= 6000.001
    for slot in week:
        ends = [pair.split(">") for pair in slot["circuits"].split()]
        assert len({a for a, _ in ends}) == len({b for _, b in ends}) == len(ends)
    assert _run(["circuits", "schedule", str(demand), "--scheduler", "solstice"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_circuits_of_a_week_follow_their_nights() -> None:
    week = pl.DataFrame(
        {"slot": [0, 1], "day_us": [100.0, 50.0], "circuits": ["0>1 2>0", "0>2 1>0"]}
    )
    facts = {"hosts": 3.0, "slots": 2.0, "days_us": 150.0, "week_us": 170.0, "duty_pct": 88.2}
    found = Schedule(week, pl.DataFrame({"name": list(facts), "value": list(facts.values())}))
    # Nights of 10 us come before days of 100 and 50 us.
    assert found.circuits().rows() == [
        (0, 0, 1, 10.0, 110.0),
        (0, 2, 0, 10.0, 110.0),
        (1, 0, 2, 120.0, 170.0),
        (1, 1, 0, 120.0, 170.0),
    ]
    told = "2 days of 3 hosts in 170.0 us, 88.2 % of it day; a circuit is up for 29.4 to 58.8 %"
    assert found.answer() == f"{told} of the week"
    empty = Schedule(week.clear(), found.facts)
    with pytest.raises(hw.HalfwinkError, match="the week has no circuit"):
        empty.chart()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("hosts", [4, 40])
def test_a_week_is_drawn_as_bars_of_its_senders(tmp_path: Path, hosts: int, width: str) -> None:
    demand = tmp_path / "demand.csv"
    lines = (",".join(str(int(a != b)) for b in range(hosts)) for a in range(hosts))
    demand.write_text("\n".join(lines))
    found = circuit_schedule(demand, week_us=6000)
    figure = Figure(lambda size, _font, _columns: found.drawn(size), "")
    graph = scene(specification(figure, STYLES["paper"], WIDTHS[width]))
    assert abs(graph["width"] - WIDTHS[width] * POINTS) <= 1.5
    texts = [(text, box) for kind, text, box in marks(graph) if kind == "text"]
    assert not [(a, b) for (a, one), (b, other) in combinations(texts, 2) if overlap(one, other)]
    assert {"sender", "receiver", "time in the week (us); gaps: nights"} <= {t for t, _ in texts}


def test_a_schedule_is_drawn_by_its_command(halfwink: Halfwink, tmp_path: Path) -> None:
    (tmp_path / "demand.csv").write_text("0,3,1\n1,0,3\n3,1,0\n")
    done = halfwink("circuits", "schedule", "demand.csv", "--plot", "week.svg", "--json")
    assert done.status == 0, done.err
    assert (tmp_path / "week.svg").read_text().startswith("<svg")
    assert "caption: 2 days of 3 hosts in 3000.0 us" in done.err
    assert done.rows("week")
    wrong = halfwink("circuits", "schedule", "none.csv", "--plot", "week.gif")
    assert wrong.status == 2
    assert "week.gif: expected a name that ends in .pdf, .svg, .png" in wrong.complaint


def test_wrong_runs_and_demands_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demand = tmp_path / "demand.csv"
    demand.write_text("0,1\n1,-2\n")
    for words, expected in [
        (["simulate", "-t", "round-robin:day_us=60"], "days of 61 us or more"),
        (["simulate", "-t", "round-robin:day_us=x"], "day_us"),
        (["simulate", "--set", "tokens=pacin"], "tokens: `pacin`, did you mean `pacing`?"),
        (["simulate", "-m", "optical-core"], "no [hosts]"),
        (["simulate", "mordia"], "it is a machine: write `-m mordia`"),
        (["simulate", "--set", "hosts.count=24"], "expected 2 to 23"),
        (["simulate", "--set", "duration_ms=0"], "duration_ms: `0`"),
        (["simulate", "--set", "seed=18446744073709551616"], "18446744073709551615"),
        (["simulate", "--day", "61"], "write `--technique round-robin:day_us=61` now"),
        (["simulate", "--tokens=naive"], "write `--set tokens=NAME` (`halfwink run circuits`"),
        (["schedule", str(demand)], ":2: found `-2`"),
        (["schedule", str(tmp_path / "none.csv")], "No such file"),
        (["schedule", str(demand), "--scheduler", "x"], ":2: found `-2`"),
    ]:
        assert _run(["circuits", *words]) == 2, words
        complaint = capsys.readouterr().err
        assert expected in complaint, complaint
        assert complaint.count("\n") == 1


def test_tcp_is_played_in_turns() -> None:
    days = [f"round-robin:day_us={day}" for day in (61, 123.5, 300)]
    played = {"transport": "tcp", "duration_ms": 100}
    runs = hw.compare("all-to-all", world="fabric", techniques=days, set=played).runs
    assert runs["day_us"].to_list() == [61, 123.5, 300]
    # 6.26 Gb/s over a packet switch: Strong 2013, Fig 4.18.
    assert runs["host_gbps"].is_between(3, 6.27).all()
    assert (runs["resent_pct"] > 0).all()


def test_small_frames_carry_less() -> None:
    small, large = (
        hw.compare(
            "all-to-all",
            world="fabric",
            techniques="round-robin",
            set={"hosts.frame_bytes": size, "duration_ms": 20},
        ).runs["host_gbps"][0]
        for size in (1000, 9000)
    )
    assert small < large


def test_transports_that_are_not_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for setting, expected in [
        ("transport=sctp", "transport: `sctp`, expected udp, tcp"),
        ("congestion=cubik", "congestion: `cubik`, did you mean `cubic`?"),
        ("offload=maybe", "offload: `maybe`, expected off, on"),
        ("hosts.frame_bytes=12", "hosts.frame_bytes: found 12"),
        ("hosts.tcp.window_days=0", "hosts.tcp.window_days: found 0"),
        ("hosts.card.least_us=24", "found 24, expected 0 to 23"),
    ]:
        assert _run(["circuits", "simulate", "--set", setting]) == 2
        complaint = capsys.readouterr().err
        assert expected in complaint
        assert complaint.count("\n") == 1

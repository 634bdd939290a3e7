"""Circuits: closed forms through the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import halfwink as hw
from halfwink.cli.main import _run  # pyright: ignore[reportPrivateUsage]


def test_the_model_prints_what_the_work_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["circuits", "model", "--json"]) == 0
    days = json.loads(capsys.readouterr().out)["days"]
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
    hw.fabric().chart().save(str(saved))
    assert "power saved" in saved.read_text()
    with pytest.raises(hw.HalfwinkError, match="nothing to draw"):
        hw.fabric("mordia").chart()


def test_hosts_take_turns_as_the_work_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["circuits", "simulate", "mordia", "--duration-ms", "200", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert len(runs) == 9
    at = {(run["tokens"], run["day_us"]): run for run in runs}
    for day in [61, 123.5, 300]:
        duty = 100 * day / (day + 11.5)
        assert at["pacing", day]["up_pct"] == pytest.approx(duty)
        assert at["pacing", day]["host_gbps"] < duty / 10
    losses = [at[tokens, 300]["loss_pct"] for tokens in ["pacing", "aging", "naive"]]
    assert losses == sorted(losses)
    assert losses[0] < losses[1] / 2
    assert at["pacing", 123.5]["first_arrival_us"] == pytest.approx(33.2, rel=0.1)
    assert _run(["circuits", "simulate", "--duration-ms", "10"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


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
    assert sum(slot["day_us"] + 11.5 for slot in found["week"]) <= 6000.001
    for slot in found["week"]:
        ends = [pair.split(">") for pair in slot["circuits"].split()]
        assert len({a for a, _ in ends}) == len({b for _, b in ends}) == len(ends)
    assert _run(["circuits", "schedule", str(demand), "--scheduler", "solstice"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_wrong_runs_and_demands_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demand = tmp_path / "demand.csv"
    demand.write_text("0,1\n1,-2\n")
    for words, expected in [
        (["simulate", "--day", "60"], "days of 61 us or more"),
        (["simulate", "--day", "61,x"], "expected numbers"),
        (["simulate", "--tokens", "pacin"], "did you mean `pacing`"),
        (["simulate", "optical-core"], "no [hosts]"),
        (["simulate", "--set", "hosts.count=24"], "expected 2 to 23"),
        (["simulate", "--duration-ms", "0"], "expected more than 0"),
        (["schedule", str(demand)], ":2: found `-2`"),
        (["schedule", str(tmp_path / "none.csv")], "No such file"),
        (["schedule", str(demand), "--scheduler", "x"], ":2: found `-2`"),
    ]:
        assert _run(["circuits", *words]) == 2, words
        complaint = capsys.readouterr().err
        assert expected in complaint, complaint
        assert complaint.count("\n") == 1


def test_tcp_is_played_in_turns(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["circuits", "simulate", "--transport", "tcp", "--tokens", "pacing"]
    words += ["--duration-ms", "100"]
    assert _run([*words, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["day_us"] for run in runs] == [61, 123.5, 300]
    # 6.26 Gb/s over a packet switch: Strong 2013, Fig 4.18.
    assert all(3 < run["host_gbps"] <= 6.27 for run in runs)
    assert all(run["resent_pct"] > 0 for run in runs)
    assert _run(words) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_frames_of_several_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["circuits", "simulate", "--mtu", "1000,9000", "--tokens", "pacing", "--day", "123.5"]
    words += ["--duration-ms", "20"]
    assert _run(words) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    assert _run([*words, "--json"]) == 0
    small, large = json.loads(capsys.readouterr().out)["runs"]
    assert (small["mtu_bytes"], large["mtu_bytes"]) == (1000, 9000)
    assert small["host_gbps"] < large["host_gbps"]


def test_transports_that_are_not_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in [
        (["--transport", "sctp"], "unknown transport `sctp`"),
        (["--transport", "tcp", "--congestion", "cubik"], "unknown congestion `cubik`"),
        (["--offload", "maybe"], "unknown offload `maybe`"),
        (["--mtu", "12"], "expected whole bytes from 64 to 65535"),
        (["--mtu", "a"], "expected numbers, by commas"),
        (["--set", "hosts.tcp.window_days=0"], "hosts.tcp.window_days: found 0"),
        (["--set", "hosts.card.least_us=24"], "found 24, expected 0 to 23"),
    ]:
        assert _run(["circuits", "simulate", *words]) == 2
        complaint = capsys.readouterr().err
        assert expected in complaint
        assert complaint.count("\n") == 1

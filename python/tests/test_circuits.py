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

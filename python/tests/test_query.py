"""SQL over the tables of a finished run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from conftest import Halfwink

import halfwink as hw

STUDY = """
schema = 1
world = "toy"
title = "points"
workloads = ["exponential@30"]
machines = ["machine"]
techniques = ["always-on", "idle-gate"]
[options]
requests = 50
[sweep]
seed = [1, 2, 3]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "points.toml").write_text(STUDY)
    hw.run(str(tmp_path / "points.toml"), out=tmp_path / "out")
    return tmp_path / "out"


def test_swept_values_have_columns(folder: Path):
    results = hw.open(folder)
    sql = "select technique, seed, energy_j from runs where seed > 1 order by seed, technique"
    found = results.query(sql)
    assert found.select("technique", "seed").rows() == [
        (technique, seed) for seed in (2, 3) for technique in ("always-on", "idle-gate")
    ]
    here = {(row["technique"], row["set"]): row["energy_j"] for row in results.runs.to_dicts()}
    for technique, seed, energy in found.rows():
        assert energy == here[technique, f"seed={seed:.0f}"]
    joined = results.query(
        "select r.technique, sum(l.energy_j) as all_j from runs r join ledger l "
        "on r.technique = l.technique group by r.technique"
    )
    assert joined.height == 2


@pytest.mark.parametrize("sql", ["select nothing from runs", "selct", "select * from nowhere"])
def test_wrong_sql_is_one_line(folder: Path, halfwink: Halfwink, sql: str):
    with pytest.raises(hw.HalfwinkError, match=r"^SQL: "):
        hw.open(folder).query(sql)
    done = halfwink("query", str(folder), sql)
    assert done.status == 2
    assert done.complaint.startswith("SQL: ")
    assert ("; there are: " in done.complaint and "runs" in done.complaint) == ("nowhere" in sql)


def test_the_command_shows_tells_and_writes(folder: Path, halfwink: Halfwink):
    sql = "select technique, count(*) as runs from runs group by technique order by technique"
    rows = [{"technique": "always-on", "runs": 3}, {"technique": "idle-gate", "runs": 3}]
    assert halfwink("query", str(folder), sql, "--json").rows("rows") == rows
    assert "idle-gate" in halfwink("query", str(folder), sql).out
    for name, read in (("a.csv", pl.read_csv), ("a.parquet", pl.read_parquet)):
        done = halfwink("query", str(folder), sql, "-o", name)
        assert (done.status, done.out) == (0, ""), done.err
        assert read(folder.parent / name).to_dicts() == rows
    tables = halfwink("query", str(folder)).out
    assert "runs (6 rows): workload, machine, " in tables
    assert "energy_j" in tables
    assert "ledger (" in tables


def test_what_cannot_be_is_one_line(folder: Path, tmp_path: Path, halfwink: Halfwink):
    assert "a.xlsx: expected" in halfwink("query", str(folder), "x", "-o", "a.xlsx").complaint
    assert "expected SQL" in halfwink("query", str(folder), "--json").complaint
    done = halfwink("query", str(tmp_path / "none"), "select 1")
    assert (done.status, done.complaint != "") == (2, True)

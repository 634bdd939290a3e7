"""``halfwink trace predict``: the run-length predictor on recorded kernel entries."""

import shutil
from pathlib import Path

import pytest
from conftest import Halfwink

from halfwink.library import root

TABLES = ["associative-200", "direct-1500", "unbounded"]


def test_a_server_is_predicted(halfwink: Halfwink) -> None:
    found = halfwink("trace", "predict", "nginx", "--json").json()
    header = halfwink("trace", "info", str(root() / "workloads" / "nginx.hwt"), "--json").json()
    totals = header["totals"]
    assert sum(found["instructions"]) == totals["instructions"]
    assert found["instructions"][1] == totals["kernel_instructions"]
    # All but those that the ends of the trace cut.
    assert totals["events"]["syscall"] - 2 <= found["system_calls"] <= totals["events"]["syscall"]
    assert found["unexplained"] == 0
    rows = {(row["entries"], row["table"]): row for row in found["rows"]}
    assert [table for entries, table in rows if entries == "all"] == TABLES
    unbounded = rows["all", "unbounded"]
    predicted = found["system_calls"] + found["interrupts"] + found["exceptions"]
    assert unbounded["predictions"] == predicted
    without = rows["without-interrupts", "unbounded"]
    assert without["predictions"] == predicted - found["interrupts"]
    for row in rows.values():
        assert row["exact_percent"] <= row["within_5_percent"] <= 100
    # Where short and long entries mix most it decides better than always or never moving would.
    decision = next(d for d in unbounded["decisions"] if d["threshold"] == 5000)
    one_sided = max(decision["longer_percent"], 100 - decision["longer_percent"])
    assert 50 <= one_sided < decision["right_percent"] < 100


def test_a_file_is_as_good_as_a_name(halfwink: Halfwink, tmp_path: Path) -> None:
    shutil.copy(root() / "workloads" / "redis.hwt", tmp_path / "mine.hwt")
    done = halfwink("trace", "predict", "mine.hwt")
    assert done.status == 0
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == TABLES * 2
    assert "system calls" in done.err
    named = halfwink("trace", "predict", "redis")
    assert named.out == done.out


@pytest.mark.parametrize(
    ("workload", "complaint"),
    [
        ("nginy", "did you mean `nginx`"),
        ("nginx+redis", "2 cores, expected one trace"),
        ("alu:instructions=1000", "no whole kernel invocation"),
        ("missing.hwt", "missing.hwt"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(
    halfwink: Halfwink, workload: str, complaint: str
) -> None:
    done = halfwink("trace", "predict", workload)
    assert done.status == 2
    assert complaint in done.complaint

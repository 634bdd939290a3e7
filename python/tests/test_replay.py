"""Logs of runs, replayed and laid side by side: from the command line and from Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink.runs import beside

TOY = ("compare", "exponential@30", "-w", "toy", "--set", "requests=2000", "-q")


def forge(log: Path) -> int:
    """Takes the actions out of one line in the middle; its number."""
    lines = log.read_text().splitlines()
    at = next(n for n in range(len(lines) // 2, len(lines)) if ',"actions":' in lines[n])
    lines[at] = lines[at].partition(',"actions":')[0] + "}"
    log.write_text("\n".join(lines) + "\n")
    return at + 1


def test_a_log_is_replayed_and_a_forged_line_is_found(halfwink: Halfwink, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    done = halfwink(*TOY, "-t", "idle-gate", "--log", str(log), "-o", str(tmp_path / "out"))
    assert done.status == 0, done.err
    # The baseline always runs: each has its own.
    logs = sorted(path.name for path in tmp_path.glob("*.log"))
    assert logs == ["run-always-on.log", "run-idle-gate.log"]
    log = tmp_path / "run-idle-gate.log"
    told = halfwink("replay", str(log))
    assert told.status == 0, told.err
    assert told.out.startswith("equal: idle-gate decides as ")
    for word in ("policies", "events", "timers", "actions equal", "whole, at"):
        assert word in told.out
    assert all(len(line) <= 80 for line in told.out.splitlines())
    line = forge(log)
    told = halfwink("replay", str(log))
    assert told.status == 1
    assert told.out.startswith(f"differs at line {line} of ")
    assert "expected  nothing" in told.out
    found = halfwink("replay", str(log), "--json").json()["facts"]
    assert found["first_difference"]["line"] == line


def test_a_logged_job_runs_even_if_its_result_is_there(halfwink: Halfwink, tmp_path: Path) -> None:
    words = (*TOY, "-t", "always-on", "-o", str(tmp_path / "out"))
    assert halfwink(*words).status == 0
    kept = {path: path.read_bytes() for path in (tmp_path / "out" / "runs").iterdir()}
    log = tmp_path / "only.log"
    assert halfwink(*words, "--log", str(log)).status == 0
    assert hw.replay(log).is_equal
    names = {path.name for path in (tmp_path / "out" / "runs").iterdir()}
    assert names == {path.name for path in kept}


def test_a_folder_takes_the_logs_of_a_study(halfwink: Halfwink, tmp_path: Path) -> None:
    study = tmp_path / "small.toml"
    study.write_text(
        'schema = 1\nworld = "toy"\ntitle = "small"\nworkloads = ["exponential@30"]\n'
        'machines = ["machine"]\ntechniques = ["always-on", "idle-adaptive"]\n'
        "[options]\nrequests = 500\n[sweep]\nwake_up_us = [1, 4]\n"
    )
    folder = tmp_path / "logs"
    done = halfwink("run", str(study), "--log", f"{folder}/", "-o", str(tmp_path / "out"), "-q")
    assert done.status == 0, done.err
    logs = sorted(folder.iterdir())
    assert len(logs) == 4
    assert len({log.name for log in logs}) == 4
    assert all("idle-adaptive" in log.name or "always-on" in log.name for log in logs)
    for log in logs:
        assert hw.replay(log).is_equal, log


def test_routers_and_hybrid_servers_leave_logs(halfwink: Halfwink, tmp_path: Path) -> None:
    router = ("router", "-t", "power-save", "--profile", "step:100kpps,1Mpps")
    short = ("--set", "evaluation.point_ms=1", "-q", "-o", str(tmp_path / "out"))
    log = tmp_path / "router.log"
    assert halfwink(*router, *short, "--log", str(log)).status == 0
    assert hw.open(tmp_path / "out").runs["technique"].to_list() == ["power-save"]
    told = hw.replay(log)
    assert told.is_equal
    assert told.header["technique"] == "power-save"
    assert told.events > 100
    hybrid = ("hybrid", "count@30", "-t", "hybrid", "--set", "requests=2000", "-q")
    log = tmp_path / "hybrid.log"
    assert halfwink(*hybrid, "--log", str(log)).status == 0
    told_by = tmp_path / "hybrid-hybrid.log"
    told = hw.replay(told_by)
    assert told.is_equal
    assert told.header["workload"] == "count@30"
    assert not hw.replay(told_by, technique="hybrid:threshold=1").is_equal


#: A class of the user's own, and a new process that replays its log.
AGAIN = """
import sys
import halfwink as hw
from halfwink.policies import Steering, steering

class Big(Steering):
    def on_event(self, now, event):
        return steering.Send(1) if isinstance(event, steering.Arrive) else None

if sys.argv[2:]:
    where = {"world": "server", "set": {"requests": 300}, "log": sys.argv[1]}
    hw.compare("count@30", techniques=Big, **where)
else:
    for technique in (Big, Big()):
        print(hw.replay(sys.argv[1], technique=technique).is_equal)
"""


def test_a_log_of_a_class_is_replayed_by_the_class_in_a_new_process(tmp_path: Path) -> None:
    for words in (("play",), ()):
        code = [sys.executable, "-c", AGAIN, str(tmp_path / "of.log"), *words]
        if not words:
            code[3] = str(next(tmp_path.glob("*Big*.log")))
        told = subprocess.run(code, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert told.stdout.split() == ["True", "True"]


def test_two_logs_side_by_side_say_where_they_part(halfwink: Halfwink, tmp_path: Path) -> None:
    hw.compare(
        "count@60",
        world="server",
        techniques=["hybrid:threshold=3", "hybrid:threshold=4"],
        set={"requests": 2000},
        log=f"{tmp_path}/",
    )
    three, four = (next(tmp_path.glob(f"*threshold={n}*")) for n in (3, 4))
    found = beside(three, four)
    assert found.headers_differ == ["technique"]
    assert found.first is not None
    assert not found.is_equal
    told = halfwink("replay", str(three), "--beside", str(four))
    assert told.status == 1
    assert f"after {found.alike:,} equal decisions: " in told.out
    assert all(len(line) <= 80 for line in told.out.splitlines())
    assert beside(three, three).is_equal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1: expected the header"),
        ('{"now_ps":1,"told":null,"asked":[]}\n', "record it again with --log"),
        ("no JSON\n", ":1: expected a line of JSON"),
    ],
)
def test_what_is_no_log_is_one_line(
    halfwink: Halfwink, tmp_path: Path, text: str, expected: str
) -> None:
    log = tmp_path / "bad.log"
    log.write_text(text)
    done = halfwink("replay", str(log))
    assert done.status == 2
    assert expected in done.err
    assert done.err.count("\n") == 1

"""Policies as Python classes: they play as native ones do, and their faults are one line."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, cast

import policy_twins
import pytest
from conftest import wait_until

import halfwink as hw
from halfwink.new_policy import families
from halfwink.policies import Gating, Parameter, Policy, Steering, finding, gating, steering

#: Columns that tell techniques apart, whatever they decide.
OF_THE_NAME = ("technique", "available", "today", "host_s", "beyond_today")
#: A native policy, what is the same in Python, and where both are played.
TWINS = {
    "idle-gate": (policy_twins.IdleGate, "nginx", {"world": "chip", "instructions": 300_000}),
    "tap": (policy_twins.Tap, "nginx", {"world": "chip", "instructions": 300_000}),
    "c1": (policy_twins.InC1, "nginx@10", {"set": {"requests": 20_000}}),
    "l3fwd-power-pause": (policy_twins.L3fwdPause, "ipv4@20", {"world": "router"}),
    "always-big": (
        policy_twins.BigOnly,
        "count@30",
        {"world": "server", "set": {"requests": 2000}},
    ),
    "os-always": (
        policy_twins.OsAlways,
        "syscalls",
        {"world": "chip", "instructions": 200_000},
    ),
    "issuer": (policy_twins.Issuer, "random-read@8", {"world": "storage"}),
    "jukebox": (
        policy_twins.Jukebox,
        "nginx-2016@100",
        {"world": "preheat", "set": {"requests": 200}},
    ),
    "round-robin": (policy_twins.RoundRobin, "all-to-all", {"world": "fabric"}),
    "ucp": (
        policy_twins.Ucp,
        "nginx-10pct",
        {"world": "chip", "machine": "ev6", "instructions": 1_000_000},
    ),
    "way-partition:ways=3,route=data": (
        policy_twins.DataWays,
        "nginx-10pct",
        {"world": "chip", "machine": "ev6", "instructions": 300_000},
    ),
}


def row(results: hw.Results) -> dict[str, Any]:
    """The last run, without what names its technique."""
    (*_, last) = results.runs.to_dicts()
    return {name: last[name] for name in last if not name.startswith(OF_THE_NAME)}


@pytest.mark.parametrize("native", TWINS)
def test_class_decides_as_the_native_policy_to_the_bit(native: str):
    own, workload, where = TWINS[native]
    there = row(hw.compare(workload, techniques=native, **where))
    assert row(hw.compare(workload, techniques=own, **where)) == there
    # Not since neither does anything: what decides otherwise gives another row.
    assert row(hw.compare(workload, techniques=[], **where)) != there


def test_class_keeps_the_laws_of_its_family():
    for own, published in (
        (policy_twins.Tap, "tap"),
        (policy_twins.IdleGate, "idle-gate"),
        (policy_twins.L3fwdPause, "l3fwd-power-pause"),
        (policy_twins.OsAlways, "os-always"),
        (policy_twins.Issuer, "issuer"),
        (policy_twins.RoundRobin, "round-robin"),
        (policy_twins.Ucp, "ucp"),
        # `way-partition` with other parameters.
        (policy_twins.DataWays, None),
    ):
        checked = hw.check_policy(own, seeds=30)
        assert [law.law for law in checked if not law.is_kept] == []
        found = [likeness.technique for likeness in checked.reproduced]
        assert found == ([published] if published else [])
    # Nearly: it decides alike in its world, and not in all that random events bring about.
    near = hw.check_policy(policy_twins.Jukebox, seeds=30)
    assert [law.law for law in near if not law.is_kept] == []
    assert (near.nearest[0].technique, near.nearest[0].share > 0.95) == ("jukebox", True)
    # The big machine may be lost: this one sends to it all the same, as the native one does not.
    checked = hw.check_policy(policy_twins.BigOnly, seeds=30)
    broken = [law.law for law in checked if not law.is_kept]
    assert broken == ["keeps these laws while messages are late or lost"]
    assert checked.reproduced == []
    assert checked.nearest[0].technique == "always-big"
    assert 0.9 < checked.nearest[0].share < 1


@pytest.mark.parametrize("family", families())
def test_written_file_is_checked_compared_and_replayed(halfwink, tmp_path: Path, family: str):
    done = halfwink("new-policy", "my-own", "--family", family, "--language", "python")
    assert done.status == 0, done.err
    assert "./my_own.py" in done.out
    again = halfwink("new-policy", "my-own", "--family", family, "--language", "python")
    assert (again.status, again.err.count("\n")) == (2, 1)
    assert "is there already, expected a new file" in again.err
    checked = halfwink("check-policy", "./my_own.py", "--seeds", "20")
    assert (checked.status, checked.out.count("pass  ")) == (0, 7), checked.out + checked.err
    where, setting = {
        "gating": (["nginx", "-m", "ev6-4", "-n", "300000"], "after_us=20"),
        "scaling": (["-w", "router", "ipv4@20"], "polls=1000"),
        "steering": (["-w", "server", "count@30", "--set", "requests=2000"], "threshold=8"),
        "offload": (["-w", "chip", "syscalls", "-n", "200000"], "threshold=5"),
        "completion": (["-w", "storage", "random-read@8"], "waiting=0"),
        "preheat": (["-w", "preheat", "nginx-2016@100", "--set", "requests=200"], "cores=1"),
        "circuits": (["-w", "fabric", "all-to-all"], "day_us=200"),
        "segregation": (["-w", "chip", "nginx", "-m", "ev6", "-n", "500000"], "least=7"),
    }[family]
    chosen = f"./my_own.py,./my_own.py:{setting}"
    done = halfwink("compare", *where, "-t", chosen, "-o", "out", "--log", "run.log")
    assert done.status == 0, done.err
    techniques = hw.open(tmp_path / "out").runs["technique"].to_list()
    assert techniques[-2:] == ["./my_own.py", f"./my_own.py:{setting}"]
    logs = sorted(tmp_path.glob("run-my_own*.log")) or sorted(tmp_path.glob("run-*own*.log"))
    replayed = halfwink("replay", str(logs[0]))
    assert replayed.status == 0, replayed.err
    # A file of another content is not run: it could do anything.
    (tmp_path / "my_own.py").write_text("open('ran', 'w')\n")
    changed = halfwink("replay", str(logs[0]))
    assert changed.status == 2
    assert "its content has changed" in changed.err
    assert not (tmp_path / "ran").exists()


class Own(Gating):
    """Gates after a while."""

    after_us = Parameter(5, least=0, most=1000, unit="us", title="time before it gates")
    events = (gating.IdleBegin, gating.IdleEnd)

    def on_event(self, now: int, event: gating.Event) -> gating.Action | None:
        if isinstance(event, gating.IdleBegin):
            self.timer = now + int(self.after_us * 1_000_000)
            return None
        is_gated, self.timer = self.timer is None, None
        return gating.Wake() if is_gated else None

    def on_timer(self, now: int) -> gating.Action:
        return gating.Gate()


def test_object_brings_its_parameters_and_result_is_kept_under_content(tmp_path: Path):
    where = {"world": "chip", "instructions": 300_000, "out": tmp_path}
    found = hw.compare("nginx-1pct", techniques=[Own, Own(after_us=900.5)], **where).runs
    assert found["technique"].to_list() == ["always-on", "Own()", "Own():after_us=900.5"]
    assert found["wakes"][1] > 0
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    hw.compare("nginx-1pct", techniques=[Own], **where)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()} == kept
    with pytest.raises(hw.HalfwinkError, match=r"`after_us` = 2000, expected 0 to 1000"):
        Own(after_us=2000)
    with pytest.raises(hw.HalfwinkError, match="no parameter `after`, expected after_us"):
        Own(after=1)


def test_pool_of_processes_plays_class_as_threads_do():
    where = {"world": "chip", "instructions": 200_000}
    here = hw.compare("nginx", techniques=[policy_twins.Tap], **where)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        there = hw.compare("nginx", techniques=[policy_twins.Tap], executor=pool, **where)
    assert row(there) == row(here)


#: A program without a file, as a notebook is one.
IN_NO_FILE = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import halfwink as hw
from halfwink.policies import Gating


class Mine(Gating):
    def on_event(self, now, event):
        pass


class Fails(Gating):
    def on_event(self, now, event):
        raise ValueError("mine")


def energy(policy, **more):
    found = hw.compare("alu", world="chip", techniques=policy, set={"instructions": 10_000}, **more)
    return found.runs["energy_j"].to_list()


with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
    assert energy(Mine, executor=pool) == energy(Mine)
    try:
        energy(Fails, executor=pool)
    except hw.HalfwinkError as error:
        print(error)
"""


def test_class_of_a_notebook_is_played_by_processes_that_cannot_import_it(tmp_path: Path):
    command = [sys.executable, "-c", IN_NO_FILE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Fails(): ")
    assert done.stdout.endswith("raised ValueError: mine\n")


def test_class_that_no_process_can_get_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch):
    class Mine(gating.Gating):
        def on_event(self, now: int, event: object) -> None:
            del now, event

    job = hw.Job("chip", "alu", "ev6-4", finding.named(Mine))
    there = pickle.loads(pickle.dumps(job))
    assert there == job
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(hw.HalfwinkError) as error:
        pickle.dumps(job)
    said = "class Mine: it was defined inside a function, where processes of a pool cannot import"
    assert str(error.value) == f"{said} it; put it into a module, or run: pip install cloudpickle"
    # The main program's file is run again by processes that Python starts.
    main = type("Main", (Mine,), {"__module__": "__main__", "__qualname__": "Main"})
    monkeypatch.setattr(sys.modules["__main__"], "Main", main, raising=False)
    # A worker of pytest has none.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    pickle.dumps(hw.Job("chip", "alu", "ev6-4", finding.named(main)))
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    with pytest.raises(hw.HalfwinkError, match="defined in a notebook or a prompt"):
        pickle.dumps(hw.Job("chip", "alu", "ev6-4", finding.named(main)))


def test_class_that_travelled_by_its_code_keeps_digest_and_file(tmp_path: Path):
    file = tmp_path / "mine.py"
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(policy("return 1 / 0"), str(file), "exec"), names)
    mine = names["Mine"]
    # Without its file, the code is the content; the main program's file is never that.
    code = finding.find(finding.named(mine), "")[0]
    file.write_text(policy("return 1 / 0"))
    whole = finding.find(finding.named(mine), "")[0]
    assert whole != code
    (sent,) = finding.given("Mine()")
    assert isinstance(sent, finding.Code)
    assert (sent.digest, sent.file) == (whole, str(file))
    file.unlink()
    finding.arrived([sent])
    assert finding.find("Mine()", whole)[0] == whole


def policy(body: str) -> str:
    """A file whose policy of gating does this at each event."""
    return (
        "from halfwink.policies import Gating\n"
        "from halfwink.policies.gating import *\n"
        "class Mine(Gating):\n"
        "    def on_event(self, now, event):\n"
        f"        {body}\n"
    )


#: Files that cannot be played, and what is said of each.
WRONG = {
    "raises": (policy("return 1 / 0"), "raised ZeroDivisionError at wrong.py:5: division by zero"),
    "answer": (
        policy("return 5"),
        "returned 5 (on_event at wrong.py:4), expected Gate, Rest, Wake, Hindsight",
    ),
    "several": (
        policy("return [Wake(), 'gate']"),
        "returned 'gate' (on_event at wrong.py:4), expected Gate, Rest, Wake",
    ),
    "endless": (policy("return iter(Wake, None)"), "requested 513 actions, expected 512 at most"),
    "exits": ("import sys\nsys.exit(3)\n", "raised SystemExit at wrong.py:2: 3"),
    "past": (policy("self.timer = 0"), "set its timer to 0 ps, expected a time to come"),
    "number": (
        policy("self.timer = now + 0.5"),
        "(on_event at wrong.py:4), expected whole picoseconds or None",
    ),
    "field": (policy("return Rest(-1)"), "expected whole numbers from 0 on"),
    "syntax": ("class Mine(:\n", "raised SyntaxError at wrong.py:1"),
    "import": ("import nowhere_to_be_found\n", "at wrong.py:1: No module named"),
    "none": ("x = 1\n", "has the policies: none; expected one class of a family"),
    "two": (
        policy("pass") + "class Other(Mine):\n    pass\n",
        "has the policies: Mine, Other; expected one class of a family",
    ),
    "events": (policy("pass") + "    events = (int,)\n", "`events` has int, expected StallBegin"),
    "undecided": (
        "from halfwink.policies import Gating\nclass Mine(Gating):\n    pass\n",
        "could not be made: raised TypeError: Can't instantiate abstract class Mine",
    ),
    "init": (
        policy("pass") + "    def __init__(self, needed):\n        pass\n",
        "could not be made",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_file_ends_with_one_line_and_status_two(halfwink, tmp_path: Path, what: str):
    text, line = WRONG[what]
    (tmp_path / "wrong.py").write_text(text)
    done = halfwink("compare", "nginx", "-t", "./wrong.py", "-n", "20000", "-w", "chip")
    said = [each for each in done.err.splitlines() if "wrong.py" in each]
    assert done.status == 2, done.err
    assert len(said) == 1, done.err
    assert line in said[0]
    assert "Traceback" not in done.err


def test_list_shows_what_file_says_of_itself(halfwink, tmp_path: Path):
    (tmp_path / "mine.py").write_text(policy("pass").replace("):\n", "):\n    'Mine alone.'\n", 1))
    done = halfwink("list", "techniques", "./mine.py", "--json")
    assert done.status == 0, done.err
    assert "Mine alone" in done.out
    assert '"gating"' in done.out
    refused = halfwink("list", "machines", "./mine.py")
    assert (refused.status, "`list techniques` does" in refused.complaint) == (2, True)


def test_no_file_and_no_class_are_named(halfwink, tmp_path: Path):
    os.mkfifo(tmp_path / "fifo.py")
    for name, line in {
        "./fifo.py": "expected a regular file",
        "./gone.py": "o such file",
        "Gone()": "no such class was handed over in this process: name its file",
    }.items():
        done = halfwink("compare", "nginx", "-t", name, "-n", "20000", "-w", "chip", timeout=60)
        assert done.status == 2, done.err
        assert line in done.err
        assert "Traceback" not in done.err
    with pytest.raises(hw.HalfwinkError, match=r"techniques: found \[5\], expected a technique"):
        hw.compare("nginx", techniques=cast(Any, [5]), instructions=1000)
    with pytest.raises(hw.HalfwinkError, match="expected a name or a policy"):
        hw.compare("nginx", techniques=[Policy], instructions=1000)
    twin: Any = type("Own", (Own,), {})
    with pytest.raises(hw.HalfwinkError, match="two classes are named Own"):
        hw.compare("nginx", techniques=[Own, twin], instructions=1000)


def test_policy_of_another_family_is_refused_with_its_worlds():
    with pytest.raises(hw.HalfwinkError, match=r"a policy of the family `steering`, for server"):
        hw.compare("nginx", techniques=[policy_twins.BigOnly], world="chip", instructions=1000)


ENDLESS = """
import sys
import halfwink as hw
from halfwink.policies import Gating

class Endless(Gating):
    def on_event(self, now, event):
        print("inside", flush=True)
        while True:
            pass

try:
    hw.compare("nginx", techniques=[Endless], world="chip", instructions=20000)
except KeyboardInterrupt:
    print("left", flush=True)
"""


def test_interrupt_leaves_policy_that_never_returns():
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGINT)
        try:
            wait_until(lambda: process.poll() is not None)
        finally:
            process.kill()
        assert "left" in process.stdout.read()


def test_digest_changes_with_code_and_not_with_its_place():
    def made(body: str, lines: int, most: int = 1) -> type[Steering]:
        found: dict[str, Any] = {"Steering": Steering, "Send": steering.Send, "__name__": "made"}
        found["Share"] = Parameter(0.5, least=0, most=1, title="a share")
        text = f"{chr(10) * lines}class Made(Steering):\n    most = {most}\n    share = Share\n"
        text += "    def on_event(self, now, event):\n"
        exec(compile(f"{text}        {body}\n", "<made>", "exec"), found)
        return found["Made"]

    def digest(own: type[Steering]) -> str:
        return finding.find(finding.named(own), "")[0]

    first = digest(made("return Send(1)", 0))
    assert digest(made("return Send(1)", 7)) == first
    assert digest(made("return Send(0)", 0)) != first
    assert digest(made("return Send(1)", 0, most=2)) != first

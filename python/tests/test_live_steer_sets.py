"""The steering proxy before an ordered set of machines: two small ones and a big one."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, wait_until
from steer_bed import Recorder, balanced, get, settled, status
from test_daemons import binary

from halfwink import replay
from halfwink.errors import HalfwinkError, RunError
from halfwink.live.steer import LiveSteer

SET = """schema = 1
listen = "127.0.0.1:0"
policy = "{policy}"
{machine}
access_log = {{ file = "access.log", format = "json" }}
[[machines]]
name = "web-1"
address = "{0}"
workers = 2
[[machines]]
name = "web-2"
address = "{1}"
workers = 2
power = {{ kind = "signal", pid = {pid} }}
[[machines]]
name = "model-1"
address = "{2}"
workers = 2
power = {{ kind = "command", sleep = ["touch", "{folder}/off"], wake = ["rm", "{folder}/off"] }}
[health]
interval_ms = 50
timeout_ms = 3000
{more}
"""
#: Two of the small machines of six.toml and one of its big ones.
MACHINE = 'machine = "six"\nset = { machines = ["small*2", "big"] }'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Set:
    """Three servers that hold their requests until they are let go, and a description."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.gate = folder, threading.Event()
        self.servers = [Recorder(self._answer) for _ in range(3)]
        # What the signals reach: a process that does nothing.
        self.process = subprocess.Popen(["sleep", "600"])
        self.path = folder / "steer.toml"

    def _answer(self, _request: bytes, peer: socket.socket) -> None:
        self.gate.wait(60)
        peer.sendall(OK)

    def describe(
        self,
        machine: str = MACHINE,
        policy: str = "progressive:threshold=2,linger_ms=200",
        more: str = "",
    ) -> Path:
        addresses = (server.address for server in self.servers)
        words = {"policy": policy, "machine": machine, "more": more}
        text = SET.format(*addresses, pid=self.process.pid, folder=self.folder, **words)
        self.path.write_text(text)
        return self.path

    def is_stopped(self) -> bool:
        """Whether the process stands still: a moment after a signal was sent."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().split()[2] == "T"

    def close(self) -> None:
        self.gate.set()
        for server in self.servers:
            with contextlib.suppress(OSError):
                server.close()
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def three(tmp_path: Path) -> Generator[Set]:
    found = Set(tmp_path)
    yield found
    found.close()


def states(steer: LiveSteer) -> list[str]:
    machines = steer.report()["machines"].values()
    return [machine["state"] for machine in sorted(machines, key=lambda m: m["place"])]


def in_system(steer: LiveSteer) -> list[int]:
    machines = sorted(steer.report()["machines"].values(), key=lambda m: m["place"])
    return [machine["in_service"] + machine["waiting"] for machine in machines]


def send_one_by_one(
    pool: ThreadPoolExecutor, steer: LiveSteer, counts: list[list[int]]
) -> list[Any]:
    """Sends a request, and waits until the machines have so many in all, again and again."""
    sent: list[Any] = []
    for wanted in counts:
        sent.append(pool.submit(get, steer.address))
        # The policy may have woken a machine for it, which takes requests once it answers.
        assert wait_until(lambda wanted=wanted: in_system(steer) == wanted), in_system(steer)
    return sent


def test_machines_of_two_kinds_are_woken_in_their_order_and_sleep_again(three: Set):
    log = three.folder / "log.jsonl"
    with LiveSteer(three.describe(), log=log) as steer, ThreadPoolExecutor(8) as pool:
        assert wait_until(lambda: states(steer) == ["on", "asleep", "asleep"])
        assert wait_until(three.is_stopped)
        assert (three.folder / "off").exists()
        sent = send_one_by_one(pool, steer, [[1, 0, 0], [2, 0, 0], [3, 0, 0]])
        # The third one woke the second machine, and waits where a worker is free first.
        assert wait_until(lambda: states(steer) == ["on", "on", "asleep"])
        assert wait_until(lambda: not three.is_stopped())
        sent += send_one_by_one(pool, steer, [[3, 1, 0], [3, 2, 0]])
        assert wait_until(lambda: states(steer) == ["on", "on", "on"])
        assert not (three.folder / "off").exists()
        sent += send_one_by_one(pool, steer, [[3, 2, 1]])
        three.gate.set()
        assert [status(one.result()) for one in sent] == [200] * 6
        assert wait_until(lambda: states(steer) == ["on", "asleep", "asleep"])
        assert wait_until(three.is_stopped)
        report, text = settled(steer, 6), steer.metrics()
    balanced(report)
    assert {name: m["place"] for name, m in report["machines"].items()} == {
        "web-1": 0,
        "web-2": 1,
        "model-1": 2,
    }
    served = {name: machine["served"] for name, machine in report["machines"].items()}
    assert served == {"web-1": 3, "web-2": 2, "model-1": 1}
    for name, machine in report["machines"].items():
        assert f'halfwink_machine_served_total{{machine="{name}"}} {served[name]}' in text
        assert f'halfwink_modelled_energy_joules_total{{machine="{name}"}}' in text
        if name != "web-1":
            assert machine["modelled"]["energy_j"] < machine["modelled"]["always_on_j"]
    parts = sum(machine["modelled"]["energy_j"] for machine in report["machines"].values())
    assert report["modelled"]["energy_j"] == pytest.approx(parts)
    # A big machine asleep draws a quarter of 160 W (six.toml), a small one of 12.1 W.
    asleep = [row for row in report["ledger"]["rows"] if row["state"] == "asleep"]
    watts = {row["component"]: row["energy_j"] / row["time_s"] for row in asleep}
    assert watts == {"web-2": pytest.approx(12.1 / 4), "model-1": pytest.approx(40.0)}
    lines = [json.loads(line) for line in (three.folder / "access.log").read_text().splitlines()]
    assert sorted(line["machine"] for line in lines) == sorted(
        ["web-1"] * 3 + ["web-2"] * 2 + ["model-1"]
    )
    assert replay(log).first_difference is None


def test_machines_of_a_group_wake_together_and_sleep_together(three: Set):
    log, path = three.folder / "log.jsonl", three.describe()
    text = path.read_text()
    for power in ("signal", "command"):
        text = text.replace(
            f'power = {{ kind = "{power}"', f'group = "rack"\npower = {{ kind = "{power}"'
        )
    path.write_text(text)
    with LiveSteer(path, log=log) as steer, ThreadPoolExecutor(8) as pool:
        assert wait_until(lambda: states(steer) == ["on", "asleep", "asleep"])
        assert wait_until(three.is_stopped)
        assert (three.folder / "off").exists()
        sent = send_one_by_one(pool, steer, [[1, 0, 0], [2, 0, 0], [3, 0, 0]])
        # The third request woke the second machine, and that one the third.
        assert wait_until(lambda: states(steer) == ["on", "on", "on"])
        assert not (three.folder / "off").exists()
        sent += send_one_by_one(pool, steer, [[3, 1, 0], [3, 2, 0]])
        # It is wanted now, and needs no wake-up.
        sent += send_one_by_one(pool, steer, [[3, 2, 1]])
        three.gate.set()
        assert [status(one.result()) for one in sent] == [200] * 6
        assert wait_until(lambda: states(steer) == ["on", "asleep", "asleep"])
        assert wait_until(three.is_stopped)
        assert (three.folder / "off").exists()
        report, text = settled(steer, 6), steer.metrics()
    balanced(report)
    machines = report["machines"]
    assert [machines[name]["followed"] for name in ("web-1", "web-2", "model-1")] == [0, 0, 1]
    assert 'halfwink_machine_followed_total{machine="model-1"} 1\n' in text
    assert replay(log).first_difference is None


def test_a_lost_machine_of_a_set_is_replaced_by_the_next(three: Set):
    three.gate.set()
    with LiveSteer(three.describe()) as steer:
        assert wait_until(lambda: states(steer) == ["on", "asleep", "asleep"])
        three.servers[0].close()
        assert wait_until(lambda: states(steer)[0] == "lost")
        assert [status(get(steer.address)) for _ in range(5)] == [200] * 5
        report = settled(steer, 5)
    assert report["machines"]["web-2"]["served"] == 5
    assert report["requests"]["unreachable"] == 0


def test_a_split_over_a_set_goes_round_all_machines(three: Set):
    three.gate.set()
    with LiveSteer(three.describe(policy="split")) as steer:
        assert [status(get(steer.address)) for _ in range(12)] == [200] * 12
        report = settled(steer, 12)
    assert all(machine["served"] > 0 for machine in report["machines"].values())
    assert {machine["state"] for machine in report["machines"].values()} == {"on"}


def test_a_reload_changes_limits_of_a_set_but_not_its_machines(three: Set):
    with LiveSteer(three.describe()) as steer:
        path = three.describe()
        path.write_text(path.read_text().replace("workers = 2", "workers = 3"))
        assert steer.reload(path) == ["machines.workers"]
        path.write_text(path.read_text().replace('"web-2"', '"web-9"'))
        with pytest.raises((RunError, HalfwinkError), match="machines: they and their levels"):
            steer.reload(path)
        assert list(steer.report()["machines"]) == ["model-1", "web-1", "web-2"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"machine": ""}, "machine: found none, expected the name of a set of as many machines"),
        ({"machine": 'machine = "six"'}, "found six, a set of 6; expected a set of 3, as is here"),
        ({"machine": 'machine = "niccolini"'}, "found niccolini, a pair; expected a set of 3"),
        ({"policy": "hybrid"}, "found a set of 3 machines, expected a pair for `hybrid`"),
    ],
)
def test_a_set_that_its_model_or_policy_does_not_fit_is_refused(
    three: Set, halfwink: Halfwink, words: dict[str, str], expected: str
):
    found = halfwink("live", "steer", str(three.describe(**words)), "--seconds", "1")
    assert found.status == 2
    assert expected in found.err
    assert "Traceback" not in found.err


def test_the_page_of_a_set_shows_its_machines_in_their_order(three: Set, halfwink: Halfwink):
    found = halfwink("live", "steer", str(three.describe()), "--seconds", "0.3")
    assert found.status == 0, found.err
    places = [found.out.index(name) for name in ("web-1", "web-2", "model-1")]
    assert places == sorted(places)
    text = " ".join(found.err.split())
    assert "all machines always on" in text
    assert "the big machine always on" not in text


def test_a_machine_stays_on_as_long_as_its_program_says(three: Set):
    three.gate.set()
    busy = three.folder / "busy"
    busy.touch()
    path = three.describe()
    asks = f'name = "web-2"\nmay_sleep = ["test", "!", "-e", "{busy}"]\nask_again_ms = 20'
    path.write_text(path.read_text().replace('name = "web-2"', asks))
    with LiveSteer(path) as steer:
        assert wait_until(lambda: steer.report()["machines"]["web-2"]["declined"] >= 3)
        assert wait_until(lambda: states(steer) == ["on", "on", "asleep"])
        assert wait_until(lambda: not three.is_stopped())
        text = steer.metrics()
        busy.unlink()
        assert wait_until(lambda: states(steer) == ["on", "asleep", "asleep"])
        assert wait_until(three.is_stopped)
        report = steer.report()
    machine = report["machines"]["web-2"]
    # The policy asked once, the program was run again and again; the machine was on meanwhile.
    assert (machine["sleeps"], machine["power_failures"]) == (1, 0)
    assert sum(machine["residency"]["on_s"]) > 0.02
    assert 'halfwink_machine_declined_total{machine="web-2"}' in text


@pytest.mark.parametrize(
    ("key", "words", "expected"),
    [
        ("power", '{ kind = "command", wake = ["/no/such"], sleep = ["true"] }', "/no/such"),
        ("power", '{ kind = "wake-on-lan", mac = "02:00:00:00:00:02", sleep = ["nono"] }', "nono"),
        ("may_sleep", '["/etc/passwd"]', "/etc/passwd"),
    ],
)
def test_programs_are_looked_for_before_they_are_needed(
    three: Set, key: str, words: str, expected: str
):
    path = three.describe()
    lines = path.read_text().splitlines()
    at = lines.index("[[machines]]") + 1
    lines.insert(at, f"{key} = {words}")
    path.write_text("\n".join(lines))
    found = subprocess.run(
        [binary("halfwink-steer"), "--config", str(path), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    wrong = f"steer.toml:{at + 1}: machines.0.{key}: found {expected}, expected a program that can"
    assert wrong in found.stderr

"""The live programs as operators run them: binaries, without Python in the process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import REQUIRED, need_bed
from steer_bed import Recorder, balanced, describe, get, ledger_balances, status, wait_until

import halfwink
from halfwink.bed import Bed, Live, description


def binary(name: str) -> Path:
    """One that ``make setup`` has built beside this Python."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        message = f"{name} is missing; run: make setup"
        (pytest.fail if REQUIRED else pytest.skip)(message)
    return path


@contextmanager
def running(folder: Path, *words: str) -> Generator[subprocess.Popen[str]]:
    """A proxy that is ready; what it has said is in ``folder/said``."""
    with (folder / "said").open("w") as said:
        process = subprocess.Popen([binary("halfwink-steer"), *words], stderr=said, text=True)
    try:
        wait_until(lambda: "ready" in heard(folder) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.wait()


def heard(folder: Path) -> str:
    return (folder / "said").read_text()


def listening(folder: Path, what: str) -> str:
    """An address that it has said."""
    line = next(line for line in heard(folder).splitlines() if what in line)
    return line.split()[-1].removeprefix("http://").removesuffix("/metrics")


def free_of_python(pid: int) -> None:
    maps = Path(f"/proc/{pid}/maps").read_text()
    assert "libc.so" in maps
    assert "python" not in maps.replace(sys.prefix, "").lower()


@pytest.mark.parametrize("name", ["halfwink-router", "halfwink-steer", "halfwink-block"])
def test_a_program_without_symbols_takes_less_than_6_mb(name: str, tmp_path: Path) -> None:
    small = tmp_path / name
    subprocess.run(["strip", "-o", small, binary(name)], check=True)
    assert small.stat().st_size < 6_000_000


@pytest.mark.parametrize("name", ["halfwink-router", "halfwink-steer"])
def test_they_link_no_python(name: str):
    linked = subprocess.run(["ldd", binary(name)], capture_output=True, text=True, check=True)
    assert "libc.so" in linked.stdout
    assert "python" not in linked.stdout.lower()


@pytest.mark.parametrize("name", ["router", "steer", "block", "circuits"])
def test_they_say_their_version_and_how_they_are_called(name: str):
    def said(word: str) -> str:
        words = [binary(f"halfwink-{name}"), word]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert said("--version").startswith(f"halfwink-{name} {halfwink.__version__}")
    assert f"Usage: halfwink-{name} " in said("--help")


def test_a_proxy_from_its_start_to_its_report(tmp_path: Path):
    pair = Recorder(), Recorder()
    path = describe(tmp_path, *(r.address for r in pair), top='policy = "hybrid"')
    report, log = tmp_path / "report.json", tmp_path / "log.jsonl"
    words = ["--config", str(path), "--metrics", "127.0.0.1:0"]
    words += ["--report", str(report), "--log", str(log)]
    with running(tmp_path, *words) as process:
        free_of_python(process.pid)
        address = listening(tmp_path, "listening at")
        assert [status(get(address)) for _ in range(8)] == [200] * 8
        metrics = listening(tmp_path, "metrics:")
        counted = b'halfwink_steer_requests_total{what="answered"} 8\n'
        # The books are written after a client has its answer.
        page = wait_until(lambda: counted in (p := get(metrics, "/metrics")) and p)
        assert page.endswith(b"# EOF\n")
        text = path.read_text()
        path.write_text(text.replace("retries = 2", "retries = 3").replace("= 4", "= 5"))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "again: big.workers, limits.retries changed" in heard(tmp_path))
        path.write_text("threads = 2\n" + text)
        process.send_signal(signal.SIGHUP)
        refused = "threads: can only change by a restart; all stays as it was"
        wait_until(lambda: refused in heard(tmp_path))
        assert status(get(address)) == 200
        path.write_text(text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    found: dict[str, Any] = json.loads(report.read_text())
    assert found["requests"]["answered"] == 9
    balanced(found)
    again = halfwink.replay(log)
    assert (again.first_difference, again.policies) == (None, 1), "the same policy throughout"
    assert found["log_dropped"] == 0
    for one in pair:
        one.close()


@pytest.mark.parametrize(
    ("change", "words", "expected"),
    [
        (("schema = 1", "schema = 3"), [], "steer.toml:1: schema: found 3, expected 1"),
        (("workers = 2", "wrokers = 2"), [], "steer.toml:6: unknown field `wrokers`"),
        (("schema = 1", 'schema = 1\npolicy = "hybird"'), [], "`hybird`"),
        (('"niccolini"', '"niccolin"'), [], "niccolin"),
        (("", ""), ["--metrics", "nowhere"], "--metrics nowhere: expected HOST:PORT"),
        (("", ""), ["--library", "/nowhere"], "--library /nowhere: expected a folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, change: tuple[str, str], words: list[str], expected: str
):
    path = describe(tmp_path, "127.0.0.1:1", "127.0.0.1:2")
    path.write_text(path.read_text().replace(*change) if change[0] else path.read_text())
    check = [] if "--metrics" in words else ["--check"]
    command = [binary("halfwink-steer"), "--config", str(path), *check, "-q", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done
    assert expected in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_description_that_is_well(tmp_path: Path):
    path = describe(tmp_path, "127.0.0.1:1", "127.0.0.1:2")
    words = ["--config", str(path), "--check"]
    done = subprocess.run([binary("halfwink-steer"), *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, f"halfwink-steer: {path}: well\n")
    done = subprocess.run([binary("halfwink-router"), *words], capture_output=True, text=True)
    assert done.returncode == 2, "a proxy's description is no router's"
    taken = describe(tmp_path, "127.0.0.1:1", "127.0.0.1:2")
    taken.write_text(taken.read_text().replace("127.0.0.1:0", "192.0.2.1:80"))
    done = subprocess.run([binary("halfwink-steer"), *words[:2]], capture_output=True, text=True)
    assert done.returncode == 1, "the machine does not allow it"
    assert done.stderr.startswith("halfwink-steer: listen 192.0.2.1:80: ")


def test_a_routers_keys_that_others_may_read_are_warned_about(tmp_path: Path):
    path = tmp_path / "router.toml"
    port = '[[port]]\ninterface = "nowhere0"\naddresses = ["10.0.0.1/24"]\n'
    ends = 'spi = 4097\nlocal = "10.0.0.1"\npeer = "10.0.0.2"\nselectors = ["10.9.0.0/16"]\n'
    keys = f'[app]\nkind = "ipsec"\n[[app.outbound]]\nkey = "0x{"0123456789abcdef" * 2}aabbccdd"\n'
    command = [binary("halfwink-router"), "--config", str(path), "--check"]
    for app, mode, warning in (
        (keys + ends, 0o644, "a secret that everybody may read (mode 644)"),
        (keys + ends, 0o640, "a secret that its group may read (mode 640)"),
        (keys + ends, 0o600, ""),
        ("", 0o644, ""),
    ):
        path.write_text(f"schema = 1\n{port}{app}")
        path.chmod(mode)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        *warnings, last = done.stderr.splitlines()
        assert (done.returncode, last) == (0, f"halfwink-router: {path}: well")
        assert warnings == ([f"halfwink: {path}: {warning}"] if warning else [])


def test_a_router_forwards(tmp_path: Path):
    need_bed()
    with Bed() as bed:
        text = description(io="af-packet")
        with Live(bed, text, binary=binary("halfwink-router")) as live:
            # Beside busy neighbours the router may come late to its socket.
            wait_until(lambda: bed.trial(pps=2000, seconds=0.3)["lost"] == 0)
            live.path.write_text(text.replace("schema = 1", "schema = 1\nqueue = 512"))
            live.process.signal(signal.SIGHUP)
            wait_until(lambda: "queue: can only change by a restart" in live.said())
            report = live.result()
    assert report["packets"]["forwarded"] >= 600
    ledger_balances(report)
    components = {row["component"] for row in report["ledger"]["rows"]}
    assert {"core0", "core1", "package0", "board", "memory", "nic", "fans"} <= components

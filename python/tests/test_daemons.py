"""The live programs as operators run them: binaries, without Python in the process."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import REQUIRED, lacking, need, need_bed, need_preheating
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from steer_bed import Recorder, balanced, describe, get, ledger_balances, status, wait_until

import halfwink
from halfwink import HalfwinkError
from halfwink.bed import Bed, Live, description
from halfwink.bed.places import Place, wait_for_child
from halfwink.bed.star import Star, wire
from halfwink.live import check
from halfwink.live.served import PROGRAMS


def binary(name: str) -> Path:
    """One that ``make setup`` has built beside this Python."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        message = f"{name} is missing; run: make setup"
        (pytest.fail if REQUIRED else pytest.skip)(message)
    return path


@contextmanager
def running(
    folder: Path,
    *words: str,
    name: str = "steer",
    place: Place | None = None,
    under: Sequence[str] = (),
) -> Generator[subprocess.Popen[str]]:
    """A program that is ready, started by ``under``; what it has said is in ``folder/said``."""
    command = [*under, str(binary(f"halfwink-{name}")), *words]
    command = command if place is None else place.words(command)
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command, stderr=said, text=True)
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_without_symbols_takes_less_than_6_mb(name: str, tmp_path: Path) -> None:
    small = tmp_path / name
    subprocess.run(["strip", "-o", small, binary(f"halfwink-{name}")], check=True)
    assert small.stat().st_size < 6_000_000


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_link_no_python(name: str):
    linked = subprocess.run(
        ["ldd", binary(f"halfwink-{name}")], capture_output=True, text=True, check=True
    )
    assert "libc.so" in linked.stdout
    assert "python" not in linked.stdout.lower()


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_say_their_version_and_how_they_are_called(name: str):
    def said(word: str) -> str:
        words = [binary(f"halfwink-{name}"), word]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert said("--version").startswith(f"halfwink-{name} {halfwink.__version__}")
    assert f"Usage: halfwink-{name} " in said("--help")


@dataclass(frozen=True)
class Played:
    """A description of a program, and what becomes of it.

    Attributes:
        text: a good description.
        wrong: a replacement in it that is refused, and what is said of it.
        changed: a replacement that is taken while the program runs, and what is said to change;
            None if nothing can change.
        fixed: a replacement that only a restart takes, and its key.
        counted: a sample of its metrics.
        socket: name of a socket that is there while it runs.
        tables: tables of its report; with a ledger, which must balance.
        status: exit status after SIGTERM.
        passes_on: tells whether its signals go to a command.
    """

    text: str
    wrong: tuple[str, str, str]
    changed: tuple[str, str, str] | None
    fixed: tuple[str, str, str]
    counted: str
    socket: str | None = None
    tables: tuple[str, ...] = ("run", "ledger")
    status: int = 0
    passes_on: bool = False


PLAYED = {
    "steer": Played(
        'schema = 1\nlisten = "127.0.0.1:0"\n[small]\naddress = "127.0.0.1:1"\n'
        '[big]\naddress = "127.0.0.1:2"\n[limits]\nretries = 2\n',
        ("retries", "retires", ":8: unknown field `retires`"),
        ("retries = 2", "retries = 3", "limits.retries changed"),
        ("schema = 1", "schema = 1\nthreads = 2", "threads"),
        "halfwink_steer_connections 0",
    ),
    "router": Played(
        description(io="af-packet"),
        ("schema = 1", "schema = 2", ":1: schema: found 2, expected 1"),
        ('"routes.txt"', '"others.txt"', "routes changed"),
        ("schema = 1", "schema = 1\nqueue = 512", "queue"),
        "halfwink_workers_in_use ",
    ),
    "block": Played(
        'schema = 1\nunix = "disk"\nram = "1M"\npin = false\nconnections = 4\n'
        'policy = "dynamic:high=4,low=1"\n',
        ('"1M"', '"many"', ':3: found "many", expected bytes'),
        ("high=4", "high=8", "policy changed"),
        ('"1M"', '"2M"', "ram"),
        "halfwink_block_connections 0",
        socket="disk",
    ),
    "preheat": Played(
        'schema = 1\nport = 80\nset = "a.hws"\nshared = "heat"\nkey = "key"\n'
        'listen = "127.0.0.1:0"\n',
        ("80", "0", ":2: port: found 0, expected 1 to 65535"),
        ("a.hws", "b.hws", "set changed"),
        ("80", "81", "port"),
        "halfwink_preheat_loads_total 0",
        tables=(),
    ),
    "delegate": Played(
        # The exit status is the command's, and so are the signals.
        "schema = 1\n"
        "command = ['sh', '-c', 'trap \"exit 9\" TERM; trap : HUP; while :; do sleep 0.01; done']\n"
        # A test that fails leaves no command behind.
        'policy = "os-dynamic:threshold=2000"\ndie_with_us = true\n',
        ("2000", "many", ":3: policy: os-dynamic:threshold: `many`, expected a whole number, 0 to"),
        None,
        ("2000", "3000", "policy"),
        "halfwink_delegate_threads_total ",
        tables=(),
        status=9,
        passes_on=True,
    ),
    "circuits": Played(
        f'schema = 1\nrole = "switch"\ninterfaces = ["{wire(0)}", "{wire(1)}"]\n'
        'policy = "round-robin"\nslot_us = 2000\nnight_us = 200\nbytes_per_us = 62\n',
        ("= 200\n", "= 2000\n", ":6: night_us: found 2000, expected above 0, below the 2000 of"),
        None,
        ("round-robin", "most-needed", "policy"),
        "halfwink_circuits_slots_total ",
        tables=(),
    ),
}
#: Programs that an operator may run as a service; a fabric is an experiment of several processes.
SERVICES = [name for name in PLAYED if name != "circuits"]
#: What descriptions name. A set of no lines is a head, whose last field counts parts, and its
#: checksum (SipHash-2-4, crates/policy/src/preheat/set_file.rs).
NO_LINES = bytes.fromhex("48574c5301000000a38fa61dd874a3da")
FILES = {
    "a.hws": NO_LINES,
    "b.hws": NO_LINES,
    "key": b"of this one test",
    "routes.txt": b"",
    "others.txt": b"",
}


@pytest.mark.parametrize("name", list(PLAYED))
def test_each_program_from_its_check_to_its_end(name: str, tmp_path: Path):
    played = PLAYED[name]
    path, report = tmp_path / f"{name}.toml", tmp_path / "report.json"
    socket = tmp_path / played.socket if played.socket else None
    for file, content in FILES.items():
        (tmp_path / file).write_bytes(content)
        (tmp_path / file).chmod(0o600)
    if name == "preheat":
        need_preheating()
    config = ["--config", str(path)]
    for text, ends, said in (
        (played.text, 0, f"halfwink-{name}: {path}: well\n"),
        (played.text.replace(*played.wrong[:2]), 2, played.wrong[2]),
    ):
        path.write_text(text)
        command = [binary(f"halfwink-{name}"), *config, "--check"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr.count("\n")) == (ends, 1), done
        assert said in done.stderr
        # From Python the same line, without the name of the program.
        line = done.stderr.partition(": ")[2].strip()
        if ends:
            with pytest.raises(HalfwinkError) as error:
                check(name, path)
            assert str(error.value) == line
        else:
            assert check(name, str(path)) == line
    assert socket is None or not socket.exists()
    path.write_text(played.text)
    with ExitStack() as stack:
        place = None
        if name in ("router", "circuits"):
            need_bed()
            need("curl")
        if name == "router":
            place = stack.enter_context(Bed()).router
        elif name == "circuits":
            place = stack.enter_context(Star(2)).switch
        words = [*config, "--report", str(report), "--metrics", "127.0.0.1:0"]
        process = stack.enter_context(running(tmp_path, *words, name=name, place=place))
        pid = process.pid if place is None else wait_for_child(process.pid)
        assert socket is None or socket.is_socket()
        changed = played.changed or ("", "", "no value in it has changed")
        for (before, after, _), said in (
            (changed, f"read {path} again: {changed[2]}\n"),
            (played.wrong, played.wrong[2]),
            (played.fixed, f"{played.fixed[2]}: can only change by a restart"),
        ):
            path.write_text(played.text.replace(before, after) if before else played.text)
            os.kill(pid, signal.SIGHUP)
            wait_until(lambda said=said: said in heard(tmp_path) or process.poll() is not None)
            assert process.poll() is None, heard(tmp_path)
        assert heard(tmp_path).count("; all stays as it was\n") == 2
        address = listening(tmp_path, "metrics:")
        if place is None:
            page = get(address, "/metrics").partition(b"\r\n\r\n")[2].decode()
        else:
            page = place.run(["curl", "-sS", f"http://{address}/metrics"])
        assert f"\n{played.counted}" in page
        assert all(family.documentation for family in text_string_to_metric_families(page))
        asked: dict[str, Any] | None = None
        if not played.passes_on:
            os.kill(pid, signal.SIGUSR2)
            wait_until(lambda: f"report written to {report}\n" in heard(tmp_path))
            asked = json.loads(report.read_text())
        os.kill(pid, signal.SIGTERM)
        assert process.wait(120) == played.status, heard(tmp_path)
    assert socket is None or not socket.exists()
    found = json.loads(report.read_text())
    assert asked is None or asked.keys() == found.keys()
    assert set(found.get("tables", ())) == set(played.tables)
    assert not played.tables or found["ledger"]["imbalance"] is None


#: Mistakes in each program's description that no grammar finds: what replaces what, and the
#: message behind the file's name, from its line on.
MISTAKES: dict[str, list[tuple[str, str, str]]] = {
    "steer": [
        (
            "schema = 1",
            'schema = 1\npolicy = "hybird"',
            "2: policy: unknown technique `hybird`; did",
        ),
        (
            "schema = 1",
            'schema = 1\npolicy = "xyz"',
            "2: policy: unknown technique `xyz`, expected",
        ),
        (
            "schema = 1",
            'schema = 1\npolicy = "hybrid:foo=3"',
            "2: policy: unknown parameter `foo`, expected one of ",
        ),
        (
            "schema = 1",
            'schema = 1\npolicy = "hybrid:threshold=x"',
            "2: policy: hybrid:threshold: `x`, expected a whole number, 0 to",
        ),
        (
            "schema = 1",
            'schema = 1\nmachine = "niccolin"',
            "2: machine: unknown hybrid server `niccolin`; did you mean `niccolini`?",
        ),
        (
            "schema = 1",
            'schema = 1\nmachine = "niccolini"\nworkload = "readfle"',
            "3: workload: unknown",
        ),
        ("schema = 1", 'schema = 1\nmachine = "niccolini"\nset = { nowhere = 3 }', "3: set: "),
    ],
    "router": [
        ("power-save-in-order", "power-safe", "2: policy: unknown technique `power-safe`; did"),
        ("power-save-in-order", "xyz", "2: policy: unknown technique `xyz`, expected one of "),
        (
            "power-save-in-order",
            "metronome:vacation_us=never",
            "2: policy: metronome:vacation_us: `never`, expected ",
        ),
        (
            "schema = 1",
            'schema = 1\nmachine = "westmree"',
            "2: machine: unknown router `westmree`; did you mean `westmere`?",
        ),
    ],
    "block": [
        ("dynamic:", "dynamc:", "6: policy: unknown technique `dynamc`; did you mean `dynamic`?"),
        ("dynamic:high=4,low=1", "xyz", "6: policy: unknown technique `xyz`, expected one of "),
        ("high=4", "hihg=4", "6: policy: unknown parameter `hihg`; did you mean `high`?"),
        ("high=4", "high=many", "6: policy: dynamic:high: `many`, expected a whole number, 1 to"),
        ("pin = false", 'cpus = "zero"', "4: cpus: "),
        ("pin = false", 'rest = "nevr"', "4: rest: "),
    ],
    "preheat": [
        ("a.hws", "c.hws", "3: set: FOLDER/c.hws: "),
        ("a.hws", "routes.txt", "3: set: FOLDER/routes.txt: "),
        ('"key"', '"none"', "5: key: FOLDER/none: No such file or directory"),
        ('"key"', '"routes.txt"', "5: key: FOLDER/routes.txt: a key of 0 bytes: expected 16"),
    ],
    "delegate": [
        ("os-dynamic", "os-dynmic", "3: policy: unknown technique `os-dynmic`; did you mean"),
        (
            "os-dynamic:threshold=2000",
            "xyz",
            "3: policy: unknown technique `xyz`, expected one of ",
        ),
        ("os-dynamic:threshold=2000", "tap", "3: policy: found tap, expected one of os-profile, "),
        ("threshold", "n", "3: policy: unknown parameter `n`, expected one of threshold"),
        ("'sh'", "'no-such-program'", "2: command: no-such-program: no such program"),
        ("schema = 1", "schema = 1\nos_cpu = 999", "2: os_cpu: found 999, expected one of 0"),
        ("schema = 1", 'schema = 1\nlibrary = "absent.so"', "2: library: "),
        ("schema = 1", "schema = 1\ntime_every = 0", "2: time_every: found 0, expected 1 or more"),
    ],
    "circuits": [
        ("round-robin", "round-robbin", "4: policy: unknown technique `round-robbin`; did you"),
        ("round-robin", "xyz", "4: policy: unknown technique `xyz`, expected one of "),
        ("round-robin", "round-robin:weeks=2", "4: policy: unknown parameter `weeks`, expected"),
        ("round-robin", "round-robin:day_us=many", "4: policy: round-robin:day_us: `many`, expec"),
        ("round-robin", "packet-switch", "4: policy: packet-switch: it has no circuits to play"),
        ('"switch"', '"router"', "2: unknown variant `router`, expected one of"),
        ('"switch"', '"host"', "3: unknown field `interfaces`, expected"),
    ],
}


@pytest.mark.parametrize("name", list(MISTAKES))
def test_a_mistake_behind_the_grammar_names_its_file_and_line(name: str, tmp_path: Path):
    for file, content in FILES.items():
        (tmp_path / file).write_bytes(content)
    if name == "preheat":
        need_preheating()
    path = tmp_path / f"{name}.toml"
    command = [binary(f"halfwink-{name}"), "--config", str(path), "--check"]
    for before, after, said in MISTAKES[name]:
        text = PLAYED[name].text
        assert before in text
        path.write_text(text.replace(before, after, 1))
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
        expected = f"halfwink-{name}: {path}:{said.replace('FOLDER', str(tmp_path))}"
        assert done.stderr.startswith(expected), f"{done.stderr}\n{expected}"


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_takes_the_unit_of_each_program(name: str, tmp_path: Path):
    need("systemd-analyze")
    shipped = Path(__file__).parents[2] / "docs" / f"halfwink-{name}.service"
    unit = tmp_path / shipped.name
    # What it runs must exist, or systemd rejects the unit.
    folder = str(binary(f"halfwink-{name}").parent)
    unit.write_text(shipped.read_text().replace("/opt/halfwink/.venv/bin", folder))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_units_of_one_machine_serve_their_metrics_at_addresses_of_their_own():
    units = sorted((Path(__file__).parents[2] / "docs").glob("halfwink-*.service"))
    found = [re.findall(r"--metrics (\S+)", unit.read_text()) for unit in units]
    assert len({address for [address] in found}) == len(SERVICES)


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


def fill(file: Path) -> None:
    """Takes all room of the file's disk."""
    with file.open("wb", 0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def test_a_log_says_that_its_disk_is_full_and_goes_on_when_there_is_room(tmp_path: Path):
    """Requests are served all the while, and the log replays to the same decisions."""
    full = tmp_path / "full"
    full.mkdir()
    # Nobody else sees the mount.
    mount = f'mount -t tmpfs -o size=64k none {full} && exec "$@"'
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    under = [need("unshare"), *user, "--mount", "sh", "-c", mount, "sh"]
    if subprocess.run([*under, "true"], capture_output=True, check=False).returncode:
        lacking("a mount namespace", kernel=True)
    pair = Recorder(), Recorder()
    path = describe(tmp_path, *(r.address for r in pair), top='policy = "hybrid"')
    words = ["--config", str(path), "--metrics", "127.0.0.1:0", "--log", str(full / "log")]
    words += ["--report", str(tmp_path / "report.json")]
    with running(tmp_path, *words, under=under) as process:
        seen = Path(f"/proc/{process.pid}/root{full}")
        address, metrics = listening(tmp_path, "listening at"), listening(tmp_path, "metrics:")

        def is_up(value: int) -> bool:
            return b"halfwink_event_log_up %d\n" % value in get(metrics, "/metrics")

        assert is_up(1)
        fill(seen / "other")
        # The rest of the log's last page, and more.
        assert [status(get(address)) for _ in range(60)] == [200] * 60
        wait_until(lambda: is_up(0))
        error = f"event log {full}/log: No space left on device (os error 28)"
        assert f"halfwink: {error}; lines are dropped until it can be written\n" in heard(tmp_path)
        (tmp_path / "before").write_bytes((seen / "log").read_bytes())
        (seen / "other").unlink()
        wait_until(lambda: is_up(1))
        assert f"event log {full}/log: goes on; 0 lines dropped so far\n" in heard(tmp_path)
        assert status(get(address)) == 200
        wait_until(lambda: (seen / "log").read_bytes().count(b'"arrive"') == 61)
        # The file system is there as long as one of its files is open.
        with (seen / "log").open("rb") as log:
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
            (tmp_path / "after").write_bytes(log.read())
    found = json.loads((tmp_path / "report.json").read_text())
    assert (found["log_dropped"], found["log_error"]) == (0, None)
    for name in ("before", "after"):
        again = halfwink.replay(tmp_path / name)
        assert (again.first_difference, again.policies) == (None, 1)
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


@pytest.mark.parametrize("name", ["router", "steer", "block"])
def test_check_of_a_command_ends_as_its_program_does(halfwink: Any, tmp_path: Path, name: str):
    binary(f"halfwink-{name}")
    path = tmp_path / f"{name}.toml"
    path.write_text("port_s = 1\n")
    done = halfwink("live", name, path.name, "--check")
    assert done.status == 2
    assert done.complaint.startswith(f"{path.name}:1: unknown field `port_s`, expected")
    path.write_text(PLAYED[name].text)
    (tmp_path / "routes.txt").touch()
    done = halfwink("live", name, path.name, "--check")
    assert (done.status, done.err) == (0, f"{path.name}: well\n")
    assert halfwink("live", name, path.name, "--check", "-q").err == ""


def test_check_of_no_program_is_one_line(halfwink: Any):
    with pytest.raises(HalfwinkError, match=r"`day`: expected one of router, .*, circuits"):
        check("day", "day.toml")
    done = halfwink("live", "block", "--check")
    assert "--check: expected a description (TOML)" in done.complaint

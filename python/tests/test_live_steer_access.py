"""Access log of the steering proxy: a line for each request, however it ends and whatever it
holds; what reads it; disks that fail; logrotate."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, need
from steer_bed import (
    Recorder,
    balanced,
    describe,
    free_port,
    get,
    settled,
    status,
    talk,
    wait_until,
)
from test_daemons import heard, listening, running
from test_live_steer_hostile import attacker, headers, http2

from halfwink.advice.fleet_day import Day
from halfwink.cli.serving import signals
from halfwink.errors import HalfwinkError
from halfwink.live.steer import LiveSteer
from halfwink.models.response_times import read_times

FORMATS = ("combined", "json")
#: What stands for the machine of a request that none took.
NOBODY = {"combined": "-", "json": None}
COMBINED = re.compile(
    r"(?P<client>\S+) - - \[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\.\d{3} \+0000)\] "
    r'"(?P<request>[^"]*)" (?P<status>\d{3}) (?P<bytes>\d+) "(?P<referer>[^"]*)" '
    r'"(?P<user_agent>[^"]*)" (?P<machine>small|big|-) (?P<outcome>[a-z_]+) '
    r"(?P<waited_s>\d+\.\d{6}) (?P<machine_s>\d+\.\d{6}) (?P<total_s>\d+\.\d{6})"
)


@pytest.fixture
def pair() -> Generator[tuple[Recorder, Recorder]]:
    with Recorder() as small, Recorder() as big:
        yield small, big


def logged(folder: Path, pair: tuple[Recorder, Recorder], form: str, **more: str) -> Path:
    """A description of a proxy that logs to ``folder/access.log``."""
    top = f'access_log = {{ file = "access.log", format = "{form}" }}\n' + more.pop("top", "")
    return describe(folder, *(r.address for r in pair), top=top, **more)


def lines(file: Path, form: str) -> list[dict[str, Any]]:
    """The lines of a log, each checked by its form."""
    found: list[dict[str, Any]] = []
    for line in file.read_bytes().decode("ascii").splitlines():
        assert line.isprintable()
        if form == "json":
            found.append(json.loads(line))
            continue
        parts = COMBINED.fullmatch(line)
        assert parts is not None, line
        found.append(parts.groupdict() | {"status": int(parts["status"])})
    return found


def lines_of(steer: LiveSteer, file: Path, form: str, requests: int) -> list[dict[str, Any]]:
    """The lines of so many requests."""
    settled(steer, requests)
    wait_until(lambda: steer.report()["access_log"]["written"] >= requests)
    return lines(file, form)


@pytest.mark.parametrize("form", FORMATS)
def test_a_line_says_what_a_client_asked_for_and_got(
    tmp_path: Path, pair: tuple[Recorder, Recorder], form: str
):
    path = logged(tmp_path, pair, form)
    with LiveSteer(path) as steer:
        fields = "Referer: http://h/a\r\nUser-Agent: curl/8 (x)\r\nConnection: close\r\n"
        assert status(get(steer.address, "/a?b=c", fields)) == 200
        (line,) = lines_of(steer, tmp_path / "access.log", form, 1)
    assert (line["client"], line["request"]) == ("127.0.0.1", "GET /a?b=c HTTP/1.1")
    assert (line["status"], int(line["bytes"])) == (200, 2)
    assert (line["referer"], line["user_agent"]) == ("http://h/a", "curl/8 (x)")
    assert (line["machine"], line["outcome"]) == ("small", "answered")
    waited, machine, total = (float(line[f"{name}_s"]) for name in ("waited", "machine", "total"))
    assert waited + machine <= total + 2e-6
    assert machine > 0


@pytest.mark.parametrize("form", FORMATS)
def test_a_connection_of_plain_tcp_has_a_line(
    tmp_path: Path, pair: tuple[Recorder, Recorder], halfwink: Halfwink, form: str
):
    file = tmp_path / "access.log"
    path = logged(tmp_path, pair, form, top='mode = "tcp"\n')
    with LiveSteer(path) as steer:
        answer = get(steer.address, "/", "Connection: close\r\n")
        assert status(answer) == 200
        (line,) = lines_of(steer, file, form, 1)
        assert (line["client"], line["request"], line["status"]) == ("127.0.0.1", "TCP", 200)
        # All that the machine sent, with its head.
        assert int(line["bytes"]) == len(answer)
        assert (line["machine"], line["outcome"]) == ("small", "answered")
        assert 0 < float(line["machine_s"]) <= float(line["total_s"])
        for one in pair:
            one.close()
        talk(steer.address, b"x")
        line = lines_of(steer, file, form, 2)[1]
        assert (line["status"], int(line["bytes"]), line["machine"]) == (503, 0, NOBODY[form])
        assert line["outcome"] == "unreachable"
    played = halfwink("hybrid", "readfile", "-t", "always-on", "--load", f"log:{file}")
    assert ", 2 requests" in " ".join((played.err + played.out).split()), played.err


@pytest.mark.parametrize("form", FORMATS)
def test_readers_of_halfwink_read_it(
    tmp_path: Path, pair: tuple[Recorder, Recorder], halfwink: Halfwink, form: str
):
    program = need("h2load")
    file = tmp_path / "access.log"
    with LiveSteer(logged(tmp_path, pair, form)) as steer:
        words = [program, "-n", "300", "-c", "4", "-m", "10", f"http://{steer.address}/"]
        subprocess.run(words, capture_output=True, check=True)
        for target in ("/a", "/b c", '/"'):
            get(steer.address, target)
        found = lines_of(steer, file, form, 303)
    assert len(found) == 303
    assert Counter(line["status"] for line in found) == {200: 302, 400: 1}
    assert {line["request"] for line in found} >= {"GET / HTTP/2.0", "GET /a HTTP/1.1"}
    # Times of the machines are those of answers that they gave.
    times = read_times(file)
    assert len(times) == 302
    assert sum(times) == pytest.approx(
        sum(1e6 * float(line["machine_s"]) for line in found if line["outcome"] == "answered")
    )
    made = halfwink("profile", "--log", str(file), "-o", str(tmp_path / "p.toml"))
    assert made.status == 0, made.err
    played = halfwink("hybrid", "readfile", "-t", "always-on", "--load", f"log:{file}")
    assert played.status == 0, played.err
    name = {"combined": "common log format", "json": "log in lines of JSON"}[form]
    said = " ".join((played.err + played.out).split())
    assert f"read as {name}, 303 requests; left out: 303 response times" in said
    # The same lines over a day, for the advice on it.
    hours = (f"{n % 24:02}" for n in range(303))
    clock = re.compile(r"(?m)^(.*?)\d\d(:\d\d:\d\d\.\d{3})")
    file.write_text(clock.sub(lambda hit: hit[1] + next(hours) + hit[2], file.read_text()))
    day = Day.read(f"log:{file}")
    assert day.read_as.startswith(f"read as {name}, 303 requests")
    assert day.bad_lines == 0
    assert len(day.per_s) > 20


#: What a client may try to put into a line.
BAD = (
    b'x" 200 7 "-" "-" small answered 0 0 0\\", "status": 999, "x": "\xff\xfe\xe2\x80\xae \xc3\xa9'
)


@pytest.mark.parametrize("form", FORMATS)
def test_no_client_writes_a_line_of_its_own(
    tmp_path: Path, pair: tuple[Recorder, Recorder], form: str
):
    with LiveSteer(logged(tmp_path, pair, form)) as steer:
        head = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nUser-Agent: " + BAD
        assert status(talk(steer.address, head + b"\r\nReferer: a\tb\r\n\r\n")) == 200
        broken = b"GET /\x1b[2J\x00\x07\x7f\xc2\x85 " + BAD + b" HTTP/1.1\r\nHost: h\r\n\r\n"
        assert status(talk(steer.address, broken)) == 400
        long = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nUser-Agent: " + b"y" * 9000
        assert status(talk(steer.address, long + b"\r\n\r\n")) == 200
        good, bad, cut = lines_of(steer, tmp_path / "access.log", form, 3)
    assert (good["status"], bad["status"], cut["status"]) == (200, 400, 200)
    assert (good["outcome"], bad["outcome"], bad["machine"]) in {
        ("answered", "refused", machine) for machine in ("-", None)
    }
    if form == "json":
        assert good["user_agent"] == BAD.decode(errors="replace")
        assert bad["request"].startswith("GET /\x1b[2J\x00\x07\x7f\x85 x")
    else:
        back = re.sub(r"\\x(..)", lambda hit: chr(int(hit[1], 16)), good["user_agent"])
        assert back.encode("latin-1") == BAD
        assert bad["request"].startswith("GET /\\x1B[2J\\x00\\x07\\x7F\\xC2\\x85 x\\x22 200")
    assert good["referer"] == ("a\tb" if form == "json" else "a\\x09b")
    assert cut["user_agent"] == "y" * 4096 + "..."


def behave(request: bytes, peer: socket.socket) -> None:
    """A machine that answers, cuts off, or closes, as the path says."""
    target = request.split(b" ", 2)[1]
    length = 2 if target == b"/good" else 9
    if target != b"/bad":
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nok" % length)
    if target != b"/good":
        peer.close()


def test_every_request_has_a_line_however_it_ends(tmp_path: Path):
    with Recorder(behave) as small, Recorder(behave) as big:
        limits = "header_timeout_ms = 300\nbody_timeout_ms = 300\ndrain_ms = 0"
        path = logged(tmp_path, (small, big), "json", limits=limits)
        with LiveSteer(path) as steer:
            for target in ("/good", "/bad", "/cut"):
                get(steer.address, target)
            talk(steer.address, b"GET /slow HTTP/1.1\r\nHo", until=lambda data: b"\r\n\r\n" in data)
            post = b"POST /gone HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"
            with closing(attacker(steer.address)) as peer:
                peer.sendall(post + b"abc")
                wait_until(lambda: steer.report()["requests"]["received"] == 5)
            talk(steer.address, b"TRACE / HTTP/1.1\r\nHost: h\r\n\r\n")
            with closing(attacker(steer.address)) as peer:
                two = headers(1, b"/good") + headers(3, b"/bad") + headers(5, b"/cut")
                peer.sendall(http2(65535) + two)
                settled(steer, 9)
            small.close()
            big.close()
            wait_until(lambda: status(get(steer.address, "/none")) == 503)
            report = settled(steer, 10)
            found = lines_of(steer, tmp_path / "access.log", "json", report["requests"]["received"])
    balanced(report)
    by_target = {line["request"]: line for line in found}
    for request, outcome, code, answered in [
        ("GET /good HTTP/1.1", "answered", 200, True),
        ("GET /bad HTTP/1.1", "bad_gateway", 502, True),
        ("GET /cut HTTP/1.1", "truncated", 200, True),
        ("GET /slow HTTP/1.1", "slow", 408, False),
        ("POST /gone HTTP/1.1", "client_gone", 0, False),
        ("TRACE / HTTP/1.1", "refused", 501, False),
        ("GET /good HTTP/2.0", "answered", 200, True),
        ("GET /bad HTTP/2.0", "bad_gateway", 502, True),
        ("GET /cut HTTP/2.0", "truncated", 200, True),
    ]:
        line = by_target[request]
        assert (line["outcome"], line["status"]) == (outcome, code), line
        assert (line["machine"] in ("small", "big")) == answered, line
    assert by_target["GET /good HTTP/2.0"]["bytes"] == 2
    outcomes = Counter(line["outcome"] for line in found)
    assert all(report["requests"][name] == count for name, count in outcomes.items())
    assert outcomes.total() == report["requests"]["received"]


def test_requests_that_a_drain_gives_up_have_lines(tmp_path: Path):
    with Recorder(lambda _request, _peer: None) as small, Recorder() as big:
        path = logged(tmp_path, (small, big), "json", limits="drain_ms = 50")
        with LiveSteer(path) as steer, closing(attacker(steer.address)) as peer:
            peer.sendall(b"GET /never HTTP/1.1\r\nHost: h\r\n\r\n")
            wait_until(lambda: small.seen)
            steer.stop()
            report = steer.report()
    (line,) = lines(tmp_path / "access.log", "json")
    assert (line["request"], line["outcome"]) == ("GET /never HTTP/1.1", "aborted")
    assert report["access_log"] == {"written": 1, "dropped": 0, "error": None}


def test_a_full_disk_stops_no_request(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    path = describe(tmp_path, *(r.address for r in pair), top='access_log = { file = "/dev/full" }')
    words = ["--config", str(path), "--metrics", "127.0.0.1:0", "--report", str(tmp_path / "r")]
    with running(tmp_path, *words) as process:
        address, metrics = listening(tmp_path, "listening at"), listening(tmp_path, "metrics:")
        assert status(get(address)) == 200
        up = "halfwink_steer_access_log_up 0\n"
        wait_until(lambda: up in get(metrics, "/metrics").decode())
        assert [status(get(address)) for _ in range(20)] == [200] * 20
        # Another file, by a reload: it goes on, and what waited is there.
        path.write_text(path.read_text().replace("/dev/full", "access.log"))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "access_log.file changed" in heard(tmp_path))
        wait_until(lambda: up not in get(metrics, "/metrics").decode())
        assert status(get(address)) == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    said = heard(tmp_path)
    assert said.count("No space left on device") == 1
    assert said.count("goes on") == 1
    assert len(lines(tmp_path / "access.log", "combined")) == 22
    report = json.loads((tmp_path / "r").read_text())
    assert report["requests"]["answered"] == 22
    assert report["access_log"] == {"written": 22, "dropped": 0, "error": None}


@contextmanager
def started(kind: str, folder: Path, path: Path) -> Generator[subprocess.Popen[str]]:
    """The binary, or the command."""
    if kind == "halfwink-steer":
        with running(folder, "--config", str(path)) as process:
            yield process
        return
    words = [sys.executable, "-m", "halfwink", "live", "steer", str(path)]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(words, stdout=said, stderr=said, text=True)
    try:
        wait_until(lambda: "ready" in heard(folder) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["halfwink-steer", "halfwink live steer"])
def test_logrotate_loses_no_line(tmp_path: Path, pair: tuple[Recorder, Recorder], kind: str):
    path = logged(tmp_path, pair, "json")
    file, old = tmp_path / "access.log", tmp_path / "access.log.1"
    with started(kind, tmp_path, path) as process:
        address = listening(tmp_path, "listening at")
        for n in range(10):
            assert status(get(address, f"/{n}")) == 200
            if n == 4:
                wait_until(lambda: file.read_text().count("\n") == 5)
                file.rename(old)
                process.send_signal(signal.SIGUSR1)
                wait_until(file.exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    targets = [line["request"].split()[1] for part in (old, file) for line in lines(part, "json")]
    assert targets == [f"/{n}" for n in range(10)]
    assert len(lines(old, "json")) == 5
    said = " ".join(heard(tmp_path).split())
    assert f"opened access log {file} again" in said


@pytest.mark.parametrize("kind", ["halfwink-steer", "halfwink live steer"])
def test_signals_without_an_access_log_change_nothing(
    tmp_path: Path, pair: tuple[Recorder, Recorder], kind: str
):
    path = describe(tmp_path, *(r.address for r in pair))
    with started(kind, tmp_path, path) as process:
        address = listening(tmp_path, "listening at")
        for name in ("SIGUSR1 changes nothing", "SIGUSR2 changes nothing"):
            process.send_signal(getattr(signal, name.split()[0]))
            wait_until(lambda name=name: name in " ".join(heard(tmp_path).split()))
        assert status(get(address)) == 200
    with signals() as asked:
        signal.raise_signal(signal.SIGUSR1)
        asked.wait(60)
        assert (asked.reopen, asked.reload, asked.stop) == (True, False, False)


def test_a_reload_changes_file_and_format(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    path = logged(tmp_path, pair, "combined")
    text = path.read_text()
    with LiveSteer(path) as steer:
        assert status(get(steer.address, "/a")) == 200
        assert len(lines_of(steer, tmp_path / "access.log", "combined", 1)) == 1
        path.write_text(text.replace("access.log", "other.log").replace("combined", "json"))
        assert steer.reload() == ["access_log.file", "access_log.format"]
        assert status(get(steer.address, "/b")) == 200
        lines_of(steer, tmp_path / "access.log", "combined", 2)
        path.write_text(text.replace('"access.log"', '"none/access.log"'))
        with pytest.raises(HalfwinkError, match=r"access_log.file: .*No such file"):
            steer.reload()
        path.write_text(re.sub("access_log = .*", "", text))
        assert steer.reload() == ["access_log"]
        assert status(get(steer.address, "/c")) == 200
        assert steer.report()["access_log"] is None
        assert "access_log" not in steer.metrics()
    assert len(lines(tmp_path / "access.log", "combined")) == 1
    (line,) = lines(tmp_path / "other.log", "json")
    assert line["request"] == "GET /b HTTP/1.1"


def test_standard_output_takes_lines(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    path = describe(tmp_path, *(r.address for r in pair), top='access_log = { file = "-" }')
    path.write_text(path.read_text().replace("127.0.0.1:0", f"127.0.0.1:{free_port()}"))
    words = [sys.executable, "-m", "halfwink", "live", "steer", str(path), "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = path.read_text().split('listen = "')[1].split('"')[0]

        def answers() -> bool:
            try:
                return status(get(address, "/out")) == 200
            except OSError:
                return False

        wait_until(answers)
        assert '"GET /out HTTP/1.1" 200 2 ' in process.stdout.readline()
        process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ('access_log = { file = "none/a" }', "access_log.file: .*none/a: No such file"),
        ('access_log = { file = "." }', "access_log.file: .*Is a directory"),
        ('access_log = { file = "a", format = "clf" }', "unknown variant `clf`"),
    ],
)
def test_logs_that_cannot_be_are_refused(
    tmp_path: Path, pair: tuple[Recorder, Recorder], more: str, expected: str
):
    path = describe(tmp_path, *(r.address for r in pair), top=more)
    with pytest.raises(HalfwinkError, match=rf"steer\.toml:\d+: .*{expected}"):
        LiveSteer(path)
    assert not (tmp_path / "a").exists()

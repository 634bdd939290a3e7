"""What the tests of the steering proxy stand on: descriptions, servers to steer to, raw clients."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import need, wait_until

from halfwink.live.steer import LiveSteer

#: Description of a proxy in front of two servers.
SHORT = """schema = 1
listen = "127.0.0.1:0"
{top}
[small]
address = "{small}"
workers = 2
{small_more}
[big]
address = "{big}"
workers = 4
{big_more}
[health]
interval_ms = 50
timeout_ms = 3000
{health}
[limits]
retries = 2
{limits}
"""


def describe(folder: Path, small: str, big: str, **more: str) -> Path:
    """Writes a description; ``more``: machine, top, small_more, big_more, health, limits."""
    words = dict.fromkeys(("top", "small_more", "big_more", "health", "limits"), "")
    words |= {"machine": 'machine = "niccolini"'} | more
    words["top"] = "\n".join(filter(None, (words.pop("machine"), words["top"])))
    path = folder / "steer.toml"
    path.write_text(SHORT.format(small=small, big=big, **words))
    return path


class Recorder:
    """A server that keeps what reaches it, byte by byte, and answers as it is told."""

    def __init__(
        self,
        answer: Callable[[bytes, socket.socket], None] | bytes | None = None,
        *,
        port: int = 0,
    ) -> None:
        self.seen: list[bytes] = []
        self.connections = 0
        self.answer = answer
        recorder = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                recorder.connections += 1
                recorder._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", port), Handler)
        self.address = "{}:{}".format(*self._server.server_address[:2])
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                found = read_request(peer)
                if found is None:
                    return
                self.seen.append(found)
                if callable(self.answer):
                    self.answer(found, peer)
                elif self.answer is None:
                    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Kept: yes\r\n\r\n"
                    peer.sendall(ok if found.startswith(b"HEAD ") else ok + b"ok")
                else:
                    peer.sendall(self.answer)
                    peer.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def read_request(peer: socket.socket) -> bytes | None:
    """A request with its body, as it came; none at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = peer.recv(1 << 16)
        if not more:
            return data or None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lower = head.lower()
    if b"\r\ntransfer-encoding: chunked" in lower:
        while not body.endswith(b"0\r\n\r\n"):
            body += peer.recv(1 << 16)
    elif b"\r\ncontent-length: " in lower:
        length = int(lower.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        while len(body) < length:
            more = peer.recv(1 << 16)
            if not more:
                break
            body += more
    return head + b"\r\n\r\n" + body


def talk(
    address: str,
    *parts: bytes,
    pause: float = 0.0,
    timeout: float = 30.0,
    until: Callable[[bytes], object] = lambda _: False,
) -> bytes:
    """Sends bytes, and reads until the other side closes, until it has said enough, or until it
    says nothing more for a while."""
    host, _, port = address.rpartition(":")
    data = b""
    with socket.create_connection((host, int(port)), 60) as peer:
        for part in parts:
            with contextlib.suppress(OSError):
                peer.sendall(part)
            time.sleep(pause)
        peer.settimeout(timeout)
        with contextlib.suppress(OSError):
            while not until(data) and (more := peer.recv(1 << 16)):
                data += more
    return data


def get(address: str, path: str = "/", headers: str = "Connection: close\r\n") -> bytes:
    """One request, to the end of its connection."""
    return talk(address, f"GET {path} HTTP/1.1\r\nHost: h\r\n{headers}\r\n".encode())


def status(answer: bytes) -> int:
    """Of the first response; 0 if there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0


def at_once(address: str, count: int) -> Counter[int]:
    """So many requests at the same time: how many got which status."""
    with ThreadPoolExecutor(count) as pool:
        return Counter(status(a) for a in pool.map(lambda _: get(address), range(count)))


def certificate(folder: Path, name: str) -> None:
    need("openssl")
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    words += ["-nodes", "-days", "2"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(
        ["openssl", *words, *files, "-subj", f"/CN={name}"], check=True, capture_output=True
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def dead_port() -> Generator[int]:
    """A port at which connections are refused: held, so that no other program, nor a connection's
    own end, gets it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextlib.contextmanager
def nginx(folder: Path, name: str) -> Generator[tuple[str, Path]]:
    """A real nginx of one worker: its address and the file with its process number."""
    program = need("nginx")
    place = folder / name
    (place / "html").mkdir(parents=True)
    (place / "html" / "index.html").write_text(f"{name}\n" * 64)
    place.chmod(0o755)
    port, pid = free_port(), place / "pid"
    (place / "nginx.conf").write_text(
        f"worker_processes 1; daemon on; pid {pid}; error_log {place}/error.log;"
        + ("user root;" if os.geteuid() == 0 else "")
        + "events { worker_connections 512; } http { access_log off;"
        + "".join(
            f"{kind}_temp_path {place}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f"server {{ listen 127.0.0.1:{port} backlog=511; root {place}/html; }} }}"
    )
    subprocess.run([program, "-p", str(place), "-c", str(place / "nginx.conf")], check=True)
    wait_until(pid.exists)
    number = int(pid.read_text())
    try:
        yield f"127.0.0.1:{port}", pid
    finally:
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        for process in (*map(int, children), number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
        os.kill(number, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{number}").exists())


def ended(report: dict[str, Any]) -> int:
    """Requests that have ended, one way or the other."""
    ends = ["answered", "refused", "slow", "client_gone", "overloaded", "unreachable"]
    ends += ["bad_gateway", "gateway_timeout", "truncated", "aborted"]
    return sum(report["requests"][name] for name in ends)


def settled(steer: LiveSteer, requests: int) -> dict[str, Any]:
    """The report once so many requests have ended: the books are written after a client has its
    answer."""
    return wait_until(lambda: (found := steer.report()) and ended(found) >= requests and found)


def balanced(report: dict[str, Any]) -> None:
    """Every request is accounted for, every machine is empty, every moment is somewhere."""
    assert ended(report) == report["requests"]["received"], report["requests"]
    for machine in report["machines"].values():
        assert machine["in_service"] == 0, machine
        assert machine["waiting"] == 0, machine
        spent = dict(machine["residency"])
        assert sum(spent.pop("asleep_by_level_s")) == pytest.approx(spent["asleep_s"])
        total = sum(spent.pop("on_s")) + sum(spent.values())
        assert abs(total - report["duration_s"]) < 1e-6
    ledger_balances(report)
    loads = {name: count for name, count in report["policy"].items() if name.endswith("load")}
    assert loads, report["policy"]
    assert set(loads.values()) == {0}, loads


def ledger_balances(report: dict[str, Any]) -> None:
    """A live program's ledger balances, fills its run, and holds the joules that it says."""
    ledger = report["ledger"]
    assert ledger["imbalance"] is None
    assert ledger["gap_s"] <= ledger["tolerance_s"]
    spent: dict[str, float] = {}
    for row in ledger["rows"]:
        spent[row["component"]] = spent.get(row["component"], 0.0) + row["time_s"]
    assert len(spent) >= 2
    for total in spent.values():
        # Its own clock, or a clock that ran ahead of it within the tolerance.
        assert abs(total - ledger["duration_s"]) <= ledger["tolerance_s"] + 1e-9
    assert len({round(total, 9) for total in spent.values()}) == 1, spent
    joules = sum(row["energy_j"] for row in ledger["rows"])
    assert joules == pytest.approx(report["modelled"]["energy_j"], rel=1e-6)
    tables = {name: {column[0]: column[2] for column in t} for name, t in report["tables"].items()}
    assert list(tables["ledger"]) == ["component", "state", "mode", "cause", "time_s", "energy_j"]
    assert tables["run"]["energy_j"] == [ledger["energy_j"]]

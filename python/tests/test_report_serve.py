"""The report over HTTP, asked by a real client."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import PATIENCE_S, Halfwink

import halfwink as hw


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "run"
    hw.compare("alu", techniques="tap", instructions=10_000, out=path)
    (path / "secret.txt").write_text("secret")
    (path.parent / "outside.parquet").write_text("secret")
    return path


@pytest.fixture(scope="module")
def port(folder: Path) -> Generator[int]:
    with served(folder) as port:
        yield port


@contextmanager
def served(folder: Path, *options: str) -> Generator[int]:
    """The port at which the command serves a report."""
    words = [sys.executable, "-m", "halfwink", "report", str(folder), "--serve", "-q", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as own:
        assert own.stdout is not None
        assert own.stderr is not None
        # What changed against another run is printed first.
        lines = iter(own.stdout.readline, "")
        address = urlsplit(next((line for line in lines if "://" in line), "").strip())
        assert (address.scheme, address.hostname, address.path) == ("http", "127.0.0.1", "/")
        assert address.port is not None
        yield address.port
        own.send_signal(signal.SIGINT)
        assert own.wait(PATIENCE_S) == 0
        assert own.stderr.read() == ""


def asked(port: int, path: str, *hosts: str, method: str = "GET") -> tuple[int, str, bytes]:
    """The status, the type and the content of an answer to a request with these ``Host`` lines."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.putrequest(method, path, skip_host=True)
    for host in hosts:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.headers.get("Content-Type", ""), answer.read()


def test_the_report_and_its_files_are_served(folder: Path, port: int):
    page = (folder / "report.html").read_bytes()
    for path in ("/", "/report.html", "/?a=b"):
        found = asked(port, path, f"127.0.0.1:{port}")
        assert found == (200, "text/html; charset=utf-8", page)
    for name in ("study.toml", "results.parquet", "ledger.parquet"):
        status, _, content = asked(port, f"/{name}", f"LocalHost:{port}")
        assert (status, content) == (200, (folder / name).read_bytes())
    # Through a tunnel.
    assert asked(port, "/", "localhost:1")[0] == 200
    status, _, content = asked(port, "/", f"localhost:{port}", method="HEAD")
    assert (status, content) == (200, b"")


def test_the_comparison_with_another_run_is_served(tmp_path: Path):
    for name, count in (("new", 10_000), ("old", 11_000)):
        hw.compare("alu", techniques="tap", instructions=count, out=tmp_path / name)
    with served(tmp_path / "new", "--against", str(tmp_path / "old")) as port:
        _, _, page = asked(port, "/", f"localhost:{port}")
    assert b'<h2 id="against">' in page


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/../outside.parquet",
        "/%2e%2e/outside.parquet",
        "/runs/",
        "//etc/passwd",
        "/study.toml/",
        "/%00",
    ],
)
def test_nothing_else_is_served(path: str, port: int):
    status, _, content = asked(port, path, f"localhost:{port}")
    assert status == 404
    assert b"secret" not in content


@pytest.mark.parametrize(
    "hosts",
    [
        ("evil.example:{}",),
        ("localhost.evil.example:{}",),
        ("evil.example:localhost",),
        ("localhost:{}", "evil.example:{}"),
        ("",),
        (),
    ],
)
def test_a_name_that_was_made_to_lead_here_is_refused(hosts: tuple[str, ...], port: int):
    assert asked(port, "/", *(host.format(port) for host in hosts))[0] == 421


def test_other_methods_are_refused(port: int):
    assert asked(port, "/", f"localhost:{port}", method="POST")[0] == 501


def test_what_cannot_be_served_is_one_line(halfwink: Halfwink, folder: Path):
    done = halfwink("report", str(folder), "--serve", "--index")
    assert done.complaint == "--index, --serve: expected one of them"

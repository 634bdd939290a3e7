"""Results at URLs: the same bytes as in a folder, and one line when nobody answers."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from conftest import Halfwink, need
from fsspec.implementations.local import LocalFileSystem

import halfwink as hw
from halfwink.errors import HalfwinkError, RunError
from halfwink.files import place, write_whole
from halfwink.remote import Remote
from halfwink.results.store import RunStore
from halfwink.runs import studies
from halfwink.runs.batch import Progress

STUDY = """
schema = 1
world = "server"
title = "at a URL"
workloads = ["count@30", "count@60"]
machines = ["niccolini"]
techniques = ["always-on", "hybrid", "power-nap"]
[options]
requests = 3000
[sweep]
seed = [1, 2, 3, 4]
"""
RUNS = 2 * 4 * 3


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("study") / "far.toml"
    path.write_text(STUDY)
    return str(path)


@pytest.fixture(scope="module")
def here(study: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the study leaves in a folder."""
    folder = tmp_path_factory.mktemp("here")
    studies.run(study, out=folder)
    files = [*folder.glob("*.parquet"), *(folder / "runs").glob("*.json")]
    return {p.name: p.read_bytes() for p in files if p.name != "host.parquet"}


@pytest.fixture
def url() -> str:
    """A folder in memory that nobody else has."""
    return f"memory://{secrets.token_hex(8)}/sweep"


def there(system: Any, root: str) -> dict[str, bytes]:
    """What a study left at a URL, without what the host took."""
    names = [*system.ls(root, detail=False), *system.ls(f"{root}/runs", detail=False)]
    names = [name for name in names if name.endswith((".parquet", ".json"))]
    found = {name.rpartition("/")[2]: system.cat_file(name) for name in names}
    other = ("host.parquet", "parts.json")
    return {name: data for name, data in found.items() if name not in other}


def test_a_text_is_a_path_or_a_url():
    assert place("out/s3") == Path("out/s3")
    assert place("file:///tmp/out") == Path("/tmp/out")
    assert place("a:b") == Path("a:b")
    one = place("memory://out/")
    assert isinstance(one, Remote)
    assert str(one / "runs") == "memory://out/runs"
    with pytest.raises(HalfwinkError, match="expected a whole path, as file:///FOLDER"):
        place("file://out")
    with pytest.raises(HalfwinkError, match=r"^frob://x: .*frob"):
        place("frob://x")


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    line = r"^s3://a/b: a URL needs fsspec; run: pip install 'halfwink\[remote\]'$"
    with pytest.raises(HalfwinkError, match=line):
        place("s3://a/b")


def test_a_sweep_at_a_url_has_the_bytes_of_one_in_a_folder(
    study: str, here: dict[str, bytes], url: str
):
    done = studies.run(study, out=url)
    system, root = fsspec.core.url_to_fs(url)
    assert there(system, root) == here
    assert hw.open(url).runs.to_dicts() == done.results.runs.to_dicts()
    # With the times that the host took, of each run.
    assert hw.open(url).host.height == done.results.host.height > 0
    told: list[Progress] = []
    studies.run(study, out=url, progress=told.append)
    assert told[0].jobs_done == RUNS


def test_a_flipped_byte_is_computed_again_with_a_line(
    study: str, here: dict[str, bytes], url: str, caplog: pytest.LogCaptureFixture
):
    studies.run(study, out=url)
    system, root = fsspec.core.url_to_fs(url)
    damaged = sorted(name for name in system.ls(f"{root}/runs", detail=False) if ".json" in name)[5]
    data = bytearray(system.cat_file(damaged))
    data[len(data) // 2] ^= 1
    system.pipe_file(damaged, bytes(data))
    with pytest.raises(RunError, match=f"1 of {RUNS} runs are not there"):
        studies.collected(study, out=url)
    caplog.clear()
    told: list[Progress] = []
    with caplog.at_level(logging.WARNING, "halfwink"):
        studies.run(study, out=url, progress=told.append)
    where = f"{url}/runs/{damaged.rpartition('/')[2]}"
    assert caplog.messages == [f"{where}: is not what was written; computed again"]
    assert told[0].jobs_done == RUNS - 1
    assert there(system, root) == here


def test_parts_share_a_url_and_are_collected(study: str, here: dict[str, bytes], url: str):
    first = studies.run_part(study, (1, 3), out=url)
    with pytest.raises(RunError, match=f"^{url}: {RUNS - first} of {RUNS} runs are not there"):
        studies.collected(study, out=url)
    rest = [studies.run_part(study, (part, 3), out=url) for part in (2, 3)]
    assert first + sum(rest) == RUNS
    studies.collected(study, out=url)
    system, root = fsspec.core.url_to_fs(url)
    assert there(system, root) == here


class Slow(LocalFileSystem):
    """A driver of a server with folders, whose writes can be cut off."""

    protocol = "slowserver"
    cut = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return super()._strip_protocol(str(path).removeprefix("slowserver://"))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **more: Any) -> None:
        super().pipe_file(path, value[: len(value) // 2] if self.cut else value, **more)
        if self.cut:
            raise ConnectionResetError(104, "Connection reset by peer")


@pytest.fixture
def slow(tmp_path: Path) -> Generator[str]:
    fsspec.register_implementation("slowserver", Slow, clobber=True)
    Slow.cut = False
    yield f"slowserver://{tmp_path}/out"
    Slow.cut = False


def test_where_there_are_folders_files_are_written_beside_and_moved(
    study: str, here: dict[str, bytes], slow: str, tmp_path: Path
):
    studies.run(study, out=slow)
    assert there(fsspec.filesystem("file"), str(tmp_path / "out")) == here
    file = place(slow) / "results.parquet"
    before = file.read_bytes()
    Slow.cut = True
    with pytest.raises(OSError, match="Connection reset by peer") as error:
        write_whole(file, b"something else")
    assert error.value.filename == f"{slow}/results.parquet"
    assert file.read_bytes() == before
    assert not list(tmp_path.rglob(".*"))


def test_a_server_that_goes_away_is_said_and_what_was_finished_is_kept(study: str, slow: str):
    def progress(told: Progress) -> None:
        Slow.cut = told.jobs_done == 3

    with pytest.raises(RunError, match=rf"^{slow}/runs/\w+\.json: cannot keep a result: Conn"):
        studies.run(study, out=slow, progress=progress, executor=hw.LocalExecutor(1))
    Slow.cut = False
    told: list[Progress] = []
    studies.run(study, out=slow, progress=told.append)
    assert told[0].jobs_done == 3


def test_nobody_there_is_one_line_without_the_password(study: str, halfwink: Halfwink):
    with socket.socket() as bound:
        # Nobody listens at a port that is only bound.
        bound.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{bound.getsockname()[1]}/out"
        done = halfwink("run", study, "-o", f"ftp://me:hushhush@{at}")
        assert done.status == 1
        assert done.complaint == f"ftp://me:***@{at}: Connection refused"
    done = halfwink("run", study, "-o", "frob://out")
    assert done.status == 2
    assert done.complaint.startswith("frob://out: ")
    done = halfwink("query", "memory://nothing", "select 1")
    assert done.complaint.startswith("memory://nothing: no results.parquet; expected the folder")


def test_what_a_driver_complains_of_has_the_url(monkeypatch: pytest.MonkeyPatch, url: str):
    store = RunStore(url)
    assert isinstance(store.folder, Remote)

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("token\n  expired")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "ls", refuse)
    with pytest.raises(RunError, match=f"^{url}: token expired$"):
        store.present(["a"])


@pytest.fixture(scope="module")
def bucket() -> Generator[dict[str, str]]:
    """An object store on the loopback, with the bucket `ours`: what its clients' environment has to
    say."""
    need("moto")
    need("s3fs")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "us", "AWS_SECRET_ACCESS_KEY": "ours"}
    where = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    before = dict(os.environ)
    os.environ.update(keys | where)
    boto3.client("s3").create_bucket(Bucket="ours")
    yield keys | where
    os.environ.clear()
    os.environ.update(before)
    server.stop()


def test_parts_in_an_object_store(
    study: str, here: dict[str, bytes], bucket: dict[str, str], halfwink: Halfwink, tmp_path: Path
):
    words = [sys.executable, "-m", "halfwink", "run", study, "-q", "-o", "s3://ours/parts"]
    both = [subprocess.Popen([*words, "--part", f"{n}/2"], cwd=tmp_path) for n in (1, 2)]
    assert [process.wait() for process in both] == [0, 0]
    done = halfwink("run", study, "-o", "s3://ours/parts", "--collect")
    assert done.status == 0, done.err
    assert done.err.endswith("report: s3://ours/parts/report.html\n")
    system, root = fsspec.core.url_to_fs("s3://ours/parts")
    system.invalidate_cache()
    assert there(system, root) == here
    sql = "select count(*) as n from runs"
    asked = halfwink("query", "s3://ours/parts", sql, "--json").rows("rows")
    assert asked == [{"n": RUNS}]
    before = system.cat_file(f"{root}/report.html")
    system.rm_file(f"{root}/report.html")
    assert halfwink("report", "s3://ours/parts").status == 0
    assert system.cat_file(f"{root}/report.html") == before


def test_a_damaged_object_is_computed_again_on_dask(
    study: str, here: dict[str, bytes], bucket: dict[str, str], halfwink: Halfwink
):
    words = ("run", study, "-o", "s3://ours/dask", "--executor", "dask")
    assert halfwink(*words).status == 0
    system, root = fsspec.core.url_to_fs("s3://ours/dask")
    name = next(n for n in system.ls(f"{root}/runs", detail=False) if n.endswith(".json"))
    system.pipe_file(name, system.cat_file(name)[:-2])
    done = halfwink(*words)
    assert done.status == 0, done.err
    assert f"s3://{name}: is not what was written; computed again" in done.err
    assert there(system, root) == here
    host = json.loads(system.cat_file(name.replace("/runs/", "/runs/host/")))
    assert host["host"]


def test_no_bucket_is_one_line(study: str, bucket: dict[str, str], halfwink: Halfwink):
    done = halfwink("run", study, "-o", "s3://nobodys/out")
    assert done.status == 1
    assert done.complaint.startswith("s3://nobodys/out/runs/")
    assert "bucket does not exist" in done.complaint

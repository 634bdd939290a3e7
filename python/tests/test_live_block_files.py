"""Files as block devices: by calls, by io_uring, past the page cache; crashes and holes."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from block_device import MB, WAYS, run, serving, verify_by_fio
from conftest import need, wait_until
from nbd_client import (
    EINVAL,
    EIO,
    ENOSPC,
    FLUSH,
    STATUS,
    TRIM,
    WRITE,
    ZEROES,
    Client,
    request,
)

from halfwink.live.block import Block, Device

#: Of a device of 64 MB: bytes from, bytes, and how they are made.
STORED = ((0, 4096), (MB, 70_000), (3 * MB + 65_536, MB), (40 * MB, 24 * MB))


def _pages(runs: list[tuple[int, int]]) -> set[int]:
    return {
        page for start, size in runs for page in range(start // 4096, -(-(start + size) // 4096))
    }


@pytest.mark.parametrize("kept", ["ram", "sync", "uring", "direct"])
def test_three_clients_see_the_same_holes(tmp_path: Path, kept: str) -> None:
    need("nbdcopy", "nbdinfo", "qemu-img")
    path, image, back = (tmp_path / name for name in ("socket", "image", "back"))
    more: dict[str, Any] = {"ram": "64M"}
    if kept != "ram":
        with image.open("wb") as file:
            file.truncate(64 * MB)
        io = "uring" if kept == "direct" else kept
        more = {"file": image, "io": io, "direct": kept == "direct"}
    rng = random.Random(6)
    model = bytearray(64 * MB)
    with serving(path, **more) as block:
        with Client(path) as client:
            for start, size in STORED:
                model[start : start + size] = rng.randbytes(size)
                assert client.ask(WRITE, start, body=bytes(model[start : start + size])) == 0
            # A hole in what was stored, and one whose ends are parts of pages.
            for kind, start, size in ((TRIM, 44 * MB, 4 * MB), (ZEROES, 50 * MB - 100, MB + 200)):
                model[start : start + size] = bytes(size)
                assert client.ask(kind, start, size) == 0
            assert client.ask(FLUSH) == 0
        stored = _pages(list(STORED)) - _pages([(44 * MB, 4 * MB), (50 * MB, MB)])
        runs = json.loads(run("nbdinfo", "--map", "--json", block.address))
        assert sum(one["length"] for one in runs) == 64 * MB
        assert {one["type"] for one in runs} == {0, 3}
        told = _pages([(one["offset"], one["length"]) for one in runs if one["type"] == 0])
        words = ["qemu-img", "map", "-f", "raw", "--output=json", block.address]
        runs = json.loads(run(*words))
        told_qemu = _pages([(one["start"], one["length"]) for one in runs if not one["zero"]])
        assert told == told_qemu
        # File systems may keep more than is needed; nothing that is stored is a hole.
        assert stored <= told
        assert len(told - stored) <= 32
        back.unlink(missing_ok=True)
        with back.open("wb") as file:
            file.truncate(64 * MB)
        run("nbdcopy", block.address, str(back))
        assert back.read_bytes() == model
        report = block.stop()
    asked = report["requests"]
    assert asked["statuses"] > 0
    assert report["errors"] == 0
    # Holes are not read; nbdcopy asks for 256 KiB at a time.
    assert asked["read_bytes"] <= len(told) * 4096 + 4 * MB < 32 * MB


def test_a_status_is_only_for_who_has_asked_for_it(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with serving(path) as block, Client(path) as client:
        assert client.ask(STATUS, 0, 4096) == EINVAL
        assert block.stop()["requests"]["statuses"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_fio_verifies_what_it_wrote_to_a_file(tmp_path: Path, way: dict[str, Any]) -> None:
    need("fio")
    image, path = tmp_path / "image", tmp_path / "socket"
    image.write_bytes(bytes(16 * MB))
    with serving(path, file=image, policy="msi-x", **way) as block:
        verify_by_fio(block, "512-128k", tmp_path / "out")
        report = block.stop()
    assert report["errors"] == 0
    io = report["io"]
    assert (io["ringed"] > 0) == (io["io"] == "uring")
    if io["fell_back"] is None:
        assert io["io"] == way["io"]
        assert (io["past_cache"] > 0) == (io["parts"] > 0) == io["direct"] == ("direct" in way)


def test_a_file_system_is_made_filled_and_checked(tmp_path: Path) -> None:
    nbdfuse, mke2fs = need("nbdfuse", "fusermount3"), need("mke2fs", "debugfs", "e2fsck")
    image, path, mount = tmp_path / "image", tmp_path / "socket", tmp_path / "mount"
    with image.open("wb") as file:
        file.truncate(32 * MB)
    mount.mkdir()
    payload = random.Random(2).randbytes(3 * MB)
    (tmp_path / "payload").write_bytes(payload)
    with serving(path, file=image) as block:
        fuse = subprocess.Popen([nbdfuse, str(mount / "disk"), block.address])
        try:
            wait_until((mount / "disk").exists)
            disk = str(mount / "disk")
            run(mke2fs, "-q", "-F", "-t", "ext4", disk)
            run("debugfs", "-w", "-R", f"write {tmp_path / 'payload'} payload", disk)
        finally:
            run("fusermount3", "-u", str(mount))
            fuse.wait(60)
        report = block.stop()
    assert report["requests"]["writes"] > 0
    assert report["errors"] == 0
    run("e2fsck", "-fn", str(image))
    run("debugfs", "-R", f"dump payload {tmp_path / 'dumped'}", str(image))
    assert (tmp_path / "dumped").read_bytes() == payload


# What is promised.


def crash(block: Block, image: Path, seed: int) -> tuple[int, int]:
    """Writes with a journal until the server is killed; blocks lost, blocks torn."""
    rng = random.Random(seed)
    blocks = image.stat().st_size // 4096
    acknowledged = dict.fromkeys(range(blocks), 0)
    issued: dict[int, set[int]] = {n: {0} for n in range(blocks)}
    path = Path(block.address.partition("socket=")[2])
    killer = threading.Timer(rng.uniform(0.02, 0.15), block.kill)
    sequence = seed << 24
    with Client(path) as writer, Client(path) as flusher:
        killer.start()
        try:
            while True:
                batch: dict[int, int] = {}
                for n in rng.sample(range(blocks), 16):
                    sequence += 1
                    issued[n].add(sequence)
                    body = struct.pack(">Q", sequence) * 512
                    writer.socket.sendall(request(WRITE, n * 4096, 4096, n) + body)
                    batch[n] = sequence
                while batch:
                    # A device answers in any order.
                    error, n = writer.reply()
                    assert error == 0
                    acknowledged[n] = batch.pop(n)
                if rng.random() < 0.2:
                    assert flusher.ask(FLUSH) == 0
        except (OSError, EOFError):
            pass
    killer.join()
    lost = torn = 0
    with image.open("rb") as file:
        for n in range(blocks):
            words = set(struct.unpack(">512Q", file.read(4096)))
            torn += len(words) > 1
            found = words.pop()
            # Never older than what was answered, and nothing that nobody wrote.
            lost += found < acknowledged[n] or (
                found != 0 and found >> 24 == seed and found not in issued[n]
            )
    return lost, torn


def crashes(tmp_path: Path, count: int) -> None:
    image, path = tmp_path / "image", tmp_path / "socket"
    with image.open("wb") as file:
        file.truncate(MB)
    for seed in range(1, count + 1):
        image.write_bytes(bytes(MB))
        # The socket of the one that was killed is still there.
        policy = "issuer" if seed % 2 else "single-thread"
        block = Block(Device(unix=path, file=image, policy=policy, **WAYS[seed % 3]))
        assert crash(block, image, seed) == (0, 0), seed


def test_nothing_that_was_answered_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    crashes(tmp_path, 21)


@pytest.mark.full("block")
def test_nothing_is_lost_in_two_hundred_crashes(tmp_path: Path) -> None:
    crashes(tmp_path, 200)


def test_a_file_that_is_cut_is_an_error_not_a_death(tmp_path: Path) -> None:
    image, path = tmp_path / "image", tmp_path / "socket"
    image.write_bytes(b"x" * MB)
    with serving(path, file=image):
        clients = [Client(path, structured=structured) for structured in (False, True)]
        for client in clients:
            os.truncate(image, 0)
            assert client.read(4096, 4096) == EIO
            os.truncate(image, 600_000)
            # The first piece of it is there, the last is not.
            if not client.structured:
                # What was said to go well cannot be taken back: the connection ends.
                with pytest.raises(EOFError):
                    client.read(0, MB)
                continue
            assert client.read(0, MB) == EIO
            os.truncate(image, MB)
            assert client.read(0, 4096) == bytes(4096)
            assert client.ask(WRITE, 0, body=b"y" * 4096) == 0
            assert client.read(0, 4096) == b"y" * 4096
        with Client(path) as client:
            assert client.read(0, 4096) == b"y" * 4096


def test_a_full_disk_is_told_and_the_service_lives(tmp_path: Path) -> None:
    need("unshare", "mount")
    small, path = tmp_path / "small", tmp_path / "socket"
    small.mkdir()
    server, description = Path(sys.executable).parent / "halfwink-block", tmp_path / "block.toml"
    description.write_text('schema = 1\nunix = "socket"\nfile = "small/image"\n')
    script = (
        f"mount -t tmpfs -o size=1m none {small} && truncate -s 8M {small}/image && "
        f"exec {server} --config {description} -q"
    )
    try:
        process = subprocess.Popen(["unshare", "-m", "sh", "-c", script])
        wait_until(lambda: path.exists() or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip("no mount in a namespace of its own here")
        with Client(path) as client:
            errors = {client.ask(WRITE, n * 65536, body=bytes([n + 1]) * 65536) for n in range(32)}
            assert errors == {0, ENOSPC}
            # One that comes in pieces.
            assert client.ask(WRITE, 2 * MB, body=b"z" * (4 * MB)) == ENOSPC
            assert client.read(0, 65536) == bytes([1]) * 65536
            assert client.ask(TRIM, 0, MB) == 0
            assert client.ask(WRITE, 0, body=b"z" * 65536) == 0
    finally:
        process.terminate()
        process.wait(60)

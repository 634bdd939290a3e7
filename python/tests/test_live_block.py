"""A block device over NBD, from the command line, to real clients and to hostile ones."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from block_device import MB, WAYS, command, cpu_s, resident, run, serving, verify_by_fio
from conftest import Halfwink, need, need_capture, undisturbed, wait_until
from nbd_client import (
    DISCONNECT,
    EINVAL,
    ENOSPC,
    EOVERFLOW,
    EPERM,
    FLUSH,
    FUA,
    OPTION,
    READ,
    REQUEST,
    TRIM,
    WRITE,
    ZEROES,
    Client,
    option,
    raw,
    request,
)

from halfwink.capture import small
from halfwink.capture.cpio import CpioWriter
from halfwink.errors import RunError
from halfwink.live.block import Block, Device

# Real clients.


def test_clients_copy_and_compare_what_the_command_serves(tmp_path: Path) -> None:
    need("nbdcopy", "nbdinfo", "qemu-img")
    path, image, back = (tmp_path / name for name in ("socket", "image", "back"))
    image.write_bytes(random.Random(1).randbytes(64 * MB) + bytes(192 * MB))
    words = [sys.executable, "-m", "halfwink", "live", "block", "--unix", str(path)]
    words += ["--ram", "256M", "--json", "--export", "disk", "-t", "dynamic:high=4,low=1"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(path.exists)
        uri = f"nbd+unix:///disk?socket={path}"
        (about,) = json.loads(run("nbdinfo", "--json", uri))["exports"]
        assert about["export-size"] == 256 * MB
        for what in ("can_multi_conn", "can_flush", "can_fua", "can_trim", "can_zero", "can_df"):
            assert about[what] is True
        run("nbdcopy", "--flush", str(image), uri)
        run("nbdcopy", uri, str(back))
        assert back.read_bytes() == image.read_bytes()
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", str(image), uri)
        server.send_signal(signal.SIGTERM)
        out, said = server.communicate(timeout=120)
    finally:
        server.kill()
    assert server.returncode == 0, said
    report = json.loads(out)
    assert report["requests"]["refused"] == report["errors"] == 0
    # By both who compare; holes are not read again.
    assert report["requests"]["read_bytes"] >= 128 * MB
    assert report["ledger"]["imbalance"] is None
    assert not path.exists()


@pytest.mark.parametrize("policy", ["single-thread", "issuer", "cache-aware", "msi-x", "polled"])
def test_fio_verifies_what_it_wrote(tmp_path: Path, policy: str) -> None:
    need("fio")
    path = tmp_path / "socket"
    with serving(path, policy=policy) as block:
        verify_by_fio(block, "512-64k", tmp_path / "out")
        report = block.stop()
    assert report["requests"]["writes"] > 100
    assert report["errors"] == 0
    given = sum(worker["given"] for worker in report["workers"])
    here = sum(worker["here"] for worker in report["workers"])
    asked = sum(report["requests"][name] for name in ("reads", "writes", "flushes", "trims"))
    assert given + here == asked
    if policy in ("single-thread", "msi-x", "polled"):
        assert given == 0
    elif len(report["workers"]) > 1:
        assert given > 0


GUEST = """
waited=0
while [ ! -b /dev/vda ]; do
    sleep 0.1; waited=$((waited + 1)); [ $waited -lt 3000 ] || fail "no disk"
done
say "sectors $(cat /sys/block/vda/size)"
say "read $(dd if=/dev/vda bs=64k count=32 2>/dev/null | md5sum | cut -d' ' -f1)"
dd if=/halfwink/payload of=/dev/vda bs=4k seek=1024 conv=fsync 2>/dev/null || fail "dd"
say "cache $(cat /sys/block/vda/queue/write_cache)"
"""


def test_a_guests_own_driver_reads_and_writes(tmp_path: Path) -> None:
    need_capture()
    image, path = tmp_path / "image", tmp_path / "socket"
    rng = random.Random(5)
    before, payload = rng.randbytes(16 * MB), rng.randbytes(MB + 4096)
    image.write_bytes(before)
    machine = small.ensure(["virtio_pci", "virtio_blk"], [], lambda _: None)
    initrd = tmp_path / "initrd.cpio"
    with initrd.open("wb") as archive:
        archive.write(machine.base.read_bytes())
        with CpioWriter(archive) as cpio:
            cpio.file("halfwink/run.sh", GUEST.encode())
            cpio.file("halfwink/payload", payload)
    words = small.command_line(machine, initrd, 1)
    # In this host's time: the disk is no part of the guest's.
    at = words.index("-icount")
    del words[at : at + 2]
    words += ["-object", f"memory-backend-memfd,id=ram,size={small.RAM_MIB}M,share=on"]
    words += ["-machine", "pc,memory-backend=ram", "-chardev", f"socket,id=disk,path={path}"]
    words += ["-device", "vhost-user-blk-pci,chardev=disk,num-queues=2"]
    with Block(Device(vhost=path, queues=2, file=image)) as block:
        wait_until(path.exists)
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
        report = block.stop()
    said = [line.strip() for line in done.stdout.splitlines()]
    told = dict(
        line.removeprefix("@guest ").split(" ", 1)
        for line in said
        if line.startswith("@guest ") and " " in line.removeprefix("@guest ")
    )
    assert told.get("sectors") == str(16 * MB // 512), (said[-3:], done.stderr)
    assert told["read"] == hashlib.md5(before[: 2 * MB]).hexdigest()
    assert told["cache"] == "write back"
    after = image.read_bytes()
    assert after[4 * MB : 4 * MB + len(payload)] == payload
    assert (after[: 4 * MB], after[4 * MB + len(payload) :]) == (
        before[: 4 * MB],
        before[4 * MB + len(payload) :],
    )
    assert report["requests"] > 16
    assert report["failed"] == report["broken"] == 0


@pytest.mark.parametrize("way", [None, *WAYS])
def test_an_idle_connection_costs_nothing(tmp_path: Path, way: dict[str, Any] | None) -> None:
    image, path = tmp_path / "image", tmp_path / "socket"
    image.write_bytes(bytes(MB))
    more = {} if way is None else {"file": image, **way}
    with serving(path, **more) as block, Client(path) as client:
        assert client.read(0, 4096) == bytes(4096)
        assert client.ask(WRITE, 0, body=bytes(4096)) == 0

        def share() -> float:
            # Until it has gone to sleep.
            time.sleep(0.2)
            before, begun = cpu_s(block.pid), time.monotonic()
            time.sleep(4)
            return (cpu_s(block.pid) - before) / (time.monotonic() - begun)

        # A tick of the kernel's clock in four seconds is 0.25 %.
        undisturbed(share, lambda found: None if found < 0.005 else f"{100 * found:.2f} %")


# Devices that fail.


def test_a_modelled_device_takes_its_time(tmp_path: Path) -> None:
    def took(latency_us: float) -> float:
        path = tmp_path / f"socket{latency_us:g}"
        with serving(path, latency_us=latency_us) as block, Client(path) as client:
            assert client.ask(WRITE, 0, body=b"x" * 4096) == 0
            # Side by side: 32 of them take hardly longer than one.
            begun = time.monotonic()
            for _ in range(8):
                client.socket.sendall(b"".join(request(READ, 0, 512, n) for n in range(32)))
                cookies = set()
                for _ in range(32):
                    error, cookie = client.reply()
                    cookies.add(cookie)
                    assert error == 0
                    assert client.take(512) == b"x" * 512
                assert cookies == set(range(32))
            seconds = (time.monotonic() - begun) / 8
            report = block.stop()
        assert report["latency"]["p50_us"] >= 0.75 * latency_us
        return seconds

    took(200.0)

    def trial() -> float:
        found = took(20_000.0)
        assert found >= 0.015
        return found

    # Far from one after the other, which takes 0.64 s.
    undisturbed(trial, lambda found: None if found < 0.32 else f"{found:.3f} s")


# Clients that do what they may not.


def test_requests_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with serving(path) as block:
        with Client(path) as client:
            end = client.size
            assert client.read(end - 1, 2) == EINVAL
            assert client.read((1 << 64) - 1, 4096) == EINVAL
            assert client.read(0, 33 * MB) == EOVERFLOW
            assert client.ask(WRITE, end - 100, body=b"x" * 101) == ENOSPC
            assert client.ask(WRITE, (1 << 64) - 4096, body=b"x" * 4096) == ENOSPC
            assert client.ask(ZEROES, 4096, (1 << 32) - 1) == ENOSPC
            assert client.ask(77, 0, 0) == EINVAL
            assert client.ask(FLUSH, 1, 1) == EINVAL
            assert client.ask(WRITE, 0, body=b"x", flags=0x80) == EINVAL
            # It has lost nothing of the stream.
            assert client.ask(WRITE, 5, body=b"hello") == 0
            assert client.read(4, 7) == b"\0hello\0"
            # More than anybody reads: it is told, then it has to go.
            client.socket.sendall(request(WRITE, 0, 1 << 31, 3))
            assert client.reply() == (EOVERFLOW, 3)
            with pytest.raises(EOFError):
                client.take(1)
        with Client(path) as client:
            client.socket.sendall(request(READ, magic=REQUEST ^ 1))
            with pytest.raises((EOFError, ConnectionError)):
                client.take(1)
        with Client(path) as client:
            assert client.ask(WRITE, 100, body=b"y" * (9 * MB)) == 0
            assert client.read(99, 3) == b"\0yy"
            client.socket.sendall(request(DISCONNECT))
            with pytest.raises(EOFError):
                client.take(1)
        report = block.stop()
    assert report["connections"]["wrong"] == 2
    assert report["requests"]["refused"] == 10


def test_handles_that_are_used_twice_are_two_requests(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with serving(path, latency_us=500) as block, Client(path) as client:
        for place in range(2):
            assert client.ask(WRITE, place * 512, body=bytes([place]) * 512) == 0
        # All are under way at once, with one handle.
        client.socket.sendall(b"".join(request(READ, 512 * (n % 2), 512, 9) for n in range(64)))
        found: list[bytes] = []
        for _ in range(64):
            assert client.reply() == (0, 9)
            found.append(client.take(512))
        assert sorted(found) == sorted(bytes([n % 2]) * 512 for n in range(64))
        report = block.stop()
    assert report["requests"]["reads"] == 64


def test_a_read_only_device_is_not_written(tmp_path: Path) -> None:
    image, path = tmp_path / "image", tmp_path / "socket"
    image.write_bytes(b"x" * MB)
    with serving(path, file=image, read_only=True), Client(path) as client:
        assert client.flags & 2
        for kind in (WRITE, TRIM, ZEROES):
            assert client.ask(kind, 0, 4096, b"y" * 4096 * (kind == WRITE)) == EPERM
    assert image.read_bytes() == b"x" * MB


def test_handshakes_that_cannot_be_end_and_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    flags = struct.pack(">I", 3)
    wrong = [
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        flags + b"x" * 64,
        flags + OPTION + struct.pack(">II", 7, 0xFFFFFFFF),
        flags + option(1, b"no such export"),
        flags + option(3) * 65,
    ]
    with serving(path) as block:
        descriptors = Path(f"/proc/{block.pid}/fd")
        at_first = len(list(descriptors.iterdir()))
        quiet = [raw(path) for _ in range(10)]
        for words in wrong:
            with raw(path) as client:
                client.sendall(words)
                client.settimeout(30)
                while True:
                    try:
                        if not client.recv(65536):
                            break
                    except ConnectionError:
                        break
        # Some vanish in the middle of anything.
        for cut in (1, 17, 29, 100, 4000):
            with Client(path) as client:
                client.socket.sendall((request(WRITE, 0, 4096, 1) + bytes(4096))[:cut])
        with Client(path) as client:
            assert client.ask(WRITE, 0, body=b"z" * 512) == 0
        for client in quiet:
            client.close()
        wait_until(lambda: len(list(descriptors.iterdir())) == at_first)
        report = block.stop()
    assert report["connections"]["wrong"] == len(wrong)
    assert report["connections"]["vanished"] >= 15
    assert report["connections"]["open"] == 0


def test_one_that_never_reads_holds_no_memory_and_nobody_up(tmp_path: Path) -> None:
    image, path = tmp_path / "image", tmp_path / "socket"
    image.write_bytes(os.urandom(16 * MB))
    for more in ({"ram": "16M"}, {"file": image}):
        with serving(path, **more) as block, Client(path) as other, Client(path) as slow:
            other.read(0, 4096)
            before = resident(block.pid)
            slow.socket.settimeout(1.0)
            sent = 0
            try:
                # 8 GB of answers that nobody reads.
                for _ in range(4096):
                    slow.socket.sendall(request(READ, 0, 2 * MB, 1))
                    sent += 1
            except TimeoutError:
                pass
            assert other.ask(WRITE, 0, body=b"x" * 4096) == 0
            grown = resident(block.pid) - before
            # The device itself may come into memory.
            assert grown < 24 * MB, f"{grown / MB:.0f} MB"
            slow.socket.settimeout(60)
            assert slow.reply() == (0, 1)
            assert len(slow.take(2 * MB)) == 2 * MB


def test_there_are_no_more_connections_than_allowed(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    path = tmp_path / "socket"
    clients: list[Client] = []
    try:
        with serving(path, connections=1000) as block:
            clients = [Client(path) for _ in range(1000)]
            for _ in range(5):
                with raw(path) as more:
                    assert more.recv(1) == b""
            assert all(client.ask(WRITE, 0, body=b"x") == 0 for client in clients[::50])
            assert resident(block.pid) < 200 * MB
            clients.pop().socket.close()
            wait_until(lambda: _is_served(path))
            report = block.stop()
        assert report["connections"]["peak"] == 1000
        assert report["connections"]["refused"] >= 5
    finally:
        for client in clients:
            client.socket.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _is_served(path: Path) -> bool:
    with raw(path) as client:
        return client.recv(1) != b""


def test_a_request_is_answered_however_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    rng = random.Random(4)
    with serving(path), Client(path) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        for n in range(30):
            body = rng.randbytes(rng.choice((1, 511, 4096, 70_000, 300_001)))
            offset = rng.randrange(client.size - len(body))
            flags = FUA if n % 3 == 0 else 0
            said = request(WRITE, offset, len(body), 7, flags) + body
            while said:
                cut = rng.choice((1, 27, 28, 29, 4096, 100_000))
                client.socket.sendall(said[:cut])
                said = said[cut:]
            assert client.reply() == (0, 7)
            assert client.read(offset, len(body)) == body


# The command line.


def test_what_cannot_be_is_said_in_a_line(tmp_path: Path, halfwink: Halfwink) -> None:
    path = str(tmp_path / "socket")
    for words, complaint in (
        (("--ram", "1M"), "expected `unix`, `tcp`, `ublk` or `vhost`"),
        (("--unix", path), "found neither `ram` nor `file`, expected one of them"),
        (("--unix", path, "--ram", "1M", "-t", "none"), "unknown technique `none`"),
        (("--unix", path, "--ram", "1M", "-t", "dynamic:x=1"), "unknown parameter `x`"),
        (("--unix", path, "--ram", "1M", "--rest", "x"), "rest `x`: expected auto"),
        (("--unix", path, "--ram", "1M", "--cpus", "4-x"), "expected CPUs as 0-3,8"),
        (("--unix", path, "--ram", "1M", "--seconds", "0"), "--seconds 0"),
        (("--unix", path, "--file", "/nowhere"), "/nowhere: No such file"),
        (("--unix", path, "--file", "/dev/zero", "--io", "x"), "--io: unknown variant `x`"),
        (("--unix", path, "--ram", "1M", "--direct"), "--direct: expected `file`"),
        (("--unix", path, "--file", __file__, "--io", "sync", "--direct"), "--direct: expected"),
        (("--unix", path, "--ram", "many"), '--ram: found "many", expected bytes as'),
        (("--ublk", "--ram", "1M", "--export", "x"), "--export: `ublk` has no use for it"),
        (("--ublk", "--ram", "1M", "--queues", "2"), "--queues: `ublk` has no use for it"),
        (("disk.toml", "--ram", "1M"), "disk.toml: expected no option of the device beside it"),
    ):
        done = halfwink("live", "block", *words)
        assert done.status == 2, done.err
        assert complaint in done.complaint
    # Somebody else listens there.
    with serving(Path(path)), pytest.raises(RunError, match="Address already in use"):
        Block(Device(unix=Path(path), ram="1M"))


def test_the_command_passes_signals_on_and_takes_another_policy(
    tmp_path: Path, halfwink: Halfwink
) -> None:
    description, log, out = (tmp_path / name for name in ("disk.toml", "log.jsonl", "out.json"))
    text = 'schema = 1\nunix = "socket"\nram = "1M"\npin = false\npolicy = "single-thread"\n'
    description.write_text(text)
    with command(description, "--log", log, "-o", out) as server:
        assert server.stderr is not None
        with Client(tmp_path / "socket") as client:
            assert client.ask(WRITE, 0, body=b"x" * 512) == 0
            for new, said in (
                ('policy = "issuer"\nconnections = 1', "again: connections, policy changed"),
                ('policy = "polled"', "policy: one that reads, polls or measures in another way"),
            ):
                description.write_text(text.replace('policy = "single-thread"', new))
                server.send_signal(signal.SIGHUP)
                line = server.stderr.readline()
                assert said in line
                assert client.read(0, 512) == b"x" * 512
            # The limit is of now, and who is there stays.
            with raw(tmp_path / "socket") as more:
                assert more.recv(1) == b""
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=120)
    assert server.returncode == 0, said
    report = json.loads(out.read_text())
    assert report["policy"] == "issuer"
    assert report["requests"]["reads"] == 2
    told = halfwink("replay", str(log), "--json")
    assert told.status == 0, told.err
    assert told.json()["facts"]["policies"] == 2


def test_a_run_ends_by_itself_and_shows_tables(tmp_path: Path, halfwink: Halfwink) -> None:
    words = ("--tcp", "127.0.0.1:0", "--ram", "1M", "--seconds", "0.5", "-o", "report.json")
    words += ("--log", "events.jsonl", "-t", "dynamic:high=6,low=2")
    done = halfwink("live", "block", *words)
    assert done.status == 0, done.err
    assert "ready at nbd://127.0.0.1:" in done.err
    assert "hand-off" in done.out
    assert "sleeping s" in done.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report["stages"]) == {"read", "decode", "backend", "hand-off", "reply"}
    assert report["ledger"]["imbalance"] is None
    assert report["log_dropped"] == 0
    head, *lines, foot = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    assert (head["family"], head["technique"]) == ("completion", "dynamic:high=6,low=2")
    assert foot["lines"] == len(lines) > 0
    assert head["set"]["rest"] == "auto"
    told = halfwink("replay", "events.jsonl")
    assert told.status == 0, told.err

"""Live programs whose surroundings are hostile: standard error that takes nothing, files that are
another program's, certificates and images that are not there."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import Halfwink
from steer_bed import Recorder, describe, get, status, wait_until
from test_daemons import PLAYED, binary, heard, listening, running


def checked(name: str, path: Path) -> str:
    """Returns what `--check` says of a description that it refuses; nothing if it is well."""
    words = [binary(f"halfwink-{name}"), "--config", str(path), "--check", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == (2 if done.stderr else 0), done
    return done.stderr


def test_standard_error_that_takes_nothing_ends_no_program(tmp_path: Path):
    pair = Recorder(), Recorder()
    path = describe(tmp_path, *(one.address for one in pair))
    read, write = os.pipe()
    words = [binary("halfwink-steer"), "--config", str(path)]
    with subprocess.Popen(words, stderr=write) as process:
        os.close(write)
        with os.fdopen(read) as lines:
            address = next(line for line in lines if "listening at" in line).split()[-1]
        # Its reader is gone: the line about the reload goes nowhere.
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        assert [status(get(address)) for _ in range(5)] == [200] * 5
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*words, "--seconds", "0.2"], stderr=full, timeout=120, check=False)
    assert done.returncode == 0
    for one in pair:
        one.close()


@pytest.mark.parametrize("name", ["steer", "block"])
def test_log_takes_no_file_of_another_program(name: str, tmp_path: Path):
    path = tmp_path / f"{name}.toml"
    path.write_text(PLAYED[name].text)
    words = [binary(f"halfwink-{name}"), "--config", path.name, "--seconds", "0.2", "-q"]
    command = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120}
    # The description itself is the file that an operator is likeliest to name by mistake.
    done = subprocess.run([*words, "--log", path.name], check=False, **command)
    assert done.returncode == 1
    assert "found a file that is no event log, expected one or a new name" in done.stderr
    assert path.read_text() == PLAYED[name].text
    for _ in range(2):
        done = subprocess.run([*words, "--log", "events"], check=False, **command)
        assert done.returncode == 0, done
    assert (tmp_path / "events.1").is_file()


def test_report_without_a_place_is_refused_before_the_run(tmp_path: Path):
    path = tmp_path / "steer.toml"
    path.write_text(PLAYED["steer"].text)
    words = [binary("halfwink-steer"), "--config", str(path), "-q", "--seconds", "0.2"]

    def reported(where: Path) -> subprocess.CompletedProcess[str]:
        command = [*words, "--report", str(where)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    absent = tmp_path / "absent/report.json"
    assert reported(absent).returncode == 2
    assert reported(absent).stderr.endswith("expected a folder that is there\n")
    assert "found a folder, expected a file" in reported(tmp_path).stderr
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = reported(fifo)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done
    assert str(fifo) in done.stderr


def test_check_of_a_router_reads_routes_and_addresses(tmp_path: Path):
    path, routes = tmp_path / "router.toml", tmp_path / "routes.txt"
    text = PLAYED["router"].text
    path.write_text(text)
    assert "routes: " in checked("router", path)
    routes.write_text("")
    assert checked("router", path) == ""
    routes.write_text("192.0.2.0/33 via 10.1.0.2\n")
    assert f"{path}:" in checked("router", path)
    assert "routes.txt" in checked("router", path)
    routes.write_text("192.0.2.0/24 via 203.0.113.1\n")
    assert "routes: " in checked("router", path)
    routes.write_text("")
    first, second = (part.split('"')[1] for part in text.split("addresses = [")[1:3])
    for before, after, said in (
        (second, first, "each address once"),
        (first, "224.0.0.1/8", "expected an address that a host may have"),
        (first, "127.0.0.1/8", "expected an address that a host may have"),
        ('interface = "', 'interface = "averyverylongname', "expected an interface's name of 1 to"),
    ):
        path.write_text(text.replace(before, after, 1))
        assert said in checked("router", path)


def test_check_of_a_proxy_reads_its_certificate(tmp_path: Path):
    path = tmp_path / "steer.toml"
    path.write_text(f'{PLAYED["steer"].text}[tls]\ncert = "c.pem"\nkey = "k.pem"\n')
    assert f"{path}:9: tls: {tmp_path}/c.pem: " in checked("steer", path)


def test_check_of_a_block_device_looks_for_its_image(tmp_path: Path):
    path, image = tmp_path / "block.toml", tmp_path / "disk.img"
    text = 'schema = 1\nunix = "disk"\nfile = "disk.img"\n'
    path.write_text(text)
    assert f"{path}:3: file: {image}: No such file" in checked("block", path)
    image.touch()
    assert "it is empty" in checked("block", path)
    image.unlink()
    image.mkdir()
    assert f"{path}:3: file: {image}: " in checked("block", path)
    image.rmdir()
    image.write_bytes(bytes(4096))
    assert checked("block", path) == ""
    path.write_text(text.replace('"disk"', '"absent/disk"'))
    assert f"{path}:2: unix: found no folder {tmp_path}/absent" in checked("block", path)
    path.write_text(text.replace('"disk"', '""'))
    assert f"{path}:2: unix: found an empty path" in checked("block", path)


def test_block_device_that_ends_leaves_the_socket_of_another(tmp_path: Path):
    path, at = tmp_path / "block.toml", tmp_path / "disk"
    path.write_text(PLAYED["block"].text)
    with running(tmp_path, "--config", str(path), name="block") as process:
        at.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(at))
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
            assert stat.S_ISSOCK(at.stat().st_mode)


def test_second_proxy_at_an_address_is_refused(tmp_path: Path):
    pair = Recorder(), Recorder()
    path = describe(tmp_path, *(one.address for one in pair), top="threads = 2")
    with running(tmp_path, "--config", str(path)):
        address = listening(tmp_path, "listening at")
        again = tmp_path / "again.toml"
        again.write_text(path.read_text().replace("127.0.0.1:0", address))
        words = [binary("halfwink-steer"), "--config", str(again), "--seconds", "0.2"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 1
        assert f"listen {address}: Address" in done.stderr
        assert status(get(address)) == 200
    for one in pair:
        one.close()


def test_machine_that_is_lost_by_connections_is_told(tmp_path: Path):
    pair = Recorder(), Recorder()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        # Nobody listens there, and nobody else can.
        silent = "{}:{}".format(*free.getsockname())
        path = describe(tmp_path, silent, pair[1].address, top='policy = "always-small"')
        # Health checks come too late to find it.
        path.write_text(path.read_text().replace("interval_ms = 50", "interval_ms = 60000"))
        with running(tmp_path, "--config", str(path)):
            address = listening(tmp_path, "listening at")
            for _ in range(5):
                get(address)
            wait_until(lambda: "small machine: lost: connections to it fail" in heard(tmp_path))
    for one in pair:
        one.close()


def test_command_without_a_place_for_its_report_runs_nothing(halfwink: Halfwink, tmp_path: Path):
    made = tmp_path / "made"
    for out, said in (
        (tmp_path / "absent/report.json", "expected a folder that is there"),
        (tmp_path, "found a folder, expected a file"),
    ):
        done = halfwink("live", "delegate", "-o", str(out), "--", "touch", str(made))
        assert (done.status, done.complaint) == (2, f"-o {out}: {said}")
        done = halfwink("live", "block", "--ram", "1M", "--unix", str(made), "-o", str(out))
        assert (done.status, done.complaint) == (2, f"-o {out}: {said}")
    assert not made.exists()

"""The capture call, up to where QEMU starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from halfwink.capture import (
    CaptureError,
    CaptureInterruptedError,
    Result,
    WrongUseError,
    api,
    capture,
    host,
)
from halfwink.capture.api import make_header
from halfwink.capture.guest import Guest
from halfwink.capture.image import Plan
from halfwink.capture.workloads import find

GUEST = Guest(Path("/cache/guest"), "6.1.0-1-cloud-amd64", {"nginx-light": "1.22", "gcc": "12"})


def ask(tmp_path: Path, workload: str | None = None, **changes: Any) -> Result:
    arguments: dict[str, Any] = {
        "command": None,
        "out": tmp_path / "t.hwt",
        "instructions": None,
        "seed": 1,
        "time_limit_s": 10.0,
        "rootfs": None,
        "progress": lambda _: None,
    }
    return capture(workload, **(arguments | changes))


@pytest.mark.parametrize(
    ("workload", "changes", "words"),
    [
        (None, {}, "either the name of a workload or"),
        ("nginx", {"command": ["ls"]}, "either the name of a workload or"),
        ("nginy", {}, "did you mean nginx"),
        ("nginx", {"seed": -1}, "seed -1: expected 0 to"),
        ("nginx", {"seed": 1 << 32}, "expected 0 to"),
        ("nginx", {"instructions": 0}, "expected at least one"),
        ("nginx", {"rootfs": Path("/")}, "needs `-- COMMAND`"),
        (None, {"command": ["ls"], "rootfs": Path("/nonexistent")}, "not a folder"),
        ("nginx", {"out": Path("/nonexistent/t.hwt")}, "there is no folder"),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path, workload: str | None, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(WrongUseError, match=words) as raised:
        ask(tmp_path, workload, **changes)
    assert "\n" not in str(raised.value)


def test_ctrl_c_becomes_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "ensure", interrupt)
    with pytest.raises(CaptureInterruptedError):
        ask(tmp_path, "nginx")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device", "/somewhere/initrd")

    monkeypatch.setattr(host, "ensure", full)
    with pytest.raises(CaptureError, match="/somewhere/initrd: No space left on device"):
        ask(tmp_path, "nginx")


def test_a_servers_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "qemu_version", lambda: ("Debian 10.0", (10, 0)))
    header = make_header(Plan(find("nginx-10pct"), 5), GUEST)
    assert header["load"] == {"kind": "open", "connections": 16, "rate_per_s": 1650}
    assert (header["unit_of_work"], header["cpus"], header["seed"]) == ("request", 2, 5)
    assert header["kernel"] == "Linux 6.1.0-1-cloud-amd64"
    assert {"name": "gcc", "version": "12"} in header["packages"]
    assert header == make_header(Plan(find("nginx-10pct"), 5), GUEST)
    assert "/cache" not in json.dumps(header)


def test_a_programs_header(tmp_path: Path) -> None:
    script = tmp_path / "own"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    plan = api._plan(None, [str(script), "7"], 1, None, ())
    header = make_header(plan, GUEST)
    assert header["command"] == ["own", "7"]
    assert header["workload"] == "own"
    assert "load" not in header
    assert str(tmp_path) not in json.dumps(header)


def test_a_root_of_ones_own_has_none_of_our_packages(tmp_path: Path) -> None:
    plan = api._plan(None, ["/bin/x"], 1, tmp_path, ())
    guest = Guest(Path("/g"), "6.1", {"gcc": "12", "linux-image-6.1": "6.1-1"})
    assert make_header(plan, guest)["packages"] == [{"name": "linux-image-6.1", "version": "6.1-1"}]


def test_result_gives_shares_and_rates() -> None:
    result = Result(
        path=Path("t.hwt"),
        workload="x",
        instructions=1000,
        kernel_instructions=250,
        requests=2,
        bytes=100,
        seconds=0.5,
        idle_ns=3000,
        virtual_ns=4000,
        unexplained=0,
        exit_status=0,
        said=(),
        details={},
    )
    assert result.kernel_share == 0.25
    assert result.bytes_per_instruction == 0.1
    assert result.mips == 0.002
    assert result.idle_share == 0.75

"""Circuits in virtual time: the live bed inside an emulated machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, lacking, need, need_qemu

from halfwink.capture import drivers
from halfwink.capture.errors import MissingRequirementError
from halfwink.live import virtual_circuits as virtual
from halfwink.live.virtual_circuits import VirtualSetting


@pytest.fixture
def _guest() -> None:
    need(*virtual.PROGRAMS)
    need_qemu()
    try:
        virtual.player()
    except MissingRequirementError as error:
        lacking(str(error))


guest = pytest.mark.usefixtures("_guest")


def played(setting: VirtualSetting, **options: Any) -> dict[str, Any]:
    """A short run, whose counts hold together."""
    found = virtual.measure(setting, weeks=5, warm_up_weeks=3, **options)
    assert found["overlaps"] == found["late_slots"] == 0
    assert found["switch"]["lost_hosts"] == 0
    # It is not counted from a slot's begin.
    assert abs(found["slots"] - 5 * (setting.hosts - 1)) <= 1
    for host in found["hosts"]:
        assert host["for_nobody"] == host["untaken"] == 0
        assert (host["load"] or {}).get("reordered", 0) == 0
    return found


@pytest.mark.full("circuits")
@pytest.mark.qemu
@guest
def test_published_slots_twice_are_the_same_to_the_last_bit() -> None:
    setting = VirtualSetting(margin_us=2.0)
    first, second = played(setting), played(setting)
    assert json.dumps(first) == json.dumps(second)
    assert first["duty_pct"] == pytest.approx(100 * 123.5 / 135)
    assert first["violations"] == 0
    assert first["use_pct"] > 90


@pytest.mark.full("circuits")
@pytest.mark.qemu
@guest
def test_another_seed_moves_what_was_the_same_before() -> None:
    # Random numbers of kernel and program move it by some nanoseconds.
    first, second = (played(VirtualSetting(margin_us=2.0, seed=seed)) for seed in (1, 2))
    assert json.dumps(first) != json.dumps(second)


@pytest.mark.qemu
@guest
def test_gates_of_the_kernel_keep_to_the_same_circuits() -> None:
    found = played(VirtualSetting(shaper="taprio"))
    assert found["use_pct"] > 70
    assert found["violations"] <= found["forwarded"] / 100
    # Not one frame to the wrong host, or by night: gates are where the switch's circuits are.
    kinds = found["switch"]["violations"]
    assert kinds["elsewhere"] == kinds["night"] == 0


@pytest.mark.full("circuits")
@pytest.mark.qemu
@guest
@pytest.mark.parametrize("shaper", virtual.SHAPERS)
@pytest.mark.parametrize("tcp", virtual.TCP)
def test_tcp_of_the_guests_kernel_takes_turns(tcp: str, shaper: str) -> None:
    # With fewer instructions a slot the switch may be late for one, when all begin at once.
    found = played(VirtualSetting(tcp=tcp, shaper=shaper, dilation=250))
    assert found["goodput_gbps"] > 5
    assert found["violations"] <= found["forwarded"] / 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dilation", "7"], "dilation 7: expected a divisor"),
        (["--dilation", "0"], "dilation 0: expected a divisor"),
        (["--shaper", "htb"], "shaper `htb`: expected tokens, taprio"),
        (["--tcp", "vegas"], "tcp `vegas`: expected reno, cubic, dctcp"),
        (["--seed", "-1"], "seed -1: expected 0 to"),
        (["--weeks", "0"], "weeks 0"),
        (["--technique", "most-needed"], "round-robin alone"),
        (["--idle"], "--virtual goes without"),
        (["--slot", "11us"], "expected 20 to"),
        (["--slot", "135"], "expected a number with its unit"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    halfwink: Halfwink, options: list[str], said: str
) -> None:
    done = halfwink("live", "circuits", "--virtual", *options)
    assert done.status == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_options_of_virtual_time_are_refused_without_it(halfwink: Halfwink) -> None:
    done = halfwink("live", "circuits", "--tcp", "cubic")
    assert done.status == 2
    assert "go with --virtual" in done.err


def test_drivers_come_behind_those_that_they_need(tmp_path: Path) -> None:
    modules = {"a-b": b"x", "c": b"\0depends=a-b,built_in\0", "d": b"\0depends=c\0"}
    for name, data in modules.items():
        (tmp_path / f"{name}.ko").write_bytes(data)
    there = {drivers.driver_name(path): path for path in tmp_path.glob("*.ko")}
    found = drivers.in_order(["d", "a-b", "not_there"], there)
    assert [path.name for path in found] == ["a-b.ko", "c.ko", "d.ko"]


def test_times_of_a_report_are_the_fabrics() -> None:
    counted = {"up_s": 5.0, "slots": 7, "guard": {"p50_us": 100.0, "p99_us": None, "count": 3}}
    found = virtual.fabric_time({"hosts": [counted], "at_ns": 50}, 50)
    same = {"up_s": 0.1, "slots": 7, "guard": {"p50_us": 2.0, "p99_us": None, "count": 3}}
    assert found == {"hosts": [same], "at_ns": 1}

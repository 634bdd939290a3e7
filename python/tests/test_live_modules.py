"""Live programs whose policy is a module of the user's own, which fails while they carry."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from block_device import command
from conftest import Halfwink, lacking, need, need_bed
from nbd_client import WRITE, Client
from steer_bed import Recorder, balanced, describe, get, settled, status
from test_live_router import balanced as frames_balance
from test_live_router import nothing_wrong

import halfwink
from halfwink.bed import Bed, Live, description
from halfwink.doctor import WASM, _has_target
from halfwink.errors import HalfwinkError
from halfwink.live.steer import LiveSteer
from halfwink.new_policy import new_policy

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#: Where a policy of `new-policy` counts what passes, by family: the words before and after.
COUNTED = {
    "scaling": ("Event::Poll { core, taken, .. } => {", "self.passed += u64::from(taken);"),
    "steering": ("Event::Arrive => {", "self.passed += 1;"),
    "completion": ("Event::Done { io, issuer, heard, waiting, .. } => {", "self.passed += 1;"),
}
#: What has passed before a module fails, and so is in the middle of traffic.
MOST = 40


def built(family: str, folder: Path, most: int = MOST, name: str = "own") -> Path:
    """The module of `new-policy`, which loops for ever once more than `most` have passed."""
    need("rustc")
    if not _has_target(WASM):
        lacking(f"the Rust target {WASM} is missing; run: rustup target add {WASM}")
    policy = new_policy(name, family, folder)
    place, count = COUNTED[family]
    loop = f"if self.passed > {most} {{ loop {{ core::hint::spin_loop(); }} }}"
    code = (policy / "src/lib.rs").read_text()
    assert code.count(place) == 1
    code = code.replace(place, f"{place}\n{count}\n{loop}")
    code = code.replace("struct Policy {\n", "struct Policy {\n    passed: u64,\n", 1)
    code = code.replace("        Policy { ", "        Policy { passed: 0, ", 1)
    (policy / "src/lib.rs").write_text(code)
    done = subprocess.run(["make"], cwd=policy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return policy / f"{name}.wasm"


def fault(report: dict[str, object], event: str) -> None:
    """The module was stopped once, at an event of this name, and the report says so."""
    assert report["policy_faults"] == 1
    assert isinstance(report["policy_fault"], str)
    assert f"told `{event}`, it used up its fuel (20000 a call" in report["policy_fault"]


def decided(log: Path, names: list[str]) -> None:
    """These policies have decided, in this order."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    techniques = [Path(line["technique"]).name for line in lines if "technique" in line]
    assert [re.sub("@[0-9a-f]+", "", name) for name in techniques] == names


def test_router_goes_on_when_its_module_is_stopped_in_mid_traffic(tmp_path: Path):
    need("ping")
    need_bed()
    module, log = built("scaling", tmp_path), tmp_path / "log.jsonl"
    text = description(policy=str(module), io="af-packet")
    with Bed(user_namespace=True) as bed, Live(bed, text, words=["--log", str(log)]) as live:
        nothing_wrong(bed, pps=2000, seconds=0.5, flows=20)
        assert "power-save-in-order decides from now on" in live.said()
        # And the other one scales.
        nothing_wrong(bed, pps=2000, seconds=0.3, flows=20)
        report = live.result()
    frames_balance(report)
    assert report["packets"]["forwarded"] >= 1600
    fault(report, "poll")
    decided(log, ["own.wasm", "power-save-in-order"])
    assert halfwink.replay(log).first_difference is None


def test_proxy_goes_on_when_its_module_is_stopped(tmp_path: Path):
    module, log = built("steering", tmp_path), tmp_path / "log.jsonl"
    small, big = Recorder(OK), Recorder(OK)
    path = describe(tmp_path, small.address, big.address, top=f'policy = "{module.name}"')
    path.with_name(module.name).write_bytes(module.read_bytes())
    with LiveSteer(path, log=log) as steer:
        answers = [get(steer.address) for _ in range(2 * MOST)]
        assert Counter(map(status, answers)) == {200: 2 * MOST}
        report = settled(steer, 2 * MOST)
        fault(report, "arrive")
        balanced(report)
        # Another module under the same name decides after a reload, and counts anew.
        (tmp_path / "more").mkdir()
        again = built("steering", tmp_path / "more", most=10**6)
        path.with_name(module.name).write_bytes(again.read_bytes())
        steer.reload()
        assert status(get(steer.address)) == 200
        fault(steer.report(), "arrive")
    decided(log, ["own.wasm", "hybrid", "own.wasm"])
    with pytest.raises(HalfwinkError, match="its content has changed"):
        halfwink.replay(log)
    small.close()
    big.close()


def test_block_device_goes_on_when_its_module_is_stopped(tmp_path: Path):
    module = built("completion", tmp_path)
    device, log, out = (tmp_path / name for name in ("disk.toml", "log.jsonl", "out.json"))
    text = 'schema = 1\nunix = "socket"\nram = "1M"\npin = false\n'
    device.write_text(f'{text}policy = "own/{module.name}:waiting=2"\n')
    with command(device, "--log", log, "-o", out) as server:
        with Client(tmp_path / "socket") as client:
            for n in range(2 * MOST):
                body = bytes([n]) * 512
                assert client.ask(WRITE, 0, body=body) == 0
                assert client.read(0, 512) == body
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=120)
    assert server.returncode == 0, said
    assert "used up its fuel" in said
    assert "single-thread decides from now on" in said
    report = json.loads(out.read_text())
    assert report["requests"]["reads"] == 2 * MOST
    fault(report, "done")
    decided(log, [f"{module.name}:waiting=2", "single-thread"])
    assert halfwink.replay(log).first_difference is None


#: What a description names, and what the line about it says.
WRONG = {
    "absent.wasm": "absent.wasm: No such file",
    "text.wasm": "text.wasm: is no WebAssembly module",
    "other.wasm": "what it says of itself is wrong: family `steering`, expected scaling",
    "policy.py": "policies in Python are played from Python only",
}


@pytest.mark.parametrize("name", WRONG)
def test_module_that_cannot_decide_is_refused_in_one_line(
    tmp_path: Path, halfwink: Halfwink, name: str
):
    (tmp_path / "text.wasm").write_text("no module")
    (tmp_path / "policy.py").write_text("")
    if name == "other.wasm":
        (tmp_path / name).write_bytes(built("steering", tmp_path).read_bytes())
    path = tmp_path / "router.toml"
    path.write_text(f'schema = 1\npolicy = "{name}"\nworkers = 1\n[[port]]\ninterface = "lo"\n')
    done = halfwink("live", "router", str(path), "--check")
    assert done.status == 2, done.err
    assert WRONG[name] in done.complaint
    assert "router.toml:2" in done.complaint

"""Live circuits: real namespaces, a real switch, unmodified programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, descendants, need, need_bed, undisturbed, wait_until
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import halfwink
from halfwink.bed.places import Process
from halfwink.bed.star import Star, address, host_lines, wire
from halfwink.errors import HalfwinkError, RunError
from halfwink.live import check
from halfwink.live import circuits as live_circuits
from halfwink.live.circuits import PROGRAM, Circuits, Setting
from halfwink.live.served import Served, program

SETTING = Setting(hosts=4)


@pytest.fixture(autouse=True)
def _can_make_a_bed() -> None:
    need_bed()


def complaint(setting: Setting, found: dict[str, Any]) -> str | None:
    """What other work on the machine may have spoilt, if anything; the rest must hold."""
    assert found["overlaps"] == 0
    assert found["switch"]["refused_joins"] == 0
    assert found["use_pct"] <= 100.5
    sent = sum(host["sent"] for host in found["hosts"])
    apart = sent - found["forwarded"] - found["violations"]
    for host in found["hosts"]:
        assert host["for_nobody"] == host["untaken"] == 0
        assert host["load"]["reordered"] == host["load"]["foreign"] == 0
    # Switch and hosts are asked one after the other, and on a machine with other work late: what a
    # wire carries in the time between may be in one's counts alone, and so may two batches.
    wires = setting.hosts * (2 * 64 + frames_between(setting, found))
    lost = sum(found["switch"]["lost"].values()) + sum(
        host["lost"]["unsent"] for host in found["hosts"]
    )
    if lost or abs(apart) > wires:
        return f"{apart} frames were sent and are nowhere; {lost} lost in sockets, {wires} on wires"
    if found["use_pct"] < 50:
        return f"used {found['use_pct']:.1f} % of ideal"
    if found["violations"] > found["forwarded"] / 100:
        return f"{found['violations']} violations"
    return None


def frames_between(setting: Setting, found: dict[str, Any]) -> int:
    """Frames that one wire carries while the switch counts already, or still, and a host does
    not; of the host that is farthest apart."""
    switch = found["switch"]
    apart_s = 0.0
    for host in found["hosts"]:
        ends_s = host["at_s"] - switch["at_s"]
        begins_s = ends_s - (host["duration_s"] - switch["duration_s"])
        apart_s = max(apart_s, abs(ends_s) + abs(begins_s))
    return round(apart_s * 1e6 / setting.frame_us)


def played(setting: Setting, **options: Any) -> dict[str, Any]:
    """A run that other work did not spoil."""
    return undisturbed(
        lambda: live_circuits.measure(setting, **options), lambda found: complaint(setting, found)
    )


def test_all_send_to_all_and_replay_decides_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    found = played(SETTING, seconds=1, log=log)
    assert found["duty_pct"] == 90
    switch = found["switch"]
    assert switch["circuits"] == 4 * switch["slots"]
    # A day is as long as the schedule says, however late the switch gets to run; a late night is
    # longer.
    day_s = SETTING.day_us * 1e-6
    assert switch["up_s"] == pytest.approx(switch["circuits"] * day_s, rel=1e-9)
    longest = switch["duration_s"] / (SETTING.slot_us * 1e-6)
    assert 0 < switch["slots"] <= longest + 2
    assert switch["slots"] + switch["late_slots"] > 0.5 * longest
    assert switch["guard"]["count"] > 0
    told = halfwink.replay(log)
    assert told.is_equal
    assert told.header["technique"] == "round-robin:day_us=1800"
    assert told.actions > 4 * switch["slots"]


def test_jumbo_frames_and_every_kind_of_tokens() -> None:
    for tokens in live_circuits.TOKENS:
        found = played(Setting(hosts=2, tokens=tokens, mtu=9000), seconds=0.5)
        assert found["forwarded"] > 0


def test_frames_may_be_shorter_than_any_of_ipv6() -> None:
    # The kernel has no IPv6 on such an interface, nor the switch that turns it off.
    found = played(Setting(hosts=2, gbps=0.1, mtu=1000), seconds=0.5)
    assert found["forwarded"] > 0
    assert found["switch"]["lost"]["too_long"] == 0


def test_circuits_go_where_something_waits(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    setting = replace(SETTING, technique="most-needed")
    send = (
        "import os, socket, time\n"
        "if os.environ['HALFWINK_HOST'] == '0':\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "    for n in range(200):\n"
        "        s.sendto(bytes(4000), ('10.77.0.3', 9))\n"
        "        time.sleep(0.001)\n"
    )
    script = tmp_path / "send.py"
    script.write_text(send)
    found = live_circuits.measure(setting, run=f"{sys.executable} {script}", log=log)
    assert found["hosts"][2]["received"] > 0
    assert found["hosts"][1]["received"] == found["hosts"][3]["received"] == 0
    # One circuit or none in a slot, not four.
    assert found["switch"]["circuits"] <= found["switch"]["slots"]
    assert halfwink.replay(log).is_equal


def test_an_idle_fabric_rests() -> None:
    def idle() -> dict[str, Any]:
        found = live_circuits.measure(SETTING, seconds=2, idle=True)
        assert found["forwarded"] == 0
        return found

    def wrong(found: dict[str, Any]) -> str | None:
        cpu = found["cpu_pct"]
        rests = found["slots"] == 0 and cpu["switch"] + cpu["shapers"] < 2
        return None if rests else f"{found}"

    undisturbed(idle, wrong)


def test_a_file_arrives_as_it_was_sent() -> None:
    need("curl")
    found = live_circuits.transfer(SETTING, 64 << 20)
    assert found.equal
    assert found.report["switch"]["overlaps"] == 0


def test_tcp_survives_a_switch_that_is_killed() -> None:
    need("curl")
    found = live_circuits.transfer(SETTING, 16 << 20, switch_off_s=1)
    assert found.equal
    assert found.seconds > 1


def started(circuits: Circuits, words: list[str], said: str) -> Process:
    """A server of host 0, once it says that it listens."""
    server = circuits.run(
        0, words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    assert server.popen.stdout is not None
    for line in server.popen.stdout:
        if said in line:
            return server
    pytest.fail(f"{words[0]} does not begin")


def answer(circuits: Circuits, host: int, words: list[str]) -> str:
    """What a client prints."""
    client = circuits.run(host, words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found, _ = client.popen.communicate(timeout=120)
    assert client.popen.returncode == 0, found
    return found


def iperf3(*options: str) -> dict[str, Any]:
    """A second of iperf3 from host 1 to host 0."""
    with Circuits(SETTING) as circuits:
        listen = ["iperf3", "--server", "--one-off", "--forceflush"]
        server = started(circuits, listen, "Server listening")
        send = ["iperf3", "--client", address(0), "--time", "1", "--json", *options]
        found = json.loads(answer(circuits, 1, send))["end"]
        server.stop()
        assert circuits.report()["switch"]["overlaps"] == 0
    return found


def test_iperf3_over_tcp_has_the_share_of_one_circuit() -> None:
    need("iperf3")
    # A day in each week of three: what is above it, nobody can have.
    share = SETTING.gbps * 1e9 * SETTING.duty / (SETTING.hosts - 1)

    def part() -> float:
        found = iperf3()["sum_received"]["bits_per_second"] / share
        assert found <= 1.05
        return found

    undisturbed(part, lambda f: None if f >= 0.3 else f"{f:.2f} of a circuit's share")


def test_iperf3_over_udp_loses_little_below_that() -> None:
    need("iperf3")
    undisturbed(
        lambda: iperf3("--udp", "--bitrate", "50M", "--length", "1400")["sum"],
        lambda f: None if f["packets"] > 1000 and f["lost_percent"] < 5 else f"{f}",
    )


#: Of nginx, in a folder of its own; it says when it listens.
NGINX = """
worker_processes 1; daemon off; pid PLACE/pid; error_log stderr notice; USER
events { worker_connections 64; }
http {
  access_log PLACE/access.log;
  client_body_temp_path PLACE/body; proxy_temp_path PLACE/proxy; fastcgi_temp_path PLACE/fastcgi;
  uwsgi_temp_path PLACE/uwsgi; scgi_temp_path PLACE/scgi;
  server { listen 8000; root PLACE; }
}
"""


def test_nginx_answers_wrk_once_a_week(tmp_path: Path) -> None:
    need("nginx", "wrk")
    tmp_path.chmod(0o755)
    (tmp_path / "page").write_bytes(os.urandom(1000))
    user = "user root;" if os.geteuid() == 0 else ""
    config = tmp_path / "nginx.conf"
    config.write_text(NGINX.replace("PLACE", str(tmp_path)).replace("USER", user))
    connections, week_s = 4, (SETTING.hosts - 1) * SETTING.slot_us * 1e-6
    load = ["wrk", "-t1", f"-c{connections}", "-d2s", f"http://{address(0)}:8000/page"]

    def part() -> float:
        with Circuits(SETTING) as circuits:
            serve = ["nginx", "-p", str(tmp_path), "-c", str(config)]
            server = started(circuits, serve, "start worker process ")
            said = answer(circuits, 1, load)
            assert circuits.report()["switch"]["overlaps"] == 0
            server.stop()
        assert "Non-2xx" not in said, said
        found = re.search(r"(\d+) requests in ([\d.]+)s", said)
        assert found is not None, said
        lines = (tmp_path / "access.log").read_text().splitlines()
        assert len(lines) >= int(found[1])
        # A request goes in the slot of its circuit, its answer in that of the other direction: a
        # connection has one in a week at most.
        share = int(found[1]) / (connections * float(found[2]) / week_s)
        assert share <= 1.1, said
        return share

    undisturbed(part, lambda f: None if f >= 0.3 else f"{f:.2f} of a request in a week")


def test_a_host_that_answers_no_more_is_left_out_until_it_is_back() -> None:
    with Circuits(SETTING, load=True) as circuits:
        circuits.kill_host(2)
        wait_until(lambda: circuits.report()["switch"]["lost_now"] == [2])
        circuits.count_from_zero()

        def others() -> bool:
            found = circuits.report()
            return all(host["received"] > 100 for host in found["hosts"])

        wait_until(others)
        switch = circuits.report()["switch"]
        assert switch["overlaps"] == 0
        # Nobody sends to it or from it.
        assert switch["circuits"] <= 3 * switch["slots"]
        circuits.start_host(2)
        wait_until(lambda: circuits.report()["hosts"][2]["received"] > 100)
        assert circuits.report()["switch"]["lost_now"] == []


#: Frames that somebody else puts on host 0's wire: none of them is heeded.
ATTACK = """
import socket, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((NAME, 0))
host, switch = bytes.fromhex("026877000000"), bytes.fromhex("026877010000")
def frame(source, epoch, sequence):
    head = host + source + b"\\x80\\x15HWCS" + bytes([1, 1])
    words = struct.pack("<HHHHIQQQQQ", 0, 0, 1, 0, 0, epoch, sequence, 0, 10**9, 0)
    return head + words
good = frame(switch, 1, 1)
assert len(good) == 72
for n in range(100):
    s.send(good[:30 + n % 40])
    s.send(frame(host, 1 << 62, n + 1))
    s.send(good)
"""


def test_frames_of_others_are_counted_and_not_heeded() -> None:
    with Circuits(SETTING, load=True) as circuits:
        wait_until(lambda: circuits.report()["hosts"][0]["received"] > 100)
        before = circuits.report()["hosts"][0]["syncs"]
        script = ATTACK.replace("NAME", repr(wire(0)))
        circuits.star.switch.run([sys.executable, "-c", script])
        expected = {"malformed": 100, "foreign": 100, "replayed": 100}
        wait_until(lambda: circuits.report()["hosts"][0]["refused"] == expected)
        wait_until(lambda: circuits.report()["hosts"][0]["syncs"] > before + 10)
        found = circuits.report()
        assert found["switch"]["overlaps"] == 0
        assert found["hosts"][1]["refused"] == dict.fromkeys(expected, 0)
        circuits.count_from_zero()
        assert circuits.report()["hosts"][0]["refused"] == dict.fromkeys(expected, 0)


def test_nothing_stays_if_the_command_is_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "halfwink", "live", "circuits", "--seconds", "600"]
    own = os.environ | {"TMPDIR": str(tmp_path)}
    begun = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=own)

    def nodes() -> set[int]:
        return {pid for pid in descendants(begun.pid) if _is_node(pid)}

    wait_until(lambda: len(nodes()) >= 5)
    # Nodes read their descriptions, and nothing else is written.
    wait_until(lambda: not list(tmp_path.iterdir()))
    ours = nodes()
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    wait_until(lambda: not any(map(_is_node, ours)))


def test_a_node_that_dies_ends_the_bed_with_one_line() -> None:
    def lose_a_node() -> None:
        with Circuits(SETTING) as circuits:
            ours = [Path(f"/proc/{pid}") for pid in descendants(os.getpid())]
            node = next(one for one in ours if "circuits" in (one / "exe").readlink().name)
            os.kill(int(node.name), signal.SIGKILL)
            circuits.report()

    with pytest.raises(RunError, match=r"^halfwink-circuits ended with status -9$"):
        lose_a_node()


def _is_node(pid: int) -> bool:
    """Whether a process is a switch or a host, in a namespace of its own."""
    process = Path(f"/proc/{pid}")
    try:
        inside = (process / "ns/net").readlink() != Path("/proc/self/ns/net").readlink()
        return inside and b"halfwink-circuits" in (process / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--slot", "0ms"], "slot in us 0: expected 100 to 1e+06"),
        (["--slot", "2"], "--slot 2: expected a number with its unit"),
        (["--slot", "2ms", "--night", "3ms"], "night of 3000 us: expected above 0"),
        (["--slot", "2ms", "--night", "0us"], "night of 0 us: expected above 0"),
        (["--slot", "2ms", "--night", "1.98ms"], "has no room for a frame"),
        (["--hosts", "99"], "hosts 99: expected 2 to 16"),
        (["--technique", "round-robbin"], "did you mean `round-robin`"),
        (["--technique", "packet-switch"], "no circuits"),
        (["--tokens", "many"], "tokens `many`: expected pacing, aging, naive"),
        (["--gbps", "nan"], "rate in Gb/s nan"),
        (["--mtu", "9001"], "mtu 9001: expected 576 to 9000"),
        (["--seconds", "0"], "seconds 0: expected"),
        (["--slot", "2ms,0.1us"], "slot in us 0.1"),
        (["--idle", "--run", "true"], "expected one of --idle"),
        (["--transfer", "1 XB"], "--transfer 1 XB"),
        (["--switch-off", "1s"], "--switch-off goes with --transfer"),
        (["--repeats", "0"], "--repeats goes with several slots"),
        (["--slot", "1ms,2ms", "--repeats", "0"], "--repeats 0: expected 1 to 100"),
        (["--virtual", "--switch-off", "1s"], "--virtual goes without"),
        (["--log", "/no/such/folder/log"], "there is no folder"),
    ],
)
def test_what_cannot_be_is_one_line(halfwink: Halfwink, words: list[str], said: str) -> None:
    done = halfwink("live", "circuits", *words)
    assert done.status == 2
    assert said in done.complaint


def test_a_star_refuses_what_cannot_be_made() -> None:
    with pytest.raises(HalfwinkError, match="hosts 1"):
        Star(1)
    with pytest.raises(HalfwinkError, match="is not made"):
        _ = Star(2).switch


def described(folder: Path, setting: Setting) -> Path:
    """Descriptions of all nodes, each in a namespace with a name; the path of the fabric's."""
    files = {"switch.toml": setting.switch_description(namespace="switch")}
    for n in range(setting.hosts):
        files[f"host{n}.toml"] = setting.host_description(n, load=True, namespace=f"host{n}")
    nodes = ", ".join(f'"{name}"' for name in files)
    files["fabric.toml"] = f'schema = 1\nrole = "fabric"\nnodes = [{nodes}]\nwarm_up_ms = 100\n'
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder / "fabric.toml"


@contextmanager
def running(words: list[str]) -> Generator[subprocess.Popen[str]]:
    """A program that ends with the test, however that ends."""
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], text: str) -> None:
    """Waits for the next line of a program, which ends so."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.endswith(f"{text}\n"), line


def test_a_fabric_in_named_namespaces_is_one_process(tmp_path: Path) -> None:
    setting = Setting(hosts=2)
    path, report = described(tmp_path, setting), tmp_path / "report.json"
    script = ["mount -t tmpfs none /run", "ip netns add switch"]
    for n in range(setting.hosts):
        (tmp_path / f"ip{n}").write_text("\n".join(host_lines(n, 2, setting.mtu, "switch")) + "\n")
        script += [f"ip netns add host{n}", f"ip -n host{n} -batch {tmp_path}/ip{n}"]
        script.append(f"ip -n switch link set {wire(n)} up")
    log = tmp_path / "log.jsonl"
    script.append(f"exec {program(PROGRAM)} --config {path} --report {report} --log {log}")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    under = [need("unshare"), *user, "--mount", "--net", "sh", "-euc", "\n".join(script)]
    begun = time.monotonic()
    with running(under) as fabric:
        said(fabric, "ready")
        # A node's description is a part of the fabric's.
        host = tmp_path / "host1.toml"
        host.write_text(host.read_text().replace("margin_us = 23.5", "margin_us = 24"))
        fabric.send_signal(signal.SIGHUP)
        said(fabric, "margin_us: can only change by a restart; all stays as it was")

        def received() -> int:
            fabric.send_signal(signal.SIGUSR2)
            said(fabric, f"report written to {report}")
            return min(host["received"] for host in json.loads(report.read_text())["hosts"])

        wait_until(lambda: received() > 100)
        fabric.terminate()
        assert fabric.wait(120) == 0
    found = json.loads(report.read_text())
    assert found["policy"] == "round-robin:day_us=1800"
    assert found["switch"]["overlaps"] == found["log_dropped"] == 0
    assert [host["host"] for host in found["hosts"]] == [0, 1]
    for counted in (found["switch"], *found["hosts"]):
        # The warm-up of 100 ms is not counted.
        assert counted["at_s"] - begun >= counted["duration_s"] + 0.1
    assert halfwink.replay(log).is_equal


def test_a_host_serves_its_counters() -> None:
    need("curl")
    text = Setting(hosts=2).host_description(1, load=False)
    with Star(2) as star:
        place, lines = star.hosts[1], list[str]()
        node = Served(PROGRAM, text, metrics="127.0.0.1:0", place=place, tell=lines.append)
        page = place.run(["curl", "-sS", lines[0].removeprefix("metrics: ")])
        report = node.stop()
    families = {one.name: one for one in text_string_to_metric_families(page)}
    assert "halfwink_circuits_slots" not in families, "there is no switch"
    received = families["halfwink_circuits_host_received_frames"]
    assert [(one.labels, one.value) for one in received.samples] == [({"host": "1"}, 0)]
    assert (report["switch"], report["policy"], len(report["hosts"])) == (None, None, 1)
    assert report["hosts"][0]["host"] == 1


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("switch.toml", '["h0", "h1"]', '["h0", "h1", "h2"]', "switch.toml:3: interfaces: found 3"),
        ("switch.toml", "round-robin", "tap", "switch.toml:4: policy: "),
        ("host1.toml", "host = 1", "host = 0", "host1.toml:3: host: found host 0 of 2, expected 1"),
        ("fabric.toml", '"switch.toml", ', "", "fabric.toml:3: nodes: found 2 files, expected a"),
        ("fabric.toml", "switch.toml", "host0.toml", "host0.toml:2: role: expected the switch"),
        ("fabric.toml", "host1.toml", "switch.toml", "switch.toml:2: role: expected a host"),
        ("fabric.toml", "host1.toml", "host2.toml", "fabric.toml:3: nodes: "),
        ("fabric.toml", "warm_up", "warmup", "fabric.toml:4: unknown field `warmup_ms`"),
    ],
)
def test_a_mistake_in_a_fabric_names_its_file_and_line(
    tmp_path: Path, file: str, before: str, after: str, said: str
) -> None:
    path = described(tmp_path, Setting(hosts=2))
    text = (tmp_path / file).read_text()
    assert before in text
    (tmp_path / file).write_text(text.replace(before, after))
    with pytest.raises(HalfwinkError, match=re.escape(said)) as error:
        check("circuits", path)
    assert "\n" not in str(error.value)


def test_a_host_has_no_log(tmp_path: Path) -> None:
    described(tmp_path, Setting(hosts=2))
    words = ["--config", str(tmp_path / "host0.toml"), "--log", str(tmp_path / "log")]
    done = subprocess.run([program(PROGRAM), *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--log: a host has no schedule to log" in done.stderr


def test_counters_begin_at_zero_when_they_are_asked_to() -> None:
    with Circuits(SETTING, load=True) as circuits:
        wait_until(lambda: all(h["load"]["sent"] > 2000 for h in circuits.report()["hosts"]))
        before = circuits.report()
        circuits.count_from_zero()
        after = circuits.report()
        # However late the report: counts and times begin anew together.
        for then, now in zip(before["hosts"], after["hosts"], strict=True):
            assert now["duration_s"] < now["at_s"] - then["at_s"]
            assert now["begin"]["count"] <= now["days"] + 1
            # A day has room for 24 frames, a batch 64; the load fills queues of 66 frames.
            assert now["sent"] <= now["duration_s"] * 1e6 / SETTING.slot_us * 25 + 100
            assert now["load"]["sent"] <= now["sent"] + 3 * 66 + 300
        assert after["switch"]["duration_s"] < after["switch"]["at_s"] - before["switch"]["at_s"]
        assert after["switch"]["at_work"]


def test_slots_are_played_in_turns(halfwink: Halfwink) -> None:
    done = halfwink("live", "circuits", "--slot", "4ms,2ms", "--repeats", "1", "--seconds", "0.5")
    assert done.status == 0, done.err
    lines = [line for line in (done.out + done.err).splitlines() if line]
    assert all(len(line.rstrip()) <= 80 for line in lines), lines
    assert any(line.split()[:2] == ["4000", "90.0"] for line in lines), lines


def test_a_host_that_is_gone_with_its_wire_harms_no_other() -> None:
    with Circuits(SETTING, load=True) as circuits:
        gone = circuits.star.hosts[3].pid
        circuits.kill_host(3)
        os.kill(gone, signal.SIGKILL)
        wait_until(lambda: circuits.report()["switch"]["lost_now"] == [3])
        circuits.count_from_zero()
        wait_until(lambda: all(h["received"] > 100 for h in circuits.report()["hosts"]))
        assert circuits.report()["switch"]["at_work"]

"""The routers' test bed: what is sent arrives, what is lost is found, and nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    Halfwink,
    descendants,
    document,
    lacking,
    need,
    need_bed,
    received,
    undisturbed,
    wait_until,
)
from neighbours import processes

from halfwink.bed import Bed, Kind, Plan, Report, measure, traffic
from halfwink.errors import HalfwinkError, RunError

#: A user without rights, who exists on every Linux.
NOBODY = 65_534
#: Routers that are not the kernel.
PEERS = ("testpmd-af-packet", "testpmd-af-xdp", "l3fwd-power-af-packet", "halfwink-af-packet")
#: Begins a bed, says so, and waits.
HOLD = "from halfwink.bed import Bed\nwith Bed() as bed:\n    print('made', flush=True); input()\n"


@pytest.fixture(scope="module", autouse=True)
def _can_make_a_bed() -> None:
    need_bed()


@pytest.fixture(scope="module")
def wire() -> Generator[Bed]:
    """Generator straight into sink."""
    with Bed(direct=True) as bed:
        yield bed


@pytest.fixture(scope="module")
def routed() -> Generator[Bed]:
    """The kernel as the router."""
    with Bed() as bed:
        bed.forward()
        yield bed


def whole(bed: Bed, **options: Any) -> dict[str, Any]:
    """A trial of which all frames arrived, once and in order.

    Loss alone may be the machine's: a thread that waits for its CPU for longer than its ring holds.
    """

    def trial() -> dict[str, Any]:
        found = bed.trial(**options)
        for name in ("duplicated", "corrupt", "bad_headers", "reordered"):
            assert found[name] == 0, name
        return found

    return undisturbed(trial, lambda f: f"{f}" if f["lost"] or f["sink_drops"] else None)


def test_counts_are_exact(wire: Bed):
    found = whole(wire, pps=5000, seconds=0.4, flows=10)
    assert found["sent"] == found["received"] == 2000
    sent, received = found["generator"], found["sink"]
    assert sent["frames"] == sent["scheduled_frames"]
    assert received["bytes"] == sent["bytes"] == 2000 * 60
    assert received["flows"]["flows"] == 10
    assert received["hops_left"] == [64, 64]
    assert sum(slot["frames"] for slot in received["slots"]) == 2000
    assert received["latency_us"]["p50"] <= received["latency_us"]["max"]


def test_rates_are_kept(wire: Bed):
    def ratio() -> float:
        both = [wire.trial(pps=pps, seconds=0.4)["generator"]["pps"] for pps in (1000, 4000)]
        return both[1] / both[0]

    undisturbed(ratio, lambda r: None if 3.6 < r < 4.4 else f"{r:.2f} times the rate")


def test_steps_and_ramps(wire: Bed):
    rates = traffic.steps("1000,0,1000..3000", 0.6)

    def trial() -> list[int]:
        found = whole(wire, rates=rates, sink={"slot_ms": 200})
        assert found["sent"] == pytest.approx(600, abs=2)
        return [slot["frames"] for slot in found["sink"]["slots"]]

    def wrong(slots: list[int]) -> str | None:
        # A slot may lose some frames to the next.
        first, _, last = slots[:3]
        return None if 140 < first < 260 and first < last < 3 * first else f"{slots}"

    undisturbed(trial, wrong)


def test_bursts_arrive_together(wire: Bed, tmp_path: Path):
    path = tmp_path / "bursts.pcapng"
    found = whole(wire, pps=2000, seconds=0.5, burst=50, sink={"capture": str(path)})
    assert found["sent"] == 1000
    assert found["sink"]["captured"] >= 1000


def test_profile_sets_the_rates_of_the_generator(wire: Bed):
    rates = traffic.profile("world-cup", seconds=0.5, peak_pps=10_000)
    found = whole(wire, rates=rates)
    assert found["sent"] == found["generator"]["scheduled_frames"]
    slots = traffic.profile("evaluation", seconds=6, peak_pps=1000)
    assert sum(s * pps for s, pps, _ in slots) == pytest.approx(0.35 * 6 * 1000, rel=1e-3)


def test_mixes_of_sizes_and_families(wire: Bed):
    found = whole(
        wire, pps=3000, seconds=0.3, sizes="imix", flows=20, to=["198.18.0.0/24", "2001:2::/64"]
    )
    assert found["received"] == 900
    assert found["sink"]["bytes"] == found["generator"]["bytes"] > 900 * 80


def test_a_capture_is_replayed(wire: Bed, tmp_path: Path):
    for name in ("a.pcap", "a.pcapng"):
        path = tmp_path / name
        first = whole(wire, pps=2000, seconds=0.2, flows=7, sink={"capture": str(path)})
        captured = first["sink"]["captured"]
        assert captured >= 400

        def replayed(path: Path = path, captured: int = captured) -> tuple[dict[str, Any], float]:
            # Stamps are replayed too: to the sink they are old frames, whole and in order.
            again = wire.trial(pps="captured", replay=str(path))
            assert again["sent"] == captured
            slower = wire.trial(pps="captured", replay=str(path), faster=0.25)
            return again, slower["generator"]["seconds"] / again["generator"]["seconds"]

        def wrong(found: tuple[dict[str, Any], float]) -> str | None:
            is_whole = found[0]["received"] == 400 and 2.4 < found[1] < 5.6
            return None if is_whole else f"{found}"

        undisturbed(replayed, wrong)
        options: dict[str, Any] = {"pps": 4000, "seconds": 10, "replay": str(path), "repeat": 2}

        def twice(options: dict[str, Any] = options, captured: int = captured) -> dict[str, Any]:
            found = wire.trial(**options)
            assert found["sent"] == 2 * captured
            return found

        undisturbed(twice, lambda f: None if f["received"] == f["duplicated"] == 400 else f"{f}")


def test_what_is_lost_is_counted(routed: Bed):
    macs = [routed.mac(routed.router, "rt0")]
    to = ["198.18.0.1", "198.18.0.2"]
    options = {"pps": 2000, "seconds": 0.3, "flows": 4, "macs": macs, "to": to}
    whole(routed, **options)
    routed.router.shell("ip route add blackhole 198.18.0.2")
    try:
        found = undisturbed(
            lambda: routed.trial(**options), lambda f: None if f["received"] == 300 else f"{f}"
        )
    finally:
        routed.router.shell("ip route del blackhole 198.18.0.2")
    assert (found["sent"], found["lost"]) == (600, 300)
    assert found["loss"] == 0.5


@pytest.mark.parametrize("to", [["198.18.0.0/24"], ["2001:2::/64"]])
def test_the_kernel_forwards_all(routed: Bed, to: list[str]):
    found = whole(routed, pps=5000, seconds=0.4, to=to)
    assert found["received"] == 2000
    assert found["sink"]["hops_left"] == [63, 63]


def test_settings_of_the_ports_are_kept():
    with Bed(queues=2, gro=True, threaded_napi=True, mtu=2000, defer_hard_irqs=2) as bed:
        bed.forward()
        whole(bed, pps=2000, seconds=0.2)
        sys_class = "/sys/class/net/rt0"
        shown = bed.router.shell(
            f"cat {sys_class}/threaded {sys_class}/mtu {sys_class}/napi_defer_hard_irqs\n"
            f"ls -d {sys_class}/queues/rx-*"
        )
        assert shown.split()[:3] == ["1", "2000", "2"]
        assert len(shown.split()[3:]) == 2
        big = whole(bed, pps=500, seconds=0.1, sizes="2014")
        assert big["received"] == 50


@pytest.mark.parametrize("name", PEERS)
def test_peers_forward(name: str):
    kind = Kind(name)
    if kind.programs:
        need(*kind.programs)
    try:
        with kind.bed() as bed, kind.begin(bed) as router:
            options: dict[str, Any] = {"to": [kind.to]} if kind.to else {}
            options |= {"pps": 1000, "seconds": 0.3, "macs": [bed.mac(bed.router, "rt0")]}
            found = undisturbed(
                lambda: bed.trial(**options), lambda f: f"{f}" if f["lost"] else None
            )
            assert len(router.processes) == 1
    except RunError as error:
        # A kernel without XDP on veth, or too little memory, is no fault of ours.
        lacking(str(error), kernel=True)
    assert (found["received"], found["lost"], found["duplicated"]) == (300, 0, 0)
    # l3fwd-power leaves the checksum to hardware that these drivers do not have: the sink sees it.
    assert found["bad_headers"] == (300 if name.startswith("l3fwd") else 0)
    # testpmd's mac mode forwards like a bridge.
    assert found["sink"]["hops_left"] == ([64, 64] if name.startswith("testpmd") else [63, 63])


def test_routers_side_by_side():
    plan = Plan(repeats=1, trial_s=0.05, load_s=0.1, steps=1)

    def lost(report: Report) -> str | None:
        slow = [row for row in report.rows if row["load"] == "1 kpps"]
        return f"{slow}" if any(row["loss"] for row in slow) else None

    report = undisturbed(lambda: measure([Kind("kernel")], plan), lost)
    assert report.failed == {}
    assert set(report.maxima) == {"none", "kernel"}
    assert 0 < report.common_pps <= report.generator_pps
    loads = {row["load"] for row in report.rows if row["kind"] == "kernel"}
    assert loads == {"idle", "1 kpps", "10%", "35%", "100%"}
    for row in report.rows:
        if row["load"] == "1 kpps":
            assert 0 < row["p50_us"] <= row["p99_us"]
        if row["load"] == "idle":
            assert 0 <= row["idle_cpu_pct"] < 100
    with pytest.raises(HalfwinkError, match="expected one of"):
        measure([Kind("nothing")], plan)


def test_the_zero_leaves_out_what_the_generator_waits(wire: Bed):
    def both() -> tuple[dict[str, Any], dict[str, Any]]:
        awake = wire.trial(pps=1000, seconds=0.4, spin_us=1e6)["generator"]
        asleep = wire.trial(pps=1000, seconds=0.4, spin_us=0)["generator"]
        assert asleep["spin_s"] <= 0.1 * asleep["cpu_s"]
        return awake, asleep

    def wrong(found: tuple[dict[str, Any], dict[str, Any]]) -> str | None:
        # Waiting awake is nearly all of it; beside others it gets no CPU to spin on.
        awake, asleep = found
        is_more = awake["spin_s"] > 0.5 * awake["cpu_s"] and asleep["cpu_s"] < awake["cpu_s"]
        return None if is_more else f"{found}"

    undisturbed(both, wrong)


def test_what_cannot_be_is_refused(wire: Bed):
    for options in ({"sizes": "59"}, {"flows": 0}, {"to": ["10.0.0.0/40"]}, {"macs": ["x"]}):
        with pytest.raises(HalfwinkError):
            wire.trial(pps=10, seconds=0.1, **({"macs": ["02:00:00:00:00:01"]} | options))
    with pytest.raises(HalfwinkError, match="no such interface"):
        wire.worker("sink").begin("sink", interfaces="nowhere")
    with pytest.raises(RunError):
        wire.generator.run(["false"])
    with pytest.raises(HalfwinkError):
        Bed(threaded_napi=True)
    # After all that it still works.
    whole(wire, pps=1000, seconds=0.1)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_stays_behind(how: int):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"made\n"
        made = set(namespaces(descendants(holder.pid))) - set(namespaces({os.getpid()}))
        assert len(made) >= 3
        holder.send_signal(how)
        holder.wait(120)
    wait_until(lambda: not made & set(namespaces(set(processes()))))


def namespaces(pids: set[int]) -> Iterator[str]:
    """Network namespaces that processes are in."""
    for pid in pids:
        with suppress(OSError):
            yield str(Path(f"/proc/{pid}/ns/net").readlink())


def test_in_a_user_namespace():
    with Bed(user_namespace=True) as bed:
        bed.forward()
        whole(bed, pps=1000, seconds=0.2)


#: Programs of the system only: a user without rights may not be able to read ours.
UNPRIVILEGED = """
import json, os, sys
from halfwink.bed import Bed, worker
from halfwink.bed import traffic
os.chdir("/")
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
with Bed() as bed:
    bed.forward()
    count = ["ip", "-json", "-statistics", "link", "show", "dev", "sink0"]
    packets = lambda: json.loads(bed.sink.run(count))[0]["stats64"]["rx"]["packets"]
    before = packets()
    for n in range(20):
        bed.generator.run(["bash", "-c", "echo x >/dev/udp/198.18.0.1/9"])
    print(json.dumps([os.geteuid(), packets() - before]))
"""


def test_a_user_without_rights_can_make_a_bed():
    need("setpriv")
    root = os.geteuid() == 0
    user = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if root else []
    probe = [*user, "unshare", "--user", "--map-root-user", "--net", "true"]
    refusal = subprocess.run(probe, capture_output=True, text=True, check=False)
    if refusal.returncode != 0:
        lacking(f"user namespaces: {refusal.stderr.strip()}; see halfwink doctor", kernel=True)
    words = [sys.executable, "-c", UNPRIVILEGED, str(NOBODY)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    uid, packets = json.loads(done.stdout)
    assert uid == (NOBODY if root else os.geteuid())
    assert packets >= 20


def test_live_source_and_sink_run_from_the_command_line(wire: Bed, tmp_path: Path):
    def words(*more: str) -> list[str]:
        return [sys.executable, "-m", "halfwink", "live", *more]

    watching = wire.sink.start(
        words("sink", "sink0", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert watching.popen.stderr is not None
    assert watching.popen.stderr.readline() == "ready\n"
    out = tmp_path / "sent.json"
    shown = wire.generator.run(
        words("generate", "gen0", "--pps", "1000", "--seconds", "0.2", "-o", str(out))
    )
    assert "frames/s" in shown
    sent = document(out.read_text())["facts"]
    # The first signal ends it with its result.
    watching.signal(signal.SIGTERM)
    text, _ = watching.popen.communicate(timeout=120)
    assert watching.popen.returncode == 0
    assert document(text)["facts"]["order"]["received"] == sent["frames"] == 200

    endless = wire.generator.start(
        words("generate", "gen0", "--seconds", "1000", "--json"), stdout=subprocess.PIPE
    )
    sent_so_far = "/sys/class/net/gen0/statistics/tx_packets"
    before = int(wire.generator.run(["cat", sent_so_far]))
    # The kernel sends a few of its own.
    wait_until(lambda: int(wire.generator.run(["cat", sent_so_far])) > before + 100)
    endless.signal(signal.SIGINT)
    text, _ = endless.popen.communicate(timeout=120)
    assert document(text)["facts"]["stopped"]


def test_flows_are_dealt_out_to_interfaces(routed: Bed):
    macs = [routed.mac(routed.generator, "gen0"), routed.mac(routed.sink, "sink0")]
    words = [sys.executable, "-m", "halfwink", "live", "generate", "rt0", "rt1", "--json"]
    words += ["--mac", macs[0], "--mac", macs[1], "--flows", "6", "--pps", "3000"]

    def trial() -> tuple[int, dict[str, Any]]:
        watcher = routed.worker("sink")
        watcher.begin("sink", interfaces="sink0")
        before = received(routed.sink, "sink0")
        sent = document(routed.router.run([*words, "--seconds", "0.2"]))["facts"]
        wait_until(lambda: received(routed.sink, "sink0") >= before + sent["frames"] // 2)
        watcher.stop()
        return sent["frames"], watcher.result()

    # A watcher without CPU loses frames that have arrived.
    sent, found = undisturbed(trial, lambda f: None if f[1]["frames"] == 300 else f"{f}")
    # Every other flow, whole: seen over all frames, every other number is missing.
    assert (sent, found["frames"]) == (600, 300)
    assert found["flows"] | {"order": None} == {"flows": 3, "disturbed": 0, "order": None}


def test_mistakes_on_the_command_line(halfwink: Halfwink):
    for words, expected in (
        (["generate", "nowhere0"], "nowhere0"),
        (["sink", "nowhere0"], "nowhere0: there is no such interface"),
        (["generate", "lo", "--pps", "fast"], "expected rates such as"),
        (["generate", "lo", "--pps", "captured"], "expected --replay FILE"),
        (["generate", "lo", "--flows", "0"], "--flows 0"),
        (["generate", "lo", "--profile", "x"], "profile x: expected"),
        (["generate", "lo", "--mac", "1:2"], "expected a MAC address"),
    ):
        done = halfwink("live", *words)
        assert done.status == 2, words
        assert expected in done.complaint

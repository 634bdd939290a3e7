"""The live router, between real interfaces of network namespaces."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, lacking, need, need_bed, received, undisturbed, wait_until
from steer_bed import ledger_balances

import halfwink
from halfwink.bed import Bed, Live, description, routes
from halfwink.errors import RunError

V6 = ["2001:2::/48"]


@pytest.fixture(scope="module", autouse=True)
def _can_make_a_bed() -> None:
    need("ping")
    need_bed()


@pytest.fixture(scope="module")
def bed() -> Generator[Bed]:
    with Bed() as made:
        if made.router.run(["id", "-u"]).strip() != "0":
            lacking("AF_XDP: run as root", kernel=True)
        yield made


def nothing_wrong(bed: Bed, **options: Any) -> None:
    """A trial in which nothing goes wrong.

    Loss alone may be the machine's: what else runs on it can keep a router from its CPU for longer
    than its rings hold.
    """

    def trial() -> dict[str, Any]:
        found = bed.trial(**options)
        for name in ("duplicated", "corrupt", "reordered"):
            assert found[name] == 0, (name, found)
        return found

    undisturbed(trial, lambda f: f"{f}" if f["lost"] or f["sink_drops"] else None)


def balanced(report: dict[str, Any]) -> None:
    """Every frame that was taken is accounted for."""
    packets = report["packets"]
    dropped = sum(count for name, count in packets.items() if name.startswith("drop_"))
    held = packets["held"]
    assert report["received"] == packets["received"] + report["overflowed"]
    ends = packets["forwarded"] + packets["consumed"] + dropped
    # A frame that was held is sent or dropped later.
    assert ends <= packets["received"] <= ends + held
    for worker in report["workers"]:
        total = sum(worker["residency"].values())
        assert total == pytest.approx(report["duration_s"], rel=0.05, abs=0.05)
    ledger_balances(report)


def ping(bed: Bed, to: str, *words: str) -> str:
    return bed.generator.run(["ping", "-c", "1", "-W", "4", *words, to], check=False)


@pytest.mark.parametrize("io", ["af-xdp", "af-xdp-generic", "af-packet", "auto"])
def test_forwards_by_every_kind_of_socket(bed: Bed, io: str):
    with Live(bed, description(io=io)) as live:
        nothing_wrong(bed, pps=4000, seconds=0.5, flows=20)
        nothing_wrong(bed, pps=4000, seconds=0.5, flows=20, to=V6)
        report = live.result()
    balanced(report)
    assert report["packets"]["forwarded"] >= 4000
    wanted = "af-xdp" if io == "auto" else io
    assert [port["io"] for port in report["ports"]] == [wanted, wanted]
    assert report["modelled"]["asleep_w"] < report["modelled"]["energy_w"]
    assert report["modelled"]["energy_w"] < report["modelled"]["polling_w"]


def test_several_queues_and_one_worker(bed: Bed):
    with Bed(queues=2) as wide, Live(wide, description(workers=1)) as live:
        nothing_wrong(wide, pps=4000, seconds=0.5, flows=64)
        report = live.result()
    balanced(report)
    assert [port["queues"] for port in report["ports"]] == [2, 2]


def test_without_privileges_packet_sockets_go(bed: Bed):
    with Bed(user_namespace=True) as own:
        with Live(own, description(io="af-packet")):
            nothing_wrong(own, pps=2000, seconds=0.3)
        with pytest.raises(RunError, match=r"rt0 by AF_XDP: .*needs CAP_NET_ADMIN.*CAP_BPF"):
            Live(own, description(io="af-xdp"))


def test_four_capabilities_are_enough(bed: Bed):
    need("setpriv")
    # The fifth is only for reading a clone in somebody's home.
    caps = "-all,+net_raw,+net_admin,+bpf,+ipc_lock,+dac_read_search"
    drop = ["setpriv", "--inh-caps", caps, "--ambient-caps", caps, "--bounding-set", caps]
    nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
    with Live(bed, under=[*drop, *nobody]) as live:
        status = Path(f"/proc/{live.process.pid}/status").read_text()
        assert "CapEff:\t0000008000007004" in status
        nothing_wrong(bed, pps=2000, seconds=0.3)


@pytest.mark.parametrize(
    "policy",
    [
        "polling",
        "napi",
        "napi-teo",
        "nmap-dvfs",
        "l3fwd-power",
        "metronome",
        "grout-rss",
        "suricata",
        "vpp-adaptive",
    ],
)
def test_every_kind_of_policy_forwards(bed: Bed, policy: str):
    with Live(bed, description(policy=policy, workers=1)) as live:
        nothing_wrong(bed, pps=1000, seconds=0.3)
        report = live.result()
    balanced(report)
    slept = sum(report["workers"][0]["residency"][state] for state in ("c1_s", "c3_s", "c6_s"))
    assert (slept == 0) == (policy == "polling")


def test_scales_up_and_down_without_loss_or_overtaking(bed: Bed, tmp_path: Path):
    log = tmp_path / "log.jsonl"
    with Live(bed, words=["--log", str(log)]) as live:
        ping(bed, "10.2.0.2")
        nothing_wrong(bed, pps=20_000, seconds=1.5, burst=256, flows=64)
        report = live.result()
        balanced(report)
        assert report["changes"] >= 4
        assert report["moves"] > 128
        assert min(worker["served"] for worker in report["workers"]) > 0
    # The log, told to the policy as the simulator has it, leads to the same actions.
    assert (report["log_dropped"], report["steps_back"]) == (0, 0)
    again = halfwink.replay(log)
    lines = log.read_text().splitlines()
    assert (again.first_difference, again.lines) == (None, len(lines) - 2), "header and footer"
    poll = next(n for n, line in enumerate(lines) if '"waiting":' in line and '"wake"' in line)
    lines[poll] = json.dumps({**json.loads(lines[poll]), "actions": []})
    log.write_text("\n".join(lines) + "\n")
    assert halfwink.replay(log).first_difference is not None


def test_answers_as_a_router_does(bed: Bed):
    with Live(bed) as live:
        assert " 0% packet loss" in ping(bed, "10.2.0.2")
        assert " 0% packet loss" in ping(bed, "fd02::2")
        assert " 0% packet loss" in ping(bed, "10.1.0.1")
        assert " 0% packet loss" in ping(bed, "fd01::1")
        assert "From 10.1.0.1 icmp_seq=1 Time to live exceeded" in ping(bed, "10.2.0.2", "-t", "1")
        assert "From fd01::1 icmp_seq=1 Time exceeded: Hop limit" in ping(bed, "fd02::2", "-t", "1")
        assert "From 10.1.0.1 icmp_seq=1 Destination Net Unreachable" in ping(bed, "10.9.0.1")
        assert "From 10.1.0.1 icmp_seq=1 Destination Host Unreachable" in ping(bed, "10.2.0.9")
        assert " 0% packet loss" in ping(bed, "10.2.0.2", "-M", "do", "-s", "1472")
        report = live.result()
    balanced(report)
    assert report["packets"]["drop_ttl_exceeded"] == 2


def test_what_is_short_on_the_way_is_said(bed: Bed):
    bed.router.shell("ip link set rt1 mtu 1400")
    bed.sink.shell("ip link set sink0 mtu 1400")
    try:
        with Live(bed):
            found = ping(bed, "10.2.0.2", "-M", "do", "-s", "1472")
            assert "From 10.1.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1400)" in found
            assert " 0% packet loss" in ping(bed, "10.2.0.2", "-M", "dont", "-s", "1472")
            assert "Packet too big: mtu=1400" in ping(bed, "fd02::2", "-M", "do", "-s", "1452")
    finally:
        bed.router.shell("ip link set rt1 mtu 1500")
        bed.sink.shell("ip link set sink0 mtu 1500")
        for flush in ("-4", "-6"):
            bed.generator.run(["ip", flush, "route", "flush", "cache"])


#: Who has 10.1.0.1? In VLAN 7, from 10.1.0.77.
TAGGED = """
import socket
arp = "00010800060400010200000000990a01004d0000000000000a010001"
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("gen0", 0))
wire.send(bytes.fromhex("ffffffffffff020000000099" + "81000007" + "0806" + arp) + bytes(18))
"""


@pytest.mark.parametrize("io", ["af-xdp", "af-xdp-generic", "af-packet"])
def test_frames_of_a_vlan_are_none_of_its_business(bed: Bed, io: str):
    """The kernel takes their tags out, and packet sockets hear of them beside the frame."""
    # What they know of the router from other tests they would ask it to confirm.
    for place in (bed.generator, bed.sink):
        place.shell("ip -4 neighbour flush all; ip -6 neighbour flush all")
    with Live(bed, description(io=io)) as live:
        bed.generator.run([sys.executable, "-c", TAGGED])
        report = live.result()
    balanced(report)
    assert report["packets"]["drop_vlan"] == 1
    assert report["packets"]["neighbour_replies"] == 0


def test_a_port_whose_frames_would_not_fit_is_refused(bed: Bed):
    bed.router.shell("ip link set rt1 mtu 9000")
    try:
        with pytest.raises(RunError, match="rt1: found an MTU of 9000, expected at most 1500"):
            Live(bed)
    finally:
        bed.router.shell("ip link set rt1 mtu 1500")


def test_a_second_router_on_an_interface_is_refused(bed: Bed):
    with Live(bed) as live:
        said = "interface rt0: another router of halfwink has it, expected one that none has"
        with pytest.raises(RunError, match=said):
            Live(bed, description(io="af-packet"))
        assert " 0% packet loss" in ping(bed, "10.2.0.2")
        live.result()


def test_an_mtu_that_changes_is_said_and_followed(bed: Bed):
    big = ("-s", "1400", "-M", "do")
    with Live(bed, description(io="af-packet")) as live:
        assert " 0% packet loss" in ping(bed, "10.2.0.2", *big)
        bed.router.shell("ip link set rt1 mtu 1300")
        try:
            wait_until(lambda: "rt1: MTU changed from 1500 to 1300 bytes\n" in live.said())
            # Longer packets are not lost in silence any more: their sender is told.
            wait_until(lambda: "mtu = 1300" in ping(bed, "10.2.0.2", *big))
        finally:
            bed.router.shell("ip link set rt1 mtu 1500")
            bed.generator.shell("ip route flush cache")
        wait_until(lambda: "rt1: MTU changed from 1300 to 1500 bytes\n" in live.said())
        live.result()


def test_sigterm_drains_and_leaves_nothing(bed: Bed):
    with Live(bed) as live:
        macs = [bed.mac(bed.router, "rt0")]
        generator = bed.worker("generator")
        before = received(bed.router, "rt0")
        generator.begin("generator", interfaces="gen0", pps=5000, seconds=1.0, macs=macs)
        # In the middle of it.
        wait_until(lambda: received(bed.router, "rt0") > before + 500)
        report = live.result()
        generator.result()
    balanced(report)
    assert report["packets"]["forwarded"] > 0
    assert [worker["waiting"] for worker in report["workers"]] == [0, 0]
    assert "xdp" not in bed.router.run(["ip", "-details", "link", "show"])


def test_takes_new_routes_without_loss(bed: Bed):
    more = "".join(f"100.64.{n}.0/24 via 10.2.0.2\n" for n in range(200))
    with Live(bed) as live:
        macs = [bed.mac(bed.router, "rt0")]

        def trial() -> tuple[int, int]:
            """Frames that were sent and that came, while routes were added."""
            generator, sink = bed.worker("generator"), bed.worker("sink")
            live.routes.write_text(routes())
            ping(bed, "10.2.0.2")
            sink.begin("sink", interfaces="sink0")
            before, arrived = received(bed.router, "rt0"), received(bed.sink, "sink0")
            generator.begin("generator", interfaces="gen0", pps=4000, seconds=1.2, macs=macs)
            wait_until(lambda: received(bed.router, "rt0") > before + 500)
            live.routes.write_text(routes() + more + "unreachable 203.0.113.0/24\n")
            live.process.signal(signal.SIGHUP)
            sent = generator.result()["frames"]
            # Frames that a ring had no room for never come.
            with contextlib.suppress(AssertionError):
                wait_until(lambda: received(bed.sink, "sink0") >= arrived + sent, seconds=10)
            sink.stop()
            return sent, sink.result()["order"]["received"]

        undisturbed(trial, lambda f: None if f[0] == f[1] else f"{f[0] - f[1]} of {f[0]} lost")
        assert "again" in live.said()
        assert "From 10.1.0.1 icmp_seq=1 Destination Host Unreachable" in ping(bed, "203.0.113.9")
        live.routes.write_text("not a route\n")
        live.process.signal(signal.SIGHUP)
        said = wait_until(lambda: "all stays as it was" in live.said() and live.said())
        assert "routes.txt: line 1" in said or "routes.txt:1" in said
        assert " 0% packet loss" in ping(bed, "10.2.0.2")


#: Most changes of a policy while frames are carried: its log has a header for each.
MOST_CHANGES = 20


def test_takes_another_policy_in_mid_traffic(bed: Bed, tmp_path: Path):
    log, policies = tmp_path / "log.jsonl", ["power-save-in-order", "napi", "metronome"]
    texts = [description(policy=policy) for policy in policies]
    taken = [policies[0]]
    with Live(bed, texts[0], words=["--log", str(log)]) as live:
        with ThreadPoolExecutor() as pool:
            carrying = pool.submit(nothing_wrong, bed, pps=4000, seconds=2.0, flows=20)
            while not carrying.done() and len(taken) < MOST_CHANGES:
                more = received(bed.router, "rt0") + 200
                wait_until(lambda n=more: received(bed.router, "rt0") > n or carrying.done())
                next_one = len(taken) % len(policies)
                live.path.write_text(texts[next_one])
                live.process.signal(signal.SIGHUP)
                taken.append(policies[next_one])
                wait_until(lambda: live.said().count("again: policy changed") == len(taken) - 1)
            carrying.result()
        report = live.result()
    balanced(report)
    # Workers that one policy parks take part under the next one.
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["technique"] for line in lines if "technique" in line] == taken
    assert halfwink.replay(log).first_difference is None


def test_an_interface_goes_and_comes_back(bed: Bed):
    metrics = "127.0.0.1:9475"
    with Live(bed, words=["--metrics", metrics]) as live:
        assert " 0% packet loss" in ping(bed, "10.2.0.2")
        bed.router.shell("ip link set rt1 down")
        wait_until(lambda: not up(bed, metrics, "rt1"))
        assert " 100% packet loss" in ping(bed, "10.2.0.2", "-W", "1")
        bed.router.shell("ip link set rt1 up")
        wait_until(lambda: up(bed, metrics, "rt1"))
        assert " 0% packet loss" in wait_until(lambda: " 0% " in (p := ping(bed, "10.2.0.2")) and p)
        bed.router.shell("ip link delete rt1")
        wait_until(lambda: not up(bed, metrics, "rt1"))
        bed.join_sink()
        bed.hand_over()
        wait_until(lambda: up(bed, metrics, "rt1"))
        assert " 0% packet loss" in wait_until(lambda: " 0% " in (p := ping(bed, "10.2.0.2")) and p)
        report = live.result()
    assert [port["gone"] for port in report["ports"]] == [0, 2]


def test_links_that_flap_leave_no_frame_with_the_kernel(bed: Bed):
    metrics = "127.0.0.1:9475"
    with Live(bed, description(io="auto"), words=["--metrics", metrics]) as live:
        for _ in range(8):
            bed.router.shell("ip link set rt1 down")
            wait_until(lambda: not up(bed, metrics, "rt1"))
            bed.router.shell("ip link set rt1 up")
            wait_until(lambda: up(bed, metrics, "rt1"))
        assert " 0% packet loss" in wait_until(lambda: " 0% " in (p := ping(bed, "10.2.0.2")) and p)
        said = live.said()
        report = live.result()
    assert [port["gone"] for port in report["ports"]] == [0, 8]
    assert said.count("rt1: gone") == said.count("rt1: back by") == 8


def test_an_interface_that_comes_back_without_native_xdp_is_opened_as_at_the_start(bed: Bed):
    metrics = "127.0.0.1:9475"
    with Live(bed, description(io="auto"), words=["--metrics", metrics]) as live:
        bed.router.shell("ip link set rt1 down")
        wait_until(lambda: not up(bed, metrics, "rt1"))
        # veth has no native XDP where its peer may send longer frames than a page holds.
        bed.sink.shell("ip link set sink0 mtu 9000")
        try:
            bed.router.shell("ip link set rt1 up")
            wait_until(lambda: up(bed, metrics, "rt1"))
            wait_until(lambda: " 0% " in ping(bed, "10.2.0.2"))
        finally:
            bed.sink.shell("ip link set sink0 mtu 1500")
        assert "rt1: back by af-xdp-generic, no longer by af-xdp\n" in live.said()
        report = live.result()
    assert [port["io"] for port in report["ports"]] == ["af-xdp", "af-xdp-generic"]


def up(bed: Bed, address: str, interface: str) -> bool:
    return f'halfwink_port_up{{interface="{interface}"}} 1\n' in scrape(bed, address)


def scrape(bed: Bed, address: str) -> str:
    need("curl")
    return bed.router.run(["curl", "-sS", f"http://{address}/metrics"])


def test_metrics_are_openmetrics(bed: Bed):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    with Live(bed, words=["--metrics", "127.0.0.1:9475"]):
        nothing_wrong(bed, pps=1000, seconds=0.3)
        families = {
            family.name: family
            for family in text_string_to_metric_families(scrape(bed, "127.0.0.1:9475"))
        }
    received = {
        s.labels["interface"]: s.value
        for s in families["halfwink_port_frames_received"].samples
        if s.name.endswith("_total")
    }
    assert received["rt0"] >= 300
    assert "modelled" in families["halfwink_modelled_energy_joules"].documentation


def test_a_tap_device_is_a_port(bed: Bed):
    text = description() + (
        '[[port]]\ninterface = "hwtap0"\nio = "tap"\naddresses = ["10.3.0.1/24"]\n'
    )
    with Live(bed, text) as live:
        bed.router.shell("ip address add 10.3.0.2/24 dev hwtap0; ip link set hwtap0 up")
        bed.router.shell("ip route add 10.2.0.0/24 via 10.3.0.1")
        words = ["ping", "-c", "3", "-i", "0.05", "-W", "4", "10.2.0.2"]
        assert " 0% packet loss" in bed.router.run(words, check=False)
        report = live.result()
    assert report["ports"][2]["io"] == "tap"
    assert report["ports"][2]["received"] >= 3


def test_what_is_wrong_is_said_in_one_line(halfwink: Halfwink, tmp_path: Path):
    path = tmp_path / "router.toml"
    good = description(io="af-packet")
    for text, expected in (
        (good.replace("schema = 1", "schema = 7"), "router.toml:1: schema: found 7"),
        (good.replace("power-save-in-order", "power-safe"), "power-safe"),
        (good.replace("workers = 2", "workers = 0"), "router.toml:3: workers: found 0"),
        (good.replace("10.1.0.1/24", "10.1.0.1/240"), "router.toml:"),
        (good.replace('"rt0"', '"no-such-if"'), "no-such-if by AF_PACKET: no such interface"),
        (good.replace("schema = 1", 'schema = 1\nmachine = "nil"'), "nil"),
    ):
        path.write_text(text)
        done = halfwink("live", "router", str(path))
        assert done.status in (1, 2), done.err
        assert expected in done.complaint
    assert "No such file" in halfwink("live", "router", str(tmp_path / "none.toml")).complaint
    path.write_text(good)
    assert "--seconds" in halfwink("live", "router", str(path), "--seconds", "0").complaint


@pytest.mark.parametrize("export", ["ipfix", "netflow-9", "netflow-5"])
def test_a_real_collector_reads_the_flows(bed: Bed, tmp_path: Path, export: str):
    need("nfcapd", "nfdump", "ss")
    words = ["nfcapd", "-l", str(tmp_path), "-p", "9995", "-b", "127.0.0.1", "-t", "60"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    collector = bed.router.start(words, **quiet)
    try:
        wait_until(lambda: "9995" in bed.router.run(["ss", "-Huln"]))
        app = f'kind = "netflow"\ncollector = "127.0.0.1:9995"\nformat = "{export}"'
        with Live(bed, description(app=app)) as live:
            trial = bed.trial(pps=4000, seconds=0.5, flows=10)
            report = live.result()
        assert report["exported"] > 0
        assert report["unexported"] == 0
    finally:
        collector.stop()
    show = ["nfdump", "-q", "-R", str(tmp_path), "-o", "fmt:%pr %da %dp %pkt %byt"]
    lines = subprocess.run(show, capture_output=True, text=True, check=True).stdout.splitlines()
    flows = sorted(line.split() for line in lines if line.startswith("UDP"))
    # A flow that rested for long is exported in parts. Frames of 60 bytes hold IP packets of 46.
    seen: Counter[str] = Counter()
    for _, to, _, packets, size in flows:
        seen[to] += int(packets)
        assert int(size) == 46 * int(packets)
    assert seen.total() == report["packets"]["forwarded"]
    assert set(seen) == {f"198.18.0.{n}" for n in range(1, 11)}
    # What a busy machine kept from the router is in no flow.
    assert max(seen.values()) <= 200
    if not trial["lost"]:
        assert min(seen.values()) == 200

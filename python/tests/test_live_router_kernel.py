"""The live router as controller of the kernel's forwarding."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, lacking, need, need_bed, tool, wait_until
from steer_bed import ledger_balances
from test_live_router import V6, nothing_wrong, ping, scrape, up

import halfwink
from halfwink.bed import Bed, Live, description, small_xdp
from halfwink.bed.places import python
from halfwink.errors import RunError
from halfwink.live.served import check

XDP = description(forward="xdp")


@pytest.fixture(scope="module", autouse=True)
def _can_make_a_bed() -> None:
    need("ping")
    need_bed()


@pytest.fixture(scope="module")
def bed() -> Generator[Bed]:
    with Bed(peers_gro=True) as made:
        if made.router.run(["id", "-u"]).strip() != "0":
            lacking("XDP: run as root", kernel=True)
        yield made


def balanced(report: dict[str, Any]) -> None:
    """Every frame that was received is accounted for."""
    packets = report["packets"]
    assert report["received"] == packets["received"]
    ends = packets["forwarded"] + packets["passed"] + packets["drop_moving"]
    assert report["received"] == ends + report["overflowed"], report
    assert report["sent"] + report["unsent"] == packets["forwarded"]
    ledger_balances(report)


def answers(bed: Bed) -> None:
    """The kernel answers what it would answer without us."""
    assert " 0% packet loss" in ping(bed, "10.2.0.2")
    assert " 0% packet loss" in ping(bed, "fd02::2")
    assert " 0% packet loss" in ping(bed, "10.1.0.1")
    assert " 0% packet loss" in ping(bed, "fd01::1")
    assert "From 10.1.0.1 icmp_seq=1 Time to live exceeded" in ping(bed, "10.2.0.2", "-t", "1")
    assert "From fd01::1 icmp_seq=1 Time exceeded: Hop limit" in ping(bed, "fd02::2", "-t", "1")
    assert "From 10.1.0.1 icmp_seq=1 Destination Host Unreachable" in ping(bed, "10.9.0.1")
    assert " 0% packet loss" in ping(bed, "10.2.0.2", "-M", "do", "-s", "1472")


def test_forwards_what_needs_no_thought_and_passes_the_rest(bed: Bed):
    bed.router.shell("ip route add unreachable 10.9.0.0/24 2>/dev/null || true")
    with Live(bed, XDP) as live:
        nothing_wrong(bed, pps=4000, seconds=0.5, flows=20)
        nothing_wrong(bed, pps=4000, seconds=0.5, flows=20, to=V6)
        found = bed.trial(pps=1000, seconds=0.2)
        answers(bed)
        report = live.result()
    assert found["bad_headers"] == 0
    balanced(report)
    assert report["packets"]["forwarded"] >= 4100
    assert report["forward"]["forwarded_by"] == "xdp"
    assert [port["io"] for port in report["ports"]] == ["xdp", "xdp"]
    assert "xdp" not in bed.router.run(["ip", "-details", "link", "show"])
    assert report["modelled"]["asleep_w"] < report["modelled"]["energy_w"]


def test_longer_packets_than_fit_are_the_kernels(bed: Bed):
    bed.router.shell("ip link set rt1 mtu 1400")
    bed.sink.shell("ip link set sink0 mtu 1400")
    try:
        with Live(bed, XDP):
            found = ping(bed, "10.2.0.2", "-M", "do", "-s", "1472")
            assert "Frag needed and DF set (mtu = 1400)" in found
            assert " 0% packet loss" in ping(bed, "10.2.0.2", "-M", "dont", "-s", "1472")
            assert "Packet too big: mtu=1400" in ping(bed, "fd02::2", "-M", "do", "-s", "1452")
    finally:
        bed.router.shell("ip link set rt1 mtu 1500")
        bed.sink.shell("ip link set sink0 mtu 1500")
        for family in ("-4", "-6"):
            bed.generator.run(["ip", family, "route", "flush", "cache"])


def test_where_the_driver_runs_no_xdp_the_kernel_runs_it_behind(bed: Bed):
    # veth has no native XDP where its peer may send longer frames than a page holds.
    bed.generator.shell("ip link set gen0 mtu 9000")
    try:
        with Live(bed, description(forward="xdp", cpus=[1, 0])) as live:
            nothing_wrong(bed, pps=4000, seconds=0.5, flows=20)
            nothing_wrong(bed, pps=4000, seconds=0.5, flows=20, to=V6)
            assert " 0% packet loss" in ping(bed, "10.1.0.1")
            report = live.result()
    finally:
        bed.generator.shell("ip link set gen0 mtu 1500")
    balanced(report)
    assert [port["io"] for port in report["ports"]] == ["xdp-generic", "xdp"]


def test_scales_up_and_down_without_loss_or_overtaking(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    # Frames come on the first CPU and go to the second, until that has too many.
    with Bed(peers_gro=True, generator_cpus=[0]) as bed:
        text = description(forward="xdp", cpus=[1, 0], queue=4096)
        metrics = "127.0.0.1:9475"
        with Live(bed, text, words=["--log", str(log), "--metrics", metrics]) as live:
            ping(bed, "10.2.0.2")
            # Too much for one CPU, which loses frames, but lets none overtake others.
            found = bed.trial(pps="max", seconds=1.5, flows=64)
            assert (found["reordered"], found["duplicated"], found["corrupt"]) == (0, 0, 0), found
            # Once the load has gone, the second core goes too.
            wait_until(lambda: "halfwink_workers_in_use 1\n" in scrape(bed, metrics))
            report = live.result()
    balanced(report)
    assert report["changes"] >= 3
    assert report["moves"] > 128
    assert min(worker["served"] for worker in report["workers"]) > 0
    assert (report["log_dropped"], report["steps_back"]) == (0, 0)
    again = halfwink.replay(log)
    lines = log.read_text().splitlines()
    assert (again.first_difference, again.lines) == (None, len(lines) - 2), "header and footer"
    poll = next(n for n, line in enumerate(lines) if '"waiting":' in line and '"wake"' in line)
    lines[poll] = json.dumps({**json.loads(lines[poll]), "actions": []})
    log.write_text("\n".join(lines) + "\n")
    assert halfwink.replay(log).first_difference is not None


def test_an_interface_goes_and_comes_back(bed: Bed):
    metrics = "127.0.0.1:9475"
    with Live(bed, XDP, words=["--metrics", metrics]) as live:
        assert " 0% packet loss" in ping(bed, "10.2.0.2")
        bed.router.shell("ip link delete rt1")
        wait_until(lambda: not up(bed, metrics, "rt1"))
        bed.join_sink()
        bed.forward()
        wait_until(lambda: up(bed, metrics, "rt1"))
        assert " 0% packet loss" in wait_until(lambda: " 0% " in (p := ping(bed, "10.2.0.2")) and p)
        assert "halfwink_forward_looks_total" in scrape(bed, metrics)
        nothing_wrong(bed, pps=1000, seconds=0.2)
        report = live.result()
    assert [port["gone"] for port in report["ports"]] == [0, 1]
    assert report["packets"]["forwarded"] > 200


MASKS = "cat /sys/class/net/rt0/queues/rx-*/rps_cpus /sys/class/net/rt1/queues/rx-*/rps_cpus"


def test_packet_steering_is_off_with_one_cpu_and_put_back_at_the_end(bed: Bed):
    def masks() -> list[int]:
        return [int(line.replace(",", ""), 16) for line in bed.router.shell(MASKS).splitlines()]

    bed.router.shell("echo 2 >/sys/class/net/rt0/queues/rx-0/rps_cpus")
    with Live(bed, description(forward="rps")) as live:
        wait_until(lambda: masks() == [0, 0])
        nothing_wrong(bed, pps=4000, seconds=0.5, flows=20)
        answers(bed)
        report = live.result()
    assert masks() == [2, 0], "as they were"
    bed.router.shell("echo 0 >/sys/class/net/rt0/queues/rx-0/rps_cpus")
    assert report["forward"]["forwarded_by"] == "rps"
    assert report["received"] == report["packets"]["passed"] >= 2000
    assert [port["io"] for port in report["ports"]] == ["rps", "rps"]
    ledger_balances(report)


def test_where_xdp_cannot_be_steering_is_used_and_that_is_said(bed: Bed):
    need("clang")
    # Another program is on the interface, and stays there.
    with small_xdp.attached(bed), Live(bed, description(forward="auto")) as live:
        assert "interface rt0 by XDP: " in live.said()
        assert ": another XDP program is there; forwarding by RPS\n" in live.said()
        report = live.result()
    assert report["forward"]["forwarded_by"] == "rps"
    with Live(bed, description(forward="auto")) as live:
        assert "RPS" not in live.said()
        report = live.result()
    assert report["forward"]["forwarded_by"] == "xdp"


def test_three_capabilities_are_enough(bed: Bed):
    need("setpriv")
    # The fourth is only for reading a clone in somebody's home.
    caps = "-all,+net_admin,+bpf,+perfmon,+dac_read_search"
    drop = ["setpriv", "--inh-caps", caps, "--ambient-caps", caps, "--bounding-set", caps]
    nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
    with Live(bed, XDP, under=[*drop, *nobody]):
        nothing_wrong(bed, pps=2000, seconds=0.3)
    fewer = [word.replace(",+bpf,+perfmon", ",+bpf") for word in drop]
    with pytest.raises(RunError, match="needs CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON"):
        Live(bed, XDP, under=[*fewer, *nobody])


def test_an_idle_router_wakes_up_seldom(bed: Bed):
    metrics = "127.0.0.1:9475"

    def looks() -> int:
        lines = scrape(bed, metrics).splitlines()
        return int(
            next(n for n in lines if n.startswith("halfwink_forward_looks_total")).split()[1]
        )

    with Live(bed, XDP, words=["--metrics", metrics]) as live:
        wait_until(lambda: looks() >= 16)
        report = live.result()
    assert report["forward"]["looks"] < 30 + 10 * report["duration_s"], report["forward"]


def test_what_the_kernel_does_not_allow_is_said(bed: Bed, tmp_path: Path):
    with Live(bed, XDP) as live:
        said = "interface rt0: another router of halfwink has it, expected one that none has"
        with pytest.raises(RunError, match=said):
            Live(bed, XDP)
        live.result()
    path = tmp_path / "router.toml"
    path.write_text(XDP)
    bed.forward(False)
    with pytest.raises(RunError, match="rt0: the kernel does not forward there, expected"):
        bed.router.run([python(), "-m", "halfwink", "live", "router", str(path)])


def test_what_the_kernel_has_itself_is_refused(tmp_path: Path, halfwink: Halfwink):
    path = tmp_path / "router.toml"
    routes = description().replace("schema = 1", 'schema = 1\nforward = "xdp"')
    ours = "expected none where the kernel forwards, which has its own"
    for text, expected in (
        (routes, f"router.toml:5: routes: found routes.txt, {ours}"),
        (XDP + 'addresses = ["10.1.0.1/24"]\n', f"port: found addresses with 10.1.0.1/24, {ours}"),
        (XDP + 'io = "af-xdp"\n', "port: found io or queues of rt1, expected neither"),
        (XDP + '[app]\nkind = "ipsec"\n', "app: found another application, expected kind"),
        (XDP.replace("xdp", "dpdk"), "router.toml:4: "),
        ("cpus = [1, 0, 1]\n" + XDP, "router.toml:1: cpus: found 1 twice, expected each CPU once"),
        ("cpus = [0, 128]\n" + XDP, "router.toml:1: cpus: found 128, expected below 128"),
        ("queue = 65536\n" + XDP, "queue: found 65536, expected 64 to 16384"),
    ):
        path.write_text(text)
        done = halfwink("live", "router", str(path), "--check")
        assert done.status == 2, done
        assert expected in done.complaint
    path.write_text(XDP)
    assert check("router", path)


def test_the_kernels_program_is_what_clang_makes_of_its_source(tmp_path: Path):
    need("clang")
    bpf = tool("bpf")
    kept = bpf.TARGET.read_text()
    if bpf.clang() not in kept.splitlines()[0]:
        pytest.skip(f"{bpf.clang()} may choose other instructions than {kept.splitlines()[0]}")
    assert bpf.compiled() == kept
    # A change of the source is a change of the program.
    other = tmp_path / "forward.c"
    other.write_text(bpf.SOURCE.read_text().replace("ip->hops--", "ip->hops -= 2"))
    assert bpf.compiled(other).splitlines()[1:] != kept.splitlines()[1:]

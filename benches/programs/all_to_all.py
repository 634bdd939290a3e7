"""ns-3's side of `benches/fabric.py`: hosts around one router send datagrams to all others.

Run by a Python that has ns-3: hosts, seconds, microseconds between datagrams of a pair. Prints
datagrams received, user CPU seconds of the simulation alone, and events.
"""
# pyright: reportMissingImports=false, reportMissingTypeStubs=false

from __future__ import annotations

import resource
import sys
from typing import Any

from ns import ns

#: A datagram in a frame of 9000 bytes; its port.
PAYLOAD, PORT = 8972, 9


def main() -> None:
    """Builds it, runs it, prints what came of it."""
    hosts, seconds, gap_us = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    router, nodes = ns.NodeContainer(), ns.NodeContainer()
    router.Create(1)
    nodes.Create(hosts)
    links = ns.PointToPointHelper()
    links.SetDeviceAttribute("DataRate", ns.StringValue("10Gbps"))
    links.SetDeviceAttribute("Mtu", ns.UintegerValue(9000))
    links.SetChannelAttribute("Delay", ns.StringValue("1us"))
    links.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns.StringValue("100000p"))
    ns.InternetStackHelper().Install(router)
    ns.InternetStackHelper().Install(nodes)
    networks = ns.Ipv4AddressHelper()
    networks.SetBase(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.252"))
    addresses = []
    for host in range(hosts):
        devices = links.Install(nodes.Get(host), router.Get(0))
        addresses.append(networks.Assign(devices).GetAddress(0))
        networks.NewNetwork()
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    sinks = [sink(nodes.Get(host)) for host in range(hosts)]
    for host in range(hosts):
        for shift in range(1, hosts):
            # A host's datagrams follow each other evenly.
            begin_us = gap_us * (shift - 1) / (hosts - 1)
            send(nodes.Get(host), addresses[(host + shift) % hosts], gap_us, begin_us)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    ns.Simulator.Stop(ns.Seconds(seconds))
    ns.Simulator.Run()
    cpu_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    received = sum(app.GetObject[ns.PacketSink]().GetTotalRx() for app in sinks) / PAYLOAD
    print(received, cpu_s, ns.Simulator.GetEventCount())


def sink(node: Any) -> Any:
    """A program that takes what comes."""
    any_address = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), PORT).ConvertTo()
    apps = ns.PacketSinkHelper("ns3::UdpSocketFactory", any_address).Install(node)
    apps.Start(ns.Seconds(0))
    return apps.Get(0)


def send(node: Any, address: Any, gap_us: float, begin_us: float) -> None:
    """A program that sends to another host for ever."""
    client = ns.UdpClientHelper(ns.InetSocketAddress(address, PORT).ConvertTo())
    client.SetAttribute("MaxPackets", ns.UintegerValue(2**32 - 1))
    client.SetAttribute("Interval", ns.TimeValue(ns.NanoSeconds(int(1e3 * gap_us))))
    client.SetAttribute("PacketSize", ns.UintegerValue(PAYLOAD))
    client.Install(node).Start(ns.NanoSeconds(int(1e3 * begin_us)))


if __name__ == "__main__":
    main()

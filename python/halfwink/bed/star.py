"""Hosts around a switch: as many network namespaces as are wanted, each with a wire to one more."""

from __future__ import annotations

from halfwink.bed.joined import Joined
from halfwink.bed.places import Place, without_ipv6
from halfwink.errors import HalfwinkError

#: Interfaces: a host's end of its wire, the device of its programs.
UPLINK, DEVICE = "up0", "circ0"
#: Hosts of a star, at most.
MOST_HOSTS = 16
#: IP packets of wires, in bytes.
MTU = (576, 9000)
#: Frames that wait in a device until its program reads them.
DEVICE_FRAMES = 4000


def wire(host: int) -> str:
    """The switch's end of a host's wire."""
    return f"h{host}"


def address(host: int) -> str:
    """A host's IP address."""
    high, low = divmod(host + 1, 256)
    return f"10.77.{high}.{low}"


def mac(host: int) -> str:
    """Ethernet address of a host's device."""
    high, low = divmod(host, 256)
    return f"02:68:77:00:{high:02x}:{low:02x}"


def host_lines(
    host: int,
    hosts: int,
    mtu: int,
    switch: object,
    *,
    queues: bool = False,
    frames: int = DEVICE_FRAMES,
) -> list[str]:
    """Returns the lines for ``ip -batch`` that make a host's wire and device in its namespace.

    Args:
        host: number of the host.
        hosts: number of hosts.
        mtu: longest IP packet, in bytes.
        switch: the switch's namespace: its name, or a process in it.
        queues: the device can have a queue for each host.
        frames: capacity of the device, or of each of its queues, in frames.
    """
    others = [n for n in range(hosts) if n != host]
    return [
        f"link add {UPLINK} mtu {mtu} type veth peer name {wire(host)} mtu {mtu} netns {switch}",
        f"tuntap add dev {DEVICE} mode tap{' multi_queue' * queues}",
        f"link set {DEVICE} address {mac(host)} mtu {mtu} txqueuelen {frames}",
        "link set lo up",
        f"link set {UPLINK} up",
        f"link set {DEVICE} up",
        f"address add {address(host)}/16 dev {DEVICE}",
        # Nobody asks for addresses: a broadcast has no circuit.
        *(f"neighbour add {address(n)} lladdr {mac(n)} dev {DEVICE} nud permanent" for n in others),
    ]


class Star(Joined):
    """Namespaces of hosts and of a switch; each host has a TAP device beside its wire.

    Nothing else is joined to them: only what runs inside carries their traffic.
    """

    def __init__(self, hosts: int, *, mtu: int = 9000, user_namespace: bool | None = None) -> None:
        """Describes one; ``with`` makes it.

        Args:
            hosts: number of hosts.
            mtu: longest IP packet, in bytes.
            user_namespace: needs no rights (default: unless we are root).

        Raises:
            HalfwinkError: too many hosts, or packets too long.
        """
        if not 2 <= hosts <= MOST_HOSTS:
            raise HalfwinkError(f"hosts {hosts}: expected 2 to {MOST_HOSTS}")
        if not MTU[0] <= mtu <= MTU[1]:
            raise HalfwinkError(f"mtu {mtu}: expected {MTU[0]} to {MTU[1]}")
        self.count, self.mtu = hosts, mtu
        names = ("switch", *(f"host{n}" for n in range(hosts)))
        super().__init__(names, user_namespace=user_namespace)

    @property
    def switch(self) -> Place:
        """The namespace of the switch."""
        return self._place("switch")

    @property
    def hosts(self) -> list[Place]:
        """The namespaces of the hosts."""
        return [self._place(f"host{n}") for n in range(self.count)]

    def _join(self) -> None:
        switch = self.switch
        for n, place in enumerate(self.hosts):
            lines = host_lines(n, self.count, self.mtu, switch.inner_pid)
            # The kernel's own noise: none.
            place.shell(without_ipv6("default"))
            place.run(["ip", "-batch", "-"], text="\n".join(lines) + "\n")
        wires = [f"{without_ipv6(wire(n))}\nip link set {wire(n)} up" for n in range(self.count)]
        # Metrics of the switch are served there.
        switch.shell("\n".join(["ip link set lo up", *wires]))

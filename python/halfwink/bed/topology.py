"""The bed itself: what is joined to what, and which addresses there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from halfwink.bed import traffic
from halfwink.bed.joined import Joined
from halfwink.bed.places import Place, without_ipv6
from halfwink.bed.worker import Worker
from halfwink.errors import HalfwinkError

#: Interfaces, as generator, router and sink know them.
GENERATOR_PORT, SINK_PORT, ROUTER_PORTS = "gen0", "sink0", ("rt0", "rt1")
#: Addresses of both networks: the router's, the other's.
NETWORKS = (
    (("10.1.0.1/24", "10.1.0.2/24"), ("fd01::1/64", "fd01::2/64")),
    (("10.2.0.1/24", "10.2.0.2/24"), ("fd02::1/64", "fd02::2/64")),
)
#: What test traffic goes to: behind the sink.
BEHIND_SINK = (traffic.BENCHMARK_V4, traffic.BENCHMARK_V6)
#: After the last frame was sent, all has come when hardly any frame came for so long; a router that
#: has to wait for its CPU sends for longer.
DRAIN_S, FEW, LONGEST_DRAIN_S = 0.1, 4, 10.0


class Bed(Joined):
    """Three network namespaces, or two if the generator sends straight to the sink."""

    def __init__(
        self,
        *,
        queues: int = 1,
        mtu: int = 1500,
        direct: bool = False,
        gro: bool = False,
        peers_gro: bool = False,
        threaded_napi: bool = False,
        defer_hard_irqs: int = 0,
        gro_flush_timeout_ns: int = 0,
        checksum_offload: bool = False,
        user_namespace: bool | None = None,
        generator_cpus: Collection[int] = (),
        sink_cpus: Collection[int] = (),
    ) -> None:
        """Describes a bed; ``with`` makes it.

        Args:
            queues: receive and transmit queues of every port.
            mtu: MTU of every port, in bytes.
            direct: no router; the generator's port is joined to the sink's.
            gro: the router's ports receive by NAPI (forwarded UDP is not merged).
            peers_gro: the ports of generator and sink receive by NAPI, without which veth takes no
                frames that XDP programs forward.
            threaded_napi: and in kernel threads; needs ``gro``.
            defer_hard_irqs: empty polls before interrupts are allowed again.
            gro_flush_timeout_ns: time for which interrupts stay off meanwhile.
            checksum_offload: leave checksums of the kernel's own packets to hardware that is not
                there; user-space routers then forward wrong ones.
            user_namespace: needs no rights, but has no XDP (default: unless we are root).
            generator_cpus: CPUs of the generator's process (default: all).
            sink_cpus: CPUs of the sink's process (default: all).
        """
        if not 1 <= queues <= 64 or not 1280 <= mtu <= 9000:
            raise HalfwinkError(f"queues={queues}, mtu={mtu}: expected 1 to 64 and 1280 to 9000")
        if threaded_napi and not gro:
            raise HalfwinkError("threaded_napi: the kernel has no NAPI on veth without gro=True")
        self.queues, self.mtu, self.direct = queues, mtu, direct
        self._napi = (gro, threaded_napi, defer_hard_irqs, gro_flush_timeout_ns)
        self._peers_gro = peers_gro
        self._checksum_offload = checksum_offload
        names = ("generator", "sink") if direct else ("generator", "router", "sink")
        super().__init__(names, user_namespace=user_namespace)
        self._cpus = {"generator": generator_cpus, "sink": sink_cpus}
        self._workers: dict[str, Worker] = {}

    def close(self) -> None:
        """Ends all that runs in the bed, and the bed."""
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.close()
        super().close()

    @property
    def generator(self) -> Place:
        """The namespace of the generator."""
        return self._place("generator")

    @property
    def router(self) -> Place:
        """The namespace of the router."""
        if self.direct:
            raise HalfwinkError("a direct bed has no router")
        return self._place("router")

    @property
    def sink(self) -> Place:
        """The namespace of the sink."""
        return self._place("sink")

    def _join(self) -> None:
        first = NETWORKS[0]
        if self.direct:
            self._veth(self.sink, SINK_PORT, self.generator, GENERATOR_PORT)
            self._port(self.sink, SINK_PORT, [pair[0] for pair in first])
        else:
            self._veth(self.router, ROUTER_PORTS[0], self.generator, GENERATOR_PORT)
            self._port(self.router, ROUTER_PORTS[0], [pair[0] for pair in first])
            self._set_napi(ROUTER_PORTS[0])
        self._port(self.generator, GENERATOR_PORT, [pair[1] for pair in first])
        self._set_peer_napi(self.generator, GENERATOR_PORT)
        gateways = [pair[0].split("/")[0] for pair in first]
        self._default_routes(self.generator, gateways, GENERATOR_PORT)
        if not self.direct:
            self.join_sink()

    def join_sink(self) -> None:
        """Joins the router to the sink; also again, if a router has deleted their interfaces."""
        second = NETWORKS[1]
        self._veth(self.router, ROUTER_PORTS[1], self.sink, SINK_PORT)
        self._port(self.sink, SINK_PORT, [pair[1] for pair in second])
        self._set_peer_napi(self.sink, SINK_PORT)
        self._port(self.router, ROUTER_PORTS[1], [pair[0] for pair in second])
        self._set_napi(ROUTER_PORTS[1])
        back = [pair[0].split("/")[0] for pair in second]
        self._default_routes(self.sink, back, SINK_PORT)
        hops = [pair[1].split("/")[0] for pair in second]
        self.router.shell(
            "\n".join(
                f"ip route add {prefix} via {hop} dev {ROUTER_PORTS[1]}"
                for prefix, hop in zip(BEHIND_SINK, hops, strict=True)
            )
        )

    def _veth(self, here: Place, port: str, there: Place, other: str) -> None:
        shape = f"mtu {self.mtu} numtxqueues {self.queues} numrxqueues {self.queues}"
        here.shell(
            f"ip link add {port} {shape} type veth "
            f"peer name {other} {shape} netns {there.inner_pid}"
        )

    def _port(self, place: Place, port: str, addresses: list[str]) -> None:
        lines = [
            f"ip link set {port} multicast on",
            *(f"ip address add {a} dev {port} {'nodad' if ':' in a else ''}" for a in addresses),
            # The kernel's own noise: none but what is asked for.
            f"echo 0 >/proc/sys/net/ipv6/conf/{port}/router_solicitations",
            f"echo 0 >/proc/sys/net/ipv6/conf/{port}/accept_dad",
            f"echo 0 >/proc/sys/net/ipv4/conf/{port}/rp_filter",
            "ip link set lo up",
            f"ip link set {port} up",
        ]
        if not self._checksum_offload:
            lines.append(f"ethtool -K {port} tx off rx off tso off gso off >/dev/null 2>&1")
        place.shell("\n".join(lines))

    def _default_routes(self, place: Place, gateways: list[str], port: str) -> None:
        place.shell("\n".join(f"ip route add default via {g} dev {port}" for g in gateways))

    def _set_napi(self, port: str) -> None:
        gro, threaded, defer, flush_ns = self._napi
        device = f"/sys/class/net/{port}"
        lines = [f"ethtool -K {port} gro {'on' if gro else 'off'} >/dev/null"]
        values = (("threaded", int(threaded)), ("napi_defer_hard_irqs", defer))
        for name, value in (*values, ("gro_flush_timeout", flush_ns)):
            if value:
                lines.append(f"echo {value} >{device}/{name}")
        self.router.shell("\n".join(lines))

    def _set_peer_napi(self, place: Place, port: str) -> None:
        if self._peers_gro:
            place.shell(f"ethtool -K {port} gro on >/dev/null")

    def forward(self, on: bool = True) -> None:
        """Makes the kernel forward between the router's ports."""
        value = int(on)
        self.router.shell(
            f"echo {value} >/proc/sys/net/ipv4/ip_forward\n"
            f"echo {value} >/proc/sys/net/ipv6/conf/all/forwarding"
        )

    def hand_over(self) -> None:
        """Takes the router's addresses from the kernel: a router of ours has them now."""
        self.router.shell(
            "\n".join(f"ip address flush dev {port}\n{without_ipv6(port)}" for port in ROUTER_PORTS)
        )

    def mac(self, place: Place, port: str) -> str:
        """The MAC address of a port."""
        words = place.run(["ip", "-oneline", "link", "show", "dev", port]).split()
        return words[words.index("link/ether") + 1]

    def worker(self, name: str) -> Worker:
        """The process that generates (``generator``) or watches (``sink``); begun when needed."""
        if name not in self._workers:
            self._workers[name] = Worker(self._place(name), self._cpus[name])
        return self._workers[name]

    def _drain(self, drain_s: float) -> None:
        """Waits until hardly any frame came to the sink for so long; the kernel sends a few."""
        counter = ["cat", f"/sys/class/net/{SINK_PORT}/statistics/rx_packets"]
        end = time.monotonic() + LONGEST_DRAIN_S
        seen, before = int(self.sink.run(counter)), -FEW
        while seen - before >= FEW and time.monotonic() < end:
            time.sleep(drain_s)
            seen, before = int(self.sink.run(counter)), seen

    def trial(
        self,
        pps: float | str = 1000.0,
        seconds: float = 1.0,
        *,
        sink: dict[str, Any] | None = None,
        drain_s: float = DRAIN_S,
        mark: Callable[[], Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Sends from the generator, watches at the sink.

        Args:
            pps: frames per second, or ``max``.
            seconds: length of the trial, in seconds.
            sink: options of `traffic.Sink`.
            drain_s: time for which hardly any frame may have reached the sink when it ends.
            mark: called when the sending begins and when it ends; its answers are in ``marks``.
            options: options of `traffic.Generator`.

        Returns:
            A comparison as `traffic.compare` has it, with ``sent`` and ``received`` in
            ``generator`` and ``sink``.
        """
        generator, watcher = self.worker("generator"), self.worker("sink")
        if "macs" not in options:
            to = options.get("to", BEHIND_SINK[:1])
            options["macs"] = [generator.resolve(GENERATOR_PORT, to[0])]
        # With several queues, frames are spread over them as a network card would.
        options.setdefault("bypass", self.queues == 1)
        watcher.begin("sink", interfaces=SINK_PORT, **(sink or {}))
        marks: list[Any] = []
        try:
            marks += [mark()] if mark else []
            generator.begin(
                "generator", interfaces=GENERATOR_PORT, pps=pps, seconds=seconds, **options
            )
            sent = generator.result()
            marks += [mark()] if mark else []
            self._drain(drain_s)
        finally:
            watcher.stop()
            received = watcher.result()
        found = traffic.compare(sent, received) | {"generator": sent, "sink": received}
        return found | ({"marks": marks} if mark else {})

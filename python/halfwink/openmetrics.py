"""What live programs count, as OpenMetrics over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from halfwink.errors import HalfwinkError

#: Frames of a port, by what became of them.
PORT_COUNTS = ("received", "sent", "unsent", "lost")
#: Counts of a machine behind a steering proxy.
MACHINE_COUNTS = (
    ("served", "Requests answered"),
    ("failed", "Attempts that failed"),
    ("retried", "Attempts that were made again"),
    ("queued", "Requests that had to wait"),
    ("refused", "Requests that found the queue full, or no machine"),
    ("resteered", "Requests that went to the other machine"),
    ("wakes", "Times that it was asked to wake"),
    ("sleeps", "Times that it was asked to sleep"),
    ("power_failures", "Times that waking or sending to sleep failed"),
    ("losses", "Times that it could not be reached any more"),
)


class Families(Protocol):
    """Collects families of metrics."""

    def collect(self) -> Iterable[Metric]:
        """All families, of a fresh report."""
        ...


#: Makes a collector of what reports a program.
MakeCollector = Callable[[Callable[[], dict[str, Any]]], Families]


class RouterCollector:
    """Families of one report. Times are measured; watts and joules are modelled."""

    def __init__(self, report: Callable[[], dict[str, Any]]) -> None:
        self._report = report

    def collect(self) -> Iterable[Metric]:
        """All families, of a fresh report."""
        report = self._report()
        yield from _ports(report)
        yield from _workers(report)
        yield from _router(report)


def _ports(report: dict[str, Any]) -> Iterable[Metric]:
    for name in PORT_COUNTS:
        family = CounterMetricFamily(
            f"halfwink_port_frames_{name}", f"Frames {name}", labels=["interface"]
        )
        for port in report["ports"]:
            family.add_metric([port["interface"]], port[name])
        yield family
    up = GaugeMetricFamily("halfwink_port_up", "The interface is there", labels=["interface"])
    for port in report["ports"]:
        up.add_metric([port["interface"]], float(port["up"]))
    yield up


def _workers(report: dict[str, Any]) -> Iterable[Metric]:
    spent = CounterMetricFamily(
        "halfwink_worker_state_seconds",
        "Time in a state, measured; sleep states are those asked for",
        labels=["worker", "state"],
    )
    served = CounterMetricFamily("halfwink_worker_frames", "Frames served", labels=["worker"])
    cpu = CounterMetricFamily(
        "halfwink_worker_cpu_seconds", "Processor time of the thread", labels=["worker"]
    )
    for number, worker in enumerate(report["workers"]):
        for state, seconds in worker["residency"].items():
            spent.add_metric([str(number), state.removesuffix("_s")], seconds)
        served.add_metric([str(number)], worker["served"])
        cpu.add_metric([str(number)], worker["cpu_s"])
    yield from (spent, served, cpu)


def _router(report: dict[str, Any]) -> Iterable[Metric]:
    packets = CounterMetricFamily(
        "halfwink_packets", "Packets by what became of them", labels=["what"]
    )
    for name, count in report["packets"].items():
        packets.add_metric([name], count)
    yield packets
    yield CounterMetricFamily(
        "halfwink_queue_overflows", "Frames whose queue was full", value=report["overflowed"]
    )
    yield CounterMetricFamily(
        "halfwink_scaling_changes", "Cores woken or parked", value=report["changes"]
    )
    used = sum(not worker["parked"] for worker in report["workers"])
    yield GaugeMetricFamily("halfwink_workers_in_use", "Workers that get frames", value=used)
    sojourn = GaugeMetricFamily(
        "halfwink_sojourn_seconds",
        "From a frame's leaving its socket until it was sent, since the start",
        labels=["quantile"],
    )
    for quantile, name in (("0.5", "p50_us"), ("0.99", "p99_us"), ("1", "max_us")):
        if report["sojourn"][name] is not None:
            sojourn.add_metric([quantile], report["sojourn"][name] * 1e-6)
    yield sojourn
    yield CounterMetricFamily(
        "halfwink_modelled_energy_joules",
        "Energy of the described machine in the measured times; modelled, not measured",
        value=report["modelled"]["energy_j"],
    )


class SteerCollector:
    """Families of one report of a steering proxy. Times are measured; joules are modelled."""

    def __init__(self, report: Callable[[], dict[str, Any]]) -> None:
        self._report = report

    def collect(self) -> Iterable[Metric]:
        """All families, of a fresh report."""
        report = self._report()
        yield from _requests(report)
        yield from _machines(report)


def _requests(report: dict[str, Any]) -> Iterable[Metric]:
    what = CounterMetricFamily(
        "halfwink_steer_requests",
        "Requests and connections by what became of them",
        labels=["what"],
    )
    for name, count in report["requests"].items():
        what.add_metric([name], count)
    statuses = CounterMetricFamily(
        "halfwink_steer_responses", "Responses by class of their status", labels=["class"]
    )
    for name, count in report["statuses"].items():
        statuses.add_metric([name], count)
    yield from (what, statuses)
    yield GaugeMetricFamily(
        "halfwink_steer_connections", "Connections of clients", value=report["connections"]
    )
    for name, help in (
        ("queueing", "From a request's coming until a worker had it, since the start"),
        ("total", "From a request's coming until the end of its answer, since the start"),
    ):
        family = GaugeMetricFamily(f"halfwink_steer_{name}_seconds", help, labels=["quantile"])
        for quantile, key in (("0.5", "p50_us"), ("0.99", "p99_us"), ("1", "max_us")):
            if report[name][key] is not None:
                family.add_metric([quantile], report[name][key] * 1e-6)
        yield family


def _machines(report: dict[str, Any]) -> Iterable[Metric]:
    machines: dict[str, dict[str, Any]] = report["machines"]
    for name, help in MACHINE_COUNTS:
        family = CounterMetricFamily(f"halfwink_machine_{name}", help, labels=["machine"])
        for machine, found in machines.items():
            family.add_metric([machine], found[name])
        yield family
    for name, help in (("in_service", "Requests in service"), ("waiting", "Requests that wait")):
        gauge = GaugeMetricFamily(f"halfwink_machine_{name}", help, labels=["machine"])
        for machine, found in machines.items():
            gauge.add_metric([machine], found[name])
        yield gauge
    spent = CounterMetricFamily(
        "halfwink_machine_state_seconds",
        "Time in a power state, measured; on: with so many requests in service",
        labels=["machine", "state", "in_service"],
    )
    for machine, found in machines.items():
        for state, seconds in found["residency"].items():
            if state == "on_s":
                for busy, on in enumerate(seconds):
                    spent.add_metric([machine, "on", str(busy)], on)
            else:
                spent.add_metric([machine, state.removesuffix("_s"), ""], seconds)
    yield spent
    joules = CounterMetricFamily(
        "halfwink_modelled_energy_joules",
        "Energy of the described machines in the measured times; modelled, not measured",
        labels=["machine"],
    )
    for machine in machines:
        joules.add_metric([machine], report["modelled"][f"{machine}_j"])
    yield joules


@contextmanager
def serve(
    address: str, collector: MakeCollector, report: Callable[[], dict[str, Any]]
) -> Generator[str]:
    """Serves ``/metrics`` at ``HOST:PORT`` while the context lasts; gives the address in use.

    Raises:
        HalfwinkError: the address is none, or is taken.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise HalfwinkError(f"--metrics {address}: expected HOST:PORT, such as 127.0.0.1:9475")
    registry = CollectorRegistry(auto_describe=False)
    # The collector is asked once for what it describes; a report costs next to nothing.
    registry.register(collector(report))  # pyright: ignore[reportArgumentType]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = generate_latest(registry)
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE_LATEST)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Standard error is for people."""

    try:
        server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler)
    except OSError as error:
        raise HalfwinkError(f"--metrics {address}: {error.strerror or error}") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield "{}:{}".format(*server.server_address[:2])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

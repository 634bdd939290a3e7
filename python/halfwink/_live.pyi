"""The native module of the live parts: Rust crates, converted."""

from os import PathLike
from pathlib import Path
from typing import Any

DELEGATE_VARIABLE: str

class Metrics:
    @property
    def address(self) -> str: ...
    def close(self) -> None: ...

class LiveRouter:
    def __init__(self, root: str, path: str, *, log: str | None = None) -> None: ...
    def report(self) -> dict[str, Any]: ...
    def modelled(
        self, times: list[list[float]], duration_s: float, packets: int, bytes: float
    ) -> dict[str, float]: ...
    def reload(self, path: str) -> list[str]: ...
    def stop(self) -> None: ...
    def is_running(self) -> bool: ...
    def metrics(self) -> str: ...
    def serve_metrics(self, address: str) -> Metrics: ...

class LiveSteer:
    def __init__(self, root: str, path: str, *, log: str | None = None) -> None: ...
    def address(self) -> str: ...
    def report(self) -> dict[str, Any]: ...
    def reload(self, path: str) -> list[str]: ...
    def reopen(self) -> str | None: ...
    def stop(self) -> None: ...
    def is_running(self) -> bool: ...
    def metrics(self) -> str: ...
    def serve_metrics(self, address: str) -> Metrics: ...

PREHEAT_VARIABLE: str
PREHEAT_COLD: list[str]
PREHEAT_DROPS: list[str]

def preheat_share(path: str, measures: bool) -> None: ...
def preheat_announce(
    to: str, key: bytes, port: int, *, sequence: int, lead_us: float, source: int = 1
) -> None: ...
def preheat_beside(
    shared: str,
    servers: tuple[tuple[str, int], tuple[str, int]],
    greeting: bytes,
    request: bytes,
    cpus: tuple[int, int],
    rounds: int,
) -> dict[str, Any]: ...

class PreheatHarness:
    def __init__(
        self,
        shared: str,
        to: str,
        greeting: bytes,
        request: bytes,
        pid: int,
        cpus: tuple[int, int],
    ) -> None: ...
    def learn(self, requests: int) -> dict[str, Any]: ...
    def announce(self) -> None: ...
    def measure(self, cold: str, rounds: int, lead_us: float) -> dict[str, Any]: ...
    def latency(self, rounds: int) -> dict[str, Any]: ...
    def rates(self) -> dict[str, Any]: ...
    def counts(self) -> dict[str, Any]: ...
    def write_set(self, path: str) -> None: ...

class PreheatPages:
    def __init__(
        self,
        shared: str,
        to: str,
        greeting: bytes,
        request: bytes,
        pid: int,
        cpus: tuple[int, int],
        folder: str,
    ) -> None: ...
    def record(self) -> dict[str, Any]: ...
    def measure(self, kind: str, rounds: int, lead_us: float) -> dict[str, Any]: ...
    def loads(self) -> int: ...
    def write_set(self, path: str) -> None: ...

class PreheatDaemon:
    def __init__(
        self,
        shared: str,
        set: str,
        to: str,
        key: bytes,
        port: int,
        cpu: int,
        *,
        syn_us: float | None = None,
        every_us: float | None = None,
        awake: bool = False,
        log: str | None = None,
    ) -> None: ...
    def address(self) -> str: ...
    def counts(self) -> dict[str, Any]: ...
    def stop(self) -> None: ...

def dataplane_costs(repeats: int) -> list[tuple[str, int, float, float]]: ...

class DelegateRun:
    def __init__(
        self,
        path: str,
        policy: str,
        os_cpu: int,
        *,
        n_ns: int | None = None,
        least_bytes: int = 4096,
        time_every: int = 64,
        worker_spin_ns: int = 100_000,
        caller_spin_ns: int = 50_000,
        log_records: int = 0,
    ) -> None: ...
    def report(self) -> dict[str, Any]: ...
    def write_log(self, path: str) -> None: ...

class EnergyMeter:
    def look(self) -> dict[str, Any]: ...

def energy_meters() -> tuple[list[str], str | None]: ...
def calibrate_host(
    *,
    cpu: int | None = None,
    quick: bool = False,
    max_spread_pct: float | None = None,
    sizes: list[int] = ...,
) -> dict[str, Any]: ...
def record_program(
    workload: str, command: list[str], out: PathLike[str], most: int
) -> dict[str, int]: ...
def forget_branches() -> None: ...
def live_features() -> list[tuple[str, str]]: ...
def die_with_parent() -> None: ...

class IdleWatch:
    def __init__(self, mechanism: str | None = None, record: Path | None = None) -> None: ...
    def end(self) -> dict[str, Any]: ...

def measure(
    here: int,
    there: int | None,
    *,
    only: list[str] | None = None,
    trials: int = 20,
    repetitions: int = 5_000,
    item_ns: int = 1_000_000_000,
) -> dict[str, Any]: ...
def measure_names() -> list[str]: ...

class Generator:
    def __init__(
        self,
        ports: list[tuple[str, list[int]]],
        *,
        segments: list[tuple[float, float, float]] | None = None,
        flood_s: float | None = None,
        replay: str | None = None,
        repeat: int = 1,
        faster: float = 1.0,
        flows: int = 64,
        sources: list[str] = ...,
        destinations: list[str] = ...,
        sizes: str = "60",
        burst: int = 1,
        random_gaps: bool = False,
        count: int | None = None,
        spin_us: float = 100.0,
        batch: int = 32,
        bypass: bool = True,
        tag: int = ...,
        seed: int = 1,
        cpu: int | None = None,
        slot_ms: int = 1000,
    ) -> None: ...
    def wait(self, seconds: float) -> bool: ...
    def stop(self) -> None: ...
    def result(self) -> dict[str, Any]: ...

class Sink:
    def __init__(
        self,
        interfaces: list[str],
        *,
        tag: int = ...,
        seconds: float | None = None,
        count: int | None = None,
        slot_ms: int = 1000,
        ring_mib: int = 16,
        cpu: int | None = None,
        capture: str | None = None,
        capture_count: int = 1_000_000,
    ) -> None: ...
    def wait(self, seconds: float) -> bool: ...
    def stop(self) -> None: ...
    def result(self) -> dict[str, Any]: ...

class DatasetWriter:
    def __init__(
        self,
        folder: str,
        *,
        files: int,
        min_bytes: int,
        max_bytes: int,
        mean_bytes: float,
        seed: int,
        threads: int,
    ) -> None: ...
    @property
    def written(self) -> int: ...
    def wait(self, seconds: float) -> bool: ...
    def stop(self) -> None: ...
    def result(self) -> dict[str, Any]: ...

def dataset_check(folder: str) -> dict[str, Any]: ...
def bounded_pareto(
    min_bytes: float, max_bytes: float, mean_bytes: float, shares: list[float]
) -> tuple[float, list[float]]: ...

class WorkerPool:
    def __init__(
        self,
        folder: str,
        *,
        name: str,
        listen: str,
        workers: int,
        cpus: list[int],
        slow: float,
        slow_by: str,
        repeat: int,
        quota: float | None,
    ) -> None: ...
    @property
    def address(self) -> str: ...
    @property
    def is_running(self) -> bool: ...
    def report(self) -> dict[str, Any]: ...
    def stop(self) -> None: ...

class Load:
    def __init__(
        self,
        url: str,
        *,
        segments: list[tuple[float, float, float]] | None = None,
        random: bool = True,
        times: list[float] | None = None,
        clients: int | None = None,
        seconds: float = 10.0,
        requests: int | None = None,
        workload: str | None = None,
        files: int | None = None,
        path: str | None = None,
        connections: int = 256,
        http2: bool = False,
        timeout_s: float = 10.0,
        warm_up_s: float = 0.0,
        backend_header: str = "x-backend",
        seed: int = 1,
        keep: bool = False,
        spin_us: float = 0.0,
    ) -> None: ...
    def wait(self, seconds: float) -> bool: ...
    def stop(self) -> None: ...
    def result(self) -> dict[str, Any]: ...
    def records(
        self,
    ) -> tuple[list[float], list[int], list[float], list[float], list[int], list[str | None]]: ...
    def write_csv(self, path: str) -> None: ...

def traffic_profile(
    name: str, seconds: float, peak_pps: float, *, seed: int = 1
) -> list[tuple[float, float, float]]: ...
def traffic_rates(
    text: str, *, stretch: float = 1.0, scale: float = 1.0
) -> list[tuple[float, float, float]]: ...
def circuits_check(technique: str, fabric: tuple[int, float, float, float]) -> str: ...
def circuits_values(fabric: tuple[int, float, float, float]) -> list[tuple[str, str]]: ...

class CircuitSwitch:
    def __init__(
        self,
        technique: str,
        fabric: tuple[int, float, float, float],
        config: str,
        *,
        log: str | None = None,
    ) -> None: ...
    def report(self, from_zero: bool) -> dict[str, Any]: ...
    def is_running(self) -> bool: ...
    def stop(self) -> None: ...

class CircuitHost:
    def __init__(self, config: str) -> None: ...
    def report(self, from_zero: bool) -> dict[str, Any]: ...
    def is_running(self) -> bool: ...
    def stop(self) -> None: ...

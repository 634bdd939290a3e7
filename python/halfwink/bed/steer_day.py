"""A day of load through a real hybrid server, whose big pool really stops, and the simulated one.

from halfwink.bed.steer_day import steer_day

steer_day("out", seconds=120)  # pools, proxy and load on this machine
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import halfwink
from halfwink.bed.prediction import (
    MACHINE,
    SLOW,
    WORKERS,
    Address,
    capacity,
    on_first_cpu,
    pool_bins,
    proxy,
    read_log,
    simulate,
)
from halfwink.bed.prototype import dataset, load
from halfwink.errors import HalfwinkError, RunError
from halfwink.files import write_whole
from halfwink.jobs import Job, chosen
from halfwink.models.delay_model import Bin, fit_bins

#: So long a pool may take to start or to end.
PATIENCE_S = 60.0


@dataclass(frozen=True)
class SteerDay:
    """Results of a day.

    Attributes:
        live: measured counts and delays; joules modelled from measured times in states.
        simulated: results for the same arrivals and sizes, simulated.
        slots: both against time.
        replayed: tells whether the policy took the same actions again in a replay of the event log.
    """

    live: dict[str, float]
    simulated: dict[str, float]
    slots: pl.DataFrame
    replayed: bool


def steer_day(
    folder: Path | str,
    *,
    policy: str = "hybrid",
    workload: str = "count",
    arrivals: str = "world-cup",
    seconds: float = 120.0,
    peak_pct: float = 70.0,
    files: int = 2000,
    repeat: int = 10,
    slow: Mapping[str, float] = SLOW,
    requests: int = 1000,
    seed: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> SteerDay:
    """Calibrates two pools, then plays a day through the steering proxy and the simulator.

    The big pool is a process that sleeps by SIGSTOP and wakes by SIGCONT. The simulator takes
    delays fitted in closed loops, and the mean times that changes of state took.

    Args:
        folder: is made; keeps the data set and what was measured.
        policy: policy of proxy and simulator.
        workload: count, readfile, ksort or compress.
        arrivals: shape of the day: ``world-cup`` (30 June 1998), ``evaluation``, ``poisson``.
        seconds: length of the day, in seconds.
        peak_pct: load at its busiest, in per cent of what both pools carry.
        files: number of files in the data set.
        repeat: the work is done so many times.
        slow: a request takes so many times its processor time, small and big.
        requests: number of requests of the calibration with each number in service.
        seed: seed of files and arrivals.
        tell: told of each step.

    Raises:
        HalfwinkError: a value is impossible.
        RunError: the machine does not allow it.
    """
    # The proxy is asked for it after the calibration, which takes minutes.
    Job("server", f"{workload}@50", MACHINE, chosen(policy, threshold=WORKERS)).prepare()
    folder = Path(folder)
    pages = folder / "pages"
    dataset(pages, files=files)
    with ExitStack() as stack:
        _, last = stack.enter_context(on_first_cpu())
        pools = {
            name: stack.enter_context(_process(pages, name, times, repeat, last))
            for name, times in slow.items()
        }
        bins = pool_bins(folder, pools, workload, requests, seed, tell)
        rate = capacity(bins, pages) * peak_pct / 100
        power = f'{{ kind = "signal", pid = {pools["big"].pid} }}'
        events = folder / "events.jsonl"
        with proxy(folder, pools, policy, WORKERS, power=power, log=events) as steer:
            tell(f"{arrivals}, {seconds:g} s, {rate:.0f} requests/s at its busiest")
            log = folder / "day.csv"
            load(
                f"http://{steer.address}",
                rate=rate,
                arrivals=arrivals,
                seconds=seconds,
                workload=workload,
                seed=seed + 1000,
                log=log,
            )
            report = steer.report()
        replayed = halfwink.replay(events).first_difference is None
    write_whole(folder / "day.json", json.dumps(report, indent=1) + "\n")
    return _compared(log, report, bins, policy, workload, seconds, replayed)


def _compared(
    log: Path,
    report: dict[str, Any],
    bins: dict[str, list[Bin]],
    policy: str,
    workload: str,
    seconds: float,
    replayed: bool,
) -> SteerDay:
    values: dict[str, Any] = {}
    for name, rows in bins.items():
        fit = fit_bins(rows)
        values[f"{name}.workers"] = WORKERS
        values[f"workloads.{workload}.{name}.alpha_ms"] = fit.alpha_s * 1e3
        values[f"workloads.{workload}.{name}.beta_ms"] = [b * 1e3 for b in fit.beta_s_per_kb]
    big = report["machines"]["big"]
    spent, changes = big["residency"], max(big["wakes"], 1)
    values["big.wake_ms"] = 1e3 * spent["waking_s"] / changes
    values["big.down_ms"] = 1e3 * spent["going_down_s"] / changes
    values["slot_s"] = seconds / 24
    run = simulate(workload, [(log, chosen(policy, threshold=WORKERS))], values)
    row = run.runs.row(0, named=True)
    requests = read_log(log)
    done = requests.filter(pl.col("latency_s") > 0)
    duration = report["duration_s"]
    live = {
        "requests": float(requests.height),
        "failed": float(requests.height - requests.filter(status=200).height),
        "mean_ms": 1e3 * _of(done, pl.col("latency_s").mean()),
        "p99_ms": 1e3 * _of(done, pl.col("latency_s").quantile(0.99, "linear")),
        "big_share": _of(done, (pl.col("backend") == "big").mean()),
        "modelled_w": report["modelled"]["energy_j"] / duration,
        "modelled_always_on_w": report["modelled"]["always_on_j"] / duration,
        "wakes": float(big["wakes"]),
        "big_asleep_pct": 100 * spent["asleep_s"] / duration,
    }
    simulated = {
        "requests": float(row["offered"]),
        "failed": 0.0,
        "mean_ms": 1e-3 * row["latency_mean_us"],
        "p99_ms": 1e-3 * row["latency_p99_us"],
        "big_share": row["big_share"],
        "modelled_w": row["power_w"],
        "wakes": row["wakes_per_s"] * row["duration_s"],
        "big_asleep_pct": row["big_asleep_pct"],
    }
    slot = (pl.col("at_s") // (seconds / 24)).cast(pl.Int64).alias("slot")
    measured = done.group_by(slot).agg(
        (pl.len() / (seconds / 24)).alias("live_per_s"),
        (1e3 * pl.col("latency_s").mean()).alias("live_mean_ms"),
        (1e3 * pl.col("latency_s").quantile(0.99, "linear")).alias("live_p99_ms"),
        (pl.col("backend") == "big").mean().alias("live_big_share"),
    )
    ours = run.slots.select(
        pl.col("slot").cast(pl.Int64),
        "start_s",
        (1e-3 * pl.col("latency_mean_us")).alias("simulated_mean_ms"),
        (1e-3 * pl.col("latency_p99_us")).alias("simulated_p99_ms"),
        pl.col("big_share").alias("simulated_big_share"),
        pl.col("power_w").alias("simulated_w"),
    )
    slots = ours.join(measured, on="slot", how="left").sort("slot")
    return SteerDay(live, simulated, slots, replayed)


def _of(frame: pl.DataFrame, value: pl.Expr) -> float:
    return float(frame.select(value).item() or 0.0)


@dataclass(frozen=True)
class _Process:
    """A pool in a process of its own, so that it can be stopped."""

    address: str
    pid: int


@contextmanager
def _process(pages: Path, name: str, slow: float, repeat: int, cpu: int) -> Generator[_Process]:
    words = [sys.executable, "-m", "halfwink", "live", "serve", str(pages), "--name", name]
    words += ["--listen", "127.0.0.1:0", "--workers", str(WORKERS), "--cpus", str(cpu)]
    words += ["--slow", str(slow), "--repeat", str(repeat), "--json"]
    pool = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert pool.stderr is not None
        line = pool.stderr.readline()
        found = re.fullmatch(r"ready http://(\S+)\n", line)
        if found is None:
            raise RunError(f"pool {name}: {line.strip() or 'it ended'}")
        yield _Process(found.group(1), pool.pid)
    finally:
        # A stopped process hears nothing else.
        pool.send_signal(signal.SIGCONT)
        pool.terminate()
        try:
            pool.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            pool.kill()
            pool.communicate()


def check(seconds: float, peak_pct: float) -> None:
    """Raises HalfwinkError if these cannot be."""
    if not 2 <= seconds <= 3600 or not 1 <= peak_pct <= 95:
        raise HalfwinkError("expected --seconds 2 to 3600, --peak-pct 1 to 95")


__all__ = ["Address", "SteerDay", "check", "steer_day"]

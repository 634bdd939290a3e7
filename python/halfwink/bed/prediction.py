"""Does the simulator predict a real hybrid server? (Niccolini 2012, Sec 3.2.3, Fig 3.4)

from halfwink.bed.prediction import experiment, predict

experiment("out")        # pools, proxy, loads on this machine: minutes
predict("out").rows      # measured beside simulated: mean and 99th percentile

The delay model is fitted in closed loops; the loads it is then asked for are open ones, and have no
part in the fit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from halfwink.bed.prototype import Pool, calibrate, dataset, load
from halfwink.errors import HalfwinkError, RunError
from halfwink.files import write_whole
from halfwink.inputs import read_bytes
from halfwink.jobs import Job, Settings, chosen, pairs
from halfwink.library import root
from halfwink.live.steer import LiveSteer
from halfwink.models.delay_model import Bin, fit_bins
from halfwink.results.results import Results
from halfwink.runs.studies import run_all


class Address(Protocol):
    """A pool, wherever it runs."""

    @property
    def address(self) -> str:
        """Address of the proxy, as HOST:PORT."""
        ...


#: Of the published validation: thresholds, and loads in per cent of what both pools carry.
THRESHOLDS = (4, 8, 12)
LOADS = (20, 40, 60, 80)
#: The described server whose queues and policy the simulation takes; its times are the fitted ones.
MACHINE = "niccolini"
#: Requests in service, of either pool.
WORKERS = 4
#: A request takes so many times its processor time, mostly waiting: eight workers share one CPU.
SLOW = {"small": 120.0, "big": 40.0}
SUMMARY = "prototype.json"


@dataclass(frozen=True)
class Prediction:
    """Measured and simulated delays of the same arrivals and sizes.

    Attributes:
        rows: one per threshold and load: ``requests``, ``failed``; mean and 99th percentile in
            milliseconds, ``measured_*`` and ``simulated_*``, and the error of the latter in per
            cent.
        errors: means of the absolute errors over the loads, per threshold.
        gamma: exponent of size of each pool, fitted freely.
        alpha_ms: alpha of each pool.
        beta_ms: beta of each pool, per kB, with 1, 2 ... in service.
    """

    rows: pl.DataFrame
    errors: pl.DataFrame
    gamma: dict[str, float]
    alpha_ms: dict[str, float]
    beta_ms: dict[str, list[float]]


def experiment(
    folder: Path | str,
    *,
    workload: str = "count",
    thresholds: Sequence[int] = THRESHOLDS,
    loads: Sequence[float] = LOADS,
    requests: int = 3000,
    files: int = 2000,
    repeat: int = 10,
    slow: Mapping[str, float] = SLOW,
    seed: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> Prediction:
    """Calibrates two pools behind the steering proxy, then measures open loads at each threshold.

    Generator and proxy run on the first CPU that is allowed, both pools on the last.

    Args:
        folder: is made; keeps the data set, and what was measured.
        workload: count, readfile, ksort or compress.
        thresholds: concurrent requests from which on the big pool serves.
        loads: per cent of what both pools carry.
        requests: number of requests of each load, and of the calibration with each number in
            service.
        files: number of files in the data set.
        repeat: the work is done so many times.
        slow: a request takes so many times its processor time, small and big.
        seed: seed of files and arrivals.
        tell: told of each step.

    Raises:
        HalfwinkError: a value is impossible.
        RunError: the machine does not allow it, or a request failed.
    """
    folder = Path(folder)
    if not thresholds or not loads or requests < 100:
        raise HalfwinkError("expected a threshold, a load and 100 requests, or more of each")
    dataset(folder / "pages", files=files)
    with ExitStack() as stack:
        first, last = stack.enter_context(on_first_cpu())
        pools = {
            name: stack.enter_context(
                Pool(
                    folder / "pages",
                    workers=WORKERS,
                    name=name,
                    cpus=[last],
                    slow=times,
                    repeat=repeat,
                )
            )
            for name, times in slow.items()
        }
        tell(f"generator and proxy on CPU {first}, pools on CPU {last}")
        fits = pool_bins(folder, pools, workload, requests, seed, tell)
        summary: dict[str, Any] = {"workload": workload, "slow": dict(slow), "repeat": repeat}
        summary |= {"workers": WORKERS, "pools": fits, "runs": []}
        full = capacity(fits, folder / "pages")
        for threshold in thresholds:
            with proxy(folder, pools, "always-on", threshold) as steer:
                for number, percent in enumerate(loads):
                    tell(f"threshold {threshold}, {percent:g} % load")
                    name = f"threshold-{threshold}-load-{percent:g}.csv"
                    found = load(
                        f"http://{steer.address}",
                        rate=full * percent / 100,
                        requests=requests,
                        seconds=3600.0,
                        workload=workload,
                        # Other files and arrivals than the calibration's.
                        seed=seed * 1000 + threshold * 16 + number,
                        log=folder / name,
                    )
                    failed = found["requests"] - found["answered"]
                    summary["runs"].append(
                        {
                            "file": name,
                            "threshold": threshold,
                            "load_pct": percent,
                            "failed": failed,
                        }
                    )
    write_whole(folder / SUMMARY, (json.dumps(summary, indent=1) + "\n").encode())
    return predict(folder)


def predict(folder: Path | str) -> Prediction:
    """Simulates what :func:`experiment` measured: fits the model, then plays the same arrivals.

    Raises:
        HalfwinkError: the folder holds no experiment.
    """
    folder = Path(folder)
    try:
        summary: dict[str, Any] = json.loads((folder / SUMMARY).read_text())
    except (OSError, ValueError) as error:
        raise HalfwinkError(f"{folder / SUMMARY}: {error}") from None
    workload = summary["workload"]
    bins = {name: [Bin(*row) for row in rows] for name, rows in summary["pools"].items()}
    fits = {name: fit_bins(rows) for name, rows in bins.items()}
    gamma = {name: fit_bins(rows, free=True).gamma for name, rows in bins.items()}
    alpha = {name: fit.alpha_s * 1e3 for name, fit in fits.items()}
    beta = {name: [b * 1e3 for b in fit.beta_s_per_kb] for name, fit in fits.items()}
    values: dict[str, Any] = {}
    for name in SLOW:
        values[f"{name}.workers"] = summary["workers"]
        values[f"workloads.{workload}.{name}.alpha_ms"] = alpha[name]
        values[f"workloads.{workload}.{name}.beta_ms"] = beta[name]
    rows: list[dict[str, Any]] = []
    logs = [_log(folder, run["file"]) for run in summary["runs"]]
    techniques = [f"always-on:threshold={run['threshold']}" for run in summary["runs"]]
    played = simulate(workload, list(zip(logs, techniques, strict=True)), values).runs
    for run, path, simulated in zip(
        summary["runs"], logs, played.iter_rows(named=True), strict=True
    ):
        measured = read_log(path).filter(pl.col("latency_s") > 0)
        simulated_mean_ms, simulated_p99_ms = (
            1e-3 * simulated[f"latency_{which}_us"] for which in ("mean", "p99")
        )
        mean_ms, p99_ms = (
            1e3 * float(measured.select(value).item())
            for value in (
                pl.col("latency_s").mean(),
                pl.col("latency_s").quantile(0.99, "linear"),
            )
        )
        rows.append(
            {
                "threshold": run["threshold"],
                "load_pct": float(run["load_pct"]),
                "requests": measured.height,
                "failed": run["failed"],
                "measured_mean_ms": mean_ms,
                "simulated_mean_ms": simulated_mean_ms,
                "mean_error_pct": 100 * (simulated_mean_ms / mean_ms - 1),
                "measured_p99_ms": p99_ms,
                "simulated_p99_ms": simulated_p99_ms,
                "p99_error_pct": 100 * (simulated_p99_ms / p99_ms - 1),
            }
        )
    frame = pl.DataFrame(rows)
    errors = frame.group_by("threshold", maintain_order=True).agg(
        pl.col("mean_error_pct").abs().mean(), pl.col("p99_error_pct").abs().mean()
    )
    return Prediction(frame, errors, gamma, alpha, beta)


def simulate(workload: str, played: Sequence[tuple[Path, str]], values: Settings) -> Results:
    """Plays logs of requests, each under a technique, on the described server with other values."""
    jobs = [
        Job("server", f"{workload}@log:{log}", MACHINE, technique, pairs(values))
        for log, technique in played
    ]
    return run_all(jobs, baseline=jobs[0].technique)


def recorded_prototype() -> dict[str, pl.DataFrame]:
    """Returns the simulator's predictions of the prototype that is shipped as a recording: the
    tables that targets query.
    """
    found = predict(root() / "workloads/prototype")
    gamma = pl.DataFrame({"pool": list(found.gamma), "gamma": list(found.gamma.values())})
    return {
        "hybrid_predictions": found.rows,
        "hybrid_errors": found.errors,
        "hybrid_gamma": gamma,
    }


@contextmanager
def on_first_cpu() -> Generator[tuple[int, int]]:
    """Keeps this thread, and all that it starts, on one CPU; gives that one and the last."""
    allowed = os.sched_getaffinity(0)
    first, last = min(allowed), max(allowed)
    os.sched_setaffinity(0, {first})
    try:
        yield first, last
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def proxy(
    folder: Path,
    pools: Mapping[str, Address],
    policy: str,
    threshold: int,
    *,
    power: str = "",
    log: Path | None = None,
) -> Generator[LiveSteer]:
    """The steering proxy before both pools.

    Args:
        folder: folder for its description.
        pools: small and big.
        policy: policy of the proxy.
        threshold: concurrent requests from which on the big pool serves.
        power: sleep mechanism of the big pool, in TOML; by default neither sleeps, as on the
            thesis' prototype.
        log: file for the policy's events.
    """
    path = folder / "steer.toml"
    lines = [
        'schema = 1\nlisten = "127.0.0.1:0"',
        f'policy = "{chosen(policy, threshold=threshold)}"\nmachine = "{MACHINE}"',
    ]
    for name, pool in pools.items():
        lines.append(f'[{name}]\naddress = "{pool.address}"\nworkers = {WORKERS}\nqueue = 100000')
        if name == "big" and power:
            lines.append(f"power = {power}")
    lines.append("[health]\ninterval_ms = 0\n[limits]\nqueue_timeout_ms = 600000")
    lines.append("response_timeout_ms = 600000")
    path.write_text("\n".join(lines) + "\n")
    with LiveSteer(path, log=log) as steer:
        yield steer


def pool_bins(
    folder: Path,
    pools: Mapping[str, Address],
    workload: str,
    requests: int,
    seed: int,
    tell: Callable[[str], None],
) -> dict[str, list[Bin]]:
    """Medians of size and delay of each pool, through the proxy: what that adds is alpha's."""
    with ExitStack() as stack:
        steers = {
            name: stack.enter_context(proxy(folder, pools, f"always-{name}", 0)) for name in pools
        }
        urls = {name: f"http://{steer.address}" for name, steer in steers.items()}
        found = calibrate(urls, workload=workload, requests=requests, seed=seed, tell=tell)
    return {name: [Bin(*row[:4]) for row in pool.bins] for name, pool in found.pools.items()}


def capacity(bins: Mapping[str, Sequence[Bin]], pages: Path) -> float:
    """Requests per second that both pools carry."""
    index = pl.read_csv(pages / "index.csv")
    mean_bytes = float(index.select(pl.col("bytes").mean()).item())
    total = 0.0
    for rows in bins.values():
        fit = fit_bins(rows)
        total += WORKERS / fit.delay_s(mean_bytes, WORKERS)
    return total


def _log(folder: Path, name: str) -> Path:
    """A log as it was written, or packed."""
    for path in (folder / name, folder / f"{name}.xz"):
        if path.exists():
            return path
    raise RunError(f"{folder / name}: not there")


def read_log(path: Path) -> pl.DataFrame:
    return pl.read_csv(BytesIO(read_bytes(path)))

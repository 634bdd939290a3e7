"""``halfwink live load`` and ``halfwink live calibrate``: requests, and what they take."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.bed import prototype
from halfwink.cli.console import parted, print_table, print_tables, put_tables, say
from halfwink.errors import HalfwinkError
from halfwink.files import write_whole
from halfwink.models.delay_model import Calibration, Fit

Flag = Annotated[bool, Parameter(negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Out = Annotated[Path | None, Parameter(name=["-o", "--out"])]


def load(
    url: str,
    /,
    *,
    rate: float | None = None,
    clients: int | None = None,
    arrivals: str = "poisson",
    seconds: float = 10.0,
    requests: int | None = None,
    workload: str = "count",
    files: int | None = None,
    path: str | None = None,
    connections: int = 256,
    http2: Annotated[bool, Parameter(name="--http2", negative="")] = False,
    timeout_s: Annotated[float, Parameter(name="--timeout-s")] = 10.0,
    warm_up_s: Annotated[float, Parameter(name="--warm-up-s")] = 0.0,
    backend_header: Annotated[str, Parameter(name="--backend-header")] = "x-backend",
    spin_us: Annotated[float, Parameter(name="--spin-us")] = 0.0,
    seed: int = 1,
    log: Path | None = None,
    json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
) -> int:
    """Send requests when they are due, and measure from there how long they take.

    With --rate, whatever became of those before (an open loop without coordinated omission); with
    --clients, each client asks again as soon as it is answered. Ctrl-C and SIGTERM end it with its
    result.

    Parameters
    ----------
    url
        http://HOST:PORT or unix:PATH.
    rate
        Requests per second; of a profile the peak; scales a file of rates to this peak.
    clients
        Number of clients that send one request after the other, instead of a rate.
    arrivals
        poisson, constant, world-cup, evaluation (a peak of --rate), or a file: a time in seconds a
        line, or SECONDS,RATE, or the log of another load.
    seconds
        Length of the load in seconds (default: for files of times or rates, their own).
    requests
        End after this number of requests.
    workload
        readfile, ksort, compress or count, on files picked evenly.
    files
        Number of files to pick from, the first ones (default: all that the server has).
    path
        One path instead, of any server.
    connections
        Largest number of connections; requests that find none free wait in order. For a pool of our
        own, any number from its workers upwards will do.
    http2
        Speak HTTP/2 without negotiation; --connections are then requests under way.
    timeout_s
        Timeout of a request, in seconds.
    warm_up_s
        Time for which requests are sent before counting begins, in seconds.
    backend_header
        Header of answers that names the backend.
    spin_us
        Time for which to spin before a request is due, in microseconds; before that the load
        sleeps, and may wake tens of microseconds late.
    seed
        Seed of arrivals and files.
    log
        File for every request: CSV of at_s (when it was due), bytes, latency_s, service_s, status,
        backend.
    json
        Print one JSON document.
    out
        Write that document to this file.
    quiet
        Print no table.
    """
    if rate is None and clients is None and arrivals in prototype.ARRIVALS:
        raise HalfwinkError("expected --rate R or --clients N")
    if rate is not None and not 0 < rate <= 1e7:
        raise HalfwinkError(f"--rate {rate}: expected above 0, at most 1e7")
    if not 0 < seconds <= 1e6:
        raise HalfwinkError(f"--seconds {seconds}: expected above 0, at most 1e6")
    if not 0 <= spin_us <= 1e6:
        raise HalfwinkError(f"--spin-us {spin_us}: expected 0 to 1e6")
    for flag, value in (("clients", clients), ("requests", requests), ("files", files)):
        if value is not None and not 1 <= value < 1 << 40:
            raise HalfwinkError(f"--{flag} {value}: expected 1 or more")
    if not 1 <= connections < 1 << 40:
        raise HalfwinkError(f"--connections {connections}: expected 1 or more")
    check_seed(seed)
    work = prototype.Load(
        url,
        rate=rate,
        clients=clients,
        arrivals=arrivals,
        seconds=seconds,
        requests=requests,
        workload=workload,
        files=files,
        path=path,
        connections=connections if clients is None else max(connections, clients),
        http2=http2,
        timeout_s=timeout_s,
        warm_up_s=warm_up_s,
        backend_header=backend_header,
        spin_us=spin_us,
        seed=seed,
        keep=log is not None,
    )
    found = _until_end(work)
    if log is not None:
        work.write_csv(log)
    put_tables("live load", *parted(found, "backends"), out, json=json)
    if not json and not quiet:
        _show_load(found)
    return 0


def calibrate(
    *,
    small: str | None = None,
    big: str | None = None,
    workload: str = "count",
    requests: int = 2000,
    rounds: int = 3,
    threads: int | None = None,
    plain: Flag = False,
    seed: int = 1,
    json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
) -> int:
    """Measure the delay of requests by size with 1 to T in service, and fit alpha and beta.

    Parameters
    ----------
    small
        Address of the small machine's pool: http://HOST:PORT or unix:PATH.
    big
        Address of the big machine's pool.
    workload
        readfile, ksort, compress or count.
    requests
        Number of requests for each number in service.
    rounds
        Turns in which they are sent, so that a slow while of this machine hits all.
    threads
        Highest number in service (default: the pool's workers).
    plain
        Write the fit on all requests to the file, not the one on medians.
    seed
        Seed of the files that are picked.
    json
        Print one JSON document.
    out
        File for alpha and beta as TOML.
    quiet
        Print no messages and no table.
    """
    pools = {name: url for name, url in (("small", small), ("big", big)) if url is not None}
    if not pools:
        raise HalfwinkError("expected --small URL, --big URL or both")
    if threads is not None and not 1 <= threads <= 1024:
        raise HalfwinkError(f"--threads {threads}: expected 1 to 1024")
    check_seed(seed)
    found = prototype.calibrate(
        pools,
        workload=workload,
        requests=requests,
        rounds=rounds,
        threads=threads,
        seed=seed,
        tell=lambda line: say(line, quiet=quiet),
    )
    if out is not None:
        write_whole(out, found.toml(plain=plain))
    if json:
        told = found.to_dict()
        pools = [{"name": name, **fits} for name, fits in told["pools"].items()]
        bins = [{"name": pool["name"], **row} for pool in pools for row in pool.pop("bins")]
        print_tables(
            "live calibrate", {"pools": pools, "bins": bins}, {"workload": told["workload"]}
        )
    elif not quiet:
        _show_fits(found)
    return 0


def check_seed(seed: int) -> None:
    """Refuses what no seed is."""
    if not 0 <= seed < 1 << 63:
        raise HalfwinkError(f"--seed {seed}: expected 0 or more")


def _until_end(work: prototype.Load) -> dict[str, Any]:
    """Waits for the result; a signal ends the work early."""

    def end(_number: int, _frame: Any) -> None:
        work.stop()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return work.result()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_load(found: dict[str, Any]) -> None:
    errors = ", ".join(f"{kind} {count:,}" for kind, count in found["errors"].items())
    rows = [
        ["requests", f"{found['requests']:,}"],
        ["answered", f"{found['answered']:,}"],
        ["errors", errors or "-"],
        ["seconds", f"{found['seconds']:.3f}"],
        ["offered/s", f"{found['offered_per_s']:,.1f}"],
        ["answered/s", f"{found['answered_per_s']:,.1f}"],
        ["latency ms", milliseconds(found["latency_s"])],
        ["service ms", milliseconds(found["service_s"])],
        ["sent late ms", milliseconds(found["lateness_s"])],
        ["more than 1 ms late", f"{found['late']:,}"],
        ["waited for a connection", f"{found['waited']:,}"],
        ["connections", f"{found['connections']:,}"],
        ["CPU s", f"{found['cpu_s']:.3f}"],
    ]
    for backend in found["backends"]:
        times = backend["latency_s"]
        rows.append([f"from {backend['name']}", f"{times['count']:,}; ms {milliseconds(times)}"])
    print_table([("what", "left"), ("value", "right")], rows)


def _show_fits(found: Calibration) -> None:
    rows: list[Sequence[str]] = []
    for name, pool in found.pools.items():
        fits: list[tuple[str, Fit]] = [
            ("medians", pool.medians),
            ("medians, gamma free", pool.medians_free),
            ("all", pool.plain),
            ("all, gamma free", pool.plain_free),
        ]
        for kind, fit in fits:
            betas = " ".join(f"{beta * 1e3:.4g}" for beta in fit.beta_s_per_kb)
            rows.append(
                [
                    name,
                    kind,
                    f"{fit.alpha_s * 1e3:.4g}",
                    betas,
                    f"{fit.gamma:.3f}",
                    f"{fit.rms_s * 1e3:.3g}" if kind.startswith("all") else "-",
                    f"{fit.relative_rms:.1%}",
                ]
            )
    heads = [("pool", "left"), ("fitted on", "left"), ("alpha ms", "right")]
    heads += [("beta ms/kB for N = 1, 2, ...", "left"), ("gamma", "right")]
    heads += [("rms ms", "right"), ("relative", "right")]
    print_table(heads, rows)


def milliseconds(summary: dict[str, Any]) -> str:
    """Mean and quantiles of times in seconds, for a table."""
    if not summary["count"]:
        return "-"
    names = (("mean", "mean"), ("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99.9", "p999"))
    return ", ".join(f"{name} {summary[key] * 1e3:.3f}" for name, key in (*names, ("max", "max")))

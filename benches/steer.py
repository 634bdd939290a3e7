"""The steering proxy beside HAProxy: the same two nginx behind both, in one run.

    benches/steer.py [--seconds 3] [--repeats 3] [--connections 32] [--workers 32] [--bytes 512]

For each repeat and proxy in turn: ``wrk`` at full speed. CPU seconds are those of the proxy's own
process, user and system. Ratios are medians of the ratios in each repeat. HAProxy takes ``balance
first`` with a ``maxconn`` for each server, which is the same rule as halfwink's hybrid policy
without sleep. With ``--access-log`` the proxy stands beside itself: without an access log, and with
one of each format.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from halfwink import programs

sys.path.insert(0, str(Path(__file__).parent.parent / "python" / "tests"))

from steer_bed import free_port, get, nginx, status, wait_until

TICKS = os.sysconf("SC_CLK_TCK")

HAPROXY = """global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 1s
    option forwardfor
    http-reuse always
frontend in
    bind 127.0.0.1:{port}
    default_backend both
backend both
    balance first
    http-request set-header Via "1.1 haproxy"
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Forwarded-Host %[req.hdr(host)]
    http-response set-header Via "1.1 haproxy"
    server small {small} maxconn {workers}
    server big {big} maxconn {workers}
"""

HALFWINK = """schema = 1
listen = "127.0.0.1:{port}"
policy = "always-on:threshold={workers}"
{more}
[small]
address = "{small}"
workers = {workers}
[big]
address = "{big}"
workers = {workers}
"""


def cpu_s(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def running(words: list[str], port: int, log: Path) -> Generator[int]:
    with log.open("w") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out)

    def answers() -> bool:
        try:
            return status(get(f"127.0.0.1:{port}")) == 200
        except OSError:
            return False

    wait_until(answers, 20)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def load(port: int, path: str, seconds: float, connections: int) -> dict[str, float]:
    """What ``wrk`` measures."""
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--latency"]
    done = subprocess.run(
        [*words, f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True
    )
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise SystemExit(done.stdout)
    unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    total = re.search(r"(\d+) requests in", done.stdout)
    assert p99 is not None
    assert total is not None
    return {"requests": float(total[1]), "p99_s": float(p99[1]) * unit[p99[2]]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--bytes", type=int, default=512, help="of a response's body")
    parser.add_argument("--access-log", action="store_true", help="beside itself, with and without")
    args = parser.parse_args()
    for program in map(programs.find, ("wrk",) if args.access_log else ("haproxy", "wrk")):
        if program.path is None:
            raise SystemExit(program.missing)
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        small, big = (stack.enter_context(nginx(folder, n))[0] for n in ("small", "big"))
        for n in ("small", "big"):
            (folder / n / "html" / "body").write_bytes(b"x" * args.bytes)
        ports, pids = {}, {}
        ours = [sys.executable, "-m", "halfwink", "live", "steer"]
        proxies = [("haproxy", HAPROXY, ["haproxy", "-db", "-f"]), ("halfwink", HALFWINK, ours)]
        if args.access_log:
            proxies = [(name, HALFWINK, ours) for name in ("none", "combined", "json")]
        for proxy, text, words in proxies:
            port, config = free_port(), folder / f"{proxy}.conf"
            more = f'access_log = {{ file = "{proxy}.access", format = "{proxy}" }}'
            keys = {"port": port, "small": small, "big": big, "workers": args.workers}
            keys["more"] = more if proxy in ("combined", "json") else ""
            config.write_text(text.format(**keys))
            log = folder / f"{proxy}.log"
            ports[proxy] = port
            pids[proxy] = stack.enter_context(running([*words, str(config)], port, log))
        ports["nginx"] = int(small.rpartition(":")[2])
        for _ in range(args.repeats):
            for proxy in ports:
                before = cpu_s(pids[proxy]) if proxy in pids else 0.0
                run = load(ports[proxy], "/body", args.seconds, args.connections)
                run["per_s"] = run["requests"] / args.seconds
                if proxy in pids:
                    run["per_cpu_s"] = run["requests"] / (cpu_s(pids[proxy]) - before)
                found.setdefault(proxy, []).append(run)
                time.sleep(0.2)
    medians = {
        proxy: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for proxy, runs in found.items()
    }
    peer = "none" if args.access_log else "haproxy"
    ratios = {
        f"{proxy}_over_{peer}": {
            key: statistics.median(a[key] / b[key] for a, b in zip(runs, found[peer], strict=True))
            for key in ("per_cpu_s", "per_s", "p99_s")
        }
        for proxy, runs in found.items()
        if proxy not in (peer, "nginx")
    }
    print(json.dumps({"medians": medians, **ratios}, indent=2))


if __name__ == "__main__":
    main()

"""The services and programs that can be captured by name."""

from __future__ import annotations

import difflib

from .block_layer import BLOCK_LAYER
from .computing import FROM_DEBIAN, FROM_SOURCE
from .errors import WrongUseError
from .guest import JAVA
from .workload import Workload


def _nginx_at(percent: int, rate: int, warmup: int) -> Workload:
    return Workload(
        name=f"nginx-{percent}pct",
        description=f"nginx serving small files at about {percent} % utilisation: open load with"
        f" exponential gaps, {rate} requests/s",
        kind="open",
        script="nginx",
        command=("nginx", "-c", "/run/nginx.conf"),
        protocol="http",
        connections=16,
        rate_per_s=rate,
        warmup=warmup,
    )


_JAVA_OPTIONS = (
    *("-XX:+UseSerialGC", "-Xms192m", "-Xmx192m", "-Xmn8m"),
    "-Dsun.net.httpserver.nodelay=true",
)

_REDIS = (
    *("redis-server", "--bind", "192.0.2.1", "--protected-mode", "no"),
    *("--save", "", "--appendonly", "no", "--daemonize", "yes"),
)

_ALL = (
    Workload(
        name="nginx",
        description="nginx serving small files over lasting connections, closed load",
        kind="closed",
        script="nginx",
        command=("nginx", "-c", "/run/nginx.conf"),
        protocol="http",
        connections=16,
        warmup=1000,
    ),
    Workload(
        name="apache",
        description="Apache prefork serving small files, one connection for each request,"
        " closed load",
        kind="closed",
        script="apache",
        command=("apache2", "-f", "/run/apache.conf", "-k", "start"),
        protocol="http-close",
        connections=8,
        warmup=400,
    ),
    Workload(
        name="apache-files",
        description="Apache prefork reading and sending 8192 small files, 73 MB, at random, one"
        " connection for each request, closed load",
        kind="closed",
        script="apache-files",
        command=("apache2", "-f", "/run/apache.conf", "-k", "start"),
        protocol="http-close",
        connections=8,
        warmup=4000,
        items=1024,
    ),
    Workload(
        name="apache-cgi",
        description="Apache prefork running a program for each request (page.c, by gcc -O2"
        " -static), which sends a small file; a connection for each, closed load",
        kind="closed",
        script="apache-cgi",
        command=("apache2", "-f", "/run/apache.conf", "-k", "start"),
        layers=("gcc",),
        protocol="http-close",
        connections=2,
        warmup=400,
        source="page.c",
    ),
    Workload(
        name="memcached",
        description="memcached, one worker, nine get to one set of values of 64 to 1023 bytes,"
        " closed load",
        kind="closed",
        script="memcached",
        command=("memcached", "-d", "-u", "nobody", "-l", "192.0.2.1", "-t", "1", "-m", "64"),
        protocol="memcached",
        connections=16,
        warmup=2000,
    ),
    Workload(
        name="redis",
        description="Redis, nine GET to one SET of values of 64 to 1023 bytes, closed load",
        kind="closed",
        script="redis",
        command=_REDIS,
        protocol="redis",
        connections=16,
        warmup=2000,
    ),
    Workload(
        name="redis-large",
        description="Redis, nine GET to one SET of 100000 values of 64 to 1023 bytes, closed load",
        kind="closed",
        script="redis",
        command=_REDIS,
        protocol="redis",
        connections=16,
        warmup=20000,
        items=100_000,
    ),
    Workload(
        name="postgresql",
        description="PostgreSQL, nine SELECT to one UPDATE of a row by its primary key,"
        " closed load",
        kind="closed",
        script="postgresql",
        command=("postgres", "-D", "/var/lib/postgresql/bench"),
        layers=("postgresql",),
        protocol="postgres",
        connections=4,
        warmup=400,
    ),
    Workload(
        name="java-shop",
        description="a book shop in Java (Shop.java, OpenJDK 17, serial collector), lasting"
        " connections, closed load",
        kind="closed",
        script="java-shop",
        command=("java", *_JAVA_OPTIONS, "-cp", "/run/shop", "Shop", "192.0.2.1", "80"),
        guest=JAVA,
        protocol="http",
        connections=4,
        warmup=20000,
        source="Shop.java",
    ),
    Workload(
        name="sqlite",
        description="sqlite3 filling, indexing and querying a table of 20000 rows",
        kind="program",
        script="sqlite",
        command=("sqlite3", "/tmp/orders.db", ".read /run/work.sql"),
        warmup=1,
    ),
    Workload(
        name="gcc",
        description="gcc -O2 compiling a C file of about 300 lines",
        kind="program",
        script="gcc",
        command=("gcc", "-O2", "-c", "-o", "/tmp/program.o", "/halfwink/program.c"),
        layers=("gcc",),
        warmup=1,
    ),
    Workload(
        name="gzip",
        description="gzip -6 compressing program code",
        kind="program",
        script="gzip",
        command=("gzip", "-6", "-c", "/tmp/data"),
        warmup=1,
    ),
    _nginx_at(1, 150, 100),
    _nginx_at(10, 1650, 400),
    _nginx_at(50, 8100, 1000),
    *FROM_DEBIAN,
    *FROM_SOURCE,
    *BLOCK_LAYER,
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
"""All of them, by name."""


def find(name: str) -> Workload:
    """The workload called `name`."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    near = difflib.get_close_matches(name, WORKLOADS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(WORKLOADS)}"
    raise WrongUseError(f"unknown workload {name!r}: {hint}")

"""The services and programs that can be captured by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from .errors import WrongUseError
from .guest import PROGRAMS, SERVERS

Kind = Literal["closed", "open", "program"]


@dataclass(frozen=True)
class Workload:
    """Something to capture."""

    name: str
    description: str
    kind: Kind
    """`closed` and `open`: a server, and how its requests arrive; `program`: runs by itself."""
    script: str
    """Which file of `capture/guest/workloads` starts it."""
    command: tuple[str, ...] = ()
    """The recorded program's own command line, for the trace's header."""
    guest: str = SERVERS
    """Which guest has it."""
    layers: tuple[str, ...] = ()
    """Parts of the guest it needs beside the base."""
    protocol: str = ""
    """What the load generator speaks."""
    connections: int = 0
    rate_per_s: int | None = None
    warmup: int = 0
    """Requests, or runs of the program, before recording starts."""
    record_after_s: float | None = None
    """Virtual seconds (10^9 instructions each) that the program runs before recording starts."""
    instructions: int = 100_000_000
    """Recorded unless told otherwise."""

    @property
    def is_server(self) -> bool:
        """Whether it answers requests."""
        return self.kind != "program"

    @property
    def unit_of_work(self) -> str:
        """What energy and time are divided by."""
        return "request" if self.is_server else "instruction"

    @property
    def cpus(self) -> int:
        """CPUs of the recorded machine: a server's clients have one of their own."""
        return 2 if self.is_server else 1


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


def _program(
    name: str,
    description: str,
    *command: str,
    record_after_s: float,
    layers: tuple[str, ...] = (),
) -> Workload:
    """One that stands in for a program of SPEC CPU2006, in its main phase."""
    return Workload(
        name=name,
        description=description,
        kind="program",
        script=name,
        command=command,
        guest=PROGRAMS,
        layers=layers,
        record_after_s=record_after_s,
    )


_PROGRAMS = (
    _program(
        "perl",
        "Perl counting, matching, rewriting and sorting the text of its own modules",
        *("perl", "/halfwink/work.pl"),
        layers=("perl",),
        record_after_s=3,
    ),
    _program(
        "bzip2",
        "bzip2 -9 compressing program code",
        *("bzip2", "-9", "-c", "/tmp/data"),
        record_after_s=3,
    ),
    _program(
        "lemon",
        "LEMON's network simplex method on a minimum-cost-flow problem of 80,000 nodes and"
        " 1,280,000 arcs, as of vehicles on timetabled trips",
        *("dimacs-solver", "-q", "/tmp/network.min", "/dev/null"),
        layers=("perl",),
        record_after_s=4,
    ),
    _program(
        "gnugo",
        "GNU Go playing itself on the full board at level 10",
        *("gnugo", "--mode", "gtp", "--level", "10", "--seed", "1"),
        record_after_s=5,
    ),
    _program(
        "hmmer",
        "HMMER searching 4000 proteins for members of a family",
        *("hmmsearch", "--cpu", "0", "--max", "/tmp/family.hmm", "/tmp/database.fa"),
        layers=("perl",),
        record_after_s=2,
    ),
    _program(
        "sjeng",
        "Sjeng searching a chess position",
        *("sjeng",),
        record_after_s=4,
    ),
    _program(
        "quantum",
        "a simulated quantum computer (libquantum) factoring 1517 by Shor's algorithm",
        *("shor", "1517", "2"),
        record_after_s=20,
    ),
    _program(
        "x264",
        "x264 encoding a film of 640 by 360, preset slow, one thread",
        *("x264", "--threads", "1", "--preset", "slow", "--crf", "24", "/tmp/film.yuv"),
        layers=("video", "perl"),
        record_after_s=3,
    ),
    _program(
        "iverilog",
        "Icarus Verilog simulating a grid of 4096 switches that send packets: discrete events",
        *("vvp", "-n", "/tmp/network.vvp"),
        record_after_s=8,
    ),
    _program(
        "routino",
        "Routino finding the quickest way across an invented town of 360,000 crossings",
        *("routino-router", "--dir=/tmp", "--transport=motorcar", "--quickest"),
        layers=("perl",),
        record_after_s=1,
    ),
    _program(
        "xalan",
        "Xalan turning a catalogue of 40,000 items from XML into HTML",
        *("Xalan", "-o", "/dev/null", "/tmp/catalogue.xml", "/halfwink/page.xsl"),
        layers=("perl",),
        record_after_s=4,
    ),
    _program(
        "gromacs",
        "GROMACS moving 5832 molecules of water, particle-mesh Ewald, one thread",
        *("gmx", "mdrun", "-nt", "1", "-s", "run.tpr"),
        layers=("gromacs", "python"),
        record_after_s=4,
    ),
    _program(
        "meep",
        "Meep solving Maxwell's equations on a grid of a million cells round a dielectric ball",
        *("meep", "/halfwink/cavity.ctl"),
        layers=("meep", "python"),
        record_after_s=40,
    ),
    _program(
        "glpk",
        "glpsol solving a linear program by the simplex method: twelve goods on one network",
        *("glpsol", "--lp", "/tmp/flows.lp"),
        layers=("perl",),
        record_after_s=6,
    ),
    _program(
        "povray",
        "POV-Ray drawing balls of glass and metal, one thread",
        *("povray", "+WT1", "+W640", "+H480", "+A0.2", "+I/halfwink/scene.pov"),
        record_after_s=8,
    ),
    _program(
        "calculix",
        "CalculiX bending a beam of 5760 bricks: finite elements, a sparse direct solver",
        *("ccx", "beam"),
        layers=("perl", "python"),
        record_after_s=4,
    ),
    _program(
        "pocketsphinx",
        "PocketSphinx recognising synthetic English speech",
        *("pocketsphinx_continuous", "-infile", "/tmp/said.raw"),
        layers=("speech", "python"),
        record_after_s=8,
    ),
    _program(
        "lattice",
        "flow round a disc by the lattice Boltzmann method, in NumPy",
        *("python3", "/halfwink/flow.py"),
        layers=("python",),
        record_after_s=5,
    ),
    _program(
        "minisat",
        "MiniSat on a random formula of 150,000 variables and 585,000 clauses",
        *("minisat", "-no-pre", "/tmp/formula.cnf"),
        layers=("perl",),
        record_after_s=7,
    ),
    _program(
        "xz",
        "xz compressing program code with a dictionary of 32 MB",
        *("xz", "--lzma2=preset=6,dict=32MiB", "-c", "/tmp/data"),
        record_after_s=15,
    ),
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
        command=(
            "redis-server",
            "--bind",
            "192.0.2.1",
            "--protected-mode",
            "no",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "yes",
        ),
        protocol="redis",
        connections=16,
        warmup=2000,
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
    *_PROGRAMS,
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

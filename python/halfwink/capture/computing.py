"""The computing programs that can be captured by name."""

from __future__ import annotations

from .guest import PROGRAMS
from .workload import Workload


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


FROM_DEBIAN = (
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
"""Programs of Debian's packages."""


def _own(
    name: str, source: str, description: str, *arguments: str, instructions: int = 100_000_000
) -> Workload:
    """One whose source is in `workloads/programs`."""
    return Workload(
        name=name,
        description=f"{description}; {source}.c, by gcc -O2 -static",
        kind="program",
        script="own",
        command=(source, *arguments),
        layers=("gcc",),
        source=f"{source}.c",
        instructions=instructions,
    )


def _mcf(name: str, pivots: int) -> Workload:
    return _own(
        name,
        "mcf",
        "network simplex method on 40,000 timetabled trips with 3,000,000 links, after"
        f" {pivots:,} pivots",
        *("trips", "40000", "3000000", "1", str(pivots)),
    )


FROM_SOURCE = (
    _own(
        "lbm",
        "lbm",
        "flow under a moving lid by the lattice Boltzmann method, 19 speeds, 100 by 100 by 130"
        " cells",
        *("100", "100", "130", "1000", "1"),
        instructions=700_000_000,
    ),
    _own(
        "fdtd",
        "fdtd",
        "Maxwell's equations by finite differences, 140 by 140 by 140 cells, a dielectric ball",
        *("140", "1000", "1", "pulse"),
        instructions=700_000_000,
    ),
    _mcf("mcf", 450_000),
    _mcf("mcf-2", 900_000),
    _mcf("mcf-3", 1_350_000),
    *(
        _own(
            "syscalls" if kind == "mix" else f"syscalls-{kind}",
            "syscalls",
            f"a hot loop of system calls: {kind}",
            *(kind, "1000000000", "1000"),
        )
        for kind in ("mix", "getpid", "gettimeofday", "read", "write")
    ),
    _own(
        "tcp-stream",
        "tcpstream",
        "64 KB at a time over TCP on the loopback device, from one process to another",
        *("1000000000", "1000"),
    ),
)
"""Programs of `workloads/programs`."""

"""Every command that reads a file, every kind of input, every damage: cases by the thousand.

    python hostile.py         reads a case a line from standard input, answers a line for each

A worker runs cases one after the other in its own process, under a limit of its address space: one
start of Python serves thousands. What ends it, or keeps it from answering, is the case's fault.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import random
import re
import resource
import select
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/corpus"
#: Address space of a worker, and what a case may add to its resident memory, in bytes.
SPACE = 6 << 30
MEMORY = 1 << 30
#: One of so many cases is in the sample, of inputs that a command takes, and of others.
OWN, OTHERS = 12, 150
#: A worker that says nothing for so long is stuck, beside any neighbour.
SILENT_S = 120

SERVER = ("hybrid", "readfile", "-t", "always-on", "--set", "requests=2000", "--load")
#: Commands that read a file, with the place of its name.
COMMANDS = {
    "hybrid --load log:": (*SERVER, "log:{}"),
    "hybrid --load counts:": (*SERVER, "counts:{}"),
    "hybrid --load gaps:": (*SERVER, "gaps:{}@30"),
    "hybrid --load log:ignore=bad-lines:": (*SERVER, "log:ignore=bad-lines:{}"),
    "hybrid-year --counts": ("hybrid-year", "-t", "always-on", "--set", "days=2", "--counts={}"),
    "trace import": ("trace", "import", "{}", "-o", "out.hwt"),
    "trace import --format champsim-cloudsuite": (
        *("trace", "import", "{}", "-o", "out.hwt"),
        *("--format", "champsim-cloudsuite"),
    ),
    "trace info": ("trace", "info", "{}"),
    "trace check": ("trace", "check", "{}"),
    "trace head": ("trace", "head", "{}"),
    "compare -w racks": ("compare", "{}", "-w", "racks", "-t", "packet-switch"),
    "circuits schedule": ("circuits", "schedule", "{}"),
    "circuits advise": ("circuits", "advise", "{}"),
    "idle": ("idle", "{}"),
    "storage simulate": ("storage", "simulate", "file@{}", "--set", "ios=500"),
    "router --profile-pps": ("router", "ipv4", "-t", "polling", "--profile-pps={}"),
    "compare -m": ("compare", "count@30", "-w", "server", "-t", "hybrid", "-m", "{}"),
    "run": ("run", "{}", "-q"),
    "replay": ("replay", "{}"),
    "check-policy": ("check-policy", "{}"),
    "report": ("report", "{}", "-q"),
    "query": ("query", "{}"),
    "profile --log": ("profile", "--log", "{}"),
}
STUDY = b"""schema = 1
title = "t"
world = "server"
workloads = ["count@30"]
machines = ["niccolini"]
techniques = ["hybrid"]
"""
#: Kinds of input: a file of the corpus, or of the tree, or its bytes, and how its name has to end.
KINDS: dict[str, tuple[Path | bytes, str]] = {
    "access log": (CORPUS / "clf-ms.log", ".log"),
    "JSON log": (CORPUS / "nginx.json", ".json"),
    "CSV of requests": (CORPUS / "epoch-ms.csv", ".csv"),
    "counts": (CORPUS / "counts-dates.csv", ".csv"),
    "range export": (CORPUS / "prometheus-range.json", ".json"),
    "distribution": (CORPUS / "gaps.cdf", ".cdf"),
    "job of fio": (CORPUS / "mixed-sizes.fio", ".fio"),
    "binary block trace": (CORPUS / "little.blktrace", ".blktrace"),
    "text block trace": (CORPUS / "biosnoop.txt", ".txt"),
    "flows": (CORPUS / "flows.htsim", ".flows"),
    "connection matrix": (CORPUS / "incast.cm", ".cm"),
    "coflows": (CORPUS / "coflows-150.txt", ".txt"),
    "execution trace": (CORPUS / "chakra-computes-alone/job.0.et", ".0.et"),
    "idle times": (CORPUS / "idle-perf.txt", ".txt"),
    "ChampSim records": (CORPUS / "champsim.gz", ".gz"),
    "trace": (ROOT / "workloads/fdtd-2.hwt", ".hwt"),
    "machine": (ROOT / "machines/server/niccolini.toml", ".toml"),
    "study": (STUDY, ".toml"),
    "capture": (CORPUS / "whole.pcap", ".pcap"),
}


LOGS = frozenset({"access log", "JSON log", "CSV of requests"})
TRACES = frozenset({"trace"})
BLOCKS = frozenset({"job of fio", "binary block trace", "text block trace"})
FLOWS = frozenset({"flows", "connection matrix", "coflows", "execution trace"})
#: Kinds that a command takes: a sample has more of these.
TAKES = {
    "hybrid --load log:": LOGS,
    "hybrid --load log:ignore=bad-lines:": LOGS,
    "hybrid --load counts:": frozenset({"counts", "range export"}),
    "hybrid-year --counts": frozenset({"counts"}),
    "hybrid --load gaps:": frozenset({"distribution"}),
    "trace import": frozenset({"ChampSim records"}),
    "trace info": TRACES,
    "trace check": TRACES,
    "trace head": TRACES,
    "compare -w racks": FLOWS,
    "circuits advise": FLOWS,
    "idle": frozenset({"idle times"}),
    "storage simulate": BLOCKS,
    "router --profile-pps": frozenset({"range export", "counts"}),
    "compare -m": frozenset({"machine"}),
    "run": frozenset({"study"}),
}


@dataclass(frozen=True)
class Case:
    """A command on a damaged file of a kind."""

    command: str
    kind: str
    damage: str

    @property
    def name(self) -> str:
        return f"{self.command} | {self.kind} | {self.damage}"


NUMBER = re.compile(rb"\d+(?:\.\d+)?")


def numbers(text: bytes) -> Callable[[bytes], bytes]:
    """Replaces every third number by a text."""

    def change(data: bytes) -> bytes:
        count = 0

        def one(found: re.Match[bytes]) -> bytes:
            nonlocal count
            count += 1
            return text if count % 3 == 0 else found[0]

        return NUMBER.sub(one, data)

    return change


def flips(seed: int, share: float) -> Callable[[bytes], bytes]:
    """Flips bits, at least one."""

    def change(data: bytes) -> bytes:
        chance, changed = random.Random(seed), bytearray(data)
        for _ in range(max(1, int(share * len(data)))):
            if changed:
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)

    return change


def decoded(data: bytes) -> str:
    return data.decode("latin-1")


def tar(data: bytes) -> bytes:
    """A tar of two files."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name in ("a", "b"):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return whole.getvalue()


def bomb(_: bytes) -> bytes:
    """Eight gibibytes of zeros, packed twice."""
    zeros = gzip.compress(bytes(1 << 20), mtime=0) * 8192
    return gzip.compress(zeros, mtime=0)


#: What is done to a file's bytes.
CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda data: data,
    "empty": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "its last byte alone": lambda data: data[-1:],
    "a bit flipped": flips(1, 0),
    "another bit flipped": flips(2, 0),
    "one bit of a hundred bytes flipped": flips(3, 0.01),
    "one bit of ten bytes flipped": flips(4, 0.1),
    "a byte removed": lambda data: data[: len(data) // 3] + data[len(data) // 3 + 1 :],
    "a byte doubled": lambda data: data[: len(data) // 3 + 1] + data[len(data) // 3 :],
    "NULs within": lambda data: data[: len(data) // 2] + bytes(64) + data[len(data) // 2 :],
    "NULs behind": lambda data: data + bytes(4096),
    "UTF-16": lambda data: decoded(data).encode("utf-16"),
    "half of UTF-16": lambda data: decoded(data).encode("utf-16")[: len(data) | 1],
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR alone": lambda data: data.replace(b"\n", b"\r"),
    "one long line": lambda data: data.replace(b"\n", b" ") * (1 + (1 << 20) // (1 + len(data))),
    "lines backwards": lambda data: b"\n".join(reversed(data.split(b"\n"))),
    "twice": lambda data: data + data,
    "numbers that overflow": numbers(b"18446744073709551616"),
    "numbers without end": numbers(b"1e400"),
    "negative numbers": numbers(b"-7"),
    "zeros for numbers": numbers(b"0"),
    "nan for numbers": numbers(b"nan"),
    "inf for numbers": numbers(b"inf"),
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "half of gzip": lambda data: gzip.compress(data, mtime=0)[: len(data) // 4 + 12],
    "xz": lzma.compress,
    "a tar of two": tar,
    "a bomb": bomb,
}
#: Files that are none, or not whole: of no kind.
SPECIAL = ("FIFO", "/dev/zero", "folder", "nothing", "sparse", "socket", "link to itself")


def special(damage: str, path: Path) -> Path:
    """Makes a file that is none."""
    match damage:
        case "FIFO":
            os.mkfifo(path)
        case "/dev/zero":
            return Path("/dev/zero")
        case "folder":
            path.mkdir()
        case "sparse":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case "socket":
            os.mknod(path, 0o140600)
        case "link to itself":
            path.symlink_to(path)
        case _:
            pass
    return path


def cases() -> Iterator[Case]:
    """Every case: a command on each damage of each kind, and on each file that is none."""
    for command in COMMANDS:
        for damage in SPECIAL:
            yield Case(command, "any", damage)
        for kind in KINDS:
            for damage in CHANGES:
                yield Case(command, kind, damage)


def place(case: Case) -> int:
    """A large number of a case's own."""
    return int(hashlib.sha256(case.name.encode()).hexdigest(), 16)


def part_of(parts: int, part: int) -> list[Case]:
    """One of so many parts of all cases."""
    return [case for case in cases() if place(case) % parts == part]


def sample() -> list[Case]:
    """Some of all cases: all that are no file, and more of what a command takes than of others."""

    def is_in(case: Case) -> bool:
        takes = case.kind in TAKES.get(case.command, ())
        return case.damage in SPECIAL or place(case) % (OWN if takes else OTHERS) == 0

    return [case for case in cases() if is_in(case)]


def made(case: Case, folder: Path) -> Path:
    """Writes the file of a case."""
    if case.damage in SPECIAL:
        return special(case.damage, folder / "a file.flows")
    source, ending = KINDS[case.kind]
    path = folder / f"a file{ending}"
    whole = source if isinstance(source, bytes) else source.read_bytes()
    path.write_bytes(CHANGES[case.damage](whole))
    return path


@dataclass(frozen=True)
class Answer:
    """How a case ended."""

    case: Case
    status: int | None
    told: str
    grown: int = 0

    @property
    def fault(self) -> str | None:
        """What is wrong with it; None if it ended in success or in one line."""
        lines = self.told.strip().splitlines()
        if self.status is None:
            return f"no answer: {self.told}"
        if re.search("Traceback|panicked|halfwink: unexpected ", self.told):
            return self.told
        if self.status not in (0, 1, 2):
            return f"status {self.status}"
        if self.status != 0 and len(lines) != 1:
            return f"{len(lines)} lines: {self.told[:400]}"
        if self.case.damage in SPECIAL and self.status != 2:
            return f"status {self.status}, expected 2"
        if self.grown > MEMORY:
            return f"{self.grown >> 20} MiB"
        return None


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work() -> None:
    """Answers cases until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from halfwink.cli.main import main

    answers = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    for line in sys.stdin:
        case = Case(**json.loads(line))
        before = resident()
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as told:
            path = made(case, Path(folder))
            words = [word.format(path) for word in COMMANDS[case.command]]
            os.chdir(folder)
            os.dup2(told.fileno(), 2)
            status: int | None = None
            try:
                main(words)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
            except BaseException as error:
                os.write(2, f"Traceback: {error!r}".encode())
                status = -1
            sys.stderr.flush()
            os.dup2(nothing, 2)
            told.seek(0)
            text = told.read().decode(errors="replace")
            os.chdir("/")
        grown = max(0, resident() - before)
        print(json.dumps([status, text, grown]), file=answers, flush=True)


class Worker:
    """A process that runs cases; another one follows one that ends."""

    def __init__(self) -> None:
        self.process = self.start()

    @staticmethod
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"COLUMNS": "200", "NO_COLOR": "1"},
        )

    def run(self, case: Case) -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(case.__dict__).encode() + b"\n")
            self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SILENT_S)
        line = self.process.stdout.readline() if ready else b""
        if line:
            return Answer(case, *json.loads(line))
        silent = f"silent for {SILENT_S} s" if not ready else "the process ended"
        self.close()
        self.process = self.start()
        return Answer(case, None, silent)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def answers(wanted: list[Case]) -> list[Answer]:
    """Runs cases in one worker."""
    worker = Worker()
    try:
        return [worker.run(case) for case in wanted]
    finally:
        worker.close()


def table(found: list[Answer]) -> str:
    """Of each command how many cases there are, how many were played, and how they ended."""
    everything = list(cases())
    rows = [
        "| command | cases | of these in `make test` | succeed | refused in one line |",
        "|---|---|---|---|---|",
    ]
    for command in COMMANDS:
        of_it = [answer for answer in found if answer.case.command == command]
        count = sum(case.command == command for case in everything)
        good = sum(answer.status == 0 for answer in of_it)
        refused = len(of_it) - good
        rows.append(f"| `halfwink {command}` | {count} | {len(of_it)} | {good} | {refused} |")
    return "\n".join(rows) + f"\n\n{len(everything)} cases in all.\n"


if __name__ == "__main__":
    work()

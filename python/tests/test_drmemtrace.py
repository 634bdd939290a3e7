"""drmemtrace, out by a reader of its own (`trace_entry.h` said again), and in."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Halfwink

#: `trace_type_t` and `trace_marker_type_t`.
READ, WRITE, INSTR, DIRECT_JUMP, NO_FETCH, TAKEN, UNTAKEN = 0, 1, 10, 11, 29, 48, 49
INDIRECT = {12, 15, 16}
CALL, MARKER = 14, 28
HEADER, VERSION, FILETYPE, THREAD, PID = (25, 0), (28, 12), (28, 9), (22, 0), (24, 0)
LINE, PAGE, TIME, CPU = (28, 10), (28, 18), (28, 2), (28, 3)
SYSCALL, TARGET, EVENT, RETURN = 25, 29, 43, 44


@dataclass
class Step:
    """An instruction: what it is, where, and where it says that its code goes on."""

    kind: int
    pc: int
    behind: int
    target: int
    kernel: bool
    #: Interruption that came behind it.
    event: int = 0


def entries(path: Path) -> list[tuple[int, int, int]]:
    content = path.read_bytes()
    whole = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    return list(struct.iter_unpack("<HHQ", whole))


def steps(found: list[tuple[int, int, int]]) -> Iterator[Step]:
    target, depth, step = 0, 0, None
    for kind, size, value in found:
        if kind == MARKER and size == TARGET:
            target = value
        elif kind == MARKER and size == EVENT:
            depth += 1
            if step is not None:
                step.event = value
        elif kind == MARKER and size == RETURN:
            depth -= 1
        elif INSTR <= kind <= 16 or kind in (NO_FETCH, TAKEN, UNTAKEN):
            if step is not None:
                yield step
            step = Step(kind, value, value + size, target, depth > 0)
            target = 0
    assert step is not None
    yield step


@pytest.mark.parametrize("workload", ["nginx", "postgresql"])
def test_all_of_a_trace_goes_out_and_flows(workload: str, halfwink: Halfwink, tmp_path: Path):
    cut = ("trace", "slice", workload, "--skip", "1000000", "--keep", "300000", "-o", "cut.hwt")
    assert halfwink(*cut).status == 0
    totals = halfwink("trace", "info", "cut.hwt", "--json").json()["facts"]
    done = halfwink("trace", "export", "cut.hwt", "--format", "drmemtrace")
    assert done.status == 0, done.err
    found = entries(tmp_path / "cut.drmemtrace.gz")
    head = [HEADER, VERSION, FILETYPE, THREAD, PID, LINE, PAGE, TIME, CPU]
    assert [entry[:2] for entry in found[:9]] == head
    assert [found[0][2], found[2][2]] == [7, 0x50440]
    assert [entry[0] for entry in found[-2:]] == [23, 26]
    kinds = Counter(kind for kind, _, _ in found)
    assert kinds[READ] + kinds[WRITE] == totals["accesses"]
    assert kinds[NO_FETCH] == totals["repeats"]
    marks = Counter(size for kind, size, _ in found if kind == MARKER)
    assert marks[SYSCALL] == totals["events"]["syscall"]
    path = list(steps(found))
    fetched = [step for step in path if step.kind != NO_FETCH]
    assert len(fetched) == totals["instructions"]
    assert sum(step.kernel for step in fetched) == totals["kernel_instructions"]
    assert all(step.kernel == (step.pc >> 63 == 1) for step in path)
    for step, after in pairwise(path):
        to = step.event or after.pc
        if step.kind in INDIRECT:
            assert step.target == to
        elif step.kind == TAKEN:
            assert to != step.behind
        elif step.kind not in (DIRECT_JUMP, CALL):
            # A string instruction goes on with itself.
            assert to in (step.behind, step.pc), hex(step.pc)


def test_user_code_alone_and_limits(halfwink: Halfwink, tmp_path: Path):
    words = ("trace", "export", "nginx", "--format", "drmemtrace", "-o", "u.drmemtrace")
    done = halfwink(*words, "--mode", "user", "--limit", "5000")
    assert "5,000 fetched instructions" in done.err
    path = list(steps(entries(tmp_path / "u.drmemtrace")))
    assert len(path) == 5000
    assert all(step.pc < 1 << 47 for step in path)
    for wrong in (["--mode", "kernel"], ["--cpu", "7"], ["--cpu", "-1"]):
        done = halfwink(*words, "-q", *wrong)
        assert done.status == 2, wrong
        assert "expected" in done.complaint or "no instructions" in done.complaint
    other = halfwink("trace", "export", "nginx", "--format", "drmemtrace", "-o", "x.xz")
    assert "expected one of them" in other.complaint
    assert halfwink("trace", "export", "nginx", "--cpu", "1").status == 2


@pytest.mark.parametrize("workload", ["nginx", "gcc"])
def test_an_import_misses_as_the_recording_that_was_exported(workload: str, halfwink: Halfwink):
    cut = ("trace", "slice", workload, "--skip", "1000000", "--keep", "300000", "-o", "cut.hwt")
    assert halfwink(*cut).status == 0
    assert halfwink("trace", "export", "cut.hwt", "--format", "drmemtrace").status == 0
    done = halfwink(
        "trace", "import", "cut.drmemtrace.gz", "--format", "drmemtrace", "-o", "in.hwt"
    )
    assert done.status == 0, done.err
    totals = [halfwink("trace", "info", f, "--json").json()["facts"] for f in ("cut.hwt", "in.hwt")]
    same = ("instructions", "kernel_instructions", "repeats", "accesses")
    assert [totals[0][name] for name in same] == [totals[1][name] for name in same]
    assert totals[0]["events"].get("syscall") == totals[1]["events"].get("syscall")
    # Virtual addresses alone are told.
    misses = [
        halfwink("trace", "caches", f, "--virtual", "--json").rows("misses")
        for f in ("cut.hwt", "in.hwt")
    ]
    assert misses[0] == misses[1]
    assert halfwink("trace", "check", "in.hwt").status == 0


def test_a_file_named_so_is_taken_for_one_and_another_is_refused(
    halfwink: Halfwink, tmp_path: Path
):
    corpus = Path(__file__).parents[2] / "tests/corpus"
    name = "drmemtrace.allasm_x86_64.trace.zip"
    (tmp_path / name).write_bytes((corpus / name).read_bytes())
    done = halfwink("trace", "import", name)
    assert done.status == 0, done.err
    assert "allasm_x86_64.hwt: 133 instructions" in done.err
    played = halfwink("compare", "allasm_x86_64.hwt", "-w", "chip", "-t", "always-on,tap", "-q")
    assert played.status == 0, played.err
    (tmp_path / "drmemtrace.text.gz").write_text("a line of no format\n" * 100)
    assert (
        "expected a drmemtrace header"
        in halfwink("trace", "import", "drmemtrace.text.gz").complaint
    )
    bare = halfwink(
        "trace", "import", str(corpus / "drmemtrace-as-champsim.bin"), "--format", "champsim"
    )
    assert bare.complaint.endswith("these are drmemtrace entries: --format drmemtrace")

"""Recordings of programs: real ones, compiled here, with instructions counted by hand."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Done, Halfwink, need, need_recorder, wait_until

import halfwink as hw
from halfwink.capture import recorder
from halfwink.cli.record import count
from halfwink.errors import HalfwinkError, RunError
from halfwink.results import cold_start

ROOT = Path(__file__).parents[2]

#: 1 + 3 x 1000 + 3 instructions; each turn of the loop stores once.
LOOP = """
    .globl _start
_start: mov $1000, %ecx
again:  mov %ecx, place(%rip)
        dec %ecx
        jnz again
        mov $231, %eax
        mov $STATUS, %edi
        syscall
    .bss
place:  .skip 8
"""
#: 4 + 1 + 3 instructions: the repeated one counts once, and loads and stores 200 times.
COPY = """
    .globl _start
_start: lea from(%rip), %rsi
        lea to(%rip), %rdi
        mov $200, %ecx
        nop
        rep movsb
        mov $231, %eax
        xor %edi, %edi
        syscall
    .bss
from:   .skip 200
to:     .skip 200
"""
#: One load of 32 bytes.
VECTOR = """
    .globl _start
_start: vmovups from(%rip), %ymm0
        lock incl from(%rip)
        mov $231, %eax
        xor %edi, %edi
        syscall
    .data
from:   .skip 32
"""
#: Overwrites the operand of an instruction behind the store, twice.
CHANGING = """
    .globl _start
    .section .own, "awx", @progbits
_start: mov $2, %ecx
again:  incl operand(%rip)
        nop
        .byte 0xbb
operand: .long 5
        dec %ecx
        jnz again
        mov $231, %eax
        mov %ebx, %edi
        syscall
"""
THREADS = r"""
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int done, total;
static void *spins(void *_) { while (!done) ; return 0; }
static void *works(void *_) {
    for (int i = 0; i < 300000; i++)
        if (i % 1000 == 0) { pthread_mutex_lock(&lock); total++; pthread_mutex_unlock(&lock); }
    return 0;
}
int main(void) {
    pthread_t spinning, working[3];
    pthread_create(&spinning, 0, spins, 0);
    for (int i = 0; i < 3; i++) pthread_create(working + i, 0, works, 0);
    for (int i = 0; i < 3; i++) pthread_join(working[i], 0);
    done = 1;
    pthread_join(spinning, 0);
    printf("%d\n", total);
}
"""
#: Closes every file that it has not opened, and then works for more than a buffer of the trace.
CLOSES = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **names) {
    for (int file = 3; file < 4096; file++) close(file);
    for (int i = 0; i < 50; i++) open(names[1], O_RDWR | O_CREAT, 0600);
    volatile long sum = 0;
    static volatile long far[1 << 16];
    unsigned long at = 1;
    for (long i = 0; i < 600000; i++) { at = at * 6364136223846793005ul + 1; sum += far[at >> 48]; }
}
"""
SIGNALS = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static volatile int seen;
static void handler(int number) { seen++; }
int main(void) {
    signal(SIGUSR1, handler);
    for (int i = 0; i < 10; i++) raise(SIGUSR1);
    printf("%d\n", seen);
    fflush(stdout);
    abort();
}
"""
WAITS = r"""
#include <unistd.h>
int main(void) { write(1, "ready\n", 6); for (;;) pause(); }
"""
MARKED = r"""
#define MARK(code) __asm__ volatile(".byte 0x0f, 0x1f, 0x80, " #code ", 0x48, 0x57, 0x54")
int main(void) {
    volatile int sum = 0;
    for (int i = 0; i < 100000; i++) sum += i;
    MARK(1);
    for (int i = 0; i < 1000; i++) sum += i;
    MARK(17);
    MARK(2);
    for (int i = 0; i < 100000; i++) sum += i;
}
"""


#: Gives `execve` addresses at which nothing is, and then asks for more memory than QEMU can note.
HOSTILE = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    printf("%ld\n", syscall(SYS_execve, 1, 2, 3));
    printf("%ld\n", syscall(SYS_execve, "/bin/true", 16, 0));
    fflush(stdout);
    mmap(0, 2ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
"""


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    """Skips, with the line that adds it, where a QEMU for programs is missing."""
    need_recorder()
    need("gcc")


def built(folder: Path, source: str, *flags: str, name: str = "program") -> Path:
    """Compiles C, or assembly without a C library."""
    assembly = "_start:" in source
    file = folder / f"{name}.{'s' if assembly else 'c'}"
    file.write_text(source)
    alone = ["-nostdlib", "-static"] if assembly else ["-O1", "-pthread"]
    words = ["gcc", *alone, *flags, "-o", str(folder / name), str(file)]
    subprocess.run(words, check=True, timeout=120)
    return folder / name


def listing(halfwink: Halfwink, trace: Path) -> list[str]:
    """Instructions of a trace, without their numbers."""
    lines = halfwink("trace", "head", str(trace), "-n", "100000").out.splitlines()
    return [line.split(None, 1)[1] for line in lines if line.split()[1] in "uk"]


def sound(halfwink: Halfwink, trace: Path) -> dict[str, int]:
    """What `trace check` finds."""
    return halfwink("trace", "check", str(trace), "--json").json()["facts"]


def one_line(done: Done, *words: str) -> None:
    assert done.status == 2, done.err
    assert done.err.startswith("halfwink: "), done.err
    assert done.err.count("\n") == 1, done.err
    assert all(word in done.err for word in words), done.err


@pytest.mark.parametrize("status", [0, 3])
def test_loop_is_counted_to_the_instruction(
    halfwink: Halfwink, tmp_path: Path, status: int
) -> None:
    program = built(tmp_path, LOOP.replace("STATUS", str(status)))
    done = halfwink("record", "--json", "--", str(program))
    found = done.json()["facts"]
    assert (done.status, found["exit_status"]) == (1 if status else 0, status)
    assert ("ended with status 3" in done.err) == (status == 3)
    assert (found["instructions"], found["accesses"]) == (1 + 3 * 1000 + 3, 1000)
    assert (found["system_calls"], found["threads"], found["reason"]) == (1, 1, "exit")
    checked = sound(halfwink, tmp_path / "program.hwt")
    assert (checked["user_instructions"], checked["unexplained_successions"]) == (3004, 0)


@pytest.mark.parametrize(("skip", "length"), [(0, 1), (1, 3), (2, 500), (1001, 1234), (3003, 1)])
def test_window_is_exact(halfwink: Halfwink, tmp_path: Path, skip: int, length: int) -> None:
    program = built(tmp_path, LOOP.replace("STATUS", "0"))
    whole, part = tmp_path / "whole.hwt", tmp_path / "part.hwt"
    hw.record(program, out=whole)
    found = hw.record(program, out=part, skip=skip, instructions=length)
    assert found.instructions == length
    assert listing(halfwink, part) == listing(halfwink, whole)[skip : skip + length]


def test_window_far_in_a_run_is_exact(halfwink: Halfwink, tmp_path: Path) -> None:
    """Up to a million instructions before it nothing but the blocks' begins is watched."""
    program = built(tmp_path, LOOP.replace("STATUS", "0").replace("$1000", "$2000000"))
    out = tmp_path / "far.hwt"
    found = hw.record(program, out=out, skip=1 + 3 * 1_500_000, instructions=6)
    assert (found.instructions, found.accesses, found.reason) == (6, 2, "limit")
    names = [line.split()[2] for line in listing(halfwink, out)]
    assert names == ["mov", "sub", "jne"] * 2 or names == ["mov", "dec", "jne"] * 2


#: 1 + 3 x TURNS + 3 instructions; each turn of the loop stores to a place of its own.
FAR = LOOP.replace("place(%rip)", "place(,%rcx,4)").replace(".skip 8", ".skip 4 * TURNS + 8")


@pytest.mark.parametrize(
    ("turns", "wanted", "count", "every"),
    [
        # 120 stretches of 100,000: at a distance of 4 they would be 30, more than twice 10.
        (4_000_000, 10, 15, 800_000),
        # 240, of which 0 and 128 are left; QEMU only counts before the latter.
        (8_000_000, 1, 2, 12_800_000),
        # Fewer than are wanted: all, and the last one is whole.
        (50_000, 3, 1, 100_000),
    ],
)
def test_samples_lie_at_one_distance(
    halfwink: Halfwink, tmp_path: Path, turns: int, wanted: int, count: int, every: int
) -> None:
    source = FAR.replace("$1000", f"${turns}").replace("TURNS", str(turns)).replace("STATUS", "0")
    out = tmp_path / "x.hwt"
    program = built(tmp_path, source, "-no-pie")
    symbols = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True)
    place = next(line for line in symbols.stdout.splitlines() if line.endswith(" place")).split()[0]
    found = hw.record(program, out=out, samples=(wanted, 100_000))
    assert (found.executed, found.samples) == (4 + 3 * turns, count)
    assert found.bytes == out.stat().st_size
    facts = halfwink("trace", "info", str(out), "--json").json()["facts"]
    samples = facts["samples"]
    assert (samples["of"], samples["every"]) == (found.executed, every)
    ends = [*samples["begins"][1:], found.instructions]
    for number, (begin, end) in enumerate(zip(samples["begins"], ends, strict=True)):
        assert abs(end - begin - 100_000) <= 6
        part = tmp_path / "part.hwt"
        halfwink("trace", "slice", str(out), "--skip", str(begin), "--keep", "8", "-o", str(part))
        # Which turn of the loop it is shows in the address that is stored to.
        stored = re.search(r"w4 ([0-9a-f]+)", "\n".join(listing(halfwink, part)))
        assert stored is not None
        turn = turns - (int(stored[1], 16) - int(place, 16)) // 4
        assert abs(3 * turn - number * every) <= 6
    told = f"{out}: {count} samples of a run of {found.executed:,} instructions are played"
    [warning] = cold_start.sample_warnings(hw.compare(out, techniques="tap"))
    assert warning.startswith(told)
    assert sound(halfwink, out)["unexplained_successions"] == 0


def test_repeated_string_instruction_is_one_with_all_its_accesses(tmp_path: Path) -> None:
    program, out = built(tmp_path, COPY), tmp_path / "x.hwt"
    found = hw.record(program, out=out)
    assert (found.instructions, found.executed, found.accesses) == (8, 8, 400)
    assert hw.record(program, out=out, instructions=6).instructions == 6


def test_vector_is_one_access_and_an_atomic_operation_two(
    halfwink: Halfwink, tmp_path: Path
) -> None:
    out = tmp_path / "x.hwt"
    assert hw.record(built(tmp_path, VECTOR), out=out).accesses == 3
    lines = listing(halfwink, out)
    assert "r32 " in lines[0]
    assert all(access in lines[1] for access in ("r4 ", "w4 "))


def test_code_that_changes_itself_is_recorded_as_it_was(halfwink: Halfwink, tmp_path: Path) -> None:
    out = tmp_path / "x.hwt"
    found = hw.record(built(tmp_path, CHANGING, "-Wl,-z,execstack"), out=out)
    assert (found.exit_status, found.instructions) == (7, 1 + 2 * 5 + 3)
    assert sound(halfwink, out)["unexplained_successions"] == 0


def test_threads_take_turns(halfwink: Halfwink, tmp_path: Path) -> None:
    out = tmp_path / "x.hwt"
    program = built(tmp_path, THREADS)
    done = halfwink("record", "-o", str(out), "--", str(program))
    assert (done.status, done.out) == (0, "900\n")
    assert "5, one at a time" in done.err
    assert sound(halfwink, out)["unexplained_successions"] == 0
    events = halfwink("trace", "info", str(out), "--json").json()["facts"]["events"]
    # Each of three threads works for more than a turn.
    assert events["cpu"] > 9
    hw.record(program, out=out, turn=2000, stdout=subprocess.DEVNULL)
    shorter = halfwink("trace", "info", str(out), "--json").json()["facts"]["events"]
    assert shorter["cpu"] > 10 * events["cpu"]


def test_threads_contend_for_lines_on_cores_of_their_own(tmp_path: Path) -> None:
    """Two threads add 20,000 times each to counters in one line, or apart."""
    source = (ROOT / "workloads" / "programs" / "counters.c").read_text()
    program = built(tmp_path, source, "-O2")

    def played(kind: str, distance: int) -> tuple[float, int]:
        out = tmp_path / f"{kind}{distance}.hwt"
        # In rounds: while the second thread has not begun, the first one spins as long as it takes.
        words = [program, kind, str(distance), "2000", "10"]
        hw.record(words, out=out, turn=1000, stdout=subprocess.DEVNULL)
        workload = f"{out}:threads=cores"
        results = hw.compare(workload, techniques="always-on", machine="golden-cove-2")
        [run] = results.runs.iter_rows(named=True)
        assert run["working_cores"] == 2
        [transfers] = results.counters.filter(component="l3", counter="transfers")["user"]
        return run["duration_s"], transfers

    (apart, few), (beside, many) = played("atomic", 128), played("atomic", 8)
    # Each addition of one thread while the other adds too; the loader's lines travel as well.
    assert few < 1000 < 28_000 < many
    # By the machine file: 6 ns and a load from the first level, or 7, 28.8 and 25 ns, and these 6;
    # both behind 0.13 ms of the loader.
    assert 3 < beside / apart < 12
    (apart, _), (beside, many) = played("plain", 128), played("plain", 8)
    assert beside < 2 * apart


def test_recording_of_one_thread_says_that_it_plays_on_one_core(tmp_path: Path) -> None:
    out = tmp_path / "x.hwt"
    hw.record(built(tmp_path, LOOP.replace("STATUS", "0")), out=out)
    [warning] = cold_start.thread_warnings(hw.compare(f"{out}:threads=cores", techniques="tap"))
    assert warning == f"{out}:threads=cores: the recording has one thread, and plays as {out} does"
    assert not cold_start.thread_warnings(hw.compare(out, techniques="tap"))


def test_static_programs_scripts_and_python_are_recorded(
    halfwink: Halfwink, tmp_path: Path
) -> None:
    static = built(tmp_path, THREADS, "-static", name="static")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nread line\necho $line $1\n")
    script.chmod(0o755)
    python = [sys.executable, "-c", "print(sum(range(1000)))"]
    for number, (words, said) in enumerate(
        [([str(static)], "900"), ([str(script), "b"], "a b"), (python, "499500")]
    ):
        out = tmp_path / f"{number}.hwt"
        words = [sys.executable, "-m", "halfwink", "record", "-q", "-o", str(out), "--", *words]
        done = subprocess.run(words, input="a\n", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, said + "\n"), done.stderr
        assert sound(halfwink, out)["user_instructions"] > 10_000


def test_processes_are_named_and_not_recorded(halfwink: Halfwink, tmp_path: Path) -> None:
    done = halfwink("record", "-o", "x.hwt", "--", "/bin/sh", "-c", "/bin/echo a; /bin/echo b")
    assert (done.status, done.out) == (0, "a\nb\n")
    assert "sh started 2 processes; only its own instructions" in done.err
    words = [sys.executable, "-c", "import os; os.fork() and os.wait()"]
    assert hw.record(words, out=tmp_path / "x.hwt").processes == 1


def test_a_path_names_a_file_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = built(tmp_path, LOOP.replace("STATUS", "4"))
    monkeypatch.chdir(program.parent)
    for command in (Path(program.name), [Path("./") / program.name]):
        assert hw.record(command, out=tmp_path / "x.hwt").exit_status == 4


def test_program_that_becomes_another_is_recorded_as_that(
    halfwink: Halfwink, tmp_path: Path
) -> None:
    program = built(tmp_path, LOOP.replace("STATUS", "4"))
    (tmp_path / "wrapper").write_text(f"#!/bin/sh\nexec {program}\n")
    (tmp_path / "wrapper").chmod(0o755)
    words = ["/bin/sh", "-c", f"exec {tmp_path}/wrapper"]
    found = hw.record(words, out=tmp_path / "x.hwt")
    assert (found.instructions, found.exit_status) == (3004, 4)
    assert [Path(name).name for name in found.became] == ["wrapper", "program"]
    # A program that is not there is no end: the shell says so itself.
    words = ["/bin/sh", "-c", "exec /nowhere/x"]
    assert hw.record(words, out=tmp_path / "x.hwt").reason == "exit"


def test_program_for_another_processor_ends_the_recording(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"\x7fELF\x01" + bytes(60))
    other.chmod(0o755)
    found = hw.record(["/bin/sh", "-c", f"exec {other}"], out=tmp_path / "x.hwt")
    assert (found.reason, found.exit_status) == ("exec", 126)
    assert found.instructions > 10_000


def test_program_may_close_the_recorders_files(halfwink: Halfwink, tmp_path: Path) -> None:
    theirs, out = tmp_path / "theirs", tmp_path / "x.hwt"
    found = hw.record([str(built(tmp_path, CLOSES)), str(theirs)], out=out)
    assert theirs.read_bytes() == b""
    assert found.bytes == out.stat().st_size > 1 << 20
    assert sound(halfwink, out)["unexplained_successions"] == 0


def test_signals_and_death_by_one_are_recorded(halfwink: Halfwink, tmp_path: Path) -> None:
    out = tmp_path / "x.hwt"
    done = halfwink("record", "-o", str(out), "--json", "--", str(built(tmp_path, SIGNALS)))
    found = done.json()["facts"]
    assert (done.status, found["exit_status"]) == (1, 128 + signal.SIGABRT)
    assert "10\n" in done.err
    assert "ended with status 134; the recording is kept" in done.err
    assert sound(halfwink, out)["user_instructions"] == found["instructions"] > 10_000


def test_hostile_calls_end_in_one_line(halfwink: Halfwink, tmp_path: Path) -> None:
    program = built(tmp_path, HOSTILE)
    done = halfwink("record", "-q", "-o", "x.hwt", "--", str(program))
    assert (done.status, done.out) == (1, "-1\n-1\n")
    assert done.err == (
        "halfwink: program: it maps 2048 GiB at once: expected at most 512, for QEMU's memory\n"
    )
    assert not (tmp_path / "x.hwt").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_program_is_kept_unless_it_had_no_warning(tmp_path: Path, number: int) -> None:
    program = built(tmp_path, WAITS)
    words = [sys.executable, "-m", "halfwink", "record", "--", str(program)]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        emulator = wait_until(lambda: Path(children).read_text().split())[-1]
        os.kill(int(emulator), number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    if number == signal.SIGKILL:
        assert "program was killed by SIGKILL before its recording was complete" in said
        assert not (tmp_path / "program.hwt").exists()
    else:
        assert "ended with status 143; the recording is kept" in said
        assert (tmp_path / "program.hwt").stat().st_size > 1000


def test_marks_begin_and_end_the_recording(tmp_path: Path) -> None:
    found = hw.record(built(tmp_path, MARKED), out=tmp_path / "x.hwt")
    assert (found.reason, found.exit_status) == ("marker", None)
    assert 3000 < found.instructions < 20_000


def test_recording_plays(halfwink: Halfwink, tmp_path: Path) -> None:
    hw.record(built(tmp_path, CLOSES), out=tmp_path / "x.hwt", skip=500_000, instructions=400_000)
    done = halfwink("compare", "x.hwt", "-m", "ev6-4", "-t", "tap", "--json")
    rows = done.rows("runs")
    assert done.status == 0
    assert {row["technique"] for row in rows} >= {"always-on", "tap"}


def test_wrong_use_is_one_line(halfwink: Halfwink, tmp_path: Path) -> None:
    program = str(built(tmp_path, LOOP.replace("STATUS", "0")))
    text, small, other = (tmp_path / name for name in ("text", "small", "other"))
    text.write_text("echo\n")
    small.write_bytes(b"\x7fELF\x01\x01" + bytes(58))
    other.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\xb7\x00" + bytes(44))
    lost = tmp_path / "lost"
    lost.write_text("#!/nowhere/sh\n")
    for file in (text, small, other, lost):
        file.chmod(0o755)
    (tmp_path / "plain").write_text("")
    for words, said in (
        ([], "expected `--` and a command"),
        (["--", "no-such-program"], "no-such-program: no such program on the path"),
        (["--", "./none"], "none: no such program"),
        (["--", "./plain"], "plain: not executable"),
        (["--", str(tmp_path)], "expected a program, found no file"),
        (["--", "./text"], "text: expected an executable for x86-64, or a script"),
        (["--", "./small"], "small: a 32-bit program"),
        (["--", "./other"], "other: a program for another processor (ELF machine 183)"),
        (["--", "./lost"], "lost: its interpreter /nowhere/sh is missing"),
        (["--skip", "3004", "--", program], "program ended with status 0 after 3,004 instructions"),
        (["--skip", "x", "--", program], "--skip x: expected a number of instructions"),
        (["--for", "0", "--", program], "expected at least one"),
        (["--turn", "0", "--", program], "turns of 0 instructions: expected at least one"),
        (["-o", "none/x.hwt", "--", program], "there is no folder none"),
        (["-o", "/dev/null", "--", program], "expected the name of a file"),
    ):
        one_line(halfwink("record", "-q", *words), said)
    (tmp_path / "program.hwt").write_text("")
    one_line(halfwink("record", "--", program), "program.hwt is there")


def test_numbers_of_instructions_have_units() -> None:
    texts = ("7", "200k", "1.5M", "1_000", "2G", "9007199254740993")
    numbers = [count("--for", text) for text in texts]
    assert numbers == [7, 200_000, 1_500_000, 1000, 2_000_000_000, 9007199254740993]
    for wrong in ("", "-1", "1.5", "1e6", "1m", "k", "9223372036854775808"):
        with pytest.raises(HalfwinkError, match="expected a number of instructions"):
            count("--for", wrong)


def test_what_is_missing_is_named_with_the_line_that_adds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = folder / recorder.QEMU
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    for version, options, said in (
        ("10.0.2 (Debian 1:10.0.2+ds-2)", "-plugin", "expected QEMU 6.0 to 8.2"),
        ("7.2.1", "-cpu", "has no plugins"),
    ):
        fake.write_text(
            f"#!/bin/sh\n[ $1 = -h ] && echo '{options}' || echo 'qemu-x86_64 version {version}'\n"
        )
        fake.chmod(0o755)
        with pytest.raises(HalfwinkError, match=said) as error:
            hw.record("/bin/true", out=tmp_path / "x.hwt")
        assert str(error.value).endswith(f"run: {recorder.fix()}")


def test_trace_that_cannot_be_written_fails_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder.shutil, "move", gone)
    with pytest.raises(RunError, match=r"x\.hwt: No space left"):
        hw.record("/bin/true", out=tmp_path / "x.hwt")
    assert not list(tmp_path.iterdir())

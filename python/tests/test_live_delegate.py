"""Programs under ``halfwink live delegate`` do what they do without it, byte for byte."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, document, lacking, need, wait_until

import halfwink
from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.live import delegate as live

PROGRAMS = Path(__file__).parent / "programs"
#: Beginning of the names of files that runs count into.
PREFIX = "halfwink-delegate-"
#: What starts a program under delegation.
DELEGATE = [sys.executable, "-m", "halfwink", "live", "delegate"]


@pytest.fixture(autouse=True)
def _can_delegate() -> None:
    try:
        live.preload_library()
    except HalfwinkError as error:
        lacking(str(error))
    if len(os.sched_getaffinity(0)) < 2:
        lacking("two CPUs for this process", kernel=True)


@dataclass
class Ended:
    """How a program ended."""

    status: int
    out: bytes
    err: bytes
    report: dict[str, Any] = field(default_factory=dict)

    def moved(self, call: str | None = None) -> int:
        calls = self.report["calls"]
        return sum(c["delegated"] for c in calls if call is None or c["name"] == call)


def run(folder: Path, *command: str, policy: str | None = None, options: tuple[str, ...] = ()):
    """Runs a program in a fresh folder, plainly or delegated; how it ended and what it left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    report = folder.parent / f"{folder.name}.json"
    words = list(command)
    if policy is not None:
        words = [*DELEGATE, "-q", "--policy", policy, "-o", str(report), *options, "--", *words]
    done = subprocess.run(words, cwd=folder, capture_output=True, timeout=600, check=False)
    found = document(report.read_text()) if policy is not None else {}
    return Ended(done.returncode, done.stdout, done.stderr, found)


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


BOTH = ("os-always", "os-profile")
ALL = (*BOTH, "os-adaptive", "os-enough-work")


def same(tmp_path: Path, *command: str, policies: tuple[str, ...] = BOTH) -> Ended:
    """The same output, errors, status and files under each policy; how it ended under the first."""
    plain = run(tmp_path / "plain", *command)
    ends: list[Ended] = []
    for policy in policies:
        ended = run(tmp_path / policy, *command, policy=policy)
        assert ended.out == plain.out, policy
        assert ended.err == plain.err, policy
        assert ended.status == plain.status, policy
        assert files(tmp_path / policy) == files(tmp_path / "plain"), policy
        ends.append(ended)
    return ends[0]


def test_all_that_may_go_wrong(tmp_path: Path) -> None:
    program = tmp_path / "hazards"
    source = PROGRAMS / "hazards.c"
    flags = ["-O2", "-pthread", "-Wno-stringop-overflow"]
    gcc = need("gcc")
    subprocess.run([gcc, *flags, str(source), "-o", str(program)], check=True)
    ended = same(tmp_path, str(program), policies=ALL)
    assert ended.status == 5
    assert b"wrong in threads: 0\n" in ended.out
    assert ended.moved("pread") > 1000
    refused = {why for call in ended.report["calls"] for why in call["refused"]}
    assert {"may-block", "signal", "timeout"} <= refused


def test_calls_that_would_wait_end_their_thread_or_name_bad_memory(tmp_path: Path) -> None:
    program = tmp_path / "waits"
    flags = ["-O2", "-pthread", "-Wno-stringop-overflow"]
    source = PROGRAMS / "waits.c"
    subprocess.run([need("gcc"), *flags, str(source), "-o", str(program)], check=True)
    ended = same(tmp_path, str(program), policies=ALL)
    assert ended.status == 5
    assert b"cancelled between calls: 1\n" in ended.out
    assert ended.moved("read") > 0
    refused = {call["name"] for call in ended.report["calls"] if "declined" in call["refused"]}
    assert {"read", "write", "recv", "recvmsg", "sendfile"} <= refused


def in_a_mount_namespace(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell's script whose mounts are its own, or skips the test."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    alone = [need("unshare"), *user, "--mount"]
    probe = [*alone, "mount", "-t", "tmpfs", "none", "/dev/shm"]
    try:
        subprocess.run(probe, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        lacking(f"a mount namespace: {error}", kernel=True)
    return subprocess.run(
        [*alone, "sh", "-ec", script, "sh", *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_full_shared_memory_is_an_error_before_the_program_starts() -> None:
    words = [*DELEGATE, "--policy", "os-always", "--", "sh", "-c", "echo started; ls -R /etc"]
    full = 'mount -t tmpfs -o size=1m none /dev/shm; "$@"; status=$?; ls /dev/shm; exit $status'
    done = in_a_mount_namespace(full, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "/dev/shm/halfwink-delegate-" in done.stderr
    assert "bytes that processes share: " in done.stderr
    assert "No space left on device" in done.stderr


def test_the_files_of_other_runs() -> None:
    """Those left behind are cleared away, whatever process has their number now; another user's
    are not, and are in nobody's way."""
    left = f"/dev/shm/{PREFIX}{os.getpid()}-left"
    theirs = f"/dev/shm/{PREFIX}1073741823-theirs"
    script = f"""
      mount -t tmpfs none /dev/shm; chmod 1777 /dev/shm
      touch {left} {theirs}; mkfifo {left}-fifo; mkdir {left}-folder
      if chown 65534 {theirs} 2>/dev/null; then ls /dev/shm | grep -q theirs; else rm {theirs}; fi
      "$@" -- sh -c 'ls /dev/shm'
      test ! -e {left}; test ! -e {left}-fifo; test -d {left}-folder
    """
    done = in_a_mount_namespace(script, *DELEGATE, "-q", "--policy", "os-always")
    assert (done.returncode, done.stderr) == (0, "")
    if os.geteuid() == 0:
        assert Path(theirs).name in done.stdout
    assert Path(left).name not in done.stdout.splitlines()


def test_another_users_files_are_no_obstacle(tmp_path: Path) -> None:
    """In a folder like /tmp, where nobody may unlink what is another's."""
    if os.geteuid() != 0:
        pytest.skip("only root can make the file of another user")
    script = f"""
      mount -t tmpfs none /dev/shm; chmod 1777 /dev/shm
      touch /dev/shm/{PREFIX}1073741823-theirs
      "$@"
    """
    clear = """
import os
from halfwink.live import delegate as live
os.setgroups([])
os.setuid(65534)
print(live.delegate(["ls", "/dev/shm"], policy="os-profile").status)
"""
    done = in_a_mount_namespace(script, sys.executable, "-c", clear)
    first, second, status = done.stdout.split()
    assert (done.returncode, status) == (0, "0"), done
    assert f"{PREFIX}1073741823-theirs" in (first, second)


def test_a_program_that_a_signal_ends(tmp_path: Path) -> None:
    ended = run(tmp_path / "x", "sh", "-c", "stat / >/dev/null; kill -9 $$", policy="os-always")
    assert ended.status == 128 + signal.SIGKILL
    assert ended.moved() > 0


def test_sqlite_writes_the_same_delegated(tmp_path: Path) -> None:
    sqlite = need("sqlite3")
    script = """
      create table t (a integer primary key, b text);
      with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
        insert into t select i, hex(i * 7919) from n;
      create index x on t (b);
      update t set b = b || 'x' where a % 7 = 0;
      select count(*), sum(length(b)) from t;
      pragma integrity_check;
    """
    ended = same(tmp_path, sqlite, "a.db", script, policies=ALL)
    assert b"ok\n" in ended.out
    assert ended.moved("pwrite") > 10


def test_tar_packs_the_same_delegated(tmp_path: Path) -> None:
    tar = need("tar")
    source = tmp_path / "source"
    for n in range(40):
        (source / f"d{n % 7}").mkdir(parents=True, exist_ok=True)
        (source / f"d{n % 7}" / f"f{n}").write_bytes(os.urandom(n * 997))
    ended = same(tmp_path, tar, "cf", "a.tar", "-C", str(source), ".", policies=ALL)
    assert ended.moved("openat") >= 40
    out = tmp_path / "out"
    done = run(out, tar, "xf", str(tmp_path / "os-always" / "a.tar"), policy="os-always")
    assert done.status == 0
    assert files(out) == files(source)


def test_gcc_compiles_the_same_delegated(tmp_path: Path) -> None:
    gcc = need("gcc")
    source = tmp_path / "a.c"
    source.write_text('#include <stdio.h>\nint main(void) { printf("%d\\n", 6 * 7); }\n')
    ended = same(tmp_path, gcc, "-O2", "-Wall", "-o", "a", str(source))
    assert ended.moved() > 50
    wrong = tmp_path / "b.c"
    wrong.write_text("int main(void) { return nothing; }\n")
    assert same(tmp_path, gcc, str(wrong)).status == 1


def test_a_forking_shell_script(tmp_path: Path) -> None:
    script = """
      for i in 1 2 3 4 5 6 7 8; do echo $i | cat | tr 1-8 a-h; done
      (cd / && ls usr | head -3); x=$(ls -d /etc); echo "$x" > made; cat made; cat none; exit 7
    """
    for shell in ("sh", "bash"):
        assert same(tmp_path, shell, "-c", script).status == 7


def test_python_with_processes_and_threads(tmp_path: Path) -> None:
    script = """
import hashlib, os, subprocess, threading
def work(n):
    name = f"f{n}"
    for i in range(50):
        with open(name, "wb", buffering=0) as f: f.write(bytes([n, i]) * 3000)
        with open(name, "rb", buffering=0) as f: assert f.read() == bytes([n, i]) * 3000
ts = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
print(subprocess.check_output(["sha1sum", "f0", "f3"]).decode())
"""
    same(tmp_path, sys.executable, "-c", script)


NGINX = """
daemon off; master_process on; worker_processes 2; pid {folder}/pid; error_log {folder}/error.log;
user {user}; events {{ worker_connections 64; }}
http {{ access_log {folder}/access.log; sendfile {sendfile}; client_body_temp_path {folder}/a;
proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d;
scgi_temp_path {folder}/e; server {{ listen unix:{folder}/sock; root {folder}/www; }} }}
"""


@contextmanager
def serving(words: list[str], ready: Callable[[], bool]) -> Generator[subprocess.Popen[bytes]]:
    """A server that is told to end at the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe) as server:
        try:
            wait_until(lambda: ready() or server.poll() is not None)
            assert server.poll() is None, server.communicate()
            yield server
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


@pytest.mark.parametrize("sendfile", ["on", "off"])
def test_nginx_and_curl(tmp_path: Path, sendfile: str) -> None:
    nginx = need("nginx")
    curl = need("curl")
    www, sock, report = tmp_path / "www", tmp_path / "sock", tmp_path / "report.json"
    www.mkdir()
    contents = {f"f{n}": os.urandom(n) for n in (0, 1, 4096, 70_001, 1_500_000)}
    for name, data in contents.items():
        (www / name).write_bytes(data)
    user = subprocess.check_output(["id", "-un"], text=True).strip()
    conf = tmp_path / "nginx.conf"
    conf.write_text(NGINX.format(folder=tmp_path, user=user, sendfile=sendfile))
    own = [nginx, "-c", str(conf), "-p", str(tmp_path)]
    words = [*DELEGATE, "-q", "--policy", "os-always", "-o", str(report), "--", *own]
    urls = [f"http://x/{name}" for name in contents] * 10
    with serving(words, sock.exists):
        get = [curl, "-sS", "--unix-socket", str(sock)]
        done = subprocess.run([*get, *urls], capture_output=True, timeout=600, check=True)
        assert done.stdout == b"".join(contents.values()) * 10
        theirs = [*DELEGATE, "-q", "--policy", "os-always", "--", *get]
        done = subprocess.run([*theirs, *urls], capture_output=True, timeout=600, check=True)
        assert done.stdout == b"".join(contents.values()) * 10
    calls = {c["name"]: c for c in document(report.read_text())["calls"]}
    moved = "sendfile" if sendfile == "on" else "writev"
    assert calls[moved]["delegated"] >= 50
    assert calls["recv"]["delegated"] >= 50


def test_redis_answers_the_same_delegated(tmp_path: Path) -> None:
    server = need("redis-server")
    bench = need("redis-benchmark")
    cli = need("redis-cli")
    sock, report = tmp_path / "sock", tmp_path / "report.json"
    own = [server, "--port", "0", "--unixsocket", str(sock), "--dir", str(tmp_path)]
    own += ["--appendonly", "yes", "--save", ""]
    words = [*DELEGATE, "-q", "--policy", "os-always", "-o", str(report), "--", *own]

    def ask(*question: str) -> bytes:
        return subprocess.check_output([cli, "-s", str(sock), *question], timeout=600)

    with serving(words, lambda: sock.exists() and ask("ping") == b"PONG\n"):
        big = "x" * 100_000
        assert ask("set", "k", big) == b"OK\n"
        assert ask("get", "k") == big.encode() + b"\n"
        load = [bench, "-s", str(sock), "-n", "300", "-c", "8", "-q", "-t", "set,get,lpush,mset"]
        # On a busy machine a call that moves waits for the scheduler twice.
        done = subprocess.run(load, capture_output=True, text=True, timeout=600, check=True)
        assert done.stdout.count("requests per second") == 4
        # The data set is written by a fork.
        assert b"OK" in ask("save")
        assert b"started" in ask("bgrewriteaof")
        assert int(ask("dbsize")) > 1
    assert (tmp_path / "dump.rdb").stat().st_size > 100
    calls = {c["name"]: c for c in document(report.read_text())["calls"]}
    assert calls["read"]["delegated"] > 500


def test_the_policy_told_its_log_again_asks_for_the_same(tmp_path: Path) -> None:
    tar = need("tar")
    # Some hundred files, however much this machine has.
    source, log = Path("/usr/include/linux"), tmp_path / "log"
    source = source if source.is_dir() else Path(_core.__file__).parent
    options = ("--log", str(log), "--time-every", "2", "--log-records", "20000")
    command = (tar, "cf", "a.tar", "--exclude=*.so", "-C", str(source), ".")
    for policy in ("os-adaptive", "os-dynamic:threshold=2000", "os-enough-work"):
        ended = run(tmp_path / "x", *command, policy=policy, options=options)
        assert ended.report["policy"].startswith(policy)
        again = halfwink.replay(log)
        assert (again.first_difference, again.lines > 100) == (None, True)
        text = log.read_text()
        assert '"place":"os-core"' in text
        log.write_text(text.replace('"place":"os-core"', '"place":"here"', 1))
        assert halfwink.replay(log).first_difference is not None


def test_killing_the_program(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    script = "echo $$; stat / >/dev/null; echo on; while :; do stat / >/dev/null; done"
    words = [
        *DELEGATE,
        "--policy",
        "os-always",
        "-q",
        "-o",
        str(report),
        "--",
        "bash",
        "-c",
        script,
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as wrapper:
        assert wrapper.stdout is not None
        program = int(wrapper.stdout.readline())
        # A program of its own has run.
        assert wrapper.stdout.readline() == "on\n"
        os.kill(program, signal.SIGKILL)
        assert wrapper.wait(120) == 128 + signal.SIGKILL
    assert document(report.read_text())["process_images"] > 1


def test_killing_the_command_leaves_the_program(tmp_path: Path) -> None:
    script = "echo $$; read -r line; stat /; cat /etc/hostname; echo ended"
    words = [*DELEGATE, "--policy", "os-always", "-q", "--", "bash", "-c", script]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, text=True, **pipes) as wrapper:
        assert wrapper.stdin is not None
        assert wrapper.stdout is not None
        program = int(wrapper.stdout.readline())
        left = list(Path("/dev/shm").glob(f"{PREFIX}{wrapper.pid}-*"))
        wrapper.kill()
        wrapper.wait(120)
        assert Path(f"/proc/{program}").exists()
        wrapper.stdin.write("go on\n")
        wrapper.stdin.flush()
        assert wrapper.stdout.read().endswith("ended\n")
    # What it left behind, the next run clears away.
    run(tmp_path / "next", "true", policy="os-profile")
    assert not any(path.exists() for path in left)


def test_another_preloaded_library_keeps_its_calls(tmp_path: Path) -> None:
    gcc = need("gcc")
    source, other = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(
        "#include <string.h>\n"
        "long read(int fd, char *b, unsigned long n) { memset(b, 'z', n < 3 ? n : 3);"
        " static int left = 1; return left-- > 0 ? 3 : 0; }\n"
    )
    subprocess.run([gcc, "-shared", "-fPIC", "-o", str(other), str(source)], check=True)
    script = f"LD_PRELOAD=$LD_PRELOAD:{other} cat /etc/hostname"
    assert run(tmp_path / "x", "sh", "-c", script, policy="os-always").out == b"zzz"


def test_the_program_dies_too_if_asked() -> None:
    words = [*DELEGATE, "--die-with-us", "-q", "--", "bash", "-c", "echo $$; sleep 60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as wrapper:
        assert wrapper.stdout is not None
        program = Path(f"/proc/{int(wrapper.stdout.readline())}")
        wrapper.kill()
        wrapper.wait(120)
        wait_until(lambda: _is_over(program))


def _is_over(program: Path) -> bool:
    try:
        return "(zombie)" in (program / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_signals_are_passed_on() -> None:
    script = "trap 'echo got it; exit 9' TERM; echo $$; while :; do sleep 0.05; done"
    words = [*DELEGATE, "-q", "--", "bash", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as wrapper:
        assert wrapper.stdout is not None
        wrapper.stdout.readline()
        wrapper.terminate()
        assert wrapper.wait(120) == 9
        assert wrapper.stdout.read() == "got it\n"


def test_the_report_goes_to_standard_error(halfwink: Halfwink) -> None:
    done = halfwink("live", "delegate", "--policy", "os-always", "--", "cat", "/etc/hostname")
    assert done.status == 0
    assert done.out == Path("/etc/hostname").read_text()
    assert "modelled energy, not measured" in done.err
    assert "policy os-always" in done.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "expected `--` and a command: halfwink live delegate -- tar cf a.tar ."),
        (["--", "no-such-program"], "no-such-program: no such program"),
        (
            ["--policy", "xyz", "--", "true"],
            "--policy: unknown technique `xyz`, expected one of os-profile, os-always, ",
        ),
        (["--policy", "tap", "--", "true"], "--policy: found tap, expected one of os-profile, "),
        (
            ["--policy", "os-dynamic:n=1", "--", "true"],
            "--policy: unknown parameter `n`, expected one of threshold",
        ),
        (["--time-every", "0", "--", "true"], "--time-every: found 0, expected 1 or more"),
        (["--log-records", "0", "--", "true"], "--log-records: found 0, expected 1 to "),
        (["--spin-us", "-1", "--", "true"], "--spin-us: found -1, expected 0 to 1e9"),
        (["--os-cpu", "999", "--", "true"], "--os-cpu: found 999, expected one of 0"),
    ],
)
def test_wrong_use_is_refused_with_its_reason(
    halfwink: Halfwink, words: list[str], complaint: str
) -> None:
    done = halfwink("live", "delegate", *words)
    assert done.status == 2
    assert done.complaint.startswith(complaint)

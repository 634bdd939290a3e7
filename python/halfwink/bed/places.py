"""Network namespaces that live only as long as the program that made them.

One process per namespace keeps it; all are in a process namespace of their own, whose first process
reads from a pipe that only we hold. When we end, however we end, the pipe closes, that process
ends, and the kernel kills the rest and takes the namespaces away. Nothing has a name anywhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink.errors import HalfwinkError, RunError
from halfwink.programs import ADMIN_PATH, find, which

#: Longest that a namespace or a program takes to begin or to end, on a slow and busy machine.
BEGIN_S = 60.0

#: Keeps a namespace. /sys is mounted anew: it shows the interfaces of where it was mounted.
KEEP = "mount -t sysfs none /sys 2>/dev/null; echo ready; exec sleep infinity"


def without_ipv6(interface: str) -> str:
    """A line of shell that keeps the kernel's own IPv6 packets off an interface.

    Where there is no such file there are none: frames are below 1280 bytes, or the kernel has no
    IPv6.
    """
    file = f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"
    return f"[ ! -e {file} ] || echo 1 >{file}"


@dataclass(frozen=True)
class Need:
    """A requirement of the bed.

    Attributes:
        name: name of the requirement.
        present: tells whether the machine has it.
        detail: place at which it was found, or the reason why not.
        fix: the line that adds it.
    """

    name: str
    present: bool
    detail: str
    fix: str


#: Programs of the bed.
NEEDS = ("ip", "ethtool", "unshare", "nsenter")


def needs() -> list[Need]:
    """Returns the requirements of the bed, and whether the machine meets them."""
    found: list[Need] = []
    for name in NEEDS:
        program = find(name)
        path = program.path
        found.append(Need(name, path is not None, path or f"{name} is missing", program.fix))
    if all(need.present for need in found):
        why = _refusal()
        found.append(Need("namespaces", not why, why or _how(), "run as root, or " + USER_FIX))
    return found


#: What lets users make namespaces.
USER_FIX = "sysctl user.max_user_namespaces=1000 kernel.apparmor_restrict_unprivileged_userns=0"


def _how() -> str:
    return "as root" if os.geteuid() == 0 else "in a user namespace"


def _refusal() -> str:
    words = [*_unshare(user=os.geteuid() != 0), "ip", "link", "show"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=BEGIN_S)
    lines = done.stderr.strip().splitlines() or [f"unshare ended with {done.returncode}"]
    return "" if done.returncode == 0 else lines[0]


def _unshare(*, user: bool) -> list[str]:
    own = ["--user", "--map-root-user"] if user else []
    flags = ["--mount", "--mount-proc", "--pid", "--fork", "--kill-child", "--net"]
    return [str(which("unshare")), *own, *flags]


class Places:
    """Network namespaces by name."""

    def __init__(self, names: Sequence[str], *, user: bool | None = None) -> None:
        """Makes the places of a bed.

        Args:
            names: names of the namespaces, for error messages and for lookup only.
            user: uses a user namespace, which needs no rights (default: unless run as root).

        Raises:
            HalfwinkError: a program is missing or the kernel refuses, with the line that helps.
        """
        for program in map(find, NEEDS):
            if program.path is None:
                raise HalfwinkError(program.missing)
        self._user = os.geteuid() != 0 if user is None else user
        keeper = f"{which('unshare')} --net --mount sh -c '{KEEP}' &"
        # `read` ends when the pipe does; the first process takes all others with it.
        script = "\n".join([keeper] * len(names)) + "\nread -r line"
        self._first = subprocess.Popen(
            [*_unshare(user=self._user), "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A Ctrl-C at the terminal is ours to handle: results come first.
            start_new_session=True,
        )
        try:
            self.all = self._find(names)
        except BaseException:
            self.close()
            raise

    def _find(self, names: Sequence[str]) -> dict[str, Place]:
        assert self._first.stdout is not None
        assert self._first.stderr is not None
        for _ in names:
            if self._first.stdout.readline().strip() != "ready":
                self._first.kill()
                lines = self._first.stderr.read().strip().splitlines()
                why = lines[0] if lines else "no answer"
                raise HalfwinkError(f"network namespaces: {why}; {USER_FIX}, or run as root")
        init = wait_for_child(self._first.pid)
        keepers = sorted(children(init), key=_inner_pid)
        if len(keepers) != len(names):
            raise RunError(f"{len(keepers)} namespaces began, of {len(names)}")
        return {
            name: Place(name, pid, self._user) for name, pid in zip(names, keepers, strict=True)
        }

    def close(self) -> None:
        """Ends all that runs in them, and them."""
        for pipe in (self._first.stdin, self._first.stdout, self._first.stderr):
            if pipe is not None:
                pipe.close()
        try:
            self._first.wait(BEGIN_S)
        except subprocess.TimeoutExpired:
            self._first.kill()
            self._first.wait()


class Place:
    """One network namespace."""

    def __init__(self, name: str, pid: int, user: bool) -> None:
        """Wraps the namespace of the process that keeps it."""
        self.name = name
        self.pid = pid
        self._user = user

    @property
    def inner_pid(self) -> int:
        """The keeper's number inside, which `ip link ... netns` understands there."""
        return _inner_pid(self.pid)

    def words(self, command: Sequence[str]) -> list[str]:
        """A command line that runs a command inside."""
        own = ["--user", "--preserve-credentials"] if self._user else []
        enter = [str(which("nsenter")), "--target", str(self.pid), *own]
        enter += ["--mount", "--pid", "--net", "--", "env", "--chdir", str(Path.cwd())]
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return [*enter, f"PATH={path}:{ADMIN_PATH}", *command]

    def run(
        self, command: Sequence[str], *, text: str = "", timeout: float = 60, check: bool = True
    ) -> str:
        """Runs a command inside to its end; what it printed.

        Raises:
            RunError: the program failed (unless not to be checked), with its first message.
        """
        done = subprocess.run(
            self.words(command),
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            raise RunError(f"{self.name}: {command[0]}: {lines[0]}")
        return done.stdout

    def shell(self, script: str) -> str:
        """Runs lines of a shell inside; the first that fails ends it.

        Raises:
            RunError: a line failed.
        """
        return self.run(["sh", "-eu", "-c", script])

    def start(self, command: Sequence[str], *, cpus: Collection[int] = (), **pipes: Any) -> Process:
        """Begins a command inside, on these CPUs (default: all of ours)."""
        return Process(self.words(command), cpus, pipes)


class Process:
    """A command that runs inside a namespace."""

    def __init__(self, words: Sequence[str], cpus: Collection[int], pipes: dict[str, Any]) -> None:
        """Begins it; see `Place.start`."""

        def place() -> None:
            os.sched_setaffinity(0, cpus)

        self.popen = subprocess.Popen(
            words, preexec_fn=place if cpus else None, start_new_session=True, **pipes
        )
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """Process number outside of the namespace."""
        if self._pid is None:
            # What we began waits outside for the one that it made inside.
            self._pid = wait_for_child(self.popen.pid)
        return self._pid

    def signal(self, number: int) -> None:
        """Sends a signal to the command itself."""
        if self.popen.poll() is None:
            try:
                os.kill(self.pid, number)
            except (ProcessLookupError, RunError):
                return

    def stop(self, timeout: float = 60.0) -> int:
        """Asks it to end (SIGTERM), and kills it if it does not; its exit status."""
        self.signal(signal.SIGTERM)
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            return self.popen.wait()


def children(pid: int) -> list[int]:
    """Processes that a process made."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            stat = _stat(int(entry.name))
            if stat is not None and int(stat[1]) == pid:
                found.append(int(entry.name))
    return found


def _stat(pid: int) -> list[str] | None:
    """Returns the fields of a process behind its name, its state first; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name before may hold anything, brackets too.
    return text.rpartition(")")[2].split()


def wait_for_child(pid: int) -> int:
    """The first process that a process makes.

    Raises:
        RunError: the process makes none.
    """
    end = time.monotonic() + BEGIN_S
    while time.monotonic() < end:
        found = children(pid)
        if found:
            return min(found)
        if _has_ended(pid):
            break
        time.sleep(0.002)
    raise RunError(f"process {pid} began nothing")


def _has_ended(pid: int) -> bool:
    """Returns whether a process has ended, also if its parent has not waited for it yet."""
    stat = _stat(pid)
    return stat is None or stat[0] == "Z"


def _inner_pid(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return pid


def python() -> str:
    """The interpreter that runs us."""
    return sys.executable

"""A block device, served in two phases by ``halfwink-block``, and what it measured."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from halfwink import installed
from halfwink.errors import HalfwinkError, RunError

#: The program that serves.
SERVER = "halfwink-block"
#: Longest that a server may take to begin, and to end, in seconds.
PATIENCE_S = 60.0


#: Where the kernel's ublk driver makes disks.
UBLK_CONTROL = Path("/dev/ublk-control")
#: What adds that. Debian 12's own kernels are built without it, its backports' with it.
UBLK_FIX = (
    "modprobe ublk_drv, as root (Linux 6.5 or newer, CONFIG_BLK_DEV_UBLK; for Debian 12, the"
    " kernel of bookworm-backports)"
)


def server() -> Path:
    """The program that serves.

    Raises:
        HalfwinkError: the server was not built.
    """
    found = installed.program(SERVER)
    if found is None:
        raise HalfwinkError(installed.missing(f"the program {SERVER}"))
    return found


@dataclass(frozen=True)
class Device:
    """Settings of a block device.

    Attributes:
        unix: socket of the file system at which to listen.
        tcp: address HOST:PORT instead; every client that can reach it may read and write.
        vhost: or a socket for virtual machines (vhost-user-blk), which no policy serves.
        queues: number of queues with ``vhost``, each with a thread.
        ublk: or a disk of this machine: /dev/ublkbN for this N, or `any`.
        ram: memory of so many bytes (64K, 256M, 1G).
        file: or a file, or a block device, as large as it is.
        io: interface for reads and writes of a file: uring, sync, auto.
        direct: whole blocks of a file go past the page cache, by io_uring.
        latency_us: mean latency of memory as a modelled device.
        seed: seed of these latencies.
        read_only: rejects all writes.
        export: name of the export.
        policy: completion policy, with parameters.
        rest: rest of a thread without work.
        cpus: CPUs that serve, a thread each, the first of which hears (default: all allowed).
        pin: threads are kept to their CPUs.
        connections: at once.
        log: file for the policy's events and actions.
    """

    unix: Path | None = None
    tcp: str | None = None
    vhost: Path | None = None
    queues: int = 1
    ublk: str | None = None
    ram: str | None = None
    file: Path | None = None
    io: str = "auto"
    direct: bool = False
    latency_us: float | None = None
    seed: int = 1
    read_only: bool = False
    export: str = ""
    policy: str = "single-thread"
    rest: str = "auto"
    cpus: str | None = None
    pin: bool = True
    connections: int = 1000
    log: Path | None = None

    def words(self) -> list[str]:
        """Returns the settings as arguments of the server.

        Raises:
            HalfwinkError: an option on clients was given for a disk, which has none.
        """
        if self.ublk is not None:
            for name in ("export", "connections", "queues"):
                if getattr(self, name) != getattr(Device, name):
                    raise HalfwinkError(f"--{name} says nothing of a disk of this machine (--ublk)")
        words: list[str] = []
        pairs = {
            "--unix": self.unix,
            "--tcp": self.tcp,
            "--vhost": self.vhost,
            "--queues": self.queues,
            "--ublk": self.ublk,
            "--ram": self.ram,
            "--file": self.file,
            "--io": self.io,
            "--latency-us": self.latency_us,
            "--seed": self.seed,
            "--export": self.export or None,
            "--policy": self.policy,
            "--rest": self.rest,
            "--cpus": self.cpus,
            "--connections": self.connections,
            "--log": self.log,
        }
        for name, value in pairs.items():
            if value is not None:
                words += [name, str(value)]
        words += ["--direct"] * self.direct
        words += ["--read-only"] * self.read_only
        words += ["--no-pin"] * (not self.pin)
        return words


class Block:
    """A device at work, from its making until :meth:`stop`.

    Args:
        device: settings of the device.
        seconds: length of the run (default: until it is stopped).

    Raises:
        HalfwinkError: the request is invalid.
        RunError: the machine does not allow it.
    """

    def __init__(self, device: Device, *, seconds: float | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="halfwink-block-")
        self._report = Path(self._folder.name) / "report.json"
        words = [str(server()), *device.words(), "--report", str(self._report)]
        if seconds is not None:
            words += ["--seconds", str(seconds)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        #: What it said before it was ready: why something is not as it was asked for.
        self.said: list[str] = []
        self.address = self._ready()

    def _ready(self) -> str:
        """Waits until it serves; where."""
        stderr = self._process.stderr
        assert stderr is not None
        for line in stderr:
            text = line.strip().removeprefix(f"{SERVER}: ")
            if text.startswith("ready at "):
                return text.removeprefix("ready at ")
            self.said.append(text)
        status = self._process.wait()
        self._folder.cleanup()
        raise _failed(status, self.said)

    @property
    def pid(self) -> int:
        """Number of the server's process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Tells whether it serves."""
        return self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_running:
            self.stop()

    def kill(self) -> None:
        """Ends it at once, as a crash would. Nothing is reported."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def stop(self) -> dict[str, Any]:
        """Ends it in good order, if it has not ended; what it has done.

        Returns:
            Counts, measured times of stages and threads, ledger: see docs/techniques/live-block.md.

        Raises:
            RunError: the server failed, or does not end.
        """
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        return self.wait(PATIENCE_S)

    def wait(self, seconds: float | None = None) -> dict[str, Any]:
        """Waits until it has ended, at most this long; returns its report."""
        try:
            _, said = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RunError(f"{SERVER} does not end") from None
        try:
            if self._process.returncode != 0:
                raise _failed(self._process.returncode, said.splitlines())
            return json.loads(self._report.read_text())
        finally:
            self._folder.cleanup()


def _failed(status: int, said: Sequence[str]) -> HalfwinkError | RunError:
    lines = [line.removeprefix(f"{SERVER}: ") for line in said if line.strip()]
    # What clap adds about usage is no news.
    first = next((line for line in lines if line), f"{SERVER} ended with status {status}")
    text = first.removeprefix("error: ")
    return HalfwinkError(text) if status == 2 else RunError(text)

"""A block device, served in two phases by ``halfwink-block``, and what it measured."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from halfwink.live.served import Served, described

#: The program that serves.
SERVER = "halfwink-block"
#: Where the kernel's ublk driver makes disks.
UBLK_CONTROL = Path("/dev/ublk-control")
#: What adds that. Debian 12's own kernels are built without it, its backports' with it.
UBLK_FIX = (
    "modprobe ublk_drv, as root (Linux 6.5 or newer, CONFIG_BLK_DEV_UBLK; for Debian 12, the"
    " kernel of bookworm-backports)"
)


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

    def description(self) -> str:
        """Returns the settings as a description (TOML); defaults are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        other = {name: v for name, v in values.items() if v != getattr(Device, name)}
        other.pop("log", None)
        if self.ublk is not None and self.ublk.isdecimal():
            other["ublk"] = int(self.ublk)
        return described(other)


class Block(Served):
    """A device at work, from its making until :meth:`stop`.

    Its report holds counts, measured times of stages and threads, and a ledger: see
    docs/techniques/live-block.md.

    Args:
        device: settings of the device, or the path of its description (TOML).
        log: file for the policy's events and actions, where a path is given.
        more: see :class:`halfwink.live.served.Served`.

    Raises:
        HalfwinkError: the request is invalid.
        RunError: the machine does not allow it.
    """

    def __init__(self, device: Device | Path, *, log: Path | None = None, **more: Any) -> None:
        if isinstance(device, Device):
            super().__init__(SERVER, device.description(), log=device.log, **more)
        else:
            super().__init__(SERVER, device, log=log, **more)

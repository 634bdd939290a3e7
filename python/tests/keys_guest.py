"""A Linux kernel with IPsec of its own, in which the live router takes its keys from it.

gen: g0 - rt: rt0  router  rt1 - peer: p0
          ESP by the router       ESP by xfrm

The host's kernel need not know ESP: all three are network namespaces of a guest's kernel (Debian's,
under QEMU), each with associations and policies of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import guest_console
import xfrm_guest
from guest_console import Console, GuestError

from halfwink.capture import guest as guests
from halfwink.capture import host, paths, scratch
from halfwink.capture.cpio import CpioWriter
from halfwink.capture.drivers import driver_name, in_order
from halfwink.programs import which

#: Beside them, what a key that the router refuses is made of.
MODULES = ("veth", *xfrm_guest.MODULES, "cbc", "authenc", "echainiv")
RAM_MIB = 512
#: strongSwan's daemon for IKE and its tool, with what they load.
STRONGSWAN = (
    "libstrongswan",
    "strongswan-libcharon",
    "strongswan-charon",
    "strongswan-swanctl",
)
PLUGINS = [
    "random",
    "nonce",
    "aes",
    "sha1",
    "sha2",
    "hmac",
    "kdf",
    "gmp",
    "kernel-netlink",
    "socket-default",
    "vici",
]
#: Where each namespace's own port leads, and what it is called.
ROUTER, PEER, BEHIND, NEAR = "10.2.0.1", "10.2.0.2", "10.3.0.2", "10.1.0.2"
SETUP = f"""mkdir -p /run /tmp /var/run /etc
for name in gen rt peer; do ip netns add $name; ip -n $name link set lo up; done
ip link add g0 netns gen type veth peer name rt0 netns rt
ip link add p0 netns peer type veth peer name rt1 netns rt
ip -n gen address add {NEAR}/24 dev g0
ip -n peer address add {PEER}/24 dev p0
ip -n peer address add {BEHIND}/32 dev lo
ip -n gen link set g0 up; ip -n rt link set rt0 up
ip -n rt link set rt1 up; ip -n peer link set p0 up
ip -n gen route add default via 10.1.0.1
ip -n peer route add 10.1.0.0/24 via {ROUTER} src {BEHIND}
"""


def build() -> tuple[Path, Path]:
    """Kernel and initial file system, from the cache or made now (some 30 MB are fetched)."""
    programs = [Path(str(which(name))).resolve() for name in ("ip", "ping")]
    times = [path.stat().st_mtime for path in programs]
    parts = (guests.SUITE, guests.KERNEL_PACKAGE, MODULES, STRONGSWAN, PLUGINS, times)
    text = json.dumps([*parts, xfrm_guest.INIT])
    folder = paths.cache() / f"keys-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    with scratch.alone(folder.name):
        if not folder.exists():
            with scratch.folder("building-") as work:
                out = work / "out"
                out.mkdir()
                _build(work, out, programs)
                out.rename(folder)
    return folder / "vmlinuz", folder / "initrd.cpio"


def _build(work: Path, out: Path, programs: list[Path]) -> None:
    packages = guests.Packages(host.mirror(), work)
    kernel, _ = packages.unpack(packages.kernel())
    busybox, _ = packages.unpack("busybox-static")
    shutil.copy(next((kernel / "boot").glob("vmlinuz-*")), out / "vmlinuz")
    modules = in_order(MODULES, {driver_name(path): path for path in kernel.glob("**/*.ko")})
    daemon = work / "strongswan"
    for package in STRONGSWAN:
        shutil.copytree(packages.unpack(package)[0], daemon, symlinks=True, dirs_exist_ok=True)
    with (out / "initrd.cpio").open("wb") as archive, CpioWriter(archive) as cpio:
        for directory in ("bin", "proc", "sys", "dev"):
            cpio.directory(directory)
        cpio.console()
        cpio.file("init", xfrm_guest.INIT.encode(), 0o755)
        cpio.file("halfwink/busybox", (busybox / "bin/busybox").read_bytes(), 0o755)
        cpio.file("halfwink/order", "".join(f"{path.name}\n" for path in modules).encode())
        for path in modules:
            cpio.file(f"halfwink/{path.name}", path.read_bytes())
        for path in programs:
            cpio.file(f"halfwink/{path.name}", path.read_bytes(), 0o755)
        for path in _daemon_files(daemon):
            cpio.copy(str(path.relative_to(daemon)), path)
        for path in _libraries([*programs, *_daemon_files(daemon)], daemon):
            cpio.file(str(path).removeprefix("/"), path.read_bytes(), 0o755)


def _daemon_files(daemon: Path) -> list[Path]:
    """Programs, libraries and plugins of strongSwan."""
    ipsec = daemon / "usr/lib/ipsec"
    plugins = [ipsec / f"plugins/libstrongswan-{name}.so" for name in PLUGINS]
    # Some are built into the libraries.
    found = [ipsec / "charon", daemon / "usr/sbin/swanctl", *filter(Path.exists, plugins)]
    return [*found, *ipsec.glob("lib*.so*")]


def _libraries(programs: list[Path], daemon: Path) -> list[Path]:
    """Libraries of this machine that they are linked to."""
    own = os.environ | {"LD_LIBRARY_PATH": str(daemon / "usr/lib/ipsec")}
    found: set[Path] = set()
    for program in programs:
        listed = subprocess.run(
            ["ldd", program], capture_output=True, text=True, check=False, env=own
        ).stdout
        words = (word for line in listed.splitlines() for word in line.split())
        found |= {Path(word) for word in words if word.startswith("/")}
    return sorted(path for path in found if not path.is_relative_to(daemon))


def _overlay(base: Path, router: Path, out: Path) -> Path:
    """The initial file system with the router that is being tested."""
    stripped = out / "halfwink-router"
    subprocess.run(["strip", "-o", stripped, router], check=True)
    machines = Path(__file__).parents[2] / "machines"
    whole = out / "initrd.cpio"
    shutil.copy(base, whole)
    with whole.open("ab") as archive, CpioWriter(archive) as cpio:
        cpio.file("halfwink/halfwink-router", stripped.read_bytes(), 0o755)
        for path in _libraries([stripped], out / "none"):
            cpio.file(str(path).removeprefix("/"), path.read_bytes(), 0o755)
        for path in sorted(machines.rglob("*.toml")):
            cpio.file(f"library/machines/{path.relative_to(machines)}", path.read_bytes())
    return whole


def _words(kernel: Path, initrd: Path) -> list[str]:
    return [
        host.QEMU,
        *("-machine", "pc", "-accel", "tcg", "-cpu", "max", "-smp", "1"),
        *("-m", str(RAM_MIB), "-nodefaults", "-no-user-config", "-no-reboot", "-nographic"),
        *("-serial", "stdio", "-monitor", "none", "-kernel", str(kernel), "-initrd", str(initrd)),
        *("-append", guest_console.BOOT),
    ]


class KeysGuest(Console):
    """The guest; with the context it ends."""

    def __init__(self, router: Path) -> None:
        """Boots it, with three namespaces in a row.

        Raises:
            GuestError: it does not come up, with what it said.
        """
        kernel, base = build()
        self._folder = tempfile.TemporaryDirectory(prefix="halfwink-keys-")
        initrd = _overlay(base, router, Path(self._folder.name))
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._qemu = subprocess.Popen(
            _words(kernel, initrd), stderr=subprocess.STDOUT, bufsize=-1, **pipes
        )
        super().__init__(self._qemu)
        try:
            self.until("@ready", xfrm_guest.BOOT_S)
            for line in SETUP.splitlines():
                self.run(line)
        except BaseException:
            self.close()
            raise

    def write(self, path: str, text: str) -> None:
        """Writes a file in the guest; lines of the serial line are short."""
        self.run(f": >{path}; chmod 600 {path}")
        for line in text.splitlines():
            quoted = line.replace("'", "'\\''")
            self.run(f"echo '{quoted}' >>{path}")

    def wait(self, command: str, seconds: float = 120.0) -> str:
        """Until a command succeeds; what it printed."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self.run(command)
            except GuestError:
                if time.monotonic() > end:
                    raise

    def inside(self, place: str, command: str) -> str:
        """Runs one command in a namespace."""
        return self.run(f"ip netns exec {place} {command}")

    def close(self) -> None:
        """Ends it."""
        self._qemu.kill()
        self._qemu.wait()
        self.close_pipes()
        self._folder.cleanup()

"""A Linux kernel with IPsec of its own, behind the test bed's router: Debian's, under QEMU.

generator - [ rt0  router  rt1 ] - [ eth0  guest  eth1 ] - sink
            the bed's namespace     ESP by xfrm             the bed's namespace

The host's kernel need not know ESP. The guest forwards between two virtio-net interfaces; QEMU runs
in the router's namespace and opens a TAP device there for each. The second is then the sink's port.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import guest_console
from guest_console import Console

from halfwink.bed import Bed
from halfwink.capture import guest as guests
from halfwink.capture import host, paths, scratch
from halfwink.capture.cpio import CpioWriter
from halfwink.capture.drivers import driver_name, in_order
from halfwink.programs import which

#: Drivers, and the parts of AES-GCM that the kernel would look for by name.
MODULES = (
    "virtio_pci",
    "virtio_net",
    "xfrm_user",
    "esp4",
    "esp6",
    "ctr",
    "ghash-generic",
    "gcm",
    # The sender's initialisation vectors come from the kernel's random generator.
    "jitterentropy_rng",
    "sha512_generic",
    "drbg",
    "seqiv",
)
RAM_MIB = 192
BOOT_S = 600.0
#: The guest's networks: towards the router, towards the sink.
NEAR, FAR = ("10.2.0.2/24", "fd02::2/64"), ("10.3.0.1/24", "fd03::1/64")
SINK = ("10.3.0.2/24", "fd03::2/64")
#: Networks of nobody's, behind the sink and behind the generator: what is sent there is dropped by
#: the kernel that it reaches, without an answer.
BEHIND_SINK, BEHIND_GENERATOR = ("198.18.0.0/15", "2001:2::/48"), ("192.0.2.0/24", "2001:db8::/32")

#: The shell's own `read` begins a line anew when a child ends beneath it, and loses what it had.
INIT = """#!/halfwink/busybox sh
/halfwink/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
stty -F /dev/console -echo -icanon min 1
while read -r module; do insmod "/halfwink/$module" || echo "insmod $module failed"; done \
    </halfwink/order
ip() { /halfwink/ip "$@"; }
echo; echo @ready
while line=$(head -n 1); do eval "$line" 2>&1; echo "@done $?"; done
poweroff -f
"""


def with_libraries(binary: Path) -> list[Path]:
    """A program of the host's and the libraries that it is linked to."""
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    return [binary, *(Path(path) for path in re.findall(r"(/\S+) \(0x", listed))]


def build() -> tuple[Path, Path]:
    """Kernel and initial file system, from the cache or made now (some 30 MB are fetched)."""
    ip = Path(str(which("ip"))).resolve()
    parts = (guests.SUITE, guests.KERNEL_PACKAGE, MODULES, INIT, ip.stat().st_mtime)
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    folder = paths.cache() / f"xfrm-{key}"
    with scratch.alone(folder.name):
        if not folder.exists():
            with scratch.folder("building-") as work:
                out = work / "out"
                out.mkdir()
                _build(work, out, ip)
                out.rename(folder)
    return folder / "vmlinuz", folder / "initrd.cpio"


def _build(work: Path, out: Path, ip: Path) -> None:
    packages = guests.Packages(host.mirror(), work)
    kernel, _ = packages.unpack(packages.kernel())
    busybox, _ = packages.unpack("busybox-static")
    shutil.copy(next((kernel / "boot").glob("vmlinuz-*")), out / "vmlinuz")
    modules = in_order(MODULES, {driver_name(path): path for path in kernel.glob("**/*.ko")})
    with (out / "initrd.cpio").open("wb") as archive, CpioWriter(archive) as cpio:
        for directory in ("bin", "proc", "sys", "dev"):
            cpio.directory(directory)
        cpio.console()
        cpio.file("init", INIT.encode(), 0o755)
        cpio.file("halfwink/busybox", (busybox / "bin/busybox").read_bytes(), 0o755)
        cpio.file("halfwink/order", "".join(f"{path.name}\n" for path in modules).encode())
        for path in modules:
            cpio.file(f"halfwink/{path.name}", path.read_bytes())
        binary, *libraries = with_libraries(ip)
        cpio.file("halfwink/ip", binary.read_bytes(), 0o755)
        for path in libraries:
            cpio.file(str(path).removeprefix("/"), path.read_bytes(), 0o755)


def _words(kernel: Path, initrd: Path) -> list[str]:
    words = [
        host.QEMU,
        *("-machine", "pc", "-accel", "tcg", "-cpu", "max"),
        *("-m", str(RAM_MIB), "-nodefaults", "-no-user-config", "-no-reboot", "-nographic"),
        *("-serial", "stdio", "-monitor", "none", "-kernel", str(kernel), "-initrd", str(initrd)),
        *("-append", guest_console.BOOT),
    ]
    # Whole packets with checksums: nothing is left to hardware that is not there.
    plain = "csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,romfile="
    for n, name in enumerate(("rt1", "far0")):
        mac = f"02:00:00:00:0f:0{n}"
        words += ["-netdev", f"tap,id=n{n},ifname={name},script=no,downscript=no"]
        words += ["-device", f"virtio-net-pci,netdev=n{n},mac={mac},{plain}"]
    return words


class XfrmGuest(Console):
    """The guest, instead of the wire between a bed's router and its sink; with the bed it ends."""

    def __init__(self, bed: Bed) -> None:
        """Boots it, and joins it to both.

        Raises:
            GuestError: it does not come up, with what it said.
        """
        kernel, initrd = build()
        self._bed = bed
        bed.router.shell(
            "ip link delete rt1\n"
            "for tap in rt1 far0; do ip tuntap add dev $tap mode tap; ip link set $tap up; done\n"
            "echo 1 >/proc/sys/net/ipv6/conf/rt1/disable_ipv6"
        )
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        self._process = bed.router.start(_words(kernel, initrd), **pipes)
        super().__init__(self._process.popen)
        try:
            self.until("@ready", BOOT_S)
            self._join()
        except BaseException:
            self.close()
            raise

    def _join(self) -> None:
        sink = self._bed.sink
        self._bed.router.shell(f"ip link set far0 netns {sink.inner_pid} name sink0")
        addresses = [f"ip address add {a} dev sink0 {'nodad' * (':' in a)}" for a in SINK]
        gateways = [f"ip route add default via {a.split('/')[0]}" for a in FAR]
        off = "echo 0 >/proc/sys/net/ipv4/conf/sink0/rp_filter"
        sink.shell("\n".join(["ip link set sink0 up", off, *addresses, *gateways]))
        lines = ["ip link set lo up", "echo 1 >/proc/sys/net/ipv4/ip_forward"]
        lines += ["echo 1 >/proc/sys/net/ipv6/conf/all/forwarding"]
        for port, addresses in (("eth0", NEAR), ("eth1", FAR)):
            lines += [f"ip link set {port} up"]
            lines += [f"ip address add {a} dev {port} {'nodad' * (':' in a)}" for a in addresses]
        for prefix, hop in zip(BEHIND_SINK, SINK, strict=True):
            lines += [f"ip route add {prefix} via {hop.split('/')[0]}"]
        lines += ["ip route add default via 10.2.0.1", "ip route add default via fd02::1"]
        for line in lines:
            self.run(line)

    def stats(self) -> dict[str, int]:
        """Counters of xfrm that are not 0."""
        lines = self.run("cat /proc/net/xfrm_stat").splitlines()
        pairs = (line.split() for line in lines if line.strip())
        return {name: int(count) for name, count in pairs if int(count)}

    def association(self, spi: int) -> dict[str, int]:
        """What one association has done: packets, bytes, replays, failures of authentication."""
        text = self.run(f"ip -s xfrm state | grep -A 40 'spi {spi:#010x}'")
        # Up to the next association's first line.
        text = text.split("\nsrc ")[0]
        current = re.search(r"lifetime current:\s+(\d+)\(bytes\), (\d+)\(packets\)", text)
        stats = re.search(r"replay-window (\d+) replay (\d+) failed (\d+)", text)
        assert current is not None, text
        assert stats is not None, text
        names = ("bytes", "packets", "late", "replays", "failed")
        numbers = (*current.groups(), *stats.groups())
        return {name: int(number) for name, number in zip(names, numbers, strict=True)}

    def flush(self) -> None:
        """Without any association or policy."""
        self.run("ip xfrm state flush\nip xfrm policy flush")

    def close(self) -> None:
        """Ends it."""
        self._process.stop()
        self.close_pipes()

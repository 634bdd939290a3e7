"""Optional programs: the one list of what is used beyond README's prerequisites.

`halfwink doctor` shows it, tests may run nothing that they did not ask it for, and tools/install.sh
installs by it before anything of halfwink is built: hence the standard library alone.

    python3 -I python/halfwink/programs.py              # packages of what is missing, a line each
    .venv/bin/python -I python/halfwink/programs.py -m  # the same of modules of that Python
    python3 -I python/halfwink/programs.py rustc        # the same of these programs
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

#: Where Debian keeps administrators' programs, which a user's PATH does not name.
ADMIN_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
#: Where Debian keeps programs of which several versions may be installed: on nobody's PATH.
VERSIONED = "usr/lib/postgresql/*/bin"


def which(name: str) -> str | None:
    """The path of any program: an administrator's too, or the newest of several versions."""
    versions = sorted(Path("/").glob(VERSIONED), key=lambda path: float(path.parent.name))
    paths = [None, ADMIN_PATH, *map(str, reversed(versions))]
    return next((found for path in paths if (found := shutil.which(name, path=path))), None)


def _first(pattern: str) -> str | None:
    return next((str(path) for path in Path("/").glob(pattern)), None)


class Program(NamedTuple):
    """A program that something needs.

    Attributes:
        name: name of the program.
        packages: packages of Debian 12 that have it, and those that it does not run without.
        used_by: users of the program: a command of halfwink, `tests`, or `bench`.
        files: patterns of files that must be there too.
        made_by: programs that make it when it is first wanted, instead of itself.
        module: module of Python, if it is that instead of a program; then packages are those of
            pip.
    """

    name: str
    packages: str
    used_by: str
    files: tuple[str, ...] = ()
    made_by: tuple[str, ...] = ()
    module: str = ""

    @property
    def path(self) -> str | None:
        """Returns the place of the program, or its parts; None if any part is missing."""
        if self.module:
            found = find_spec(self.module)
            return found.origin if found else None
        there = [_first(pattern) for pattern in self.files]
        there += [which(name) for name in self.made_by or (self.name,)]
        if None in there:
            return None
        return there[0] if self.made_by else there[-1]

    @property
    def fix(self) -> str:
        """The line that adds it."""
        if self.module:
            return f"python -m pip install {self.packages}"
        return f"apt-get install -y {self.packages}"

    @property
    def missing(self) -> str:
        """Returns the message that it is missing, with the line that adds it."""
        return f"{self.name} is missing; run: {self.fix}"


_DPDK = "dpdk-dev librte-net-af-packet23 librte-net-af-xdp23 librte-mempool-ring23"
_DRIVERS = (
    "usr/lib/*/dpdk/pmds-*/librte_net_af_packet.so*",
    "usr/lib/*/dpdk/pmds-*/librte_net_af_xdp.so*",
)

PROGRAMS = (
    Program("ip", "iproute2", "bed"),
    Program("tc", "iproute2", "live circuits: gates in virtual time"),
    Program("ethtool", "ethtool", "bed"),
    Program("unshare", "util-linux", "bed"),
    Program("nsenter", "util-linux", "bed"),
    Program("dpdk-testpmd", _DPDK, "bed: a peer", _DRIVERS),
    Program(
        "l3fwd-power",
        "dpdk-doc libdpdk-dev gcc make pkg-config",
        "bed: a peer",
        ("usr/share/dpdk/examples/l3fwd-power", "usr/include/dpdk/rte_eal.h"),
        made_by=("cc", "make", "pkg-config"),
    ),
    Program("rustc", "cargo-web rustc-web", "capture: builds the recorder"),
    Program("qemu-x86_64", "qemu-user", "record: runs the program"),
    Program("ngspice", "ngspice", "pdn: a referee"),
    Program("cpupower", "linux-cpupower", "tests: lines that set idle states"),
    Program("ping", "iputils-ping", "tests: routers"),
    Program("ss", "iproute2", "tests: routers"),
    Program("setpriv", "util-linux", "tests: routers without rights"),
    Program("nfcapd", "nfdump", "tests: flow records"),
    Program("nfdump", "nfdump", "tests: flow records"),
    Program("tshark", "tshark", "tests: what a router encrypts"),
    Program("nginx", "nginx-light", "tests: a server"),
    Program("memcached", "memcached", "tests: a server"),
    Program("postgres", "postgresql", "tests: a server"),
    Program("initdb", "postgresql", "tests: a server"),
    Program("redis-server", "redis-server", "tests: a server"),
    Program("redis-cli", "redis-tools", "tests: a client"),
    Program("redis-benchmark", "redis-tools", "tests: a client"),
    Program("curl", "curl", "live circuits, tests: a client"),
    Program("iperf3", "iperf3", "tests: live circuits"),
    Program("h2load", "nghttp2-client", "tests: HTTP/2 streams"),
    Program("openssl", "openssl", "tests: certificates"),
    Program("virsh", "libvirt-clients", "live steer: domains of libvirt; tests"),
    Program("libvirtd", "libvirt-daemon", "tests: domains of libvirt"),
    Program("ipmitool", "ipmitool", "live steer: BMCs; tests"),
    Program("ipmi_sim", "openipmi", "tests: a BMC"),
    Program("sqlite3", "sqlite3", "tests: a program under delegation"),
    Program("tar", "tar", "tests: a program under delegation"),
    Program("nbdinfo", "libnbd-bin", "tests: a client of block devices"),
    Program("nbdcopy", "libnbd-bin", "tests: a client of block devices"),
    Program("nbdfuse", "nbdfuse", "tests: a file system on block devices"),
    Program("fusermount3", "fuse3", "tests: a file system on block devices"),
    Program("mke2fs", "e2fsprogs", "tests: a file system on block devices"),
    Program("blkdiscard", "util-linux", "tests: block devices"),
    Program("debugfs", "e2fsprogs", "tests: a file system on block devices"),
    Program("e2fsck", "e2fsprogs", "tests: a file system on block devices"),
    Program("qemu-img", "qemu-utils", "tests: a client of block devices"),
    Program("fio", "fio", "tests, bench: load of block devices"),
    Program("blkparse", "blktrace", "tests: referee of block traces"),
    Program("nbdkit", "nbdkit", "bench: a server of block devices"),
    Program("qemu-nbd", "qemu-utils", "bench: a server of block devices"),
    Program("gcc", "gcc libc6-dev", "tests: small programs"),
    Program("clang", "clang", "tests, bench: programs for the kernel"),
    Program("zsh", "zsh", "tests: completion"),
    Program("fish", "fish", "tests: completion"),
    Program("chromium", "chromium", "tests: a browser"),
    Program("valgrind", "valgrind", "tests, bench: misses by Cachegrind"),
    Program("mount", "mount", "tests: a full disk"),
    Program("systemd-analyze", "systemd", "tests: units of live programs"),
    Program("haproxy", "haproxy", "bench: a proxy"),
    Program("wrk", "wrk", "tests, bench: load of live circuits, of proxies"),
    Program("javac", "default-jdk-headless", "bench: BigHouse"),
    Program("g++", "g++ make", "bench: htsim", made_by=("g++", "make")),
    Program("ns3", "ns3", "bench: fabrics", module="ns"),
    Program("axe", "axe-core-python", "tests: accessible pages", module="axe_core_python"),
    Program("s3fs", "s3fs", "tests: results at a URL", module="s3fs"),
    Program("marimo", "marimo", "tests: notebooks", module="marimo"),
    Program("moto", "moto[s3] flask flask-cors", "tests: an object store", module="moto"),
)

_BY_NAME = {program.name: program for program in PROGRAMS}


def find(name: str) -> Program:
    """A program of the list.

    Raises:
        KeyError: the name is not on the list, so no script would install it.
    """
    return _BY_NAME[name]


def main(names: Sequence[str] = ()) -> int:
    """Prints the packages of each program that is missing, or with ``-m`` of each module, those of
    benchmarks alone aside; or of the programs that are named."""
    modules = list(names) == ["-m"]
    suite = [p for p in PROGRAMS if not p.used_by.startswith("bench")]
    wanted = [p for p in suite if bool(p.module) == modules]
    if names and not modules:
        wanted = [find(name) for name in names]
    for program in wanted:
        if program.path is None:
            print(program.packages)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

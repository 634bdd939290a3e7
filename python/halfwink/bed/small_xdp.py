"""The smallest XDP program that forwards: a referee for what XDP itself costs on a bed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from halfwink.bed.topology import ROUTER_PORTS, Bed
from halfwink.errors import RunError
from halfwink.programs import which

#: Looks the route up, lowers the TTL and sends: IPv4 alone, nothing counted, nothing moved.
SOURCE = """
struct md { unsigned data, data_end, data_meta, ingress; };
struct fib {
    unsigned char family, protocol; unsigned short sport, dport, length; unsigned ifindex, tos;
    unsigned source[4], to[4], vlan; unsigned char smac[6], dmac[6];
};
static long (*redirect)(unsigned, unsigned long long) = (void *)23;
static long (*lookup)(void *, struct fib *, int, unsigned) = (void *)69;
__attribute__((section("license"), used)) char terms[] = "Dual MIT/GPL";
__attribute__((section("xdp"), used)) int forward(struct md *md)
{
    unsigned char *frame = (void *)(long)md->data;
    if (frame + 34 > (unsigned char *)(long)md->data_end) return 2;
    if (*(unsigned short *)(frame + 12) != 8 || frame[14] != 0x45 || frame[22] < 2) return 2;
    struct fib fib = {.family = 2, .ifindex = md->ingress};
    fib.length = __builtin_bswap16(*(unsigned short *)(frame + 16));
    fib.source[0] = *(unsigned *)(frame + 26), fib.to[0] = *(unsigned *)(frame + 30);
    if (lookup(md, &fib, sizeof fib, 0)) return 2;
    unsigned sum = *(unsigned short *)(frame + 24) + 1;
    *(unsigned short *)(frame + 24) = sum + (sum >> 16), frame[22]--;
    __builtin_memcpy(frame, fib.dmac, 6), __builtin_memcpy(frame + 6, fib.smac, 6);
    return redirect(fib.ifindex, 0);
}
"""


@contextmanager
def attached(bed: Bed) -> Generator[None]:
    """The program on both ports of a bed's router, in the driver.

    Raises:
        RunError: clang or the kernel refuses it.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "forward.c", Path(folder) / "forward.o"
        source.write_text(SOURCE)
        words = [str(which("clang")), "-target", "bpf", "-O2", "-c", str(source), "-o", str(target)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunError(f"clang: {(done.stderr.strip().splitlines() or ['failed'])[0]}")
        for port in ROUTER_PORTS:
            bed.router.run(
                ["ip", "link", "set", "dev", port, "xdpdrv", "obj", str(target), "sec", "xdp"]
            )
        try:
            yield
        finally:
            for port in ROUTER_PORTS:
                bed.router.run(["ip", "link", "set", "dev", port, "xdpdrv", "off"])

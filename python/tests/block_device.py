"""A device at work, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from halfwink.live.block import Block, Device

MB = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")
#: How a file is read and written.
WAYS: tuple[dict[str, Any], ...] = (
    {"io": "sync"},
    {"io": "uring"},
    {"io": "uring", "direct": True},
)


def cpu_s(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@contextmanager
def serving(path: Path, **more: Any) -> Generator[Block]:
    """A device of memory, unless something else is said."""
    if "file" not in more:
        more.setdefault("ram", "16M")
    with Block(Device(unix=path, **more)) as block:
        yield block


@contextmanager
def command(description: Path, *more: str | Path) -> Generator[subprocess.Popen[str]]:
    """`halfwink live block` at work, which is killed if it does not end by itself."""
    words = [sys.executable, "-m", "halfwink", "live", "block", str(description), *map(str, more)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        assert "ready at nbd+unix:///" in server.stderr.readline()
        yield server
    finally:
        server.kill()


def run(*words: str, timeout: float = 120) -> str:
    """A program that ends well; what it says."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def verify_by_fio(block: Block, sizes: str, out: Path) -> None:
    """fio writes, trims and flushes at random, and finds in 16 MiB what it wrote; ``sizes`` of its
    requests as it reads them."""
    words = ["fio", "--name=v", "--ioengine=nbd", f"--uri={block.address}", "--rw=randrw"]
    words += [f"--bsrange={sizes}", "--iodepth=16", "--size=16M", "--verify=crc32c"]
    words += ["--verify_fatal=1", "--verify_state_save=0", "--fsync=32", "--trim_percentage=5"]
    run(*words, "--randseed=3", f"--output={out}", timeout=300)

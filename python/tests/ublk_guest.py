"""A guest whose kernel has ublk, and what it says of the disks that are served there."""

from __future__ import annotations

import base64
import gzip
import subprocess
from pathlib import Path

from conftest import lacking, need, need_qemu

from halfwink.capture import guest, host, small
from halfwink.capture.cpio import CpioWriter
from halfwink.capture.errors import MissingRequirementError
from halfwink.live.block import SERVER
from halfwink.live.served import program

DRIVERS = ["ublk_drv", "ext4", "crc32c_generic"]
#: Of this host's time, for everything that the guest does.
PATIENCE_S = 1200.0

#: What every script may use. The shell has programs of its own under some of those names.
BEGIN = """
files=/halfwink/programs
describe() { printf 'schema = 1\\nublk = %s\\n%s\\n' "$2" "$3" >"$1"; }
begin() {
    # Else the last one's would be read.
    : >/tmp/said
    describe /tmp/block.toml "$1" "$2"; shift 2
    $files/halfwink-block --config /tmp/block.toml "$@" >/tmp/said 2>&1 &
    server=$!; waited=0
    while ! grep -q "block: ready" /tmp/said; do
        kill -0 $server 2>/dev/null || fail "server: $(tail -n 1 /tmp/said)"
        sleep 0.1; waited=$((waited + 1)); [ $waited -lt 3000 ] || fail "not ready: $*"
    done
}
finish_with() { kill -$1 $server; wait $server; status=$?; }
copy() { dd if=$1 of=$2 bs=4k seek=$3 oflag=direct conv=fsync 2>/dev/null || fail "dd to $2"; }
sum() { dd if=$1 bs=4k skip=$2 count=$3 iflag=direct 2>/dev/null | md5sum | cut -d' ' -f1; }
file() { say "file $1 $(gzip -c $2 | base64 -w0)"; }
"""


def machine() -> small.Small:
    """The guest without a script; the test is skipped where there can be none."""
    need_qemu()
    need("mke2fs", "blkdiscard")
    try:
        return small.ensure(DRIVERS, [], lambda _: None, guest.NEWER_KERNEL)
    except MissingRequirementError as error:
        lacking(str(error))


def play(folder: Path, script: str, files: dict[str, bytes]) -> dict[str, str]:
    """Runs a script with this build's server in the guest; what it said, by its first word."""
    base = machine()
    initrd = folder / "initrd.cpio"
    programs = [program(SERVER).resolve(), Path(need("mke2fs")), Path(need("blkdiscard"))]
    with initrd.open("wb") as archive:
        archive.write(base.base.read_bytes())
        with CpioWriter(archive) as cpio:
            cpio.file("halfwink/run.sh", (BEGIN + script).encode())
            for path, data in files.items():
                cpio.file(path, data)
            for added in programs:
                small.add_program(cpio, added)
    words = small.command_line(base, initrd, 1)
    # In this host's time, on two CPUs side by side.
    at = words.index("-icount")
    del words[at : at + 2]
    words[words.index("tcg,thread=single")] = "tcg,thread=multi"
    words += ["-smp", "2"]
    assert words[0] == host.QEMU
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, check=False
    )
    said = [line.strip() for line in done.stdout.splitlines()]
    # The kernel may say something in the middle of a line's way to the console, not of a line.
    told = [line.partition("@guest ")[2] for line in said if "@guest " in line]
    wrong = [line for line in told if line.startswith("error: ")]
    assert not wrong, wrong
    assert told[-1:] == ["over"], (said[-5:], done.stderr)
    found = {}
    for line in told:
        key, _, value = line.partition(" ")
        if key == "file":
            name, _, packed = value.partition(" ")
            found[name] = gzip.decompress(base64.b64decode(packed)).decode()
        else:
            found[key] = value
    return found

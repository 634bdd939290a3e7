"""A disk of the machine's own kernel: its ublk driver asks, and a policy says who completes."""

from __future__ import annotations

import hashlib
import json
import lzma
import random
from pathlib import Path

import pytest
from block_device import MB
from conftest import Halfwink
from ublk_guest import play

from halfwink.capture import drivers, host
from halfwink.capture.errors import MissingRequirementError
from halfwink.errors import RunError
from halfwink.live import block as live_block
from halfwink.live.block import Block, Device

PAYLOAD = random.Random(8).randbytes(MB + 4096)
PIECES = len(PAYLOAD) // 4096
#: For each policy: an emulated CPU takes its time.
SOME = 64
POLICIES = (
    "single-thread",
    "same",
    "issuer",
    "round-robin-socket",
    "cache-aware",
    "dynamic:high=2,low=1",
    "msi-x",
    "multi-queue",
    "polled",
    "hybrid-poll",
    "interleaved-tags:threads=2",
)


def test_where_there_is_no_driver_a_line_says_what_adds_it(halfwink: Halfwink) -> None:
    if live_block.UBLK_CONTROL.exists():
        pytest.skip("this kernel has ublk")
    with pytest.raises(RunError, match=r"/dev/ublk-control is missing.*modprobe ublk_drv"):
        Block(Device(ublk="any", ram="1M"))
    for words in (["--ublk"], ["--ublk", "7"]):
        told = halfwink("live", "block", *words, "--ram", "1M")
        assert (told.status, told.err.count("\n")) == (1, 1), told.err
        assert "run: modprobe ublk_drv" in told.err
    (found,) = [f for f in halfwink("doctor", "--json").rows("findings") if "ublk" in f["what"]]
    assert not found["present"]
    assert found["fix"].startswith("modprobe ublk_drv")


def test_what_cannot_be_asked_for_is_refused(halfwink: Halfwink) -> None:
    for words in (["--ublk", "x"], ["--ublk", "--unix", "s"], ["--ublk", "--latency-us", "5"]):
        told = halfwink("live", "block", *words, "--ram", "1M")
        assert told.status == 2, (words, told)
        assert "ublk" in told.err


def test_a_newer_kernel_has_packed_drivers_and_its_own_source(tmp_path: Path) -> None:
    plain, packed = tmp_path / "one-plain.ko", tmp_path / "ublk-drv.ko.xz"
    plain.write_bytes(b"\0depends=ublk-drv\0")
    packed.write_bytes(lzma.compress(b"\0depends=\0"))
    there = {drivers.driver_name(path): path for path in (plain, packed)}
    assert drivers.in_order(["one_plain"], there) == [packed, plain]
    assert drivers.driver_bytes(packed) == b"\0depends=\0"
    if host.is_debian_12():
        with pytest.raises(MissingRequirementError, match=r"no package source for bookworm-none"):
            host.mirror("bookworm-none")


EACH = """
for policy in %s; do
    more=; case $policy in dynamic*) more="--log /tmp/log";; esac
    begin 3 "$(printf 'ram = "16M"\\npolicy = "%%s"' $policy)" --report /tmp/report $more
    [ -b /dev/ublkb3 ] || fail "no disk"
    taskset 1 dd if=/halfwink/payload of=/dev/ublkb3 bs=4k seek=1000 oflag=direct 2>/dev/null &
    other=$!
    taskset 2 dd if=/halfwink/payload of=/dev/ublkb3 bs=4k seek=2000 oflag=direct 2>/dev/null
    wait $other || fail "dd"
    sum=$(sum /dev/ublkb3 1000 SOME)/$(sum /dev/ublkb3 2000 SOME)/$(sum /dev/ublkb3 3000 1)
    finish_with TERM
    [ -e /dev/ublkc3 ] && fail "still there: $policy"
    say "$policy $status/$sum"
    file report-$policy /tmp/report
done
file log /tmp/log
say over
"""


@pytest.mark.full("block")
def test_every_policy_serves_a_disk(tmp_path: Path, halfwink: Halfwink) -> None:
    some = PAYLOAD[: 4096 * SOME]
    script = (EACH % " ".join(POLICIES)).replace("SOME", str(SOME))
    found = play(tmp_path, script, {"halfwink/payload": some})
    payload, zero = (hashlib.md5(data).hexdigest() for data in (some, bytes(4096)))
    for policy in POLICIES:
        assert found[policy] == f"0/{payload}/{payload}/{zero}", policy
        report = json.loads(found[f"report-{policy}"])
        asked = report["requests"]
        assert asked["written_bytes"] == 2 * len(some)
        assert asked["read_bytes"] >= 2 * len(some) + 4096
        assert asked["refused"] == report["errors"] == 0
        assert report["ledger"]["imbalance"] is None
        assert report["connections"] is None
        here, given = ([w[what] for w in report["workers"]] for what in ("here", "given"))
        kinds = ("reads", "writes", "flushes", "trims", "zeroes")
        assert sum(here) + sum(given) == sum(asked[kind] for kind in kinds)
        assert report["latency"]["count"] == sum(here) + sum(given)
        if policy in ("msi-x", "multi-queue", "polled", "hybrid-poll"):
            # Each CPU's requests come through its own queue, to its own thread.
            assert min(here) >= SOME, policy
            assert given == [0, 0]
        elif policy == "issuer":
            # The queue says who asked: of the writes, each CPU's come back to it.
            assert min(here[0] + given[0], given[1]) >= SOME
        elif policy == "single-thread":
            assert here[0] > 0
            assert given == [0, 0]
        elif policy == "round-robin-socket":
            assert given[1] > 0
    (tmp_path / "log.jsonl").write_text(found["log"])
    told = halfwink("replay", str(tmp_path / "log.jsonl"))
    assert told.status == 0, told.err


CRASH = """
disk=/dev/ublkb5
truncate -s 64M /tmp/image
image='file = "/tmp/image"
policy = "dynamic:high=2,low=1"'
first() { begin 5 "$image" "$@"; }
first
queue=/sys/block/ublkb5/queue
said=$(cat /sys/block/ublkb5/size $queue/write_cache $queue/fua $queue/logical_block_size)
say "limits $(echo $said)"
describe /tmp/other 5 'ram = "1M"'
second() { $files/halfwink-block --config /tmp/other >/tmp/second 2>&1; }
second; say "second $? $(tail -n 1 /tmp/second)"
$files/mke2fs -q -t ext4 $disk || fail "mke2fs"
mkdir /tmp/mnt; mount -t ext4 $disk /tmp/mnt || fail "mount"
cp /halfwink/payload /tmp/mnt/a; sync; fstrim /tmp/mnt || fail "fstrim"; umount /tmp/mnt
finish_with TERM; say "stopped $status"
first
mount -t ext4 $disk /tmp/mnt || fail "mount again"
say "kept $(md5sum < /tmp/mnt/a | cut -d' ' -f1)"
# Killed while it is written to; what the kernel says of that is no news.
dmesg -n 1
dd if=/dev/urandom of=/tmp/mnt/b bs=64k count=3000 2>/dev/null &
writer=$!
sleep 0.3
finish_with KILL; wait $writer && fail "the writer saw no error"
waited=0
while [ -e $disk ]; do sleep 0.1; waited=$((waited + 1)); [ $waited -lt 3000 ] || fail "stuck"; done
say "left $(ls /dev/ublkb* 2>/dev/null | wc -l) $(ls /dev/ublkc* | wc -l)"
second; say "mounted $? $(tail -n 1 /tmp/second)"
umount /tmp/mnt
first
mount -t ext4 $disk /tmp/mnt || fail "mount after the crash"
say "survived $(md5sum < /tmp/mnt/a | cut -d' ' -f1)"
umount /tmp/mnt
# What was answered is there after a crash.
copy /halfwink/payload $disk 8192
finish_with KILL
first --report /tmp/report
say "answered $(sum $disk 8192 PIECES)"
$files/blkdiscard -f -o $((8192 * 4096)) -l $((64 * 4096)) $disk 2>/dev/null || fail "discard"
$files/blkdiscard -f -z -o $((8256 * 4096)) -l $((64 * 4096)) $disk 2>/dev/null || fail "zero"
say "zeroed $(dd if=$disk bs=4k skip=8192 count=128 2>/dev/null | tr -d '\\0' | wc -c)"
say "beside $(sum $disk 8320 $((PIECES - 128)))"
# Cut off under the server: an error of one request.
truncate -s 32M /tmp/image
dd if=$disk bs=4k skip=8192 count=1 iflag=direct of=/dev/null 2>/dev/null && fail "no error"
say "before $(sum $disk 0 1)"
truncate -s 64M /tmp/image
finish_with INT; say "interrupted $status"
file report /tmp/report
# Stopped while somebody has it open and the kernel has not written all.
first
dd if=/halfwink/payload of=$disk bs=4k seek=8192 2>/dev/null
exec 7<$disk
finish_with TERM; say "open $status"
exec 7<&-
say "written $(dd if=/tmp/image bs=4k skip=8192 count=PIECES 2>/dev/null | md5sum | cut -d' ' -f1)"
image="$image
read_only = true"
first
dd if=/halfwink/payload of=$disk bs=4k 2>/dev/null && fail "written"
say "protected $(cat /sys/block/ublkb5/ro)"
finish_with TERM
say "gone $(ls /dev/ublkb* /dev/ublkc* 2>/dev/null | wc -l)"
say over
"""


@pytest.mark.full("block")
def test_a_disk_survives_its_server(tmp_path: Path) -> None:
    script = CRASH.replace("PIECES", str(PIECES))
    found = play(tmp_path, script, {"halfwink/payload": PAYLOAD})
    payload = hashlib.md5(PAYLOAD).hexdigest()
    assert found["limits"] == f"{64 * MB // 512} write back 1 512"
    assert found["second"].startswith("1 halfwink-block: ublk device 5 is served already, by")
    assert found["stopped"] == found["interrupted"] == found["open"] == "0"
    assert found["kept"] == found["survived"] == found["answered"] == found["written"] == payload
    assert found["left"] == "0 1"
    assert found["mounted"].startswith("1 halfwink-block: ublk device 5 was left by another server")
    assert found["zeroed"] == "0"
    assert found["beside"] == hashlib.md5(PAYLOAD[128 * 4096 :]).hexdigest()
    assert found["protected"] == "1"
    assert found["gone"] == "0"
    report = json.loads(found["report"])
    assert (report["requests"]["trims"], report["requests"]["zeroes"]) == (1, 1)
    assert report["errors"] >= 1
    assert report["io"]["io"] == "sync"

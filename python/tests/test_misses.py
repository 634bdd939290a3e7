"""Counting misses without time: by hand, and against Cachegrind."""

import os
import stat
from pathlib import Path

import pytest
from conftest import Halfwink, lacking, need

import peers
from halfwink import _core, files
from halfwink.capture import capture
from halfwink.library import root

#: Instructions that Cachegrind counts and a recording does not: the recording begins in the block
#: after the start marker and ends before the block with the stop marker. By hand, in misses.c's
#: code: marker, lea and call at the start; xor, test, sete, marker and syscall's block at the end.
OUTSIDE = 8


def table(trace: Path, *, user: bool, virtual: bool) -> dict[tuple[str, str], tuple[int, ...]]:
    rows = _core.trace_caches(str(trace), peers.SHAPES, user, virtual)
    return {(kind, mode): tuple(counts) for kind, mode, *counts in rows}


@pytest.mark.full("captures")
@pytest.mark.qemu
def test_user_misses_are_cachegrinds(tmp_path: Path) -> None:
    """A recorded execution has the misses that Cachegrind counts when it runs the program."""
    need("valgrind")
    need("gcc")
    binary, trace = peers.compile_program(tmp_path), tmp_path / "misses.hwt"
    capture(
        None,
        [str(binary)],
        trace,
        instructions=None,
        seed=1,
        time_limit_s=600,
        rootfs=None,
        progress=lambda _: None,
    )
    theirs = peers.cachegrind(binary)
    assert theirs is not None
    ours = table(trace, user=True, virtual=True)
    assert ours["load", "user"] == theirs.loads
    assert ours["store", "user"] == theirs.stores
    fetches = ours["fetch", "user"]
    assert theirs.fetches[0] - fetches[0] == OUTSIDE
    # The first instructions lie in a line of their own.
    assert theirs.fetches[1] - fetches[1] == 1
    assert theirs.fetches[2] - fetches[2] == 1

    # The kernel's work changes what the program finds: it clears the pages that the program writes
    # first, which warms the cache, and evicts lines, which cools it.
    both = table(trace, user=False, virtual=False)
    assert both["store", "user"][0] == theirs.stores[0]
    assert both["store", "user"][1] < theirs.stores[1] / 10
    assert both["store", "kernel"][1] > theirs.stores[1]
    assert both["fetch", "user"][1] > fetches[1]


def test_the_command_shows_what_there_is(halfwink: Halfwink) -> None:
    trace = str(root() / "workloads" / "gzip.hwt")
    rows = halfwink("trace", "caches", trace, "--json").rows("misses")
    assert {(row["kind"], row["mode"]) for row in rows} >= {("fetch", "user"), ("load", "kernel")}
    for row in rows:
        assert 0 <= row["ll_misses"] <= row["l1_misses"] <= row["accesses"]
    small = halfwink("trace", "caches", trace, "--d1", "4KB:1", "--user", "--json").rows("misses")
    assert {row["mode"] for row in small} == {"user"}
    assert small[1]["l1_misses"] > rows[2]["l1_misses"]


def test_a_device_is_written_to_and_not_replaced(halfwink: Halfwink, tmp_path: Path) -> None:
    device = tmp_path / "device"
    if os.geteuid() != 0:
        lacking("making a device needs root", kernel=True)
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    trace = str(root() / "workloads" / "gzip.hwt")
    words = ("-o", str(device), "--limit", "100")
    assert halfwink("trace", "export", trace, *words).status == 0
    assert device.is_char_device()
    files.write_whole(device, "text")
    assert device.is_char_device()


def test_a_file_keeps_its_link_and_its_permissions(halfwink: Halfwink, tmp_path: Path) -> None:
    file, link = tmp_path / "private", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to(file)
    trace = str(root() / "workloads" / "gzip.hwt")
    assert halfwink("trace", "export", trace, "-o", str(link), "--limit", "100").status == 0
    assert file.read_bytes() != b"old"
    files.write_whole(link, "new")
    assert (link.is_symlink(), file.read_text()) == (True, "new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == [link, file]


@pytest.mark.parametrize("shape", ["32KB", "48KB:8", "0KB:1", "32KB:x"])
def test_an_impossible_cache_is_one_line(halfwink: Halfwink, shape: str) -> None:
    trace = str(root() / "workloads" / "gzip.hwt")
    done = halfwink("trace", "caches", trace, "--ll", shape)
    assert done.status == 2
    assert shape in done.complaint
    assert "expected" in done.complaint


def test_no_cache_holds_less_than_a_larger_one() -> None:
    """LRU has the inclusion property: more ways never miss more."""
    trace = str(root() / "workloads" / "nginx.hwt")
    misses = [
        sum(row[3] for row in _core.trace_caches(trace, [s, s, "8MB:16"], False, False))
        for s in ("4KB:1", "8KB:2", "16KB:4", "32KB:8")
    ]
    assert misses == sorted(misses, reverse=True)
    assert misses[0] > misses[-1]

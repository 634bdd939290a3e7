"""CPUs of another server: by XML of lstopo, both versions, and by a copy of sysfs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from halfwink import HalfwinkError
from halfwink.live.block_advice import Load, advise, known
from halfwink.live.server_topology import of_server, server_cpus

#: Two packages; each has two third-level caches with two cores of two threads.
PACKAGES, CACHES, CORES, THREADS = 2, 2, 2, 2


def number(package: int, cache: int, core: int, thread: int) -> int:
    """Linux numbers the second threads behind all first ones."""
    first = (package * CACHES + cache) * CORES + core
    return first + thread * PACKAGES * CACHES * CORES


def xml(package: str, third: str, second: str) -> str:
    lines = ['<?xml version="1.0"?>', "<topology>", '<object type="Machine" os_index="0">']
    for p in range(PACKAGES):
        lines.append(f'<object type="{package}" os_index="{p}">')
        for c in range(CACHES):
            lines.append(f'<object {third} cache_size="33554432">')
            for core in range(CORES):
                lines.append(f'<object {second} cache_size="1048576"><object type="Core">')
                lines += [
                    f'<object type="PU" os_index="{number(p, c, core, t)}"/>'
                    for t in range(THREADS)
                ]
                lines.append("</object></object>")
            lines.append("</object>")
        lines.append("</object>")
    return "\n".join([*lines, "</object>", "</topology>", ""])


def tree(root: Path) -> Path:
    for p in range(PACKAGES):
        for c in range(CACHES):
            shared = [number(p, c, k, t) for k in range(CORES) for t in range(THREADS)]
            for cpu in shared:
                folder = root / f"devices/system/cpu/cpu{cpu}"
                caches = {
                    "index0": ("1", "Data", str(cpu), "48K"),
                    "index3": ("3", "Unified", ",".join(map(str, sorted(shared))), "32M"),
                }
                for index, values in caches.items():
                    (folder / "cache" / index).mkdir(parents=True)
                    names = ("level", "type", "shared_cpu_list", "size")
                    for name, value in zip(names, values, strict=True):
                        (folder / "cache" / index / name).write_text(f"{value}\n")
                (folder / "topology").mkdir()
                (folder / "topology/physical_package_id").write_text(f"{p}\n")
    (root / "devices/system/cpu/online").write_text("0-15\n")
    return root


@pytest.mark.parametrize("kind", ["hwloc 2", "hwloc 1", "sysfs"])
def test_cpus_have_their_package_and_the_first_cpu_of_their_cache(tmp_path: Path, kind: str):
    path = tmp_path / "server.xml"
    if kind == "sysfs":
        path = tree(tmp_path)
    elif kind == "hwloc 2":
        path.write_text(xml("Package", 'type="L3Cache"', 'type="L2Cache"'))
    else:
        path.write_text(xml("Socket", 'type="Cache" depth="3"', 'type="Cache" depth="2"'))
    cpus = server_cpus(path)
    assert [cpu["cpu"] for cpu in cpus] == list(range(16))
    for p in range(PACKAGES):
        for c in range(CACHES):
            for k in range(CORES):
                for t in range(THREADS):
                    cpu = cpus[number(p, c, k, t)]
                    assert (cpu["package"], cpu["cache"]) == (p, number(p, c, 0, 0))
                    assert (cpu["level"], cpu["cache_bytes"]) == (3, 32 << 20)


def test_advice_is_for_the_caches_of_that_server(tmp_path: Path):
    path = tmp_path / "server.xml"
    path.write_text(xml("Package", 'type="L3Cache"', 'type="L2Cache"'))
    here = {
        "machine": {"cpus": [{"cpu": 0, "package": 0, "cache": 0}]},
        "trips": [
            {"from": 0, "to": 1, "line_ns": 100.0, "same_cache": True},
            {"from": 0, "to": 2, "line_ns": 900.0, "same_cache": False},
        ],
        "wake": {"call_us": 1.0, "until_us": 5.0, "sleeper_us": 2.0},
    }
    measured = of_server(here, path)
    assert [trip["line_ns"] for trip in measured["trips"]] == [100.0]
    found = advise(measured, Load(iops=500_000, io_us=2.7), known({}))
    assert found.cpus == [0, 1]
    assert "queues lie in 1 of 4 last-level caches" in found.why


def test_offline_cpus_and_those_without_caches(tmp_path: Path):
    root = tree(tmp_path) / "devices/system/cpu"
    (root / "online").write_text("0-1,4\n")
    assert [cpu["cpu"] for cpu in server_cpus(tmp_path)] == [0, 1, 4]
    for index in root.glob("cpu*/cache/index*/level"):
        index.unlink()
    assert {cpu["cache"] for cpu in server_cpus(root)} == {0, 4}


def test_what_is_no_server_is_one_line(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "fifo.xml")
    for name, text, said in (
        ("text.xml", "Machine (16GB)\n", "expected XML of lstopo"),
        ("other.xml", "<svg></svg>", "found <svg>"),
        ("none.xml", "<topology></topology>", "found 0 CPUs"),
        ("cut.xml", "<topology><object", "expected XML of lstopo"),
        ("fifo.xml", None, "expected a regular file"),
        ("empty", None, "found no folder cpu0"),
        ("missing.xml", None, "No such file"),
    ):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(HalfwinkError, match=said) as caught:
            server_cpus(path)
        assert "\n" not in str(caught.value)


def test_deep_xml_is_read_without_recursion(tmp_path: Path):
    path = tmp_path / "deep.xml"
    pu = '<object type="PU" os_index="3"/>'
    path.write_text(f"<topology>{'<object>' * 20_000}{pu}{'</object>' * 20_000}</topology>")
    assert [cpu["cpu"] for cpu in server_cpus(path)] == [3]

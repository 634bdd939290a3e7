"""Users' own loads: jobs of fio and block traces, played on a made-up machine."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from conftest import Halfwink, need
from test_block_advice import machine

import halfwink as hw
from halfwink import HalfwinkError
from halfwink.live import block_loads

QUEUE, ISSUE, COMPLETE = 1, 7, 8
READ, WRITE = 1 << 16, 1 << 17

JOB = """\
[global]
ioengine=io_uring
bs=4k
rw=randread
[one]
iodepth=8
"""


def record(at_ns: int, action: int, cpu: int, sector: int, size: int = 4096) -> bytes:
    """A record as blktrace writes it (``struct blk_io_trace``)."""
    magic, device = 0x65617407, 8 << 20
    words = (magic, 1, at_ns, sector, size, action, 7, device, cpu, 0, 0)
    return struct.pack("<IIQQIIIIIHH", *words)


def trace(folder: Path, gap_us: int = 100, latency_us: int = 50, count: int = 400) -> Path:
    """Two CPUs that read by turns, each I/O done by a device after the same time."""
    files: dict[int, bytes] = {0: b"", 1: b""}
    for n in range(count):
        at, cpu, sector = 1000 * gap_us * n, n % 2, 1000 + 64 * n
        files[cpu] += record(at, READ | QUEUE, cpu, sector)
        files[cpu] += record(at + 1000, READ | ISSUE, cpu, sector)
        files[cpu] += record(at + 1000 + 1000 * latency_us, READ | COMPLETE, cpu, sector)
    for cpu, records in files.items():
        (folder / f"sda.blktrace.{cpu}").write_bytes(records)
    return folder / "sda.blktrace.0"


def play(path: Path, **more: float) -> block_loads.LoadRuns:
    policies = ["single-thread", "cache-aware", "polled"]
    return block_loads.load_runs(machine([0, 1]), path, io_us=5, policies=policies, **more)


def test_a_job_is_played_at_its_depth_and_the_devices_latency(tmp_path: Path) -> None:
    (tmp_path / "a.fio").write_text(JOB)
    near = play(tmp_path / "a.fio", latency_us=10)
    far = play(tmp_path / "a.fio", latency_us=1000)
    assert (far.load["kind"], far.load["depth"], far.load["issuers"]) == ("fio", 8, 1)
    for row in far.expected():
        # Eight in flight for a millisecond each, and what software takes.
        assert 7_000 < row["iops_low"] <= row["iops"] <= row["iops_high"] < 8_000, row
        assert 1000 < row["latency_p50_us"] < 1100
    for fast, slow in zip(near.expected(), far.expected(), strict=True):
        assert fast["iops"] > 3 * slow["iops"]
        assert fast["uj_per_io"] < slow["uj_per_io"]


def test_a_trace_says_its_rate_and_its_devices_latency(tmp_path: Path) -> None:
    runs = play(trace(tmp_path))
    load = runs.load
    assert (load["kind"], load["issuers"], load["bytes"]) == ("blktrace", 2, 4096)
    assert load["traced_latency_us"] == load["device_latency_us"] == 50
    assert load["iops"] == pytest.approx(10_000, rel=0.01)
    rows = {row["policy"]: row for row in runs.expected()}
    for row in rows.values():
        assert row["iops"] == pytest.approx(10_000, rel=0.02)
        assert 50 < row["latency_p50_us"] < 80
    # Whoever asks all of the time is awake all of the time.
    assert rows["polled"]["awake_cpus"] > 1.9 > 0.5 > rows["cache-aware"]["awake_cpus"]
    assert rows["polled"]["uj_per_io"] > rows["cache-aware"]["uj_per_io"]
    # What is said beats what was traced; a folder is all of its files.
    assert play(tmp_path, latency_us=80).load["device_latency_us"] == 80


def test_blkparse_reads_the_same(tmp_path: Path) -> None:
    trace(tmp_path)
    command = [need("blkparse"), "-i", "sda"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    (tmp_path / "sda.txt").write_text(done.stdout)
    text, binary = play(tmp_path / "sda.txt"), play(tmp_path / "sda.blktrace.1")
    assert text.load | {"read_as": ""} == binary.load | {"read_as": ""}
    assert text.runs.drop("workload").equals(binary.runs.drop("workload"))


def test_a_file_is_a_workload_like_any_other(tmp_path: Path, halfwink: Halfwink) -> None:
    (tmp_path / "a.fio").write_text(JOB)
    values = ("--set", "ios=2000", "--set", "device.latency_us=80", "-q", "--log", "a.log")
    words = ("storage", "simulate", "file@a.fio", "-m", "westmere-ep", "-t", "issuer", *values)
    run = halfwink(*words, "--json").rows("runs")[0]
    assert (run["workload"], run["issuers"], run["depth"], run["load"]) == (
        "file@a.fio",
        1,
        8,
        "closed",
    )
    assert run["latency_p50_us"] > 80
    assert run["energy_j"] > 0
    assert halfwink("replay", "a.log").status == 0
    assert "fio" in halfwink(*words, "--table", "source").out
    (tmp_path / "a.fio").write_text(JOB.replace("iodepth=8", "iodepth=2"))
    # What was kept is of the file as it was.
    assert halfwink(*words, "--json").rows("runs")[0]["depth"] == 2
    assert "expected `file@PATH`" in halfwink("storage", "simulate", "file").complaint
    assert "no such" in halfwink("storage", "simulate", "file@b.fio").complaint.lower()


def test_a_trace_has_its_devices_latency_unless_one_is_set(tmp_path: Path) -> None:
    found = trace(tmp_path)
    for values, latency_us in (({}, 50), ({"device.latency_us": 80}, 80 + 135)):
        played = hw.compare(f"file@{found}", world="storage", techniques="issuer", set=values)
        # With a latency that is set, the machine's bridges come on top.
        assert played.source["device_latency_us"].to_list() == [pytest.approx(latency_us)]
        run = played.runs.row(0, named=True)
        assert (run["depth"], run["load"], run["units"]) == (None, "open", 400)
        assert run["latency_p50_us"] > latency_us


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "found nothing, expected a load"),
        ("[a]\nbs=4x\n", ":2: bs: found `4x`"),
        ("[a]\nrw=sometimes\n", ":2: rw: found `sometimes`"),
        ("8,0 0 1 0.0 1 Q R 8 + 8 [a]\n8,0 0 1 x 1 Q R 8 + 8 [a]\n", ":2: seconds: found `x`"),
    ],
)
def test_wrong_loads_are_told_with_their_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "load").write_text(text)
    with pytest.raises(HalfwinkError, match=r"load") as caught:
        play(tmp_path / "load")
    assert says in str(caught.value)


def test_loads_that_are_not_there_or_are_cut_off_are_told(tmp_path: Path) -> None:
    with pytest.raises(HalfwinkError, match="No such file"):
        play(tmp_path / "none.fio")
    with pytest.raises(HalfwinkError, match=r"NAME\.blktrace\.CPU"):
        play(tmp_path)
    cut = trace(tmp_path)
    cut.write_bytes(cut.read_bytes()[:-7])
    with pytest.raises(HalfwinkError, match="expected a record of 48"):
        play(cut)
    with pytest.raises(HalfwinkError, match="expected 0 to 1000000"):
        play(cut, latency_us=-1)


def test_advice_for_a_load_from_the_command_line(tmp_path: Path, halfwink: Halfwink) -> None:
    (tmp_path / "a.fio").write_text(JOB + "[logs]\nrw=write\nnumjobs=2\nzonemode=zbd\n")
    done = halfwink("live", "block", "--advise", "--load", "a.fio", "--json")
    assert done.status == 0, done.err
    facts = done.json()["facts"]
    assert (facts["traced"]["depth"], facts["traced"]["left_out"]) == (10, "zonemode")
    advised = next(row for row in done.rows("policies") if row["policy"] == block_loads.ADVISED)
    assert facts["advice"]["expected"]["uj_per_io"] == advised["uj_per_io"]
    assert facts["load"]["iops"] == advised["iops"]
    done = halfwink("live", "block", "--advise", "--load", "a.fio")
    assert "left out: zonemode" in done.err
    assert all(row in done.out for row in block_loads.LOAD_POLICIES)
    for words in (
        ["--load", "a.fio"],
        ["--advise", "--load", "a.fio", "--iops", "5"],
        ["--advise", "--latency-us", "5"],
    ):
        assert halfwink("live", "block", *words).status == 2, words

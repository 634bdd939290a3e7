#!/usr/bin/env python3
"""What DRAMsim3 makes of requests that a memory controller can be compared by.

  reference.py DRAMSIM3_FOLDER DRIVE_PROGRAM SCRATCH_FOLDER > dramsim3.csv
  reference.py --requests PATTERN [GAP_CLOCKS] > requests

The first plays every pattern through drive.cc (two minutes), the second writes a request file
(`0xADDRESS READ|WRITE CLOCK` a line).
crates/dram/tests/referee/README.md says what the columns are.

Rates: shares of the channel's peak, with exponential gaps rounded to clocks, so that every pattern
meets a queue; `sat`: at most 32 reads outstanding, one request a clock, in order; `one`: one read
outstanding.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

LINE = 64
MB = 1 << 20
Requests = Iterator[tuple[int, bool]]
Pattern = Callable[[random.Random, int], Requests]


def seq(_rng: random.Random, n: int) -> Requests:
    """Sequential reads."""
    for i in range(n):
        yield i * LINE, False


def seqwb(_rng: random.Random, n: int) -> Requests:
    """Sequential reads, each followed by a write 8 MB behind: the dirty victims of a cache."""
    for i in range(n // 2):
        yield 8 * MB + i * LINE, False
        yield i * LINE, True


def triad(_rng: random.Random, n: int) -> Requests:
    """a[i] = b[i] + s * c[i]: two reads and a write, arrays of 16,000,000 bytes side by side."""
    size = 16_000_000
    for i in range(n // 3):
        yield size + i * LINE, False
        yield 2 * size + i * LINE, False
        yield i * LINE, True


def rand(rng: random.Random, n: int) -> Requests:
    """Reads at random in 1 GiB."""
    for _ in range(n):
        yield rng.randrange(1 << 24) * LINE, False


def rand50(rng: random.Random, n: int) -> Requests:
    """The same, every second one (at random) a write."""
    for _ in range(n):
        yield rng.randrange(1 << 24) * LINE, rng.random() < 0.5


PATTERNS: dict[str, Pattern] = {
    "seq": seq,
    "seqwb": seqwb,
    "triad": triad,
    "rand": rand,
    "rand50": rand50,
    "chase": rand,
}

# One 32-bit sub-channel of a 16 Gb x8 40-39-39 part, through DRAMsim3's DDR4 state machine.
DDR5: dict[str, float] = {
    **{"bankgroups": 8, "banks_per_group": 4, "rows": 65536, "columns": 1024, "device_width": 8},
    **{"BL": 16, "tCK": 0.416, "CL": 40, "CWL": 38, "tRCD": 39, "tRP": 39, "tRAS": 77},
    **{"tRFC": 710, "tREFI": 9375, "tRRD_S": 8, "tRRD_L": 12, "tFAW": 32, "tWTR_S": 6},
    **{"tWTR_L": 24, "tWR": 72, "tRTP": 18, "tCCD_S": 8, "tCCD_L": 12, "tRTRS": 2},
    **{"channel_size": 16384, "bus_width": 32},
}
DDR3: dict[str, float] = {"CL": 9, "tRCD": 9, "tRP": 9}
#: Shipped configuration, changes to it, clocks of a burst, and address maps with the bits of
#: the line number that are hashed (from, how many).
DEVICES: dict[str, tuple[str, dict[str, float], int, dict[str, tuple[int, int]]]] = {
    "ddr3-1333": ("DDR3_1Gb_x8_1333.ini", DDR3, 4, {"rochrababgco": (7, 4)}),
    "ddr4-3200": ("DDR4_8Gb_x8_3200.ini", {}, 4, {"rochrababgco": (7, 5), "rochrabacobg": (9, 3)}),
    "ddr5-4800": (
        "DDR4_8Gb_x8_3200.ini",
        DDR5,
        8,
        {"rochrababgco": (6, 6), "rochrabacobg": (9, 3)},
    ),
}
HEAD = (
    "device,map,hash,pattern,rate,reads,writes,time_us,gb_s,share_of_peak,read_mean_ns,"
    "read_p50_ns,read_p99_ns,read_max_ns,row_hits,activates,refreshes,knee"
)


def requests(pattern: str, gap: float | None, n: int) -> Iterator[tuple[int, bool, int]]:
    """Address, whether it is written, clock; in order. Without a gap all are at clock 0."""
    rng = random.Random(f"{pattern}/1")
    at = 0.0
    for address, write in PATTERNS[pattern](rng, n):
        yield address, write, int(at)
        if gap is not None:
            at += rng.expovariate(1.0) * gap


def hashed(address: int, field: tuple[int, int], how: str) -> int:
    """XORs row bits into the bank bits (the row stays): the lowest, or all of them folded."""
    (at, width), line = field, address >> 6
    row, bits = line >> (at + width), 0
    if how == "low":
        bits = row & ((1 << width) - 1)
    while how == "fold" and row:
        bits ^= row & ((1 << width) - 1)
        row >>= width
    return (line ^ bits << at) << 6


def config(folder: Path, scratch: Path, device: str, mapping: str) -> tuple[Path, float]:
    """Writes a configuration: where, and its clock in nanoseconds."""
    base, changes, _, _ = DEVICES[device]
    text = (folder / "configs" / base).read_text()
    for key, value in {**changes, "address_mapping": mapping, "epoch_period": 1 << 30}.items():
        text, count = re.subn(rf"^{key} *=.*$", f"{key} = {value}", text, flags=re.M)
        if count != 1:
            raise SystemExit(f"{base}: expected one {key}")
    path = scratch / f"{device}-{mapping}.ini"
    path.write_text(text)
    clock = re.search(r"^tCK *= *([\d.]+)", text, re.M)
    return path, float(clock[1]) if clock else 0.0


def row(
    drive: Path, ini: Path, scratch: Path, clock: float, burst: int, field: tuple[int, int],
    how: str, pattern: str, rate: str,
) -> tuple[str, float]:  # fmt: skip
    """Plays one file: cells of its row from `reads` on, and its share of the peak."""
    gap = burst / float(rate) if rate not in ("sat", "one") else None
    lines = requests(pattern, gap, 10_000 if pattern == "chase" else 30_000)
    text = (f"{hashed(a, field, how):#x} {'WRITE' if w else 'READ'} {c}\n" for a, w, c in lines)
    file = scratch / "requests"
    file.write_text("".join(text))
    mode = {"sat": ["closed", "32"], "one": ["closed", "1"]}.get(rate, ["open", "0"])
    command = [drive, ini, file, *mode, scratch]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    reads, writes, cycles, *latencies = done.stdout.strip().splitlines()[-1].split(",")
    stats = json.loads((scratch / "dramsim3.json").read_text())["0"]
    columns, activates = stats["num_read_cmds"] + stats["num_write_cmds"], stats["num_act_cmds"]
    ns, count = int(cycles) * clock, int(reads) + int(writes)
    share = count * burst * clock / ns
    # DRAMsim3 hands a request over in two clocks, which are no part of memory.
    spans = [f"{float(latency) - 2 * clock:.1f}" for latency in latencies]
    cells = [reads, writes, f"{ns / 1000:.1f}", f"{count * 64 / ns:.3f}", f"{share:.3f}", *spans]
    cells += [f"{1 - activates / columns:.3f}", str(activates), str(stats["num_ref_cmds"])]
    return ",".join(cells), share


def table(folder: Path, drive: Path, scratch: Path) -> None:
    """Every device, map, hash, pattern and rate."""
    scratch.mkdir(parents=True, exist_ok=True)
    print(HEAD, flush=True)
    for device, (_, _, burst, maps) in DEVICES.items():
        for mapping, field in maps.items():
            ini, clock = config(folder, scratch, device, mapping)
            for how in ("none", "low", "fold") if device == "ddr3-1333" else ("none", "fold"):
                for pattern in PATTERNS:
                    most = 1.0
                    for rate in ("sat", "0.2", "0.6") if pattern != "chase" else ("one",):
                        cells, share = row(
                            drive, ini, scratch, clock, burst, field, how, pattern, rate
                        )
                        most = share if rate == "sat" else most
                        # Beyond nine tenths of what can be had, latency is the length of a queue
                        # that grows.
                        is_open = rate not in ("sat", "one")
                        knee = is_open and float(rate) >= 0.9 * round(most, 3)
                        name = ",".join([device, mapping, how, pattern, rate])
                        print(name, cells, "yes" if knee else "no", sep=",", flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["--requests", pattern, *gap]:
            for address, write, clock in requests(pattern, float(gap[0]) if gap else None, 30_000):
                print(f"{address:#x} {'WRITE' if write else 'READ'} {clock}")
        case [folder, drive, scratch]:
            table(Path(folder), Path(drive).resolve(), Path(scratch))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()

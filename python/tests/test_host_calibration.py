"""A machine file comes of what was measured; a host that cannot be measured is refused. Nothing
here asserts a time: the machines that run this are shared."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Halfwink, undisturbed

from halfwink import HalfwinkError, RunError, _core
from halfwink.calibrate import calibrate_host
from halfwink.calibrate import host as host_calibration
from halfwink.calibrate import host_machine as host
from halfwink.library import root
from halfwink.live import native

#: As a machine might be: 3 GHz, six wide, 512 entries.
NUMBERS = {
    "clock": 3.0,
    "tsc": 2.5,
    "width.mixed": 5.9,
    "width.alu": 4.02,
    "width.multiply": 1.0,
    "width.fp": 3.9,
    "width.load": 2.9,
    "width.load_store": 2.97,
    "latency.alu": 1.0,
    "latency.multiply": 3.01,
    "latency.divide": 14.2,
    "latency.vector": 1.0,
    "latency.fp_add": 3.0,
    "latency.fp_multiply": 4.0,
    "latency.fp_divide": 13.1,
    "latency.atomic": 18.4,
    "latency.load": 4.98,
    "latency.load_indexed": 5.97,
    "latency.move": 0.2,
    "width.fp_add": 2.0,
    "width.fp_multiply": 2.02,
    "busy.divide": 6.1,
    "busy.fp_divide": 4.9,
    "branch.mispredicted": 17.2,
    "branch.return_entries": 24.0,
    "strings.bytes": 117.0,
    "strings.start": 31.6,
    "strings.short_bytes": 128.0,
    "strings.short_start": 10.8,
    "window": 512.0,
    "integer_queue": 97.3,
    "fp_queue": 64.2,
    "load_queue": 192.4,
    "store_queue": 72.0,
    "in_flight.memory": 15.7,
    "latency.l1": 1.66,
    "latency.l2": 5.0,
    "latency.l3": 20.0,
    "latency.memory": 110.0,
    "size.l1": 49_000.0,
    "size.l2": 2.1e6,
    "size.l3": 5.1e6,
    "bandwidth.l3": 32.0,
    "tlb.l1": 98.0,
    "tlb.l1_miss": 2.4,
    "tlb.l2": 1100.0,
    "tlb.walks": 2.6,
}
CACHES = [
    host.Cache(1, "Data", 48 << 10, 12),
    host.Cache(1, "Instruction", 32 << 10, 8),
    host.Cache(2, "Unified", 2 << 20, 16),
    host.Cache(3, "Unified", 32 << 20, 16),
]


def measured(**changes: float) -> dict[str, Any]:
    values = {**NUMBERS, **{name.replace("__", "."): value for name, value in changes.items()}}
    of = [
        {"name": name, "value": value, "unit": "x", "spread_pct": 1.3, "runs": 50}
        for name, value in values.items()
    ]
    return {"numbers": of, "curves": [], "notes": []}


def test_every_value_says_what_it_rests_on() -> None:
    text = host.machine_text(measured(), CACHES, 2)
    _core.check_machine("host.toml", text)
    body = text[text.index("[chip]") :].splitlines()
    said = re.compile(r"# (measured: .*spread, 50 runs|reported|follows|assumption|likewise)")
    values = [n for n, line in enumerate(body) if re.match(r"\w+ = ", line)]
    assert len(values) > 100
    assert all(said.match(body[n - 1]) for n in values), body
    assert sum("assumption: as golden-cove" in line for line in body) > 30
    # What was not measured is an assumption, whatever the base says of it.
    assert "Strong 2013" not in text
    assert "#   reach of the first level of translation, pages of 4 KB: 98.00 x" in text


@pytest.mark.parametrize(
    ("vendor", "base"),
    [("AuthenticAMD", "zen4"), ("GenuineIntel", "golden-cove"), (None, "golden-cove")],
)
def test_what_is_not_measured_is_as_in_a_core_of_that_vendor(vendor: str | None, base: str) -> None:
    assert host.base_of(vendor) == base
    text = host.machine_text(measured(), CACHES, 2, base)
    _core.check_machine("host.toml", text)
    assert f'# assumption: as {base}\npredictor = "tage"' in text


def test_a_processor_says_what_it_is(tmp_path: Path) -> None:
    place = tmp_path / "cpuinfo"
    place.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\n\nvendor_id\t: other\n")
    assert host.processor("vendor_id", place) == "AuthenticAMD"
    assert host.processor("model name", place) is None
    assert host.processor("vendor_id", tmp_path / "none") is None


def test_numbers_come_into_their_places() -> None:
    spec = tomllib.loads(host.machine_text(measured(), CACHES, 2))
    core = spec["core"]
    assert (core["width"], core["refill_cycles"]) == (6, 15)
    most = _core.MAX_WINDOW
    assert (core["window"], core["load_queue"]) == (min(512, most), min(192, most))
    assert (core["units"]["memory"], core["latency_cycles"]["divide"]) == (3, 14)
    assert (spec["l1d"]["size"], spec["l1d"]["latency_cycles"]) == ("48KB", 5)
    assert (spec["l1d"]["mshrs"], spec["branch"]["return_entries"]) == (16, 24)
    # What machines of the base leave at what they are by default is put into its section.
    assert (core["fusion"], core["move_elimination"], core["index_cycles"]) == (True, True, 1)
    assert core["busy_cycles"] == {"divide": 6, "fp_divide": 5}
    assert core["strings"] == {
        "bytes": 64,
        "start_cycles": 32,
        "short_bytes": 128,
        "short_start_cycles": 11,
    }
    assert (core["units"]["fp_add"], core["units"]["fp_multiply"]) == (2, 2)
    # The first level is as the base has it, the second is not: 1024 in its 16 ways.
    tlb = spec["tlb"]
    assert (tlb["l1d"]["entries"], tlb["l2"]["entries"]) == (96, 1024)
    assert (tlb["l2"]["latency_cycles"], tlb["walkers"]) == (7, 2)
    # (5.00 - 1.66) ns are 10 cycles of 3 GHz, and must not be rounded up to 11.
    assert 9 < spec["l2"]["latency_ns"] * 3 <= 10
    assert spec["l3"]["latency_ns"] == 15.0
    way = spec["memory"]["request_ns"] + spec["memory"]["response_ns"]
    assert way == pytest.approx(110 - 20 - 30)


def test_a_share_of_the_last_level_is_what_was_measured() -> None:
    spec = tomllib.loads(host.machine_text(measured(), CACHES, 2))
    size = 1024 * int(spec["l3"]["size"].removesuffix("KB"))
    assert size == pytest.approx(5.1e6, rel=0.1)
    assert spec["l3"]["ways"] >= 8
    # Where the ladder agrees with what is reported, that counts.
    whole = tomllib.loads(host.machine_text(measured(size__l3=3e7), CACHES, 2))
    assert (whole["l3"]["size"], whole["l3"]["ways"]) == ("32768KB", 16)


def test_last_level_of_many_slices_has_sets_in_a_power_of_two() -> None:
    caches = [*CACHES[:3], host.Cache(3, "Unified", 266240 << 10, 20)]
    text = host.machine_text(measured(size__l3=2.6e8), caches, 2)
    _core.check_machine("host.toml", text)
    l3 = tomllib.loads(text)["l3"]
    assert (l3["size"], l3["ways"]) == ("262144KB", 16)
    assert "# reported are 266,240 KB in 20 ways of 212992 sets; the nearest power of two\n" in text


def test_what_was_not_found_is_an_assumption() -> None:
    numbers = measured()
    left = ("window", "branch.return_entries")
    numbers["numbers"] = [n for n in numbers["numbers"] if n["name"] not in left]
    text = host.machine_text(numbers, CACHES, 2)
    assert "# assumption: as golden-cove\nwindow = 512" in text
    assert re.search(r"# assumption: as golden-cove\nreturn_entries = \d+", text)
    _core.check_machine("host.toml", text)


def test_a_file_that_is_no_machine_is_refused() -> None:
    text = host.machine_text(measured(), CACHES, 2).replace("width = 6", "width = 99")
    with pytest.raises(HalfwinkError, match=r"host.toml:\d+.*99 micro-operations"):
        _core.check_machine("host.toml", text)


def test_caches_are_read_as_the_kernel_reports_them(tmp_path: Path) -> None:
    told = [("2", "Unified", "1024K", "8"), ("1", "Data", "32K", "8")]
    for n, (level, kind, size, ways) in enumerate(told):
        place = tmp_path / "cpu3" / "cache" / f"index{n}"
        place.mkdir(parents=True)
        names = ("level", "type", "size", "ways_of_associativity")
        for name, value in zip(names, (level, kind, size, ways), strict=True):
            (place / name).write_text(f"{value}\n")
    found = host.reported_caches(3, tmp_path)
    assert found == [host.Cache(1, "Data", 32 << 10, 8), host.Cache(2, "Unified", 1 << 20, 8)]
    assert host.reported_caches(4, tmp_path) == []


def _patiently(halfwink: Halfwink, *words: str) -> Done:
    """Who shares this CPU may take most of its time: then there is no clock to go by, which is
    said."""
    said = "no stable clock"
    return undisturbed(
        lambda: halfwink(*words), lambda done: said if said in done.err else None, times=9
    )


def test_a_machine_is_measured_end_to_end(halfwink: Halfwink, tmp_path: Path) -> None:
    words = ["calibrate", "host", "--quick", "--max-spread", "100", "--programs"]
    words += ["chacha,count,base64"]
    done = _patiently(halfwink, *words, "-o", "host.toml", "--json")
    assert done.status == 0, done.err
    facts = done.json()["facts"]
    text = (tmp_path / "host.toml").read_text()
    _core.check_machine("host.toml", text)
    assert facts["machine"] == text
    rows = {row["program"]: row for row in done.rows("programs")}
    assert {name: row["held_out"] for name, row in rows.items()} == {
        "chacha": False,
        "count": False,
        "base64": True,
    }
    assert all(row["native_ns"] > 0 and row["simulated_ns"] > 0 for row in rows.values())
    worst = max(abs(row["error_pct"]) for row in rows.values() if not row["held_out"])
    assert facts["worst_error_pct"] == pytest.approx(worst)
    held_out = abs(rows["base64"]["error_pct"])
    assert facts["mean_error_held_out_pct"] == pytest.approx(held_out)
    assert "of 2 programs: mean" in text
    assert "of 1 program held out: mean" in text
    # What is true of every machine: nothing is faster than what contains it.
    of = {n["name"]: n["value"] for n in done.rows("numbers")}
    assert of["latency.l1"] < of["latency.l2"] < of["latency.memory"]
    assert of["latency.multiply"] <= of["latency.divide"]


def test_a_machine_that_is_too_noisy_says_so_and_writes_nothing(
    halfwink: Halfwink, tmp_path: Path
) -> None:
    words = ("calibrate", "host", "--quick", "--max-spread", "0", "-q", "-o", "host.toml")
    done = _patiently(halfwink, *words)
    assert done.status == 1
    noisy = r"too noisy: .* repeats within [\d.]+ % \(\d+ runs\), expected at most 0 %"
    assert re.fullmatch(noisy, done.complaint)
    assert not (tmp_path / "host.toml").exists()


def test_wrong_use_is_refused() -> None:
    with pytest.raises(HalfwinkError, match="no program lbm: there are"):
        calibrate_host(programs=["lbm"])
    with pytest.raises(HalfwinkError, match="CPU 4000: this process may use"):
        calibrate_host(cpu=4000)
    with pytest.raises(HalfwinkError, match="a spread of -1 %"):
        calibrate_host(max_spread_pct=-1)


def test_a_start_finds_nothing_of_the_one_before_in_the_predictor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Forty starts of a search without it were as fast as if all of its branches were known, a
    # quarter of what the first one took.
    forgotten = list[set[int]]()
    forget = native.forget_branches

    def counted() -> None:
        forgotten.append(os.sched_getaffinity(0))
        forget()

    monkeypatch.setattr(native, "forget_branches", counted, raising=False)
    cpu = max(os.sched_getaffinity(0))
    assert (
        host_calibration.native_ns(root() / "workloads/host/programs", "search", cpu, 1.0, starts=3)
        > 0
    )
    # On the CPU that is timed, before each.
    assert forgotten == [{cpu}] * 3


def test_a_program_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "programs"
    script.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(RunError, match="chacha: exit status 3: broken"):
        host_calibration.native_ns(script, "chacha", 0, 1.0)

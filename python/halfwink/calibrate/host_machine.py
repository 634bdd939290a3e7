"""The file of the machine that this runs on: each value with what it rests on, measured, reported
by the kernel, or an assumption, as in a core of today by the same vendor."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink import _core
from halfwink.library import root

#: Where what is not measured comes from, predictors and prefetchers first of all: a core of today
#: by the same vendor, or else this one.
_BASES = {"AuthenticAMD": "zen4", "GenuineIntel": "golden-cove"}
_BASE = "golden-cove"


@dataclass(frozen=True)
class Cache:
    """A cache of this machine, as the kernel reports it (for a virtual machine: as it is told).

    Attributes:
        level: 1, 2, 3.
        kind: Data, Instruction or Unified.
        bytes: size of the cache.
        ways: lines of a set.
    """

    level: int
    kind: str
    bytes: int
    ways: int


def reported_caches(cpu: int, folder: Path = Path("/sys/devices/system/cpu")) -> list[Cache]:
    """The caches of a CPU, as the kernel reports them; the smallest first."""
    found = list[Cache]()
    for place in sorted((folder / f"cpu{cpu}" / "cache").glob("index*")):
        try:
            kb = int((place / "size").read_text().strip().removesuffix("K"))
            level = int((place / "level").read_text())
            ways = int((place / "ways_of_associativity").read_text())
            kind = (place / "type").read_text().strip()
        except (OSError, ValueError):
            continue
        found.append(Cache(level, kind, 1024 * kb, ways))
    return sorted(found, key=lambda cache: (cache.level, cache.kind))


class _Numbers:
    """Measured numbers by name, and their form in the text."""

    def __init__(self, host: dict[str, Any]) -> None:
        self.all: dict[str, dict[str, Any]] = {n["name"]: n for n in host["numbers"]}

    def __contains__(self, name: str) -> bool:
        return name in self.all

    def __getitem__(self, name: str) -> float:
        return float(self.all[name]["value"])

    def evidence(self, name: str) -> str:
        found = self.all[name]
        value = f"{found['value']:,.2f}" if found["value"] < 1000 else f"{found['value']:,.0f}"
        return (
            f"measured: {value} {found['unit']}, {found['spread_pct']:.1f} % spread, "
            f"{found['runs']} runs"
        )


#: A value of the file, and what it rests on.
_Value = tuple[object, str]


def base_of(vendor: str | None) -> str:
    """The machine that what is not measured is taken from, by what a processor says of itself."""
    return _BASES.get(vendor or "", _BASE)


def machine_text(
    host: dict[str, Any], caches: Sequence[Cache], cpus: int, base: str = _BASE
) -> str:
    """Returns the text of the machine file.

    Args:
        host: measured values (`halfwink._live.calibrate_host`).
        caches: caches as they are reported.
        cpus: number of CPUs of the machine.
        base: the machine that all else is taken from.
    """
    numbers = _Numbers(host)
    values = {
        **_core_values(numbers),
        **_cache_values(numbers, caches),
        **_memory_values(numbers),
        **_translation_values(numbers, base),
        "chip.cores": (min(cpus, 64), "reported: CPUs that may be used"),
        "chip.clock_ghz": (
            round(numbers["clock"], 3),
            numbers.evidence("clock") + ": dependent adds against the monotonic clock",
        ),
    }
    return _written(values, _beside(numbers), base)


def _core_values(numbers: _Numbers) -> dict[str, _Value]:
    most = _core.MAX_WINDOW
    values: dict[str, _Value] = {
        "core.width": (_whole(numbers["width.mixed"]), numbers.evidence("width.mixed")),
        # As the chip counts: the branch's own cycle and that of the first operation behind it are
        # part of what a misprediction costs.
        "core.refill_cycles": (
            max(1, round(numbers["branch.mispredicted"]) - 2),
            numbers.evidence("branch.mispredicted") + ": the branch and what follows take 2",
        ),
        "core.atomic_cycles": (
            _whole(numbers["latency.atomic"]),
            numbers.evidence("latency.atomic"),
        ),
    }
    for key in ("window", "integer_queue", "fp_queue", "load_queue", "store_queue"):
        if key not in numbers:
            continue
        found = round(numbers[key])
        evidence = numbers.evidence(key)
        if found > most:
            evidence += f"; the chip has at most {most}"
        values[f"core.{key}"] = (max(1, min(found, most)), evidence)
    memory = max(("width.load", "width.load_store"), key=lambda name: numbers[name])
    units = {"alu": "width.alu", "multiply": "width.multiply", "fp": "width.fp", "memory": memory}
    for key, name in units.items():
        values[f"core.units.{key}"] = (_whole(numbers[name]), numbers.evidence(name))
    for key in ("alu", "multiply", "divide", "vector", "fp_add", "fp_multiply", "fp_divide"):
        name = f"latency.{key}"
        values[f"core.latency_cycles.{key}"] = (_whole(numbers[name]), numbers.evidence(name))
    # The measured width is one of whole instructions.
    values["core.fusion"] = ("true", "assumption: as all x86-64 cores since 2011")
    if "latency.load_indexed" in numbers:
        more = round(numbers["latency.load_indexed"] - numbers["latency.load"])
        evidence = numbers.evidence("latency.load_indexed") + ", less that of one without an index"
        values["core.index_cycles"] = (max(0, more), evidence)
    if "latency.move" in numbers:
        is_renamed = "true" if numbers["latency.move"] < 0.5 else "false"
        values["core.move_elimination"] = (is_renamed, numbers.evidence("latency.move"))
    for key in ("fp_add", "fp_multiply"):
        if (name := f"width.{key}") in numbers:
            most = _whole(numbers["width.fp"])
            of = min(_whole(numbers[name]), most)
            values[f"core.units.{key}"] = (of, numbers.evidence(name))
    for key in ("divide", "fp_divide"):
        if (name := f"busy.{key}") in numbers:
            most = _whole(numbers[f"latency.{key}"])
            values[f"core.busy_cycles.{key}"] = (
                min(_whole(numbers[name]), most),
                numbers.evidence(name),
            )
    values.update(_string_values(numbers))
    if "branch.return_entries" in numbers:
        name = "branch.return_entries"
        values[name] = (round(numbers[name]), numbers.evidence(name))
    return values


def _string_values(numbers: _Numbers) -> dict[str, _Value]:
    """Costs of repeated string instructions; none where each iteration is one by one."""
    if "strings.bytes" not in numbers:
        return {}
    name = "strings.bytes"
    # A power of two that is not more than what was measured.
    power = 1 << int(math.log2(numbers[name]) + 0.1)
    start = min(_whole(numbers["strings.start"]), 200)
    return {
        "core.strings.bytes": (max(8, min(64, power)), numbers.evidence(name)),
        "core.strings.start_cycles": (start, numbers.evidence("strings.start")),
        "core.strings.short_bytes": (
            round(numbers["strings.short_bytes"]),
            numbers.evidence("strings.short_bytes"),
        ),
        "core.strings.short_start_cycles": (
            min(_whole(numbers["strings.short_start"]), start),
            numbers.evidence("strings.short_start"),
        ),
    }


def _translation_values(numbers: _Numbers, base: str) -> dict[str, _Value]:
    """Entries as far as translation was seen to reach, in the sets and ways that the base has."""
    spec = tomllib.loads((root() / "machines" / f"{base}.toml").read_text())["tlb"]
    values: dict[str, _Value] = {}
    for section, name in (("l1d", "tlb.l1"), ("l2", "tlb.l2")):
        if name not in numbers:
            continue
        known, ways = spec[section]["entries"], spec[section]["ways"]
        told = numbers.evidence(name)
        if 2 / 3 < numbers[name] / known < 3 / 2:
            entries, told = known, f"{told}: the {known} of {base}"
        else:
            entries = ways << max(0, round(math.log2(numbers[name] / ways)))
            told += f", in {ways} ways as {base}"
        values[f"tlb.{section}.entries"] = (entries, told)
    if "tlb.walks" in numbers:
        # The walk caches have all but the last entry, and the second level that one.
        one = numbers["latency.l2"]
        evidence = f"{numbers.evidence('tlb.walks')} for each of many: so many of {one:.1f} ns"
        values["tlb.walkers"] = (max(1, round(one / numbers["tlb.walks"])), evidence)
    if "tlb.l1_miss" in numbers:
        cycles = _whole(numbers["tlb.l1_miss"] * numbers["clock"])
        values["tlb.l2.latency_cycles"] = (min(cycles, 100), numbers.evidence("tlb.l1_miss"))
    return values


def _whole(number: float) -> int:
    return max(1, round(number))


def _cache_values(numbers: _Numbers, caches: Sequence[Cache]) -> dict[str, _Value]:
    cycle_ns = 1 / numbers["clock"]
    values: dict[str, _Value] = {
        "l1d.latency_cycles": (_whole(numbers["latency.load"]), numbers.evidence("latency.load")),
    }
    sections = {(1, "Data"): "l1d", (1, "Instruction"): "l1i", (2, "Unified"): "l2"}
    for cache in caches:
        if (section := sections.get((cache.level, cache.kind))) is None:
            continue
        told = "reported by the kernel"
        name = {"l1d": "size.l1", "l2": "size.l2"}.get(section)
        if name is not None and name in numbers:
            told += f"; the ladder steps at {_kb(numbers[name])}"
        values[f"{section}.size"] = (f'"{cache.bytes >> 10}KB"', told)
        values[f"{section}.ways"] = (cache.ways, "reported by the kernel")
    if "in_flight.memory" in numbers:
        mshrs = max(2, min(64, round(numbers["in_flight.memory"])))
        evidence = numbers.evidence("in_flight.memory") + ": latency by the least time of each"
        values["l1d.mshrs"] = (mshrs, evidence)
    if "latency.l2" in numbers:
        # In whole cycles: nanoseconds are rounded up to them.
        cycles = max(1, round((numbers["latency.l2"] - numbers["latency.l1"]) / cycle_ns))
        evidence = numbers.evidence("latency.l2") + ", less the first level's"
        values["l2.latency_ns"] = (_down(cycles * cycle_ns), evidence)
    if "latency.l3" in numbers:
        evidence = numbers.evidence("latency.l3") + ", less the second level's"
        added = max(0.1, numbers["latency.l3"] - numbers["latency.l2"])
        values["l3.latency_ns"] = (round(added, 2), evidence)
        values.update(_last_level(numbers, caches))
    return values


#: Banks of the last level.
_BANKS = 8


def _last_level(numbers: _Numbers, caches: Sequence[Cache]) -> dict[str, _Value]:
    reported = next((c for c in caches if c.level == 3), None)
    if reported is None:
        return {}
    size, ways, told = reported.bytes, reported.ways, "reported by the kernel"
    ways_told = told
    if "size.l3" in numbers and not 2 / 3 < numbers["size.l3"] / size < 3 / 2:
        step = numbers["size.l3"]
        told = (
            f"{numbers.evidence('size.l3')}; reported are {_kb(size)}, of which a virtual "
            "machine or a neighbour leaves so much"
        )
        # Eight ways or more, and sets in a power of two.
        sets = 1 << max(0, math.floor(math.log2(step / 64 / 8)))
        ways = max(1, round(step / 64 / sets))
        size, ways_told = 64 * sets * ways, "assumption: as many as make the size"
    elif (lines := size // 64 // ways) & (lines - 1):
        # Slices of many cores make a number of sets that the model's index does not have.
        sets = 1 << round(math.log2(lines))
        told = f"reported are {_kb(size)} in {ways} ways of {lines} sets; the nearest power of two"
        ways = max(1, round(size / 64 / sets))
        size, ways_told = 64 * sets * ways, "likewise"
    values: dict[str, _Value] = {
        "l3.size": (f'"{size >> 10}KB"', told),
        "l3.ways": (ways, ways_told),
        "l3.banks": (_BANKS, "assumption"),
    }
    return values


#: A row opened, a column read, a line sent: (22 + 22 + 4) x 0.625 ns of DDR4-3200.
_DEVICE_NS = 30.0


def _memory_values(numbers: _Numbers) -> dict[str, _Value]:
    cycle_ns = 1 / numbers["clock"]
    last = "latency.l3" if "latency.l3" in numbers else "latency.l2"
    way_ns = max(2.0, numbers["latency.memory"] - numbers[last] - _DEVICE_NS)
    evidence = (
        f"{numbers.evidence('latency.memory')}; less the last cache and {_DEVICE_NS:g} ns of the "
        "device, half of it each way"
    )
    l2_ns = numbers["latency.l2"] - numbers["latency.l1"]
    l3_ns = numbers[last] - numbers["latency.l1"]
    follows = "follows from the latencies"
    return {
        "memory.device": ('"ddr4-3200"', "assumption: the fastest with currents"),
        "memory.channels": (4, "assumption: one core cannot tell"),
        "memory.request_ns": (round(way_ns / 2, 2), evidence),
        "memory.response_ns": (round(way_ns / 2, 2), "likewise"),
        "tokens.l1_ns": (round(cycle_ns, 3), follows),
        "tokens.l2_ns": (round(max(l2_ns, cycle_ns), 3), follows),
        "tokens.l3_ns": (round(max(l3_ns, cycle_ns), 3), follows),
        "tokens.eta_ns": (round(min(4.5, way_ns / 2), 2), "assumption: as ev6, within response_ns"),
        "mapg.t_llc_ns": (round(l3_ns + way_ns / 2, 2), follows),
        "mapg.t_mem_ns": (round(_DEVICE_NS + way_ns / 2, 2), follows),
    }


def _down(ns: float) -> float:
    return math.floor(1000 * ns) / 1000


def _kb(size: float) -> str:
    return f"{size / 1024:,.0f} KB"


#: What is measured and has no place in the file, and what it is.
_BESIDE = {
    "width.vector": "vector integer operations",
    "width.store": "stores",
    "forward.same_register": "a store and a load of the same place, by the same register",
    "forward.other_register": "likewise, by another register",
    "window.registers": "operations between two misses that write a register each",
    "latency.memory_far": "a load from much larger memory, in huge pages",
    "bandwidth.l2": "read in order from the second level",
    "bandwidth.l3": "read in order from the third level, by one core: its banks may do more",
    "bandwidth.memory": "read in order from memory, prefetched",
    "tlb.l1": "reach of the first level of translation, pages of 4 KB",
    "tlb.l1_miss": "what missing it adds",
    "tlb.l2": "reach of the second level",
    "tlb.l2_miss": "what a page walk adds, of twice as many pages",
}


def _beside(numbers: _Numbers) -> list[str]:
    known = [(what, numbers.evidence(name)) for name, what in _BESIDE.items() if name in numbers]
    return [f"#   {what}: {evidence.removeprefix('measured: ')}" for what, evidence in known]


def _written(values: dict[str, _Value], beside: list[str], base: str) -> str:
    """The base's file with these values; whatever is not among them is an assumption."""
    text = (root() / "machines" / f"{base}.toml").read_text()
    section, lines = "", list[str]()
    left = dict(values)
    for line in text[text.index("[chip]") :].splitlines():
        if found := re.match(r"\[([\w.-]+)\]", line):
            section = found[1]
            lines.append(found[0])
        elif found := re.match(r"(\w+) = ([^#]*[^#\s])", line):
            path = f"{section}.{found[1]}"
            value, evidence = left.pop(path, (found[2], f"assumption: as {base}"))
            lines += [f"# {evidence}", f"{found[1]} = {value}"]
        # What the base says of itself is of its own values.
        elif not line.startswith("#"):
            lines.append(line)
    _insert(lines, left)
    head = [
        "# Written by `halfwink calibrate host`: this machine, measured in user mode by kernels of",
        "# machine code, each number the minimum or a low quantile of many pinned runs.",
        "# What is not marked `measured`, `reported` or `follows` is an assumption; most are as",
        f"# {base} has them: predictors, prefetchers, power, gating and wake-up among them.",
        "#",
        "# Measured as well, and no value of this file:",
        *beside,
        "schema = 1",
        f'description = "{_model_name()}, measured"',
        "",
    ]
    return "\n".join([*head, *lines]) + "\n"


def _insert(lines: list[str], left: dict[str, _Value]) -> None:
    """Puts values that the base leaves at what they are by default first into their sections."""
    for path, (value, evidence) in left.items():
        section, _, key = path.rpartition(".")
        if f"[{section}]" not in lines:
            lines += ["", f"[{section}]"]
        at = lines.index(f"[{section}]") + 1
        lines[at:at] = [f"# {evidence}", f"{key} = {value}"]


def processor(key: str, place: Path = Path("/proc/cpuinfo")) -> str | None:
    """Returns a property of the processor from its description."""
    try:
        found = re.search(rf"^{key}\s*:\s*(.+)$", place.read_text(), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None


def _model_name() -> str:
    return re.sub(r'["\\]', "", processor("model name") or "a processor without a name")

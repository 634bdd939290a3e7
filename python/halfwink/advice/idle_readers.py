"""Readers of counters of idle time: sysfs, turbostat, powertop's CSV and node_exporter's text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from halfwink.advice.idle_counters import Counted, IdleCounters
from halfwink.errors import HalfwinkError

#: A line of `grep . /sys/devices/system/cpu/cpu*/cpuidle/state*/*`.
SYSFS = re.compile(r"cpu(\d+)/cpuidle/state(\d+)/(name|usage|time|above|below|rejected):(.*)$")
#: The line that `head` and `tail` write before the text of each file.
TITLED = re.compile(r"==> (.*) <==$")
#: Counters of sysfs that only grow.
GROWS = ("usage", "time", "above", "below", "rejected")
#: A sample of node_exporter's collector `cpu`; before version 0.16 it was called `node_cpu`.
SAMPLE = re.compile(r"node_cpu(?:_seconds_total)?\{(.*)\}\s+(\S+)(?:\s+-?\d+)?$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
#: Modes of /proc/stat in which a CPU has nothing to run, so that cpuidle puts it into a state.
IDLE_MODES = ("idle", "iowait")
#: Title of powertop's section on idle states, as it is without a translation.
SECTION = "Processor Idle State Report"
#: A line that begins or ends a section: a rule, `*  *  *   Title`, or, since 2026, `# Title`.
TITLE = re.compile(r"_{8,}$|\*  \*  \*|# ")


def counters(text: str, file: str) -> IdleCounters | None:
    """Reads counters of sysfs, turbostat, powertop or node_exporter; none if the text has none.

    Raises:
        HalfwinkError: the text is of one of these tools, and no CPU has whole counters.
    """
    lines = text.splitlines()
    for read in (_sysfs, _node_exporter, _powertop, _turbostat):
        if (found := read(lines, file)) is not None:
            return found
    return None


def _sysfs(lines: Iterable[str], file: str) -> IdleCounters | None:
    """Reads files of cpuidle; of two snapshots, one behind the other, it takes the difference."""
    values: dict[tuple[int, int], dict[str, list[str]]] = {}
    for line in _untitled(lines):
        if found := SYSFS.search(line):
            cpu, state, what, value = found.groups()
            known = values.setdefault((int(cpu), int(state)), {})
            known.setdefault(what, []).append(value.strip())
    stepped = {
        cpu
        for (cpu, _), known in values.items()
        if any(_falls([float(v) for v in known.get(what, ()) if v.isdecimal()]) for what in GROWS)
    }
    whole = {place: known for place, known in values.items() if place[0] not in stepped}
    if values and not whole:
        raise _nothing(file, "cpuidle counters of sysfs", "the counters of every CPU step back")
    # The kernel shows stays and times in files of their own, and a pattern may name only some.
    for what in ("usage", "time"):
        if values and not any(what in known for known in whole.values()):
            why = f"it has no file `{what}`: `grep . /sys/devices/system/cpu/cpu*/cpuidle/state*/*`"
            raise _nothing(file, "cpuidle counters of sysfs", f"{why} writes all of them")
    states: dict[int, Counted] = {}
    for (_, number), known in sorted(whole.items()):
        name = known.get("name", [f"state{number}"])[0]
        state = states.setdefault(number, Counted(name))
        state.stays = (state.stays or 0) + (_gone(known, "usage") or 0)
        microseconds = _gone(known, "time") or 0
        state.time += microseconds
        state.seconds = (state.seconds or 0.0) + 1e-6 * microseconds
        for name, what in (("deep", "above"), ("shallow", "below"), ("rejected", "rejected")):
            if (count := _gone(known, what)) is not None:
                setattr(state, name, (getattr(state, name) or 0) + count)
    if not states:
        return None
    for state in states.values():
        if state.stays:
            state.stay_us = state.time / state.stays
    cpus = len({cpu for cpu, _ in whole})
    found = [states[number] for number in sorted(states)]
    notes = _left_out(map(str, sorted(stepped)), "their counters step back")
    return IdleCounters(file, "cpuidle counters of sysfs", cpus, found, notes=notes)


def _untitled(lines: Iterable[str]) -> Iterable[str]:
    """Puts each file's name before its text, as `grep` does, where `head` or `tail` wrote it."""
    name = ""
    for line in lines:
        if found := TITLED.match(line.strip()):
            name = found[1]
        else:
            yield f"{name}:{line}" if name else line


def _gone(known: dict[str, list[str]], what: str) -> int | None:
    """Count since the beginning, or between the first and the last snapshot."""
    counts = [int(text) for text in known.get(what, ()) if text.isdecimal()]
    if not counts:
        return None
    return counts[-1] - counts[0] if len(counts) > 1 else counts[0]


def _falls(values: Sequence[float]) -> bool:
    return any(after < before for before, after in pairwise(values))


def _left_out(cpus: Iterable[str], why: str) -> tuple[str, ...]:
    names = list(cpus)
    few = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return (f"CPUs left out, since {why}: {few}.",) if names else ()


def _nothing(file: str, tool: str, why: str) -> HalfwinkError:
    return HalfwinkError(f"{file}: read as {tool}, and {why}")


def _turbostat(lines: Iterable[str], file: str) -> IdleCounters | None:
    """Reads a table of turbostat, separated by tabs, blanks or commas; each interval is added."""
    heads: list[str] = []
    names: list[str] = []
    states: dict[str, Counted] = {}
    cpus: set[str] = set()
    least, lacks = 0, ""
    for line in lines:
        cells = re.split(r"[\s,]+", line.strip())
        # Both columns stand in each table of turbostat, unless `--show` leaves them out.
        is_head = "Busy%" in cells or "CPU" in cells
        if is_head and any(f"{cell}%" in cells for cell in cells):
            heads = cells
            names = [cell for cell in cells if f"{cell}%" in cells]
            least = 1 + max(heads.index(f"{name}%") for name in names)
            lacks = "" if "CPU" in cells else "it has no CPUs: run it without --Summary"
            continue
        if "Busy%" in cells and "Bzy_MHz" in cells:
            lacks = "it has no idle states (C1, C1%): run it without --show and --hide"
        row = dict(zip(heads, cells, strict=False))
        # The line of all CPUs has `-` there. Only the first CPU of a core has the columns of the
        # core, and of a package those of the package, which are the last ones: rows of other CPUs
        # are shorter.
        is_row = "CPU" in row and least <= len(cells) <= len(heads)
        if not is_row or not row["CPU"].isdecimal():
            continue
        cpus.add(row["CPU"])
        for name in names:
            state = states.setdefault(name, Counted(name))
            state.stays = (state.stays or 0) + (_count(row, name) or 0)
            state.time += _number(row[f"{name}%"])
            # As turbostat names them: C1- is sysfs' `above`, C1+ its `below`.
            for which, column in (("deep", f"{name}-"), ("shallow", f"{name}+")):
                if (count := _count(row, column)) is not None:
                    setattr(state, which, (getattr(state, which) or 0) + count)
    if not states and lacks:
        raise _nothing(file, "turbostat", lacks)
    if not states:
        return None
    found = list(states.values())
    if any(state.deep is not None for state in found):
        # Nothing is deeper than the last state, or shallower than the first.
        for state in found:
            state.deep = state.deep or 0
            state.shallow = state.shallow or 0
    return IdleCounters(file, "turbostat", len(cpus), found)


def _count(known: dict[str, str], what: str) -> int | None:
    text = known.get(what, "")
    return int(text) if text.isdecimal() else None


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def _node_exporter(lines: Iterable[str], file: str) -> IdleCounters | None:
    """Reads the collector `cpu`; of two scrapes, one behind the other, it takes the difference."""
    series: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        found = SAMPLE.match(line.strip())
        labels = dict(LABEL.findall(found[1])) if found else {}
        if found is None or "cpu" not in labels or "mode" not in labels:
            continue
        cpu = labels["cpu"].removeprefix("cpu")
        cpu = f"{labels['instance']} {cpu}" if "instance" in labels else cpu
        value = _number(found[2])
        series.setdefault(cpu, {}).setdefault(labels["mode"], []).append(value)
    if not series:
        return None
    # The last scrape may be cut: what all modes of a CPU have is whole.
    scrapes = {cpu: min(map(len, modes.values())) for cpu, modes in series.items()}
    most = max(scrapes.values())
    between = most > 1
    cut = {c for c, n in scrapes.items() if n < 2 <= most or "idle" not in series[c]}
    whole = {
        cpu: {mode: values[: scrapes[cpu]] for mode, values in modes.items()}
        for cpu, modes in series.items()
        if cpu not in cut
    }
    stepped = {c for c, modes in whole.items() if any(_falls([0, *v]) for v in modes.values())}
    seconds = 0.0
    idle_pct: dict[str, float] = {}
    for cpu, modes in whole.items():
        gone = {m: v[-1] - v[0] if between else v[0] for m, v in modes.items()}
        total = sum(gone.values())
        if cpu in stepped or total <= 0:
            continue
        idle = sum(gone.get(mode, 0.0) for mode in IDLE_MODES)
        seconds += idle
        idle_pct[cpu] = 100 * idle / total
    if not idle_pct:
        why = "no CPU has whole counters that grow (mode idle, two scrapes of one start)"
        raise _nothing(file, "node_exporter", why)
    notes = _left_out(sorted(cut), "their counters are not whole")
    notes += _left_out(sorted(stepped), "their counters step back, as after a restart")
    if not between:
        notes += (
            "One scrape counts from the start of the machine: put a second one behind it, and "
            "the time between both is told.",
        )
    return IdleCounters(
        file,
        "node_exporter, " + ("between scrapes" if between else "one scrape"),
        len(idle_pct),
        [Counted("idle, iowait", stays=None, time=seconds, seconds=seconds)],
        idle_pct,
        notes=notes,
        untold="node_exporter has idle time alone: it does not tell which idle states were "
        "chosen, how often, or how long each idle time was",
    )


def _powertop(lines: Iterable[str], file: str) -> IdleCounters | None:
    """Reads the idle states of `powertop --csv`: blocks of packages, cores and CPUs."""
    block, package, cpus, inside, bad = "", "", [], False, 0
    shares: dict[str, list[tuple[float, float | None]]] = {}
    idle_pct: dict[str, float] = {}
    slept: dict[str, float] = {}
    is_powertop = False
    for line in lines:
        if TITLE.match(line.strip()):
            inside = SECTION in line
            is_powertop = is_powertop or inside
            continue
        # Until 2.15 cells end at semicolons; since then at commas.
        cells = [c.strip() for c in line.split(";" if ";" in line else ",")]
        words = [cell for cell in cells if cell]
        if not inside or len(words) < 1:
            continue
        if words[0] in ("Package", "CPU") or words[0].startswith(("Core ", "GPU ")):
            block, cpus = words[0].split()[0], words[1::2]
            package = words[1] if block == "Package" and len(words) > 1 else ""
            continue
        percents = [_number(word[:-1].replace(",", ".")) for word in words if word.endswith("%")]
        percents = [min(max(percent, 0.0), 100.0) for percent in percents]
        if block == "Package" and re.search(r"\(pc\d+\)$", words[0]) and percents:
            slept[package] = slept.get(package, 0.0) + percents[0]
        if block != "CPU" or words[0].startswith("C0"):
            continue
        if len(percents) != len(cpus) or not cpus:
            bad += 1
            continue
        stays = [_number(w[:-2].replace(",", ".")) for w in words if w.endswith("ms")]
        stays_ms = stays if len(stays) == len(cpus) else [None] * len(cpus)
        shares.setdefault(words[0], []).extend(zip(percents, stays_ms, strict=True))
        for cpu, percent in zip(cpus, percents, strict=True):
            idle_pct[cpu] = min(100.0, idle_pct.get(cpu, 0.0) + percent)
    if not is_powertop:
        return None
    if not idle_pct:
        raise _nothing(file, "powertop", "its report of idle states has no CPU")
    states = [
        Counted(name, stays=None, time=sum(p for p, _ in of), stay_us=_mean_stay_us(of))
        for name, of in shares.items()
    ]
    notes = (f"{bad} lines of CPUs that cannot be read were left out.",) if bad else ()
    return IdleCounters(
        file,
        "powertop",
        len(idle_pct),
        states,
        idle_pct,
        sum(slept.values()) / len(slept) if slept else None,
        notes,
        untold="powertop does not tell how often a state was chosen, how often wrongly, or how "
        "long each idle time was",
    )


def _mean_stay_us(of: Sequence[tuple[float, float | None]]) -> float | None:
    """Mean stay over CPUs; none if one is too short for powertop, which has tenths of ms."""
    used = [(percent, stay) for percent, stay in of if percent > 0]
    if not used or any(not stay for _, stay in used):
        return None
    stays = sum(percent / stay for percent, stay in used if stay)
    return 1e3 * sum(percent for percent, _ in used) / stays

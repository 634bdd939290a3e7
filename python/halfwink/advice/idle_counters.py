"""Counters of cpuidle: how often each idle state was chosen, for how long, and how often wrongly.

They have no idle times, so that no other policy can be played in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from halfwink.results import wording
from halfwink.results.summary import fixed

#: A line of `grep . /sys/devices/system/cpu/cpu*/cpuidle/state*/*`.
SYSFS = re.compile(r"cpu(\d+)/cpuidle/state(\d+)/(name|usage|time|above|below|rejected):(.*)$")
#: Wrong choices of a state above which gaps are worth recording, in per cent.
MANY_PCT = 10.0
#: Fewer stays than this say nothing.
FEW = 100


@dataclass
class Counted:
    """Counters of a state, over all CPUs.

    Attributes:
        name: the kernel's name of it.
        stays: number of times that it was entered.
        deep: stays shorter than its residency (``above``), if that was counted.
        shallow: stays for which a deeper state was worth it (``below``), if that was counted.
        rejected: entries that the hardware refused, if that was counted.
        time: time in it, in any unit that all states share.
        seconds: time in it in seconds, if the unit is known.
    """

    name: str
    stays: int = 0
    deep: int | None = None
    shallow: int | None = None
    rejected: int | None = None
    time: float = 0.0
    seconds: float | None = None

    def wrong_pct(self, which: str) -> float | None:
        """Returns the share of stays that were too ``deep`` or too ``shallow``, in per cent."""
        count = getattr(self, which)
        return None if count is None or not self.stays else 100 * count / self.stays


@dataclass(frozen=True)
class IdleCounters:
    """Counters of cpuidle by state.

    Attributes:
        file: name of the file.
        format: format that the file was read as.
        cpus: CPUs that were counted.
        states: states, the shallowest first.
    """

    file: str
    format: str
    cpus: int
    states: list[Counted] = field(default_factory=list[Counted])

    def share_pct(self, state: Counted) -> float:
        """Returns the share of the idle time in a state, in per cent."""
        return 100 * state.time / (sum(one.time for one in self.states) or 1.0)

    def sentences(self) -> list[str]:
        """Returns what the counters say, and what they do not."""
        stays = sum(state.stays for state in self.states)
        lines = [self._wrong(stays)]
        most = max(self.states, key=self.share_pct)
        line = f"{most.name} has {fixed(self.share_pct(most), 1)} % of the idle time"
        if most.seconds is not None and most.stays:
            line += f", {wording.duration(1e6 * most.seconds / most.stays)} at a stay in the mean"
        lines.append(f"{line}.")
        refused = [s for s in self.states if s.rejected]
        lines += [f"The hardware refused {s.name} {s.rejected:,} times." for s in refused]
        lines.append(
            "Counters do not tell how long each idle time was, so no other policy and no latency "
            "limit can be priced: record the idle times, as docs/idle.md says."
        )
        return lines

    def _wrong(self, stays: int) -> str:
        if stays < FEW:
            return f"{stays} stays in idle states are too few to say anything."
        known = [s for s in self.states if s.deep is not None and s.shallow is not None]
        if not known:
            return "Whether states were chosen rightly was not counted (above, below)."
        whole = sum(s.stays for s in known) or 1
        shares = {w: 100 * sum(getattr(s, w) for s in known) / whole for w in ("deep", "shallow")}
        deep, shallow = (fixed(share, 1) for share in shares.values())
        line = f"The kernel chose too deep a state in {deep} % of {whole:,} stays, "
        line += f"too shallow a one in {shallow} %"
        if max(shares.values()) < MANY_PCT:
            return f"{line}: another governor has little to win."
        worst = "deep" if shares["deep"] >= shares["shallow"] else "shallow"
        state = max(known, key=lambda s: getattr(s, worst))
        share = fixed(state.wrong_pct(worst), 0)
        return f"{line}; most of that is {state.name}, wrong in {share} % of its stays."


def counters(text: str, file: str) -> IdleCounters | None:
    """Reads counters of sysfs or of turbostat; none if the text has neither."""
    lines = text.splitlines()
    return _sysfs(lines, file) or _turbostat(lines, file)


def _sysfs(lines: Iterable[str], file: str) -> IdleCounters | None:
    values: dict[tuple[int, int], dict[str, str]] = {}
    for line in lines:
        if found := SYSFS.search(line):
            cpu, state, what, value = found.groups()
            values.setdefault((int(cpu), int(state)), {})[what] = value.strip()
    states: dict[int, Counted] = {}
    for (_, number), known in sorted(values.items()):
        state = states.setdefault(number, Counted(known.get("name", f"state{number}")))
        state.stays += _count(known, "usage") or 0
        microseconds = _count(known, "time") or 0
        state.time += microseconds
        state.seconds = (state.seconds or 0.0) + 1e-6 * microseconds
        for name, what in (("deep", "above"), ("shallow", "below"), ("rejected", "rejected")):
            if (count := _count(known, what)) is not None:
                setattr(state, name, (getattr(state, name) or 0) + count)
    if not states:
        return None
    cpus = len({cpu for cpu, _ in values})
    found = [states[number] for number in sorted(states)]
    return IdleCounters(file, "cpuidle counters of sysfs", cpus, found)


def _count(known: dict[str, str], what: str) -> int | None:
    text = known.get(what, "")
    return int(text) if text.isdecimal() else None


def _turbostat(lines: Iterable[str], file: str) -> IdleCounters | None:
    """Reads a table of turbostat, separated by tabs, blanks or commas; each interval is added."""
    heads: list[str] = []
    names: list[str] = []
    states: dict[str, Counted] = {}
    cpus: set[str] = set()
    for line in lines:
        cells = re.split(r"[\s,]+", line.strip())
        if "CPU" in cells and any(f"{cell}%" in cells for cell in cells):
            heads = cells
            names = [cell for cell in cells if f"{cell}%" in cells]
            continue
        row = dict(zip(heads, cells, strict=False))
        # The line of all CPUs has `-` there, and other lines have other numbers of cells.
        if len(cells) != len(heads) or not row["CPU"].isdecimal():
            continue
        cpus.add(row["CPU"])
        for name in names:
            state = states.setdefault(name, Counted(name))
            state.stays += _count(row, name) or 0
            state.time += _number(row[f"{name}%"])
            # As turbostat names them: C1- is sysfs' `above`, C1+ its `below`.
            for which, column in (("deep", f"{name}-"), ("shallow", f"{name}+")):
                if (count := _count(row, column)) is not None:
                    setattr(state, which, (getattr(state, which) or 0) + count)
    if not states:
        return None
    found = list(states.values())
    if any(state.deep is not None for state in found):
        # Nothing is deeper than the last state, or shallower than the first.
        for state in found:
            state.deep = state.deep or 0
            state.shallow = state.shallow or 0
    return IdleCounters(file, "turbostat", len(cpus), found)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0

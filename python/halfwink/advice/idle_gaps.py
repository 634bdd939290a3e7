"""Recorded idle times of a machine, and what each idle policy would have made of them.

from halfwink.advice.idle_gaps import idle

idle("gaps.txt", techniques=["teo", "c6a"]).table()  # joules, latency, right or wrong choices
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Settings, pairs, technique_list
from halfwink.library import library
from halfwink.native import stoppable
from halfwink.results import wording
from halfwink.results.assumed_watts import Watts, saving_over
from halfwink.results.judgement import needs
from halfwink.results.paired import Saving
from halfwink.results.summary import fixed
from halfwink.runs.comparison import NODE, default_machine

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from halfwink.policies.finding import Technique

Row = dict[str, Any]

#: What Linux does.
USUAL = "menu"
#: Governors, in the order in which one is named of those that save as much.
GOVERNORS = (USUAL, "teo", "haltpoll")
#: Shorter recordings say little: gaps, seconds.
FEW_GAPS, SHORT_S = 1000, 1.0
#: What the kernel chose, and the best state of each gap, in place of a policy.
RECORDED, BEST = "recorded", "best"
#: Part of the error of a file without idle times.
NO_GAPS = "no idle times among"
#: A saving below this, in per cent, is none.
LEAST_PCT = 0.5
#: Where CPUs are told a longest exit latency.
PM_QOS = "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us"


@dataclass(frozen=True)
class IdleGaps:
    """Results of idle policies in recorded idle times. Energies are modelled.

    Attributes:
        file: the recording.
        machine: the server whose states and watts are used.
        recording: format, CPUs, gaps, what was left out, what the kernel chose.
        rows: one for each policy, Linux' menu first; ``recorded`` is what the kernel chose,
            ``best`` the best state of each gap, known beforehand.
        limits: the same of menu under each latency limit, from the shortest.
        goal_us: longest 99th percentile of the wait for a CPU to wake, if one was asked for.
        facts: names and watts of the machine's states, their origin and range.
    """

    file: str
    machine: str
    recording: Row
    rows: list[Row]
    limits: list[Row]
    goal_us: float | None
    facts: Row

    def _repr_html_(self) -> str:
        from halfwink.results.frames import titled

        return titled(f"{self.file} on {self.machine}", self.table())

    def table(self) -> pl.DataFrame:
        """One row per policy; seconds in each idle state are columns of their own."""
        import polars as pl

        flat: list[Row] = []
        for row in self.rows:
            states = zip(self.facts["states"], row["state_s"], strict=True)
            one = {name: value for name, value in row.items() if name != "state_s"}
            one["saved_pct"] = self.saving(row["technique"]).value
            flat.append(one | {f"{name}_s": seconds for name, seconds in states})
        return pl.DataFrame(flat, infer_schema_length=None)

    def chart(self) -> alt.LayerChart:
        """Draws the power of idle CPUs against the 99th percentile of the wait for one, a point for
        each policy."""
        from halfwink.report.idle_chart import idle_chart

        return idle_chart(self)

    def row(self, technique: str) -> Row:
        """The row of a policy."""
        return next(row for row in self.rows if row["technique"] == technique)

    def saving(self, technique: str) -> Saving:
        """Energy of idle CPUs that a policy saves of menu's, in per cent; what they share is not in
        it."""
        return self._beside(self.row(technique), self.row(USUAL))

    def _beside(self, ours: Row, base: Row) -> Saving:
        value = 100 * (1 - ours["energy_j"] / base["energy_j"])
        facts = self.facts
        is_known = facts["basis"] not in ("estimated", "assumed")
        # The best states are those by the file's watts; by others they would not be.
        if is_known or ours is base or ours["technique"] == BEST:
            return Saving(value, is_exact=True)
        low, high = facts["factor"]
        sides = [(one["energy_j"], Watts(self._shares(one), low, high)) for one in (ours, base)]
        return Saving(value, is_exact=True, over_watts=saving_over(sides[0], sides[1]))

    def _shares(self, row: Row) -> dict[str, float]:
        """The energy of each state and of waking, as shares of all of it."""
        names = [*self.facts["states"], "waking", "active"]
        seconds = [*row["state_s"], row["waking_s"], row["tick_s"]]
        joules = [w * s for w, s in zip(self.facts["watts"], seconds, strict=True)]
        whole = sum(joules) or 1.0
        return {name: one / whole for name, one in zip(names, joules, strict=True)}

    def best_of_today(self) -> str:
        """The policy with the least energy of those that can be had today, menu if none saves. A
        governor stands before one state for all gaps that saves no more than it."""
        today = [name for name in self._policies("today") if self._keeps(name)]
        best = max(today, key=lambda name: self.saving(name).value, default=USUAL)
        if self._keeps(USUAL) and self.saving(best).value < LEAST_PCT:
            return USUAL
        least = self.saving(best).value - LEAST_PCT
        as_good = [n for n in GOVERNORS if n in today and self.saving(n).value >= least]
        return as_good[0] if as_good and best not in GOVERNORS else best

    def _policies(self, need: str) -> list[str]:
        """Returns policies that need this."""
        real = [r["technique"] for r in self.rows if r["technique"] not in (RECORDED, BEST)]
        return [name for name in real if needs(name, NODE) == need]

    def _keeps(self, technique: str) -> bool:
        return self.goal_us is None or self.row(technique)["latency_p99_us"] <= self.goal_us

    def limit(self) -> Row | None:
        """The row of the latency limit to set: the least energy within the goal; none if menu has
        that with the longest one, or only polling keeps the goal."""
        goal, whole = self.goal_us, self.limits[-1]
        kept = [r for r in self.limits if goal is None or r["latency_p99_us"] <= goal]
        best = min(kept, key=lambda row: row["energy_j"], default=whole)
        is_worth_it = best["energy_j"] <= (1 - LEAST_PCT / 100) * whole["energy_j"]
        if best is whole or best["limit_us"] == 0 or not (is_worth_it or whole not in kept):
            return None
        return best if self._is_decided(self._beside(best, whole)) or whole not in kept else None

    def _is_decided(self, saved: Saving) -> bool:
        """Returns whether a saving has the same sign over all watts that are assumed."""
        return saved.over_watts is None or saved.over_watts[0] * saved.over_watts[1] > 0

    @property
    def is_short(self) -> bool:
        """True if the recording is too short to set anything by it."""
        return self.recording["gaps"] < FEW_GAPS or self.recording["length_s"] < SHORT_S

    def sentences(self) -> list[str]:
        """Returns what was found, the answer first."""
        return [
            *self._advice(),
            *self._limit(),
            self._choices(),
            *self._kernel(),
            self._together(),
            *self._packages(),
            *self._rests_on(),
        ]

    def _advice(self) -> list[str]:
        best, usual = self.best_of_today(), self.row(USUAL)
        goal = "" if self.goal_us is None else f" within a p99 of {short_time(self.goal_us)}"
        if best == USUAL and not self._keeps(USUAL):
            line = f"No idle policy of today that was played wakes CPUs{goal}"
            lines = [f"{line}: {USUAL}'s p99 is {short_time(usual['latency_p99_us'])}."]
        elif best == USUAL:
            lines = [f"Keep {USUAL}, Linux' default: {self._no_other(goal)}."]
        else:
            why = "" if self._keeps(USUAL) else f"it wakes CPUs{goal}, {USUAL} does not; "
            lines = [f"Set {best}: {why}in these gaps it {self._compared(best)}."]
        if self.is_short:
            of = self.recording
            lines.append(
                f"{_count(of['gaps'], 'idle time')} in {of['length_s']:.3g} s say little: record "
                "for longer before you set anything."
            )
        least = self.saving(best).value
        for need, words in (("kernel", "a changed kernel"), ("silicon", "new hardware")):
            names = [n for n in self._policies(need) if self._keeps(n)]
            # What a package saves stands in a sentence of its own.
            names = [n for n in names if self.row(n)["asleep_pct"] is None]
            name = max(names, key=lambda one: self.saving(one).value, default=best)
            if self.saving(name).value >= least + LEAST_PCT:
                lines.append(f"With {words}, {name} {self._compared(name)}.")
                least = self.saving(name).value
        most = self.saving(BEST)
        lines.append(
            f"The best state of each gap, known beforehand, {self._words(most)}: no policy over "
            "the states on sale can save more."
        )
        return lines

    def _no_other(self, goal: str) -> str:
        played = self._policies("today")
        # A policy that was not played may save more: Linux' other governor above all.
        add = next((f": add {name}" for name in GOVERNORS[:2] if name not in played), "")
        if played == [USUAL]:
            return f"of what runs today only {USUAL} was played{add}"
        line = "in these gaps no other policy of today that was played saves"
        return f"{line} {LEAST_PCT:g} % of the idle energy{goal}{add}"

    def _compared(self, technique: str) -> str:
        row, usual = self.row(technique), self.row(USUAL)
        saved = self.saving(technique)
        line = f"{self._words(saved)} of the idle energy of CPUs against {USUAL}"
        if saved.value <= -LEAST_PCT:
            line = f"takes {_per_cent(saved.opposite)} more idle energy than {USUAL}"
        if not self._is_decided(saved):
            line += ", so measure it"
        before, now = (short_time(r["latency_p99_us"]) for r in (usual, row))
        waits = f"p99 of wake-ups {now}" if before == now else f"p99 of wake-ups {before} -> {now}"
        return f"{line}, {waits}"

    def _words(self, saved: Saving) -> str:
        if abs(saved.value) < LEAST_PCT:
            return "saves nothing"
        if saved.value < 0:
            return f"takes {_per_cent(saved.opposite)} more"
        return f"saves {_per_cent(saved)}"

    def _limit(self) -> list[str]:
        """The latency limit to set, with its price both ways."""
        whole, found = self.limits[-1], self.limit()
        if len(self.limits) < 3:
            return []
        if found is not None:
            limit = found["limit_us"]
            first = "Set" if self.best_of_today() == USUAL else f"Or keep {USUAL} and set"
            price = self._price(found, whole, is_set=True)
            lines = [f"{first} a latency limit of {short_time(limit)}: it {price}."]
            if not self.is_short:
                lines.append(f"  for f in {PM_QOS}; do echo {ceil(limit)} > $f; done")
            return lines
        if self.goal_us is not None and not self._keeps(USUAL):
            least = min(row["latency_p99_us"] for row in self.limits if row["limit_us"] != 0)
            if least > self.goal_us:
                line = f"No latency limit but polling keeps a p99 of {short_time(self.goal_us)}"
                return [f"{line}: with the shortest it is {short_time(least)}."]
        shorter = self.limits[-2]
        price = self._price(shorter, whole)
        line = f"Set no latency limit: one of {_us(shorter['limit_us'])} would {price}"
        if not self._is_decided(self._beside(shorter, whole)):
            line = "Whether a latency limit pays hangs on watts that are assumed: one of "
            line += f"{_us(shorter['limit_us'])} would {price}"
        return [f"{line}."]

    def _price(self, row: Row, whole: Row, *, is_set: bool = False) -> str:
        saved = self._beside(row, whole)
        verb = ("saves" if is_set else "save") if saved.value > 0 else "costs" if is_set else "cost"
        least = saved if saved.value > 0 else saved.opposite
        before, now = (short_time(r["latency_mean_us"]) for r in (whole, row))
        tails = (short_time(r["latency_p99_us"]) for r in (whole, row))
        amount = "nothing" if abs(saved.value) < 0.05 else _per_cent(least)
        return f"{verb} {amount}, and wake-ups take {before} -> {now}, p99 {' -> '.join(tails)}"

    def _choices(self) -> str:
        row = self.row(USUAL)
        lost = [100 * row[name] / row["energy_j"] for name in ("deep_j", "shallow_j")]
        line = (
            f"{USUAL} chooses right in {fixed(row['right_pct'], 1)} % of the gaps, too deep in "
            f"{fixed(row['deep_pct'], 1)} % ({fixed(lost[0], 1)} % of its energy), too shallow in "
            f"{fixed(row['shallow_pct'], 1)} % ({fixed(lost[1], 1)} %)"
        )
        if row["swallowed"]:
            waking = fixed(100 * row["swallowed"] / row["gaps"], 1)
            line += f", and was still waking from the one before in {waking} %"
        return f"{line}."

    def _kernel(self) -> list[str]:
        """Returns what the kernel chose, and how it judged that."""
        found: list[str] = []
        known = [row for row in self.rows if row["agrees_pct"] is not None]
        chosen = self.recording["chosen"]
        unknown = [str(state["number"]) for state in chosen if state["name"] is None]
        if unknown:
            names = ", ".join(self.facts["states"])
            found.append(
                f"The kernel chose states that {self.machine} does not have here (number "
                f"{', '.join(unknown)}): name them by --states (it has {names})."
            )
        elif any(row["technique"] == RECORDED for row in self.rows):
            line = f"What the kernel chose {self._words(self.saving(RECORDED))} against {USUAL}"
            states = ", ".join(f"{s['name']} {s['gaps']:,}" for s in chosen)
            agree = {row["technique"]: row["agrees_pct"] for row in known}
            found.append(
                f"{line} (gaps: {states}); {USUAL} begins as they did in "
                f"{fixed(agree[USUAL], 0)} % of the gaps."
            )
        deep, shallow = (self.recording[f"kernel_{which}"] for which in ("deep", "shallow"))
        if deep is not None:
            found.append(f"The kernel itself counted {deep:,} too deep, {shallow:,} too shallow.")
        return found

    def _together(self) -> str:
        of = self.recording
        cpus = f"All {of['cpus']} recorded CPUs" if of["cpus"] > 1 else "The recorded CPU"
        verb = "are idle at once" if of["cpus"] > 1 else "is idle"
        line = f"{cpus} {verb} {fixed(of['all_idle_pct'], 1)} % of the time"
        if of["all_idle_us"] is not None:
            line += f", {short_time(of['all_idle_us'])} in the mean"
        return f"{line}."

    def _packages(self) -> list[str]:
        """Returns what the sleep of what CPUs share is worth."""
        of, base = self.recording, self.row(USUAL)
        lines: list[str] = []
        for row in self.rows:
            if row["asleep_pct"] is None:
                continue
            less = row["package_saved_j"] / of["length_s"]
            others = max(self.facts["cores"] - of["cpus"], 0)
            # All of the server's cores have to rest as these do.
            cores = (of["cpus"] + others) / of["cpus"]
            more = cores * (row["energy_j"] - base["energy_j"]) / of["length_s"]
            asleep = fixed(row["asleep_pct"], 1)
            line = f"Under {row['technique']} what the CPUs share sleeps {asleep} % of the time"
            line += f", {less:.3g} W less"
            if abs(more) >= 0.005:
                line += f", while idle cores take {abs(more):.3g} W {_sign(more)}"
                line += f": {abs(more - less):.3g} W {_sign(more - less)} in all"
            if others:
                # Of cores that know nothing of each other all have to be idle by chance.
                alone = row["asleep_pct"] * (of["all_idle_pct"] / 100) ** (others / of["cpus"])
                line += f" (if the server's other {others} cores are idle at the times of these; "
                own = f"{fixed(alone, 1)} % of the time" if alone >= 0.05 else "hardly ever"
                line += f"at times of their own it sleeps {own})"
            lines.append(f"{line}.")
        return lines

    def _rests_on(self) -> list[str]:
        of, left = self.recording, self.recording["left_out"]
        line = (
            f"Watts are those of {self.machine} ({self.facts['basis']}), not measured; idle times "
            "are as recorded, with the exit from the state that the kernel chose in them."
        )
        lost = [
            f"{_count(left[key], what)} {rest}"
            for key, what, rest in (
                ("lost_events", "event", "that the recorder lost"),
                ("broken_gaps", "gap", "with missing events or a clock that stepped"),
                ("bad_lines", "line", "that cannot be read"),
            )
            if left[key]
        ]
        lines = [line]
        if lost:
            lines.append(f"Left out: {', '.join(lost)}.")
        if of["cpus"] > self.facts["cores"]:
            lines.append(
                f"{of['cpus']} CPUs were recorded and the server has {self.facts['cores']} cores: "
                "threads are counted as cores, so that watts are too high."
            )
        return lines


def idle(
    file: str | os.PathLike[str],
    *,
    machine: str | None = None,
    techniques: Technique | Sequence[Technique] | None = None,
    limit_us: float | None = None,
    p99_us: float | None = None,
    states: Sequence[str] = (),
    set: Settings | None = None,
    ignore: Sequence[str] = (),
) -> IdleGaps:
    """Plays idle policies in the idle times of a recording.

    Args:
        file: text of ``power:cpu_idle`` (perf script, trace-cmd report, ftrace, idlestat), or CSV
            with the columns ``cpu,begin_us,end_us``; ``-`` is standard input.
        machine: server of today, or a file.
        techniques: idle policies, also of your own (`halfwink.policies`), and package states;
            Linux' menu is always among them. If none is named, the usual ones whose states the
            machine has.
        limit_us: longest exit latency that is allowed, in microseconds.
        p99_us: longest 99th percentile of wake-ups, in microseconds, for the advice.
        states: the machine's states by their numbers in the recorded kernel (``poll, c1, c6``).
        set: values of the server to change, by path.
        ignore: ``bad-lines`` plays a recording with many lines that cannot be read.

    Raises:
        HalfwinkError: a name, a value or a file that cannot be, in one line.
    """
    for name, value in (("limit", limit_us), ("p99", p99_us)):
        if value is not None and not 0 <= value < 1e9:
            raise HalfwinkError(f"{name}: {value} us, expected a number of 0 or more")
    if unknown := [word for word in ignore if word != "bad-lines"]:
        raise HalfwinkError(f"ignore: `{unknown[0]}`, expected bad-lines")
    on = machine or default_machine(NODE)
    found = stoppable(
        lambda control: _core.idle(
            library(),
            control,
            Path(file),
            on,
            pairs(set),
            technique_list(techniques) or [],
            limit_us=limit_us,
            states=list(states),
            any_bad="bad-lines" in ignore,
        )
    )
    facts = {name: found[name] for name in ("states", "watts", "basis", "factor", "cores")}
    name = "standard input" if str(file) == "-" else str(file)
    return IdleGaps(name, on, found["recording"], found["rows"], found["limits"], p99_us, facts)


def _per_cent(saved: Saving) -> str:
    """A saving with its range over the watts that are assumed."""
    if saved.over_watts is None:
        return f"{fixed(saved.value, 1)} %"
    low, high = (fixed(end, 1) for end in saved.over_watts)
    return f"{fixed(saved.value, 1)} % ({low} to {high} over the watts assumed)"


def _sign(watts: float) -> str:
    return "more" if watts > 0 else "less"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def short_time(us: float) -> str:
    """A time, of which less than ten nanoseconds is not told apart."""
    return "<0.01 us" if 0 < us < 0.01 else wording.duration(us)


def _us(value: float) -> str:
    return short_time(value) if value else "0 us (polling)"

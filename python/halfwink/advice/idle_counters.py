"""Counters of idle time: how long CPUs were in each idle state, how often, and how often wrongly.

They have no idle times, so that no other policy can be played in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from halfwink.results import wording
from halfwink.results.summary import fixed

#: Wrong choices of a state above which gaps are worth recording, in per cent.
MANY_PCT = 10.0
#: Fewer stays than this say nothing.
FEW = 100


@dataclass
class Counted:
    """Counters of a state, over all CPUs.

    Attributes:
        name: the kernel's name of it.
        stays: number of times that it was entered, if that was counted.
        deep: stays shorter than its residency (``above``), if that was counted.
        shallow: stays for which a deeper state was worth it (``below``), if that was counted.
        rejected: entries that the hardware refused, if that was counted.
        time: time in it, in any unit that all states share.
        seconds: time in it in seconds, if the unit is known.
        stay_us: mean length of a stay in microseconds, if it is known.
    """

    name: str
    stays: int | None = 0
    deep: int | None = None
    shallow: int | None = None
    rejected: int | None = None
    time: float = 0.0
    seconds: float | None = None
    stay_us: float | None = None

    def wrong_pct(self, which: str) -> float | None:
        """Returns the share of stays that were too ``deep`` or too ``shallow``, in per cent."""
        count = getattr(self, which)
        return None if count is None or not self.stays else 100 * count / self.stays


@dataclass(frozen=True)
class IdleCounters:
    """Counters of idle time by state.

    Attributes:
        file: name of the file.
        format: format that the file was read as.
        cpus: CPUs that were counted.
        states: states, the shallowest first.
        idle_pct: share of its time that each CPU was idle, in per cent, by its name; empty if the
            file does not tell.
        package_pct: share of the time that packages slept, in per cent, if hardware counted it.
        notes: sentences about what was left out.
        untold: beginning of the sentence about the limits of this format.
    """

    file: str
    format: str
    cpus: int
    states: list[Counted] = field(default_factory=list[Counted])
    idle_pct: dict[str, float] = field(default_factory=dict[str, float])
    package_pct: float | None = None
    notes: tuple[str, ...] = ()
    untold: str = "Counters do not tell how long each idle time was"

    def share_pct(self, state: Counted) -> float:
        """Returns the share of the idle time in a state, in per cent."""
        return 100 * state.time / (sum(one.time for one in self.states) or 1.0)

    def mean_idle_pct(self) -> float | None:
        """Returns the share of the CPUs' time that they were idle, in per cent, if it is known."""
        shares = self.idle_pct.values()
        return sum(shares) / len(shares) if shares else None

    def all_idle_pct(self) -> tuple[float, float] | None:
        """Returns bounds on the share of the time in which all CPUs were idle, in per cent.

        They hold however the CPUs' idle times lie to each other (Frechet's inequalities): at most
        the share of the busiest CPU, at least what the busy times of all leave over.
        """
        if not self.idle_pct:
            return None
        shares = self.idle_pct.values()
        return max(0.0, 100 - sum(100 - share for share in shares)), min(shares)

    def sentences(self) -> list[str]:
        """Returns what the counters say, and what they do not."""
        lines: list[str] = []
        counted = [state.stays for state in self.states if state.stays is not None]
        if counted:
            lines.append(self._wrong(sum(counted)))
        lines += self._idle()
        if len(self.states) > 1:
            most = max(self.states, key=self.share_pct)
            line = f"{most.name} has {fixed(self.share_pct(most), 1)} % of the idle time"
            if most.stay_us is not None:
                line += f", {wording.duration(most.stay_us)} at a stay in the mean"
            lines.append(f"{line}.")
        refused = [s for s in self.states if s.rejected]
        lines += [f"The hardware refused {s.name} {s.rejected:,} times." for s in refused]
        lines += self.notes
        lines.append(
            f"{self.untold}, so no other policy and no latency "
            "limit can be priced: record the idle times, as docs/idle.md says."
        )
        return lines

    def _idle(self) -> Iterable[str]:
        """Yields the idle share of the CPUs, and bounds for all of them at once."""
        bounds, mean = self.all_idle_pct(), self.mean_idle_pct()
        if bounds is None or mean is None:
            return
        if len(self.idle_pct) == 1:
            yield f"The CPU is idle {fixed(mean, 1)} % of the time."
        else:
            busiest = min(self.idle_pct, key=self.idle_pct.__getitem__)
            least, most = (fixed(bound, 1) for bound in bounds)
            between = most if least == most else f"{least} to {most}"
            yield (
                f"{len(self.idle_pct)} CPUs are idle {fixed(mean, 1)} % of the time in the mean, "
                f"CPU {busiest} the least with {most} %: all are idle at once in {between} % of "
                "the time, in which a package could sleep."
            )
        if self.package_pct is not None:
            yield f"Packages slept {fixed(self.package_pct, 1)} % of the time."

    def _wrong(self, stays: int) -> str:
        if stays < FEW:
            return f"{stays} stays in idle states are too few to say anything."
        known = [s for s in self.states if s.deep is not None and s.shallow is not None]
        if not known:
            return "Whether states were chosen rightly was not counted (above, below)."
        whole = sum(s.stays or 0 for s in known) or 1
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

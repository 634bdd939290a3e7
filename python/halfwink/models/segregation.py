"""Ways to keep kernel and user apart in a second-level cache, all over one recorded stream.

from halfwink.models import segregation_sweep

found = segregation_sweep("apache", l2="256KB")
found.best()  # the best scheme of each kind, beside one LRU stack
found.schemes  # all of them: every split, every pair of insertion ranks
found.chart()  # gain by split and by ranks
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from halfwink.jobs import Settings, names, pairs
from halfwink.library import library
from halfwink.results.frames import Frames, frames

if TYPE_CHECKING:
    import altair as alt

#: Kinds of schemes that choose for themselves while they run.
ADAPTIVE = ("bank-choice", "way-allocator", "ucp")


@dataclass(frozen=True)
class SegregationSweep(Frames):
    """Effects of sharing rules on one workload's references to its second level.

    Time is modelled: an instruction a cycle, and every look-up and every miss waited for (Nellans
    2014, Sec 4.5.2, 5.1).

    Attributes:
        schemes: a row for each rule: what it sets, reads and misses by privilege, what they cost
            in cycles, and ``gain_pct``, per cent of throughput over one LRU stack with the
            latencies asked for; ``equal_gain_pct``, the same with a bank as slow as the whole.
        facts: values by name: instructions, the kernel's share, misses per thousand instructions if
            each set had the best rule of a kind for itself.
        curves: hits by route, side and recency: a side with n ways hits the first n sums.
    """

    schemes: pl.DataFrame
    facts: pl.DataFrame
    curves: pl.DataFrame

    def fact(self, name: str) -> float:
        """The value of a fact."""
        return self.facts.filter(fact=name)["value"].item()

    def best(self) -> pl.DataFrame:
        """Returns the rule of each kind with the most throughput at equal latency: the static
        optimum of those that are fixed, by kind of bank look-up, too. The one LRU stack comes
        first.
        """
        ranked = self.schemes.with_row_index("order").sort(
            ["equal_gain_pct", "order"], descending=[True, False]
        )
        kinds = ranked.group_by("scheme", "look_up", maintain_order=True).first()
        head = pl.col("scheme") != "lru"
        return kinds.sort([head, "equal_gain_pct"], descending=[False, True]).drop("order")

    def chart(self) -> alt.VConcatChart:
        """Gain over one LRU stack at equal latency: by split and route, and by insertion ranks."""
        from halfwink.report.segregation_charts import split_and_ranks

        return split_and_ranks(self)


def segregation_sweep(
    workload: str,
    *,
    l1: str = "16KB:2",
    l2: str = "1MB:16",
    only: str | Sequence[str] = (),
    set: Settings | None = None,
) -> SegregationSweep:
    """Plays every way to share a second level over a workload that runs on one core.

    Args:
        workload: name of a workload, or a trace.
        l1: size and ways of each first-level cache.
        l2: size and ways of the second; 16 ways if none are said.
        only: kinds of schemes to play beside ``lru``; all if none are named.
        set: ``whole_cycles`` (12), ``bank_cycles`` (9), ``memory_cycles`` (350), ``write_backs``
            (false: as `halfwink trace kernel` counts), ``stores_stall`` (true),
            ``sides`` (``privilege``; ``page``, a control that is blind to it; ``swapped``),
            ``epochs_shortened_by`` (25: of policies that adapt), ``l1_split`` (``none``; what each
            first-level cache keeps apart: ``data``, ``instructions``, ``both``).

    Raises:
        HalfwinkError: a name is unknown, or a value is impossible.
    """
    shape = l2 if ":" in l2 else f"{l2}:16"
    kinds = ",".join(names(only))
    asked = [("l1", l1), ("l2", shape), *([("only", kinds)] if kinds else []), *pairs(set)]
    return SegregationSweep(**frames(library().segregation(workload, asked)))

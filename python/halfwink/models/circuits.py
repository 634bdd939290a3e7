"""Circuits instead of a core of packet switches: closed forms, and weeks of circuits.

from halfwink.models import circuit_schedule, fabric

found = fabric("optical-core")
found.days  # duty, bandwidth and mean round trip by length of day
found.savings  # power of a data centre with either core, by demand and utilisation
found.chart().save("saved.html")

week = circuit_schedule("demand.csv")
week.week  # slots: length of a day, pairs of racks that are joined
week.chart().save("week.html")
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import polars as pl

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text
from halfwink.jobs import Settings, pairs
from halfwink.library import library
from halfwink.results.frames import Frames, frames

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True)
class Fabric(Frames):
    """Closed forms of a fabric (Strong 2013, Sec 4.2). Everything is modelled.

    Attributes:
        facts: values of its switch, by name.
        days: a length of day and a number of circuits that share a port: duty (percent), bandwidth
            of all usable ports (gigabits per second), mean round trip of a short message
            (microseconds).
        savings: a demand and a utilisation of servers: power for each server with a core of packet
            switches and with one of circuits (watts), what circuits save (percent).
        trees: levels and radix of a scale-out network: servers, switches.
    """

    facts: pl.DataFrame
    days: pl.DataFrame
    savings: pl.DataFrame
    trees: pl.DataFrame

    def answer(self) -> str:
        """Returns in a sentence what an optical core saves at the least and the highest demand.

        Raises:
            HalfwinkError: the fabric says nothing of a data centre.
        """
        if self.savings.is_empty():
            raise HalfwinkError("nothing to draw: the fabric has no [data_centre]")
        ends = self.savings.group_by("demand_gbps").agg(
            low=pl.min("saved_pct"), high=pl.max("saved_pct")
        )
        told = [
            f"{row['low']:.0f} to {row['high']:.0f} % at {row['demand_gbps']:g} Gb/s a server"
            for row in ends.sort("demand_gbps", descending=True).iter_rows(named=True)
        ]
        ends = ", ".join(dict.fromkeys([told[0], told[-1]]))
        return f"A core of circuits saves of a data centre's power {ends}"

    def chart(self) -> alt.Chart:
        """Draws the saving of an optical core by utilisation of servers, a line for each demand.

        Raises:
            HalfwinkError: the fabric says nothing of a data centre.
        """
        import altair as alt

        from halfwink.report.palette import DASHES, TECHNIQUES

        answer = self.answer()
        demands = self.savings["demand_gbps"].unique().sort().to_list()
        title = "Gb/s for each server"
        colours = alt.Scale(domain=demands, range=list(TECHNIQUES[1 : 1 + len(demands)]))
        dashes = alt.Scale(domain=demands, range=[list(dash) for dash in DASHES[: len(demands)]])
        return (
            alt.Chart(self.savings)
            .mark_line(point=True)
            .encode(
                x=alt.X("utilisation_pct", title="utilisation of servers, %"),
                y=alt.Y("saved_pct", title="power saved (modelled), %"),
                color=alt.Color("demand_gbps:N", title=title, scale=colours),
                strokeDash=alt.StrokeDash("demand_gbps:N", title=title, scale=dashes),
            )
            .properties(
                title=alt.TitleParams(wrap(answer, 48), anchor="start"), width=480, height=280
            )
        )


def fabric(name: str = "optical-core", *, set: Settings | None = None) -> Fabric:
    """Computes a fabric's closed forms: ``optical-core``, ``mordia``, or a TOML file.

    Args:
        name: which.
        set: values to change, as ``{"switch.reconfiguration_us": 20}``.

    Raises:
        HalfwinkError: there is none of that name, or a value is impossible.
    """
    return Fabric(**frames(library().fabric(name, pairs(set))))


@dataclass(frozen=True)
class Schedule(Frames):
    """A week of circuits.

    Attributes:
        week: slots: length of the day (microseconds), circuits as ``0>1 1>2``.
        facts: hosts, slots, sums of days and nights, duty, and how far a sum of shares is from one.
    """

    week: pl.DataFrame
    facts: pl.DataFrame

    def circuits(self) -> pl.DataFrame:
        """Returns a row for each circuit: ``slot``, ``sender`` and ``receiver`` (numbers from 0),
        and the time in which it is up, ``begin_us`` and ``end_us``, in microseconds from the begin
        of the week. Each slot begins with its night, in which the switch reconfigures."""
        facts = dict(self.facts.iter_rows())
        # All nights are as long.
        night_us = (facts["week_us"] - facts["days_us"]) / max(1.0, facts["slots"])
        ends = (pl.col("day_us") + night_us).cum_sum()
        pair = pl.col("circuits").str.split(">").list
        return (
            self.week.with_columns(ends.alias("end_us"))
            .with_columns((pl.col("end_us") - pl.col("day_us")).alias("begin_us"))
            .with_columns(pl.col("circuits").str.split(" "))
            .explode("circuits")
            .select(
                "slot",
                pair.get(0).cast(pl.Int64).alias("sender"),
                pair.get(1).cast(pl.Int64).alias("receiver"),
                "begin_us",
                "end_us",
            )
        )

    def answer(self) -> str:
        """Returns in a sentence how the week is divided, and what the circuits of a sender get."""
        facts = dict(self.facts.iter_rows())
        shares = (
            self.circuits()
            .group_by("sender", "receiver")
            .agg((pl.col("end_us") - pl.col("begin_us")).sum() * 100 / facts["week_us"])["end_us"]
        )
        low, high = shares.min(), shares.max()
        days = "1 day" if facts["slots"] == 1 else f"{facts['slots']:.0f} days"
        line = f"{days} of {facts['hosts']:.0f} hosts in {facts['week_us']:.1f} us, "
        line += f"{facts['duty_pct']:.1f} % of it day"
        if low is None or high is None:
            return line
        told = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
        return f"{line}; a circuit is up for {told} % of the week"

    def chart(self) -> alt.Chart:
        """Draws the week: the receiver of each sender over time.

        Raises:
            HalfwinkError: the week has no circuit.
        """
        import altair as alt

        return self.drawn((560, 320)).properties(
            title=alt.TitleParams(wrap(self.answer(), 80), anchor="start")
        )

    def drawn(self, size: tuple[int, int]) -> alt.Chart:
        """Draws the same without its title, in so many pixels of width and height.

        Raises:
            HalfwinkError: the week has no circuit.
        """
        import altair as alt

        from halfwink.report.palette import MANY_PARTS

        circuits = self.circuits()
        if circuits.is_empty():
            raise HalfwinkError("nothing to draw: the week has no circuit")
        receivers = circuits["receiver"].unique().sort().to_list()
        is_few = len(receivers) <= len(MANY_PARTS)
        named = alt.Color(
            "receiver:N",
            title="receiver",
            scale=alt.Scale(domain=receivers, range=list(MANY_PARTS[: len(receivers)])),
        )
        # Of many receivers no two neighbours can be told apart: the order of their colours shows
        # how the circuits move on.
        ordered = alt.Color("receiver:Q", title="receiver", scale=alt.Scale(scheme="viridis"))
        return (
            alt.Chart(circuits)
            .mark_bar()
            .encode(
                x=alt.X(
                    "begin_us:Q",
                    title="time in the week (us); gaps: nights",
                    scale=alt.Scale(nice=False),
                ),
                x2="end_us:Q",
                y=alt.Y("sender:O", title="sender", scale=alt.Scale(paddingInner=0.1)),
                color=named if is_few else ordered,
                tooltip=[alt.Tooltip(name) for name in circuits.columns],
            )
            .properties(width=size[0], height=size[1])
        )


def circuit_schedule(
    demand: Path | str,
    *,
    scheduler: str = "traffic-matrix",
    week_us: float = 3000.0,
    night_us: float = 11.5,
    shortest_us: float = 61.0,
    gbps: float = 10.0,
) -> Schedule:
    """Plans a week of circuits for a demand (Strong 2013, Sec 4.1; Liu 2015).

    Args:
        demand: a file with a line for each sender: bytes for each receiver, by commas.
        scheduler: ``traffic-matrix`` (shares of the week) or ``solstice`` (until all is served).
        week_us: length of a week with its nights, in microseconds; of Solstice the most.
        night_us: length of a night, in microseconds.
        shortest_us: shortest day, in microseconds.
        gbps: rate of a circuit, in gigabits per second.

    Raises:
        HalfwinkError: the file cannot be read, or a line or value is wrong.
    """
    content = read_text(demand)
    times = (float(week_us), float(night_us), float(shortest_us))
    found = _core.circuit_schedule(str(demand), content, scheduler, times, float(gbps))
    return Schedule(**frames(found))

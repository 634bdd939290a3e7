"""Circuits instead of a core of packet switches: what closed forms say of them.

import halfwink as hw

found = hw.fabric("optical-core")
found.days  # duty, bandwidth and mean round trip by length of day
found.savings  # power of a data centre with either core, by demand and utilisation
found.chart().save("saved.html")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from halfwink.frames import Frames, frames
from halfwink.jobs import Settings, pairs
from halfwink.library import library

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

    def chart(self) -> alt.Chart:
        """What an optical core saves, by utilisation of servers, a line for each demand.

        Raises:
            HalfwinkError: the fabric says nothing of a data centre.
        """
        import altair as alt

        from halfwink.errors import HalfwinkError

        if self.savings.is_empty():
            raise HalfwinkError("nothing to draw: the fabric has no [data_centre]")
        return (
            alt.Chart(self.savings)
            .mark_line(point=True)
            .encode(
                x=alt.X("utilisation_pct", title="utilisation of servers, %"),
                y=alt.Y("saved_pct", title="power saved (modelled), %"),
                color=alt.Color("demand_gbps:N", title="Gb/s for each server"),
            )
            .properties(
                title="What a core of circuits saves of a data centre's power",
                width=480,
                height=280,
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

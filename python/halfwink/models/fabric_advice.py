"""Which fabric and which schedule of circuits suits a traffic: energy against time.

from halfwink.models import circuit_advice

found = circuit_advice("data-mining@10", machines=["opera-648", "hybrid-648"])
found.best()  # of those within a tenth of the fastest, the one that takes least energy
found.front  # those that no other beats in both
found.chart().save("advice.html")
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.jobs import Settings, names
from halfwink.library import root
from halfwink.runs import comparison
from halfwink.runs.batch import Progress

if TYPE_CHECKING:
    import altair as alt

#: What is compared unless techniques are named: one of each kind.
TECHNIQUES = (
    "packet-switch",
    "static-circuits",
    "round-robin",
    "rotor",
    "opera",
    "traffic-matrix",
    "solstice",
    "most-needed",
    "edmonds",
    "hedera",
)
#: Times that are as good as the least one, to whoever asks for energy.
AS_FAST = 1.1
#: What is halved and doubled for :attr:`CircuitAdvice.sensitivity`.
VARIED = (
    "switch.reconfiguration_us",
    "racks.power.circuit_port_w",
    "racks.power.packet_w_per_gbps",
    "racks.power.transceiver_w",
    "racks.hop_us",
)
FACTORS = (0.5, 2.0)
#: Columns of the measures of time, the first that a workload has.
MEASURES = {"group_mean_ms": "mean time of a group, ms", "latency_p99_us": "99 % of flows end, us"}

#: Pixels of the chart, and what it leaves free around its points; places that get names, at most.
SIZE, PADDING, MOST_LABELS = (620, 400), 24, 20


@dataclass(frozen=True)
class CircuitAdvice:
    """Energy and time of one traffic on fabrics, each with several schedules. All is modelled.

    Attributes:
        workload: workload that was sent.
        measure: column of ``runs`` that is the time: of a group (an iteration of a training job, a
            coflow) in milliseconds where there are groups, else within which 99 % of flows end, in
            microseconds.
        runs: a row for each machine and technique: ``j_per_gb`` and ``network_j_per_gb`` (without
            servers), completion times, ways; ``is_front`` if no other takes both less energy and
            less time.
        sensitivity: both measures for each technique of the front and each value that was halved or
            doubled, and whether it was still on the front; empty unless requested.
    """

    workload: str
    measure: str
    runs: pl.DataFrame
    sensitivity: pl.DataFrame

    @property
    def front(self) -> pl.DataFrame:
        """Returns the runs that no other run beats in both measures, fastest first."""
        return self.runs.filter("is_front").sort(self.measure)

    def best(self) -> dict[str, Any]:
        """Returns the row with the least energy among those at most a tenth slower than the
        fastest.

        Raises:
            HalfwinkError: no technique carried the whole load.
        """
        if self.front.is_empty():
            raise HalfwinkError(f"{self.workload}: no technique carried all of it in time")
        fastest = self.front[self.measure].min()
        near = self.front.filter(pl.col(self.measure) <= AS_FAST * pl.lit(fastest))
        return near.sort("j_per_gb").row(0, named=True)

    def answers(self) -> list[str]:
        """Answers a reader's questions, a line each: the fastest technique, the one with the least
        energy among those at most a tenth slower, and the one with the least energy of all.
        """
        if self.front.is_empty():
            return [f"no technique carried all of {self.workload} in time"]
        fastest = self.front.row(0, named=True)
        leanest = self.front.sort("j_per_gb").row(0, named=True)
        several = self.runs["machine"].n_unique() > 1
        rows = {"fastest": fastest, "at most a tenth slower": self.best(), "leanest": leanest}
        lines: dict[tuple[str, str], str] = {}
        for what, row in rows.items():
            name = f"{row['technique']} on {row['machine']}" if several else row["technique"]
            line = f"{what}: {name}, {row['j_per_gb']:.4g} J/GB"
            if row is not fastest:
                saved = 1 - row["j_per_gb"] / fastest["j_per_gb"]
                slower = row[self.measure] / fastest[self.measure] - 1
                line += f", {saved:.0%} less, {slower:.1%} slower"
            lines.setdefault((row["machine"], row["technique"]), line)
        return list(lines.values())

    def chart(self) -> alt.LayerChart | alt.FacetChart:
        """Draws energy against time, the front as a line.

        Raises:
            HalfwinkError: no technique carried the whole load.
        """
        import altair as alt

        from halfwink.report.labels import FONT

        heading = alt.Title(self.workload, subtitle=self.answers())
        drawn = self.drawn(SIZE, FONT).properties(title=heading)
        return drawn.configure_legend(orient="bottom").configure_title(anchor="start")

    def drawn(self, size: tuple[int, int], font: float) -> alt.LayerChart | alt.FacetChart:
        """Draws the same without its heading.

        Args:
            size: width and height, in pixels.
            font: size of the labels' font, in pixels.

        Raises:
            HalfwinkError: no technique carried the whole load.
        """
        import altair as alt

        from halfwink.report.labels import FONT, labels, marks, pixels
        from halfwink.report.palette import SHAPES, colours_of, numbers_of

        whole = self.runs.filter(pl.col(self.measure).is_not_null(), pl.col("ended_pct") >= 100)
        if whole.is_empty():
            raise HalfwinkError(f"{self.workload}: no technique carried all of it in time")
        time, title, factor = _axis(self.measure, whole)
        whole = whole.with_columns((factor * pl.col(self.measure)).alias(time))
        across, up = (
            pixels(whole[name].log().to_list(), length, PADDING)
            for name, length in zip((time, "j_per_gb"), size, strict=True)
        )
        # Labels are placed as for their usual font: all else is as much larger or smaller.
        unit = FONT / font
        points = [(unit * x, unit * (size[1] - over)) for x, over in zip(across, up, strict=True)]
        room = round(unit * size[0]), round(unit * size[1])
        found = labels(points, whole["technique"].to_list(), room, MOST_LABELS)
        rows = [
            whole.row(it.point, named=True) | {"names": it.names, "side": it.side} for it in found
        ]
        schema = {**whole.schema, "names": pl.String, "side": pl.String}
        scale = alt.Scale(type="log", nice=False, padding=PADDING)
        ticks = alt.Axis(tickCount=5)
        x = alt.X(time, title=title, scale=scale, axis=ticks)
        y = alt.Y("j_per_gb", title="J/GB (modelled)", scale=scale, axis=ticks)
        machines = whole["machine"].unique(maintain_order=True).to_list()
        techniques = whole["technique"].unique(maintain_order=True).to_list()
        colour_of = colours_of(techniques)
        colours = alt.Scale(domain=techniques, range=[colour_of[name] for name in techniques])
        # Shapes tell machines apart, or techniques where there is one machine.
        told, kinds = ("machine:N", machines) if len(machines) > 1 else ("technique:N", techniques)
        shapes = [SHAPES[n] for n in numbers_of(kinds, len(SHAPES))]
        named = alt.Chart(pl.DataFrame(rows, schema=schema)).encode(x, y)
        line = alt.Chart(whole.filter("is_front")).mark_line(color="#888", strokeDash=[4, 3])
        drawn = alt.Chart(whole).mark_point(filled=True, size=70)
        return alt.layer(
            line.encode(x, y),
            drawn.encode(
                x,
                y,
                color=alt.Color("technique:N", title=None, scale=colours),
                shape=alt.Shape(told, title=None, scale=alt.Scale(domain=kinds, range=shapes)),
            ),
            *marks(named, font),
        ).properties(width=size[0], height=size[1])


def _axis(measure: str, runs: pl.DataFrame) -> tuple[str, str, float]:
    """Column, title and factor of the chart's times: in milliseconds if all take that long."""
    if measure.endswith("_us") and min(runs[measure].to_list()) >= 1e3:
        return measure.removesuffix("_us") + "_ms", MEASURES[measure].replace("us", "ms"), 1e-3
    return measure, MEASURES[measure], 1.0


def circuit_advice(
    workload: str,
    *,
    machines: str | Sequence[str] = "opera-648",
    techniques: str | Sequence[str] = TECHNIQUES,
    duration_ms: float | None = None,
    at_most_ms: float | None = None,
    seed: int | None = None,
    sensitivity: bool = False,
    set: Settings | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> CircuitAdvice:
    """Plays one traffic on fabrics with several schedules, and relates energy to time.

    Args:
        workload: a name (``data-mining@10`` at 10 % load, ``experts-training``), a description
            (``job.toml``), a file of flows (``source destination bytes begin_ns``) or coflows, or
            an execution trace (Chakra): the file of any rank (``trace.0.et``), or its folder.
        machines: fabrics with racks.
        techniques: which circuits come next, with parameters (``round-robin:day_us=1000``).
        duration_ms: time during which flows of an open workload arrive.
        at_most_ms: time limit; flows that are open then stay unfinished.
        seed: seed of all random streams.
        sensitivity: also play those of the front with values halved and doubled.
        set: values of the machines to change.

    Raises:
        HalfwinkError: a name or value that cannot be, or a wrong line of a file.
    """
    options = {"duration_ms": duration_ms, "at_most_ms": at_most_ms, "seed": seed}
    given = {name: value for name, value in options.items() if value is not None}
    values = dict(set or {}) | given

    def play(machine: str, techniques: Sequence[str], more: dict[str, Any]) -> pl.DataFrame:
        found = comparison.compare(
            [workload],
            world="racks",
            machine=machine,
            techniques=techniques,
            set=values | more,
            progress=progress,
        )
        return found.runs.with_columns(pl.lit(machine).alias("machine"))

    chosen = names(techniques)
    runs = pl.concat([play(machine, chosen, {}) for machine in names(machines)])
    measure = "group_mean_ms" if runs["groups"].max() else "latency_p99_us"
    runs = _with_front(runs, measure)
    varied: list[pl.DataFrame] = []
    if sensitivity:
        varied = [
            _with_front(_varied(play, runs.filter("is_front"), values, path, factor), measure)
            for path in VARIED
            for factor in FACTORS
        ]
    heads = ["value", "factor", "machine", "technique", "j_per_gb", measure, "is_front"]
    moved = pl.concat(varied).select(heads) if varied else _none(runs, heads)
    return CircuitAdvice(workload, measure, runs, moved)


def _varied(
    play: Callable[[str, Sequence[str], dict[str, Any]], pl.DataFrame],
    front: pl.DataFrame,
    values: dict[str, Any],
    path: str,
    factor: float,
) -> pl.DataFrame:
    rows: list[pl.DataFrame] = []
    for machine in front["machine"].unique(maintain_order=True):
        now = float(values.get(path, _described(machine, path)))
        techniques = front.filter(machine=machine)["technique"].to_list()
        rows.append(play(machine, techniques, {path: factor * now}))
    more = [pl.lit(path).alias("value"), pl.lit(factor).alias("factor")]
    return pl.concat(rows).with_columns(more)


def _described(machine: str, path: str) -> float:
    """A value as a machine's description has it."""
    named = (
        Path(machine) if machine.endswith(".toml") else root() / f"machines/fabric/{machine}.toml"
    )
    found: Any = tomllib.loads(named.read_text())
    for part in path.split("."):
        found = found[part]
    return float(found)


def _none(runs: pl.DataFrame, heads: Sequence[str]) -> pl.DataFrame:
    named = runs.clear().with_columns(pl.lit("").alias("value"), pl.lit(1.0).alias("factor"))
    return named.select(heads)


def _with_front(runs: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Marks those that carried all, and that no other beats in both."""
    rows = runs.select("j_per_gb", measure, "ended_pct").rows()
    whole = [(j, t) if t is not None and ended >= 100.0 else None for j, t, ended in rows]

    def is_front(own: tuple[float, float] | None) -> bool:
        if own is None:
            return False
        others = (other for other in whole if other is not None and other != own)
        return not any(j <= own[0] and t <= own[1] for j, t in others)

    return runs.with_columns(pl.Series("is_front", [is_front(own) for own in whole]))
